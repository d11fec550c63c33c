"""`no_flap_while_probes_ok` and `no_dead_when_probes_ok` (rulings V4, V7). The suspicion timeout is 6, the tick 1."""

import pytest

from simharness.contracts.assertions import NoDeadWhenProbesOk, NoFlapWhileProbesOk
from tests.assertions.support import TIMEOUT, Run, failed_at, outcome, stage, swim

FLAP = NoFlapWhileProbesOk(peer="b", window_start_ns=10, window_end_ns=40)
DEAD = NoDeadWhenProbesOk(peer="b", window_start_ns=10, window_end_ns=40)


def both(run: Run, at_ns: int) -> Run:
    return run.acked(at_ns, "a", "b").acked(at_ns, "b", "a")


def flap(first: int = 20, middle: int = 22, second: int = 24, *, probes: tuple[int, ...] = (21,)) -> Run:
    """Suspect, Alive, Suspect in the view of a, with acknowledged probes both ways at the given times."""
    steps = [(first, "Alive", "Suspect"), (middle, "Suspect", "Alive"), (second, "Alive", "Suspect")]
    run = Run()
    for at_ns in sorted({first, middle, second, *probes}):
        for when, before, after in steps:
            if when == at_ns:
                run.turn(at_ns, "a", "b", before, after)
        if at_ns in probes:
            both(run, at_ns)
    return run


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (both(Run(), 20), "Pass"),
        (both(Run(), 10), "Pass"),
        (both(Run(), 9), "Inconclusive"),
        (both(Run(), 41), "Inconclusive"),
        (Run().timed_out(20, "a", "b"), "Pass"),  # a probe completed, in failure
        (Run().timed_out(20, "a", "b", "direct"), "Inconclusive"),  # a direct time-out completes nothing
        (both(Run(), 20).acked(21, "a", "c"), "Pass"),
        (Run().acked(20, "a", "c"), "Inconclusive"),  # another pair
        (flap(), "Fail"),
        (flap(probes=()), "Inconclusive"),
        (flap(probes=(19, 25)), "Pass"),  # not in between
        (flap(9, 22, 24), "Pass"),  # the first Suspect lies before the window
        (flap(20, 22, 41), "Pass"),
        (flap(20, 22, 40, probes=(38,)), "Fail"),
        (flap(20, 21, 26, probes=(21,)), "Pass"),  # (iii): 5 is not less than 6 - 1
        (flap(20, 21, 25, probes=(21,)), "Fail"),  # 4 is
    ],
)
def test_no_flap(run: Run, expected: str) -> None:
    """The triple in the window, with completed probes both ways strictly between the two Suspects, the last one fresh."""
    assert outcome(FLAP, run) == expected


@pytest.mark.parametrize("missing", ["a", "b"])
def test_one_direction_is_not_enough(missing: str) -> None:
    """(i): at least one completed probe each way."""
    run = Run().turn(20, "a", "b", "Alive", "Suspect")
    run.acked(21, "b" if missing == "a" else "a", missing).turn(22, "a", "b", "Suspect", "Alive")
    assert outcome(FLAP, run.turn(23, "a", "b", "Alive", "Suspect")) == "Pass"


@pytest.mark.parametrize("pair", [("a", "b"), ("b", "a")])
def test_a_failed_probe_in_between_excuses(pair: tuple[str, str]) -> None:
    """(ii): none completed in failure, in either direction; a direct time-out is not a failure."""
    for probe_kind, expected in (("indirect", "Pass"), ("direct", "Fail")):
        run = both(Run().turn(20, "a", "b", "Alive", "Suspect"), 21).timed_out(21, *pair, probe_kind)
        run.turn(22, "a", "b", "Suspect", "Alive").turn(23, "a", "b", "Alive", "Suspect")
        assert outcome(FLAP, run) == expected


def test_strictly_between_is_by_file_order() -> None:
    """A probe that ends in the instant of a Suspect counts or not by its line."""
    inside = both(Run().turn(20, "a", "b", "Alive", "Suspect"), 20)
    inside.turn(20, "a", "b", "Suspect", "Alive").turn(20, "a", "b", "Alive", "Suspect")
    assert failed_at(FLAP, inside) == (0, 3, 4)
    failure = Run().timed_out(20, "a", "b").turn(20, "a", "b", "Alive", "Suspect")
    assert (
        outcome(FLAP, both(failure, 20).turn(20, "a", "b", "Suspect", "Alive").turn(20, "a", "b", "Alive", "Suspect"))
        == "Fail"
    )
    late = Run().turn(20, "a", "b", "Alive", "Suspect").turn(20, "a", "b", "Suspect", "Alive")
    assert outcome(FLAP, both(late.turn(20, "a", "b", "Alive", "Suspect"), 20)) == "Pass"


def test_equal_states_are_one() -> None:
    """Repeated Alive and Suspect records (higher incarnations) are collapsed to the first; a Dead in between breaks the triple."""
    run = both(Run().turn(20, "a", "b", "Alive", "Suspect").turn(21, "a", "b", "Suspect", "Suspect"), 21)
    run.turn(22, "a", "b", "Suspect", "Alive").turn(22, "a", "b", "Alive", "Alive").turn(
        23, "a", "b", "Alive", "Suspect"
    )
    assert failed_at(FLAP, run) == (0, 4, 6)
    only_alive = Run().turn(20, "a", "b", "Suspect", "Alive").turn(21, "a", "b", "Alive", "Alive")
    assert outcome(FLAP, both(only_alive, 21)) == "Pass"
    died = both(Run().turn(20, "a", "b", "Alive", "Suspect"), 21).turn(21, "a", "b", "Suspect", "Dead")
    died.turn(22, "a", "b", "Dead", "Alive").turn(23, "a", "b", "Alive", "Suspect")
    assert outcome(FLAP, died) == "Pass"


def test_observers_are_not_merged() -> None:
    """Suspect by a, Alive by a, Suspect by c is nobody's flap."""
    run = both(Run().turn(20, "a", "b", "Alive", "Suspect"), 21).turn(22, "a", "b", "Suspect", "Alive")
    assert outcome(FLAP, run.turn(23, "c", "b", "Alive", "Suspect")) == "Pass"


def test_a_rebuilt_observer_starts_without_memory() -> None:
    """What the former instance saw is no part of the new one's flap; a resumed instance goes on."""
    for preserve, expected in ((False, "Pass"), (True, "Fail")):
        run = both(Run().turn(20, "a", "b", "Alive", "Suspect"), 21).turn(21, "a", "b", "Suspect", "Alive")
        run.kill(22, "a").resurrect(22, "a", preserve=preserve)
        assert outcome(FLAP, run.turn(23, "a", "b", "Alive", "Suspect")) == expected


def test_timeout_and_tick_are_the_observers_own() -> None:
    """(iii) uses the observer's suspicion timeout, an embedded node's own (S2), and its own tick."""
    run = flap(20, 21, 26, probes=(21,))
    assert outcome(FLAP, run, peers=(swim("a", suspicion_timeout_ns=7), swim("b"))) == "Fail"
    slow = swim("a", suspicion_timeout_ns=7)
    slow = type(slow)(**{f: getattr(slow, f) for f in slow.__struct_fields__} | {"tick_period_ns_override": 2})
    assert outcome(FLAP, run, peers=(slow, swim("b"))) == "Pass"
    assert outcome(FLAP, flap(), peers=(stage("a", node=True), swim("b"))) == "Fail"
    assert outcome(FLAP, flap(), peers=(stage("a"), swim("b"))) == "Inconclusive"  # a runs no detector


def test_the_window_stays_open_when_the_run_is_cut() -> None:
    """Ruling V2; a flap found before stays found."""
    assert outcome(FLAP, both(Run(), 20), end_ns=39, reason="aborted") == "Inconclusive"
    assert outcome(FLAP, both(Run(), 20), end_ns=40, reason="aborted") == "Pass"
    assert outcome(FLAP, flap(), end_ns=30, reason="aborted") == "Fail"


def death(at_ns: int, *, out: int, back: int) -> Run:
    steps = sorted([(out, "a", "b"), (back, "b", "a")])
    run = Run()
    for when, source, target in steps:
        run.acked(when, source, target)
    return run.turn(at_ns, "a", "b", "Suspect", "Dead")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run().turn(20, "a", "b", "Suspect", "Dead"), "Inconclusive"),
        (death(20, out=18, back=18), "Fail"),
        (death(20, out=16, back=15), "Fail"),
        (death(20, out=15, back=18), "Pass"),  # (iii)
        (death(20, out=18, back=14), "Pass"),  # exactly one timeout before: no longer in it
        (death(10, out=8, back=8), "Fail"),  # the look-back reaches before the window
        (death(9, out=8, back=8).acked(20, "a", "b"), "Pass"),
        (death(41, out=39, back=39), "Pass"),
        (
            both(Run().timed_out(14, "a", "b"), 18).turn(20, "a", "b", "Suspect", "Dead"),
            "Fail",
        ),  # what opened the suspicion
        (both(Run().timed_out(15, "a", "b"), 18).turn(20, "a", "b", "Suspect", "Dead"), "Pass"),  # (ii)
        (both(Run().timed_out(15, "b", "a"), 18).turn(20, "a", "b", "Suspect", "Dead"), "Pass"),
        (both(Run().timed_out(15, "a", "b", "direct"), 18).turn(20, "a", "b", "Suspect", "Dead"), "Fail"),
        (
            Run().turn(20, "a", "b", "Suspect", "Dead").acked(20, "a", "b").acked(20, "b", "a"),
            "Pass",
        ),  # after it, in the file
        (both(Run(), 18).turn(20, "c", "b", "Suspect", "Dead"), "Pass"),  # c has no probes
        (both(Run(), 18).turn(20, "a", "c", "Suspect", "Dead"), "Pass"),  # about c
        (both(Run(), 18).turn(20, "a", "b", "Alive", "Suspect"), "Pass"),
    ],
)
def test_no_dead(run: Run, expected: str) -> None:
    """(i)-(iii) over the last suspicion timeout before the Dead, its first nanosecond excluded."""
    assert TIMEOUT == 6
    assert outcome(DEAD, run) == expected


def test_no_dead_soon_after_the_start() -> None:
    """A look-back that reaches before time 0 finds nothing there."""
    early = NoDeadWhenProbesOk(peer="b", window_start_ns=0, window_end_ns=9)
    assert failed_at(early, death(2, out=0, back=1)) == (2,)
    assert (
        outcome(early, Run().timed_out(0, "a", "b").acked(1, "a", "b").turn(2, "a", "b", "Suspect", "Dead")) == "Pass"
    )


def test_no_dead_evidence_and_rebuilt_observers() -> None:
    """The Dead record is the evidence; a rebuilt observer's former probes are forgotten."""
    assert failed_at(DEAD, death(20, out=18, back=18)) == (2,)
    run = both(Run(), 18).kill(19, "a").resurrect(19, "a").turn(20, "a", "b", "Suspect", "Dead")
    assert outcome(DEAD, run) == "Pass"
