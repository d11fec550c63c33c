"""Direct links: the send algorithm of §5.4 by computed values, and the laws of §5.7."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.links import Occupancy
from simharness.contracts.mutations import Heal, LossBurst, Partition
from simharness.contracts.network import Arrive, Delay, Drop
from simharness.network.leg import Leg
from simharness.network.model import LinkNetwork
from tests.network.build import MS, S, arrive, brief, drop, link, refs, scenario
from tests.network.generate import DIRECT, play, script
from tests.network.generate import scenario as random_scenario

RANDOMS = st.randoms(use_true_random=False)
SPLIT = Partition(at_ns=0, peers_a=("a", "d"), peers_b=("b", "c"))


def arrivals(network: LinkNetwork, *sends: tuple[int, int]) -> list[int]:
    """Send from a to b at each (time, size); return the arrivals."""
    return [arrive(network.send("a", "b", size, at_ns)).at_ns for at_ns, size in sends]


# --- values computed by hand ------------------------------------------------------------------------------------------


def test_zero_bytes_take_the_latency() -> None:
    """An empty message on an idle link arrives at send plus latency."""
    network = LinkNetwork(scenario(latency_ns=20 * MS))
    assert arrivals(network, (5, 0)) == [5 + 20 * MS]


def test_two_messages_arrive_a_transmission_apart() -> None:
    """Two 1000-byte messages at 10**6 bytes a second and no latency arrive at 1 ms and 2 ms."""
    network = LinkNetwork(scenario(bandwidth_bps=10**6))
    assert arrivals(network, (0, 1000), (0, 1000)) == [MS, 2 * MS]


@pytest.mark.parametrize(("occupancy", "second", "wait"), [("arrival", 22 * MS, 11 * MS), ("wire", 12 * MS, MS)])
def test_occupancy(occupancy: Occupancy, second: int, wait: int) -> None:
    """Ruling N1: by default the next message starts at the previous arrival; under `wire` when its last byte has left."""
    network = LinkNetwork(scenario(latency_ns=10 * MS, bandwidth_bps=10**6, occupancy=occupancy))
    arrive(network.send("a", "b", 1000, 0))
    outcome = arrive(network.send("a", "b", 1000, 0))
    assert (outcome.at_ns, outcome.delay.occupancy_wait, outcome.delay.order_wait) == (second, wait, 0)


def test_wire_keeps_the_order_of_sends() -> None:
    """Under `wire` a message that jitter, or a predecessor's dial, would let overtake arrives one transmission behind."""
    network = LinkNetwork(scenario(latency_ns=10, bandwidth_bps=10**9, cold_dial_penalty_ns=100, occupancy="wire"))
    assert arrivals(network, (0, 5)) == [5 + 10 + 100]
    outcome = arrive(network.send("a", "b", 5, 20))
    assert outcome.at_ns == 115 + 5
    assert outcome.delay == Delay(base_latency=10, serialisation=5, order_wait=120 - (20 + 5 + 10))


def test_jitter_is_clamped_at_the_end_of_serialisation() -> None:
    """Ruling N2: seed 1 draws -575 first; with 400 ns of latency, 175 ns are given back before the spike is applied."""
    network = LinkNetwork(scenario(latency_ns=400, jitter_stddev_ns=1024))
    outcome = arrive(network.send("a", "b", 7, 0))
    assert outcome.at_ns == 7
    assert outcome.delay == Delay(base_latency=400, serialisation=7, jitter=-575, clamp=175)


def test_transmission_rounds_down() -> None:
    """Seven bytes at 3 * 10**9 bytes a second take 2 ns, not 2.33 (§5.4 step 4)."""
    assert arrivals(LinkNetwork(scenario(bandwidth_bps=3 * S)), (0, 7)) == [2]


@pytest.mark.parametrize(("prob_ppm", "fires"), [(309_237, False), (309_238, True)])
@pytest.mark.parametrize("occupancy", ["arrival", "wire"])
def test_reorder(prob_ppm: int, fires: bool, occupancy: Occupancy) -> None:
    """Ruling N4: the third draw of seed 1 is 309237; when it fires the message gains tx + latency + 3 deviations + 1.

    The next message queues behind the undelayed arrival, so it overtakes even at the largest jitter.
    """
    network = LinkNetwork(
        scenario(latency_ns=10_000, jitter_stddev_ns=1024, reorder_prob_ppm=prob_ppm, occupancy=occupancy)
    )
    first, second = (arrive(network.send("a", "b", 100, 0)) for _ in range(2))
    undelayed = 100 + 10_000 - 575
    delay = 100 + 10_000 + 3 * 1024 + 1 if fires else 0
    assert (first.at_ns, first.delay.reorder) == (undelayed + delay, delay)
    queued = {"arrival": undelayed + 100 + 10_000 - 623, "wire": max(200 + 10_000 - 623, undelayed + 100)}[occupancy]
    assert second.at_ns == queued
    assert (second.at_ns < first.at_ns) == fires


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    occupancy=st.sampled_from(["arrival", "wire"]),
    latency=st.integers(0, 5000),
    stddev=st.integers(0, 2000),
    sizes=st.tuples(st.integers(0, 99), st.integers(0, 99)),
    wait=st.integers(0, 4000),
)
def test_a_reordered_message_is_overtaken(
    seed: int, occupancy: Occupancy, latency: int, stddev: int, sizes: tuple[int, int], wait: int
) -> None:
    """Ruling N4, the bound: a next message that is sent by the undelayed arrival and takes no longer to send arrives first."""
    reorder = scenario(
        latency_ns=latency, jitter_stddev_ns=stddev, reorder_prob_ppm=10**6, occupancy=occupancy, seed=seed
    )
    network = LinkNetwork(reorder)
    first = arrive(network.send("a", "b", max(sizes), 0))
    undelayed = first.at_ns - first.delay.reorder
    second = arrive(network.send("a", "b", min(sizes), min(wait, undelayed)))
    assert second.at_ns - second.delay.reorder < first.at_ns


# --- §5.7 -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("§5.7", "Reachability")
@given(
    edges=st.sets(st.sampled_from(["ab", "ba", "ac", "bc", "cd", "da", "db"])),
    cut=st.booleans(),
    pair=st.sampled_from(["ab", "ba", "ac", "bc", "cd", "da", "db", "bd"]),
)
def test_reachability(edges: set[str], cut: bool, pair: str) -> None:
    """A pair arrives if and only if it is declared and not cut (no route: ruling N18, no record either)."""
    network = LinkNetwork(scenario("abcd", tuple(link(*edge) for edge in sorted(edges))))
    if cut:
        network.apply_mutation(SPLIT, 0)
    severed = cut and (pair[0] in "ad") != (pair[1] in "ad")
    outcome = network.send(*pair, 10, 1)
    if pair not in edges:
        assert outcome == Drop("no_route")
    elif severed:
        assert outcome == Drop("partitioned")
    else:
        assert isinstance(outcome, Arrive)


@pytest.mark.parametrize("target", ["a", "R", "nobody"])
def test_only_peers_are_reachable(target: str) -> None:
    """A host has no route to itself, to a relay's own id or to an unknown one."""
    assert LinkNetwork(scenario()).send("a", target, 1, 0) == Drop("no_route")
    assert LinkNetwork(scenario()).send(target, target, 1, 0) == Drop("no_route")


@pytest.mark.spec("§5.7", "Reachability")
@settings(max_examples=40)
@given(rng=RANDOMS, steps=st.integers(1, 15))
def test_refused_sends_change_nothing(rng: Random, steps: int) -> None:
    """Ruling N7: what a total loss refuses leaves last send, last arrival, wire and cache of every link as they were."""
    network = LinkNetwork(random_scenario(rng, relayed=False))
    calls = script(rng, steps, relayed=False, faults=False)
    now = play(network, calls)[-1][0]
    network.apply_mutation(LossBurst(at_ns=now, links=refs(*DIRECT), prob_ppm=10**6, duration_ns=1), now)
    legs = [leg for row in network._routes.values() for leg in row.values() if isinstance(leg, Leg)]
    states = [leg.state for leg in legs]
    assert len(states) == len(DIRECT)
    for pair in DIRECT:
        assert drop(network.send(pair[0], pair[2], 9, now)) == Drop("lossy")
    assert [leg.state for leg in legs] == states


@pytest.mark.spec("§5.7", "Partition heals to identity")
@settings(max_examples=60)
@given(rng=RANDOMS, relayed=st.booleans())
def test_partition_heals_to_identity(rng: Random, relayed: bool) -> None:
    """A partition, refused sends and a heal leave every later answer as in a twin that saw neither (ruling N14)."""
    drawn = random_scenario(rng, relayed=relayed)
    before, after = (script(rng, rng.randint(0, 12), relayed=relayed, faults=False) for _ in range(2))
    touched, twin = LinkNetwork(drawn), LinkNetwork(drawn)
    assert play(touched, before) == play(twin, before)
    now = sum(gap for gap, _ in before)
    touched.apply_mutation(SPLIT, now)
    for pair in ("ac", "ab", "ba", "dc", "cd"):
        assert touched.send(*pair, 7, now) in (Drop("partitioned"), Drop("no_route"))
    touched.apply_mutation(Heal(at_ns=now + 5), now + 5)
    moved = [(now + 5, call) if place == 0 else (gap, call) for place, (gap, call) in enumerate(after)]
    assert play(touched, moved) == play(twin, moved)


@pytest.mark.spec("§5.7", "Loss is Bernoulli")
def test_loss_is_bernoulli() -> None:
    """At 50 % between 60 and 140 of 200 sends are lost; a total burst loses exactly those of its window."""
    network = LinkNetwork(scenario(loss_prob_ppm=500_000))
    lost = sum(isinstance(network.send("a", "b", 1, at_ns), Drop) for at_ns in range(200))
    assert 60 <= lost <= 140
    network = LinkNetwork(scenario())
    network.apply_mutation(LossBurst(at_ns=10, links=refs("a>b"), prob_ppm=10**6, duration_ns=20), 10)
    outcomes = [isinstance(network.send("a", "b", 0, at_ns), Drop) for at_ns in range(10, 50)]
    assert outcomes == [at_ns < 30 for at_ns in range(10, 50)]


@pytest.mark.spec("§5.7", "Loss is Bernoulli")
@pytest.mark.parametrize(("prob_ppm", "lost"), [(573_111, False), (573_112, True)])
def test_loss_compares_the_first_draw(prob_ppm: int, lost: bool) -> None:
    """Seed 1, leg a to b: the first draw is 573111, so it is lost from a probability of 573112 on (§5.4 step 3)."""
    network = LinkNetwork(scenario(loss_prob_ppm=prob_ppm))
    assert isinstance(network.send("a", "b", 1, 0), Drop) == lost


@pytest.mark.spec("§5.7", "Loss is Bernoulli")
@given(low=st.integers(0, 10**6), high=st.integers(0, 10**6), seed=st.integers(0, 2**64 - 1))
def test_loss_is_monotone_and_independent(low: int, high: int, seed: int) -> None:
    """Whatever a probability loses, a higher one loses too, send by send: no draw depends on an earlier loss (ruling N8)."""
    low, high = sorted((low, high))
    lost = []
    for prob_ppm in (low, high):
        network = LinkNetwork(scenario(loss_prob_ppm=prob_ppm, seed=seed))
        lost.append([isinstance(network.send("a", "b", 1, at_ns), Drop) for at_ns in range(12)])
    assert all(more or not less for less, more in zip(*lost, strict=True))


@pytest.mark.spec("§5.7", "Bandwidth serializes")
@settings(max_examples=60)
@given(rng=RANDOMS, steps=st.integers(0, 30))
def test_bandwidth_serializes(rng: Random, steps: int) -> None:
    """Under both models a message arrives at least its transmission time behind the one before.

    A reordered message is the one exception (ruling N4): its extra delay is left out of the comparison.
    """
    last: dict[str, int] = {}
    calls = script(rng, steps, relayed=False)
    for (_, call), (_, answer) in zip(
        calls, play(LinkNetwork(random_scenario(rng, relayed=False)), calls), strict=True
    ):
        if isinstance(answer, Arrive):
            pair = str(call[0]) if isinstance(call, tuple) else ""
            undelayed = answer.at_ns - answer.delay.reorder
            assert undelayed >= last.get(pair, 0) + answer.delay.serialisation
            last[pair] = undelayed


@pytest.mark.spec("§5.7", "Latency is additive")
def test_every_term_adds_up() -> None:
    """One send with every edge term: 7 ns of wait, 10 of transmission, 400 - 575 clamped, a dial of 50 and a reorder."""
    network = LinkNetwork(
        scenario(latency_ns=400, jitter_stddev_ns=1024, cold_dial_penalty_ns=50, reorder_prob_ppm=309_238)
    )
    outcome = arrive(network.send("a", "b", 10, 0))
    terms = Delay(base_latency=400, serialisation=10, jitter=-575, clamp=175, dial=50, reorder=10 + 400 + 3 * 1024 + 1)
    assert outcome.delay == terms
    assert outcome.at_ns == sum(terms)
    later = arrive(network.send("a", "b", 10, 53))
    assert later.delay.occupancy_wait == 60 - 53
    assert sum(later.delay) == later.at_ns - 53


@pytest.mark.spec("§5.7", "Cache state follows traffic")
def test_cache_follows_traffic() -> None:
    """Cold, warming, warm, cold again: the penalty is paid by the first send and by the one after the idle limit (N5, N9)."""
    network = LinkNetwork(
        scenario(latency_ns=5, cold_dial_penalty_ns=100, cache_warm_after_ns=30, cache_invalidate_after_idle_ns=50)
    )
    at_ns = (0, 29, 30, 80, 131, 132)  # 80 is exactly the limit after 30; 131 is one past it
    outcomes = [arrive(network.send("a", "b", 0, when)) for when in at_ns]
    assert [outcome.delay.dial for outcome in outcomes] == [100, 0, 0, 0, 100, 0]
    assert brief(outcomes[0].notices) == [(0, "DialStart", "b"), (105, "DialOutcome", True)]
    assert outcomes[1].notices == ()
    assert brief(outcomes[2].notices) == [(30, "CacheStateChange", "warmed")]
    assert outcomes[3].notices == ()
    assert outcomes[4].at_ns == 131 + 5 + 100
    assert brief(outcomes[4].notices) == [
        (130, "CacheStateChange", "idle_cooled"),
        (131, "DialStart", "b"),
        (236, "DialOutcome", True),
    ]


def test_warmed_is_dated_back() -> None:
    """Ruling N10: the record carries the time at which the link became warm, not that of the send that shows it."""
    network = LinkNetwork(scenario(cache_warm_after_ns=30))
    arrive(network.send("a", "b", 0, 7))
    assert brief(arrive(network.send("a", "b", 0, 500)).notices) == [(37, "CacheStateChange", "warmed")]


def test_dial_and_warm_in_one_send() -> None:
    """Ruling N9: with a warm-after of 0 the first send dials and warms."""
    kinds = brief(arrive(LinkNetwork(scenario()).send("a", "b", 3, 4)).notices)
    assert kinds == [(4, "DialStart", "b"), (7, "DialOutcome", True), (4, "CacheStateChange", "warmed")]


def test_zero_idle_limit_keeps_one_instant_warm() -> None:
    """Ruling N5: at a limit of 0 a second send of the same nanosecond is warm, one a nanosecond later is not."""
    network = LinkNetwork(scenario(cold_dial_penalty_ns=9, cache_invalidate_after_idle_ns=0))
    assert [arrive(network.send("a", "b", 0, at_ns)).delay.dial for at_ns in (5, 5, 6)] == [9, 0, 9]


def test_a_lost_send_never_cools_the_link() -> None:
    """Ruling N6: the idle rule is applied by the send that is accepted, whatever was lost before."""
    network = LinkNetwork(scenario(cache_invalidate_after_idle_ns=50))
    arrive(network.send("a", "b", 0, 0))
    network.apply_mutation(LossBurst(at_ns=100, links=refs("a>b"), prob_ppm=10**6, duration_ns=10), 100)
    assert network.send("a", "b", 0, 105) == Drop("lossy")
    assert brief(arrive(network.send("a", "b", 0, 110)).notices)[0] == (50, "CacheStateChange", "idle_cooled")


@pytest.mark.spec("§5.7", "Cache transitions are observable")
@settings(max_examples=60)
@given(rng=RANDOMS, steps=st.integers(0, 30))
def test_cache_transitions_are_observable(rng: Random, steps: int) -> None:
    """The records alone give the state of every link: dialled, then warmed once, then cooled, never twice the same.

    And exactly the sends that find it cold pay the penalty.
    """
    drawn = random_scenario(rng, relayed=False)
    penalty = {entry.source + entry.target: entry.overrides.cold_dial_penalty_ns for entry in drawn.links}
    follows = {"warmed": "dialled", "idle_cooled": "dialled warmed", "dialled": "cold idle_cooled invalidated"}
    follows["invalidated"] = "dialled warmed"
    state: dict[str, str] = {}
    for _, answer in play(LinkNetwork(drawn), script(rng, steps, relayed=False)):
        dialled = None
        for notice in answer.notices:
            event = notice.event
            pair, turn = event["from"] + event["to"], event.get("transition", "dialled")
            if event["kind"] == "DialOutcome":
                assert (dialled, notice.at_ns) == (pair, answer.at_ns)
                continue
            assert state.get(pair, "cold") in follows[turn].split()
            state[pair] = turn
            dialled = pair if turn == "dialled" else dialled
        if isinstance(answer, Arrive):
            assert answer.delay.dial == (penalty[dialled] if dialled else 0)
