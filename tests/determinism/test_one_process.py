"""One scenario and one seed give the same bytes at any time within a process (§4.10, §7.5, case B01)."""

from typing import Final

import pytest

from simharness.bundle.memory import MemorySink
from simharness.contracts.records import SnapshotRecord
from simharness.contracts.scenario import Scenario
from simharness.engine.engine import Engine
from simharness.hosts.kinds import Kinds
from simharness.run import engine_for
from simharness.scenario.loader import load
from tests.cases.base import MS, SECOND, at, base, parsed
from tests.tidy.check import ROOT

SCENARIOS: Final = ("smoke/ring8.toml", "topology/churn.toml", "parity/own_form.toml", "reproduction/gossip_flap.toml")


def library(name: str) -> Scenario:
    """Load one scenario of the library."""
    return load(ROOT / "scenarios" / name, Kinds()).scenario


def started(scenario: Scenario) -> tuple[Engine, MemorySink]:
    """Wire a run up."""
    sink = MemorySink()
    return engine_for(scenario, Kinds(), sink), sink


def content(sink: MemorySink) -> tuple[str, list[tuple[int, str, bytes]]]:
    """Return what a bundle would hold: the digest of the events, and the snapshots."""
    shots = [record for record in sink.records if isinstance(record, SnapshotRecord)]
    return sink.events_digest(), [(record.virtual_time_ns, record.host_id, record.snapshot) for record in shots]


def result(scenario: Scenario) -> tuple[str, list[tuple[int, str, bytes]]]:
    """Run a scenario and return its content."""
    engine, sink = started(scenario)
    engine.run()
    return content(sink)


def test_the_first_and_the_tenth_run_are_equal() -> None:
    """B01: earlier runs in the process leave nothing behind, whatever they were."""
    scenarios = {name: library(name) for name in SCENARIOS}
    first = {name: result(scenario) for name, scenario in scenarios.items()}
    for _ in range(8):
        result(scenarios["parity/own_form.toml"])
    assert {name: result(library(name)) for name in reversed(SCENARIOS)} == first


def test_runs_side_by_side_do_not_meet() -> None:
    """§4.10: state lives in the instance: engines driven in turns write what each writes alone."""
    scenarios = [library(name) for name in SCENARIOS]
    alone = [result(scenario) for scenario in scenarios]
    runs = [started(scenario) for scenario in scenarios]
    longest = max(scenario.duration_ns for scenario in scenarios)
    for until_ns in range(0, longest, 700 * MS):
        for (engine, _), scenario in zip(runs, scenarios, strict=True):
            engine.run_until(min(until_ns, scenario.duration_ns))
    for (engine, _), scenario in zip(runs, scenarios, strict=True):
        engine.finish(scenario.duration_ns)
    assert [content(sink) for _, sink in runs] == alone


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_seed_is_another_run(name: str) -> None:
    """§7.2: the seed reaches the run; equal digests of equal seeds would prove nothing otherwise."""
    other = load(ROOT / "scenarios" / name, Kinds(), seed=987_654_321).scenario
    assert result(other) != result(library(name))


def test_an_order_that_changes_with_every_node_built_is_caught() -> None:
    """B9: with `UNORDERED_MEMBERS` two runs of one scenario in one process differ, so that running twice catches it."""
    document = base(8, duration_ns=30 * SECOND, defects=["UNORDERED_MEMBERS"])
    document["mutations"] = [at(10 * SECOND, "peer_kill", peer="c")]
    scenario = parsed(document)
    assert result(scenario) != result(scenario)
