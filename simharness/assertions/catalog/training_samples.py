"""`train_sample_accounting`, invariant 3: every sample once an epoch, and the books kept right (training design, 13)."""

from typing import NamedTuple

from simharness.assertions.catalog.training import SamplesFold
from simharness.assertions.fold import Board, Mark, Payload, integer
from simharness.assertions.setting import Setting
from simharness.assertions.training_reading import Place, bits_of, contributions, data_of, listed, mask, place
from simharness.contracts.assertions import TrainSampleAccounting


class _Step(NamedTuple):
    """A committed step of the lineage, and what to go back to when it is undone."""

    step: int
    epoch_before: int
    consumed_before: int | None
    bits: int
    orphans: int
    mark: Mark


class TrainSampleAccountingFold(SamplesFold):
    """Keeps, on the lineage, the set of samples that have contributed in the epoch; a rollback is undone step by step.

    (a) No sample contributes in two steps of an epoch. (b) The `consumed` of each applied state is that set. (c) When an epoch
    closes, every sample of the members of the view that closes it has contributed, in `reshard` every sample; the others are
    orphans. (d) Epochs advance by one. (e) Samples over all commits = samples on the lineage + samples undone. Repetitions within a
    step are not its matter. After a step whose samples nobody knows, the set is taken from the state that was applied.
    """

    def __init__(self, assertion: TrainSampleAccounting, setting: Setting, board: Board, number: int) -> None:
        super().__init__(setting, board, number)
        del assertion
        self._lineage: list[_Step] = []
        self._epoch = 0
        self._consumed: int | None = 0
        self._after: dict[Place, int | None] = {}
        self._committed = self._undone = 0

    @property
    def orphans(self) -> dict[int, tuple[int, ...]]:
        """By epoch of the lineage, the samples that it closed without."""
        return {step.epoch_before: listed(step.orphans) for step in self._lineage if step.orphans}

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Take a step into the books."""
        del host
        self._commits += 1
        mark_, (generation, step), epoch = Mark(at_ns, "", key), place(event), integer(event, "epoch")
        self._undo(step)
        found = [self._gradients.samples_of(each) for each in contributions(event)]
        bits = 0
        for ids in found:
            bits |= mask(ids or ())
        before_epoch, before, orphans = self._epoch, self._consumed, 0
        if epoch == before_epoch + 1:
            if before is not None:
                orphans = self._close(event, before, mark_)
            self._epoch, self._consumed = epoch, 0
        elif epoch != before_epoch:
            self.broken(f"step {step}: epoch {epoch} after epoch {before_epoch}", mark_)
        self._lineage.append(_Step(step, before_epoch, before, bits, orphans, mark_))
        self._committed += bits.bit_count()
        if self._consumed is not None:
            if self._consumed & bits:
                self._twice(step, self._consumed & bits, mark_)
            self._consumed |= bits
        if None in found:
            self._consumed = None
        self._after[generation, step] = self._consumed

    def on_apply(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare the books with the state."""
        data = data_of(event, "consumed")
        generation, step = place(event)
        at = generation, step - 1
        if data is None or at not in self._after:
            return
        recorded, kept = bits_of(data), self._after[at]
        if kept is None:
            self._after[at] = recorded
            if self._lineage[-1].step == at[1]:
                self._consumed = recorded
        elif recorded != kept:
            extra, missing = listed(recorded & ~kept), listed(kept & ~recorded)
            note = f"step {step - 1}, {host}: consumed holds {_some(extra)} that did not contribute, lacks {_some(missing)}"
            self.broken(note, Mark(at_ns, "", key))

    def on_rollback(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Undo what was rolled back."""
        del at_ns, host, key
        self._undo(integer(event, "step"))

    def summary(self) -> tuple[bool, str]:
        """Close the books."""
        lasting = sum([step.bits.bit_count() for step in self._lineage])
        orphans = self.orphans
        note = f"{self._committed} samples = {lasting} on the lineage + {self._undone} undone, "
        note += f"{self._epoch} epochs closed, {sum(map(len, orphans.values()))} orphans in {len(orphans)}"
        return self._committed == lasting + self._undone, note

    def _undo(self, step: int) -> None:
        """Take back every step from `step` on."""
        while self._lineage and self._lineage[-1].step >= step:
            last = self._lineage.pop()
            self._epoch, self._consumed = last.epoch_before, last.consumed_before
            self._undone += last.bits.bit_count()

    def _close(self, event: Payload, consumed: int, mark_: Mark) -> int:
        """Close an epoch; return its orphans."""
        due = self._every
        if self._shards:
            due = 0
            for worker in self._members(event):
                due |= self._shards.get(worker, 0)
        if due & ~consumed:
            left = listed(due & ~consumed)
            self.broken(
                f"step {integer(event, 'step')}: epoch {self._epoch} closes without {_some(left)} of its members", mark_
            )
        return self._every & ~consumed

    def _twice(self, step: int, bits: int, mark_: Mark) -> None:
        first = next((entry for entry in reversed(self._lineage[:-1]) if entry.bits & bits), None)
        note = f"step {step}: {_some(listed(bits))} contributed in this epoch before"
        self.broken(note, *([mark_] if first is None else [first.mark, mark_]))


def _some(samples: tuple[int, ...]) -> str:
    """Return samples in words."""
    if not samples:
        return "no sample"
    shown = ", ".join(map(str, samples[:8]))
    return f"samples {shown}{', ...' if samples[8:] else ''}"
