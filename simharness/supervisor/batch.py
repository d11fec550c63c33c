"""Seeds in blocks: what one block has seen, and how blocks are put together whatever ran them in which order.

The digest of a batch is the sum, modulo 2**128, of one BLAKE2b a seed over shape, seed and trace hash: shards of any cut add up to
the digest of the whole.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

import msgspec

from simharness.supervisor.coverage import count, missing
from simharness.supervisor.direct import Run, run
from simharness.supervisor.params import SHAPES, Shape
from simharness.systems.supervisor.config import NO_DEFECTS, Defects, SupervisorDefect

BLOCK: Final = 100
"""Seeds that a process takes at a time."""

DEFECT_NAMES: Final = tuple(SupervisorDefect.__members__)

_MODULUS: Final = 1 << 128


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch runs: half-open seeds, of which those that are `index` modulo `shards`."""

    first: int
    last: int
    shapes: tuple[Shape, ...] = SHAPES
    twice: bool = False
    defects: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    index: int = 0
    shards: int = 1

    @property
    def switched_off(self) -> Defects:
        """The rules that are switched off."""
        return frozenset(map(SupervisorDefect, self.defects)) if self.defects else NO_DEFECTS

    def blocks(self) -> Iterator["Block"]:
        """Yield the blocks in the order in which they are put together: by seed, then by shape."""
        for start in range(self.first, self.last, BLOCK * self.shards):
            end = min(start + BLOCK * self.shards, self.last)
            for shape in self.shapes:
                yield Block(shape=shape, first=start, last=end)

    def seeds(self, block: "Block") -> range:
        """Return the seeds of a block that are this shard's."""
        return range(block.first + (self.index - block.first) % self.shards, block.last, self.shards)


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of seeds in one shape."""

    shape: Shape
    first: int
    last: int


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """One violation, or, with the invariant "determinism", two runs of a seed that differ."""

    seed: int
    shape: Shape
    invariant: str
    message: str
    step: int
    now_ns: int


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What some runs came to. Tallies of different seeds add up."""

    runs: dict[str, int] = {}
    """Seeds by shape."""
    counters: dict[str, dict[str, int]] = {}
    """Shape -> counter -> seeds that saw it."""
    breaches: tuple[Breach, ...] = ()
    digest: int = 0
    steps: int = 0
    quiet_steps: int = 0
    most_quiet_steps: int = 0

    def plus(self, other: "Tally") -> "Tally":
        """Return the tally of both."""
        return Tally(
            runs=_added(self.runs, other.runs),
            counters={
                shape: _added(self.counters.get(shape, {}), other.counters.get(shape, {}))
                for shape in sorted({*self.counters, *other.counters})
            },
            breaches=(*self.breaches, *other.breaches),
            digest=(self.digest + other.digest) % _MODULUS,
            steps=self.steps + other.steps,
            quiet_steps=self.quiet_steps + other.quiet_steps,
            most_quiet_steps=max(self.most_quiet_steps, other.most_quiet_steps),
        )

    def uncovered(self, *, common_only: bool = False) -> dict[str, tuple[str, ...]]:
        """Return the required counters that no seed saw, by shape; shapes without any are left out."""
        found = {
            shape: missing(self.counters.get(shape, {}), shape, common_only=common_only)
            for shape in SHAPES
            if self.runs.get(shape)
        }
        return {shape: names for shape, names in found.items() if names}

    def hexdigest(self) -> str:
        """Return the digest as 32 hexadecimal digits."""
        return f"{self.digest:032x}"


def _added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


def total(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up."""
    whole = Tally()
    for tally in tallies:
        whole = whole.plus(tally)
    return whole


def run_block(task: Task, block: Block, *, stop_at: Callable[[Breach], bool] | None = None) -> Tally:
    """Run the seeds of a block; stop after the first breach that `stop_at` accepts, if it is given."""
    defects, shape = task.switched_off, block.shape
    counters: dict[str, int] = {}
    breaches: list[Breach] = []
    digest = steps = quiet_steps = most = seeds = 0
    for seed in task.seeds(block):
        done = run(seed, shape, defects=defects, skip=task.skip)
        seeds += 1
        count(counters, done.seen)
        digest += _seed_digest(done)
        steps += done.steps
        quiet_steps += done.quiet_steps
        most = max(most, done.quiet_steps)
        breach = _breach(task, done)
        if breach is not None:
            breaches.append(breach)
            if stop_at is not None and stop_at(breach):
                break
    return Tally(
        runs={shape: seeds},
        counters={shape: counters},
        breaches=tuple(breaches),
        digest=digest % _MODULUS,
        steps=steps,
        quiet_steps=quiet_steps,
        most_quiet_steps=most,
    )


def _breach(task: Task, done: Run) -> Breach | None:
    """Return what is wrong with a run, after running it again if the task says so."""
    shape = done.profile.shape
    invariant, message = done.violated, done.message
    if invariant is None and task.twice:
        again = run(done.seed, shape, defects=task.switched_off, skip=task.skip)
        if again.trace_hash != done.trace_hash:
            invariant, message = "determinism", f"two runs: {done.trace_hash} and {again.trace_hash}"
    if invariant is None:
        return None
    return Breach(
        seed=done.seed, shape=shape, invariant=invariant, message=message, step=done.steps, now_ns=done.now_ns
    )


def _seed_digest(done: Run) -> int:
    text = f"{done.profile.shape} {done.seed} {done.trace_hash}"
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


def plain(tally: Tally) -> dict[str, Any]:
    """Return a tally as a JSON object; the digest as text, since it does not fit 64 bits."""
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(tally, digest=0))
    return found | {"digest": tally.hexdigest()}


def from_plain(value: dict[str, Any]) -> Tally:
    """Read a tally back.

    Raises:
        msgspec.ValidationError: If it is none.
    """
    text = value.get("digest")
    tally = msgspec.convert(value | {"digest": 0}, Tally)
    if not isinstance(text, str):
        raise msgspec.ValidationError("digest: must be 32 hexadecimal digits")
    try:
        return msgspec.structs.replace(tally, digest=int(text, 16))
    except ValueError:
        raise msgspec.ValidationError("digest: must be 32 hexadecimal digits") from None
