"""The probe cycle: direct ping, indirect pings through relays, suspicion, and the dead re-probe. One probe at a time.

A state machine over ticks. It returns actions; the node carries them out after the step has returned, so a Suspect
reaches the member list after the step, whereas a death has flipped its entry already.
"""

from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from simharness.systems.swim.config import Defect, SwimConfig
from simharness.systems.swim.diagnostics import ProbeAcked, ProbeKind, ProbeTimedOut
from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.lifeguard import Accusations, Health
from simharness.systems.swim.members import MemberList, MemberState

MAX_DEMANDS: Final = 32
NEVER: Final = 1 << 62
"""A tick that does not come."""


class Phase(IntEnum):
    """Where the one open probe stands."""

    IDLE = 0
    DIRECT = 1
    INDIRECT = 2


class SendPing(NamedTuple):
    """Ping `to`."""

    to: NodeId
    sequence: int


class SendPingReq(NamedTuple):
    """Ask `relay` to ping `target`."""

    relay: NodeId
    target: NodeId
    sequence: int


class SuspectPeer(NamedTuple):
    """The probe of `peer` failed."""

    peer: NodeId


class DeclareDead(NamedTuple):
    """The suspicion of `peer` expired; its entry is Dead already."""

    peer: NodeId


Action = SendPing | SendPingReq | SuspectPeer | DeclareDead | ProbeTimedOut


class _Timer(msgspec.Struct, gc=False):
    """A running suspicion of one peer, at one incarnation, since tick `started`."""

    started: int
    incarnation: int


class ProbeCycle:
    """Probes one member after another and says whom to suspect and whom to declare dead."""

    __slots__ = (
        "_accusations",
        "_config",
        "_demands",
        "_health",
        "_index",
        "_members",
        "_next_probe",
        "_next_reprobe",
        "_order",
        "_phase",
        "_reprobe_index",
        "_sent_at",
        "_sequence",
        "_silent",
        "_target",
        "_target_sequence",
        "_tick",
        "_timers",
    )

    def __init__(self, config: SwimConfig, members: MemberList, health: Health, accusations: Accusations) -> None:
        self._config = config
        self._members = members
        self._health = health
        self._accusations = accusations
        self._silent: list[NodeId] = []  # who would have said something in the indirect phase if this node were well
        self._tick = 0
        self._sequence = 0
        self._phase = Phase.IDLE
        self._target = members.self_id
        self._target_sequence = 0
        self._sent_at = 0
        self._next_probe = config.probe_interval
        self._order: list[NodeId] = []
        self._index = 0
        self._timers: dict[NodeId, _Timer] = {}
        self._next_reprobe = config.dead_reprobe_interval or NEVER
        self._reprobe_index = 0
        self._demands: deque[NodeId] = deque()

    def step(self, tick: int, claims: Mapping[NodeId, int]) -> list[Action]:
        """Advance to `tick`. `claims` is what is held back about peers (`hearsay`)."""
        self._tick = tick
        actions: list[Action] = []
        if self._phase and tick - self._sent_at >= self._budget():
            if self._phase is Phase.DIRECT:
                self._ask_relays(actions)
            else:
                self._fail(actions, claims)
        if self._timers:
            self._expire_suspicions(actions)
        self._start_probe(actions)
        if tick >= self._next_reprobe:
            self._reprobe(actions)
        return actions

    def due(self) -> int:
        """Return the next tick at which `step` can do anything, if no other input comes before."""
        due = self._next_reprobe
        if self._phase:
            due = min(due, self._sent_at + self._budget())
        else:
            due = min(due, self._tick + 1 if self._demands else self._next_probe)
        if self._timers:
            ends = [timer.started + self._accusations.timeout(peer) for peer, timer in self._timers.items()]
            due = min(due, *ends)
        return due

    def next_sequence(self) -> int:
        """Return a sequence number that no other probe of this node bears."""
        self._sequence += 1
        return self._sequence

    def ack_received(self, sender: NodeId, sequence: int) -> ProbeAcked | None:
        """Complete the open probe if this answers it: a late direct ack still saves a probe in its indirect phase."""
        return self._complete(sender) if self._phase and self._matches(sender, sequence) else None

    def indirect_ack_received(self, target: NodeId, sequence: int) -> ProbeAcked | None:
        """Complete the open probe if this answers it through a relay."""
        return self._complete(target) if self._phase is Phase.INDIRECT and self._matches(target, sequence) else None

    def nack_received(self, relay: NodeId, target: NodeId, sequence: int) -> None:
        """Note that a relay of the open probe is well, though its target has not answered."""
        if self._phase is Phase.INDIRECT and self._matches(target, sequence) and relay in self._silent:
            self._silent.remove(relay)

    def send_failed(self, to: NodeId, tick: int) -> SendPing | None:
        """Probe a live peer that could not be reached: now if idle, else when the open probe ends."""
        self._tick = tick
        member = self._members.get(to)
        if member is None or member.state is MemberState.DEAD or to in self._demands:
            return None
        if self._phase is Phase.IDLE:
            return self._probe(to, self._tick + 1)  # the tick that is running is no part of its budget
        self.demand(to)
        return None

    def demand(self, peer: NodeId) -> None:
        """Ask for a probe of `peer` ahead of its turn, unless it is being probed or asked for already."""
        probed = self._phase and peer == self._target
        if not probed and peer not in self._demands and len(self._demands) < MAX_DEMANDS:
            self._demands.append(peer)

    def member_changed(self, peer: NodeId, state: MemberState, incarnation: int) -> None:
        """Follow an accepted claim about `peer`."""
        timer = self._timers.get(peer)
        if timer is None or Defect.TIMER_SURVIVES_REFUTATION in self._config.defects:
            return  # B4: a timer that outlives its suspicion ends the next one early
        if state is MemberState.ALIVE or incarnation > timer.incarnation:
            del self._timers[peer]

    def excuse_pause(self, tick: int) -> None:
        """Forget what went unanswered while this node was frozen: no verdict on the open probe, suspicions start anew."""
        self._phase = Phase.IDLE
        if Defect.TIMER_SURVIVES_PAUSE in self._config.defects:
            return  # a suspicion from before the pause ends early, though whoever is accused could not be heard
        for timer in self._timers.values():
            timer.started = tick

    def _budget(self) -> int:
        """Return how long each phase of a probe lasts now."""
        return self._config.probe_timeout * self._health.multiplier

    def _matches(self, peer: NodeId, sequence: int) -> bool:
        return sequence == self._target_sequence and peer == self._target

    def _complete(self, peer: NodeId) -> ProbeAcked:
        kind: ProbeKind = "direct" if self._phase is Phase.DIRECT else "indirect"
        # TIMER_SURVIVES_ACK: a peer that answered, but whose refutation found no room in its Ack, is buried for it
        if Defect.TIMER_SURVIVES_ACK not in self._config.defects:
            self._timers.pop(peer, None)
        self._phase = Phase.IDLE
        self._health.better()
        return ProbeAcked(peer, self._target_sequence, kind)

    def _ask_relays(self, actions: list[Action]) -> None:
        """End the direct phase. With no relay at all the probe still waits its second budget."""
        target, sequence = self._target, self._target_sequence
        actions.append(ProbeTimedOut(target, sequence, "direct", self._budget()))
        relays = [peer for peer in self._members.alive_members() if peer != target]
        count = len(relays)
        asked = [relays[(self._tick + step) % count] for step in range(min(self._config.indirect_probes, count))]
        actions.extend([SendPingReq(relay, target, sequence) for relay in asked])
        self._silent = asked or [target]  # with nobody to ask, the target's own silence has to do
        self._phase = Phase.INDIRECT
        self._sent_at = self._tick

    def _fail(self, actions: list[Action], claims: Mapping[NodeId, int]) -> None:
        """End the indirect phase: suspect the target, and time the suspicion whatever its state."""
        target = self._target
        actions.append(ProbeTimedOut(target, self._target_sequence, "indirect", self._budget()))
        self._health.worse(len(self._silent))
        actions.append(SuspectPeer(target))
        if target not in self._timers:
            member = self._members.get(target)
            incarnation = 0 if member is None else member.incarnation
            self._timers[target] = _Timer(self._tick, max(incarnation, claims.get(target, 0)))
        self._phase = Phase.IDLE

    def _expire_suspicions(self, actions: list[Action]) -> None:
        lasting, tick = self._accusations.timeout, self._tick
        for peer in [peer for peer, timer in self._timers.items() if tick - timer.started >= lasting(peer)]:
            del self._timers[peer]
            if self._members.declare_dead(peer):  # only if it is still Suspect
                actions.append(DeclareDead(peer))
                if peer == self._target:
                    self._phase = Phase.IDLE

    def _start_probe(self, actions: list[Action]) -> None:
        if self._phase is not Phase.IDLE:
            return
        if Defect.DEMAND_QUEUE_STUCK not in self._config.defects:  # B7: what is queued while busy is never probed
            while self._demands:
                peer = self._demands.popleft()
                member = self._members.get(peer)
                if member is not None and member.state is not MemberState.DEAD:
                    actions.append(self._probe(peer, self._tick))
                    return
        if self._tick >= self._next_probe:
            self._next_probe = self._tick + self._config.probe_interval * self._health.multiplier
            target = self._next_target()
            if target is not None:
                actions.append(self._probe(target, self._tick))

    def _probe(self, target: NodeId, sent_at: int) -> SendPing:
        self._phase = Phase.DIRECT
        self._target = target
        self._target_sequence = self.next_sequence()
        self._sent_at = sent_at
        return SendPing(target, self._target_sequence)

    def _next_target(self) -> NodeId | None:
        """Go round the members that are not Dead, in an order shuffled anew each round or when their number changed."""
        alive = self._members.alive_members()
        if not alive:
            return None
        if self._index >= len(self._order) or len(self._order) != len(alive):
            order = self._order = list(alive)
            turn = self._tick * 31
            for i in range(len(order) - 1, 0, -1):
                j = (turn + i) % (i + 1)
                order[i], order[j] = order[j], order[i]
            self._index = 0
        target = self._order[self._index]
        self._index += 1
        return target

    def _reprobe(self, actions: list[Action]) -> None:
        """Ping one Dead member, in turn. No probe is opened: the answer serves by the gossip it carries."""
        self._next_reprobe = self._tick + self._config.dead_reprobe_interval
        dead = self._members.dead_members()
        if dead:
            actions.append(SendPing(dead[self._reprobe_index % len(dead)], self.next_sequence()))
            self._reprobe_index += 1
