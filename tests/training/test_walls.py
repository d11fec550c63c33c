"""What is measured does what it says; nothing is said here about time."""

import itertools

import pytest

from simharness.assertions.setting import from_scenario
from simharness.assertions.training_oracle.ieee import decode
from simharness.assertions.training_oracle.problem import problem_of
from simharness.assertions.training_oracle.reference import Oracle, State
from simharness.hosts.kinds import Kinds
from simharness.systems.training.state import TrainState
from simharness.training import walls

KINDS = Kinds()


def vectors(state: TrainState) -> State:
    weights, momentum = decode(state.weights.hex()), decode(state.momentum.hex())
    assert weights is not None
    assert momentum is not None
    return State(weights, momentum)


def test_the_plain_loop_trains_on_the_union() -> None:
    """Each of its updates is the reference's; it plans as the job does: the effective batches of the first epoch."""
    scenario = walls.job_of("ring", 4, KINDS, 100_000_000, judged=False)
    facts = from_scenario(scenario).training
    assert facts is not None
    oracle = Oracle(problem_of(facts.config | {"samples": facts.samples}, facts.seed))
    states = [walls.plain_loop(scenario, steps) for steps in range(7)]
    used = [state.consumed.bit_count() for state in states]
    assert [after - before for before, after in itertools.pairwise(used)] == [16, 16, 13, 7, 4, 1]
    for before, after in itertools.pairwise(states):
        ids = [sample for sample in range(before.samples) if (after.consumed ^ before.consumed) >> sample & 1]
        assert oracle.judge(vectors(before), vectors(after), [ids]).worst.within


@pytest.mark.parametrize("strategy", walls.STRATEGIES)
def test_a_pace_is_measured(strategy: str) -> None:
    """All rates are there, and steps were taken in each of the three hands."""
    pace = walls.pace_of(strategy, 2, KINDS, virtual_ns=100_000_000, rounds=1)
    assert min(pace.plain, pace.bare, pace.judged, pace.events, pace.echo) > 0


@pytest.mark.parametrize("model", walls.MODELS)
def test_the_reference_is_measured(model: str) -> None:
    """On a step of 32 samples, for each model."""
    cost = walls.oracle_cost(model, rounds=1)
    assert cost.milliseconds > 0
    assert cost.parameters == (25 if model == "mlp" else 5)
