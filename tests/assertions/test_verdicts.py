"""The form and the order of verdicts (§10.2), on a run that gives all three outcomes."""

from typing import TYPE_CHECKING

import msgspec
import pytest

from simharness.bundle.reader import Bundle
from simharness.core import canonical_json
from simharness.hosts.kinds import Kinds
from simharness.run import run_to_bundle
from simharness.scenario.loader import load

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
name = "three-outcomes"
seed = 3
duration_ns = 100_000_000
meshes = [{}]
assertions = [
    { kind = "event_count", event_kind = "EchoReceived", max = 2 },
    { kind = "event_count", event_kind = "EchoReceived", min = 1 },
    { kind = "message_size_bounded", message_kind = "Ping", max_bytes = 9 },
    { kind = "event_rate", event_kind = "EchoReceived", window_ns = 1, max_per_window = 5 },
    { kind = "event_count", event_kind = "EchoReceived", max = 3, peer = "a" },
]

[default_tick]
period_ns = 10_000_000

[default_link]
latency_ns = 1_000_000
jitter_stddev_ns = 0
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 1_000_000_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 1_000_000_000

[[peers]]
id = "a"
kind = "echo"
initial_state = "ready"

[[peers]]
id = "b"
kind = "echo"
initial_state = "ready"
"""
OUTCOMES = ["Fail", "Pass", "Inconclusive", "Pass", "Fail"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The bundle of the scenario, judged."""
    folder: Path = tmp_path_factory.mktemp("verdicts")
    file = folder / "three.toml"
    file.write_text(SCENARIO)
    kinds = Kinds()
    result = run_to_bundle(load(file, kinds), folder / "bundle", kinds)
    assert [verdict.outcome for verdict in result.verdicts] == OUTCOMES
    return Bundle(result.bundle)


@pytest.mark.spec("§10.5", "Verdict shape")
def test_verdict_shape(bundle: Bundle) -> None:
    """Every verdict has the five fields of §10.2 in order; a Fail names a line of the stream at the time that it states."""
    verdicts = bundle.verdicts
    assert verdicts is not None
    lines = list(bundle.lines())
    for verdict in verdicts:
        assert list(verdict) == ["name", "kind", "parameters", "outcome", "evidence"]
        assert verdict["parameters"]["kind"] == verdict["kind"]
        assert verdict["outcome"] in ("Pass", "Fail", "Inconclusive")
        assert verdict["outcome"] != "Fail" or verdict["evidence"]
        for evidence in verdict["evidence"]:
            assert list(evidence) == ["virtual_time_ns", "event_or_snapshot_ref"]
            file, _, line = evidence["event_or_snapshot_ref"].partition(":")
            assert file == "events.ndjson"
            assert canonical_json.parse(lines[int(line)])["virtual_time_ns"] == evidence["virtual_time_ns"]


def test_a_failed_count_points_at_the_event_that_was_one_too_many(bundle: Bundle) -> None:
    """At most 2 events of a kind: the evidence of the Fail includes the third (§10.1 event_count)."""
    verdicts = bundle.verdicts
    assert verdicts is not None
    received = [event for event in bundle.events() if event.event["kind"] == "EchoReceived"]
    for index, mine in ((0, received), (4, [event for event in received if event.host_id == "a"])):
        cited = [evidence["event_or_snapshot_ref"] for evidence in verdicts[index]["evidence"]]
        bound = verdicts[index]["parameters"]["max"]
        assert f"events.ndjson:{mine[bound].line}" in cited


@pytest.mark.spec("§10.5", "Verdict order is scenario-declared")
def test_verdict_order_is_scenario_declared(bundle: Bundle) -> None:
    """Verdicts stand in declared order, named a0, a1 and so on, whatever became final first."""
    verdicts = bundle.verdicts
    assert verdicts is not None
    assert [verdict["name"] for verdict in verdicts] == [f"a{place}" for place in range(5)]
    declared = msgspec.toml.decode(SCENARIO)["assertions"]
    assert [verdict["parameters"] for verdict in verdicts] == declared
    assert [verdict["outcome"] for verdict in verdicts] == OUTCOMES
