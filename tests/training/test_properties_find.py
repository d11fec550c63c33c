"""The properties of training find what they are for, and what they find replays from its file and shrinks (design, 17)."""

from typing import Any

import msgspec
import pytest

from simharness.stateful.knobs import replay_fault
from simharness.stateful.library.training import RingUnderFaults, ServerUnderFaults
from simharness.stateful.pools import ints
from simharness.stateful.profiles import FIX
from simharness.stateful.session import KINDS
from simharness.stateful.shrink import Shrinker
from simharness.stateful.training import HUB, SIX_INVARIANTS, training_job, training_jobs, workers_named
from tests.stateful.running import explore


@pytest.mark.parametrize(
    ("base", "strategy", "defect", "caught_by"),
    [
        (RingUnderFaults, "ring", "RECIPROCAL", "train_replicas_identical"),
        (ServerUnderFaults, "ps", "PAD_SHORT_BATCH", "train_weights"),
    ],
)
def test_a_defect_is_found_and_its_file_replays(base: Any, strategy: str, defect: str, caught_by: str) -> None:
    """A machine whose jobs have the defect fails; its file gives the same digest and failure; shrunk, it needs no fault."""
    config = {"defects": [defect], "guards": False, "model": "linear"}
    broken = type(
        "Broken",
        (base,),
        {"__doc__": base.__doc__, "scenarios": training_jobs(strategy=strategy, workers=ints(2, 3), config=config)},
    )
    _, error = explore(broken, profile=FIX)
    assert error is not None
    failure = error.failure
    assert failure.kind == caught_by
    assert replay_fault(failure) is None
    kept = tuple([one for one in failure.scenario.assertions if one.__struct_config__.tag == caught_by])
    small = Shrinker(msgspec.structs.replace(failure.scenario, assertions=kept), KINDS, most_runs=40).run()
    assert small.scenario.mutations == ()
    assert small.failure.kind == caught_by


def test_the_job_that_strategies_build() -> None:
    """One hub and workers with ids in the order of their indices, beyond ten too, under one resolved table."""
    job = training_job({"strategy": "ring"}, workers=12, seed=3)
    assert workers_named(2) == ("w0", "w1")
    assert [peer.id for peer in job.peers] == [HUB, *sorted(workers_named(12))]
    assert len({str(peer.kind_config) for peer in job.peers}) == 1
    assert len(SIX_INVARIANTS) == 6
