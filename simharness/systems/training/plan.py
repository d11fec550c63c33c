"""Who trains on what in a step: a pure function of the state's cursor and the members of the view (design, section 4)."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from simharness.systems.training.config import TrainConfig, TrainingDefect, runs
from simharness.systems.training.data import Draws, shards, shuffled
from simharness.systems.training.state import TrainState, mask

_PLANS: Final = 16
"""How many plans are kept."""


class Member(NamedTuple):
    """A process of a view: worker index and incarnation."""

    worker: int
    incarnation: int


class StepPlan(NamedTuple):
    """The epoch of the step, what was consumed of it before, and each member's samples, in the order of the members."""

    epoch: int
    consumed: int
    batches: tuple[tuple[int, ...], ...]

    @property
    def planned(self) -> int:
        """How many samples are planned."""
        return sum(map(len, self.batches))


class Planner:
    """Plans steps. Permutations come from streams named `perm/<epoch>/<worker id>`, or `perm/<epoch>/*` in `reshard`."""

    def __init__(self, config: TrainConfig, stream: Callable[[str], Draws]) -> None:
        self._config = config
        self._stream = stream
        self._shards = shards(config.shard_sizes)
        self._order = lru_cache(maxsize=4 * len(config.workers) + 4)(self._draw)
        self._made = lru_cache(maxsize=_PLANS)(self._make)

    def _draw(self, epoch: int, owner: int | None) -> tuple[int, ...]:
        if owner is None:
            return shuffled(range(self._config.samples), self._stream(f"perm/{epoch}/*"))
        return shuffled(self._shards[owner], self._stream(f"perm/{epoch}/{self._config.workers[owner]}"))

    def plan_step(self, state: TrainState, members: Sequence[Member]) -> StepPlan:
        """Return the plan of the step that follows `state` with these members, who are in the order of their indices.

        If nobody has a sample left, it is the first step of the next epoch. All members of a ring ask for the same plan.
        """
        return self._made(state.epoch, state.consumed, tuple(members))

    def _make(self, epoch: int, consumed: int, members: tuple[Member, ...]) -> StepPlan:
        plan = self._plan(epoch, consumed, members) or self._plan(epoch + 1, 0, members)
        assert plan is not None, "no shard is empty"
        return plan

    def _plan(self, epoch: int, consumed: int, members: Sequence[Member]) -> StepPlan | None:
        defects, batches = self._config.defects, []
        for member, rest in zip(members, self._remaining(epoch, consumed, members), strict=True):
            size = self._config.batch_sizes[member.worker]
            batch = rest[:size]
            if TrainingDefect.PAD_SHORT_BATCH in defects and batch:  # a sample is repeated to fill the batch
                batch = (batch * size)[:size]
            batches.append(batch)
        if TrainingDefect.DROP_SHORT_BATCH in defects:  # short last batches are skipped and marked as used
            short = [
                len(batch) < self._config.batch_sizes[member.worker]
                for member, batch in zip(members, batches, strict=True)
            ]
            if not all(short):
                consumed |= mask(tuple([i for batch, drop in zip(batches, short, strict=True) if drop for i in batch]))
                batches = [() if drop else batch for batch, drop in zip(batches, short, strict=True)]
        return StepPlan(epoch, consumed, tuple(batches)) if any(batches) else None

    def _remaining(self, epoch: int, consumed: int, members: Sequence[Member]) -> list[tuple[int, ...]]:
        """Return each member's unconsumed samples of an epoch, in order."""
        if self._config.data_policy == "own":
            return [_without(self._order(epoch, member.worker), self._seen(consumed, (member,))) for member in members]
        rest = _without(self._order(epoch, None), self._seen(consumed, members))
        found, at = [], 0
        for size in runs(len(rest), len(members)):
            found.append(rest[at : at + size])
            at += size
        return found

    def _seen(self, consumed: int, members: Sequence[Member]) -> int:
        """Return what counts as consumed for these members."""
        if TrainingDefect.EPOCH_FROM_START in self._config.defects and any(m.incarnation > 1 for m in members):
            return 0  # a worker that came back reads its shard from the start
        return consumed


def _without(order: tuple[int, ...], consumed: int) -> tuple[int, ...]:
    if not consumed:
        return order
    return tuple([sample for sample in order if not consumed >> sample & 1])
