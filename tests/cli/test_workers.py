"""Processes that work for a command: order, errors that cross, and that none outlives the command, whatever ends it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from simharness.cli.supervisor_pool import tallies
from simharness.cli.workers import ordered
from simharness.core.errors import InputError, RefusedError
from simharness.supervisor.batch import Task, run_block
from tests.cli.support import HOLDS, Terminal, command, environment
from tests.live.endings import MARK, PATIENCE_S, SIGNALS, marked, wait_until

BATCH = ("supervisor", "batch", "--seeds", "0..90000", "--shape", "slurm", "--jobs", "2")
SWEEP = ("sweep", "x.toml", "--seeds", "0..10000000", "--jobs", "2")
TRAINING = ("sweep", "training", "--seeds", "0..90000", "--jobs", "2")
APPROVE = ("supervisor", "approve", "--seeds", "0..40000", "--jobs", "2")
KNOBS = ("knobs", "--system", "supervisor", "--defect", "LOCAL_CHOICE", "--jobs", "2")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")


def slow_first(item: int) -> int:
    """The first takes longest."""
    time.sleep(0.2 if item == 0 else 0)
    return item * item


def refuses(item: int) -> int:
    raise InputError(file="x", field="y", rule=f"{item} is none")


def breaks(item: int) -> int:
    return 1 // item


def kills_itself(item: int) -> int:
    os.kill(os.getpid(), item)
    return item


def test_answers_come_in_the_order_of_the_items() -> None:
    """Whoever is done first; with more processes than items too; nothing to do is nothing."""
    assert list(ordered(slow_first, iter(range(30)), 3)) == [item * item for item in range(30)]
    assert list(ordered(slow_first, iter([7]), 4)) == [49]
    assert list(ordered(slow_first, iter([]), 2)) == []


def test_items_are_taken_as_they_are_wanted() -> None:
    """A stream without end is no reason to take it all."""
    taken: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            taken.append(len(taken))
            yield taken[-1]

    answers = ordered(slow_first, endless(), 2)
    assert [next(answers) for _ in range(3)] == [0, 1, 4]
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert len(taken) <= 3 + 2 * 4


def test_what_stops_a_worker_is_told() -> None:
    """A refusal with its rule, our own mistake as it is, a death from outside, and the wish to end of a whole group."""
    with pytest.raises(RefusedError, match="rule: 5 is none"):
        list(ordered(refuses, iter([5]), 2))
    with pytest.raises(ZeroDivisionError):
        list(ordered(breaks, iter([0]), 2))
    with pytest.raises(InputError, match="a worker process ended by itself, exit code -9"):
        list(ordered(kills_itself, iter([int(signal.SIGKILL)]), 2))
    with pytest.raises(KeyboardInterrupt):
        list(ordered(kills_itself, iter([int(signal.SIGTERM)]), 2))


@pytest.mark.parametrize("caught_by", [None, ("4",)])
def test_tallies_do_not_depend_on_the_processes(caught_by: tuple[str, ...] | None) -> None:
    """One or two, a block stops where it would have stopped in one go (10.4 of the design)."""
    task = Task(first=0, last=110, shapes=("slurm",), defects=("UNGATED_START",), index=1, shards=2)

    def stop(breach) -> bool:
        return not caught_by or breach.invariant in caught_by

    plain = [run_block(task, block, stop_at=None if caught_by is None else stop) for block in task.blocks()]
    assert list(tallies(task, task.blocks(), 1, caught_by)) == plain
    assert list(tallies(task, task.blocks(), 2, caught_by)) == plain


def _started(directory: Path, mark: str, argv: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    """Start a command in a session of its own and return once its workers are there: parent, tracker, two workers."""
    Terminal.write(Terminal(directory, None), "x.toml", HOLDS)  # type: ignore[arg-type]  # nothing is captured
    directory.joinpath("pyproject.toml").write_text('[project]\nname = "simharness"\n', "utf-8")
    process = subprocess.Popen(
        command(*argv),
        cwd=directory,
        env=environment() | {MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert wait_until(mark, 4, 4) == 4
    return process


def _ended(process: "subprocess.Popen[bytes]", mark: str) -> bytes:
    """Return what it said on standard error, once it and every process of it have ended."""
    try:
        _, err = process.communicate(timeout=PATIENCE_S)
        assert wait_until(mark, 0, 0) == 0
    finally:
        for leftover in marked(mark):
            os.kill(leftover, signal.SIGKILL)
        process.wait()
    return err


@on_linux
@pytest.mark.parametrize(
    ("number", "whole_group"),
    [(number, group) for group in (False, True) for number in SIGNALS if group is (number != signal.SIGKILL)],
)
def test_no_worker_outlives_its_command(tmp_path: Path, number: signal.Signals, whole_group: bool) -> None:
    """Ctrl-C, SIGTERM and SIGHUP, to the command alone or to all of it, end it with 130; after SIGKILL its workers end too."""
    mark = uuid4().hex
    process = _started(tmp_path, mark, BATCH)
    time.sleep(0.3)  # what is asserted holds at any moment of it
    (os.killpg if whole_group else os.kill)(process.pid, number)
    err = _ended(process, mark)
    assert process.returncode == (-number if number is signal.SIGKILL else 130)
    assert number is signal.SIGKILL or err == b"interrupted\n"


@on_linux
@pytest.mark.parametrize("argv", [SWEEP, TRAINING, APPROVE, KNOBS])
def test_every_pool_ends_with_its_command(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """SIGTERM to each command that has workers, and at most what it had finished is left."""
    mark = uuid4().hex
    process = _started(tmp_path, mark, argv)
    process.terminate()
    assert _ended(process, mark) == b"interrupted\n"
    assert process.returncode == 130
    assert [path.name for path in tmp_path.rglob("*.partial")] == []


@on_linux
@pytest.mark.parametrize("argv", [SWEEP, BATCH])
def test_rows_that_are_finished_stay(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """Ctrl-C ends a sweep and a batch in the middle; their files hold whole rows, from which the same line goes on."""
    mark = uuid4().hex
    process = _started(tmp_path, mark, (*argv, "--out", "rows.ndjson"))
    rows = tmp_path.joinpath("rows.ndjson")
    give_up = time.monotonic() + 5 * PATIENCE_S
    while time.monotonic() < give_up and (not rows.exists() or rows.read_bytes().count(b"\n") < 2):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _ended(process, mark)
    data = rows.read_bytes()
    assert (process.returncode, data.count(b"\n") >= 2, data[-1:]) == (130, True, b"\n")
