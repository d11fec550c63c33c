"""Brings the processes of a run up together, does to them what the timeline says, collects their reports."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final, NamedTuple

from simharness.contracts.mutations import Mutation, PeerKill, PeerPause, PeerResurrect, RelayBoot, RelayKill
from simharness.contracts.records import EventRecord, MutationRecord, Record, SnapshotRecord, Termination
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort
from simharness.core.units import NS_PER_MS, NS_PER_S
from simharness.live.channel import Done, Event, Failed, Go, Halted, Report, Seen, Setup, Snapshot
from simharness.live.processes import Child, bound_sockets

_LEAD_NS: Final = 100 * NS_PER_MS
"""From the word `Go` to the common start."""

_STEP_S: Final = 0.05
_BOOT_PATIENCE_S: Final = 120
_END_PATIENCE_S: Final = 60


class _Life(NamedTuple):
    """A later life of a peer or a relay: the mutation that begins it, and its number."""

    begins_with: int
    vertex: str
    instance: int


class Coordinator:
    """One live run.

    Processes for lives that begin later are started with the others and wait, so that a resurrection takes no time.

    Args:
        scenario: What to run; `check` has nothing against it.
        address: The loopback address of every socket.
        tap: Takes every input and every frame of the hosts, if anybody listens in.
        watch: Called some times a second with the time since the start.
    """

    def __init__(
        self,
        scenario: Scenario,
        address: str,
        tap: Callable[[Seen], object] | None,
        watch: Callable[[int], object],
    ) -> None:
        self._scenario, self._address, self._tap, self._watch = scenario, address, tap, watch
        self._events: list[Event] = []
        self._snapshots: list[tuple[str, Snapshot]] = []
        self._children: list[Child] = []
        self._current: dict[str, Child] = {}
        self._standby: dict[int, Child] = {}
        self._killed_ns: dict[str, int] = {}
        self._halted: dict[str, None] = {}
        self._paused_until_ns: dict[str, int] = {}
        self._start_ns = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._failure: Exception | None = None
        self.late_ns = 0
        """How late the latest tick of all was."""

    # --- the run ---------------------------------------------------------------------------------------------------

    async def play(self) -> Termination:
        """Run to the scenario's end. No process is left, whatever ends it.

        Raises:
            EngineAbort: If a process fails.
            OSError: If the address, or another process, cannot be had.
        """
        asyncio.get_running_loop().set_exception_handler(self._on_exception)
        vertices = [peer.id for peer in self._scenario.peers] + [relay.id for relay in self._scenario.relays]
        sockets = bound_sockets(self._address, vertices)
        ports = {vertex: bound.getsockname()[1] for vertex, bound in sockets.items()}

        def start(vertex: str, instance: int) -> Child:
            setup = Setup(
                scenario=self._scenario,
                subject=vertex,
                instance=instance,
                address=self._address,
                ports=ports,
                socket_fd=sockets[vertex].fileno(),
                tap=self._tap is not None,
            )
            child = Child(asyncio.get_running_loop(), setup, sockets[vertex], self._heard)
            self._children.append(child)
            return child

        try:
            self._current = {vertex: start(vertex, 0) for vertex in vertices}
            self._standby = {life.begins_with: start(life.vertex, life.instance) for life in _rebirths(self._scenario)}
            await self._until(lambda: all(child.ready for child in self._children), _BOOT_PATIENCE_S)
            await self._run()
        finally:
            for timer in self._timers:
                timer.cancel()
            for child in self._children:
                child.close()
            for bound in sockets.values():
                bound.close()
        return Termination(reason="duration", at_ns=self._scenario.duration_ns)

    async def _run(self) -> None:
        duration_ns = self._scenario.duration_ns
        self._start_ns = time.monotonic_ns() + _LEAD_NS
        for child in self._current.values():
            child.go(Go(start_ns=self._start_ns))
        for index, mutation in sorted(enumerate(self._scenario.mutations), key=_by_time):
            if mutation.at_ns <= duration_ns:
                self._at(mutation.at_ns, self._do, index, mutation)
        self._at(duration_ns, self._wake_all)
        await self._until(lambda: self._now() >= duration_ns, duration_ns / NS_PER_S + _END_PATIENCE_S)
        await self._until(self._is_over, _END_PATIENCE_S)

    def _is_over(self) -> bool:
        """Tell whether everybody who lives has said everything."""
        return all(child.done or child.expected_to_die for child in self._current.values())

    async def _until(self, reached: Callable[[], bool], patience_s: float) -> None:
        give_up_ns = time.monotonic_ns() + int(patience_s * NS_PER_S)
        while not reached():
            if time.monotonic_ns() > give_up_ns:
                silent = ", ".join(
                    child.subject for child in self._children if not (child.done or child.expected_to_die)
                )
                raise EngineAbort(rule="live-process-silent", detail=f"nothing came from {silent}")
            if self._start_ns:
                self._watch(min(max(0, self._now()), self._scenario.duration_ns))
            await asyncio.sleep(_STEP_S)
            if self._failure is not None:
                raise self._failure

    def _now(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def _at(self, at_ns: int, call: Callable[..., object], *operands: object) -> None:
        when_s = (self._start_ns + at_ns) / NS_PER_S
        self._timers.append(asyncio.get_running_loop().call_at(when_s, call, *operands))

    # --- the timeline ----------------------------------------------------------------------------------------------

    def _do(self, index: int, mutation: Mutation) -> None:
        """Do what only a coordinator can; the rest every process does by itself."""
        match mutation:
            case PeerKill(peer=vertex) | RelayKill(relay=vertex):
                self._kill(vertex, mutation.at_ns)
            case PeerResurrect(peer=vertex) | RelayBoot(relay=vertex) if index in self._standby:
                self._revive(vertex, mutation.at_ns, self._standby.pop(index))
            case PeerPause(peer=vertex, duration_ns=duration_ns):
                self._pause(vertex, mutation.at_ns + duration_ns)

    def _kill(self, vertex: str, at_ns: int) -> None:
        if vertex not in self._killed_ns:
            self._killed_ns[vertex] = at_ns
            self._paused_until_ns.pop(vertex, None)
            self._current[vertex].kill()

    def _revive(self, vertex: str, at_ns: int, successor: Child) -> None:
        """Let another process take the place of one that is dead or has halted (ruling E8)."""
        if vertex not in self._killed_ns and vertex not in self._halted:
            successor.close()
            return
        self._current[vertex].kill()
        self._current[vertex] = successor
        self._halted.pop(vertex, None)
        successor.go(
            Go(start_ns=self._start_ns, born_ns=at_ns, deaf_until_ns=self._killed_ns.pop(vertex, at_ns)),
        )

    def _pause(self, vertex: str, until_ns: int) -> None:
        if vertex not in self._killed_ns and until_ns > self._paused_until_ns.get(vertex, 0):
            self._paused_until_ns[vertex] = until_ns
            self._current[vertex].signal(signal.SIGSTOP)
            self._at(until_ns, self._wake, vertex, until_ns)

    def _wake(self, vertex: str, until_ns: int) -> None:
        """End a pause, unless a longer one or a death has come over it."""
        if self._paused_until_ns.get(vertex) == until_ns:
            del self._paused_until_ns[vertex]
            self._current[vertex].signal(signal.SIGCONT)

    def _wake_all(self) -> None:
        """Let paused processes see that the run is over."""
        for vertex, until_ns in [*self._paused_until_ns.items()]:
            self._wake(vertex, until_ns)

    # --- reports ---------------------------------------------------------------------------------------------------

    def _heard(self, child: Child, report: Report | None) -> None:
        match report:
            case Event():
                self._events.append(report)
            case Snapshot():
                self._snapshots.append((child.subject, report))
            case Seen():
                assert self._tap is not None
                self._tap(report)
            case Halted():
                self._halted[child.subject] = None
            case Done(late_ns=late_ns):
                self.late_ns = max(self.late_ns, late_ns)
            case Failed(rule=rule, detail=detail, at_ns=at_ns):
                self._fail(EngineAbort(rule=rule, detail=detail, host_id=child.subject, at_ns=at_ns))
            case None if not (child.done or child.expected_to_die):
                self._fail(EngineAbort(rule="live-process-died", detail=child.last_words(), host_id=child.subject))

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Let an error of our own end the run, wherever the loop has met it."""
        self._fail(context.get("exception") or RuntimeError(context["message"]))

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure

    # --- afterwards ------------------------------------------------------------------------------------------------

    @property
    def everybody_lives(self) -> bool:
        """Whether no peer is dead at the end."""
        return not any(peer.id in self._killed_ns for peer in self._scenario.peers)

    @property
    def reached_ns(self) -> int:
        """How far the run has come: the time of the latest event."""
        return max((event.at_ns for event in self._events), default=0)

    def records(self, end_ns: int) -> Iterator[Record]:
        """Yield what was collected of a run that ended at a time; a mutation comes before the events of its instant."""
        sequence = count()
        for index, mutation in enumerate(self._scenario.mutations):
            if mutation.at_ns <= end_ns:
                yield MutationRecord(mutation.at_ns, next(sequence), index, mutation)
        for event in sorted(self._events, key=lambda event: event.at_ns):
            yield EventRecord(event.at_ns, next(sequence), event.host_id, event.kind_tag, event.event)
        for host_id, snapshot in sorted(self._snapshots, key=lambda item: (item[1].at_ns, item[0])):
            yield SnapshotRecord(snapshot.at_ns, next(sequence), host_id, snapshot.kind_tag, snapshot.snapshot)


def _by_time(item: tuple[int, Mutation]) -> tuple[int, int]:
    return item[1].at_ns, item[0]


def _rebirths(scenario: Scenario) -> Iterator[_Life]:
    """Yield every life that may begin in the run: of what is dead by then, and of any stage, which may have halted."""
    stages = [peer.id for peer in scenario.peers if peer.kind == "stage"]
    dead: dict[str, None] = {}
    lives: dict[str, int] = {}
    for index, mutation in sorted(enumerate(scenario.mutations), key=_by_time):
        match mutation:
            case PeerKill(peer=vertex) | RelayKill(relay=vertex):
                dead[vertex] = None
            case PeerResurrect(peer=vertex) | RelayBoot(relay=vertex) if vertex in dead or vertex in stages:
                dead.pop(vertex, None)
                lives[vertex] = lives.get(vertex, 0) + 1
                if mutation.at_ns <= scenario.duration_ns:
                    yield _Life(index, vertex, lives[vertex])
