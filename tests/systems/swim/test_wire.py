"""Bytes: reference vectors, a plain oracle, round trips, refusals (reference section 4)."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simharness.systems.swim.config import MIN_LIFEGUARD_BYTES
from simharness.systems.swim.ids import NodeId, id_json
from simharness.systems.swim.members import STATE_NAMES, MemberState
from simharness.systems.swim.messages import (
    Ack,
    IndirectAck,
    IndirectNack,
    JoinRequest,
    JoinResponse,
    Message,
    MetadataEntry,
    MetadataGossip,
    NameEntry,
    Ping,
    PingReq,
    Record,
    RegistryGossip,
)
from simharness.systems.swim.sizes import ARRAY_BASE, nested_bytes, nested_cost, payload_size
from simharness.systems.swim.wire import (
    TAGS,
    WireError,
    decode,
    encode,
    frame_overhead,
    malformed_claim,
    pack_combined,
    pack_updates,
    unpack,
    update_json,
)

ALIVE, SUSPECT, DEAD = MemberState


def same(byte: int) -> NodeId:
    return NodeId(bytes([byte]) * 32)


V1 = pack_updates([update_json(same(1), ALIVE, 1), update_json(same(2), SUSPECT, 2)])
V7 = JoinResponse(members=(Record(same(6), ALIVE, 7), Record(same(7), SUSPECT, 8), Record(same(8), DEAD, 9)))
V8 = pack_combined(V1, (), ())
VECTORS = {
    "V0": (encode(Ping(sender=same(1), sequence=42)), 103, "2ad292841c9bd22d"),
    "V1": (V1, 223, "3379ddca0abb1c42"),
    "V2": (encode(Ping(sender=same(1), sequence=42, piggyback=V1)), 820, "547b9e33bb16fdc7"),
    "V3": (encode(Ack(sender=same(2), sequence=43, piggyback=V1)), 820, "64938dc1c4c53c61"),
    "V4": (encode(PingReq(sender=same(3), target=same(4), sequence=44, piggyback=V1)), 895, "25a975a8792efc93"),
    "V5": (encode(IndirectAck(target=same(5), sequence=45, piggyback=V1)), 822, "1898867c92b9d00a"),
    "V6": (encode(JoinRequest(sender=same(6))), 74, "0c7c42bbef9c0d43"),
    "V7": (encode(V7), 344, "72c6173b8086af19"),
    "V8": (V8, 762, "84675ac9f473d781"),
    "V9": (encode(Ping(sender=same(1), sequence=42, piggyback=V8)), 2_412, "fc56214a0407d147"),
}


@pytest.mark.spec("§6.4", "SWIM codec parity with production")
@pytest.mark.parametrize(("data", "length", "digest"), VECTORS.values(), ids=VECTORS)
def test_reference_vectors(data: bytes, length: int, digest: str) -> None:
    """V0 to V9, byte for byte."""
    assert (len(data), hashlib.sha256(data).hexdigest()[:16]) == (length, digest)


def test_v10_the_two_part_form_is_read() -> None:
    """V10: the older combined piggyback without metadata still unpacks to the same membership."""
    two_part = V8.replace(b',"metadata":[]', b"")
    assert (len(two_part), hashlib.sha256(two_part).hexdigest()[:16]) == (748, "b22aaa0608c83556")
    assert unpack(two_part) == unpack(V8)
    assert unpack(V8)[:2] == unpack(V1)[:2] == (223, (Record(same(1), ALIVE, 1), Record(same(2), SUSPECT, 2)))


def test_frame_overheads() -> None:
    """Four bytes and the tag (ruling N19)."""
    found = [frame_overhead(TAGS[kind]) for kind in (Ping, Ack, PingReq, IndirectAck, JoinRequest, JoinResponse)]
    assert found == [22, 21, 25, 29, 29, 30]


def test_what_lifeguard_adds_to_the_wire() -> None:
    """F4: a field at the end of a PingReq, one at the end of a claim, one kind; plain messages are what they were."""
    plain = encode(PingReq(sender=same(3), target=same(4), sequence=44))
    assert encode(PingReq(sender=same(3), target=same(4), sequence=44, nack=True)) == plain[:-1] + b',"nack":true}'
    claim = update_json(same(2), SUSPECT, 2)
    assert update_json(same(2), SUSPECT, 2, same(9)) == claim[:-1] + b',"accuser":"' + b"09" * 32 + b'"}'
    nack = IndirectNack(sender=same(1), target=same(2), sequence=7)
    assert TAGS[IndirectNack] == "swactor_dist::IndirectNack"
    assert encode(nack) == b'{"from":%b,"target":%b,"sequence":7}' % (id_json(same(1)), id_json(same(2)))
    gossip = unpack(pack_updates([claim, update_json(same(2), SUSPECT, 2, same(9))]))
    assert gossip.updates == (Record(same(2), SUSPECT, 2),) * 2
    assert gossip.accusers == (None, same(9))
    for wrong in (b'"09"', b"9", b'"' + b"0G" * 32 + b'"'):
        with pytest.raises(WireError):
            unpack(b"[" + claim[:-1] + b',"accuser":' + wrong + b"}]")


def test_the_smallest_cap_with_lifeguard_fits_any_accusation() -> None:
    """F4: the largest PingReq with one claim of the largest size is no larger than the least cap."""
    most = NodeId(bytes([255]) * 32)
    text = update_json(most, SUSPECT, 2**63 - 2, NodeId(b"\xff" * 32))
    request = PingReq(sender=most, target=most, sequence=2**64 - 1, piggyback=pack_updates([text]), nack=True)
    assert 1_000 < payload_size(request) <= MIN_LIFEGUARD_BYTES


IDS = st.binary(min_size=32, max_size=32).map(NodeId)
U64 = st.integers(0, 2**64 - 1)
BLOBS = st.binary(max_size=60)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
RECORDS = st.builds(Record, IDS, st.sampled_from(MemberState), st.integers(0, 2**63 - 1))
LOGICAL = st.integers(0, 2**62)
NAMES = st.builds(NameEntry, TEXTS, IDS, IDS, LOGICAL, LOGICAL, st.booleans())
TOLD = st.builds(MetadataEntry, IDS, st.none() | TEXTS, st.none() | TEXTS, LOGICAL)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Ping, sender=IDS, sequence=U64, piggyback=BLOBS),
    st.builds(Ack, sender=IDS, sequence=U64, piggyback=BLOBS),
    st.builds(PingReq, sender=IDS, target=IDS, sequence=U64, piggyback=BLOBS, nack=st.booleans()),
    st.builds(IndirectNack, sender=IDS, target=IDS, sequence=U64),
    st.builds(IndirectAck, target=IDS, sequence=U64, piggyback=BLOBS),
    st.builds(JoinRequest, sender=IDS),
    st.builds(JoinResponse, members=st.lists(RECORDS, max_size=4).map(tuple)),
    st.builds(RegistryGossip, sender=IDS, entries=st.lists(NAMES, max_size=3).map(tuple)),
    st.builds(MetadataGossip, sender=IDS, entries=st.lists(TOLD, max_size=3).map(tuple)),
)


def plain(message: Any) -> dict[str, Any]:
    """The message as plain data in the order of the wire, without any shortcut."""
    fields: dict[str, Any] = {}
    for source, target in (
        ("sender", "from"),
        ("target", "target"),
        ("sequence", "sequence"),
        ("piggyback", "piggyback"),
    ):
        if hasattr(message, source):
            value = getattr(message, source)
            fields[target] = list(value) if isinstance(value, bytes) else value
    if isinstance(message, PingReq) and message.nack:
        fields["nack"] = True
    if isinstance(message, JoinResponse):
        fields["members"] = [
            {"node_id": list(node), "state": STATE_NAMES[state], "incarnation": incarnation}
            for node, state, incarnation in message.members
        ]
    if isinstance(message, RegistryGossip):
        names = ("name", "actor_addr", "node_id", "timestamp", "generation", "tombstone")
        fields["entries"] = [dict(zip(names, map(as_json, entry), strict=True)) for entry in message.entries]
    if isinstance(message, MetadataGossip):
        names = ("node_id", "relay_url", "node_name", "generation")
        fields["entries"] = [dict(zip(names, map(as_json, entry), strict=True)) for entry in message.entries]
    return fields


def as_json(value: Any) -> Any:
    return list(value) if isinstance(value, bytes) else value


@given(message=MESSAGES)
def test_the_encoder_equals_plain_json(message: Message) -> None:
    """Concatenation gives what `json.dumps` gives of the plain object, and sizes are known without encoding."""
    text = json.dumps(plain(message), separators=(",", ":"), ensure_ascii=False).encode()
    assert encode(message) == text
    assert payload_size(message) == len(text)


@pytest.mark.spec("§6.4", "Codec is invertible (every kind)")
@given(message=MESSAGES)
def test_decode_inverts_encode(message: Message) -> None:
    """Every message comes back from its tag and bytes."""
    assert decode(TAGS[type(message)], encode(message)) == message


@given(message=MESSAGES)
def test_the_tag_decides_and_never_the_shape(message: Message) -> None:
    """Ping and Ack have one shape and two meanings: the same bytes under the other tag are the other message."""
    if isinstance(message, Ping):
        other = decode(TAGS[Ack], encode(message))
        assert other == Ack(sender=message.sender, sequence=message.sequence, piggyback=message.piggyback)


@given(blob=st.binary(max_size=200))
@example(blob=bytes(range(256)))
def test_nested_size(blob: bytes) -> None:
    """The size of a byte array is known without rendering it."""
    assert nested_bytes(blob) == len(json.dumps(list(blob), separators=(",", ":")))


@given(records=st.lists(RECORDS, min_size=1, max_size=5))
def test_costs_add_up(records: list[Record]) -> None:
    """The piggyback in a message costs its base and the costs of its updates, exactly; and it unpacks in order."""
    texts = [update_json(*record) for record in records]
    assert nested_bytes(pack_updates(texts)) == ARRAY_BASE + sum(map(nested_cost, texts))
    assert unpack(pack_updates(texts)).updates == tuple(records)


ID1 = json.dumps([1] * 32)


def registry_of(name: str, timestamp: int) -> str:
    entry = f'"actor_addr":{ID1},"node_id":{ID1},"timestamp":{timestamp},"generation":1,"tombstone":false'
    return f'{{"from":{ID1},"entries":[{{"name":"{name}",{entry}}}]}}'


@given(
    sender=st.sampled_from([ID1, ID1.replace(" ", ""), "[1]", "[", json.dumps([True] * 32), '{"a":[1]}']),
    middle=st.sampled_from([',"sequence":', ',"sequence": ', ',"seq":', ',"x":[],"sequence":']),
    number=st.sampled_from(["0", "7", "007", "", "-1", "1.5", "1e3", str(2**64 - 1), str(2**64), '1,"y":2']),
    end=st.sampled_from([',"piggyback":[]}', "}", ',"piggyback":[1]}', ',"piggyback":[]}x', ',"piggyback": []}']),
)
def test_the_short_way_through_the_decoder_is_the_long_way(sender: str, middle: str, number: str, end: str) -> None:
    """Whatever almost looks like a bare probe is read, or refused, as plain JSON would be."""
    text = f'{{"from":{sender}{middle}{number}{end}'
    try:
        plainly = json.loads(text)
        ids, sequence, blob = plainly["from"], plainly["sequence"], plainly.get("piggyback", [])
        good = len(ids) == 32 and all(type(byte) is int for byte in ids) and type(sequence) is int
        expected = Ping(sender=NodeId(bytes(ids)), sequence=sequence, piggyback=bytes(blob))
        good = good and 0 <= sequence < 2**64
    except (ValueError, KeyError, TypeError):
        good = False
    if good:
        assert decode(TAGS[Ping], text.encode()) == expected
    else:
        with pytest.raises(WireError):
            decode(TAGS[Ping], text.encode())


@pytest.mark.parametrize(
    ("tag", "payload"),
    [
        ("swactor_dist::Pong", "{}"),
        ("swactor_dist::Ping", "not json"),
        ("swactor_dist::Ping", "[]"),
        ("swactor_dist::Ping", f'{{"from":{ID1}}}'),
        ("swactor_dist::Ping", f'{{"from":{ID1},"sequence":1}}x'),
        ("swactor_dist::Ping", f'{{"from":{ID1},"sequence":-1}}'),
        ("swactor_dist::Ping", f'{{"from":{ID1},"sequence":1.0}}'),
        ("swactor_dist::Ping", f'{{"from":{ID1},"sequence":true}}'),
        ("swactor_dist::Ping", f'{{"from":{ID1},"sequence":{2**64}}}'),
        ("swactor_dist::Ping", f'{{"from":{json.dumps([1] * 31)},"sequence":1}}'),
        ("swactor_dist::Ping", f'{{"from":{json.dumps([256] * 32)},"sequence":1}}'),
        ("swactor_dist::Ping", f'{{"from":{json.dumps([True] * 32)},"sequence":1}}'),
        ("swactor_dist::Ping", f'{{"from":{ID1},"sequence":1,"piggyback":[-1]}}'),
        ("swactor_dist::PingReq", f'{{"from":{ID1},"sequence":1}}'),
        ("swactor_dist::JoinResponse", f'{{"members":[{{"node_id":{ID1},"state":"Gone","incarnation":0}}]}}'),
        ("swactor_dist::MetadataGossip", f'{{"from":{ID1},"entries":[{{"node_id":{ID1},"generation":1}}]}}'),
        ("swactor_dist::RegistryGossip", registry_of("n", 2**62 + 1)),
        ("swactor_dist::RegistryGossip", registry_of("n" * 300, 1)),
    ],
)
def test_malformed_payloads_are_refused(tag: str, payload: str) -> None:
    """Unknown tag, bad JSON, missing field, wrong type, wrong length, out of range, trailing data: one structured error."""
    with pytest.raises(WireError) as caught:
        decode(tag, payload.encode())
    assert caught.value.tag == tag
    assert "\n" not in caught.value.detail


def test_a_missing_piggyback_is_empty_and_unknown_fields_are_ignored() -> None:
    """What a later version adds does not stop an older one."""
    payload = f'{{"from":{ID1},"sequence":{2**64 - 1},"new":{{"a":[true]}}}}'.encode()
    assert decode(TAGS[Ping], payload) == Ping(sender=same(1), sequence=2**64 - 1)


@pytest.mark.parametrize("blob", [b"garbage", b"{}", b"[1]", b'{"membership":[1]}', b"\xff"])
def test_a_garbage_piggyback_is_an_error(blob: bytes) -> None:
    """Neither form fits: nothing is unpacked."""
    with pytest.raises(WireError):
        unpack(blob)


@pytest.mark.parametrize(
    ("state", "incarnation", "good"),
    [
        (SUSPECT, 2**63 - 2, True),
        (SUSPECT, 2**63 - 1, False),
        (DEAD, 2**63 - 1, False),
        (ALIVE, 2**63 - 1, True),
        (ALIVE, 2**63, False),
        (SUSPECT, 2**64, False),
    ],
)
def test_claims_beyond_refutation_are_malformed(state: MemberState, incarnation: int, good: bool) -> None:
    """Ruling S3: no Suspect or Dead at 2**63-1, nothing above it."""
    assert (malformed_claim(Record(same(1), state, incarnation)) is None) == good
