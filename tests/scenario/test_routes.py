"""Links, meshes and relayed routes (§5A, case L15, rulings R12-R15, L11, L14, N17)."""

from itertools import product

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from simharness.scenario.loader import loads
from simharness.scenario.routes import mesh_size
from tests.scenario.oracle import mesh_pairs, one_route_each
from tests.scenario.support import BASE, KINDS, broken, link, mutation, relay, via

TWO = BASE + relay("R") + relay("S")
LEGS = link("a", "R") + link("R", "b")
BURST = 'links = [{{ from = "{}", to = "{}" }}]\nprob_ppm = 5\nduration_ns = 5'
DOWN = 'relay = "{}"\nfrom = "{}"\nto = "{}"'


@pytest.mark.spec("§8.4", "Validation is complete")
@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        (link("a", "a"), "links[0].to", "a link joins two different ids; both are 'a'"),
        (link("R", "R"), "links[0].to", "a link joins two different ids; both are 'R'"),
        (link("a", "b") + link("a", "b"), "links[1].from", "duplicate link; a -> b is declared at links[0]"),
        (via("a", "b", "c"), "links[0].via", "'c' is a peer, not a relay"),
        (via("a", "b", "Q"), "links[0].via", "undeclared relay 'Q'"),
        (link("R", "S"), "links[0].to", "joins relay to relay; a route passes exactly one relay"),
        (via("a", "R", "S"), "links[0].via", "a link with via joins two peers; 'R' is a relay"),
        (via("R", "a", "R"), "links[0].via", "a link with via joins two peers; 'R' is a relay"),
        (
            link("a", "b") + via("a", "b", "R"),
            "links[1].from",
            "a -> b has both a direct link and a relayed route, see links[0]",
        ),
        (
            via("a", "b", "R") + via("a", "b", "S"),
            "links[1].from",
            "a -> b is routed through two relays, see links[0]",
        ),
        (
            LEGS + link("a", "b"),
            "links[2].from",
            "a -> b has both a direct link and a relayed route through R",
        ),
        (
            link("a", "b") + LEGS,
            "links[2].from",
            "a -> b has both a direct link and a relayed route through R",
        ),
        (
            "[[meshes]]\n" + via("a", "b", "R"),
            "links[0].from",
            "a -> b has both a direct link and a relayed route through R",
        ),
        (
            '[[meshes]]\npeers = ["a", "b"]\n' + LEGS,
            "links[1].from",
            "a -> b has both a direct link and a relayed route through R (meshes[0])",
        ),
        (
            LEGS + link("a", "S") + link("S", "b"),
            "links[3].from",
            "a -> b is routed through two relays, R and S",
        ),
        (
            via("a", "b", "S") + LEGS,
            "links[2].from",
            "a -> b is routed through two relays, S and R",
        ),
        (
            via("a", "b", "R") + via("b", "a", "R", "reorder_prob_ppm = 1"),
            "links[1].reorder_prob_ppm",
            "legs made by via through R must agree with links[0]",
        ),
        (
            via("a", "b", "R") + via("c", "b", "R", 'occupancy = "wire"'),
            "links[1].occupancy",
            "legs made by via through R must agree with links[0]",
        ),
        (
            link("a", "R", "latency_ns = 6") + via("a", "b", "R"),
            "links[1].latency_ns",
            "legs made by via through R must agree with links[0]",
        ),
    ],
)
def test_refused(text: str, field: str, rule: str) -> None:
    """L15: each has its own rule, and one mistake gives one error at the link that completed it."""
    assert broken(TWO + text) == [(field, rule)]


@pytest.mark.parametrize(
    "text",
    [
        via("a", "b", "R") + via("b", "a", "R"),
        via("a", "b", "R", "latency_ns = 20") + via("b", "c", "R"),  # given explicitly, yet equal to the default
        via("a", "b", "R") + via("b", "a", "S", "latency_ns = 3"),
        via("a", "b", "R") + link("a", "R"),
        LEGS + link("b", "a") + link("a", "S") + link("S", "c"),
        '[[meshes]]\npeers = ["a", "c"]\n' + LEGS,
        "[[meshes]]\n" + link("a", "b", "latency_ns = 3"),
        "[[meshes]]\n[[meshes]]\nlatency_ns = 3\n",
    ],
)
def test_accepted(text: str) -> None:
    """L15, R14: agreeing `via` links, disjoint routes and overridden mesh pairs load."""
    assert broken(TWO + text) == []


@pytest.mark.parametrize(
    ("links", "named", "found"),
    [
        (link("a", "b"), ("a", "b"), True),
        (link("a", "b"), ("b", "a"), False),
        ("[[meshes]]\n", ("b", "a"), True),
        (LEGS, ("a", "R"), True),
        (LEGS, ("a", "b"), True),
        (LEGS, ("R", "a"), False),
        (via("a", "b", "R"), ("a", "b"), True),
        (via("a", "b", "R"), ("R", "b"), True),
        (via("a", "b", "R"), ("b", "R"), False),
        (via("a", "b", "R") + via("c", "a", "R"), ("c", "b"), False),
    ],
)
def test_link_references(links: str, named: tuple[str, str], found: bool) -> None:
    """N17: a mutation may name any declared or synthesised leg and any relayed pair; R12: `via` serves its own pair."""
    expected = [] if found else [("mutations[0].links[0]", f"no link or relayed route {named[0]} -> {named[1]}")]
    assert broken(TWO + links + mutation("loss_burst", BURST.format(*named))) == expected


@pytest.mark.parametrize(
    ("links", "target", "rule"),
    [
        (via("a", "b", "R"), ("R", "a", "b"), None),
        (LEGS, ("R", "a", "b"), None),
        (via("a", "b", "R"), ("S", "a", "b"), "a -> b is not routed through S"),
        (via("a", "b", "R"), ("R", "b", "a"), "b -> a is not routed through R"),
        (link("a", "b"), ("R", "a", "b"), "a -> b is not routed through R"),
    ],
)
def test_connection_down(links: str, target: tuple[str, str, str], rule: str | None) -> None:
    """L14: `relay_peer_conn_down` names a host pair that is routed through that relay."""
    expected = [] if rule is None else [("mutations[0].relay", rule)]
    assert broken(TWO + links + mutation("relay_peer_conn_down", DOWN.format(*target))) == expected


def test_consequences_of_a_bad_link_are_not_reported() -> None:
    """L17: a mutation that names a link with a mistake of its own is not a second mistake."""
    burst = mutation("loss_burst", BURST.format("a", "b"))
    assert broken(BASE + link("a", "b", "latency_ms = 3") + burst) == [
        ("links[0].latency_ms", "unknown field; write latency_ns")
    ]
    assert broken(BASE + link("a", "b").replace("links", "link") + burst) == [("link", "unknown field; write links")]


def test_two_ambiguities_of_one_source() -> None:
    """L17: legs that complete two ambiguous pairs are two mistakes, from one source or to one target."""
    one = LEGS + link("R", "c") + link("a", "S") + link("S", "b") + link("S", "c")
    assert [field for field, _ in broken(TWO + one)] == ["links[4].from", "links[5].from"]
    other = link("R", "b") + link("S", "b") + link("a", "R") + link("c", "R") + link("a", "S") + link("c", "S")
    assert [field for field, _ in broken(TWO + other)] == ["links[4].from", "links[5].from"]


def test_queue_discipline_spellings() -> None:
    """R15: the discipline is optional and spelled `fifo` or, as §5A.2 does, `Fifo`."""
    for rest in ("", 'queue_discipline = "fifo"', 'queue_discipline = "Fifo"'):
        assert loads(BASE + relay("R", rest), KINDS).relays[0].queue_discipline == "fifo"


@pytest.mark.parametrize(("shape", "size"), list(product(["full", "ring", "star", "chain"], range(1, 7))))
def test_mesh_size(shape: str, size: int) -> None:
    """L18: the counted size of a mesh is the number of its pairs."""
    assert mesh_size(shape, size) == len(mesh_pairs(shape, list("abcdef"[:size])))


PEERS, RELAYS = ["a", "b", "c"], ["R", "S"]
declared_links = st.lists(
    st.tuples(st.sampled_from(PEERS + RELAYS), st.sampled_from(PEERS + RELAYS), st.sampled_from(["", "", *RELAYS])),
    max_size=5,
)
declared_meshes = st.lists(
    st.tuples(
        st.sampled_from(["full", "ring", "star", "chain"]), st.lists(st.sampled_from(PEERS), min_size=2, unique=True)
    ),
    max_size=1,
)


@given(links=declared_links, meshes=declared_meshes)
def test_one_route_for_each_pair(links: list[tuple[str, str, str]], meshes: list[tuple[str, list[str]]]) -> None:
    """The loader accepts exactly what brute force over all host pairs accepts (§5A, R13)."""
    text = "".join(f'[[meshes]]\nshape = "{shape}"\npeers = {members}\n' for shape, members in meshes)
    text += "".join(via(*entry) if entry[2] else link(*entry[:2]) for entry in links)
    event("one route each" if one_route_each(PEERS, RELAYS, links, meshes) else "ambiguous")
    assert (broken(TWO + text) == []) == one_route_each(PEERS, RELAYS, links, meshes)
