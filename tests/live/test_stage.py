"""Stages of a live run: the worker is a process, and its exit is a real one."""

import pytest

from tests.live.support import MESH, MS, Run, head, mutation, snapshot, stage, swim

NODE = "probe_interval_ns = 150_000_000, probe_timeout_ns = 100_000_000, suspicion_timeout_ns = 500_000_000"
RESOLVES = """
[[assertions]]
kind = "name_resolves_within"
name = "stays-name"
observers = ["o"]
from_ns = 0
within_ns = 2_450_000_000
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An observer and four stages: one ends by a code, one by a signal, one by the timeline and comes back, one stays."""
    end = "ready_after_ns = 200_000_000, exit_after_ns = 700_000_000"
    return Run(
        tmp_path_factory.mktemp("stage"),
        head(2_500),
        swim("o"),
        stage("code", f"subprocess = {{ {end}, exit_code = 3 }}"),
        stage("sig", f'subprocess = {{ {end}, exit_signal = 9, exit_reason = "out of memory" }}'),
        stage("told"),
        stage("stays", f'subprocess = {{ ready_name = "ready" }}, node = {{ {NODE} }}'),
        MESH,
        mutation("worker_exit", 600, 'peer = "told"\nreason = "evicted"\nstatus_code = 7'),
        mutation("peer_resurrect", 1_500, 'peer = "told"'),
        snapshot(2_400),
        RESOLVES,
    )


@pytest.mark.parametrize(
    ("host", "reason", "code", "number"), [("code", "exit code 3", 3, None), ("sig", "out of memory", None, 9)]
)
def test_a_worker_ends_by_itself(run: Run, host: str, reason: str, code: int | None, number: int | None) -> None:
    """It was spawned, was ready, and ended as scripted; the stage went down with it (ruling P6)."""
    ((spawned_ns, spawned),) = run.events("SubprocessSpawned", host)
    ((ready_ns, ready),) = run.events("worker_ready", host)
    ((ended_ns, ended),) = run.events("SubprocessExited", host)
    ((_, exited),) = run.events("worker_exited", host)
    assert spawned["pid"] == ready["pid"] == ended["pid"] > 1
    assert (ended["exit_code"], ended["exit_signal"]) == (code, number)
    assert (exited["reason"], exited["status_code"], exited["signal"]) == (reason, code, number)
    assert ready_ns - spawned_ns >= 200 * MS
    assert ended_ns - spawned_ns >= 700 * MS
    assert [event["to"] for _, event in run.events("stage_lifecycle", host)][-1] == "Halted"


def test_the_timeline_ends_a_worker(run: Run) -> None:
    """A `worker_exit` is an exit that really happens; a resurrection afterwards is another process."""
    ((at_ns, exited),) = run.events("worker_exited", "told")
    assert (exited["reason"], exited["status_code"], exited["signal"]) == ("evicted", 7, None)
    assert at_ns >= 600 * MS
    moves = [(at_ns, event["to"]) for at_ns, event in run.events("stage_lifecycle", "told")]
    assert [to for _, to in moves] == [event["to"] for event in simulated_moves(run, "told")]
    assert all(at_ns >= 1_500 * MS for at_ns, _ in moves[-2:])


def simulated_moves(run: Run, host: str) -> list[dict[str, str]]:
    """Return the lifecycle of a host in the simulated run."""
    return [
        line.event
        for line in run.simulated.events()
        if line.host_id == host and line.event["kind"] == "stage_lifecycle"
    ]


def test_the_embedded_node_publishes(run: Run) -> None:
    """Stage and node share a process and its socket; the observer resolves the stage's name."""
    assert [verdict.outcome for verdict in run.result.verdicts] == ["Pass"]
    assert run.events("SwimProbeAcked", "stays")


def test_what_happens_is_what_is_simulated(run: Run) -> None:
    """Each stage's own events are those of the simulated run, in the same order."""
    for host in ("code", "sig", "told"):
        live, simulated = (
            [line.event["kind"] for line in bundle.events() if line.host_id == host and line.kind_tag == "stage"]
            for bundle in (run.bundle, run.simulated)
        )
        assert live == simulated
