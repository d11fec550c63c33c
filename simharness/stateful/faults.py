"""Faults: which kinds an example may use, what each is aimed at, and what the run is like after it (§5.5).

A target is drawn from all peers, relays or links, and rejected if it means nothing just now. So the draws of one fault do not
depend on the faults before it, and removing one leaves the others as they are.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from simharness.contracts.host import HostKind
from simharness.contracts.links import LinkRef
from simharness.contracts.mutations import (
    Heal,
    LatencySpike,
    LossBurst,
    Mutation,
    Partition,
    PeerKill,
    PeerResurrect,
    RelayBoot,
    RelayBuffer,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
    WorkerExit,
)
from simharness.contracts.scenario import Scenario
from simharness.contracts.topology import Relayed, Topology
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_MS, PPM
from simharness.stateful.pools import ints, pick, pool

PARTITION: Final = "partition"
HEAL: Final = "heal"
LATENCY_SPIKE: Final = "latency_spike"
LOSS_BURST: Final = "loss_burst"
RELAY_BUFFER: Final = "relay_buffer"
PEER_KILL: Final = "peer_kill"
PEER_RESURRECT: Final = "peer_resurrect"
WORKER_EXIT: Final = "worker_exit"
RELAY_KILL: Final = "relay_kill"
RELAY_BOOT: Final = "relay_boot"
RELAY_CAPACITY_CHANGE: Final = "relay_capacity_change"
RELAY_PEER_CONN_DOWN: Final = "relay_peer_conn_down"

FAULTS: Final = (
    PARTITION,
    HEAL,
    LATENCY_SPIKE,
    LOSS_BURST,
    RELAY_BUFFER,
    PEER_KILL,
    PEER_RESURRECT,
    WORKER_EXIT,
    RELAY_KILL,
    RELAY_BOOT,
    RELAY_CAPACITY_CHANGE,
    RELAY_PEER_CONN_DOWN,
)
"""Every kind, in the order of the contract."""

_FEW: Final = 6
"""Six peers have 63 groups: as many as one draw may choose from."""

Ints = st.SearchStrategy[int]


class Swarm(msgspec.Struct, frozen=True, kw_only=True):
    """The fault kinds a machine may use and the numbers they are made of; see `swarm`."""

    kinds: tuple[str, ...] = ()
    duration_ms: Ints = ints(100, 5_000)
    factor_x100: Ints = ints(150, 1_000)
    loss_ppm: Ints = st.sampled_from((PPM, *pool(50_000, PPM)[:-1]))
    """Certain loss is the simplest: it does the same under every seed."""
    floor_ms: Ints = ints(10, 2_000)
    capacity_bps: Ints = ints(1_000, 1_000_000)
    queue_bytes: Ints = ints(1_000, 100_000)
    preserve_state: st.SearchStrategy[bool] = st.sampled_from((False, True))

    def subsets(self) -> st.SearchStrategy[tuple[str, ...]]:
        """Return strategies of the kinds that one example uses, shrinking towards none (swarm testing, Groce et al. 2012)."""
        flags = st.tuples(*(st.sampled_from((False, True)) for _ in self.kinds))
        return flags.map(lambda on: tuple(kind for kind, is_on in zip(self.kinds, on, strict=True) if is_on))


def swarm(*kinds: str, **numbers: Any) -> Swarm:
    """Return the faults a machine may use. Each example switches on a random subset of them.

    Args:
        kinds: Mutation kinds such as `PARTITION`.
        numbers: Strategies in place of the defaults of `Swarm`.

    Raises:
        InputError: If a kind is not a mutation kind; the choices are named.
    """
    for kind in kinds:
        if kind not in FAULTS:
            rule = f"unknown fault kind {kind!r}; choose from {', '.join(FAULTS)}"
            raise InputError(file="(swarm)", field="kinds", rule=rule)
    return Swarm(kinds=kinds, **numbers)


class Situation:
    """What the mutations so far have made of a scenario, as far as it decides which faults mean something."""

    def __init__(self, scenario: Scenario, kinds: Mapping[str, HostKind]) -> None:
        self.peers = tuple(peer.id for peer in scenario.peers)
        self.relays = tuple(relay.id for relay in scenario.relays)
        self._declared = scenario.relays
        self._topology = Topology(scenario)
        self._exitable = tuple(peer.id for peer in scenario.peers if kinds[peer.kind].accepts_worker_exit)
        self.dead: dict[str, bool] = {}
        self.exited: dict[str, bool] = {}
        self.down: dict[str, bool] = {}
        self.resized: dict[str, bool] = {}
        self.cut = False
        self.busy_until_ns = 0
        """When the last timed effect ends."""

    @cached_property
    def senders(self) -> tuple[str, ...]:
        """The peers that have a route to anybody."""
        return tuple(peer for peer in self.peers if self.targets_of(peer))

    def targets_of(self, source: str) -> tuple[str, ...]:
        """Return the peers that `source` has a route to."""
        return tuple(peer for peer in self.peers if peer != source and self._topology.route(source, peer) is not None)

    def sources_of(self, target: str) -> tuple[str, ...]:
        """Return the peers that have a route to `target`."""
        return tuple(peer for peer in self.peers if peer != target and self._topology.route(peer, target) is not None)

    def through(self, relay: str, source: str) -> tuple[str, ...]:
        """Return the peers that `source` reaches through `relay`."""
        routes = ((peer, self._topology.route(source, peer)) for peer in self.peers if peer != source)
        return tuple(peer for peer, route in routes if isinstance(route, Relayed) and route.relay == relay)

    def is_up(self, peer: str) -> bool:
        """Tell whether a peer is neither killed nor exited."""
        return peer not in self.dead and peer not in self.exited

    def may_exit(self, peer: str) -> bool:
        """Tell whether a worker exit may be aimed at a peer."""
        return peer in self._exitable and self.is_up(peer)

    def allows(self, kind: str) -> bool:
        """Tell whether a fault of this kind would mean something now."""
        up = sum(map(self.is_up, self.peers))
        match kind:
            case "partition":
                return len(self.senders) > 1
            case "heal":
                return self.cut
            case "latency_spike" | "loss_burst" | "relay_buffer":
                return bool(self.senders)
            case "peer_kill":
                return up > 1  # somebody is left to notice
            case "peer_resurrect":
                return up < len(self.peers)
            case "worker_exit":
                return any(map(self.may_exit, self.peers))
            case "relay_boot":
                return bool(self.down)
            case "relay_peer_conn_down":
                return any(self.through(relay, peer) for relay in self.relays for peer in self.peers)
            case _:
                return len(self.down) < len(self.relays)

    def apply(self, mutation: Mutation) -> None:
        """Follow one mutation."""
        match mutation:
            case Partition():
                self.cut = True
            case Heal():
                self.cut = False
            case PeerKill(peer=peer):
                self.dead[peer] = True
            case PeerResurrect(peer=peer):
                self.dead.pop(peer, None)
                self.exited.pop(peer, None)
            case WorkerExit(peer=peer):
                self.exited[peer] = True
            case RelayKill(relay=relay):
                self.down[relay] = True
            case RelayBoot(relay=relay):
                self.down.pop(relay, None)
            case RelayCapacityChange(relay=relay):
                self.resized[relay] = True
            case _:
                self.busy_until_ns = max(self.busy_until_ns, mutation.at_ns + getattr(mutation, "duration_ns", 0))

    def undo(self, at_ns: int) -> tuple[Mutation, ...]:
        """Return the mutations that end every fault that lasts until it is ended (the quiet phase)."""
        resized = [
            RelayCapacityChange(
                at_ns=at_ns,
                relay=relay.id,
                ingress_capacity_bps=relay.ingress_capacity_bps,
                egress_capacity_bps_per_link=relay.egress_capacity_bps_per_link,
                queue_depth_bytes=relay.queue_depth_bytes,
            )
            for relay in self._declared
            if relay.id in self.resized
        ]
        down: list[Mutation] = [RelayBoot(at_ns=at_ns, relay=relay) for relay in self.relays if relay in self.down]
        gone = [PeerResurrect(at_ns=at_ns, peer=peer) for peer in self.peers if not self.is_up(peer)]
        return (*([Heal(at_ns=at_ns)] if self.cut else []), *resized, *down, *gone)


def draws(kind: str, swarm: Swarm, situation: Situation, at_ns: int) -> st.SearchStrategy[Mutation]:
    """Return the faults of one kind at `at_ns`. Only for kinds that the situation allows."""
    return _MAKERS[kind](swarm, situation, at_ns)


@st.composite
def _partitions(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    del swarm
    peers = situation.peers
    one = draw(_groups(peers, most=len(peers) - 1))
    other = draw(_groups(tuple(peer for peer in peers if peer not in one), most=len(peers) - len(one)))
    return Partition(at_ns=at_ns, peers_a=one, peers_b=other)


def _groups(peers: tuple[str, ...], *, most: int) -> st.SearchStrategy[tuple[str, ...]]:
    """Return groups of peers in declared order, shrinking to one peer; those of few peers are drawn at once."""
    if len(peers) <= _FEW:
        return st.sampled_from([group for size in range(1, most + 1) for group in combinations(peers, size)])
    drawn = st.lists(pick(peers), min_size=1, max_size=most, unique=True)
    return drawn.map(lambda group: tuple(peer for peer in peers if peer in group))


def _heals(swarm: Swarm, situation: Situation, at_ns: int) -> st.SearchStrategy[Mutation]:
    del swarm, situation
    return st.just(Heal(at_ns=at_ns))


@st.composite
def _link_groups(draw: st.DrawFn, situation: Situation) -> tuple[LinkRef, ...]:
    """One link, the links from, to, or from and to one peer; shrinks to one link."""
    centre = draw(pick(situation.peers).filter(lambda peer: peer in situation.senders))
    shape = draw(st.sampled_from(("one", "from", "to", "around")))
    if shape == "one":
        target = draw(pick(situation.peers).filter(lambda peer: peer in situation.targets_of(centre)))
        return (LinkRef(source=centre, target=target),)
    outward = tuple(LinkRef(source=centre, target=peer) for peer in situation.targets_of(centre))
    inward = tuple(LinkRef(source=peer, target=centre) for peer in situation.sources_of(centre))
    return {"from": outward, "to": inward or outward, "around": outward + inward}[shape]


@st.composite
def _latency_spikes(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    return LatencySpike(
        at_ns=at_ns,
        links=draw(_link_groups(situation)),
        factor_x100=draw(swarm.factor_x100),
        duration_ns=draw(swarm.duration_ms) * NS_PER_MS,
    )


@st.composite
def _loss_bursts(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    return LossBurst(
        at_ns=at_ns,
        links=draw(_link_groups(situation)),
        prob_ppm=draw(swarm.loss_ppm),
        duration_ns=draw(swarm.duration_ms) * NS_PER_MS,
    )


@st.composite
def _relay_buffers(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    return RelayBuffer(
        at_ns=at_ns,
        links=draw(_link_groups(situation)),
        floor_ns=draw(swarm.floor_ms) * NS_PER_MS,
        duration_ns=draw(swarm.duration_ms) * NS_PER_MS,
    )


def _peer_kills(swarm: Swarm, situation: Situation, at_ns: int) -> st.SearchStrategy[Mutation]:
    del swarm
    return pick(situation.peers).filter(situation.is_up).map(lambda peer: PeerKill(at_ns=at_ns, peer=peer))


@st.composite
def _peer_resurrects(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    peer = draw(pick(situation.peers).filter(lambda peer: not situation.is_up(peer)))
    return PeerResurrect(at_ns=at_ns, peer=peer, preserve_state=draw(swarm.preserve_state))


@st.composite
def _worker_exits(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    del swarm
    peer = draw(pick(situation.peers).filter(situation.may_exit))
    status = draw(st.sampled_from((1, 0, 137)))
    return WorkerExit(at_ns=at_ns, peer=peer, reason="worker process ended", status_code=status)


def _relay_kills(swarm: Swarm, situation: Situation, at_ns: int) -> st.SearchStrategy[Mutation]:
    del swarm
    return _relays_up(situation).map(lambda relay: RelayKill(at_ns=at_ns, relay=relay))


def _relay_boots(swarm: Swarm, situation: Situation, at_ns: int) -> st.SearchStrategy[Mutation]:
    del swarm
    down = pick(situation.relays).filter(lambda relay: relay in situation.down)
    return down.map(lambda relay: RelayBoot(at_ns=at_ns, relay=relay))


@st.composite
def _relay_capacity_changes(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    relay = draw(_relays_up(situation))
    field = draw(st.sampled_from(("egress_capacity_bps_per_link", "ingress_capacity_bps", "queue_depth_bytes")))
    value = draw(swarm.queue_bytes if field == "queue_depth_bytes" else swarm.capacity_bps)
    return RelayCapacityChange(at_ns=at_ns, relay=relay, **{field: value})


@st.composite
def _relay_peer_conn_downs(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    relay = draw(
        pick(situation.relays).filter(lambda relay: any(map(partial(situation.through, relay), situation.peers)))
    )
    source = draw(pick(situation.peers).filter(partial(situation.through, relay)))
    target = draw(pick(situation.peers).filter(lambda peer: peer in situation.through(relay, source)))
    duration_ns = draw(swarm.duration_ms) * NS_PER_MS
    return RelayPeerConnDown(at_ns=at_ns, relay=relay, source=source, target=target, duration_ns=duration_ns)


def _relays_up(situation: Situation) -> st.SearchStrategy[str]:
    return pick(situation.relays).filter(lambda relay: relay not in situation.down)


_Maker = Callable[[Swarm, Situation, int], st.SearchStrategy[Mutation]]

_MAKERS: Final[Mapping[str, _Maker]] = {
    PARTITION: _partitions,
    HEAL: _heals,
    LATENCY_SPIKE: _latency_spikes,
    LOSS_BURST: _loss_bursts,
    RELAY_BUFFER: _relay_buffers,
    PEER_KILL: _peer_kills,
    PEER_RESURRECT: _peer_resurrects,
    WORKER_EXIT: _worker_exits,
    RELAY_KILL: _relay_kills,
    RELAY_BOOT: _relay_boots,
    RELAY_CAPACITY_CHANGE: _relay_capacity_changes,
    RELAY_PEER_CONN_DOWN: _relay_peer_conn_downs,
}
