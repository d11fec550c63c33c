"""Bytes of the messages: compact JSON, ids and byte strings as arrays of decimal bytes, dispatched by type tag.

The framing around a payload is `u32 big-endian tag length | tag | payload`, one message a stream.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import orjson

from simharness.systems.swim.config import MAX_INCARNATION, MAX_TEXT_BYTES, json_text_bytes
from simharness.systems.swim.ids import ID_BYTES, NodeId, id_json
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

TAGS: Final[dict[type, str]] = {
    kind: f"swactor_dist::{kind.__name__}"
    for kind in (
        *(Ping, Ack, PingReq, IndirectAck, IndirectNack),
        *(JoinRequest, JoinResponse, RegistryGossip, MetadataGossip),
    )
}
"""Type tag by message class."""

U64_MAX: Final = 2**64 - 1
MAX_LOGICAL: Final = 2**62
"""Highest timestamp or generation of a name or of metadata that is believed."""
NACK_WANTED: Final = b',"nack":true'
"""What a PingReq ends with that asks for a nack too; others have no such field."""

_ZERO: Final = ord("0")
_STATES: Final = {name: MemberState(priority) for priority, name in enumerate(STATE_NAMES)}


class WireError(ValueError):
    """A payload is not what its tag says. `tag` and `detail` say which and why."""

    def __init__(self, tag: str, detail: str) -> None:
        super().__init__(f"{tag}: {detail}")
        self.tag, self.detail = tag, detail


def frame_overhead(tag: str) -> int:
    """Return the bytes around a payload on the wire: the length word and the tag."""
    return 4 + len(tag)


# --- encoding -------------------------------------------------------------------------------------------------------


def update_json(node: NodeId, state: MemberState, incarnation: int, accuser: NodeId | None = None) -> bytes:
    """Return one membership claim as JSON. The accuser of a Suspect, in hex, is there only between nodes with Lifeguard."""
    by = b"" if accuser is None else b',"accuser":"%b"' % accuser.hex().encode()
    return b'{"node_id":%b,"state":"%b","incarnation":%d%b}' % (
        id_json(node),
        STATE_NAMES[state].encode(),
        incarnation,
        by,
    )


def pack_updates(texts: Sequence[bytes]) -> bytes:
    """Return the piggyback of these updates: a JSON array, or no bytes at all."""
    return b"[%b]" % b",".join(texts) if texts else b""


def name_json(entry: NameEntry) -> bytes:
    """Return one registration as JSON."""
    return orjson.dumps(
        {
            "name": entry.name,
            "actor_addr": list(entry.actor_addr),
            "node_id": list(entry.node),
            "timestamp": entry.timestamp,
            "generation": entry.generation,
            "tombstone": entry.tombstone,
        }
    )


def metadata_json(entry: MetadataEntry) -> bytes:
    """Return one metadata entry as JSON."""
    return orjson.dumps(
        {
            "node_id": list(entry.node),
            "relay_url": entry.relay_url,
            "node_name": entry.node_name,
            "generation": entry.generation,
        }
    )


def pack_combined(membership: bytes, names: Iterable[NameEntry], metadata: Iterable[MetadataEntry]) -> bytes:
    """Return the deployed three-part piggyback: membership as a byte array beside names and metadata."""
    return b'{"membership":%b,"registry":[%b],"metadata":[%b]}' % (
        _byte_array(membership),
        b",".join(map(name_json, names)),
        b",".join(map(metadata_json, metadata)),
    )


def _byte_array(blob: bytes) -> bytes:
    return orjson.dumps(list(blob)) if blob else b"[]"


def _probe(message: Any) -> bytes:
    blob = message.piggyback
    return b'{"from":%b,"sequence":%d,"piggyback":%b}' % (
        id_json(message.sender),
        message.sequence,
        orjson.dumps(list(blob)) if blob else b"[]",
    )


def _ping_req(message: Any) -> bytes:
    return b'{"from":%b,"target":%b,"sequence":%d,"piggyback":%b%b}' % (
        id_json(message.sender),
        id_json(message.target),
        message.sequence,
        _byte_array(message.piggyback),
        NACK_WANTED if message.nack else b"",
    )


def _indirect_ack(message: Any) -> bytes:
    return b'{"target":%b,"sequence":%d,"piggyback":%b}' % (
        id_json(message.target),
        message.sequence,
        _byte_array(message.piggyback),
    )


def _indirect_nack(message: Any) -> bytes:
    return b'{"from":%b,"target":%b,"sequence":%d}' % (
        id_json(message.sender),
        id_json(message.target),
        message.sequence,
    )


def _join_request(message: Any) -> bytes:
    return b'{"from":%b}' % id_json(message.sender)


def _join_response(message: Any) -> bytes:
    return b'{"members":[%b]}' % b",".join([update_json(*record) for record in message.members])


def _registry(message: Any) -> bytes:
    return b'{"from":%b,"entries":[%b]}' % (id_json(message.sender), b",".join(map(name_json, message.entries)))


def _metadata(message: Any) -> bytes:
    return b'{"from":%b,"entries":[%b]}' % (id_json(message.sender), b",".join(map(metadata_json, message.entries)))


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    Ping: _probe,
    Ack: _probe,
    PingReq: _ping_req,
    IndirectAck: _indirect_ack,
    IndirectNack: _indirect_nack,
    JoinRequest: _join_request,
    JoinResponse: _join_response,
    RegistryGossip: _registry,
    MetadataGossip: _metadata,
}


def encode(message: Message) -> bytes:
    """Return the payload of `message`; its tag is `TAGS[type(message)]`."""
    return _ENCODERS[type(message)](message)


# --- decoding -------------------------------------------------------------------------------------------------------

_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
_Id = Annotated[list[_Byte], msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
_Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _ProbeBody(msgspec.Struct, rename={"sender": "from"}):
    sender: _Id
    sequence: _Natural
    piggyback: list[_Byte] = []


class _PingReqBody(msgspec.Struct, rename={"sender": "from"}):
    sender: _Id
    target: _Id
    sequence: _Natural
    piggyback: list[_Byte] = []
    nack: bool = False


class _IndirectBody(msgspec.Struct):
    target: _Id
    sequence: _Natural
    piggyback: list[_Byte] = []


class _NackBody(msgspec.Struct, rename={"sender": "from"}):
    sender: _Id
    target: _Id
    sequence: _Natural


class _JoinRequestBody(msgspec.Struct, rename={"sender": "from"}):
    sender: _Id


class _RecordBody(msgspec.Struct):
    node_id: _Id
    state: Literal["Alive", "Suspect", "Dead"]
    incarnation: _Natural
    accuser: _Hex | None = None


class _JoinResponseBody(msgspec.Struct):
    members: list[_RecordBody]


class _NameBody(msgspec.Struct):
    name: str
    actor_addr: _Id
    node_id: _Id
    timestamp: _Natural
    generation: _Natural
    tombstone: bool


class _MetadataBody(msgspec.Struct):
    node_id: _Id
    relay_url: str | None
    node_name: str | None
    generation: _Natural


class _RegistryBody(msgspec.Struct, rename={"sender": "from"}):
    sender: _Id
    entries: list[_NameBody]


class _MetadataGossipBody(msgspec.Struct, rename={"sender": "from"}):
    sender: _Id
    entries: list[_MetadataBody]


class _CombinedBody(msgspec.Struct):
    membership: list[_Byte]
    registry: list[_NameBody] = []
    metadata: list[_MetadataBody] = []


_decode_id = msgspec.json.Decoder(_Id).decode
_decode_probe = msgspec.json.Decoder(_ProbeBody).decode
_decode_ping_req = msgspec.json.Decoder(_PingReqBody).decode
_decode_indirect = msgspec.json.Decoder(_IndirectBody).decode
_decode_nack = msgspec.json.Decoder(_NackBody).decode
_decode_join_request = msgspec.json.Decoder(_JoinRequestBody).decode
_decode_join_response = msgspec.json.Decoder(_JoinResponseBody).decode
_decode_registry = msgspec.json.Decoder(_RegistryBody).decode
_decode_metadata = msgspec.json.Decoder(_MetadataGossipBody).decode
_decode_updates = msgspec.json.Decoder(list[_RecordBody]).decode
_decode_combined = msgspec.json.Decoder(_CombinedBody).decode


def _id(array: list[int]) -> NodeId:
    return NodeId(bytes(array))


def _u64(value: int) -> int:
    if value > U64_MAX:
        raise ValueError(f"{value} does not fit 64 bits")
    return value


def _record(body: _RecordBody) -> Record:
    return Record(_id(body.node_id), _STATES[body.state], body.incarnation)


def _name(body: _NameBody) -> NameEntry:
    stamp, generation = _logical(body.timestamp), _logical(body.generation)
    return NameEntry(_text(body.name), _id(body.actor_addr), _id(body.node_id), stamp, generation, body.tombstone)


def _meta(body: _MetadataBody) -> MetadataEntry:
    relay_url = None if body.relay_url is None else _text(body.relay_url)
    node_name = None if body.node_name is None else _text(body.node_name)
    return MetadataEntry(_id(body.node_id), relay_url, node_name, _logical(body.generation))


def _logical(value: int) -> int:
    # A logical clock at the very end could not be outbid, as with incarnations (ruling S3).
    if value > MAX_LOGICAL:
        raise ValueError(f"{value} leaves a logical clock no room")
    return value


def _text(text: str) -> str:
    # What is longer could not be passed on within the smallest byte cap.
    if json_text_bytes(text) > MAX_TEXT_BYTES:
        raise ValueError(f"a text of more than {MAX_TEXT_BYTES} bytes")
    return text


@lru_cache(maxsize=65_536)
def _sender_of(text: bytes) -> NodeId:
    return NodeId(bytes(_decode_id(text)))


def _probe_fields(payload: bytes) -> tuple[NodeId, int, bytes]:
    """Return the fields of a Ping or an Ack. One without gossip, byte for byte as this package writes it, is the common case."""
    end = payload.find(b"]") + 1
    number = payload[end + 12 : -16]
    if (
        payload.startswith(b'{"from":[')
        and payload.startswith(b',"sequence":', end)
        and payload.endswith(b',"piggyback":[]}')
        and number.isdigit()
        and (number[0] != _ZERO or len(number) == 1)
    ):
        return _sender_of(payload[8:end]), _u64(int(number)), b""
    body = _decode_probe(payload)
    return _id(body.sender), _u64(body.sequence), bytes(body.piggyback)


def _read_ping(payload: bytes) -> Ping:
    sender, sequence, piggyback = _probe_fields(payload)
    return Ping(sender=sender, sequence=sequence, piggyback=piggyback)


def _read_ack(payload: bytes) -> Ack:
    sender, sequence, piggyback = _probe_fields(payload)
    return Ack(sender=sender, sequence=sequence, piggyback=piggyback)


def _read_ping_req(payload: bytes) -> PingReq:
    body = _decode_ping_req(payload)
    return PingReq(
        sender=_id(body.sender),
        target=_id(body.target),
        sequence=_u64(body.sequence),
        piggyback=bytes(body.piggyback),
        nack=body.nack,
    )


def _read_indirect_ack(payload: bytes) -> IndirectAck:
    body = _decode_indirect(payload)
    return IndirectAck(target=_id(body.target), sequence=_u64(body.sequence), piggyback=bytes(body.piggyback))


def _read_nack(payload: bytes) -> IndirectNack:
    body = _decode_nack(payload)
    return IndirectNack(sender=_id(body.sender), target=_id(body.target), sequence=_u64(body.sequence))


def _read_join_request(payload: bytes) -> JoinRequest:
    return JoinRequest(sender=_id(_decode_join_request(payload).sender))


def _read_join_response(payload: bytes) -> JoinResponse:
    return JoinResponse(members=tuple(map(_record, _decode_join_response(payload).members)))


def _read_registry(payload: bytes) -> RegistryGossip:
    body = _decode_registry(payload)
    return RegistryGossip(sender=_id(body.sender), entries=tuple(map(_name, body.entries)))


def _read_metadata(payload: bytes) -> MetadataGossip:
    body = _decode_metadata(payload)
    return MetadataGossip(sender=_id(body.sender), entries=tuple(map(_meta, body.entries)))


_READERS: Final[dict[str, Callable[[bytes], Message]]] = {
    TAGS[Ping]: _read_ping,
    TAGS[Ack]: _read_ack,
    TAGS[PingReq]: _read_ping_req,
    TAGS[IndirectAck]: _read_indirect_ack,
    TAGS[IndirectNack]: _read_nack,
    TAGS[JoinRequest]: _read_join_request,
    TAGS[JoinResponse]: _read_join_response,
    TAGS[RegistryGossip]: _read_registry,
    TAGS[MetadataGossip]: _read_metadata,
}


def decode(tag: str, payload: bytes) -> Message:
    """Read a payload as its tag says; unknown fields are ignored and a missing piggyback is empty.

    Raises:
        WireError: If the tag is unknown, the JSON is no such message, a number is out of range, or data trails.
    """
    reader = _READERS.get(tag)
    if reader is None:
        raise WireError(tag, "unknown type tag")
    try:
        return reader(payload)
    except ValueError as error:  # msgspec's errors are ValueErrors too
        raise WireError(tag, str(error)) from None


class Gossip(NamedTuple):
    """A piggyback, read: the size of its membership part, and its lists."""

    membership_bytes: int
    updates: tuple[Record, ...] = ()
    accusers: tuple[NodeId | None, ...] = ()
    """Whose own probe stands behind each of the updates (Lifeguard), None where that is not told."""
    names: tuple[NameEntry, ...] = ()
    metadata: tuple[MetadataEntry, ...] = ()


def unpack(piggyback: bytes) -> Gossip:
    """Read a non-empty piggyback, plain or combined: both forms meet in a cluster of mixed versions.

    Raises:
        WireError: If it is neither.
    """
    try:
        if piggyback.startswith(b"{"):
            body = _decode_combined(piggyback)
            membership = bytes(body.membership)
            names, metadata = tuple(map(_name, body.registry)), tuple(map(_meta, body.metadata))
            return Gossip(len(membership), *_updates(membership), names, metadata)
        return Gossip(len(piggyback), *_updates(piggyback))
    except ValueError as error:
        raise WireError("piggyback", str(error)) from None


def _updates(membership: bytes) -> tuple[tuple[Record, ...], tuple[NodeId | None, ...]]:
    bodies = _decode_updates(membership) if membership else []
    return tuple(map(_record, bodies)), tuple(map(_accuser, bodies))


def _accuser(body: _RecordBody) -> NodeId | None:
    return None if body.accuser is None else NodeId(bytes.fromhex(body.accuser))


def malformed_claim(record: Record) -> str | None:
    """Return why a claim may not be believed by anyone (ruling S3), or None."""
    if record.incarnation > MAX_INCARNATION:
        return f"incarnation {record.incarnation} is above 2**63-1"
    if record.incarnation == MAX_INCARNATION and record.state is not MemberState.ALIVE:
        return f"{STATE_NAMES[record.state]} at 2**63-1 could not be refuted"
    return None
