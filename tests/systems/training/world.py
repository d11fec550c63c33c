"""A tiny world for the training system: a heap of deliveries, lossy links, crashing disks. No engine."""

import random
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from simharness.disk.crash import CrashDisk
from simharness.systems.training.config import TrainConfig
from simharness.systems.training.events import Effect, Send, Timer
from simharness.systems.training.job import Job
from simharness.systems.training.membership import Hub
from simharness.systems.training.paramserver import ServedWorker
from simharness.systems.training.ring import RingWorker
from simharness.systems.training.ringhub import RingHub
from simharness.systems.training.serverhub import ServerHub
from simharness.systems.training.wire import TAGS, Message, decode, encode
from simharness.systems.training.worker import Worker
from tests.systems.training.jobs import TICK_NS, streams

LATENCY_NS = 300_000
Process = Worker | Hub


class World:
    """One job on simulated time. `loss`, `double` and `late` are chances of each message, in a thousand."""

    def __init__(self, config: TrainConfig, seed: int = 0, *, loss: int = 0, double: int = 0, late: int = 0) -> None:
        self.config, self.seed, self.job = config, seed, Job(config, streams(seed))
        self.loss, self.double, self.late = loss, double, late
        self.names = [config.hub, *config.workers]
        self.disks = {name: CrashDisk() for name in self.names}
        self.records: list[tuple[int, str, dict[str, Any]]] = []
        self.sent: Counter[str] = Counter()
        self.cut: Callable[[str, str, Message], bool] = lambda _source, _target, _message: False
        self.now_ns = 0
        self._chance = random.Random(seed)  # noqa: S311
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self._life = dict.fromkeys(self.names, 0)
        self.processes: dict[str, Process] = {}
        self.paused: list[str] = []
        for name in self.names:
            self.start(name)

    # --- life and death ---------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start a process that is down."""
        ring, disk = self.config.strategy == "ring", self.disks[name]
        if name == self.config.hub:
            self.processes[name] = (RingHub if ring else ServerHub)(self.job, disk)
        else:
            self.processes[name] = (RingWorker if ring else ServedWorker)(self.job, name, disk)
        self._life[name] += 1
        self._tick_later(name, self._life[name], self.now_ns)

    def kill(self, name: str) -> None:
        """End a process; its disk loses what was not synced."""
        if self.processes.pop(name, None) is not None:
            self.disks[name].power_cut()
            self._life[name] += 1

    def at(self, at_ns: int, call: Callable[..., None], *args: Any) -> None:
        """Do something at a time."""
        self._push(at_ns, lambda: call(*args))

    def run(self, until_ns: int) -> None:
        """Go on to a time."""
        while self._heap and self._heap[0][0] < until_ns:
            self.now_ns, _, call = heappop(self._heap)
            call()
        self.now_ns = until_ns

    # --- what was put on record -------------------------------------------------------------------------------------

    def of(self, kind: str, host: str | None = None) -> list[dict[str, Any]]:
        """Return the records of a kind, in order."""
        return [record for _, name, record in self.records if record["kind"] == kind and host in (None, name)]

    # --- inner life -------------------------------------------------------------------------------------------------

    def _push(self, at_ns: int, call: Callable[[], None]) -> None:
        self._serial += 1
        heappush(self._heap, (at_ns, self._serial, call))

    def _tick_later(self, name: str, life: int, at_ns: int) -> None:
        self._push(at_ns, lambda: self._tick(name, life))

    def _tick(self, name: str, life: int) -> None:
        if self._life[name] == life:
            if name not in self.paused:
                self._do(name, self.processes[name].tick(self.now_ns))
            self._tick_later(name, life, self.now_ns + TICK_NS)

    def _deliver(self, name: str, tag: str, data: bytes) -> None:
        process = self.processes.get(name)
        if name in self.paused:
            self._push(self.now_ns + TICK_NS, lambda: self._deliver(name, tag, data))
        elif process is not None:
            self._do(name, process.receive(decode(tag, data), self.now_ns))

    def _fire(self, name: str, life: int, token: int) -> None:
        process = self.processes.get(name)
        if isinstance(process, Worker) and self._life[name] == life and name not in self.paused:
            self._do(name, process.timer(token, self.now_ns))

    def _do(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._send(name, effect.to, effect.message)
            elif isinstance(effect, Timer):
                life = self._life[name]
                self._push(effect.at_ns, lambda effect=effect, life=life: self._fire(name, life, effect.token))  # type: ignore[misc]
            else:
                self.records.append((self.now_ns, name, effect.record()))

    def _send(self, source: str, target: str, message: Message) -> None:
        tag, data, chance = TAGS[type(message)], encode(message), self._chance
        self.sent[tag] += 1
        if self.cut(source, target, message):
            return
        for _ in range(2 if chance.randrange(1000) < self.double else 1):
            if chance.randrange(1000) >= self.loss:
                delay = LATENCY_NS * (chance.randrange(2, 120) if chance.randrange(1000) < self.late else 1)
                self._push(self.now_ns + delay, lambda: self._deliver(target, tag, data))
