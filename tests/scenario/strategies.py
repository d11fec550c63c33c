"""Random sound scenarios, resolved as the loader would resolve them: relays, `via`, meshes, mutations, assertions."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from simharness.contracts.assertions import ASSERTION_TYPES
from simharness.contracts.links import LINK_FIELDS, LinkOverrides, LinkPolicy, LinkRef, RelayDecl
from simharness.contracts.mutations import MUTATION_TYPES, ClockOffset, RelayCapacityChange
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario, SnapshotDecl
from simharness.core.units import PPM, U64_MAX
from tests.scenario.oracle import mesh_pairs, one_route_each

U64 = st.integers(0, U64_MAX)
POSITIVE = st.integers(1, U64_MAX)
TEXT = st.text(max_size=8)
TOML_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.booleans() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PEERS, RELAYS = ("a", "b.b", "C-c", "d_4"), ("R", "r2")
OCCUPANCIES = st.sampled_from(["arrival", "wire"])

SIGNED = {"offset_ns": (-(2**63), 2**63 - 1), "drift_ppm": (-999_999, 1_000_000)}


def number(name: str) -> st.SearchStrategy[int]:
    """Integers within the bounds that a field's name implies (ruling L7)."""
    if name in SIGNED:
        return st.integers(*SIGNED[name])
    if name.endswith("_ppm"):
        return st.integers(0, PPM)
    if name in ("status_code", "signal"):
        return st.integers(-(2**31), 2**31 - 1)
    return POSITIVE if name.endswith(("_bps", "_bps_per_link")) or name in ("window_ns", "min_steps") else U64


POLICIES = st.builds(LinkPolicy, **{name: number(name) for name in LINK_FIELDS}, occupancy=OCCUPANCIES)
OVERRIDES = st.fixed_dictionaries(
    {}, optional={name: number(name) for name in LINK_FIELDS} | {"occupancy": OCCUPANCIES}
).map(lambda given: LinkOverrides(**given))


AMONG_PEERS = ("AllAliveAt", "AllAliveThroughout", "ConvergenceAfter")
"""What these say needs two peers (ruling L23)."""


@st.composite
def peer_decls(draw: st.DrawFn) -> tuple[PeerDecl, ...]:
    """One to four peers, the first of a kind that takes `worker_exit` and `peer_slow`."""
    count = draw(st.integers(1, len(PEERS)))
    configs = st.fixed_dictionaries({"rate": st.integers()}, optional={"free": TOML_VALUES})
    return tuple(
        PeerDecl(
            id=name,
            kind="plain" if place else "worker",
            initial_state="up",
            kind_config=draw(configs),
            tick_period_ns_override=draw(st.none() | POSITIVE),
        )
        for place, name in enumerate(PEERS[:count])
    )


@st.composite
def networks(draw: st.DrawFn, peers: tuple[str, ...]) -> dict[str, Any]:
    """Relays, meshes and links; a drawn link is kept if each host pair still has one route at most."""
    relays = RELAYS[: draw(st.integers(0, len(RELAYS)))]
    meshes: list[MeshDecl] = []
    if draw(st.booleans()):
        members = draw(st.none() | st.lists(st.sampled_from(peers), min_size=2, unique=True)) if peers[1:] else None
        shape = draw(st.sampled_from(["full", "ring", "star", "chain"]))
        meshes.append(
            MeshDecl(peers=None if members is None else tuple(members), shape=shape, overrides=draw(OVERRIDES))
        )
    through = {relay: draw(OVERRIDES) for relay in relays}  # legs of one relay agree (ruling R14)
    plain = [(mesh.shape, mesh.peers or peers) for mesh in meshes]
    kept: list[tuple[str, str, str]] = []
    ends, vias = st.sampled_from(peers + relays), st.sampled_from(("", "", *relays))
    for entry in draw(st.lists(st.tuples(ends, ends, vias), max_size=8)):
        if one_route_each(peers, relays, [*kept, entry], plain):
            kept.append(entry)
    links = tuple(
        LinkDecl(
            source=source,
            target=target,
            via=via or None,
            overrides=through.get(via or source) or through.get(target) or draw(OVERRIDES),
        )
        for source, target, via in kept
    )
    depth = st.builds(dict, ingress_capacity_bps=POSITIVE, egress_capacity_bps_per_link=POSITIVE, queue_depth_bytes=U64)
    decls = tuple(RelayDecl(id=name, cold_start_penalty_ns=draw(U64), **draw(depth)) for name in relays)
    return {"relays": decls, "meshes": tuple(meshes), "links": links}


def legs_of(peers: tuple[str, ...], network: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a mutation may name as a link: declared pairs, `via` pairs, mesh pairs."""
    pairs = [(link.source, link.target) for link in network["links"]]
    return pairs + [pair for mesh in network["meshes"] for pair in mesh_pairs(mesh.shape, mesh.peers or peers)]


@st.composite
def entries(draw: st.DrawFn, of: type[Any], peers: tuple[str, ...], network: dict[str, Any], end_ns: int) -> Any:
    """One mutation or assertion, or None where the network offers nothing for its kind."""
    times = st.integers(0, end_ns)
    relays = tuple(relay.id for relay in network["relays"])
    via = [(link.via, link.source, link.target) for link in network["links"] if link.via]
    legs = legs_of(peers, network)
    names = {field.name for field in msgspec.structs.fields(of)}
    values: dict[str, Any] = {}
    if "source" in names:
        if not via:
            return None
        values["relay"], values["source"], values["target"] = draw(st.sampled_from(via))
    if (
        ("relay" in names and not relays)
        or ("links" in names and not legs)
        or (("peers_a" in names or of.__name__ in AMONG_PEERS) and not peers[1:])
    ):
        return None
    if "peers_a" in names:
        cut = draw(st.integers(1, len(peers) - 1))
        values["peers_a"], values["peers_b"] = peers[:cut], peers[cut:]
    if "window_start_ns" in names:
        values["window_start_ns"], values["window_end_ns"] = sorted((draw(times), draw(times)))
    for since in {"after_ns", "from_ns"} & names:
        values[since] = draw(times)
        values["within_ns"] = draw(st.integers(0, end_ns - values[since]))
    if "min" in names:
        values["min"], values["max"] = sorted((draw(U64), draw(U64)))
        del values[draw(st.sampled_from(["min", "max"]))]
    for field in msgspec.structs.fields(of):
        if field.name not in values and (field.required or draw(st.booleans())) and field.name not in ("min", "max"):
            values[field.name] = draw(value_of(field, of, peers, relays, legs, times))
    if of is ClockOffset:
        values["offset_ns"] = max(values["offset_ns"], -values["at_ns"])
    if of is RelayCapacityChange:
        values["queue_depth_bytes"] = draw(U64)
    return of(**values)


def value_of(
    field: Any,
    of: type[Any],
    peers: tuple[str, ...],
    relays: tuple[str, ...],
    legs: list[tuple[str, str]],
    times: st.SearchStrategy[int],
) -> st.SearchStrategy[Any]:
    """Return a strategy for one field, chosen by its name, else by its type."""
    match field.name:
        case "at_ns":
            return times
        case "peer":
            return st.sampled_from(peers[:1] if of.__name__ in ("WorkerExit", "PeerSlow") else peers)
        case "peers" | "observers":
            least = 2 if of.__name__ in AMONG_PEERS else 1
            return st.lists(st.sampled_from(peers), min_size=least, unique=True).map(tuple)
        case "relay":
            return st.sampled_from(relays)
        case "links":
            refs = st.sampled_from(legs).map(lambda pair: LinkRef(source=pair[0], target=pair[1]))
            return st.lists(refs, min_size=1, max_size=3).map(tuple)
        case "name":
            return st.text(min_size=1, max_size=8)
    if field.type is bool:
        return st.booleans()
    return TEXT if field.type is str else number(field.name)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A sound scenario over the registry of `support`."""
    peers = draw(peer_decls())
    ids = tuple(peer.id for peer in peers)
    network = draw(networks(ids))
    end_ns = draw(U64)

    def some(types: tuple[type[Any], ...]) -> tuple[Any, ...]:
        kinds = draw(st.lists(st.sampled_from(types), max_size=3))
        drawn = [draw(entries(kind, ids, network, end_ns)) for kind in kinds]
        return tuple(entry for entry in drawn if entry is not None)

    assertions = some(ASSERTION_TYPES)
    return Scenario(
        name=draw(st.text(min_size=1, max_size=8)),
        seed=draw(U64),
        duration_ns=end_ns,
        early_terminate_on_all_assertions_resolved=bool(assertions) and draw(st.booleans()),
        default_tick_period_ns=draw(POSITIVE),
        default_link=draw(POLICIES),
        peers=peers,
        **network,
        mutations=some(MUTATION_TYPES),
        snapshots=tuple(SnapshotDecl(at_ns=at_ns) for at_ns in draw(st.lists(st.integers(0, end_ns), max_size=3))),
        assertions=assertions,
    )
