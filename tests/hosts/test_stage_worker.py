"""The scripted worker process of a stage: the silent-worker family (battery B), expressed from a file."""

from typing import Any

import pytest

from tests.hosts.stage_runs import LIFE, MS, START, Run, S, at, exits, resolves, scenario, stage, start_ns, swim

PROCESS = ("SubprocessSpawned", "SubprocessExited", "worker_ready")


@pytest.mark.parametrize(
    ("subprocess", "counts"),
    [
        (None, (0, 0, 0)),  # never spawned
        ({"never_ready": True, "ready_name": "pp-entry"}, (1, 0, 0)),  # stalled
        ({"ready_after_ns": 10 * S, "exit_after_ns": 100 * MS, "exit_code": 2, "ready_name": "pp-entry"}, (1, 1, 0)),
        ({"never_ready": True, "exit_after_ns": S, "exit_signal": 9, "ready_name": "pp-entry"}, (1, 1, 0)),
        ({"ready_after_ns": S, "ready_name": "pp-entry"}, (1, 0, 1)),  # the healthy twin
    ],
)
def test_silent_worker_buckets(subprocess: dict[str, Any] | None, counts: tuple[int, int, int]) -> None:
    """Ruling W5: never spawned, stalled, early exit are told apart by counts; the entry name is definite for a SWIM peer."""
    more = {} if subprocess is None else {"subprocess": subprocess}
    run = Run(
        scenario(
            swim("orch"),
            stage("s", node={}, **more),
            duration_ns=20 * S,
            snapshots=at(*range(S, 20 * S, S)),
            assertions=[
                resolves("pp-entry", "orch", from_ns=0, within_ns=20 * S),
                resolves("pp-s", "orch", from_ns=2 * S, within_ns=2 * S),
            ],
        )
    )
    assert tuple(len(run.events(kind)) for kind in PROCESS) == counts
    gone = counts[1] > 0
    assert run.verdicts == ["Pass" if counts[2] else "Fail", "Fail" if gone else "Pass"]
    assert run.moves("s") == (LIFE if gone else START)
    assert len(run.events("register_name")) == 1


def test_worker_from_spawn_to_exit() -> None:
    """Times count from the stage's own start; the records carry label, pid, exit and uptime; the stage goes down with it."""
    script = {"ready_after_ns": 6 * MS, "exit_after_ns": 1_500 * MS + 1, "exit_code": 3}
    run = Run(scenario(stage("s", subprocess=script), duration_ns=3 * S, snapshots=at(3 * S)))
    first = start_ns("s")
    process = {"label": "pp-s-worker", "pid": 1}
    assert run.events(*PROCESS, "worker_exited") == [
        (first, "s", {"kind": "SubprocessSpawned"} | process | {"command": "worker"}),
        (first + 6 * MS, "s", {"kind": "worker_ready"} | process | {"uptime_ms": 6}),
        (
            first + 1_500 * MS + 1,
            "s",
            {"kind": "SubprocessExited"}
            | process
            | {"command": "worker", "exit_code": 3, "exit_signal": None, "uptime_ms": 1500},
        ),
        (
            first + 1_500 * MS + 1,
            "s",
            {"kind": "worker_exited", "reason": "exit code 3", "status_code": 3, "signal": None},
        ),
    ]
    assert run.moves("s") == LIFE
    assert run.snapshots("s")[3 * S]["last_exit_reason"] == "exit code 3"


def test_exit_by_signal_with_a_reason() -> None:
    """A worker that a signal ends has no exit code; the reason is the one that the file gives."""
    script = {"exit_after_ns": 0, "exit_signal": 9, "exit_reason": "out of memory"}
    run = Run(scenario(stage("s", subprocess=script), duration_ns=S))
    [(at_ns, _, exited)] = run.events("worker_exited")
    assert at_ns == start_ns("s")
    assert (exited["reason"], exited["status_code"], exited["signal"]) == ("out of memory", None, 9)
    assert run.events("worker_ready")[0][0] == at_ns  # ready at once, by default, and so before the exit


def test_mutation_ends_the_worker_too() -> None:
    """A `worker_exit` is the exit of this worker: recorded once, and the end that the script planned never comes."""
    run = Run(
        scenario(
            stage("s", subprocess={"exit_after_ns": 2 * S}), duration_ns=3 * S, mutations=[exits("s", S, status_code=4)]
        )
    )
    [(at_ns, _, exited)] = run.events("SubprocessExited")
    assert (at_ns, exited["exit_code"]) == (S, 4)
    assert [event["reason"] for _, _, event in run.events("worker_exited")] == ["crash"]


def test_every_life_has_its_own_worker() -> None:
    """A stage that comes back spawns a new worker, whose times count from the new start."""
    run = Run(
        scenario(
            stage("s", subprocess={"exit_after_ns": S}),
            duration_ns=4 * S,
            mutations=[{"kind": "peer_resurrect", "at_ns": 2 * S, "peer": "s"}],
        )
    )
    spawned, exited = run.events("SubprocessSpawned"), run.events("SubprocessExited")
    assert [event["pid"] for _, _, event in spawned] == [event["pid"] for _, _, event in exited] == [1, 2]
    assert [t - s for (t, _, _), (s, _, _) in zip(exited, spawned, strict=True)] == [S, S]
