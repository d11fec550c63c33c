"""What a peer's process and a relay's have in common: the clock, the socket, the timeline, the records."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from simharness.contracts.mutations import Mutation, Partition, PeerKill, PeerResurrect, RelayKill
from simharness.contracts.network import Notice
from simharness.core.errors import EngineAbort
from simharness.core.units import NS_PER_S
from simharness.live.channel import Done, Event, Failed, Go, Setup, packed, write
from simharness.live.envelope import Envelope, opened
from simharness.live.links import OwnLinks
from simharness.systems.swim.udp import MAX_DATAGRAM, Endpoint

_LONGEST_DETAIL: Final = 500


class Vertex(ABC):
    """One process of the run, from `Go` to its end.

    Every process has the scenario and the common start, and so follows the timeline of mutations by its own clock: before it
    sends or records anything at a time, it has applied what the scenario says about the links up to then. One that the timeline
    kills falls silent at that instant and waits for the signal.
    """

    def __init__(self, setup: Setup, go: Go, out_fd: int) -> None:
        self._scenario, self._go, self._out_fd = setup.scenario, go, out_fd
        self.id = setup.subject
        self._links = OwnLinks(setup.scenario)
        self._peer_ids = tuple(peer.id for peer in setup.scenario.peers)
        self._place = {peer_id: place for place, peer_id in enumerate(self._peer_ids)}
        self._addresses = {vertex: (setup.address, port) for vertex, port in setup.ports.items()}
        self._now_ns = go.born_ns
        self._timeline = [item for _, item in sorted(enumerate(setup.scenario.mutations), key=_by_time)]
        self._reached = 0
        self._partitions = tuple(item for item in setup.scenario.mutations if isinstance(item, Partition))
        self._dead: dict[str, None] = {}
        self._end_ns = min(_killed_ns(self._timeline, self.id, go.born_ns), setup.scenario.duration_ns)
        self.over = asyncio.Event()
        self.late_ns = 0
        self._endpoint: Endpoint
        self._loop: asyncio.AbstractEventLoop

    async def play(self, bound: Any) -> None:
        """Take part in the run until its end; if this process is to be killed, wait for that."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_exception)
        self._endpoint = await Endpoint.open(bound, self._on_datagram)
        self._start()
        self.at(self._end_ns, self._finish)
        await self.over.wait()
        self._endpoint.close()

    # --- what the two kinds of process do ----------------------------------------------------------------------------

    @abstractmethod
    def _start(self) -> None:
        """Set the timers of the beginning."""

    @abstractmethod
    def _arrived(self, envelope: Envelope, frame: bytes) -> None:
        """Take a message whose way has come to its end; one that a relay refused is on its way back."""

    @abstractmethod
    def _applied(self, mutation: Mutation) -> None:
        """Follow a mutation that the links have followed already."""

    @abstractmethod
    def _conclude(self) -> None:
        """Say what there is to say at the end of the run."""

    # --- time ------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """Return the time since the common start; it never goes back."""
        return self.moment(0)

    def moment(self, due_ns: int) -> int:
        """Return the time of something that was due at `due_ns`: not before that, whatever the timer thinks."""
        self._now_ns = max(self._now_ns, due_ns, time.monotonic_ns() - self._go.start_ns)
        return self._now_ns

    def at(self, at_ns: int, call: Callable[..., object], *operands: Any) -> None:
        """Call something at a time since the start, or soon if that is past."""
        self._loop.call_at((self._go.start_ns + at_ns) / NS_PER_S, call, *operands)

    def ended(self, now_ns: int) -> bool:
        """Tell whether this process has nothing to do with what happens at `now_ns`."""
        return now_ns >= self._end_ns

    def advance(self, now_ns: int) -> None:
        """Apply every mutation that is due."""
        timeline = self._timeline
        while self._reached < len(timeline) and timeline[self._reached].at_ns <= now_ns:
            mutation = timeline[self._reached]
            self._reached += 1
            if isinstance(mutation, PeerKill):
                if mutation.peer in self._dead:
                    continue
                self._dead[mutation.peer] = None
            elif isinstance(mutation, PeerResurrect):
                self._dead.pop(mutation.peer, None)
            effect = self._links.apply_mutation(mutation, mutation.at_ns)
            for lost in effect.invalidated:
                if lost.reason == "host_killed":  # of what else is lost, whoever loses it tells
                    self.lost(mutation.at_ns, lost.source, lost.target, lost.reason, lost.sent_at_ns)
            self.notices(effect.notices)
            self._applied(mutation)

    # --- records ---------------------------------------------------------------------------------------------------

    def tell(self, value: msgspec.Struct) -> None:
        """Report something to the coordinator."""
        write(self._out_fd, packed(value))

    def record(self, at_ns: int, host_id: str | None, kind_tag: str, event: dict[str, Any]) -> None:
        """Record an event, unless it comes after the end."""
        if not self.ended(at_ns):
            self.tell(Event(at_ns, host_id, kind_tag, event))

    def notices(self, notices: Iterable[Notice]) -> None:
        """Record what the links did; what is still to come, when it comes."""
        for notice in notices:
            operands = (notice.at_ns, notice.host_id, notice.kind_tag, notice.event)
            if notice.at_ns <= self._now_ns:
                self.record(*operands)
            else:
                self.at(notice.at_ns, self.record, *operands)

    def lost(self, at_ns: int, source: str, target: str, reason: str, sent_ns: int) -> None:
        """Record a message that was on its way and does not arrive."""
        event = {"kind": "DropOnDelivery", "from": source, "to": target, "reason": reason, "sent_at_ns": sent_ns}
        self.record(at_ns, target, "engine", event)

    # --- datagrams -------------------------------------------------------------------------------------------------

    def transmit(self, envelope: Envelope, frame: bytes, hop: str) -> None:
        """Send a frame to the vertex `hop`, which holds it until it is due: a killed sender's messages are on their way too.

        Raises:
            EngineAbort: If no datagram is that large.
        """
        datagram = envelope.before(frame)
        if len(datagram) > MAX_DATAGRAM:
            raise EngineAbort(rule="live-message-too-large", detail=f"{len(frame)} bytes", host_id=self.id)
        self._endpoint.send(datagram, self._addresses[hop])
        if hop in self._dead:
            self.at(envelope.due_ns, self._unheard, envelope, hop)

    def _unheard(self, envelope: Envelope, target: str) -> None:
        """Record a message that has come to a dead peer."""
        self.advance(self.moment(envelope.due_ns))
        if target in self._dead:
            self.lost(envelope.due_ns, self._peer_ids[envelope.source], target, "host_killed", envelope.sent_ns)

    def _on_datagram(self, datagram: bytes) -> None:
        """Hold a message until it is due; what was meant for an earlier life of this subject is nobody's."""
        envelope, frame = opened(datagram)
        if envelope.sent_ns >= self._go.deaf_until_ns and envelope.due_ns >= self._go.born_ns:
            if envelope.due_ns <= self.now():
                self._arrived(envelope, frame)
            else:
                self.at(envelope.due_ns, self._arrived, envelope, frame)

    # --- the end ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._end_ns == self._scenario.duration_ns:
            self.advance(self._end_ns)
        if not self._is_killed_at_end():
            self._conclude()
            self.tell(Done(self.late_ns))
            self.over.set()

    def _is_killed_at_end(self) -> bool:
        return _killed_ns(self._timeline, self.id, self._go.born_ns) <= self._end_ns

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report what escaped from a call, and end."""
        self.tell(failure(context.get("exception"), context["message"], self._now_ns))
        self.over.set()


def failure(error: BaseException | None, message: str, at_ns: int) -> Failed:
    """Return the report of an error: of an abort its own rule, of anything else its name and the line that raised it."""
    if isinstance(error, EngineAbort):
        return Failed(error.rule, error.detail, at_ns)
    if error is None:
        return Failed("host-raised", message[:_LONGEST_DETAIL], at_ns)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_name}, line {trace.tb_lineno})"
    return Failed("host-raised", f"{type(error).__name__}: {error}{where}"[:_LONGEST_DETAIL], at_ns)


def _by_time(item: tuple[int, Mutation]) -> tuple[int, int]:
    return item[1].at_ns, item[0]


def _killed_ns(timeline: Iterable[Mutation], subject: str, born_ns: int) -> int:
    """Return when the timeline ends the life that began at `born_ns`; a life that begins at 0 may end there too."""
    for item in timeline:
        aimed = item.peer if isinstance(item, PeerKill) else item.relay if isinstance(item, RelayKill) else None
        if aimed == subject and (item.at_ns > born_ns or not born_ns):
            return item.at_ns
    return 1 << 64
