"""What a node tells about itself: typed events, and the tier-2 state."""

from collections import deque
from functools import lru_cache
from typing import Final, Literal

import msgspec
import orjson

from simharness.systems.swim.config import SwimConfig
from simharness.systems.swim.ids import Directory, NodeId
from simharness.systems.swim.members import STATE_NAMES, MemberList, MemberState
from simharness.systems.swim.names import Metadata

ProbeKind = Literal["direct", "indirect"]
Reason = Literal["ping-received", "join-request", "join-response", "gossip", "probe-timeout", "suspicion-timeout"]

RING: Final = 64
"""Received messages kept for the tier-2 state."""

_NS_PER_MS: Final = 1_000_000


class Transition(msgspec.Struct, frozen=True, gc=False):
    """The opinion of `peer` changed; `incarnation` is the entry's afterwards."""

    peer: NodeId
    before: str
    after: str
    reason: Reason
    incarnation: int


class ProbeSent(msgspec.Struct, frozen=True, gc=False):
    """A Ping of the probe, or one PingReq to a relay, left. The Ping of a dead re-probe is never resolved."""

    target: NodeId
    sequence: int
    probe_kind: ProbeKind


class ProbeAcked(msgspec.Struct, frozen=True, gc=False):
    """An ack matched the open probe."""

    target: NodeId
    sequence: int
    probe_kind: ProbeKind


class ProbeTimedOut(msgspec.Struct, frozen=True, gc=False):
    """A phase of the open probe expired; the probe failed if it was the indirect one."""

    target: NodeId
    sequence: int
    probe_kind: ProbeKind
    budget_ticks: int


class GossipReceived(msgspec.Struct, frozen=True, gc=False):
    """A piggyback came; `payload_bytes` counts its membership part."""

    source: NodeId
    payload_bytes: int
    item_count: int


class IncarnationBumped(msgspec.Struct, frozen=True, gc=False):
    """A claim about this node was refuted."""

    before: int
    after: int
    claim_state: str
    claim_incarnation: int
    claimed_by: NodeId


class Fault(msgspec.Struct, frozen=True, gc=False):
    """Something received was refused; nothing of it was applied."""

    component: str
    message: str
    peer: NodeId | None


Event = Transition | ProbeSent | ProbeAcked | ProbeTimedOut | GossipReceived | IncarnationBumped | Fault


class _Contact(msgspec.Struct, gc=False):
    """When a peer was last pinged and heard, and since when it is suspected, in ns; None if never or not."""

    ping_sent_ns: int | None = None
    ack_received_ns: int | None = None
    ping_received_ns: int | None = None
    suspected_ns: int | None = None


_CONTACT_FIELDS: Final = (
    b"last_ping_sent_at_ms",
    b"last_ack_received_at_ms",
    b"last_ping_received_at_ms",
    b"suspect_started_at_ms",
)


@lru_cache(maxsize=65_536)
def _opinion_json(twin: bytes, state: str, incarnation: int) -> bytes:
    # Cached because in a quiet cluster most nodes hold the same opinion of a peer and never met it.
    return b'{%b,"state":"%b","incarnation":%d' % (twin, state.encode(), incarnation)


class Introspector:
    """Keeps the part of the tier-2 state that the protocol does not need, and renders the whole.

    A snapshot renders only what changed since the last one: with many peers it would cost more than the protocol.
    """

    __slots__ = ("_contacts", "_directory", "_fresh", "_members", "_metadata", "_ring", "_stale", "_texts")

    def __init__(self, members: MemberList, metadata: Metadata, directory: Directory) -> None:
        self._members = members
        self._metadata = metadata
        self._directory = directory
        self._contacts: dict[NodeId, _Contact] = {}
        self._texts: dict[NodeId, bytes] = {}  # in the order of ids
        self._stale: dict[NodeId, None] = {}  # a dict for its order
        self._fresh: deque[tuple[str, NodeId, int, int | None]] = deque(maxlen=RING)
        self._ring: deque[bytes] = deque(maxlen=RING)

    def _contact(self, peer: NodeId) -> _Contact:
        self._stale[peer] = None
        found = self._contacts.get(peer)
        if found is None:
            self._contacts[peer] = found = _Contact()
        return found

    def ping_sent(self, peer: NodeId, now_ns: int) -> None:
        """Note a Ping to `peer`."""
        self._contact(peer).ping_sent_ns = now_ns

    def ping_received(self, peer: NodeId, sequence: int, now_ns: int) -> None:
        """Note a Ping from `peer`."""
        self._contact(peer).ping_received_ns = now_ns
        self._fresh.append(("ping", peer, now_ns, sequence))

    def ack_received(self, peer: NodeId, sequence: int, now_ns: int) -> None:
        """Note an Ack from `peer`."""
        self._contact(peer).ack_received_ns = now_ns
        self._fresh.append(("ack", peer, now_ns, sequence))

    def received(self, kind: str, peer: NodeId, sequence: int | None, now_ns: int) -> None:
        """Note another message. A JoinResponse puts its record count in the sequence slot, as production does."""
        self._contact(peer)
        self._fresh.append((kind, peer, now_ns, sequence))

    def state_changed(self, peer: NodeId, state: MemberState, now_ns: int) -> None:
        """Note a new opinion: the start of a suspicion is kept while it lasts."""
        contact = self._contact(peer)
        if state is not MemberState.SUSPECT:
            contact.suspected_ns = None
        elif contact.suspected_ns is None:
            contact.suspected_ns = now_ns

    def metadata_seen(self, peer: NodeId) -> None:
        """Note that `peer` told something new about itself."""
        self._stale[peer] = None

    def tier2(self, config: SwimConfig, now_ns: int) -> bytes:
        """Return the fields of the tier-2 state as JSON, in its order and without the outer braces.

        Unknown values are absent. Beside each `*_node_id_hex` stands its twin, the host name of the same node.
        """
        members = self._members
        parts = [
            b'"config":' + _config_json(config),
            b'"self_node_id_hex":"%b"' % members.self_id.hex().encode(),
            b'"self_id":%b' % orjson.dumps(self._directory.name(members.self_id)),
            b'"self_incarnation":%d' % members.self_incarnation,
            b'"metadata_local_version":%d' % (self._metadata.version(members.self_id) or 0),
        ]
        peers = self._peers()
        if peers:
            parts.append(b'"peers":[%b]' % peers)
        self._ring.extend([self._ring_json(*entry) for entry in self._fresh])
        self._fresh.clear()
        if self._ring:
            parts.append(b'"recent_messages":[%b]' % b",".join(self._ring))
        parts.append(b'"scraped_at_ms":%d' % (now_ns // _NS_PER_MS))
        return b",".join(parts)

    def _peers(self) -> bytes:
        texts, known = self._texts, len(self._texts)
        if not known:
            self._stale.update(dict.fromkeys(node for node, _ in self._members))
        self._stale.pop(self._members.self_id, None)
        for node in self._stale:
            member = self._members.get(node)
            state, incarnation = ("Unknown", 0) if member is None else (STATE_NAMES[member.state], member.incarnation)
            texts[node] = self._peer_json(node, state, incarnation, self._contacts.get(node))
        self._stale.clear()
        if len(texts) > known:
            texts = self._texts = dict(sorted(texts.items()))
        return b",".join(texts.values())

    def _peer_json(self, node: NodeId, state: str, incarnation: int, contact: _Contact | None) -> bytes:
        text = _opinion_json(self._directory.twin(node), state, incarnation)
        if contact is not None:
            times = (contact.ping_sent_ns, contact.ack_received_ns, contact.ping_received_ns, contact.suspected_ns)
            for field, at_ns in zip(_CONTACT_FIELDS, times, strict=True):
                if at_ns is not None:
                    text += b',"%b":%d' % (field, at_ns // _NS_PER_MS)
        version = self._metadata.version(node)
        return text + (b"}" if version is None else b',"metadata_version_seen":%d}' % version)

    def _ring_json(self, kind: str, peer: NodeId, at_ns: int, sequence: int | None) -> bytes:
        text = b'{"kind":"%b",%b,"at_ms":%d' % (kind.encode(), self._directory.twin(peer), at_ns // _NS_PER_MS)
        return text + (b"}" if sequence is None else b',"sequence":%d}' % sequence)


def _config_json(config: SwimConfig) -> bytes:
    return orjson.dumps(
        {
            "probe_interval_ticks": config.probe_interval,
            "probe_timeout_ticks": config.probe_timeout,
            "suspicion_timeout_ticks": config.suspicion_timeout,
            "indirect_probes_k": config.indirect_probes,
            "dead_reprobe_interval_ticks": config.dead_reprobe_interval,
            "gossip_fanout_lambda": config.gossip_lambda,
            "max_piggyback": config.max_piggyback,
            "probe_mode": "periodic",
        }
    )
