"""What a node sends: each message with the gossip that fits it, and the frames that follow it."""

from typing import Final, NamedTuple

from simharness.systems.swim.config import SwimConfig
from simharness.systems.swim.diagnostics import Event, Introspector
from simharness.systems.swim.dissemination import UNBOUNDED, GossipQueue
from simharness.systems.swim.hearsay import Hearsay
from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.members import MemberList, MemberState
from simharness.systems.swim.messages import Ack, IndirectAck, JoinResponse, Message, Ping, PingReq, Record
from simharness.systems.swim.names import Names
from simharness.systems.swim.sizes import ARRAY_BASE, nested_cost, payload_size
from simharness.systems.swim.wire import pack_updates, update_json

_EMPTY_ARRAY: Final = 2


class Outgoing(NamedTuple):
    """A message to send."""

    to: NodeId
    message: Message


Output = Outgoing | Event


class Outbox:
    """Builds outgoing messages and appends them to the outputs of the current call."""

    __slots__ = ("_config", "_hearsay", "_id", "_introspector", "_members", "_names", "_queue")

    def __init__(
        self, config: SwimConfig, members: MemberList, names: Names, hearsay: Hearsay, introspector: Introspector
    ) -> None:
        self._config = config
        self._id = members.self_id
        self._members = members
        self._names = names
        self._hearsay = hearsay
        self._introspector = introspector
        self._queue = GossipQueue(config.gossip_lambda)

    def spread(self, peer: NodeId, state: MemberState, incarnation: int, accuser: NodeId | None = None) -> None:
        """Queue an update for later messages."""
        self._queue.enqueue(peer, state, incarnation, self._members.cluster_size, accuser)

    def ping(self, to: NodeId, sequence: int, now_ns: int, out: list[Output]) -> None:
        """Ping `to`. A claim about it that is held back rides in front, so that it can refute."""
        held = self._hearsay.claims.get(to)
        claim = None if held is None else update_json(to, MemberState.SUSPECT, held)
        message = Ping(sender=self._id, sequence=sequence)
        piggyback = self._piggyback(to, message, claim)
        if piggyback:
            message = Ping(sender=self._id, sequence=sequence, piggyback=piggyback)
        self._introspector.ping_sent(to, now_ns)
        out.append(Outgoing(to, message))
        self._follow(to, out)

    def ack(self, to: NodeId, sequence: int, out: list[Output]) -> None:
        """Answer a Ping."""
        message = Ack(sender=self._id, sequence=sequence)
        piggyback = self._piggyback(to, message)
        if piggyback:
            message = Ack(sender=self._id, sequence=sequence, piggyback=piggyback)
        out.append(Outgoing(to, message))
        self._follow(to, out)

    def ping_req(self, relay: NodeId, target: NodeId, sequence: int, out: list[Output]) -> None:
        """Ask `relay` to ping `target`."""
        nack = self._config.lifeguard is not None
        piggyback = self._piggyback(relay, PingReq(sender=self._id, target=target, sequence=sequence, nack=nack))
        message = PingReq(sender=self._id, target=target, sequence=sequence, piggyback=piggyback, nack=nack)
        out.append(Outgoing(relay, message))

    def forward_ack(self, to: NodeId, target: NodeId, sequence: int, out: list[Output]) -> None:
        """Tell `to` that `target` answered the probe that it asked for."""
        piggyback = self._piggyback(to, IndirectAck(target=target, sequence=sequence))
        out.append(Outgoing(to, IndirectAck(target=target, sequence=sequence, piggyback=piggyback)))

    def join_response(self, to: NodeId, out: list[Output]) -> None:
        """Send the whole membership, split so that each part fits the byte cap; the own record ends every part."""
        own = Record(self._id, MemberState.ALIVE, self._members.self_incarnation)
        cap = self._config.max_message_bytes
        empty = payload_size(JoinResponse(members=(own,)))
        part: list[Record] = []
        size = empty
        for node, member in self._members:
            cost = len(update_json(node, member.state, member.incarnation)) + 1
            if cap and size + cost > cap:
                out.append(Outgoing(to, JoinResponse(members=(*part, own))))
                part, size = [], empty
            part.append(Record(node, member.state, member.incarnation))
            size += cost
        out.append(Outgoing(to, JoinResponse(members=(*part, own))))

    def _piggyback(self, to: NodeId, empty: Message, claim: bytes | None = None) -> bytes:
        """Return the piggyback for a message to `to` whose other fields are those of `empty`.

        `claim` goes first, then what is queued about the addressee, who alone can refute it, then what is queued about this
        node, for a refutation that never finds room is none (case A19).
        """
        texts = [] if claim is None else [claim]
        if len(self._queue):
            cap, room = self._config.max_message_bytes, UNBOUNDED
            if cap:
                room = cap - (payload_size(empty) - _EMPTY_ARRAY + ARRAY_BASE) - sum(map(nested_cost, texts))
            texts += self._queue.take(self._config.max_piggyback - len(texts), room, (to, self._id))
        return self._names.wrap(pack_updates(texts))

    def _follow(self, to: NodeId, out: list[Output]) -> None:
        """Let pending names and metadata follow a Ping or an Ack."""
        frames = self._names.frames()
        if frames:
            out.extend([Outgoing(to, frame) for frame in frames])
