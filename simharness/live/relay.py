"""A relay's process: it takes messages, queues them within its bounds, and forwards them (§5A)."""

from simharness.contracts.mutations import Mutation, RelayBoot, RelayCapacityChange
from simharness.contracts.network import DropReason
from simharness.core.units import transmission_ns
from simharness.live.channel import Go, Setup
from simharness.live.envelope import Envelope
from simharness.live.vertex import Vertex
from simharness.network.notices import relay_dequeue, relay_drop, relay_enqueue


class RelayProcess(Vertex):
    """One shared ingress, one egress a destination, one bounded queue; everything in the order of arrival.

    A message holds its bytes from its arrival until its last byte has left. The sender of one that is refused is told.
    """

    def __init__(self, setup: Setup, go: Go, out_fd: int) -> None:
        super().__init__(setup, go, out_fd)
        (decl,) = [relay for relay in setup.scenario.relays if relay.id == setup.subject]
        self._ingress_bps = decl.ingress_capacity_bps
        self._egress_bps = decl.egress_capacity_bps_per_link
        self._depth_bytes = decl.queue_depth_bytes
        self._cold_start_ns = decl.cold_start_penalty_ns
        self._cold = False  # a run starts with booted relays (ruling R3)
        self._held_bytes = 0
        self._ingress_free_ns = 0
        self._egress_free_ns: dict[str, int] = {}

    def _start(self) -> None:
        self.advance(self._go.born_ns)

    def _applied(self, mutation: Mutation) -> None:
        match mutation:
            case RelayBoot(relay=relay) if relay == self.id:
                self._cold = True
            case RelayCapacityChange(relay=relay) if relay == self.id:
                if mutation.ingress_capacity_bps is not None:
                    self._ingress_bps = mutation.ingress_capacity_bps
                if mutation.egress_capacity_bps_per_link is not None:
                    self._egress_bps = mutation.egress_capacity_bps_per_link
                if mutation.queue_depth_bytes is not None:
                    self._depth_bytes = mutation.queue_depth_bytes

    def _conclude(self) -> None:
        """A relay has nothing more to say."""

    def _arrived(self, envelope: Envelope, frame: bytes) -> None:
        """Admit a message or refuse it, and give it its time."""
        now_ns = self.moment(envelope.due_ns)
        if self.ended(now_ns):
            return
        self.advance(now_ns)
        source, target = self._pair(envelope)
        size = len(frame)
        if self._held_bytes + size > self._depth_bytes:
            self.notices((relay_drop(now_ns, self.id, source, target, size, "queue_full"),))
            self._refuse(envelope, "relay_queue_full", now_ns)
            return
        self._held_bytes += size
        event = relay_enqueue(now_ns, self.id, source, target, size).event
        self.record(now_ns, None, "relay", event | {"enqueued_bytes": self._held_bytes})
        cold_ns, self._cold = self._cold_start_ns if self._cold else 0, False
        self._ingress_free_ns = max(now_ns, self._ingress_free_ns) + transmission_ns(size, self._ingress_bps)
        free_ns = max(self._ingress_free_ns, self._egress_free_ns.get(target, 0))
        free_ns += cold_ns + transmission_ns(size, self._egress_bps)
        self._egress_free_ns[target] = free_ns
        self.at(free_ns, self._forward, envelope, frame, free_ns)

    def _forward(self, envelope: Envelope, frame: bytes, due_ns: int) -> None:
        """Let a message go: its last byte has left."""
        now_ns = self.moment(due_ns)
        if self.ended(now_ns):
            return
        self.advance(now_ns)
        source, target = self._pair(envelope)
        size = len(frame)
        self._held_bytes -= size
        event = relay_dequeue(now_ns, self.id, source, target, size).event
        self.record(now_ns, None, "relay", event | {"enqueued_bytes": self._held_bytes})
        if self._links.is_down_for(self.id, source, target, now_ns):
            self.lost(now_ns, source, target, "relay_peer_conn_down", envelope.sent_ns)
            return
        crossing = self._links.onward(self.id, source, target, size, envelope.sent_ns, now_ns)
        if crossing is None:
            self._refuse(envelope, "lossy", now_ns)
            return
        self.notices(crossing.notices)
        self.transmit(envelope._replace(due_ns=crossing.at_ns), frame, target)

    def _refuse(self, envelope: Envelope, reason: DropReason, now_ns: int) -> None:
        refusal = envelope._replace(due_ns=now_ns, refusal=reason)
        self.transmit(refusal, b"", self._peer_ids[envelope.source])

    def _pair(self, envelope: Envelope) -> tuple[str, str]:
        return self._peer_ids[envelope.source], self._peer_ids[envelope.target]
