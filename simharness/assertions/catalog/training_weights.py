"""`train_weights`, invariant 5: what a contribution weighs; integers only (training design, 13)."""

from simharness.assertions.catalog.training import SamplesFold
from simharness.assertions.fold import Board, Mark, Payload, integer
from simharness.assertions.setting import Setting
from simharness.assertions.training_reading import (
    Contribution,
    Lineage,
    Place,
    bits_of,
    contributions,
    data_of,
    mask,
    place,
)
from simharness.contracts.assertions import TrainWeights


class TrainWeightsFold(SamplesFold):
    """Each count is the number of the contribution's distinct samples, and 0 only if the worker's plan was empty.

    Samples of different contributions are disjoint, no worker is there twice, and the step's count is the sum of theirs and above
    0: so the weights count_k / count add up to one. A plan is a function of the state before and the view; that state is taken as
    it is on record, for whether its books are right is not asked here. A contribution that resolves to no gradient is not judged.
    """

    def __init__(self, assertion: TrainWeights, setting: Setting, board: Board, number: int) -> None:
        super().__init__(setting, board, number)
        del assertion
        self._lineage = Lineage()
        self._epochs: dict[Place, int] = {}
        self._cursors: dict[Place, tuple[int, int]] = {(0, 0): (0, 0)}
        """Epoch and consumed samples of each state, by where it was made."""
        self._counted = 0

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Weigh."""
        del host
        self._commits += 1
        self._weigh(event, Mark(at_ns, "", key))
        self._lineage.commit(place(event))
        self._epochs[place(event)] = integer(event, "epoch")

    def on_apply(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note the cursor of a new state."""
        del at_ns, host, key
        generation, step = place(event)
        data, epoch = data_of(event, "consumed"), self._epochs.get((generation, step - 1))
        if data is not None and epoch is not None:
            self._cursors.setdefault((generation, step), (epoch, bits_of(data)))

    def on_rollback(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Carry the state into its new generation."""
        del at_ns, host, key
        to = place(event)
        made = self._lineage.rollback(to)
        if made in self._cursors:
            self._cursors[to] = self._cursors[made]

    def summary(self) -> tuple[bool, str]:
        """Say how much was weighed."""
        return True, f"{self._counted} contributions in {self._commits} steps"

    def _weigh(self, event: Payload, mark_: Mark) -> None:
        step = integer(event, "step")
        total, taken, workers = 0, 0, dict[str, bool]()
        for each in contributions(event):
            self._counted += 1
            who = f"step {step}, {each.worker}"
            total += each.samples
            if each.worker in workers:
                self.broken(f"{who}: contributes twice", mark_)
            workers[each.worker] = True
            ids = self._gradients.samples_of(each)
            if ids is None:
                continue
            bits = mask(ids)
            if each.samples != len(ids) or each.samples != bits.bit_count():
                note = f"{who}: counts {each.samples} for {len(ids)} samples, {bits.bit_count()} of them distinct"
                self.broken(note, mark_)
            if bits & taken:
                self.broken(f"{who}: shares samples with another contribution", mark_)
            taken |= bits
            if not ids and not self._idle(event, each):
                self.broken(f"{who}: contributes nothing, though its plan was not empty", mark_)
        count = integer(event, "count")
        if count != total or count <= 0:
            self.broken(f"step {step}: counts {count}, its contributions {total}", mark_)

    def _idle(self, event: Payload, contribution: Contribution) -> bool:
        """Tell whether a worker's plan was empty, or may have been: `reshard` deals what is left, the remainder to some."""
        made = self._lineage.place_of(integer(event, "step"))
        cursor = None if made is None else self._cursors.get(made)
        if cursor is None:
            return True  # no such state is on record
        epoch, consumed = cursor
        left = self._every & ~(consumed if integer(event, "epoch") == epoch else 0)
        if self._shards:
            return not left & self._shards.get(contribution.worker, 0)
        return left.bit_count() < len(self._members(event))
