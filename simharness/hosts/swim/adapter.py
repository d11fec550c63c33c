"""One SWIM node as a host (§6.2): envelopes to node calls, node outputs to actions. Decides nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from simharness.contracts.host import Action, App, HostMessage, RecordEvent, Send, SendFailed, Slow, TimerFired, Wire
from simharness.contracts.scenario import PeerDecl
from simharness.core.errors import EngineAbort
from simharness.hosts.swim.backlog import Backlog
from simharness.hosts.swim.codec import Malformed
from simharness.systems.swim.config import config_from
from simharness.systems.swim.diagnostics import (
    Fault,
    GossipReceived,
    IncarnationBumped,
    ProbeAcked,
    ProbeSent,
    ProbeTimedOut,
    Transition,
)
from simharness.systems.swim.ids import Directory, NodeId, node_id
from simharness.systems.swim.messages import IndirectAck, JoinResponse, Message
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.outbox import Outgoing
from simharness.systems.swim.sizes import payload_size
from simharness.systems.swim.wire import TAGS, encode

_NOTHING: Final[tuple[Action, ...]] = ()
_directory: Final = lru_cache(maxsize=8)(Directory)


def _transition(event: Transition, name: Callable[[NodeId], str]) -> dict[str, Any]:
    return {
        "kind": "SwimTransition",
        "peer": name(event.peer),
        "from": event.before,
        "to": event.after,
        "reason": event.reason,
    }


def _probe_sent(event: ProbeSent, name: Callable[[NodeId], str]) -> dict[str, Any]:
    return {
        "kind": "SwimProbeSent",
        "target": name(event.target),
        "sequence": event.sequence,
        "probe_kind": event.probe_kind,
    }


def _probe_acked(event: ProbeAcked, name: Callable[[NodeId], str]) -> dict[str, Any]:
    return {
        "kind": "SwimProbeAcked",
        "target": name(event.target),
        "sequence": event.sequence,
        "probe_kind": event.probe_kind,
    }


def _probe_timed_out(event: ProbeTimedOut, name: Callable[[NodeId], str]) -> dict[str, Any]:
    return {
        "kind": "SwimProbeTimedOut",
        "target": name(event.target),
        "sequence": event.sequence,
        "probe_kind": event.probe_kind,
        "budget_ticks": event.budget_ticks,
    }


def _gossip_received(event: GossipReceived, name: Callable[[NodeId], str]) -> dict[str, Any]:
    return {
        "kind": "GossipReceived",
        "source_peer": name(event.source),
        "payload_kind": "swim_piggyback",
        "payload_bytes": event.payload_bytes,
        "item_count": event.item_count,
    }


def _incarnation_bumped(event: IncarnationBumped, name: Callable[[NodeId], str]) -> dict[str, Any]:
    return {
        "kind": "SwimIncarnationBumped",
        "from": event.before,
        "to": event.after,
        "claim_state": event.claim_state,
        "claim_incarnation": event.claim_incarnation,
        "claimed_by": name(event.claimed_by),
    }


def _fault(event: Fault, name: Callable[[NodeId], str]) -> dict[str, Any]:
    peer = None if event.peer is None else name(event.peer)
    return {"kind": "Error", "component": event.component, "message": event.message, "peer": peer}


_EVENTS: Final[dict[type, Callable[[Any, Callable[[NodeId], str]], dict[str, Any]]]] = {
    Transition: _transition,
    ProbeSent: _probe_sent,
    ProbeAcked: _probe_acked,
    ProbeTimedOut: _probe_timed_out,
    GossipReceived: _gossip_received,
    IncarnationBumped: _incarnation_bumped,
    Fault: _fault,
}


def _sender(message: Any) -> NodeId | None:
    """Return whom a message is credited to: an IndirectAck names only its target, a JoinResponse ends with the seed."""
    kind = type(message)
    if kind is IndirectAck:
        return NodeId(message.target)
    if kind is JoinResponse:
        return NodeId(message.members[-1].node) if message.members else None
    return NodeId(message.sender)


def _swim_table(peer: PeerDecl) -> Mapping[str, Any] | None:
    """Return the SWIM configuration of a peer that runs a node, its own or an embedded one (ruling S2), else None."""
    return peer.kind_config if peer.kind == "swim" else peer.kind_config.get("node")


class SwimHost:
    """One SWIM node behind the host Protocol. A kind that embeds a node owns one and hands its calls on.

    Args:
        host_id: The peer.
        config: A table that `systems.swim.config.resolve` resolved.
        joining: Whether it knows only its seeds, or every peer that runs a node.
        tick_period_ns: Its tick.
        peers: Every declared peer.
        instance: 0 for the first life; a later one remembers nothing, its incarnation included.
    """

    kind_tag = "swim"

    def __init__(
        self,
        *,
        host_id: str,
        config: Mapping[str, Any],
        joining: bool,
        tick_period_ns: int,
        peers: Sequence[PeerDecl],
        instance: int,
    ) -> None:
        self.id = host_id
        self._backlog = Backlog()
        directory = _directory(tuple([peer.id for peer in peers]))
        self._name = directory.name
        self._ids = directory.ids
        self.node = SwimNode(
            directory=directory,
            self_id=node_id(host_id),
            config=config_from(config, tick_period_ns),
            members=() if joining else _membership(peers),
            seeds=[node_id(seed) for seed in config["seeds"]] if joining else (),
            incarnation=0 if instance else config["initial_incarnation"],
        )

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Tick the node."""
        outputs = self.node.tick(now_ns)
        return self._actions(outputs, []) if outputs else _NOTHING

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Hand a message or a failed send to the node; while the process is slow, a message waits for its turn.

        Raises:
            EngineAbort: If the envelope is not for this kind.
        """
        if isinstance(message, App):
            if self._backlog.busy:
                return self._backlog.add(message.message, now_ns)
            return self._receive(message.message, now_ns)
        if isinstance(message, SendFailed):
            return self._actions(self.node.report_send_failure(self._ids[message.to], now_ns), [])
        if isinstance(message, TimerFired):
            return self._served(message.token, now_ns)
        if isinstance(message, Slow):
            self._backlog.slow(message.factor_x100)
            return _NOTHING
        raise EngineAbort(
            rule="unknown-envelope", detail=f"{message!r} is not for a swim host", host_id=self.id, at_ns=now_ns
        )

    def farewell(self, now_ns: int) -> Sequence[Action]:
        """Let the node take its names back: the last thing it says before its process ends."""
        return self._actions(self.node.farewell(now_ns), [])

    def snapshot(self) -> bytes:
        """Return the node's tier-2 state, with host names, names and hearsay (§9.3)."""
        return self.node.snapshot()

    def _served(self, token: int, now_ns: int) -> Sequence[Action]:
        """Look at what a slow process is done with, and begin with the next; SWIM itself sets no timers."""
        done = self._backlog.served(token)
        if not done:
            return _NOTHING
        return [
            *(action for message in done for action in self._receive(message, now_ns)),
            *self._backlog.begin(now_ns),
        ]

    def _receive(self, message: Any, now_ns: int) -> Sequence[Action]:
        if type(message) is Malformed:
            text = f"{message.tag} of {len(message.payload)} bytes dropped: {message.detail}"
            return (RecordEvent(_fault(Fault("codec", text, None), self._name)),)
        sender = _sender(message)
        receipt = {
            "kind": "MessageReceived",
            "peer": None if sender is None else self._name(sender),
            "message_kind": TAGS[type(message)],
            "size": payload_size(message),
        }
        return self._actions(self.node.handle(message, now_ns), [RecordEvent(receipt)])

    def _actions(self, outputs: Iterable[Any], actions: list[Action]) -> list[Action]:
        """Translate outputs: first every message with its accounting, in order, then every event, in order."""
        name = self._name
        records: list[Action] = []
        for output in outputs:
            kind = type(output)
            if kind is Outgoing:
                self._send(name(output.to), output.message, actions)
            elif kind in _EVENTS:
                records.append(RecordEvent(_EVENTS[kind](output, name)))
            else:
                raise EngineAbort(rule="unknown-output", detail=f"the node put out {output!r}", host_id=self.id)
        actions += records
        return actions

    def _send(self, to: str, message: Message, actions: list[Action]) -> None:
        tag = TAGS.get(type(message))
        if tag is None:
            raise EngineAbort(rule="unknown-output", detail=f"the node sent {message!r}", host_id=self.id)
        payload = encode(message)
        accounting = {"kind": "MessageSent", "peer": to, "message_kind": tag, "size": len(payload)}
        actions.append(RecordEvent(accounting))
        actions.append(Send(to, message, Wire(tag, payload)))


def _membership(peers: Iterable[PeerDecl]) -> list[tuple[NodeId, int]]:
    """Return the id and first incarnation of every declared peer that runs a node."""
    tables = [(peer.id, _swim_table(peer)) for peer in peers]
    return [(node_id(host_id), table["initial_incarnation"]) for host_id, table in tables if table is not None]
