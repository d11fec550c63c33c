"""A live run of SWIM peers: its bundle is like a simulated one, and the timeline did what it says."""

from pathlib import Path

import pytest

from simharness.assertions.post_run import evaluate
from simharness.cli.main import main
from tests.live.support import MESH, MS, Run, head, mutation, snapshot, swim

KILLED_MS, BACK_MS, CUT_MS, HEALED_MS, END_MS = 400, 2_000, 3_000, 3_500, 4_500

ASSERTIONS = f"""
[[assertions]]
kind = "dead_peer_resurrects_within"
peer = "c"
after_ns = {BACK_MS * MS}
within_ns = {(END_MS - BACK_MS) * MS}
[[assertions]]
kind = "event_count"
event_kind = "SwimTransition"
min = 2
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three peers: one is killed and comes back, then another is cut off for a while, then frozen."""
    return Run(
        tmp_path_factory.mktemp("live"),
        head(END_MS),
        *map(swim, "abc"),
        MESH,
        mutation("peer_kill", KILLED_MS, 'peer = "c"'),
        mutation("peer_resurrect", BACK_MS, 'peer = "c"'),
        mutation("partition", CUT_MS, 'peers_a = ["a"]\npeers_b = ["b"]'),
        mutation("heal", HEALED_MS),
        mutation("peer_pause", 3_800, f'peer = "b"\nduration_ns = {300 * MS}'),
        snapshot(1_000),
        snapshot(END_MS),
        ASSERTIONS,
    )


def test_the_manifest_says_that_it_was_live(run: Run) -> None:
    """Nothing but `termination.source` tells a live bundle from a simulated one; every hash holds."""
    manifest = run.bundle.manifest
    assert manifest["termination"] == {"reason": "duration", "at_ns": END_MS * MS, "detail": "", "source": "live"}
    assert [*manifest] == [*run.simulated.manifest]
    assert manifest["scenario_sha256"] == run.simulated.manifest["scenario_sha256"]
    assert manifest["finalize_received"] is True
    assert run.bundle.verify() == ()


def test_events_are_of_the_simulator_s_kinds(run: Run) -> None:
    """Same envelope, same kinds, same keys; no event after the end."""
    shapes = [{(line.kind_tag, *line.event) for line in bundle.events()} for bundle in (run.bundle, run.simulated)]
    live = {(line.kind_tag, line.event["kind"]) for line in run.bundle.events()}
    simulated = {(line.kind_tag, line.event["kind"]) for line in run.simulated.events()}
    certain = {
        "MessageSent",
        "MessageReceived",
        "SwimProbeSent",
        "SwimProbeAcked",
        "SwimTransition",
        "Mutation",
        "DropOnSend",
    }
    assert certain <= {kind for _, kind in live & simulated}
    assert {tag for tag, _ in live} == {tag for tag, _ in simulated}
    assert shapes[0] & shapes[1]
    assert max(line.virtual_time_ns for line in run.bundle.events()) <= END_MS * MS


def test_snapshots_are_of_the_simulator_s_form(run: Run) -> None:
    """A dead peer has none, a live one has both, with the same fields (ruling P5)."""
    live, simulated = (
        {(item.host_id, item.number): item for item in bundle.snapshots()} for bundle in (run.bundle, run.simulated)
    )
    assert sorted(live) == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0)] == sorted(simulated)
    assert all(live[item].virtual_time_ns >= 1_000 * MS for item in (("a", 0), ("b", 0)))
    assert all(live[item].virtual_time_ns == END_MS * MS for item in (("a", 1), ("b", 1), ("c", 0)))
    assert all([*live[item].snapshot] == [*simulated[item].snapshot] for item in live)


def test_a_kill_is_a_death(run: Run) -> None:
    """A killed process does nothing until its successor begins, starting anew; the others notice, then forgive (P1, P2)."""
    own = [line.virtual_time_ns for line in run.bundle.events() if line.host_id == "c" and line.kind_tag == "swim"]
    assert [at_ns for at_ns in own if KILLED_MS * MS <= at_ns < BACK_MS * MS] == []
    assert any(at_ns < KILLED_MS * MS for at_ns in own)
    assert any(at_ns >= BACK_MS * MS for at_ns in own)
    dead = [at_ns for at_ns, event in run.events("SwimTransition") if event["peer"] == "c" and event["to"] == "Dead"]
    assert dead
    assert min(dead) > KILLED_MS * MS
    lost = [event for _, event in run.events("DropOnDelivery", "c")]
    assert {event["reason"] for event in lost} == {"host_killed"}


def test_a_partition_drops(run: Run) -> None:
    """While it lasts nothing passes between the two, and every refused send is told to its sender."""
    drops = [(at_ns, event) for at_ns, event in run.events("DropOnSend") if event["reason"] == "partitioned"]
    assert drops
    assert all(CUT_MS * MS <= at_ns <= HEALED_MS * MS for at_ns, _ in drops)
    assert all({event["from"], event["to"]} == {"a", "b"} for _, event in drops)
    assert len(run.events("SendFailed")) >= len(drops)
    heard = [
        seen.at_ns
        for seen in run.seen
        if seen.what == "received"
        and {seen.host_id, seen.other} == {"a", "b"}
        and CUT_MS * MS <= seen.at_ns < HEALED_MS * MS
    ]
    assert heard == []


def test_a_pause_freezes(run: Run) -> None:
    """A frozen process is silent but for the moment that the signal takes."""
    own = [line.virtual_time_ns for line in run.bundle.events() if line.host_id == "b" and line.kind_tag == "swim"]
    assert [at_ns for at_ns in own if 3_950 * MS < at_ns < 4_090 * MS] == []
    assert any(at_ns > 4_100 * MS for at_ns in own)


def test_a_message_takes_as_long_as_its_link(run: Run) -> None:
    """The shaper's delay is a floor: no acked probe is faster than both ways' latency."""
    sent = {
        event["sequence"]: at_ns for at_ns, event in run.events("SwimProbeSent", "a") if event["probe_kind"] == "direct"
    }
    took = [
        at_ns - sent[event["sequence"]]
        for at_ns, event in run.events("SwimProbeAcked", "a")
        if event["probe_kind"] == "direct" and event["sequence"] in sent
    ]
    assert took
    assert min(took) >= 2 * MS


def test_verdicts_are_those_of_the_bundle(run: Run) -> None:
    """A live run is judged from its bundle alone, like any other."""
    assert [verdict.outcome for verdict in run.result.verdicts] == ["Pass", "Pass"]
    assert evaluate(run.bundle) == run.result.verdicts


def test_both_bundles_go_through_the_same_commands(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`eval`, `render`, `export` and `diff` take either; only `replay` refuses (ruling P7)."""
    live, simulated = str(run.bundle.root), str(run.simulated.root)
    for name, root in (("live", live), ("simulated", simulated)):
        assert main(["eval", root]) == 0
        assert main(["render", root, "--out", str(tmp_path / name)]) == 0
        assert main(["export", root, "--to", "production", "--out", str(tmp_path / f"{name}.tar.gz")]) == 0
    names = [sorted(path.name for path in tmp_path.joinpath(name).iterdir()) for name in ("live", "simulated")]
    assert {"summary.md", "reachability.tsv"} <= set(names[0])
    assert names[0] == names[1]
    assert main(["diff", live, simulated]) == 1
    capsys.readouterr()
    assert main(["replay", live]) == 2
    said = capsys.readouterr().err
    assert "termination.source" in said
    assert "`simharness calibrate --live` says whether they are alike" in said  # `diff` never says that they are
