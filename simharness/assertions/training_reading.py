"""How the folds of training read records: fields by name, from plain JSON, believing nothing about its form (ruling K7).

What is malformed reads as a value that fits nothing, so that it is an invariant that objects, and never this module.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from simharness.assertions.fold import Mark, Payload, integer

DIGEST_BYTES: Final = 16
_U32: Final = 2**32 - 1
_CONTRIBUTION: Final = [str, int, int, int]

Place = tuple[int, int]
"""Generation and step."""


class Contribution(NamedTuple):
    """A worker's part in a committed step."""

    worker: str
    incarnation: int
    seq: int
    samples: int


class Gradient(NamedTuple):
    """What a worker says it computed."""

    generation: int
    view: int
    step: int
    base: str
    ids: tuple[int, ...]
    mark: Mark


class Parts(NamedTuple):
    """The digests of a state, in hex."""

    weights: str
    momentum: str
    cursor: str

    @property
    def whole(self) -> str:
        """The digest that names the state: of the three, one after another."""
        return digest(b"".join(map(_bytes, self)))

    def other_than(self, other: "Parts") -> str:
        """Return which parts differ, in words."""
        names = [name for name, one, two in zip(self._fields, self, other, strict=True) if one != two]
        return " and ".join(names)


def digest(data: bytes) -> str:
    """Return BLAKE2b with 128 bits, in hex."""
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def cursor_digest(step: int, epoch: int, bitmap: bytes) -> str:
    """Return the digest of a state's cursor: step and epoch as u32, little-endian, then the bitmap of the consumed samples."""
    return digest((step & _U32).to_bytes(4, "little") + (epoch & _U32).to_bytes(4, "little") + bitmap)


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def data_of(event: Payload, field: str) -> bytes | None:
    """Return a field of hex; None if it is not there, or is none."""
    text = event.get(field)
    return _bytes(text) if type(text) is str else None


def word(event: Payload, field: str) -> str:
    """Return a field of text; empty if it is not there."""
    value = event.get(field)
    return value if type(value) is str else ""


def place(event: Payload) -> Place:
    """Return generation and step of a record."""
    return integer(event, "generation"), integer(event, "step")


def parts(event: Payload, field: str) -> Parts | None:
    """Return three digests; None if there are not three."""
    value = event.get(field)
    if type(value) is list and len(value) == len(Parts._fields) and all(type(item) is str for item in value):
        return Parts(*value)
    return None


def contributions(event: Payload) -> tuple[Contribution, ...]:
    """Return the contributions of a commit; one that is malformed belongs to nobody."""
    return tuple([_contribution(item) for item in _list(event.get("contributions"))])


def _contribution(item: Any) -> Contribution:
    if type(item) is list and [type(part) for part in item] == _CONTRIBUTION:
        return Contribution(*item)
    return Contribution("", -1, -1, -1)


def members(event: Payload) -> dict[str, int]:
    """Return the incarnations of a view's members."""
    found: dict[str, int] = {}
    for item in _list(event.get("members")):
        match item:
            case [str(worker), int(incarnation)]:
                found[worker] = incarnation
    return found


def _list(value: Any) -> Sequence[Any]:
    return value if type(value) is list else ()


def mask(ids: Sequence[int]) -> int:
    """Return a set of samples as an integer with their bits set."""
    bits = 0
    for sample in ids:
        bits |= 1 << sample
    return bits


def bits_of(data: bytes) -> int:
    """Return a bitmap (bit i of byte i // 8, least significant first) as such an integer."""
    return int.from_bytes(data, "little")


def listed(bits: int) -> tuple[int, ...]:
    """Return the samples of a set."""
    return tuple([at for at in range(bits.bit_length()) if bits >> at & 1])


class Gradients:
    """Every gradient of a run by (worker, incarnation, seq): the way from a contribution to its samples."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._found: dict[tuple[str, int, int], Gradient] = {}

    def add(self, worker: str | None, event: Payload, mark: Mark) -> Gradient | None:
        """Take a `TrainGradient`; return the one of the same name that it takes the place of, if there is one."""
        ids = tuple([item if type(item) is int else -1 for item in _list(event.get("ids"))])
        generation, step = place(event)
        made = Gradient(generation, integer(event, "view"), step, word(event, "base"), ids, mark)
        name = worker or "", integer(event, "incarnation"), integer(event, "seq")
        former = self._found.get(name)
        self._found[name] = made
        return former

    def of(self, contribution: Contribution) -> Gradient | None:
        """Return the gradient behind a contribution, whatever it was computed for; None if there is none."""
        return self._found.get(contribution[:3])

    def samples_of(self, contribution: Contribution) -> tuple[int, ...] | None:
        """Return the samples behind a contribution; None if it resolves to no gradient, or to one of unknown samples."""
        found = self.of(contribution)
        if found is None or any(not 0 <= sample < self._samples for sample in found.ids):
            return None
        return found.ids


class Lineage:
    """Which generation made each state of the lineage: the chain of committed steps that rollbacks have left standing."""

    def __init__(self) -> None:
        self.generation = 0
        self.end = 0
        """The newest state."""
        self._made = {0: 0}

    def commit(self, at: Place) -> None:
        """Take a commit of step `at`, which makes the state after it."""
        generation, step = at
        self._made[step + 1] = generation
        self.end = step + 1

    def rollback(self, to: Place) -> Place | None:
        """Begin a generation at a state of the lineage; return the place at which that state was made, None if it is not there."""
        generation, step = to
        made = self.place_of(step)
        self.generation, self.end = generation, step
        self._made[step] = generation
        return made

    def place_of(self, step: int) -> Place | None:
        """Return where the lineage's state of that step was made; None beyond its end."""
        return (self._made[step], step) if step <= self.end and step in self._made else None
