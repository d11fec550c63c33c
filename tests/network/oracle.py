"""A slow, plain second version of the network: whole histories in lists, every question answered by a scan.

It shares the contracts and the generator with the fast one, but no arithmetic and no structure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from simharness.contracts.links import LinkPolicy, LinkRef, RelayDecl
from simharness.contracts.mutations import Mutation, kind_of
from simharness.contracts.network import Arrive, Delay, Drop, InvalidatedDelivery, MutationEffect, Notice, SendOutcome
from simharness.contracts.scenario import Scenario
from simharness.core.streams import Root, Stream

GAUSS = [round(1024 * NormalDist().inv_cdf((place + 0.5) / 256)) for place in range(256)]


def gaussian(index: int, stddev: int) -> int:
    """Scale one table entry, half away from zero."""
    size = (2 * abs(GAUSS[index]) * stddev + 1024) // 2048
    return size if GAUSS[index] > 0 else -size


@dataclass
class SlowLeg:
    """One leg with its history. It draws its three values for every send, at once."""

    source: str
    target: str
    policy: LinkPolicy
    stream: Stream
    host_id: str | None
    sends: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    wire_ends: list[int] = field(default_factory=list)
    cache: list[tuple[int, str]] = field(default_factory=lambda: [(0, "cold")])
    effects: list[tuple[str, int, int, int]] = field(default_factory=list)

    def draw(self) -> tuple[int, int, int]:
        return self.stream.u32(), self.stream.below(256), self.stream.u32()

    def in_force(self, kind: str, when: int) -> list[int]:
        return [value for name, start, end, value in self.effects if name == kind and start <= when < end]

    def dialled_at(self) -> int:
        return next(at for at, state in reversed(self.cache) if state == "dialled")

    def note(self, at: int, kind: str, **rest: Any) -> Notice:
        return Notice(at, self.host_id, "engine", {"kind": kind, "from": self.source, "to": self.target, **rest})

    def cross(self, size: int, sent: int, draws: tuple[int, int, int]) -> tuple[int, Delay, list[Notice]] | None:
        policy, terms = self.policy, {}
        loss = (self.in_force("loss_burst", sent) or [policy.loss_prob_ppm])[-1]
        if draws[0] % 1_000_000 < loss:
            return None
        start = max([sent, *(self.wire_ends if policy.occupancy == "wire" else self.arrivals)])
        transmission = size * 1_000_000_000 // policy.bandwidth_bps
        jitter = gaussian(draws[1], policy.jitter_stddev_ns)
        travel = max(0, policy.latency_ns + jitter)
        factor = (self.in_force("latency_spike", sent) or [100])[-1]
        spiked = travel * factor // 100
        arrival = start + transmission + spiked
        terms |= {
            "base_latency": policy.latency_ns,
            "occupancy_wait": start - sent,
            "serialisation": transmission,
            "jitter": jitter,
            "clamp": travel - policy.latency_ns - jitter,
            "latency_spike": spiked - travel,
        }
        floored = max([arrival, *(sent + floor for floor in self.in_force("relay_buffer", sent))])
        terms["relay_buffer"], arrival = floored - arrival, floored

        last_send = max(self.sends, default=0)
        state = self.cache[-1][1]
        notes: list[Notice] = []
        if state != "cold" and sent > last_send + policy.cache_invalidate_after_idle_ns:
            cooled = last_send + policy.cache_invalidate_after_idle_ns
            self.cache.append((cooled, "cold"))
            notes.append(self.note(cooled, "CacheStateChange", transition="idle_cooled"))
        cold = self.cache[-1][1] == "cold"
        if cold:
            terms["dial"] = policy.cold_dial_penalty_ns
            arrival += policy.cold_dial_penalty_ns
        if policy.occupancy == "wire":
            ordered = max([arrival, *(earlier + transmission for earlier in self.arrivals)])
            terms["order_wait"], arrival = ordered - arrival, ordered
        self.arrivals.append(arrival)
        self.wire_ends.append(start + transmission)
        if draws[2] % 1_000_000 < policy.reorder_prob_ppm:
            terms["reorder"] = transmission + (policy.latency_ns + 3 * policy.jitter_stddev_ns) * factor // 100 + 1
            arrival += terms["reorder"]
        if cold:
            self.cache.append((sent, "dialled"))
            notes += [self.note(sent, "DialStart"), self.note(arrival, "DialOutcome", warm=True)]
        if self.cache[-1][1] == "dialled" and sent >= self.dialled_at() + policy.cache_warm_after_ns:
            warmed = self.dialled_at() + policy.cache_warm_after_ns
            self.cache.append((warmed, "warm"))
            notes.append(self.note(warmed, "CacheStateChange", transition="warmed"))
        self.sends.append(sent)
        return arrival, Delay(**terms), notes

    def die(self, now: int) -> list[Notice]:
        """One of the two ends died."""
        if self.cache[-1][1] == "cold":
            return []
        limit = max(self.sends) + self.policy.cache_invalidate_after_idle_ns
        was_cold = [state for at, state in self.cache if at <= now and state != "warm"][-1] == "cold"
        if limit < now:
            self.cache.append((limit, "cold"))
            return [self.note(limit, "CacheStateChange", transition="idle_cooled")]
        self.cache.append((now, "cold"))
        return [] if was_cold else [self.note(now, "CacheStateChange", transition="invalidated")]


@dataclass
class SlowMessage:
    """One message at a relay."""

    message_id: int
    target: str
    size: int
    arrival: int
    ingress_end: int
    egress_end: int


@dataclass
class SlowRelay:
    """One relay with every message that it took since it was last emptied."""

    decl: RelayDecl
    ingress: int
    egress: int
    depth: int
    up: bool = True
    booting: bool = False
    messages: list[SlowMessage] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    cuts: list[tuple[str, str, int, int | None]] = field(default_factory=list)

    def held_at(self, when: int) -> int:
        return sum(message.size for message in self.messages if message.arrival <= when < message.egress_end)

    def admit(self, message_id: int, target: str, size: int, arrival: int) -> SlowMessage | None:
        before = [message for message in self.messages if message.arrival <= arrival]
        ingress_end = max([arrival, *(m.ingress_end for m in before)]) + size * 1_000_000_000 // self.ingress
        start = max([ingress_end, *(m.egress_end for m in before if m.target == target)])
        cold = self.decl.cold_start_penalty_ns if self.booting else 0
        end = start + cold + size * 1_000_000_000 // self.egress
        instants = [arrival, *(m.arrival for m in self.messages if arrival < m.arrival < end)]
        if any(self.held_at(when) + size > self.depth for when in instants):
            self.refused.append((message_id, arrival))
            return None
        self.booting = False
        message = SlowMessage(message_id, target, size, arrival, ingress_end, end)
        self.messages.append(message)
        return message


@dataclass
class SlowDelivery:
    """One promised delivery."""

    at: int
    message_id: int
    source: str
    target: str
    sent: int
    relay: str | None
    egress_end: int
    gone: bool = False


class SlowNetwork:
    """The network as a plain reading of the spec and the rulings."""

    def __init__(self, scenario: Scenario) -> None:
        self.hosts = [peer.id for peer in scenario.peers]
        root = Root(scenario.seed)
        self.routes: dict[tuple[str, str], str | None] = {}
        policies: dict[tuple[str, str], LinkPolicy] = {}
        for mesh in scenario.meshes:
            assert (mesh.shape, mesh.peers) == ("full", None)
            for pair in [(a, b) for a in self.hosts for b in self.hosts if a != b]:
                policies[pair], self.routes[pair] = mesh.overrides.over(scenario.default_link), None
        for entry in scenario.links:
            pair, policy = (entry.source, entry.target), entry.overrides.over(scenario.default_link)
            if entry.via is None:
                policies[pair] = policy
            else:
                policies[entry.source, entry.via] = policies[entry.via, entry.target] = policy
                self.routes[pair] = entry.via
        for a, b in [(a, b) for a in self.hosts for b in self.hosts]:
            if (a, b) in policies:
                self.routes[a, b] = None
            for decl in scenario.relays:
                explicit = {(entry.source, entry.target) for entry in scenario.links if entry.via is None}
                if {(a, decl.id), (decl.id, b)} <= explicit and a != b:
                    self.routes[a, b] = decl.id
        self.legs = {
            pair: SlowLeg(*pair, policy, root.link(*pair), pair[0] if pair[0] in self.hosts else None)
            for pair, policy in policies.items()
        }
        self.relays = {
            d.id: SlowRelay(d, d.ingress_capacity_bps, d.egress_capacity_bps_per_link, d.queue_depth_bytes)
            for d in scenario.relays
        }
        self.partitions: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        self.deliveries: list[SlowDelivery] = []
        self.accepted = 0
        self.root, self.dice = root, dict[tuple[str, str], Stream]()

    def cut(self, source: str, target: str) -> bool:
        return any((source in a and target in b) or (source in b and target in a) for a, b in self.partitions)

    def send(self, source: str, target: str, size: int, now: int) -> SendOutcome:
        outcome = self.once(source, target, size, now, [])
        if not isinstance(outcome, Arrive):
            return outcome
        name, egress_end = self.routes[source, target], self.deliveries[-1].egress_end
        spots = [(self.legs[source, target], now)] if name is None else []
        if name is not None:
            spots = [(self.legs[source, name], now), (self.legs[name, target], egress_end)]
        bursts = [found[-1] for leg, when in spots if (found := leg.in_force("duplicate_burst", when))]
        if bursts:
            dice = self.dice.setdefault((source, target), self.root.link(source, f"{target}\0dup"))
            if dice.u32() % 1_000_000 < max(bursts):
                draws = [(dice.u32(), dice.below(256), dice.u32()) for _ in spots]
                copy = self.once(source, target, size, now, draws)
                copy = copy._replace(is_copy=True) if isinstance(copy, Arrive) else copy
                outcome = outcome._replace(duplicate=copy)
        return outcome

    def once(self, source: str, target: str, size: int, now: int, draws: list[tuple[int, int, int]]) -> SendOutcome:
        """One send; `draws` are those of its legs if they are not the legs' own."""
        if (source, target) not in self.routes:
            return Drop("no_route")
        if self.cut(source, target):
            return Drop("partitioned")
        name = self.routes[source, target]
        if name is None:
            leg = self.legs[source, target]
            message_id = self.accepted
            self.accepted += 1
            crossed = leg.cross(size, now, draws[0] if draws else leg.draw())
            if crossed is None:
                return Drop("lossy")
            at, delay, notes = crossed
            self.deliveries.append(SlowDelivery(at, message_id, source, target, now, None, 0))
            return Arrive(at, message_id, tuple(notes), delay)
        return self.forward(self.relays[name], name, source, target, size, now, draws)

    def forward(
        self,
        relay: SlowRelay,
        name: str,
        source: str,
        target: str,
        size: int,
        now: int,
        draws: list[tuple[int, int, int]],
    ) -> SendOutcome:
        def note(at: int, kind: str, delta: int = 0, **rest: Any) -> Notice:
            event = {"kind": kind, "relay": name, "from": source, "to": target, "byte_len": size, **rest}
            return Notice(at, None, "relay", event, name, delta)

        if not relay.up:
            return Drop("relay_down", -1, (note(now, "RelayDrop", reason="down"),))
        for a, b, start, end in relay.cuts:
            if (a, b) == (source, target) and start <= now and (end is None or now < end):
                return Drop("relay_peer_conn_down", -1, (note(now, "RelayDrop", reason="peer_conn_down"),))
        first, second = self.legs[source, name], self.legs[name, target]
        message_id = self.accepted
        self.accepted += 1
        first_draws, second_draws = draws or (first.draw(), second.draw())
        crossed = first.cross(size, now, first_draws)
        if crossed is None:
            return Drop("lossy")
        arrival, delay_in, notes = crossed
        booting = relay.booting
        message = relay.admit(message_id, target, size, arrival)
        if message is None:
            return Drop("relay_queue_full", message_id, (*notes, note(arrival, "RelayDrop", reason="queue_full")))
        notes.append(note(arrival, "RelayEnqueue", size))
        notes.append(note(message.egress_end, "RelayDequeue", -size))
        crossed = second.cross(size, message.egress_end, second_draws)
        if crossed is None:
            return Drop("lossy", message_id, tuple(notes))
        at, delay_out, more = crossed
        cold = relay.decl.cold_start_penalty_ns if booting else 0
        delay = Delay(*[x + y for x, y in zip(delay_in, delay_out, strict=True)])._replace(
            relay_ingress=message.ingress_end - arrival,
            relay_egress=message.egress_end - message.ingress_end - cold,
            relay_cold_start=cold,
        )
        self.deliveries.append(SlowDelivery(at, message_id, source, target, now, name, message.egress_end))
        return Arrive(at, message_id, (*notes, *more), delay)

    def named(self, ref: LinkRef) -> list[SlowLeg]:
        pair = (ref.source, ref.target)
        if pair in self.legs:
            return [self.legs[pair]]
        name = self.routes.get(pair)
        return [] if name is None else [self.legs[ref.source, name], self.legs[name, ref.target]]

    def lose(self, now: int, reason: Any, doomed: Callable[[SlowDelivery], bool]) -> tuple[InvalidatedDelivery, ...]:
        lost = [d for d in self.deliveries if not d.gone and d.at >= now and doomed(d)]
        for delivery in lost:
            delivery.gone = True
        lost.sort(key=lambda d: (d.at, d.message_id))
        return tuple(InvalidatedDelivery(d.at, d.message_id, d.source, d.target, d.sent, reason) for d in lost)

    def die(self, vertex: str, now: int) -> tuple[Notice, ...]:
        return tuple(note for pair in sorted(self.legs) if vertex in pair for note in self.legs[pair].die(now))

    def apply_mutation(self, mutation: Mutation, now: int) -> MutationEffect:
        m: Any = mutation
        kind = kind_of(mutation)
        if kind == "partition":
            self.partitions.append((m.peers_a, m.peers_b))
            return MutationEffect(self.lose(now, "partition", lambda d: self.cut(d.source, d.target)))
        if kind == "heal":
            self.partitions = []
        elif kind in ("latency_spike", "loss_burst", "relay_buffer", "duplicate_burst"):
            value = {"latency_spike": "factor_x100", "relay_buffer": "floor_ns"}.get(kind, "prob_ppm")
            legs = {(leg.source, leg.target): leg for ref in m.links for leg in self.named(ref)}
            for leg in legs.values():
                leg.effects.append((kind, now, now + m.duration_ns, getattr(m, value)))
        elif kind == "peer_kill":
            lost = self.lose(now, "host_killed", lambda d: d.target == m.peer)
            return MutationEffect(lost, self.die(m.peer, now))
        elif kind == "relay_kill":
            relay = self.relays[m.relay]
            lost = self.lose(now, "relay_down", lambda d: d.relay == m.relay and now < d.egress_end)
            killed = [message.message_id for message in relay.messages if now < message.egress_end]
            killed += [message_id for message_id, arrival in relay.refused if now <= arrival]
            relay.messages, relay.refused = [], []
            relay.up = relay.booting = False
            return MutationEffect(lost, self.die(m.relay, now), tuple(sorted(killed)), m.relay)
        elif kind == "relay_boot":
            relay = self.relays[m.relay]
            relay.up = relay.booting = True
        elif kind == "relay_capacity_change":
            relay = self.relays[m.relay]
            relay.ingress = m.ingress_capacity_bps or relay.ingress
            relay.egress = m.egress_capacity_bps_per_link or relay.egress
            relay.depth = relay.depth if m.queue_depth_bytes is None else m.queue_depth_bytes
        elif kind == "relay_peer_conn_down":
            end = now + m.duration_ns if m.duration_ns else None
            self.relays[m.relay].cuts.append((m.source, m.target, now, end))

            def through(d: SlowDelivery) -> bool:
                return (d.source, d.target, d.relay) == (m.source, m.target, m.relay) and now < d.egress_end

            return MutationEffect(self.lose(now, "relay_peer_conn_down", through))
        return MutationEffect()
