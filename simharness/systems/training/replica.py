"""A copy of the state, and what happens to it: updates, installations, checkpoints. Ring workers and the server have one."""

from typing import Any

from simharness.systems.training.events import Effect, TrainApply, TrainCheckpoint, TrainInstall
from simharness.systems.training.job import Job
from simharness.systems.training.state import TrainState, mask, to_bytes
from simharness.systems.training.storage import CHECKPOINT, Disk, put


class Replica:
    """The state that a process holds, with its digests. It begins as state 0."""

    def __init__(self, job: Job, disk: Disk) -> None:
        self._job, self._disk = job, disk
        self.hold(job.start)

    def hold(self, state: TrainState) -> None:
        """Replace the state."""
        self.state, self.digests = state, state.digests()
        self.digest = self.digests.whole

    def install(self, state: TrainState, *, incarnation: int, source: str, out: list[Effect]) -> None:
        """Replace the state by one that did not come about here."""
        self.hold(state)
        out.append(TrainInstall(incarnation, state.generation, state.step, source, self.digests.hex()))

    def apply(
        self,
        mean: bytes,
        *,
        generation: int,
        view: int,
        step: int,
        epoch: int,
        consumed: int,
        incarnation: int,
        out: list[Effect],
    ) -> None:
        """Make the update of step `step`, committed in `view`, after which `consumed` of `epoch` is consumed."""
        before, pre = self.state, self.digests
        weights, momentum = self._job.kernel.update(before.weights, before.momentum, mean)
        state = TrainState(
            step=step + 1,
            generation=generation,
            epoch=epoch,
            consumed=consumed,
            samples=before.samples,
            weights=weights,
            momentum=momentum,
        )
        self.hold(state)
        recorded = (
            (weights.hex(), momentum.hex(), state.bitmap().hex()) if self._job.config.record_state else (None,) * 3
        )
        out.append(TrainApply(incarnation, generation, view, step + 1, pre.hex(), self.digests.hex(), *recorded))

    def save(self, out: list[Effect], *, form: bytes | None = None) -> bool:
        """Write a checkpoint if one is due, and tell whether it was; `form` is written instead of the state, if given."""
        state = self.state
        if state.step % self._job.config.checkpoint_every:
            return False
        put(self._disk, CHECKPOINT, to_bytes(state) if form is None else form)
        out.append(TrainCheckpoint(state.generation, state.step, self.digest.hex()))
        return True

    def snapshot(self) -> dict[str, Any]:
        """Return the state by digests."""
        state = self.state
        return {
            "generation": state.generation,
            "step": state.step,
            "epoch": state.epoch,
            "digests": self.digests.hex(),
            "consumed": state.bitmap().hex(),
        }


def union(batches: tuple[tuple[int, ...], ...]) -> int:
    """Return the samples of several batches as a set of bits."""
    return mask(tuple([sample for batch in batches for sample in batch]))
