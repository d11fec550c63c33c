"""The links as one process sees them: those that it sends over. The rules are the simulator's own (§5.4, §5.5)."""

from simharness.contracts.network import Arrive, Drop, SendOutcome
from simharness.network.flight import InFlight
from simharness.network.model import LinkNetwork, Relayed


class OwnLinks(LinkNetwork):
    """Shapes what one process sends. A relayed message is on its way to the relay only; the relay's process takes it on."""

    def next_hop(self, source: str, target: str) -> str:
        """Return where a message of this pair goes first."""
        route = self._routes[source][target]
        return route.relay.id if isinstance(route, Relayed) else target

    def onward(
        self, relay: str, source: str, target: str, byte_len: int, sent_at_ns: int, now_ns: int
    ) -> Arrive | None:
        """Send over the second leg of a relayed route what its source has sent at `sent_at_ns`; None if it is lost there."""
        message_id = self._next_id
        self._next_id = message_id + 1
        crossing = self._relay_leg(relay, target).cross(byte_len, now_ns, now_ns)
        if crossing is None:
            return None
        flight = InFlight(crossing.at_ns, message_id, source, target, sent_at_ns, relay, now_ns)
        self._inboxes[target].add(flight, now_ns)
        return Arrive(crossing.at_ns, message_id, crossing.notices, crossing.delay)

    def is_down_for(self, relay: str, source: str, target: str, now_ns: int) -> bool:
        """Tell whether a relay refuses this ordered pair."""
        return self._relays[relay].is_down_for(source, target, now_ns)

    def _forward(self, route: Relayed, source: str, target: str, byte_len: int, sent_at_ns: int) -> SendOutcome:
        """Cross the first leg of a relayed route."""
        refused = self._refused(route.relay, source, target, byte_len, sent_at_ns)
        if refused is not None:
            return refused
        message_id = self._next_id
        self._next_id = message_id + 1
        crossing = route.inbound.cross(byte_len, sent_at_ns, sent_at_ns)
        return Drop("lossy") if crossing is None else Arrive(crossing.at_ns, message_id, crossing.notices)
