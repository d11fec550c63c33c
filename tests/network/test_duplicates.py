"""Copies of messages (`duplicate_burst`, ruling N24): who gets one, by which draws, and what becomes of it."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.mutations import (
    DuplicateBurst,
    LatencySpike,
    LossBurst,
    Partition,
    PeerKill,
    RelayKill,
)
from simharness.contracts.network import Arrive, Drop
from simharness.core.streams import Root, Stream
from simharness.network.model import LinkNetwork
from tests.network.build import arrive, brief, link, refs, relay, scenario
from tests.network.generate import play, script, seeded
from tests.network.generate import scenario as random_scenario
from tests.network.oracle import SlowNetwork

RANDOMS = st.randoms(use_true_random=False)
VIA = (link("a", "b", "R", latency_ns=10),)


def burst(*links: str, at_ns: int = 0, prob_ppm: int = 10**6, duration_ns: int = 10**9) -> DuplicateBurst:
    return DuplicateBurst(at_ns=at_ns, links=refs(*(links or ("a>b",))), prob_ppm=prob_ppm, duration_ns=duration_ns)


EVERYWHERE = burst("a>b", "b>a", "d>c", "c>d", "b>c", "c>b", "a>c", prob_ppm=600_000)


def doubling(drawn: Any, *bursts: DuplicateBurst) -> LinkNetwork:
    """Return a network with bursts applied in order."""
    network = LinkNetwork(drawn)
    for one in bursts or (burst(),):
        network.apply_mutation(one, one.at_ns)
    return network


def copy_of(outcome: Any) -> Arrive:
    """Return the copy of an arrival, which must arrive too."""
    copy = arrive(outcome).duplicate
    assert isinstance(copy, Arrive)
    assert copy.is_copy
    assert copy.duplicate is None
    return copy


def test_a_copy_has_its_own_place_on_the_link() -> None:
    """By value: under `arrival` it waits for the original's arrival, under `wire` for its last byte; its terms sum to its delay."""
    for occupancy, at_ns, waits in (("arrival", 220, 110), ("wire", 120, 10)):
        network = doubling(scenario(latency_ns=100, occupancy=occupancy))
        outcome = arrive(network.send("a", "b", 10, 0))
        copy = copy_of(outcome)
        assert (outcome.at_ns, copy.at_ns, copy.message_id) == (110, at_ns, outcome.message_id + 1)
        assert (copy.delay.occupancy_wait, sum(copy.delay)) == (waits, at_ns)
        assert arrive(network.send("a", "b", 10, 1)).at_ns == at_ns + (110 if occupancy == "arrival" else 10)


def test_a_copy_dials_nothing_that_its_original_has_dialled() -> None:
    """It is a second send on the link that the first has made warm: one dial, one warming."""
    outcome = arrive(doubling(scenario(latency_ns=100, cold_dial_penalty_ns=7)).send("a", "b", 0, 0))
    assert [entry[1] for entry in brief(outcome.notices)] == ["DialStart", "DialOutcome", "CacheStateChange"]
    assert copy_of(outcome).notices == ()


@pytest.mark.spec("§5.7", "Mutation scoping")
@given(
    named=st.sets(st.sampled_from(["a>b", "b>a", "a>c", "c>b"]), min_size=1),
    start=st.integers(0, 20),
    duration=st.integers(0, 20),
)
def test_exactly_the_sends_of_its_links_and_its_time_are_doubled(named: set[str], start: int, duration: int) -> None:
    """In [start, start + duration), on the named links alone; nothing else about any message changes."""
    plain = scenario(latency_ns=1, cache_invalidate_after_idle_ns=100)
    changed, twin = LinkNetwork(plain), LinkNetwork(plain)
    for at_ns in range(0, 45, 9):  # far enough apart that no send waits for another, nor for a copy
        if at_ns - 9 < start <= at_ns:
            changed.apply_mutation(burst(*sorted(named), at_ns=start, duration_ns=duration), start)
        for pair in ("a>b", "b>a", "a>c", "c>b", "b>c"):
            one, other = (arrive(network.send(pair[0], pair[2], 0, at_ns)) for network in (changed, twin))
            assert (one.duplicate is not None) == (pair in named and start <= at_ns < start + duration)
            assert one._replace(duplicate=None, message_id=0) == other._replace(message_id=0)


def test_bursts_nest() -> None:
    """Ruling N16: when the inner burst ends the outer one is in force again; an inner burst of 0 doubles nothing."""
    network = doubling(scenario(), burst(duration_ns=40), burst(at_ns=10, prob_ppm=0, duration_ns=10))
    doubled = [arrive(network.send("a", "b", 0, at_ns)).duplicate is not None for at_ns in (10, 19, 20, 39, 40)]
    assert doubled == [False, False, True, True, False]


def eager(stream: Stream) -> tuple[int, int, int]:
    return stream.u64(), stream.u64(), stream.u64()


def test_the_draws_are_those_of_the_pairs_own_stream() -> None:
    """("link", from, to, "dup"): one draw an arrival while a burst is on, then loss, jitter and reorder of the copy if it fired."""
    drawn = scenario(latency_ns=5_000, jitter_stddev_ns=1_000, loss_prob_ppm=300_000, reorder_prob_ppm=300_000)
    network = LinkNetwork(drawn)
    own, dup = Root(1).link("a", "b"), Stream((1).to_bytes(8, "little") + b"link\0a\0b\0dup")
    twins = seen = 0
    for at_ns in range(0, 3_000_000, 10_000):
        if at_ns == 1_000_000:
            network.apply_mutation(burst(prob_ppm=400_000), at_ns)
        outcome = network.send("a", "b", 0, at_ns)
        loss, _, _ = eager(own)
        assert isinstance(outcome, Drop) == ((loss >> 32) % 10**6 < 300_000)
        if at_ns < 1_000_000 or isinstance(outcome, Drop):
            assert isinstance(outcome, Drop) or outcome.duplicate is None
            continue
        fires = dup.u32() % 10**6 < 400_000
        assert (outcome.duplicate is not None) == fires
        seen += 1
        if fires:
            twins += 1
            loss, jitter, reorder = eager(dup)
            copy = outcome.duplicate
            assert isinstance(copy, Drop) == ((loss >> 32) % 10**6 < 300_000)
            if isinstance(copy, Arrive):
                assert bool(copy.delay.reorder) == ((reorder >> 32) % 10**6 < 300_000)
                assert (copy.delay.jitter > 0) == (jitter >> 56 >= 128)
    assert 30 < twins < seen


@pytest.mark.spec("§5.7", "Substream isolation")
@settings(max_examples=60)
@given(rng=RANDOMS, steps=st.integers(0, 25))
def test_a_burst_moves_no_draw_of_any_link(rng: Random, steps: int) -> None:
    """With copies about, each message meets the same loss, jitter and reorder as without, on direct and relayed routes."""
    drawn, calls = random_scenario(rng), script(rng, steps, faults=False)
    drawn = msgspec.structs.replace(
        drawn, relays=tuple(msgspec.structs.replace(one, queue_depth_bytes=10**6) for one in drawn.relays)
    )
    without, doubled = play(LinkNetwork(drawn), calls), play(doubling(drawn, EVERYWHERE), calls)
    for (_, one), (_, two) in zip(without, doubled, strict=True):
        assert type(one) is type(two)
        if isinstance(one, Arrive):
            assert one.delay.jitter == two.delay.jitter
            assert bool(one.delay.reorder) == bool(two.delay.reorder)


def test_copies_equal_the_oracles() -> None:
    """Long scripts under bursts on every link: each answer is the slow oracle's; copies arrive, are lost, and find a queue full."""
    found: dict[str, int] = {}
    for seed in range(30):
        rng = seeded(seed)
        drawn, calls = random_scenario(rng), script(rng, 120)
        calls.insert(0, (0, msgspec.structs.replace(EVERYWHERE, prob_ppm=500_000)))
        fast, slow = play(LinkNetwork(drawn), calls), play(SlowNetwork(drawn), calls)
        assert fast == slow
        for _, answer in fast:
            copy = answer.duplicate if isinstance(answer, Arrive) else None
            if copy is not None:
                kind = "arrives" if isinstance(copy, Arrive) else copy.reason
                found[kind] = found.get(kind, 0) + 1
    assert {"arrives", "lossy", "relay_queue_full"} <= found.keys()


def test_a_refused_original_has_no_copy() -> None:
    """A copy needs an arrival: no draw is made for a send that is lost, cut off, or without a route."""
    network = doubling(scenario(links=(link("a", "b"),)))
    network.apply_mutation(LossBurst(at_ns=0, links=refs("a>b"), prob_ppm=10**6, duration_ns=5), 0)
    assert network.send("a", "b", 0, 1) == Drop("lossy")
    assert network.send("b", "a", 0, 1) == Drop("no_route")
    network.apply_mutation(Partition(at_ns=6, peers_a=("a",), peers_b=("b",)), 6)
    assert network.send("a", "b", 0, 6) == Drop("partitioned")
    assert not network._copy_streams


@pytest.mark.parametrize("name", ["a>b", "a>R", "R>b"])
def test_a_burst_on_either_leg_doubles_a_relayed_message_once(name: str) -> None:
    """N17: one copy, whether the burst is on one leg or on both; it crosses both legs and queues behind the original."""
    network = doubling(scenario(links=VIA, relays=(relay(),)), burst(name))
    outcome = arrive(network.send("a", "b", 3, 0))
    copy = copy_of(outcome)
    assert copy.message_id == outcome.message_id + 1
    assert copy.at_ns > outcome.at_ns
    assert [kind for _, kind, _ in brief(copy.notices)] == ["RelayEnqueue", "RelayDequeue"]
    assert sum(copy.delay) == copy.at_ns


def test_a_burst_on_the_way_back_doubles_nothing() -> None:
    """Legs have a direction."""
    links = (*VIA, link("b", "a", "R", latency_ns=10))
    network = doubling(scenario(links=links, relays=(relay(),)), burst("b>R", "R>a"))
    assert arrive(network.send("a", "b", 3, 0)).duplicate is None


def test_the_outbound_leg_is_judged_at_egress() -> None:
    """N16: a burst on the leg beyond the relay counts when the message leaves the relay, not when it is sent."""
    for duration_ns, doubled in ((10, False), (11, True)):
        network = doubling(scenario(links=VIA, relays=(relay(),)), burst("R>b", duration_ns=duration_ns))
        assert (arrive(network.send("a", "b", 0, 0)).duplicate is not None) == doubled


def test_a_copy_that_the_queue_refuses_leaves_its_notice() -> None:
    """The relay's queue has room for one of them: the copy is refused like any message, and cancelled by a kill like any."""
    links = (link("a", "b", "R", latency_ns=10, occupancy="wire"),)
    network = doubling(scenario(links=links, relays=(relay(queue_depth_bytes=5),)))
    outcome = arrive(network.send("a", "b", 5, 0))
    copy = outcome.duplicate
    assert isinstance(copy, Drop)
    assert (copy.reason, copy.message_id) == ("relay_queue_full", outcome.message_id + 1)
    assert [(kind, word) for _, kind, word in brief(copy.notices)] == [("RelayDrop", "queue_full")]
    effect = network.apply_mutation(RelayKill(at_ns=1, relay="R"), 1)
    assert effect.killed_messages == (outcome.message_id, copy.message_id)


@pytest.mark.spec("§5.7", "Mutation invalidation is exact")
def test_every_invalidation_treats_a_copy_as_a_delivery() -> None:
    """A cut, a kill and a relay's kill lose original and copy, each by its own id and time; one that has arrived is not lost."""
    direct = scenario(latency_ns=100)
    for mutation, reason in (
        (Partition(at_ns=0, peers_a=("a",), peers_b=("b",)), "partition"),
        (PeerKill(at_ns=0, peer="b"), "host_killed"),
    ):
        for at_ns, lost in ((50, [0, 1]), (150, [1]), (250, [])):
            network = doubling(direct)
            outcome = arrive(network.send("a", "b", 0, 0))
            assert (outcome.at_ns, copy_of(outcome).at_ns) == (100, 200)
            effect = network.apply_mutation(mutation, at_ns)
            assert [(one.message_id, one.reason) for one in effect.invalidated] == [(number, reason) for number in lost]
    network = doubling(scenario(links=VIA, relays=(relay(),)))
    copy_of(network.send("a", "b", 0, 0))
    assert len(network.apply_mutation(RelayKill(at_ns=5, relay="R"), 5).invalidated) == 2


def test_other_effects_hold_for_copies() -> None:
    """A spike that is in force delays the copy as it delays the original."""
    network = doubling(scenario(latency_ns=100, occupancy="wire"))
    network.apply_mutation(LatencySpike(at_ns=0, links=refs("a>b"), factor_x100=300, duration_ns=5), 0)
    outcome = arrive(network.send("a", "b", 0, 0))
    assert (outcome.delay.latency_spike, copy_of(outcome).delay.latency_spike) == (200, 200)
