"""Stages and names: `worker_alive_throughout`, `name_resolves_within`."""

import pytest

from simharness.contracts.assertions import NameResolvesWithin, WorkerAliveThroughout
from simharness.contracts.records import SnapshotRecord
from tests.assertions.support import Run, failed_at, outcome

ALIVE = WorkerAliveThroughout(peer="s", window_start_ns=10, window_end_ns=20)


def running(at_ns: int = 1) -> Run:
    return Run().lifecycle(at_ns, "s", "Cold", "Registering").lifecycle(at_ns, "s", "Registering", "Running")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (Run().lifecycle(1, "s", "Cold", "Registering"), "Inconclusive"),
        (running(), "Pass"),
        (running(15), "Pass"),  # a start in the window is no halt
        (running(20), "Pass"),
        (running(21), "Inconclusive"),
        (running().lifecycle(10, "s", "Running", "Halted"), "Fail"),
        (running().lifecycle(20, "s", "Running", "Halted"), "Fail"),  # inclusive at both ends
        (running().lifecycle(21, "s", "Running", "Halted"), "Pass"),
        (running().lifecycle(9, "s", "Running", "Halted"), "Fail"),  # not Running when the window begins
        (running().lifecycle(5, "s", "Running", "Halted").lifecycle(8, "s", "Registering", "Running"), "Pass"),
        (running().lifecycle(5, "s", "Running", "Halted").lifecycle(11, "s", "Registering", "Running"), "Fail"),
        (Run().lifecycle(12, "s", "Cold", "Halted"), "Fail"),  # a halt in the window, though it never ran (ruling E16)
        (Run().lifecycle(5, "s", "Cold", "Halted"), "Inconclusive"),
        (running().kill(15, "s"), "Fail"),  # a killed process cannot say so (ruling E14)
        (running().kill(15, "a"), "Pass"),
        (running().kill(5, "s"), "Fail"),
        (running().kill(5, "s").resurrect(6, "s").lifecycle(7, "s", "Registering", "Running"), "Pass"),
        (Run().kill(5, "s").kill(12, "s"), "Inconclusive"),  # the second kill of the dead is none (ruling E8)
        (running().lifecycle(15, "a", "Running", "Halted"), "Pass"),
    ],
)
def test_worker_alive_throughout(run: Run, expected: str) -> None:
    """Running in the whole window once it runs; halts and kills count, both ends included."""
    assert outcome(ALIVE, run) == expected


def test_worker_alive_evidence_and_cut() -> None:
    """The halt or the kill is named; an unfinished window stays open (ruling V2)."""
    assert failed_at(ALIVE, running().lifecycle(9, "s", "Running", "Halted").kill(12, "s")) == (2,)
    assert failed_at(ALIVE, running().kill(15, "s")) == (2,)
    assert outcome(ALIVE, running(), end_ns=19, reason="aborted") == "Inconclusive"
    assert outcome(ALIVE, running().kill(15, "s"), end_ns=15, reason="aborted") == "Fail"
    instant = WorkerAliveThroughout(peer="s", window_start_ns=1, window_end_ns=1)
    assert outcome(instant, running()) == "Pass"
    assert outcome(instant, running(2)) == "Inconclusive"


NAME = NameResolvesWithin(name="stage-0", observers=("a", "b"), from_ns=10, within_ns=10)


def shown(*steps: tuple[int, str, bool]) -> Run:
    run = Run()
    for at_ns, host, has in steps:
        run.snap(at_ns, host, names=("stage-0", "other") if has else ("other",))
    return run


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (shown((9, "a", True), (21, "b", True)), "Inconclusive"),
        (shown((10, "a", True), (20, "b", True)), "Pass"),
        (shown((10, "a", True)), "Fail"),  # b was not asked: it has not resolved the name
        (shown((10, "a", True), (15, "b", False)), "Fail"),
        (shown((10, "a", True), (15, "b", False), (18, "b", True)), "Pass"),
        (shown((10, "a", True), (12, "a", False), (15, "b", True)), "Pass"),  # some snapshot is enough
        (
            shown((10, "a", True)).kill(12, "b").resurrect(13, "b").snap(15, "b", names=("stage-0",)),
            "Pass",
        ),  # ruling V5
        (shown((10, "c", True)), "Inconclusive"),
    ],
)
def test_name_resolves_within(run: Run, expected: str) -> None:
    """Every observer shows the name in some snapshot of [from, from + within]."""
    assert outcome(NAME, run) == expected


def test_name_resolves_evidence() -> None:
    """The unresolved observer's last snapshot; if it was never asked, when the others were."""
    assert failed_at(NAME, shown((10, "a", True), (15, "b", False), (18, "b", False))) == (2,)
    assert failed_at(NAME, shown((10, "a", True))) == (0,)
    assert outcome(NAME, shown((10, "a", True)), end_ns=19, reason="aborted") == "Inconclusive"


def test_kinds_without_names_or_members_show_none() -> None:
    """Case A23: an observer whose snapshot has no such name, or no registry at all, is a Fail and no crash."""
    foreign = b'{"name_registry":[],"peers":["x",{"peer":1}]}'
    run = Run(SnapshotRecord(12, number, host, "odd", foreign) for number, host in enumerate("ab"))
    assert outcome(NAME, run) == "Fail"
