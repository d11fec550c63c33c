"""Draws of faults, aimed at peers, links and relays (§5.5).

A target is drawn from all peers, relays or links, and rejected if it means nothing just now. So the draws of one fault do not
depend on the faults before it, and removing one leaves the others as they are.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Final

from hypothesis import strategies as st

from simharness.contracts.links import LinkRef
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
from simharness.core.units import NS_PER_MS
from simharness.stateful import faults
from simharness.stateful.faults import Swarm
from simharness.stateful.pools import pick
from simharness.stateful.situation import Situation

_FEW: Final = 6
"""Six peers have 63 groups: as many as one draw may choose from."""


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
def _duplicate_bursts(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    return DuplicateBurst(
        at_ns=at_ns,
        links=draw(_link_groups(situation)),
        prob_ppm=draw(swarm.duplicate_ppm),
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


def _aimed(kind: str, situation: Situation) -> st.SearchStrategy[str]:
    """Return the peers that a fault of this kind may be aimed at."""
    return pick(situation.peers).filter(partial(situation.takes, kind))


def _peer_kills(swarm: Swarm, situation: Situation, at_ns: int) -> st.SearchStrategy[Mutation]:
    del swarm
    return _aimed(faults.PEER_KILL, situation).map(lambda peer: PeerKill(at_ns=at_ns, peer=peer))


@st.composite
def _peer_resurrects(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    peer = draw(_aimed(faults.PEER_RESURRECT, situation))
    return PeerResurrect(at_ns=at_ns, peer=peer, preserve_state=draw(swarm.preserve_state))


@st.composite
def _worker_exits(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    del swarm
    peer = draw(_aimed(faults.WORKER_EXIT, situation))
    status = draw(st.sampled_from((1, 0, 137)))
    return WorkerExit(at_ns=at_ns, peer=peer, reason="worker process ended", status_code=status)


@st.composite
def _peer_pauses(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    peer = draw(_aimed(faults.PEER_PAUSE, situation))
    return PeerPause(at_ns=at_ns, peer=peer, duration_ns=draw(swarm.duration_ms) * NS_PER_MS)


@st.composite
def _peer_slows(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    return PeerSlow(
        at_ns=at_ns,
        peer=draw(_aimed(faults.PEER_SLOW, situation)),
        factor_x100=draw(swarm.factor_x100),
        duration_ns=draw(swarm.duration_ms) * NS_PER_MS,
    )


@st.composite
def _clock_offsets(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    """A clock may not be set to before 0 (ruling M3)."""
    peer = draw(_aimed(faults.CLOCK_OFFSET, situation))
    return ClockOffset(at_ns=at_ns, peer=peer, offset_ns=max(-at_ns, draw(swarm.offset_ms) * NS_PER_MS))


@st.composite
def _clock_drifts(draw: st.DrawFn, swarm: Swarm, situation: Situation, at_ns: int) -> Mutation:
    peer = draw(_aimed(faults.CLOCK_DRIFT, situation))
    return ClockDrift(at_ns=at_ns, peer=peer, drift_ppm=draw(swarm.drift_ppm))


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
    faults.PARTITION: _partitions,
    faults.HEAL: _heals,
    faults.LATENCY_SPIKE: _latency_spikes,
    faults.LOSS_BURST: _loss_bursts,
    faults.RELAY_BUFFER: _relay_buffers,
    faults.PEER_KILL: _peer_kills,
    faults.PEER_RESURRECT: _peer_resurrects,
    faults.WORKER_EXIT: _worker_exits,
    faults.RELAY_KILL: _relay_kills,
    faults.RELAY_BOOT: _relay_boots,
    faults.RELAY_CAPACITY_CHANGE: _relay_capacity_changes,
    faults.RELAY_PEER_CONN_DOWN: _relay_peer_conn_downs,
    faults.PEER_PAUSE: _peer_pauses,
    faults.PEER_SLOW: _peer_slows,
    faults.CLOCK_OFFSET: _clock_offsets,
    faults.CLOCK_DRIFT: _clock_drifts,
    faults.DUPLICATE_BURST: _duplicate_bursts,
}
