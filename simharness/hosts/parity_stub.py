"""The stub of the published parity scenario: its events, byte for byte, are what two implementers compare (§7.6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simharness.contracts.host import (
    Action,
    App,
    Complaint,
    Host,
    HostContext,
    HostMessage,
    PeerFacts,
    RecordEvent,
    Send,
    SendFailed,
    TimerFired,
    Validated,
    Wire,
)
from simharness.core import canonical_json
from simharness.hosts.config import ConfigReader

_TAG: Final = "parity::Bytes"


class ParityCodec:
    """Messages are raw bytes."""

    def encode(self, message: bytes) -> Wire:
        """Return the bytes as they are."""
        return Wire(_TAG, message)

    def decode(self, wire: Wire) -> bytes:
        """Return the bytes as they are.

        Raises:
            ValueError: If the tag is not the stub's.
        """
        if wire.tag != _TAG:
            raise ValueError(f"unknown tag {wire.tag}")
        return wire.payload

    def frame_overhead(self, tag: str) -> int:
        """Return 0 (ruling N19)."""
        del tag
        return 0


class ParityHost:
    """Sends its tick number to every listed peer, and records whatever comes back."""

    kind_tag = "parity_stub"

    def __init__(self, context: HostContext) -> None:
        self.id = context.host_id
        self._peers = [peer for peer in context.config["peers"] if peer != self.id]
        self._ticks = self._received = 0

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Record the tick, then send to the peers in listed order."""
        self._ticks += 1
        record = RecordEvent({"kind": "tick_record", "tick": self._ticks, "now_ns": now_ns, "from": self.id})
        message = canonical_json.compact({"kind": "ping", "tick": self._ticks})
        return [record, *(Send(peer, message) for peer in self._peers)]

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Record what came. No worker exit reaches this kind."""
        self._received += 1
        event: dict[str, Any]
        match message:
            case App(message=payload):
                event = {"kind": "app_recv", "now_ns": now_ns, "host": self.id, "n_bytes": len(payload)}
            case TimerFired(token=token):
                event = {"kind": "timer_recv", "now_ns": now_ns, "host": self.id, "token": token}
            case SendFailed(to=to):
                event = {"kind": "send_failed_recv", "now_ns": now_ns, "host": self.id, "to": to}
            case _:
                raise AssertionError(f"the engine lets no {message!r} through to this kind")
        return (RecordEvent(event),)

    def snapshot(self) -> bytes:
        """Return the counters in the published form."""
        counters = {"tick_count": self._ticks, "recv_count": self._received}
        return canonical_json.compact({"members": {}, "self_incarnation": 0} | counters)


class ParityKind:
    """`kind_config`: peers, the list that the host sends to (itself skipped)."""

    kind_tag = "parity_stub"
    codec = ParityCodec()
    accepts_worker_exit = False
    event_kinds = ("app_recv", "send_failed_recv", "tick_record", "timer_recv")

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        """Check and resolve a `kind_config`."""
        reader = ConfigReader(config, known=("peers",))
        peers = reader.peers("peers", facts.peer_ids, facts.peer_ids)
        if facts.initial_state != "ready":
            reader.complaints.append(Complaint("initial_state", 'a parity stub starts "ready"'))
        return Validated({"peers": list(peers)}, tuple(reader.complaints))

    def new(self, context: HostContext) -> Host:
        """Build one instance."""
        return ParityHost(context)


KIND: Final = ParityKind()
