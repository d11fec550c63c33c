"""A peer's process: one host on one socket. What the engine is to simulated hosts, this is to one real one."""

from collections.abc import Sequence
from typing import Any, Final

from simharness.contracts.host import (
    Action,
    App,
    Halt,
    HostContext,
    HostKind,
    HostMessage,
    RecordEvent,
    ScheduleTimer,
    Send,
    SendFailed,
    Slow,
    TimerFired,
    Wire,
    why_no_host,
)
from simharness.contracts.mutations import Mutation, PeerPause, PeerSlow
from simharness.contracts.network import Arrive, DropReason
from simharness.contracts.scenario import PeerDecl
from simharness.core.errors import EngineAbort
from simharness.core.streams import Root
from simharness.disk.crash import CrashDisk
from simharness.live.channel import Go, Halted, Seen, Setup, Snapshot
from simharness.live.envelope import Envelope
from simharness.live.vertex import Vertex
from simharness.systems.swim.udp import frame, unframe

_FULL_PACE: Final = 100


def declared(setup: Setup) -> PeerDecl:
    """Return the declaration of the peer that a process is to be."""
    (decl,) = [peer for peer in setup.scenario.peers if peer.id == setup.subject]
    return decl


def lateness_ns(due_ns: int, now_ns: int, pauses: Sequence[tuple[int, int]]) -> int:
    """Return how much later than it could a tick came: what was due in a pause, or is frozen by one, can come at its end."""
    ends = [end_ns for start_ns, end_ns in pauses if start_ns <= now_ns and due_ns < end_ns]
    return max(0, now_ns - max([due_ns, *ends]))


class PeerProcess(Vertex):
    """Ticks its host in real time, hands it what arrives, carries out its actions in returned order (§4.6)."""

    def __init__(self, setup: Setup, go: Go, out_fd: int, kind: HostKind) -> None:
        super().__init__(setup, go, out_fd)
        decl = declared(setup)
        root = Root(setup.scenario.seed)
        self._period_ns = setup.scenario.tick_period_ns(decl)
        self._first_tick_ns = root.host(self.id, "tick_offset").u64() % self._period_ns
        self._tag, self._codec = kind.kind_tag, kind.codec
        self._host = kind.new(
            HostContext(
                host_id=self.id,
                config=decl.kind_config,
                initial_state=decl.initial_state,
                tick_period_ns=self._period_ns,
                rng=root.host_rng(self.id),
                peers=setup.scenario.peers,
                disk=CrashDisk(),
                instance=setup.instance,
            )
        )
        wrong = why_no_host(self._host)
        if wrong is not None:
            raise EngineAbort(rule="kind-contract", detail=f"kind {self._tag}: {wrong}", host_id=self.id)
        self._halted = self._deaf = False
        pauses = [item for item in self._timeline if isinstance(item, PeerPause) and item.peer == self.id]
        self._pauses = [(item.at_ns, item.at_ns + item.duration_ns) for item in pauses]
        self._slowings = [item for item in self._timeline if isinstance(item, PeerSlow) and item.peer == self.id]
        self._told_x100 = _FULL_PACE
        self._tap = setup.tap
        self._snapshots = sorted(item.at_ns for item in setup.scenario.snapshots if item.at_ns >= go.born_ns)

    def _start(self) -> None:
        born_ns = self._go.born_ns
        first_ns = born_ns + self._period_ns if born_ns else self._first_tick_ns
        self.at(first_ns, self._tick, first_ns)
        for slowing in self._slowings:
            for at_ns in (slowing.at_ns, slowing.at_ns + slowing.duration_ns):
                self.at(at_ns, self._tell_pace, max(at_ns, born_ns))
        for at_ns in self._snapshots:
            self.at(at_ns, self._take_snapshots, at_ns)

    # --- calls of the host -----------------------------------------------------------------------------------------

    def _tick(self, due_ns: int) -> None:
        """Tick, then wait for the next instant of the grid; one that has been missed is left out."""
        now_ns = self.moment(due_ns)
        if self.ended(now_ns) or self._halted:
            return
        self.late_ns = max(self.late_ns, lateness_ns(due_ns, now_ns, self._pauses))
        self._see(now_ns, "tick")
        self.perform(self._host.tick(now_ns), now_ns, in_recv=False)
        next_ns = due_ns + ((now_ns - due_ns) // self._period_ns + 1) * self._period_ns
        self.at(next_ns, self._tick, next_ns)

    def hear(self, message: HostMessage, now_ns: int) -> None:
        """Hand a message or an envelope to the host, unless it is deaf."""
        if not (self.ended(now_ns) or self._deaf):
            self.perform(self._host.recv(message, now_ns), now_ns, in_recv=True)

    def _tell_pace(self, due_ns: int) -> None:
        """Tell the host how slow it is from now on, if that is news; of the factors in force the last one wins (K2, M4)."""
        now_ns = self.moment(due_ns)
        factors = [item.factor_x100 for item in self._slowings if item.at_ns <= now_ns < item.at_ns + item.duration_ns]
        factor_x100 = factors[-1] if factors else _FULL_PACE
        if factor_x100 != self._told_x100:
            self._told_x100 = factor_x100
            self._see(now_ns, "slow", data=b"%d" % factor_x100)
            self.hear(Slow(factor_x100), now_ns)

    def _arrived(self, envelope: Envelope, data: bytes) -> None:
        now_ns = self.moment(envelope.due_ns if envelope.refusal is None else 0)
        self.advance(now_ns)
        if envelope.refusal is not None:
            self._drop(self._peer_ids[envelope.target], envelope.refusal, now_ns)
            return
        source, sent_ns = self._peer_ids[envelope.source], envelope.sent_ns
        cut_ns = self._cut_ns(source, sent_ns, envelope.due_ns)
        if cut_ns is not None:
            self.lost(cut_ns, source, self.id, "partition", sent_ns)
        elif self._deaf:
            self.lost(now_ns, source, self.id, "host_halted", sent_ns)
        elif not self.ended(now_ns):
            self._see(now_ns, "received", source, data)
            try:
                message = self._codec.decode(Wire(*unframe(data)))
            except ValueError as error:
                detail = f"{len(data)} bytes from {source}: {error}"
                raise EngineAbort(rule="undecodable-message", detail=detail, host_id=self.id, at_ns=now_ns) from None
            self.hear(App(message), now_ns)

    def _cut_ns(self, source: str, sent_ns: int, due_ns: int) -> int | None:
        """Return when a partition came over a message on its way (§5.5), or None."""
        pair = {source, self.id}
        for cut in self._partitions:
            if sent_ns < cut.at_ns <= due_ns and all(
                len(pair.intersection(side)) == 1 for side in (cut.peers_a, cut.peers_b)
            ):
                return cut.at_ns
        return None

    # --- actions (§4.6) --------------------------------------------------------------------------------------------

    def perform(self, actions: Sequence[Action], now_ns: int, *, in_recv: bool) -> None:
        """Carry out the actions of one call."""
        for action in actions:
            match action:
                case Send():
                    self._send(action, now_ns)
                case RecordEvent(event):
                    self.own_event(event, now_ns)
                case ScheduleTimer():
                    self.schedule(action)
                case Halt():
                    self._halted = True
                    self._deaf = self._deaf or in_recv
                    self.tell(Halted())

    def own_event(self, event: dict[str, Any], now_ns: int) -> None:
        """Record an event of the host."""
        self.record(now_ns, self.id, self._tag, event)

    def schedule(self, timer: ScheduleTimer) -> None:
        """Let a timer fire at its time."""
        self.at(timer.at_ns, self._fire, timer)

    def _fire(self, timer: ScheduleTimer) -> None:
        now_ns = self.moment(timer.at_ns)
        self._see(now_ns, "timer", data=b"%d" % timer.token)
        self.hear(TimerFired(timer.token), now_ns)

    def _send(self, send: Send, now_ns: int) -> None:
        wire = send.wire or self._codec.encode(send.message)
        data = frame(*wire)
        self._see(now_ns, "sent", send.to, data)
        self.advance(now_ns)
        outcome = self._links.send(self.id, send.to, len(data), now_ns)
        self.notices(outcome.notices)
        if isinstance(outcome, Arrive):
            envelope = Envelope(self._place[self.id], self._place[send.to], now_ns, outcome.at_ns)
            self.transmit(envelope, data, self._links.next_hop(self.id, send.to))
        else:
            self._drop(send.to, outcome.reason, now_ns)

    def _drop(self, to: str, reason: DropReason, now_ns: int) -> None:
        """Record a refused send, and tell the host of it next."""
        self.record(now_ns, self.id, "engine", {"kind": "DropOnSend", "from": self.id, "to": to, "reason": reason})
        self._loop.call_soon(self._report_failure, to, reason)

    def _report_failure(self, to: str, reason: str) -> None:
        now_ns = self.now()
        if self._deaf:
            return
        self.record(now_ns, self.id, "engine", {"kind": "SendFailed", "from": self.id, "to": to, "reason": reason})
        if not self.ended(now_ns):
            self._see(now_ns, "failed", to, reason.encode())
        self.hear(SendFailed(to, reason), now_ns)

    def _see(self, now_ns: int, what: str, other: str = "", data: bytes = b"") -> None:
        if self._tap:
            self.tell(Seen(now_ns, self.id, what, other, data))

    # --- snapshots -------------------------------------------------------------------------------------------------

    def _take_snapshots(self, due_ns: int) -> None:
        """Take every snapshot that is due; one that is due at the end of the run is part of it (ruling E12)."""
        now_ns = self.moment(due_ns)
        while self._snapshots and self._snapshots[0] <= min(now_ns, self._scenario.duration_ns):
            self._snapshots.pop(0)
            if now_ns < self._end_ns or not self._is_killed_at_end():
                at_ns = min(now_ns, self._scenario.duration_ns)
                self.tell(Snapshot(at_ns, self._tag, self._host.snapshot()))

    def _applied(self, mutation: Mutation) -> None:
        """The host notices nothing but what the links do to it."""

    def _conclude(self) -> None:
        self._take_snapshots(self._end_ns)
