"""The SWIM node: the only front door. Ticks and messages go in, messages and diagnostics come out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import orjson

from simharness.systems.swim.config import JOIN_RETRY_INTERVALS, Defect, SwimConfig
from simharness.systems.swim.diagnostics import (
    Fault,
    GossipReceived,
    IncarnationBumped,
    Introspector,
    ProbeSent,
    Reason,
    Transition,
)
from simharness.systems.swim.hearsay import Hearsay
from simharness.systems.swim.ids import Directory, NodeId
from simharness.systems.swim.lifeguard import Accusations, Health
from simharness.systems.swim.members import STATE_NAMES, Member, MemberList, MemberState
from simharness.systems.swim.messages import (
    Ack,
    IndirectAck,
    IndirectNack,
    JoinRequest,
    JoinResponse,
    Message,
    MetadataGossip,
    Ping,
    PingReq,
    Record,
    RegistryGossip,
)
from simharness.systems.swim.names import COLLECT_EVERY_TICKS, Names
from simharness.systems.swim.outbox import Outbox, Outgoing, Output
from simharness.systems.swim.probe import (
    NEVER,
    Action,
    DeclareDead,
    ProbeCycle,
    SendPing,
    SendPingReq,
    SuspectPeer,
)
from simharness.systems.swim.relays import Relayed, Relays, nack_after
from simharness.systems.swim.wire import WireError, malformed_claim, unpack

ALIVE, SUSPECT, DEAD = MemberState


_NOTHING: Final[tuple[Output, ...]] = ()


class SwimNode:
    """One member. Reads no clock: time comes in with every call, and ticks are counted.

    Args:
        directory: Host names, for the snapshot.
        self_id: This node.
        config: Its configuration.
        members: (id, incarnation) of every node that it knows from the start.
        seeds: Whom it asks to join; it asks at its first tick at or after `config.join_at_ns`.
        incarnation: Its own, at birth.
    """

    def __init__(
        self,
        *,
        directory: Directory,
        self_id: NodeId,
        config: SwimConfig,
        members: Iterable[tuple[NodeId, int]] = (),
        seeds: Sequence[NodeId] = (),
        incarnation: int = 0,
    ) -> None:
        self._config = config
        self._id = self_id
        self._directory = directory
        self.members = MemberList(self_id, incarnation=incarnation, defects=config.defects)
        self.members.preload(members)
        self._names = Names(self.members, config)
        self._health = Health(config.lifeguard)
        self._accusations = Accusations(config.lifeguard, self.members, config.suspicion_timeout)
        self._probe = ProbeCycle(config, self.members, self._health, self._accusations)
        self._hearsay = Hearsay(self.members, config.suspicion_timeout, config.defects)
        self._introspector = Introspector(self.members, self._names.metadata, directory)
        self._outbox = Outbox(config, self.members, self._names, self._hearsay, self._introspector)
        self._relays = Relays()
        self._seeds = tuple(seeds)
        self._next_join = 0
        self._leaves_at_ns = config.leave_at_ns
        self._left = False
        self._tick = 0
        self._now_ns = 0
        self._ticked_ns: int | None = None
        self._due = 0

    # --- inputs -----------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> Sequence[Output]:
        """Count one tick. Costs next to nothing while nothing is due."""
        tick = self._tick = self._tick + 1
        before = self._ticked_ns
        self._now_ns = self._ticked_ns = now_ns
        if before is not None and now_ns - before > 2 * self._config.tick_period_ns:
            self._resume()
        if tick < self._due:
            return _NOTHING
        out: list[Output] = []
        if self._seeds:
            self._join(out)
        if self._leaves_at_ns is not None and now_ns >= self._leaves_at_ns:
            self._leaves_at_ns = None
            self.leave()
        for peer in self._hearsay.expired(tick):
            self._believe_hearsay(peer, out)
        for requester, target, asked, _ in self._relays.unanswered(tick):
            out.append(Outgoing(requester, IndirectNack(sender=self._id, target=target, sequence=asked)))
        self._perform(self._probe.step(tick, self._hearsay.claims), out)
        if tick % COLLECT_EVERY_TICKS == 0:
            self._names.registry.collect()
        self._due = self._next_due()
        return out

    def handle(self, message: Message, now_ns: int) -> Sequence[Output]:
        """Take one received message."""
        self._now_ns = now_ns
        self._due = 0
        out: list[Output] = []
        if Defect.ACK_DISPATCHED_AS_PING in self._config.defects and isinstance(message, Ack | PingReq):
            # S1: the original simulator guessed the kind from the JSON shape, and Ping matched first
            message = Ping(sender=message.sender, sequence=message.sequence, piggyback=message.piggyback)
        _HANDLERS[type(message)](self, message, out)
        return out

    def report_send_failure(self, target: NodeId, now_ns: int) -> Sequence[Output]:
        """Learn that a message to `target` could not be sent."""
        self._now_ns = now_ns
        self._due = 0
        out: list[Output] = []
        ping = self._probe.send_failed(target, self._tick)
        if ping is not None:
            self._perform([ping], out)
        return out

    def leave(self) -> None:
        """Spread the own death and give up the own names. Keep ticking: it rides on later messages, and is not refuted."""
        self._left = True
        self._names.registry.disown()
        self._outbox.spread(self._id, DEAD, self.members.self_incarnation)
        self._due = 0

    def farewell(self, now_ns: int) -> Sequence[Output]:
        """Give up the own names and tell every member that is not Dead, for a process that ends now. Do not tick it again."""
        self._now_ns = now_ns
        frames = self._names.farewell()
        return [Outgoing(member, frame) for member in self.members.alive_members() for frame in frames]

    def register(self, name: str, actor_addr: NodeId | None = None) -> None:
        """Register a name for this node, at an address of its own or at the node's.

        Raises:
            ValueError: If the name is empty or too long (`config.MAX_TEXT_BYTES`).
        """
        self._names.registry.register(name, self._id if actor_addr is None else actor_addr)

    def unregister(self, name: str) -> None:
        """Take a name back; unknown names are ignored."""
        self._names.registry.unregister(name)

    # --- views ------------------------------------------------------------------------------------------------------

    @property
    def hearsay(self) -> dict[NodeId, int]:
        """Claims held back, by peer, in the order of ids."""
        return dict(sorted(self._hearsay.claims.items()))

    def resolve(self, name: str) -> NodeId | None:
        """Return the address that `name` is registered at, or None."""
        entry = self._names.registry.live().get(name)
        return None if entry is None else entry.actor_addr

    def snapshot(self) -> bytes:
        """Return the tier-2 state with host names beside ids, the name registry (name to owner) and the hearsay, as JSON.

        With Lifeguard the health score follows.
        """
        name = self._directory.name
        owners = {key: name(entry.node) for key, entry in self._names.registry.live().items()}
        held = {name(peer): incarnation for peer, incarnation in self.hearsay.items()}
        tier2 = self._introspector.tier2(self._config, self._now_ns)
        health = b"" if self._config.lifeguard is None else b',"health_score":%d' % self._health.score
        return b'{%b,"name_registry":%b,"hearsay":%b%b}' % (tier2, orjson.dumps(owners), orjson.dumps(held), health)

    # --- ticks ------------------------------------------------------------------------------------------------------

    def _next_due(self) -> int:
        if self._seeds or self._leaves_at_ns is not None:
            return self._tick + 1  # these wait for a time, not for a tick
        due = self._probe.due()
        due = min(due, self._hearsay.due() or NEVER, self._relays.due() or NEVER)
        if self._names.registry:
            due = min(due, self._tick - self._tick % COLLECT_EVERY_TICKS + COLLECT_EVERY_TICKS)
        return min(due, NEVER)

    def _resume(self) -> None:
        """Notice that this node was frozen: it heard nothing meanwhile, and that is nobody's fault but its own."""
        if Defect.OWN_PAUSE_COUNTED in self._config.defects:  # a node's own pause counts as the others' silence
            return
        self._probe.excuse_pause(self._tick)
        self._due = 0

    def _join(self, out: list[Output]) -> None:
        if self._now_ns < self._config.join_at_ns or self._tick < self._next_join:
            return
        self._next_join = self._tick + JOIN_RETRY_INTERVALS * self._config.probe_interval
        out.extend(Outgoing(seed, JoinRequest(sender=self._id)) for seed in self._seeds)

    def _perform(self, actions: Iterable[Action], out: list[Output]) -> None:
        for action in actions:
            if isinstance(action, SendPing):
                out.append(ProbeSent(action.to, action.sequence, "direct"))
                self._claim_again(action.to)
                self._outbox.ping(action.to, action.sequence, self._now_ns, out)
            elif isinstance(action, SendPingReq):
                out.append(ProbeSent(action.target, action.sequence, "indirect"))
                self._outbox.ping_req(*action, out)
            elif isinstance(action, SuspectPeer):
                self._suspect(action.peer, out)
            elif isinstance(action, DeclareDead):
                member = self.members.get(action.peer)
                assert member is not None
                self._changed(action.peer, SUSPECT, member, "suspicion-timeout", out)
            else:
                out.append(action)

    def _suspect(self, peer: NodeId, out: list[Output]) -> None:
        """Believe the own failed probe of `peer`; if others have said it before, tell that there is one more to say so."""
        self._believe_hearsay(peer, out)
        member = self.members.get(peer)
        if member is None:
            return
        accused = self._accusations.accuse(peer, member.incarnation, self._id)
        if self.members.suspect(peer):
            self._changed(peer, ALIVE, member, "probe-timeout", out)
        elif accused and member.state is SUSPECT:
            self._outbox.spread(peer, SUSPECT, member.incarnation, self._id)

    def _claim_again(self, peer: NodeId) -> None:
        """Queue what is held against `peer`, so that its Ping gives it the chance to refute (Lifeguard's buddy rule)."""
        member = self.members.get(peer)
        if member is not None and member.state is not ALIVE:
            self._outbox.spread(peer, member.state, member.incarnation, self._accusations.of(peer)[0])

    # --- messages ---------------------------------------------------------------------------------------------------

    def _on_ping(self, message: Ping, out: list[Output]) -> None:
        sender = message.sender
        self._introspector.ping_received(sender, message.sequence, self._now_ns)
        if message.piggyback:
            self._gossip(sender, message.piggyback, out)
        self._apply(sender, ALIVE, 0, "ping-received", out)
        self._outbox.ack(sender, message.sequence, out)

    def _on_ack(self, message: Ack, out: list[Output]) -> None:
        sender, sequence = message.sender, message.sequence
        self._introspector.ack_received(sender, sequence, self._now_ns)
        if message.piggyback:
            self._gossip(sender, message.piggyback, out)
        self._hearsay.acked(sender, self._tick)
        done = self._probe.ack_received(sender, sequence)
        if done is not None:
            out.append(done)
        relayed = self._relays.answered(sender, sequence)
        if relayed is not None:
            self._outbox.forward_ack(relayed.requester, relayed.target, relayed.asked, out)

    def _on_ping_req(self, message: PingReq, out: list[Output]) -> None:
        self._introspector.received("ping_req", message.sender, message.sequence, self._now_ns)
        if message.piggyback:
            self._gossip(message.sender, message.piggyback, out)
        # B8: under the requester's number, one ack may complete both the relay's own probe and the relayed one
        shared = Defect.PROBE_KEY_SHARED in self._config.defects
        sent = message.sequence if shared else self._probe.next_sequence()
        nack_at = self._tick + nack_after(self._config.probe_timeout) if message.nack else None
        self._relays.add(Relayed(message.sender, message.target, message.sequence, sent), nack_at)
        self._outbox.ping(message.target, sent, self._now_ns, out)

    def _on_indirect_ack(self, message: IndirectAck, out: list[Output]) -> None:
        target, sequence = message.target, message.sequence
        self._introspector.received("indirect_ack", target, sequence, self._now_ns)
        if message.piggyback:
            self._gossip(target, message.piggyback, out)
        self._hearsay.acked(target, self._tick)
        done = self._probe.indirect_ack_received(target, sequence)
        if done is not None:
            out.append(done)

    def _on_indirect_nack(self, message: IndirectNack, out: list[Output]) -> None:  # noqa: ARG002  # nothing to say
        self._introspector.received("indirect_nack", message.sender, message.sequence, self._now_ns)
        self._probe.nack_received(message.sender, message.target, message.sequence)

    def _on_join_request(self, message: JoinRequest, out: list[Output]) -> None:
        self._introspector.received("join_request", message.sender, None, self._now_ns)
        self._apply(message.sender, ALIVE, 0, "join-request", out, gossip=True)
        self._outbox.join_response(message.sender, out)

    def _on_join_response(self, message: JoinResponse, out: list[Output]) -> None:
        self._seeds = ()
        if message.members:
            count = len(message.members)
            self._introspector.received("join_response", message.members[0].node, count, self._now_ns)
        for record in message.members:
            if self._credible(record, message.members[-1].node, out):
                self._apply(*record, "join-response", out)

    def _on_registry_gossip(self, message: RegistryGossip, out: list[Output]) -> None:
        """Merge names. A sender that claims its own name below its own tombstone is told of it, and can claim above it."""
        sender = message.sender
        against = self._names.registry.standing_against(sender, message.entries)
        self._names.absorb(message.entries, ())
        out.extend([Outgoing(sender, frame) for frame in self._names.pack(against)])

    def _on_metadata_gossip(self, message: MetadataGossip, out: list[Output]) -> None:  # noqa: ARG002  # nothing to say
        self._names.absorb((), message.entries)
        for entry in message.entries:
            self._introspector.metadata_seen(entry.node)

    # --- gossip -----------------------------------------------------------------------------------------------------

    def _gossip(self, source: NodeId, piggyback: bytes, out: list[Output]) -> None:
        """Apply a non-empty piggyback: first its membership, then its names and metadata."""
        try:
            gossip = unpack(piggyback)
        except WireError as error:
            out.append(GossipReceived(source, len(piggyback), 0))
            out.append(Fault("swim", str(error), source))
            return
        if gossip.membership_bytes:
            out.append(GossipReceived(source, gossip.membership_bytes, len(gossip.updates)))
        for update, accuser in zip(gossip.updates, gossip.accusers, strict=True):
            if self._credible(update, source, out):
                self._take_claim(update, accuser, source, out)
        if gossip.names or gossip.metadata:
            self._names.absorb(gossip.names, gossip.metadata)
            for entry in gossip.metadata:
                self._introspector.metadata_seen(entry.node)

    def _credible(self, claim: Record, source: NodeId, out: list[Output]) -> bool:
        """Refuse a claim that no node may make (ruling S3)."""
        flaw = malformed_claim(claim)
        if flaw is not None:
            out.append(Fault("swim", f"claim about {self._directory.name(claim.node)} refused: {flaw}", source))
        return flaw is None

    def _take_claim(self, claim: Record, accuser: NodeId | None, source: NodeId, out: list[Output]) -> None:
        peer, state, incarnation = claim
        if peer == self._id:
            if state is not ALIVE:
                self._answer_claim(claim, source, out)
            return
        news = state is SUSPECT and self._accusations.accuse(peer, incarnation, accuser)
        believed = Defect.HEARSAY_OVER_EVIDENCE in self._config.defects  # third-party suspicion is believed at once
        if not believed and state is SUSPECT and self._hearsay.holds(peer, incarnation, self._tick):
            self._probe.demand(peer)
            return
        member = self.members.get(peer)
        if news and member is not None and member.state is SUSPECT and member.incarnation == incarnation:
            self._outbox.spread(peer, SUSPECT, incarnation, accuser)
        self._apply(peer, state, incarnation, "gossip", out, gossip=True)

    def _answer_claim(self, claim: Record, source: NodeId, out: list[Output]) -> None:
        """Refute a claim that this node is not Alive, unless it has left.

        A claim that is refuted already raises nothing, but whoever makes it has missed every copy of the refutation: it is
        spread once more (case A19).
        """
        if self._left:
            return
        before = self.members.self_incarnation
        refuted = self.members.refute(claim.incarnation)
        after = self.members.self_incarnation
        self._outbox.spread(self._id, ALIVE, after)
        if not refuted:
            return
        self._health.worse()
        out.append(IncarnationBumped(before, after, STATE_NAMES[claim.state], claim.incarnation, source))
        self._names.self_refuted()

    def _believe_hearsay(self, peer: NodeId, out: list[Output]) -> None:
        incarnation = self._hearsay.release(peer)
        if incarnation is not None:
            self._apply(peer, SUSPECT, incarnation, "gossip", out, gossip=True)

    def _apply(
        self,
        peer: NodeId,
        state: MemberState,
        incarnation: int,
        reason: Reason,
        out: list[Output],
        *,
        gossip: bool = False,
    ) -> None:
        """Merge a claim about another node; if it is news, tell it, and pass it on if `gossip`."""
        member = self.members.get(peer)
        before = None if member is None else member.state
        if self.members.apply(peer, state, incarnation):
            member = self.members.get(peer)
            assert member is not None
            self._changed(peer, before, member, reason, out, gossip=gossip)

    def _changed(
        self,
        peer: NodeId,
        before: MemberState | None,
        member: Member,
        reason: Reason,
        out: list[Output],
        *,
        gossip: bool = True,
    ) -> None:
        """Follow a change of an entry through every part that depends on it."""
        state, incarnation = member.state, member.incarnation
        prior = "Unknown" if before is None else STATE_NAMES[before]
        out.append(Transition(peer, prior, STATE_NAMES[state], reason, incarnation))
        self._introspector.state_changed(peer, state, self._now_ns)
        self._probe.member_changed(peer, state, incarnation)
        self._hearsay.overtaken(peer, state, incarnation)
        if state is not SUSPECT:
            self._accusations.cleared(peer, incarnation)
        self._names.member_changed(peer, before, state)
        if gossip:
            for accuser in self._accusations.of(peer):
                self._outbox.spread(peer, state, incarnation, accuser)


_HANDLERS: Final[dict[type, Callable[[SwimNode, Any, list[Output]], None]]] = {
    Ping: SwimNode._on_ping,  # noqa: SLF001  # the table belongs to the class
    Ack: SwimNode._on_ack,  # noqa: SLF001
    PingReq: SwimNode._on_ping_req,  # noqa: SLF001
    IndirectAck: SwimNode._on_indirect_ack,  # noqa: SLF001
    IndirectNack: SwimNode._on_indirect_nack,  # noqa: SLF001
    JoinRequest: SwimNode._on_join_request,  # noqa: SLF001
    JoinResponse: SwimNode._on_join_response,  # noqa: SLF001
    RegistryGossip: SwimNode._on_registry_gossip,  # noqa: SLF001
    MetadataGossip: SwimNode._on_metadata_gossip,  # noqa: SLF001
}
