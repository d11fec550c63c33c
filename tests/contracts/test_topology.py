"""Legs and routes of declared meshes, links and relays (§5.1, §5A, rulings R12, R13, N17)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.links import LinkOverrides, LinkRef
from simharness.contracts.scenario import LinkDecl, MeshDecl, MeshShape, Scenario
from simharness.contracts.topology import Direct, Relayed, Topology
from tests.network.build import link, relay, scenario

SHAPES: list[MeshShape] = ["full", "ring", "star", "chain"]


def topology(*links: LinkDecl, meshes: tuple[MeshDecl, ...] = (), relays: str = "R") -> Topology:
    """Return the topology of peers a to e."""
    built = scenario("abcde", links, tuple(relay(name) for name in relays))
    return Topology(msgspec.structs.replace(built, links=links, meshes=meshes))


def mesh(peers: str | None, shape: MeshShape = "full", **overrides: int) -> MeshDecl:
    """Return a mesh entry over one-letter peers."""
    return MeshDecl(peers=None if peers is None else tuple(peers), shape=shape, overrides=LinkOverrides(**overrides))


@pytest.mark.parametrize(
    ("shape", "pairs"),
    [
        ("full", "ab ac ad ba bc bd ca cb cd da db dc"),
        ("ring", "ab ad ba bc cb cd da dc"),
        ("star", "ab ac ad ba ca da"),
        ("chain", "ab ba bc cb cd dc"),
    ],
)
def test_shapes(shape: MeshShape, pairs: str) -> None:
    """Every shape of four peers, pair by pair; in a star the first peer is the hub."""
    assert (
        sorted(source + target for source, target in topology(meshes=(mesh("abcd", shape),)).mesh_pairs())
        == pairs.split()
    )


@given(
    members=st.lists(st.sampled_from("abcde"), unique=True, min_size=1).map("".join),
    shape=st.sampled_from(SHAPES),
    every=st.booleans(),
)
def test_pairs_are_what_the_mesh_holds(members: str, shape: MeshShape, every: bool) -> None:
    """Listing the pairs and asking for each agree, for every size from one peer on, and no pair is listed twice."""
    found = topology(meshes=(mesh(None if every else members, shape),))
    pairs = list(found.mesh_pairs())
    asked = [(a, b) for a in "abcde" for b in "abcde" if found.direct(a, b) is not None]
    assert sorted(pairs) == asked


def test_precedence_of_policies() -> None:
    """Default link, then the last mesh that holds the pair, then its own entry, field by field."""
    meshes = (mesh(None, latency_ns=1, loss_prob_ppm=1), mesh("ab", latency_ns=2))
    found = topology(link("a", "b", jitter_stddev_ns=3), link("a", "c", latency_ns=4), meshes=meshes)
    shown = {}
    for pair in ("ab", "ba", "ac", "ca"):
        policy = found.direct(*pair)
        assert policy is not None
        shown[pair] = (policy.latency_ns, policy.loss_prob_ppm, policy.jitter_stddev_ns)
    assert shown == {"ab": (2, 0, 3), "ba": (2, 0, 0), "ac": (4, 1, 0), "ca": (1, 1, 0)}


def test_undeclared_pairs_have_no_route() -> None:
    """An ordered pair without an edge is cut for good, the reverse of an edge and a peer to itself included (§5.1)."""
    found = topology(link("a", "b"))
    assert isinstance(found.route("a", "b"), Direct)
    assert [found.route(*pair) for pair in ("ba", "aa", "bc", "aR", "xb")] == [None] * 5


def test_via_serves_only_the_pair_that_names_it() -> None:
    """Ruling R12: legs made by `via` do not join other pairs; each carries the full policy of the entry (R16)."""
    found = topology(link("a", "b", "R", latency_ns=7), link("c", "d", "R"))
    route = found.route("a", "b")
    assert isinstance(route, Relayed)
    assert (route.relay, route.inbound.latency_ns, route.outbound.latency_ns) == ("R", 7, 7)
    assert [found.route(*pair) for pair in ("ad", "cb", "ba", "dc")] == [None] * 4


def test_explicit_legs_join_every_pair_they_connect() -> None:
    """Ruling R12: legs towards and from a relay make a route for all host pairs for which both exist, never for one host."""
    found = topology(link("a", "R", latency_ns=1), link("b", "R"), link("R", "b", latency_ns=2), link("R", "c"))
    routes = {a + b for a in "abcde" for b in "abcde" if found.route(a, b) is not None}
    assert routes == {"ab", "ac", "bc"}
    route = found.route("a", "b")
    assert isinstance(route, Relayed)
    assert (route.inbound.latency_ns, route.outbound.latency_ns) == (1, 2)


@pytest.mark.spec("§5A.5", "Ambiguous routes are rejected statically")
def test_ambiguity_is_visible() -> None:
    """Ruling R13: what the loader refuses can be seen here: a direct edge beside a relay, and two relays for one pair."""
    legs = [link("a", "R"), link("R", "b"), link("a", "S"), link("S", "b")]
    assert topology(*legs, relays="RS").relays_joining("a", "b") == ["R", "S"]
    assert topology(*legs[:2], link("a", "b", "S"), relays="RS").relays_joining("a", "b") == ["R", "S"]
    found = topology(*legs[:2], meshes=(mesh("ab"),))
    assert found.direct("a", "b") is not None
    assert found.relays_joining("a", "b") == ["R"]
    assert topology(link("a", "b", "R")).relays_joining("a", "b") == ["R"]


@pytest.mark.spec("§5A.5", "No multi-hop in MVP")
def test_no_route_crosses_two_relays() -> None:
    """Legs host to R, R to S and S to host never make a route; the loader refuses the middle one."""
    found = topology(link("a", "R"), link("R", "S"), link("S", "b"), relays="RS")
    assert found.route("a", "b") is None
    assert found.relays_joining("a", "b") == []


def test_links_named_by_mutations() -> None:
    """Ruling N17: a leg by its ends, relay legs included; a relayed host pair means both legs; anything else means none."""
    found = topology(link("a", "b"), link("c", "d", "R"), link("a", "R"), link("R", "e"))

    def named(pair: str) -> list[str]:
        return [source + target for source, target in found.legs_named(LinkRef(source=pair[0], target=pair[1]))]

    assert [named(pair) for pair in ("ab", "cR", "Rd", "aR", "cd", "ae", "ba", "Ra")] == [
        ["ab"],
        ["cR"],
        ["Rd"],
        ["aR"],
        ["cR", "Rd"],
        ["aR", "Re"],
        [],
        [],
    ]


def test_a_thousand_peers_cost_one_entry() -> None:
    """A mesh is never expanded: the topology of a thousand peers holds one mesh and no pair."""
    peers = [f"p{place}" for place in range(1000)]
    built: Scenario = scenario(peers)
    found = Topology(built)
    assert found.direct("p0", "p999") is built.default_link
    assert not found._direct
