"""The network: answers sends, takes mutations (§5, §5A). It holds no schedule and reads no clock but its callers'."""

from collections.abc import Callable
from operator import add
from typing import Final, assert_never

from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    DuplicateBurst,
    Heal,
    LatencySpike,
    LossBurst,
    Mutation,
    Partition,
    PeerKill,
    PeerPause,
    PeerResurrect,
    PeerSlow,
    RelayBoot,
    RelayBuffer,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
    WorkerExit,
)
from simharness.contracts.network import (
    Arrive,
    Delay,
    Drop,
    InvalidatedDelivery,
    LostReason,
    MutationEffect,
    Notice,
    SendOutcome,
)
from simharness.contracts.scenario import Scenario
from simharness.contracts.topology import Direct, Topology
from simharness.core.streams import Root, Stream
from simharness.core.units import PPM
from simharness.network.flight import Cuts, Inbox, InFlight
from simharness.network.leg import Leg
from simharness.network.notices import relay_dequeue, relay_drop, relay_enqueue
from simharness.network.relay import Relay, Slot

_NO_ROUTE: Final = Drop("no_route")
_PARTITIONED: Final = Drop("partitioned")
_LOSSY: Final = Drop("lossy")
_NOTHING: Final = MutationEffect()
_EDGE_TERMS: Final = Delay._fields.index("relay_ingress")


class Relayed:
    """A host pair's route through a relay."""

    __slots__ = ("inbound", "outbound", "relay")

    def __init__(self, inbound: Leg, relay: Relay, outbound: Leg) -> None:
        self.inbound, self.relay, self.outbound = inbound, relay, outbound


class LinkNetwork:
    """The links and relays of one run.

    Legs and routes are made when they first carry a message or are named by a mutation, so a large mesh costs what is used of
    it. A relayed send is composed in one call: its times at the relay and beyond are those of the state and policies at the
    call (§5A.3, rulings R1, R9, N16).
    """

    def __init__(self, scenario: Scenario) -> None:
        self._topology = Topology(scenario)
        self._root = Root(scenario.seed)
        self._relays = {decl.id: Relay(decl) for decl in scenario.relays}
        self._routes: dict[str, dict[str, Leg | Relayed]] = {peer.id: {} for peer in scenario.peers}
        self._relay_legs: dict[tuple[str, str], Leg] = {}
        self._inboxes = {peer.id: Inbox() for peer in scenario.peers}
        self._cuts = Cuts()
        self._partitioned = False
        self._next_id = 0
        self._copying_until_ns = 0  # when the last burst of duplicates ends
        self._copy_streams: dict[tuple[str, str], Stream] = {}

    # --- sends (§5.4, §5A.3) ---------------------------------------------------------------------------------------

    def send(self, source: str, target: str, byte_len: int, sent_at_ns: int) -> SendOutcome:
        """Route one message of `byte_len` bytes on the wire; `sent_at_ns` never decreases from call to call.

        A refused send leaves the last send, the last arrival, the cache and the deliveries in flight as they were (ruling
        N7), except that a message refused by a full relay, or lost behind it, has crossed what lies before.
        """
        row = self._routes.get(source)
        route = None if row is None else row.get(target) or self._open(source, target)
        if route is None:
            return _NO_ROUTE
        if self._partitioned and self._cuts.severs(source, target):
            return _PARTITIONED
        if type(route) is Relayed:
            return self._forward(route, source, target, byte_len, sent_at_ns)
        assert isinstance(route, Leg)
        message_id = self._next_id
        self._next_id = message_id + 1
        crossing = route.cross(byte_len, sent_at_ns, sent_at_ns)
        if crossing is None:
            return _LOSSY
        at_ns, delay, notices = crossing
        flight = tuple.__new__(InFlight, (at_ns, message_id, source, target, sent_at_ns, None, 0))
        self._inboxes[target].add(flight, sent_at_ns)
        arrive = tuple.__new__(Arrive, (at_ns, message_id, notices, delay, None, False))
        if sent_at_ns < self._copying_until_ns:
            return self._perhaps_twice(arrive, source, target, byte_len, sent_at_ns, ((route, sent_at_ns),))
        return arrive

    def _forward(self, route: Relayed, source: str, target: str, byte_len: int, sent_at_ns: int) -> SendOutcome:
        """Compose inbound leg, relay and outbound leg (§5A.3). Both legs owe their draws whatever becomes of the other."""
        relay = route.relay
        refused = self._refused(relay, source, target, byte_len, sent_at_ns)
        if refused is not None:
            return refused
        message_id = self._next_id
        self._next_id = message_id + 1
        inbound = route.inbound.cross(byte_len, sent_at_ns, sent_at_ns)
        if inbound is None:
            route.outbound.owe()
            return _LOSSY
        arrival = inbound.at_ns
        slot = relay.admit(target, byte_len, arrival, sent_at_ns)
        if slot is None:
            route.outbound.owe()
            relay.expect(arrival + 1, message_id, sent_at_ns)
            notice = relay_drop(arrival, relay.id, source, target, byte_len, "queue_full")
            return Drop("relay_queue_full", message_id, (*inbound.notices, notice))
        until = slot.egress_end_ns
        relay.expect(until, message_id, sent_at_ns)
        notices = (
            *inbound.notices,
            relay_enqueue(arrival, relay.id, source, target, byte_len),
            relay_dequeue(until, relay.id, source, target, byte_len),
        )
        outbound = route.outbound.cross(byte_len, until, sent_at_ns)
        if outbound is None:
            return Drop("lossy", message_id, notices)
        flight = InFlight(outbound.at_ns, message_id, source, target, sent_at_ns, relay.id, until)
        self._inboxes[target].add(flight, sent_at_ns)
        delay = _composed(inbound.delay, outbound.delay, slot, arrival)
        arrive = Arrive(outbound.at_ns, message_id, notices + outbound.notices, delay)
        if sent_at_ns < self._copying_until_ns:
            legs = ((route.inbound, sent_at_ns), (route.outbound, until))
            return self._perhaps_twice(arrive, source, target, byte_len, sent_at_ns, legs)
        return arrive

    def _perhaps_twice(
        self,
        arrive: Arrive,
        source: str,
        target: str,
        byte_len: int,
        sent_at_ns: int,
        legs: tuple[tuple[Leg, int], ...],
    ) -> Arrive:
        """Draw whether a message arrives twice; if so, send its copy at once (ruling N24).

        Each leg comes with the time at which the message entered it, when its windows are judged (ruling N16).
        """
        bursts = [ppm for leg, entered_ns in legs if (ppm := leg.duplicate_ppm(entered_ns)) is not None]
        if not bursts:
            return arrive
        stream = self._copy_streams.get((source, target))
        if stream is None:
            stream = self._copy_streams[source, target] = self._root.duplicates(source, target)
        if stream.u32() % PPM >= max(bursts):
            return arrive
        for leg, _ in legs:
            leg.lend(stream.triple())
        until_ns, self._copying_until_ns = self._copying_until_ns, 0  # a copy has no copy
        copy = self.send(source, target, byte_len, sent_at_ns)
        self._copying_until_ns = until_ns
        for leg, _ in legs:
            leg.take_back()
        return arrive._replace(duplicate=copy._replace(is_copy=True) if isinstance(copy, Arrive) else copy)

    def _refused(self, relay: Relay, source: str, target: str, byte_len: int, sent_at_ns: int) -> Drop | None:
        """Return the refusal of a relay that is down, or down for this pair (rulings R6, N22)."""
        refusal = None if relay.up else "down"
        if refusal is None and relay.is_down_for(source, target, sent_at_ns):
            refusal = "peer_conn_down"
        if refusal is None:
            return None
        notice = relay_drop(sent_at_ns, relay.id, source, target, byte_len, refusal)
        return Drop("relay_down" if refusal == "down" else "relay_peer_conn_down", -1, (notice,))

    # --- routes and legs -------------------------------------------------------------------------------------------

    def _open(self, source: str, target: str) -> Leg | Relayed | None:
        """Resolve and keep the route of a host pair that has not been used yet."""
        if source == target or target not in self._inboxes:
            return None
        found = self._topology.route(source, target)
        if found is None:
            return None
        route: Leg | Relayed
        if isinstance(found, Direct):
            route = Leg(source, target, found.policy, self._root, from_host=True)
        else:
            relay = self._relays[found.relay]
            route = Relayed(self._relay_leg(source, relay.id), relay, self._relay_leg(relay.id, target))
        self._routes[source][target] = route
        return route

    def _relay_leg(self, source: str, target: str) -> Leg:
        leg = self._relay_legs.get((source, target))
        if leg is None:
            policy = self._topology.leg(source, target)
            assert policy is not None, "a route has both its legs"
            leg = Leg(source, target, policy, self._root, from_host=source in self._inboxes)
            self._relay_legs[source, target] = leg
        return leg

    def _named(self, mutation: LatencySpike | LossBurst | RelayBuffer | DuplicateBurst) -> list[Leg]:
        """Return the legs that a mutation names; a relayed pair means both its legs (ruling N17)."""
        legs = []
        for source, target in [name for ref in mutation.links for name in self._topology.legs_named(ref)]:
            if source in self._relays or target in self._relays:
                legs.append(self._relay_leg(source, target))
            else:
                leg = self._routes[source].get(target) or self._open(source, target)
                assert isinstance(leg, Leg), "a leg between hosts is their direct route"
                legs.append(leg)
        return legs

    def _touching(self, vertex: str) -> list[Leg]:
        """Return every leg in use that starts or ends at the vertex, sorted (§7.3)."""
        legs = [leg for pair, leg in self._relay_legs.items() if vertex in pair]
        routes = [*self._routes.get(vertex, {}).values()]
        routes += [row[vertex] for row in self._routes.values() if vertex in row]
        legs += [route for route in routes if isinstance(route, Leg)]
        return sorted(legs, key=lambda leg: (leg.source, leg.target))

    # --- mutations (§5.5) ------------------------------------------------------------------------------------------

    def apply_mutation(self, mutation: Mutation, at_ns: int) -> MutationEffect:
        """Apply a mutation at `at_ns`, not before the last send. Kinds that do not concern the network have no effect."""
        match mutation:
            case Partition():
                return self._partition(mutation, at_ns)
            case Heal():
                self._cuts.heal()
                self._partitioned = False
            case LatencySpike() | LossBurst() | RelayBuffer() | DuplicateBurst():
                self._impose(mutation, at_ns)
            case PeerKill():
                return self._kill_peer(mutation.peer, at_ns)
            case RelayKill() | RelayBoot() | RelayCapacityChange() | RelayPeerConnDown():
                return self._change_relay(mutation, at_ns)
            case PeerResurrect() | WorkerExit() | PeerPause() | PeerSlow() | ClockOffset() | ClockDrift():
                pass  # the engine's alone
            case _:
                assert_never(mutation)
        return _NOTHING

    def _impose(self, mutation: LatencySpike | LossBurst | RelayBuffer | DuplicateBurst, at_ns: int) -> None:
        """Put a window over every leg that the mutation names. What is in flight keeps its time."""
        end_ns = at_ns + mutation.duration_ns
        for leg in self._named(mutation):
            windows = leg.windows(at_ns)
            match mutation:
                case LatencySpike(factor_x100=factor_x100):
                    windows.spike_x100.put(end_ns, factor_x100)
                case LossBurst(prob_ppm=prob_ppm):
                    windows.burst_ppm.put(end_ns, prob_ppm)
                case RelayBuffer(floor_ns=floor_ns):
                    windows.floor_ns.put(end_ns, floor_ns)
                case DuplicateBurst(prob_ppm=prob_ppm):
                    windows.duplicate_ppm.put(end_ns, prob_ppm)
                    self._copying_until_ns = max(self._copying_until_ns, end_ns)

    def _change_relay(
        self, mutation: RelayKill | RelayBoot | RelayCapacityChange | RelayPeerConnDown, at_ns: int
    ) -> MutationEffect:
        relay = self._relays[mutation.relay]
        match mutation:
            case RelayKill():
                return self._kill_relay(relay, at_ns)
            case RelayPeerConnDown():
                return self._disconnect(mutation, relay, at_ns)
            case RelayBoot():
                relay.boot()
            case RelayCapacityChange():
                relay.change(mutation)
        return _NOTHING

    def _partition(self, mutation: Partition, at_ns: int) -> MutationEffect:
        """Cut the host pairs, relayed routes included (ruling N15). Links keep their state (ruling N14)."""
        self._cuts.cut(mutation.peers_a, mutation.peers_b)
        self._partitioned = True
        lost: list[InvalidatedDelivery] = []
        severs = self._cuts.severs
        for target in (*mutation.peers_a, *mutation.peers_b):
            lost += self._lose(target, at_ns, "partition", lambda flight: severs(flight.source, flight.target))
        return MutationEffect(_in_queue_order(lost))

    def _kill_peer(self, peer: str, at_ns: int) -> MutationEffect:
        """Lose every delivery to the peer; no connection from or to it survives (ruling E13)."""
        lost = self._lose(peer, at_ns, "host_killed", lambda _: True)
        return MutationEffect(_in_queue_order(lost), self._cool(peer, at_ns))

    def _kill_relay(self, relay: Relay, at_ns: int) -> MutationEffect:
        """Lose what has not left the relay; a message whose egress ends now has left it (ruling R6)."""
        lost: list[InvalidatedDelivery] = []
        for target in self._inboxes:
            lost += self._lose(target, at_ns, "relay_down", lambda flight: _is_before(flight, relay.id, at_ns))
        return MutationEffect(_in_queue_order(lost), self._cool(relay.id, at_ns), relay.kill(at_ns), relay.id)

    def _disconnect(self, mutation: RelayPeerConnDown, relay: Relay, at_ns: int) -> MutationEffect:
        """Refuse one ordered pair at a relay; what it has there or on its way there is lost."""
        source, target = mutation.source, mutation.target
        relay.take_down(source, target, at_ns, mutation.duration_ns)

        def lost_with_it(flight: InFlight) -> bool:
            return flight.source == source and _is_before(flight, relay.id, at_ns)

        return MutationEffect(_in_queue_order(self._lose(target, at_ns, "relay_peer_conn_down", lost_with_it)))

    def _lose(
        self, target: str, at_ns: int, reason: LostReason, wanted: Callable[[InFlight], bool]
    ) -> list[InvalidatedDelivery]:
        return [InvalidatedDelivery(*flight[:5], reason) for flight in self._inboxes[target].take(at_ns, wanted)]

    def _cool(self, vertex: str, at_ns: int) -> tuple[Notice, ...]:
        notices = (leg.invalidate(at_ns) for leg in self._touching(vertex))
        return tuple(notice for notice in notices if notice is not None)


def _is_before(flight: InFlight, relay: str, at_ns: int) -> bool:
    """Tell whether a flight is routed through the relay and has not left it at `at_ns`."""
    return flight.relay == relay and flight.relay_until_ns > at_ns


def _in_queue_order(lost: list[InvalidatedDelivery]) -> tuple[InvalidatedDelivery, ...]:
    return tuple(sorted(lost, key=lambda delivery: (delivery.at_ns, delivery.message_id)))


def _composed(inbound: Delay, outbound: Delay, slot: Slot, arrival_ns: int) -> Delay:
    """Return the delay of a relayed delivery: the edge terms of both legs added up, and the relay's own."""
    edges = tuple(map(add, inbound, outbound))
    ingress = slot.ingress_end_ns - arrival_ns
    egress = slot.egress_end_ns - slot.ingress_end_ns - slot.cold_start_ns
    return Delay._make((*edges[:_EDGE_TERMS], ingress, egress, slot.cold_start_ns))
