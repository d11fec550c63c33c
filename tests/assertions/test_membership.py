"""What peers hold about each other, at a time, in a window, in the end."""

import pytest

from simharness.contracts.assertions import (
    AllAliveAt,
    AllAliveThroughout,
    Assertion,
    ConvergenceAfter,
    DeadPeerResurrectsWithin,
    PeerDetectedDeadWithin,
)
from tests.assertions.support import Run, failed_at, outcome, stage, swim

ABC = ("a", "b", "c")
AT = AllAliveAt(at_ns=10, peers=ABC)
THROUGHOUT = AllAliveThroughout(window_start_ns=10, window_end_ns=20, peers=ABC)
CONVERGED = ConvergenceAfter(after_ns=10, within_ns=10, peers=ABC)
DETECTED = PeerDetectedDeadWithin(peer="c", after_ns=10, within_ns=10)
RETURNED = DeadPeerResurrectsWithin(peer="c", after_ns=10, within_ns=10)


def shots(at_ns: int = 5, **states: str) -> Run:
    return Run().snaps(at_ns, *ABC, **states)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (shots(), "Pass"),
        (shots(10), "Pass"),
        (shots(11), "Inconclusive"),
        (Run().snaps(5, "a", "b"), "Fail"),  # c is missing in both
        (Run().snap(5, "a", {"b": "Alive", "c": "Alive"}), "Inconclusive"),
        (shots().turn(7, "a", "c", "Alive", "Suspect"), "Fail"),
        (shots().turn(7, "a", "c", "Alive", "Suspect").turn(10, "a", "c", "Suspect", "Alive"), "Pass"),
        (shots().turn(11, "a", "c", "Alive", "Suspect"), "Pass"),
        (shots(c="Suspect").turn(9, "a", "c", "Suspect", "Alive").turn(9, "b", "c", "Suspect", "Alive"), "Pass"),
        (shots().turn(7, "a", "d", "Alive", "Dead"), "Pass"),  # d is not named
        (shots().kill(7, "c"), "Inconclusive"),
        (shots().kill(7, "c").resurrect(8, "c"), "Inconclusive"),
        (shots().kill(7, "c").resurrect(8, "c", preserve=True), "Pass"),
        (shots().kill(7, "c").resurrect(8, "c").snap(9, "c", {"a": "Alive", "b": "Alive"}), "Pass"),
        (shots(c="Dead").kill(7, "c"), "Fail"),
    ],
)
def test_all_alive_at(run: Run, expected: str) -> None:
    """The views at the end of the instant: the latest snapshot of the instance, and the transitions since."""
    assert outcome(AT, run) == expected


def test_all_alive_at_names_the_earliest_record() -> None:
    """The evidence is what set the offending state: a transition if it came after the snapshot, else the snapshot."""
    assert failed_at(AT, shots().turn(7, "b", "a", "Alive", "Dead").turn(8, "a", "c", "Alive", "Suspect")) == (3,)
    assert failed_at(AT, shots(c="Suspect").turn(7, "b", "a", "Alive", "Dead")) == (0,)
    assert outcome(AT, shots(), end_ns=9, reason="aborted") == "Inconclusive"


def test_a_snapshot_and_a_transition_of_one_instant() -> None:
    """A bundle keeps no order between the two; either order of emission is read the same."""
    before = Run().turn(5, "a", "c", "Alive", "Suspect").snaps(5, *ABC)
    after = Run().snaps(5, *ABC).turn(5, "a", "c", "Alive", "Suspect")
    assert failed_at(AT, before) == (0,)
    assert failed_at(AT, after) == (3,)
    window = AllAliveThroughout(window_start_ns=5, window_end_ns=6, peers=ABC)
    assert failed_at(window, Run().snaps(5, *ABC, c="Suspect").turn(5, "b", "c", "Alive", "Suspect")) == (3,)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (shots(15), "Pass"),
        (shots(10), "Pass"),
        (shots(20), "Pass"),
        (shots(9), "Inconclusive"),
        (shots(21), "Inconclusive"),
        (Run().snap(15, "a", {"b": "Alive", "c": "Alive"}), "Inconclusive"),
        (shots(15, c="Suspect"), "Fail"),
        (shots(9, c="Suspect").snaps(15, *ABC), "Fail"),  # the window begins with it
        (Run().snap(9, "a", {"c": "Suspect"}).turn(10, "a", "c", "Suspect", "Alive").snaps(15, *ABC), "Fail"),  # b is missing
        (Run().turn(9, "a", "c", "Alive", "Suspect").turn(10, "a", "c", "Suspect", "Alive").snaps(15, *ABC), "Pass"),
        (shots(15).turn(17, "a", "c", "Alive", "Suspect").turn(18, "a", "c", "Suspect", "Alive"), "Fail"),
        (shots(15).turn(20, "a", "c", "Alive", "Suspect"), "Fail"),
        (shots(15).turn(21, "a", "c", "Alive", "Suspect"), "Pass"),
        (Run().turn(12, "a", "c", "Suspect", "Alive").snaps(15, *ABC), "Fail"),  # it was Suspect before
        (shots(12).turn(15, "a", "c", "Alive", "Alive"), "Pass"),  # a higher incarnation
        (shots(12).kill(15, "c"), "Inconclusive"),
        (shots(12).kill(15, "c").resurrect(16, "c", preserve=True).snaps(18, *ABC), "Inconclusive"),
        (Run().kill(5, "c").resurrect(9, "c").snaps(12, *ABC), "Pass"),
        (Run().kill(5, "c").resurrect(11, "c").snaps(12, *ABC), "Inconclusive"),
        (shots(12).kill(21, "c"), "Pass"),
    ],
)  # fmt: skip
def test_all_alive_throughout(run: Run, expected: str) -> None:
    """Snapshots and transitions of the window, and what it begins with; a gap in a named life cannot pass."""
    assert outcome(THROUGHOUT, run) == expected


def test_all_alive_throughout_evidence_and_cut() -> None:
    """The first record that shows it; a window that the run did not reach stays open (ruling V2)."""
    run = shots(9, c="Suspect").snaps(15, *ABC)
    assert failed_at(THROUGHOUT, run) == (0,)
    assert failed_at(THROUGHOUT, shots(15).turn(17, "a", "c", "Alive", "Suspect").snaps(18, *ABC, c="Suspect")) == (3,)
    assert outcome(THROUGHOUT, shots(15), end_ns=19, reason="aborted") == "Inconclusive"
    assert outcome(THROUGHOUT, shots(15), end_ns=20, reason="aborted") == "Pass"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (shots(10), "Inconclusive"),  # before the window
        (shots(15), "Pass"),
        (shots(20), "Pass"),
        (shots(21), "Inconclusive"),
        (Run().snaps(15, "a", "b"), "Inconclusive"),  # c is up and was not asked
        (Run().snaps(15, *ABC).snaps(18, "a", "b", "c", c="Dead"), "Pass"),
        (shots(15, c="Dead"), "Fail"),  # a live observer holds itself Alive
        (Run().kill(12, "c").snaps(15, "a", "b", c="Dead"), "Pass"),
        (Run().snaps(12, *ABC, c="Suspect").kill(13, "c").snaps(15, "a", "b", c="Dead"), "Pass"),
        (Run().kill(12, "c").snap(15, "a", {"b": "Alive", "c": "Dead"}).snap(15, "b", {"a": "Alive", "c": "Suspect"}), "Fail"),
        (Run().kill(5, "c").resurrect(12, "c").snaps(15, *ABC), "Pass"),
        (Run().kill(5, "a").kill(5, "b").kill(5, "c"), "Inconclusive"),
        (Run().snap(15, "a", {"b": "Alive"}).snap(15, "b", {"a": "Alive"}).snap(15, "c", {"a": "Alive", "b": "Alive"}), "Fail"),
    ],
)  # fmt: skip
def test_convergence_after(run: Run, expected: str) -> None:
    """Ruling V5: the live named peers agree at one snapshot instant of (after, after + within]."""
    assert outcome(CONVERGED, run) == expected


def test_convergence_evidence_and_subjects() -> None:
    """A Fail names two snapshots that differ; subjects are all peers of the membership, an embedded node's stage included (S2)."""
    run = shots(15).snap(18, "a", {"b": "Alive", "c": "Alive"}).snap(18, "b", {"a": "Alive", "c": "Dead"})
    assert failed_at(CONVERGED, shots(15, c="Dead")) == (0, 2)
    assert outcome(CONVERGED, run) == "Pass"  # at 15
    two = ConvergenceAfter(after_ns=10, within_ns=10, peers=("a", "b"))
    differ = Run().snap(15, "a", {"b": "Alive", "s": "Alive"}).snap(15, "b", {"a": "Alive", "s": "Dead"})
    assert outcome(two, differ) == "Pass"  # s is a plain stage: no subject
    assert outcome(two, differ, peers=(swim("a"), swim("b"), stage("s", node=True))) == "Fail"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (Run().kill(9, "c").snaps(15, "a", "b", c="Dead"), "Pass"),
        (Run().kill(9, "c").snaps(10, "a", "b", c="Dead"), "Inconclusive"),
        (Run().kill(9, "c").snaps(20, "a", "b", c="Dead"), "Pass"),
        (Run().kill(9, "c").snaps(15, "a", "b", c="Suspect"), "Fail"),
        (Run().kill(9, "c").snap(15, "a", {"b": "Alive", "c": "Dead"}), "Inconclusive"),  # b is up and was not asked
        (Run().kill(9, "c").kill(12, "b").snap(15, "a", {"b": "Alive", "c": "Dead"}), "Pass"),
        (Run().snaps(15, *ABC, c="Dead"), "Pass"),  # what the peer itself holds is not asked
        (Run().kill(9, "c").snaps(12, "a", "b", c="Dead").snaps(15, "a", "b"), "Pass"),  # at one instant
    ],
)
def test_peer_detected_dead_within(run: Run, expected: str) -> None:
    """Every other live peer of the membership shows the peer Dead at one snapshot instant."""
    assert outcome(DETECTED, run) == expected


def test_peer_detected_dead_evidence() -> None:
    """A Fail names a snapshot of the last judged instant that does not show it; a plain stage is never asked."""
    run = (
        Run()
        .kill(9, "c")
        .snaps(12, "a", "b")
        .snap(15, "a", {"c": "Dead"})
        .snap(15, "b", {"c": "Suspect"})
        .snap(15, "s")
    )
    assert failed_at(DETECTED, run) == (4,)
    assert outcome(DETECTED, run, end_ns=19, reason="aborted") == "Inconclusive"


def dead(at_ns: int = 12) -> Run:
    return Run().turn(at_ns, "a", "c", "Suspect", "Dead")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (shots(15), "Inconclusive"),
        (dead(), "Fail"),
        (dead().turn(20, "a", "c", "Dead", "Alive"), "Pass"),
        (dead().turn(21, "a", "c", "Dead", "Alive"), "Fail"),
        (dead(21), "Inconclusive"),
        (dead(3).turn(4, "a", "c", "Dead", "Alive"), "Pass"),  # held Dead before
        (dead().turn(13, "a", "c", "Dead", "Alive").turn(19, "a", "c", "Alive", "Suspect"), "Fail"),
        (dead().turn(13, "b", "c", "Suspect", "Dead").turn(15, "a", "c", "Dead", "Alive"), "Fail"),
        (Run().snap(15, "a", {"c": "Dead"}), "Fail"),
        (Run().snap(15, "a", {"c": "Dead"}).snap(18, "a", {"c": "Alive"}), "Pass"),
        (Run().snap(15, "a", {"c": "Dead"}).snap(18, "a", {"b": "Alive"}), "Fail"),  # forgotten is not Alive
        (dead().kill(15, "a"), "Inconclusive"),
        (dead().kill(15, "a").resurrect(16, "a"), "Inconclusive"),  # remembers nothing
        (dead().kill(15, "a").resurrect(16, "a", preserve=True), "Fail"),
        (dead().kill(15, "a").resurrect(16, "a").turn(17, "a", "c", "Suspect", "Dead"), "Fail"),
        (Run().kill(11, "c").turn(12, "a", "c", "Suspect", "Dead").resurrect(14, "c").turn(16, "a", "c", "Dead", "Alive"), "Pass"),
    ],
)  # fmt: skip
def test_dead_peer_resurrects_within(run: Run, expected: str) -> None:
    """Ruling V5: whoever held the peer Dead up to the deadline holds it Alive then, killed and rebuilt peers included."""
    assert outcome(RETURNED, run) == expected


def test_dead_peer_resurrects_evidence() -> None:
    """A Fail names the record of the earliest view that is not Alive at the deadline."""
    run = (
        dead()
        .turn(13, "b", "c", "Suspect", "Dead")
        .turn(15, "a", "c", "Dead", "Alive")
        .turn(18, "a", "c", "Alive", "Suspect")
    )
    assert failed_at(RETURNED, run) == (1,)
    assert outcome(RETURNED, run, end_ns=19, reason="early") == "Inconclusive"


@pytest.mark.parametrize("assertion", [AT, CONVERGED])
def test_a_halted_stage_observes_nothing(assertion: Assertion) -> None:
    """A halted process is still asked for snapshots (ruling E12), but they are its past."""
    peers = (swim("a"), swim("b"), stage("c", node=True))
    run = Run().lifecycle(3, "c", "Running", "Halted").snaps(5, *ABC).snaps(15, "a", "b", c="Dead")
    run.snap(15, "c", {"a": "Suspect", "b": "Suspect"})
    assert outcome(assertion, run, peers=peers) == ("Pass" if assertion is CONVERGED else "Inconclusive")
    rebuilt = (
        Run().lifecycle(3, "c", "Running", "Halted").resurrect(4, "c", preserve=True).snaps(5, *ABC).snaps(15, *ABC)
    )
    assert outcome(assertion, rebuilt, peers=peers) == "Pass"
