"""What processes say to each other, and the bytes of it: the type tag travels beside them, lengths are law (design, section 6)."""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from simharness.systems.training.kernel import BYTES
from simharness.systems.training.plan import Member
from simharness.systems.training.state import DIGEST_BYTES

HUB: Final = 0xFFFF
"""The hub's sender index; a worker's is its place among the worker ids in ascending order."""

FRESH: Final = 1
"""Flag of a VIEW: nothing is committed in this generation yet, so `digest` is that of the state itself, and `last_view` is 0."""

HEADER: Final = struct.Struct("<IIIIHH")


class WireError(ValueError):
    """The bytes are no message of their tag."""


class Header(NamedTuple):
    """Where the sender stands. In a READY the flags carry the epoch of the step, modulo 2**16, in a CHUNK its phase and round."""

    generation: int
    view: int
    step: int
    incarnation: int
    sender: int
    flags: int = 0


def round_flags(phase: int, number: int) -> int:
    """Return the flags of a CHUNK: what is seen of a delivery is the header alone, and it says how far a reduction has come."""
    return phase << 8 | number


class Holding(NamedTuple):
    """A state by name: generation, step and digest."""

    generation: int
    step: int
    digest: bytes


class Contribution(NamedTuple):
    """A worker's gradient sum in one step: `seq` counts the gradients of its incarnation."""

    worker: int
    incarnation: int
    seq: int
    samples: int


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """Worker to hub, each tick: what it holds, live and on disk, and where it is in its step."""

    head: Header
    live: Holding
    disk: Holding
    phase: int
    round: int


class View(msgspec.Struct, frozen=True, gc=False):
    """Hub to worker: who trains from `head.step` on, what was committed last, and who has the state to give."""

    head: Header
    last_view: int
    last_step: int
    digest: bytes
    donor: int
    members: tuple[Member, ...]


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Worker to successor: a part of the sum, and the contributions that are in it, so that divisor and data cannot part.

    They are passed on as they travel (`contributions_bytes`): nobody on the way has to know them one by one.
    """

    head: Header
    phase: int
    round: int
    index: int
    contributions: bytes
    payload: bytes


class ChunkRequest(msgspec.Struct, frozen=True, gc=False):
    """Worker to predecessor: the chunk of this round has not come."""

    head: Header
    phase: int
    round: int


class Ready(msgspec.Struct, frozen=True, gc=False):
    """Worker to hub: the reduction of this step is whole here and can be applied to the state `base`."""

    head: Header
    reduction: bytes
    base: bytes
    contributions: tuple[Contribution, ...]


class Commit(msgspec.Struct, frozen=True, gc=False):
    """Hub to member: the step is decided."""

    head: Header
    reduction: bytes


class Suspect(msgspec.Struct, frozen=True, gc=False):
    """Worker to hub: this peer does not answer."""

    head: Header
    peer: int


class StateRequest(msgspec.Struct, frozen=True, gc=False):
    """Worker to donor: the state of `head.step` is wanted."""

    head: Header


class State(msgspec.Struct, frozen=True, gc=False):
    """Donor to worker: the whole state of `head.step`."""

    head: Header
    epoch: int
    samples: int
    consumed: int
    weights: bytes
    momentum: bytes


class Params(msgspec.Struct, frozen=True, gc=False):
    """Server to worker: the parameters of the step and the samples to use."""

    head: Header
    epoch: int
    base: bytes
    ids: tuple[int, ...]
    weights: bytes


class Push(msgspec.Struct, frozen=True, gc=False):
    """Worker to server: the gradient sum of these samples at `base`."""

    head: Header
    seq: int
    base: bytes
    count: int
    ids: tuple[int, ...]
    payload: bytes


Message = Heartbeat | View | Chunk | ChunkRequest | Ready | Commit | Suspect | StateRequest | State | Params | Push

TAGS: Final[Mapping[type[Message], str]] = {
    Heartbeat: "HEARTBEAT",
    View: "VIEW",
    Chunk: "CHUNK",
    ChunkRequest: "CHUNK_REQ",
    Ready: "READY",
    Commit: "COMMIT",
    Suspect: "SUSPECT",
    StateRequest: "STATE_REQ",
    State: "STATE",
    Params: "PARAMS",
    Push: "PUSH",
}

_HEARTBEAT: Final = struct.Struct("<IIIIHHII16sII16sBHx")
_VIEW: Final = struct.Struct("<IIIIHHII16sHH")
_MEMBER: Final = struct.Struct("<HI")
_CHUNK: Final = struct.Struct("<IIIIHHBxHHH")
_CONTRIBUTION: Final = struct.Struct("<HIII")
_CHUNK_REQ: Final = struct.Struct("<IIIIHHBxH")
_READY: Final = struct.Struct("<IIIIHH16s16sIH2x")
_COMMIT: Final = struct.Struct("<IIIIHH16s")
_SUSPECT: Final = struct.Struct("<IIIIHHH2x")
_STATE: Final = struct.Struct("<IIIIHHIII")
_PARAMS: Final = struct.Struct("<IIIIHHI16sH2x")
_PUSH: Final = struct.Struct("<IIIIHHI16sIH2x")
_FIELDS: Final = len(Header._fields)
_ID: Final = 4


def contributions_bytes(contributions: tuple[Contribution, ...]) -> bytes:
    """Return contributions as they travel."""
    return b"".join([_CONTRIBUTION.pack(*each) for each in contributions])


def _ids(ids: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)


def _heartbeat(m: Heartbeat) -> bytes:
    return _HEARTBEAT.pack(*m.head, *m.live, *m.disk, m.phase, m.round)


def _view(m: View) -> bytes:
    fixed = _VIEW.pack(*m.head, m.last_view, m.last_step, m.digest, m.donor, len(m.members))
    return fixed + b"".join([_MEMBER.pack(*member) for member in m.members])


def _chunk(m: Chunk) -> bytes:
    count = len(m.contributions) // _CONTRIBUTION.size
    return b"".join((_CHUNK.pack(*m.head, m.phase, m.round, m.index, count), m.contributions, m.payload))


def _chunk_request(m: ChunkRequest) -> bytes:
    return _CHUNK_REQ.pack(*m.head, m.phase, m.round)


def _ready(m: Ready) -> bytes:
    count = sum([each.samples for each in m.contributions])
    fixed = _READY.pack(*m.head, m.reduction, m.base, count, len(m.contributions))
    return fixed + contributions_bytes(m.contributions)


def _commit(m: Commit) -> bytes:
    return _COMMIT.pack(*m.head, m.reduction)


def _suspect(m: Suspect) -> bytes:
    return _SUSPECT.pack(*m.head, m.peer)


def _state_request(m: StateRequest) -> bytes:
    return HEADER.pack(*m.head)


def _state(m: State) -> bytes:
    fixed = _STATE.pack(*m.head, m.epoch, m.samples, len(m.weights) // BYTES)
    return b"".join((fixed, m.consumed.to_bytes((m.samples + 7) // 8, "little"), m.weights, m.momentum))


def _params(m: Params) -> bytes:
    return b"".join((_PARAMS.pack(*m.head, m.epoch, m.base, len(m.ids)), _ids(m.ids), m.weights))


def _push(m: Push) -> bytes:
    return b"".join((_PUSH.pack(*m.head, m.seq, m.base, m.count, len(m.ids)), _ids(m.ids), m.payload))


_ENCODE: Final[Mapping[type[Message], Callable[[Any], bytes]]] = {
    Heartbeat: _heartbeat,
    View: _view,
    Chunk: _chunk,
    ChunkRequest: _chunk_request,
    Ready: _ready,
    Commit: _commit,
    Suspect: _suspect,
    StateRequest: _state_request,
    State: _state,
    Params: _params,
    Push: _push,
}


def encode(message: Message) -> bytes:
    """Return the bytes of a message; its tag is `TAGS[type(message)]`."""
    return _ENCODE[type(message)](message)


# --- decoding ------------------------------------------------------------------------------------------------------


def _fixed(form: struct.Struct, data: bytes, *, whole: bool = False) -> tuple[Any, ...]:
    if len(data) < form.size or (whole and len(data) != form.size):
        raise WireError(f"{len(data)} bytes where {form.size} are due")
    return form.unpack_from(data)


def _head(fields: tuple[Any, ...]) -> Header:
    return tuple.__new__(Header, fields[:_FIELDS])


def _expect(data: bytes, length: int) -> None:
    if len(data) != length:
        raise WireError(f"{len(data)} bytes where {length} are due")


@lru_cache(maxsize=64)
def contributions_of(data: bytes) -> tuple[Contribution, ...]:
    """Return contributions that travelled as `data`, a whole number of them; each worker of a ring asks for the same ones."""
    return tuple([Contribution(*fields) for fields in _CONTRIBUTION.iter_unpack(data)])


def _read_vector(data: bytes, at: int) -> bytes:
    vector = data[at:]
    if len(vector) % BYTES:
        raise WireError("a vector is no whole number of floats")
    return vector


def _read_ids(data: bytes, at: int, count: int) -> tuple[int, ...]:
    if len(data) < at + _ID * count:
        raise WireError("sample ids cut short")
    return struct.unpack_from(f"<{count}I", data, at)


def _to_heartbeat(data: bytes) -> Heartbeat:
    got = _fixed(_HEARTBEAT, data, whole=True)
    return Heartbeat(_head(got), Holding(*got[6:9]), Holding(*got[9:12]), got[12], got[13])


def _to_view(data: bytes) -> View:
    got = _fixed(_VIEW, data)
    _expect(data, _VIEW.size + _MEMBER.size * got[10])
    members = tuple([Member(*pair) for pair in _MEMBER.iter_unpack(data[_VIEW.size :])])
    return View(_head(got), got[6], got[7], got[8], got[9], members)


def _to_chunk(data: bytes) -> Chunk:
    got = _fixed(_CHUNK, data)
    middle = _CHUNK.size + _CONTRIBUTION.size * got[9]
    contributions = data[_CHUNK.size : middle]
    if len(data) < middle:
        raise WireError("contributions cut short")
    return Chunk(_head(got), got[6], got[7], got[8], contributions, _read_vector(data, middle))


def _to_chunk_request(data: bytes) -> ChunkRequest:
    got = _fixed(_CHUNK_REQ, data, whole=True)
    return ChunkRequest(_head(got), got[6], got[7])


def _to_ready(data: bytes) -> Ready:
    got = _fixed(_READY, data)
    _expect(data, _READY.size + _CONTRIBUTION.size * got[9])
    contributions = contributions_of(data[_READY.size :])
    if sum([each.samples for each in contributions]) != got[8]:
        raise WireError("the counts of the contributions do not sum to n")
    return Ready(_head(got), got[6], got[7], contributions)


def _to_commit(data: bytes) -> Commit:
    got = _fixed(_COMMIT, data, whole=True)
    return Commit(_head(got), got[6])


def _to_suspect(data: bytes) -> Suspect:
    got = _fixed(_SUSPECT, data, whole=True)
    return Suspect(_head(got), got[6])


def _to_state_request(data: bytes) -> StateRequest:
    return StateRequest(Header(*_fixed(HEADER, data, whole=True)))


def _to_state(data: bytes) -> State:
    *head, epoch, samples, entries = _fixed(_STATE, data)
    at = _STATE.size + (samples + 7) // 8
    _expect(data, at + 2 * BYTES * entries)
    consumed = int.from_bytes(data[_STATE.size : at], "little")
    middle = at + BYTES * entries
    return State(Header(*head), epoch, samples, consumed, data[at:middle], data[middle:])


def _to_params(data: bytes) -> Params:
    got = _fixed(_PARAMS, data)
    ids = _read_ids(data, _PARAMS.size, got[8])
    return Params(_head(got), got[6], got[7], ids, _read_vector(data, _PARAMS.size + _ID * got[8]))


def _to_push(data: bytes) -> Push:
    got = _fixed(_PUSH, data)
    ids = _read_ids(data, _PUSH.size, got[9])
    payload = _read_vector(data, _PUSH.size + _ID * got[9])
    return Push(_head(got), got[6], got[7], got[8], ids, payload)


_DECODE: Final[Mapping[str, Callable[[bytes], Message]]] = {
    "HEARTBEAT": _to_heartbeat,
    "VIEW": _to_view,
    "CHUNK": _to_chunk,
    "CHUNK_REQ": _to_chunk_request,
    "READY": _to_ready,
    "COMMIT": _to_commit,
    "SUSPECT": _to_suspect,
    "STATE_REQ": _to_state_request,
    "STATE": _to_state,
    "PARAMS": _to_params,
    "PUSH": _to_push,
}


def decode(tag: str, data: bytes) -> Message:
    """Decode by tag.

    Raises:
        WireError: If the tag is unknown, or the bytes are no such message.
    """
    read = _DECODE.get(tag)
    if read is None:
        raise WireError(f"unknown tag {tag!r}")
    return read(data)


assert DIGEST_BYTES == 16  # noqa: PLR2004  # the forms above spell it
