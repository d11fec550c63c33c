"""A process of a training job as a host (§6.2): envelopes to calls, effects to actions. Decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import orjson

from simharness.contracts.host import (
    Action,
    App,
    HostContext,
    HostMessage,
    RecordEvent,
    ScheduleTimer,
    Send,
    Slow,
    TimerFired,
)
from simharness.core.errors import EngineAbort
from simharness.core.streams import HostRng, Stream
from simharness.hosts.training.kind import HUB, WORKER
from simharness.systems.training import events
from simharness.systems.training.config import TrainConfig
from simharness.systems.training.job import Job
from simharness.systems.training.paramserver import ServedWorker
from simharness.systems.training.ring import RingWorker
from simharness.systems.training.ringhub import RingHub
from simharness.systems.training.serverhub import ServerHub
from simharness.systems.training.table import config_from

if TYPE_CHECKING:
    from simharness.systems.training.membership import Hub
    from simharness.systems.training.worker import Worker

SYSTEM: Final = "training"
_NOTHING: Final[tuple[Action, ...]] = ()


@dataclass(frozen=True)
class _Streams:
    """The streams that all hosts of a run share: equal when they begin alike, which they do under one scenario seed."""

    state: tuple[int, int, int, int]
    rng: HostRng = field(compare=False)

    def __call__(self, label: str) -> Stream:
        return self.rng.shared(SYSTEM, label)


@lru_cache(maxsize=4)
def _job(config: TrainConfig, streams: _Streams) -> Job:
    """Return the job; what it holds is a function of its arguments, so every host of a run may have the same."""
    return Job(config, streams)


class TrainHost:
    """One worker or the hub."""

    def __init__(self, context: HostContext, kind_tag: str) -> None:
        self.id, self.kind_tag = context.host_id, kind_tag
        config = config_from(
            context.config,
            workers=[peer.id for peer in context.peers if peer.kind == WORKER],
            hub=next((peer.id for peer in context.peers if peer.kind == HUB), ""),
            tick_period_ns=context.tick_period_ns,
        )
        job = _job(config, _Streams(context.rng.shared(SYSTEM, "data").state, context.rng))
        ring = config.strategy == "ring"
        self._worker: Worker | None = None
        self.process: Worker | Hub
        if kind_tag == HUB:
            self.process = (RingHub if ring else ServerHub)(job, context.disk)
        else:
            self.process = self._worker = (RingWorker if ring else ServedWorker)(job, self.id, context.disk)

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Tick the process."""
        try:
            return _actions(self.process.tick(now_ns))
        except events.TrainingAbort as abort:
            raise self._aborted(abort, now_ns) from None

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Pass on a message, a timer or the pace. Nobody tells a process that a send of it failed (design, section 5)."""
        try:
            if type(message) is App:
                return _actions(self.process.receive(message.message, now_ns))
            if self._worker is not None and type(message) is TimerFired:
                return _actions(self._worker.timer(message.token, now_ns))
        except events.TrainingAbort as abort:
            raise self._aborted(abort, now_ns) from None
        if self._worker is not None and type(message) is Slow:
            self._worker.slow(message.factor_x100)
        return _NOTHING

    def snapshot(self) -> bytes:
        """Return the process's state, vectors as digests."""
        return orjson.dumps(self.process.snapshot())

    def _aborted(self, abort: events.TrainingAbort, now_ns: int) -> EngineAbort:
        return EngineAbort(rule=f"training-guard-{abort.guard}", detail=abort.detail, host_id=self.id, at_ns=now_ns)


def _actions(effects: Sequence[events.Effect]) -> list[Action]:
    """Translate effects, in order."""
    actions: list[Action] = []
    for effect in effects:
        if type(effect) is events.Send:
            actions.append(Send(effect.to, effect.message))
        elif type(effect) is events.Timer:
            actions.append(ScheduleTimer(effect.at_ns, effect.token))
        else:
            assert not isinstance(effect, events.Send | events.Timer)
            actions.append(RecordEvent(effect.record()))
    return actions
