"""The worker of a parameter server: it gets parameters and samples to use, and pushes their gradient sum (design, section 9)."""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from typing import Any, Final

from simharness.systems.training.config import TrainingDefect
from simharness.systems.training.events import Effect, TrainAdopt
from simharness.systems.training.job import Job, over
from simharness.systems.training.kernel import BYTES
from simharness.systems.training.state import NO_DIGEST, digest
from simharness.systems.training.storage import Disk
from simharness.systems.training.wire import Heartbeat, Holding, Message, Params, Push
from simharness.systems.training.worker import NOTHING, Worker


class ServedPhase(IntEnum):
    """Where a worker is in its step; the numbers travel in heartbeats."""

    IDLE = 0
    """No parameters yet, or no samples in this step."""
    COMPUTE = 2
    PUSHED = 5


class ServedInput(IntEnum):
    """What can happen to a worker."""

    PARAMS = 0
    """Parameters of a newer generation, view or step."""
    DUE = 1
    """The computation is done."""
    RETRY = 2
    """The wait for parameters has lasted `retry_ns`."""


class ServedAct(Enum):
    """What it does about it; `ServedWorker` has a method for each."""

    ADOPT = auto()
    PUSH = auto()
    PUSH_AGAIN = auto()


_P, _I = ServedPhase, ServedInput
_AFTER_PARAMS: Final = (_P.IDLE, _P.COMPUTE)
SERVED: Final[Mapping[tuple[ServedPhase, ServedInput], tuple[tuple[ServedPhase, ...], ServedAct]]] = {
    (_P.IDLE, _I.PARAMS): (_AFTER_PARAMS, ServedAct.ADOPT),
    (_P.COMPUTE, _I.PARAMS): (_AFTER_PARAMS, ServedAct.ADOPT),
    (_P.COMPUTE, _I.DUE): ((_P.PUSHED,), ServedAct.PUSH),
    (_P.PUSHED, _I.PARAMS): (_AFTER_PARAMS, ServedAct.ADOPT),
    (_P.PUSHED, _I.RETRY): ((_P.PUSHED,), ServedAct.PUSH_AGAIN),
}
"""(phase, input) -> (possible next phases, effect)."""

SERVED_IGNORED: Final = (
    (_P.IDLE, _I.DUE),
    (_P.IDLE, _I.RETRY),
    (_P.COMPUTE, _I.RETRY),
    (_P.PUSHED, _I.DUE),
)
"""Pairs that change nothing: who waits for nothing asks for nothing."""


class ServedWorker(Worker):
    """One worker. It holds parameters and a base, never momentum or a cursor."""

    def __init__(self, job: Job, name: str, disk: Disk) -> None:
        super().__init__(job, name, disk)
        self.phase = ServedPhase.IDLE
        self._weights = b""
        self._base = NO_DIGEST
        self._ids: tuple[int, ...] = ()
        self._pushed: Push | None = None
        self._waiting_ns = 0
        acts = {
            ServedAct.ADOPT: self._adopt,
            ServedAct.PUSH: self._push,
            ServedAct.PUSH_AGAIN: self._push_again,
        }
        self._rows = {pair: (following, acts[act]) for pair, (following, act) in SERVED.items()}

    def _message(self, message: Message, now_ns: int, out: list[Effect]) -> None:
        if not isinstance(message, Params) or len(message.weights) != BYTES * self._config.entries:
            return
        if message.head[:3] > (self.generation, self.view, self.step):
            self._input(ServedInput.PARAMS, message, now_ns, out)

    def _input(self, what: ServedInput, message: Message | None, now_ns: int, out: list[Effect]) -> None:
        """Do what the table says about this input in this phase."""
        row = self._rows.get((self.phase, what))
        if row is not None:
            following, act = row
            act(message, now_ns, out)
            assert self.phase in following, (what, self.phase)

    def _computed(self, now_ns: int, out: list[Effect]) -> None:
        self._input(ServedInput.DUE, None, now_ns, out)

    def _ask_again(self, now_ns: int, out: list[Effect]) -> None:
        if over(now_ns, self._waiting_ns, self._config.retry_ns):
            self._input(ServedInput.RETRY, None, now_ns, out)

    def _adopt(self, message: Any, now_ns: int, out: list[Effect]) -> None:
        """Take the parameters of a step, and begin with its samples if there are any."""
        params: Params = message
        self.generation, self.view, self.step = params.head[:3]
        missed = TrainingDefect.KEEP_OLD_PARAMS in self._defects and self.step % 4 == 1
        if not (missed and self._weights):  # KEEP_OLD_PARAMS: a refresh is missed now and then
            self._weights = params.weights
        self._base, self._ids = params.base, params.ids
        self._pushed, self._computing = None, False
        digests = [digest(self._weights).hex()]
        out.append(TrainAdopt(self.incarnation, self.generation, self.step, self._config.hub, digests))
        self.phase = ServedPhase.IDLE
        if self._ids:
            self.phase = ServedPhase.COMPUTE
            self._compute(self._base, self._ids, now_ns, out)

    def _push(self, _: Any, now_ns: int, out: list[Effect]) -> None:
        mine, sums = self._gradient(self._base, self._weights, self._ids, out)
        self._pushed = Push(self._head(), mine.seq, self._base, mine.samples, self._ids, sums)
        self.phase = ServedPhase.PUSHED
        self._push_again(None, now_ns, out)

    def _push_again(self, _: Any, now_ns: int, out: list[Effect]) -> None:
        assert self._pushed is not None
        self._waiting_ns = now_ns
        self._to_hub(self._pushed, out)

    def _heartbeat(self) -> Heartbeat:
        live = Holding(self.generation, self.step, self._base)
        return Heartbeat(self._head(), live, NOTHING, self.phase, 0)

    def snapshot(self) -> dict[str, Any]:
        """Return phase, place in the job, and the base and digest of the parameters."""
        return {
            "phase": self.phase.name,
            "incarnation": self.incarnation,
            "generation": self.generation,
            "view": self.view,
            "step": self.step,
            "base": self._base.hex(),
            "weights": digest(self._weights).hex(),
        }
