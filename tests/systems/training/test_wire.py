"""Messages: lengths by the law of the design, round trips, refusals; states and their digests."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.training.plan import Member
from simharness.systems.training.state import TrainState, bitmap, digest, from_bytes, mask, to_bytes
from simharness.systems.training.wire import (
    HEADER,
    TAGS,
    Chunk,
    ChunkRequest,
    Commit,
    Contribution,
    Header,
    Heartbeat,
    Holding,
    Message,
    Params,
    Push,
    Ready,
    State,
    StateRequest,
    Suspect,
    View,
    WireError,
    contributions_bytes,
    contributions_of,
    decode,
    encode,
)

U8, U16, U32 = st.integers(0, 2**8 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)
DIGEST = st.binary(min_size=16, max_size=16)
HEAD = st.builds(Header, U32, U32, U32, U32, U16, U16)
HOLDING = st.builds(Holding, U32, U32, DIGEST)
CONTRIBUTIONS = st.lists(st.builds(Contribution, U16, U32, U32, st.integers(0, 2**16)), max_size=5).map(tuple)
VECTOR = st.integers(0, 6).flatmap(lambda n: st.binary(min_size=8 * n, max_size=8 * n))
IDS = st.lists(U32, max_size=6).map(tuple)
MEMBERS = st.lists(st.builds(Member, U16, U32), max_size=5).map(tuple)


@st.composite
def states(draw: st.DrawFn) -> State:
    """A STATE: the lengths of its parts agree."""
    samples, entries = draw(st.integers(0, 40)), draw(st.integers(0, 5))
    weights, momentum = (draw(st.binary(min_size=8 * entries, max_size=8 * entries)) for _ in range(2))
    return State(draw(HEAD), draw(U32), samples, draw(st.integers(0, 2**samples - 1)), weights, momentum)


MESSAGES = {
    Heartbeat: st.builds(Heartbeat, HEAD, HOLDING, HOLDING, U8, U16),
    View: st.builds(View, HEAD, U32, U32, DIGEST, U16, MEMBERS),
    Chunk: st.builds(Chunk, HEAD, U8, U16, U16, CONTRIBUTIONS.map(contributions_bytes), VECTOR),
    ChunkRequest: st.builds(ChunkRequest, HEAD, U8, U16),
    Ready: st.builds(Ready, HEAD, DIGEST, DIGEST, CONTRIBUTIONS),
    Commit: st.builds(Commit, HEAD, DIGEST),
    Suspect: st.builds(Suspect, HEAD, U16),
    StateRequest: st.builds(StateRequest, HEAD),
    State: states(),
    Params: st.builds(Params, HEAD, U32, DIGEST, IDS, VECTOR),
    Push: st.builds(Push, HEAD, U32, DIGEST, U32, IDS, VECTOR),
}


def lawful(m: Message) -> int:
    """Return the length that the table of the design gives."""
    match m:
        case Heartbeat():
            return 72
        case View():
            return 48 + 6 * len(m.members)
        case Chunk():
            return 28 + len(m.contributions) + len(m.payload)
        case ChunkRequest() | Suspect():
            return 24
        case Ready():
            return 60 + 14 * len(m.contributions)
        case Commit():
            return 36
        case StateRequest():
            return 20
        case State():
            return 32 + (m.samples + 7) // 8 + 2 * len(m.weights)
        case Params():
            return 44 + 4 * len(m.ids) + len(m.weights)
        case Push():
            return 48 + 4 * len(m.ids) + len(m.payload)


def test_every_message_is_tried() -> None:
    """The strategies cover all tags."""
    assert list(MESSAGES) == list(TAGS)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_bytes(kind: type[Message], data: st.DataObject) -> None:
    """Lengths are the law, what is decoded is what was encoded, the header stands first, and no shorter bytes are taken."""
    message = data.draw(MESSAGES[kind])
    wire = encode(message)
    assert len(wire) == lawful(message)
    assert decode(TAGS[kind], wire) == message
    assert Header(*HEADER.unpack_from(wire)) == message.head
    with pytest.raises(WireError):
        decode(TAGS[kind], wire[:-1])


@given(contributions=CONTRIBUTIONS)
def test_contributions_travel_whole(contributions: tuple[Contribution, ...]) -> None:
    """14 bytes each, and they come back in the same order."""
    travelling = contributions_bytes(contributions)
    assert len(travelling) == 14 * len(contributions)
    assert contributions_of(travelling) == contributions


def test_layout_by_example() -> None:
    """One message by its bytes: a layout that changed on both sides alike would pass a round trip."""
    own = contributions_bytes((Contribution(9, 10, 11, 12),))
    chunk = Chunk(Header(1, 2, 3, 4, 5, 6), 1, 7, 8, own, struct.pack("<d", 0.5))
    assert encode(chunk).hex() == (
        "01000000020000000300000004000000050006000100070008000100" + "09000a0000000b0000000c000000" + "000000000000e03f"
    )


def test_refusals() -> None:
    """An unknown tag, a list cut short, counts that do not sum, a vector that is no whole number of floats."""
    with pytest.raises(WireError, match="unknown tag"):
        decode("PING", b"")
    ready = encode(Ready(Header(0, 1, 0, 1, 0), bytes(16), bytes(16), (Contribution(0, 1, 1, 4),)))
    with pytest.raises(WireError, match="counts"):
        decode("READY", ready[:52] + struct.pack("<I", 5) + ready[56:])
    push = encode(Push(Header(0, 1, 0, 1, 0), 1, bytes(16), 2, (1, 2), b""))
    with pytest.raises(WireError, match="ids"):
        decode("PUSH", push[:-4])
    with pytest.raises(WireError, match="contributions"):
        decode("CHUNK", encode(Chunk(Header(0, 1, 0, 1, 0), 1, 0, 0, bytes(14), b""))[:-4])


@given(step=U32, generation=U32, epoch=U32, ids=st.lists(st.integers(0, 40)), vector=VECTOR)
def test_checkpoints(step: int, generation: int, epoch: int, ids: list[int], vector: bytes) -> None:
    """A checkpoint gives the state back; a torn one gives nothing."""
    weights, momentum = vector, vector[::-1]
    state = TrainState(
        step=step,
        generation=generation,
        epoch=epoch,
        consumed=mask(tuple(ids)),
        samples=41,
        weights=weights,
        momentum=momentum,
    )
    form = to_bytes(state)
    assert from_bytes(form) == state
    assert all(from_bytes(form[:cut]) is None for cut in range(len(form)))
    assert from_bytes(form[:-20] + bytes([form[-20] ^ 1]) + form[-19:]) is None


def test_digests_say_which_part() -> None:
    """Ruling G1: each part has its own digest; the generation is in none of them; their digest names the state."""
    state = TrainState(step=3, generation=0, epoch=1, consumed=5, samples=9, weights=b"w" * 8, momentum=b"m" * 8)
    parts = state.digests()
    assert parts.whole == digest(parts.weights + parts.momentum + parts.cursor)
    assert parts.weights == digest(b"w" * 8)
    assert parts.cursor == digest(struct.pack("<II", 3, 1) + b"\x05\x00")
    assert state.in_generation(4).digests() == parts
    assert parts.hex() == [part.hex() for part in parts]
    assert bitmap(1 << 8, 9) == b"\x00\x01"
