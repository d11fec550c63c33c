"""Base scenarios of any host kind: who is there and how they are linked. They declare no mutation and no assertion.

Everything shrinks towards fewer peers, small and round numbers, and seed 0.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from simharness.contracts.host import HostKind, PeerFacts
from simharness.contracts.links import LinkPolicy, Occupancy, RelayDecl
from simharness.contracts.scenario import LinkDecl, MeshDecl, MeshShape, PeerDecl, Scenario, SnapshotDecl
from simharness.core.errors import InputError, Problem, ScenarioError
from simharness.core.foreign import shown
from simharness.core.units import NS_PER_MS
from simharness.stateful.pools import Number, seeds, value_of
from simharness.stateful.session import KINDS

Config = Mapping[str, Any] | st.SearchStrategy[Mapping[str, Any]]
"""A raw `kind_config` for every peer, or a strategy of one."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PLACEHOLDER_NS = NS_PER_MS * 1_000 * 3_600
"""Duration of a base scenario; a machine puts the real one in its place."""


def peer_ids(count: int) -> tuple[str, ...]:
    """Return the ids of `count` peers, in order: a, b, c and so on, or p000, p001 where letters run out."""
    if count <= len(LETTERS):
        return tuple(LETTERS[:count])
    digits = len(str(count - 1))
    return tuple(f"p{place:0{digits}d}" for place in range(count))


def use_kind(kind: HostKind | str) -> HostKind:
    """Return a kind given as an object or by name; an object is registered, so that scenarios may name it.

    Raises:
        InputError: If the name is unknown, or an object takes the name of a built-in kind.
    """
    if isinstance(kind, str):
        found = KINDS.get(kind)
        if found is None:
            rule = f"unknown host kind {kind!r}; choose from {', '.join(KINDS.names())}"
            raise InputError(file="(strategy)", field="kind", rule=rule)
        return found
    if isinstance(kind, type) or not hasattr(kind, "kind_tag"):
        rule = f"{shown(kind)} is no host kind; give an instance of one or its name, and all else by name: meshes(KIND, peers=3)"
        raise InputError(file="(strategy)", field="kind", rule=rule)
    known = KINDS.get(kind.kind_tag)
    if known is None or type(known) is not type(kind):
        KINDS.register(kind)
    return kind


@st.composite
def links(
    draw: st.DrawFn,
    *,
    latency_ms: Number = 5,
    jitter_ms: Number = 0,
    loss_ppm: Number = 0,
    reorder_ppm: Number = 0,
    bandwidth_bps: Number = 25_000_000,
    cold_dial_ms: Number = 0,
    warm_after_ms: Number = 0,
    idle_ms: Number = 10_000,
    occupancy: Occupancy = "arrival",
) -> LinkPolicy:
    """Link policies (§5.2), in milliseconds, bytes a second and parts per million."""
    return LinkPolicy(
        latency_ns=value_of(draw, latency_ms) * NS_PER_MS,
        jitter_stddev_ns=value_of(draw, jitter_ms) * NS_PER_MS,
        loss_prob_ppm=value_of(draw, loss_ppm),
        reorder_prob_ppm=value_of(draw, reorder_ppm),
        bandwidth_bps=value_of(draw, bandwidth_bps),
        cold_dial_penalty_ns=value_of(draw, cold_dial_ms) * NS_PER_MS,
        cache_warm_after_ns=value_of(draw, warm_after_ms) * NS_PER_MS,
        cache_invalidate_after_idle_ns=value_of(draw, idle_ms) * NS_PER_MS,
        occupancy=occupancy,
    )


@st.composite
def relays(
    draw: st.DrawFn,
    *,
    relay_id: str = "R",
    ingress_bps: Number = 1_000_000_000,
    egress_bps: Number = 100_000_000,
    queue_bytes: Number = 65_536,
    cold_start_ms: Number = 0,
) -> RelayDecl:
    """Relay policies (§5A.2), in bytes a second, bytes and milliseconds."""
    return RelayDecl(
        id=relay_id,
        ingress_capacity_bps=value_of(draw, ingress_bps),
        egress_capacity_bps_per_link=value_of(draw, egress_bps),
        queue_depth_bytes=value_of(draw, queue_bytes),
        cold_start_penalty_ns=value_of(draw, cold_start_ms) * NS_PER_MS,
    )


@st.composite
def meshes(
    draw: st.DrawFn,
    kind: HostKind | str = "echo",
    *,
    peers: Number = 3,
    config: Config | None = None,
    initial_state: str = "ready",
    tick_ms: Number = 100,
    link: st.SearchStrategy[LinkPolicy] | None = None,
    shape: MeshShape = "full",
    via: st.SearchStrategy[RelayDecl] | None = None,
    snapshot_every_ms: int | None = None,
    snapshots_until_ms: int = 60_000,
) -> Scenario:
    """Base scenarios of one host kind, every pair linked by one policy: `meshes(KIND, peers=ints(2, 4))`.

    Args:
        draw: Given by Hypothesis; whoever calls `meshes` begins with `kind`.
        kind: A host kind, or the name of one.
        peers: How many.
        config: Their raw `kind_config`, checked and resolved by the kind.
        initial_state: Their initial state.
        tick_ms: Their tick period.
        link: The link policy; `links()` if not given.
        shape: Who is linked to whom.
        via: A relay that every pair goes through, instead of direct links.
        snapshot_every_ms: Period of declared snapshots; None for none.
        snapshots_until_ms: When they end.

    Raises:
        ScenarioError: If the kind refuses the configuration; every complaint is named.
    """
    host_kind = use_kind(kind)
    ids = peer_ids(value_of(draw, peers))
    seed = draw(seeds())
    policy = draw(links() if link is None else link)
    relay = None if via is None else draw(via)
    raw = draw(config) if isinstance(config, st.SearchStrategy) else config or {}
    tick_ns = value_of(draw, tick_ms) * NS_PER_MS
    every = range(snapshot_every_ms, snapshots_until_ms + 1, snapshot_every_ms) if snapshot_every_ms else ()
    return Scenario(
        name="base",
        seed=seed,
        duration_ns=PLACEHOLDER_NS,
        default_tick_period_ns=tick_ns,
        default_link=policy,
        peers=resolved_peers(host_kind, ids, raw, initial_state=initial_state, tick_ns=tick_ns),
        relays=() if relay is None else (relay,),
        meshes=(MeshDecl(shape=shape),) if relay is None else (),
        links=() if relay is None else _through(relay.id, ids),
        snapshots=tuple(SnapshotDecl(at_ns=at_ms * NS_PER_MS) for at_ms in every),
    )


def rings(kind: HostKind | str = "echo", **options: Any) -> st.SearchStrategy[Scenario]:
    """Like `meshes`, every peer linked to its two neighbours."""
    return meshes(kind, shape="ring", **options)


def stars(kind: HostKind | str = "echo", **options: Any) -> st.SearchStrategy[Scenario]:
    """Like `meshes`, every peer linked to the first one only."""
    return meshes(kind, shape="star", **options)


def chains(kind: HostKind | str = "echo", **options: Any) -> st.SearchStrategy[Scenario]:
    """Like `meshes`, every peer linked to the one before and the one after it."""
    return meshes(kind, shape="chain", **options)


def relayed(
    kind: HostKind | str = "echo", *, via: st.SearchStrategy[RelayDecl] | None = None, **options: Any
) -> st.SearchStrategy[Scenario]:
    """Like `meshes`, every pair routed through one relay."""
    return meshes(kind, via=relays() if via is None else via, **options)


def _through(relay: str, ids: tuple[str, ...]) -> tuple[LinkDecl, ...]:
    """Return the legs that join every host pair at the relay."""
    inbound = tuple(LinkDecl(source=peer, target=relay) for peer in ids)
    return inbound + tuple(LinkDecl(source=relay, target=peer) for peer in ids)


def resolved_peers(
    kind: HostKind, ids: tuple[str, ...], raw: Mapping[str, Any], *, initial_state: str, tick_ns: int
) -> tuple[PeerDecl, ...]:
    """Return the peers with their configuration checked and resolved by the kind (ruling B5).

    Raises:
        ScenarioError: With every complaint of the kind about the first peer that has one.
    """
    found = []
    for place, peer in enumerate(ids):
        facts = PeerFacts(id=peer, initial_state=initial_state, tick_period_ns=tick_ns, peer_ids=ids)
        config, complaints = kind.validate(raw, facts)
        if complaints:
            raise ScenarioError(Problem("(strategy)", f"peers[{place}].{item.field}", item.rule) for item in complaints)
        found.append(PeerDecl(id=peer, kind=kind.kind_tag, initial_state=initial_state, kind_config=config))
    return tuple(found)
