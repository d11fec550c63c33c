"""What a worker is under both strategies: an incarnation, a clocked computation, gradients under numbers, a heartbeat."""

from collections.abc import Sequence
from typing import Any, Final

from simharness.systems.training.config import TrainingDefect
from simharness.systems.training.events import Effect, Send, Timer, TrainGradient, TrainReject
from simharness.systems.training.job import Job, over
from simharness.systems.training.plan import Member
from simharness.systems.training.state import NO_DIGEST
from simharness.systems.training.storage import Disk, next_incarnation
from simharness.systems.training.weighting import Weighting
from simharness.systems.training.wire import Contribution, Header, Heartbeat, Holding, Message

FULL_PACE: Final = 100
_CACHED_GRADIENTS: Final = 16
NOTHING: Final = Holding(0, 0, NO_DIGEST)


class Worker:
    """The base of both workers. Inputs are ticks, messages and timers; what comes back is to be done in order.

    Args:
        job: The job.
        name: The worker's id.
        disk: Its disk; the incarnation is counted there at once.
    """

    def __init__(self, job: Job, name: str, disk: Disk) -> None:
        self._job, self._config, self._disk = job, job.config, disk
        self._defects = job.config.defects
        self.name, self.index = name, job.config.workers.index(name)
        self.incarnation = next_incarnation(disk)
        self._weighting = Weighting(job.config)
        self._scale = job.config.loss_scale
        if TrainingDefect.LOCAL_SCALE in self._defects and self.index % 2:  # a loss scale of its own
            self._scale *= 2
        self.generation = self.view = self.step = 0
        self._slow_x100 = FULL_PACE
        self._seq = 0
        self._gradients: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._token = 0
        self._began_ns = self._compute_ns = 0
        self._computing = False

    # --- inputs -----------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> list[Effect]:
        """Look at the clock: a computation that is due, questions to be asked again, and a heartbeat."""
        out: list[Effect] = []
        # The deadline is state: a process that came back with its memory lost the timers of the gap (design, section 8).
        if self._computing and over(now_ns, self._began_ns, self._compute_ns):
            self._finish(now_ns, out)
        self._ask_again(now_ns, out)
        out.append(Send(self._config.hub, self._heartbeat()))
        return out

    def receive(self, message: Message, now_ns: int) -> list[Effect]:
        """Take a message."""
        out: list[Effect] = []
        self._message(message, now_ns, out)
        return out

    def timer(self, token: int, now_ns: int) -> list[Effect]:
        """Take a timer: the computation that it was set for is done, unless another has begun."""
        out: list[Effect] = []
        if self._computing and token == self._token:
            self._finish(now_ns, out)
        return out

    def slow(self, factor_x100: int) -> None:
        """Let computations that begin from now on take factor_x100 / 100 of their time."""
        self._slow_x100 = factor_x100

    def snapshot(self) -> dict[str, Any]:
        """Return what a person wants to see."""
        raise NotImplementedError

    # --- what a strategy adds ---------------------------------------------------------------------------------------

    def _message(self, message: Message, now_ns: int, out: list[Effect]) -> None:
        raise NotImplementedError

    def _computed(self, now_ns: int, out: list[Effect]) -> None:
        raise NotImplementedError

    def _ask_again(self, now_ns: int, out: list[Effect]) -> None:
        raise NotImplementedError

    def _heartbeat(self) -> Heartbeat:
        raise NotImplementedError

    # --- computing --------------------------------------------------------------------------------------------------

    def _compute(self, base: bytes, ids: tuple[int, ...], now_ns: int, out: list[Effect]) -> None:
        """Begin to compute the gradient sum of a batch; one that is there already takes no time."""
        samples = 0 if self._key(base, ids) in self._gradients else len(ids)
        self._computing = True
        self._began_ns = now_ns
        self._compute_ns = samples * self._config.compute_ns_per_sample * self._slow_x100 // FULL_PACE
        self._token += 1
        out.append(Timer(now_ns + self._compute_ns, self._token))

    def _finish(self, now_ns: int, out: list[Effect]) -> None:
        self._computing = False
        self._computed(now_ns, out)

    def _gradient(
        self, base: bytes, weights: bytes, ids: tuple[int, ...], out: list[Effect]
    ) -> tuple[Contribution, bytes]:
        """Return the computed sum as a new contribution of this step, and what travels for it."""
        key = self._key(base, ids)
        sums = self._gradients.get(key)
        if sums is None:
            sums = self._job.kernel.gradient_sum(weights, ids, scale=self._scale)
            if len(self._gradients) >= _CACHED_GRADIENTS:
                del self._gradients[next(iter(self._gradients))]
            self._gradients[key] = sums
        self._seq += 1
        count = len(ids)
        out.append(
            TrainGradient(
                self.incarnation,
                self._seq,
                self.generation,
                self.view,
                self.step,
                base.hex(),
                list(ids),
                count,
            )
        )
        return Contribution(self.index, self.incarnation, self._seq, count), self._weighting.outgoing(sums, count)

    def _key(self, base: bytes, ids: tuple[int, ...]) -> tuple[bytes, tuple[int, ...]]:
        if TrainingDefect.CACHE_BY_IDS in self._defects:  # whatever the parameters
            return NO_DIGEST, ids
        return base, ids

    # --- talking ----------------------------------------------------------------------------------------------------

    def _head(self, flags: int = 0) -> Header:
        place = self.generation, self.view, self.step, self.incarnation, self.index, flags
        return tuple.__new__(Header, place)

    def _to_hub(self, message: Message, out: list[Effect]) -> None:
        out.append(Send(self._config.hub, message))

    def _is_me(self, members: Sequence[Member]) -> bool:
        return any(m.worker == self.index and self._job.is_process(m, self.incarnation) for m in members)

    def _refuse(self, head: Header, out: list[Effect]) -> None:
        out.append(TrainReject(self.step, self._job.name(head.sender), older(head, self._head())))


def older(head: Header, mine: Header) -> str:
    """Return the word for a message of another place in the job than `mine`."""
    if head.generation != mine.generation:
        return "old_generation"
    return "old_view" if head.view != mine.view else "old_step"
