"""Randomness of the network: one stream a leg, three draws a send, none of them moved by an edit elsewhere (§5.6, §7.2)."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.mutations import LossBurst, RelayBoot, RelayKill, RelayPeerConnDown
from simharness.contracts.network import Arrive, Drop, SendOutcome
from simharness.contracts.scenario import LinkDecl, PeerDecl, Scenario
from simharness.core.streams import Root
from simharness.network.model import LinkNetwork
from tests.network.build import arrive, link, refs, relay, scenario
from tests.network.generate import DIRECT, RELAYED, play, policy, script
from tests.network.generate import scenario as random_scenario

RANDOMS = st.randoms(use_true_random=False)


def edited(drawn: Scenario, pair: str, **fields: Any) -> Scenario:
    """Return the scenario with one link's fields replaced."""

    def edit(entry: LinkDecl) -> LinkDecl:
        hit = entry.source + ">" + entry.target == pair
        return (
            msgspec.structs.replace(entry, overrides=msgspec.structs.replace(entry.overrides, **fields))
            if hit
            else entry
        )

    return msgspec.structs.replace(drawn, links=tuple(edit(entry) for entry in drawn.links))


def answers(drawn: Scenario, calls: Any, *pairs: str) -> list[Any]:
    """Play a script; return the outcomes of the pairs' sends without their message ids."""
    outcomes = zip(calls, play(LinkNetwork(drawn), calls), strict=True)
    return [
        outcome._replace(message_id=0)
        for (_, call), (_, outcome) in outcomes
        if isinstance(call, tuple) and call[0] in pairs
    ]


@pytest.mark.spec("§5.7", "Substream isolation")
@settings(max_examples=60)
@given(rng=RANDOMS, steps=st.integers(0, 25))
def test_editing_one_link_moves_no_other(rng: Random, steps: int) -> None:
    """A new policy on b to c leaves every outcome of the other direct links as it was."""
    drawn, calls = random_scenario(rng, relayed=False), script(rng, steps, relayed=False, faults=False)
    new = {name: getattr(policy(rng), name) for name in drawn.default_link.__struct_fields__}
    others = [pair for pair in DIRECT if pair != "b>c"]
    assert answers(edited(drawn, "b>c", **new), calls, *others) == answers(drawn, calls, *others)


@settings(max_examples=60)
@given(rng=RANDOMS, steps=st.integers(0, 25), loss=st.sampled_from([0, 300_000, 10**6]))
def test_editing_one_field_moves_no_other_draw(rng: Random, steps: int, loss: int) -> None:
    """Case B13 (4), ruling N8: with another loss on b to c, whatever still arrives keeps its jitter and its reorder."""
    drawn, calls = random_scenario(rng, relayed=False), script(rng, steps, relayed=False, faults=False)
    drawn = edited(drawn, "b>c", jitter_stddev_ns=9, reorder_prob_ppm=500_000)
    before, after = answers(drawn, calls, "b>c"), answers(edited(drawn, "b>c", loss_prob_ppm=loss), calls, "b>c")
    for one, other in zip(before, after, strict=True):
        if isinstance(one, Arrive) and isinstance(other, Arrive):
            assert one.delay.jitter == other.delay.jitter
            assert bool(one.delay.reorder) == bool(other.delay.reorder)


@settings(max_examples=60)
@given(rng=RANDOMS, steps=st.integers(0, 25), leg=st.sampled_from(["a>R", "R>b"]), lost=st.booleans())
def test_both_legs_draw_whatever_becomes_of_the_other(rng: Random, steps: int, leg: str, lost: bool) -> None:
    """Losing messages on one leg, or in a full queue, moves no draw of the other leg of the route."""
    drawn, calls = random_scenario(rng), script(rng, steps, faults=False)
    for name in ("a>R", "R>b"):
        drawn = edited(drawn, name, jitter_stddev_ns=9 if name != leg else 0, loss_prob_ppm=0, latency_ns=100)
    other = edited(drawn, leg, loss_prob_ppm=500_000 if lost else 0)
    if not lost:
        other = msgspec.structs.replace(other, relays=(msgspec.structs.replace(other.relays[0], queue_depth_bytes=20),))
    for one, two in zip(answers(drawn, calls, *RELAYED), answers(other, calls, *RELAYED), strict=True):
        if isinstance(one, Arrive) and isinstance(two, Arrive):
            assert one.delay.jitter == two.delay.jitter


def test_a_relays_refusals_at_the_door_draw_nothing() -> None:
    """Ruling R7: a send to a relay that is down, or whose pair is down, is not accepted for routing: no draw, no id."""
    via = scenario(links=(link("a", "b", "R", jitter_stddev_ns=9, latency_ns=100),), relays=(relay(),))
    once, twice = LinkNetwork(via), LinkNetwork(via)
    twice.apply_mutation(RelayKill(at_ns=0, relay="R"), 0)
    assert isinstance(twice.send("a", "b", 1, 1), Drop)
    twice.apply_mutation(RelayBoot(at_ns=1, relay="R"), 1)
    twice.apply_mutation(RelayPeerConnDown(at_ns=2, relay="R", source="a", target="b", duration_ns=3), 2)
    assert isinstance(twice.send("a", "b", 1, 3), Drop)
    assert arrive(once.send("a", "b", 1, 5)) == arrive(twice.send("a", "b", 1, 5))


@pytest.mark.parametrize("sends", [0, 1, 17])
def test_owed_draws_are_made_when_first_needed(sends: int) -> None:
    """A clean leg has no stream; a burst finds the very draw that an eager stream would give to this send."""
    network, eager = LinkNetwork(scenario()), Root(1).link("a", "b")
    for at_ns in range(sends):
        arrive(network.send("a", "b", 0, at_ns))
    leg = network._named(LossBurst(at_ns=0, links=refs("a>b"), prob_ppm=0, duration_ns=0))[0]
    assert leg._stream is None
    draws = [eager.u32() for _ in range(3 * sends + 1)]
    network.apply_mutation(LossBurst(at_ns=50, links=refs("a>b"), prob_ppm=draws[-1] % 10**6, duration_ns=9), 50)
    arrive(network.send("a", "b", 0, 50))
    assert leg._stream is not None
    assert [leg._stream.u32() for _ in range(3)] == [eager.u32() for _ in range(5)][2:]


def sends_from_a_to_b(drawn: Scenario) -> list[SendOutcome]:
    """Return what becomes of a fixed script from a to b, with other traffic in between."""
    network, outcomes = LinkNetwork(drawn), []
    for at_ns in range(0, 4000, 100):
        network.send("c", "a", 5, at_ns)
        network.send("b", "a", 5, at_ns)
        outcomes.append(network.send("a", "b", 5, at_ns + 50)._replace(message_id=0))
    return outcomes


def test_edits_elsewhere_leave_a_to_b_alone() -> None:
    """Case B13 (1) to (3): a new peer, another link's loss and the order of the tables change nothing from a to b."""
    pairs = [a + b for a in "abc" for b in "abc" if a != b]
    base = scenario(
        links=tuple(link(*pair, loss_prob_ppm=100_000, jitter_stddev_ns=30) for pair in pairs), latency_ns=90
    )
    wanted = sends_from_a_to_b(base)
    assert {type(outcome) for outcome in wanted} == {Arrive, Drop}
    peer = PeerDecl(id="d", kind="echo", initial_state="ready", kind_config={})
    more = msgspec.structs.replace(base, peers=(peer, *base.peers), links=(link("d", "a"), link("a", "d"), *base.links))
    assert sends_from_a_to_b(more) == wanted
    assert sends_from_a_to_b(edited(base, "c>a", loss_prob_ppm=0)) == wanted
    assert sends_from_a_to_b(msgspec.structs.replace(base, peers=base.peers[::-1], links=base.links[::-1])) == wanted


def test_leg_streams_have_unambiguous_addresses() -> None:
    """Case B13: the legs a to bc and ab to c, whose ids spell the same letters, draw from different streams."""
    peers = tuple(PeerDecl(id=peer, kind="echo", initial_state="", kind_config={}) for peer in ("a", "bc", "ab", "c"))
    links = tuple(LinkDecl(source=source, target=target) for source, target in (("a", "bc"), ("ab", "c")))
    noisy = scenario(links=links, latency_ns=9000, jitter_stddev_ns=1024)
    network = LinkNetwork(msgspec.structs.replace(noisy, peers=peers))
    jitters = [
        [arrive(network.send(*pair, 0, at)).delay.jitter for at in (0, 1)] for pair in (("a", "bc"), ("ab", "c"))
    ]
    assert jitters[0] != jitters[1]
