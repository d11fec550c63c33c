"""Every way to run a scenario stops a runaway at the same limits; only a replay has none (ruling E26)."""

import inspect
from pathlib import Path

import pytest

from simharness.bundle.memory import MemorySink
from simharness.core.errors import EngineAbort
from simharness.core.limits import RUNAWAY, UNLIMITED, Limits
from simharness.hosts.kinds import Kinds
from simharness.run import engine_for, run_to_bundle
from simharness.scenario.loader import load
from tests.documents import ROOT

SCENARIO = ROOT / "scenarios" / "reproduction" / "gossip_flap_fixed.toml"


def test_the_limits_are_those_of_the_command_line() -> None:
    """Whoever says nothing gets them: sweep, shrink and properties never say anything."""
    for function in (engine_for, run_to_bundle):
        assert inspect.signature(function).parameters["limits"].default == RUNAWAY == Limits(100_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("limits", "rule"), [(Limits(300, None), "dispatch-budget"), (Limits(None, 3), "pending-budget")]
)
def test_either_limit_ends_a_run(limits: Limits, rule: str) -> None:
    """However it is driven; none of them ends one that has no limit."""
    scenario = load(SCENARIO, Kinds()).scenario
    with pytest.raises(EngineAbort, match=rule):
        engine_for(scenario, Kinds(), MemorySink(), limits=limits).run()
    assert engine_for(scenario, Kinds(), MemorySink(), limits=UNLIMITED).run().reason == "duration"


def test_an_aborted_run_leaves_no_bundle(tmp_path: Path) -> None:
    """Unless it is asked for (ruling B9)."""
    with pytest.raises(EngineAbort):
        run_to_bundle(load(SCENARIO, Kinds()), tmp_path / "x", Kinds(), limits=Limits(300, None))
    assert list(tmp_path.iterdir()) == []
