"""The network against the slow oracle: every outcome, notice, delay term and invalidation, over random calls."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.network import Arrive, Drop, Notice
from simharness.network.model import LinkNetwork
from tests.network.generate import play, scenario, script, seeded
from tests.network.oracle import SlowNetwork

RANDOMS = st.randoms(use_true_random=False)
STEPS = st.integers(0, 30)


@pytest.mark.spec("§5.7", "Mutation invalidation is exact")
@settings(max_examples=50)
@given(rng=RANDOMS, steps=STEPS)
def test_every_answer_equals_the_oracles(rng: Random, steps: int) -> None:
    """Rulings N1 to N18, R1 to R11, E1 and E13: owed draws equal eager draws, and a plain list of all deliveries agrees."""
    drawn, calls = scenario(rng), script(rng, steps)
    for fast, slow in zip(play(LinkNetwork(drawn), calls), play(SlowNetwork(drawn), calls), strict=True):
        assert fast == slow


@pytest.mark.parametrize("seed", range(80))
def test_long_scripts_equal_the_oracles(seed: int) -> None:
    """The same over scripts that are long enough for every structure to be swept and refilled."""
    rng = seeded(seed)
    drawn, calls = scenario(rng), script(rng, 150)
    for fast, slow in zip(play(LinkNetwork(drawn), calls), play(SlowNetwork(drawn), calls), strict=True):
        assert fast == slow


@pytest.mark.parametrize("seed", range(3))
def test_busy_relay_equals_the_oracles(seed: int) -> None:
    """The same without faults and without pauses: hundreds of messages are held at once, so every list is swept."""
    rng = seeded(seed)
    drawn = scenario(rng)
    calls = [(rng.choice([0, 1, 2]), call) for _, call in script(rng, 500, faults=False)]
    for fast, slow in zip(play(LinkNetwork(drawn), calls), play(SlowNetwork(drawn), calls), strict=True):
        assert fast == slow


@pytest.mark.spec("§5.7", "Determinism")
@settings(max_examples=30)
@given(rng=RANDOMS, steps=STEPS)
def test_same_calls_give_the_same_answers(rng: Random, steps: int) -> None:
    """Outcomes, notices and invalidations are a function of scenario and calls."""
    drawn, calls = scenario(rng), script(rng, steps)
    assert play(LinkNetwork(drawn), calls) == play(LinkNetwork(drawn), calls)


@pytest.mark.spec("§5A.5", "Determinism")
@settings(max_examples=30)
@given(rng=RANDOMS, steps=STEPS)
def test_relay_records_repeat(rng: Random, steps: int) -> None:
    """Two networks of one scenario give identical outcomes and identical streams of relay records."""
    drawn, calls = scenario(rng), script(rng, steps, faults=False)
    first, second = (play(LinkNetwork(drawn), calls) for _ in range(2))
    assert first == second
    streams = [[n for _, outcome in run for n in outcome.notices if n.kind_tag == "relay"] for run in (first, second)]
    assert streams[0] == streams[1]


@pytest.mark.spec("§5.7", "Latency is additive")
@settings(max_examples=50)
@given(rng=RANDOMS, steps=STEPS)
def test_delay_terms_sum_to_the_delay(rng: Random, steps: int) -> None:
    """The terms of every arrival sum to arrival minus send time exactly; only jitter and a spike below 100 are negative."""
    for now, answer in play(LinkNetwork(scenario(rng)), script(rng, steps)):
        if isinstance(answer, Arrive):
            assert sum(answer.delay) == answer.at_ns - now
            assert min(answer.delay._replace(jitter=0, latency_spike=0)) >= 0


@pytest.mark.parametrize("seed", range(40))
def test_replayed_queue_depth_never_exceeds_the_limit(seed: int) -> None:
    """Ruling R2: summed up as a reader of the bundle does, what is enqueued never exceeds `queue_depth_bytes`."""
    rng = seeded(seed)
    drawn = scenario(rng)
    notices: list[Notice] = []
    for _, answer in play(LinkNetwork(drawn), script(rng, 80, faults=False)):
        assert isinstance(answer, Arrive | Drop)
        notices += [notice for notice in answer.notices if notice.relay_delta]
    change: dict[int, int] = {}
    for notice in notices:
        change[notice.at_ns] = change.get(notice.at_ns, 0) + notice.relay_delta
    held = 0
    for at_ns in sorted(change):
        held += change[at_ns]
        assert 0 <= held <= drawn.relays[0].queue_depth_bytes
    assert held == 0
