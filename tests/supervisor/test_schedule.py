"""The written form of a schedule, and the choosers that draw, replay and grow one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.supervisor.chooser import (
    Draws,
    HypothesisChooser,
    ReplayChooser,
    SeededChooser,
    happens,
    pick,
    span_ns,
    weighted,
)
from simharness.supervisor.locktable import LockTable
from simharness.supervisor.schedule import Entry, parse, stands_in_for, written

GOOD = (
    "0 run sup0",
    "5000000000 run sup2 reply_lost",
    "1 run trainer:1/2/33:0",
    "0 late start:1/1 land",
    "0 late requeue:1/1/1+2 lose",
    "3 reply sup1",
    "0 env 1/1/1 place",
    "0 person cancel",
    "0 person answer held/17/1",
    "0 crash sup0",
    "0 drain sup1",
    "0 revoke sup2",
    "0 thaw sup0",
    "0 freeze sup0 60000000000",
    "0 cut record",
    "0 cut checkpoint",
    "12 idle",
)


@pytest.mark.parametrize("line", GOOD)
def test_what_is_written_is_read_back(line: str) -> None:
    """Every form of the table goes through unchanged."""
    assert written([parse(line)]) == [line]


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "run sup0",
            "-1 idle",
            "01 idle",
            "0 run sup3",
            "0 run sup0 sometimes",
            "0 late x fall",
            "0 env 1/1 place",
        ),
        *("0 env 1/1/1 explode", "0 person sing", "0 person answer", "0 freeze sup0", "0 cut power", "0 idle now"),
        "0 jump",
    ],
)
def test_what_names_nothing_known_is_refused(line: str) -> None:
    """The message says which forms there are."""
    with pytest.raises(ValueError, match=r"must be|followed by"):
        parse(line)


def test_own_forms_stand_in_for_their_process() -> None:
    """A schedule with an actor's own form has no such process; one that only runs it keeps it."""
    assert stands_in_for([parse("0 run env"), parse("0 run person")]) == ()
    assert stands_in_for([parse("0 env 1/1/1 place"), parse("0 crash sup0")]) == ("env", "chaos")
    assert stands_in_for([parse("0 person cancel")]) == ("person",)


def test_a_cut_move_goes_on_after_the_bound() -> None:
    """An entry is not used up while part of its clock move is still to come, and a landing at its bound uses its own up."""
    chooser = ReplayChooser([Entry(10, "late", "hold:1/1/1", "land"), Entry(7, "idle")])
    chooser.moved(4)
    assert (chooser.move_ns(), chooser.entry([], []), chooser.bound("hold:1/1/1")) == (6, None, None)
    chooser.moved(6)
    assert (chooser.bound("open:1/1/1"), chooser.bound("hold:1/1/1")) == (None, "land")
    assert (chooser.move_ns(), chooser.over) == (7, False)
    chooser.moved(7)
    assert chooser.entry([], []) == Entry(7, "idle")
    assert chooser.over


def test_a_growing_schedule_replays_what_it_has_grown() -> None:
    """The machine's chooser is over between two entries, and keeps them all."""
    chooser = HypothesisChooser()
    for line in GOOD[:3]:
        assert chooser.over
        chooser.choose(parse(line))
        chooser.moved(chooser.move_ns())
        assert chooser.entry([], []) == parse(line)
    assert written(chooser.entries) == list(GOOD[:3])


def test_a_drawn_schedule_is_fair_enough() -> None:
    """Each of three processes gets its third, a landing its few percent, and a move is mostly none (shares over 6000 draws)."""
    chooser = SeededChooser(Draws.of_seed(0).schedule())
    entries = [chooser.entry(["open:1/1/1"], ["a", "b", "c"]) for _ in range(6000)]
    targets = [entry.target for entry in entries if entry is not None]
    assert 260 < targets.count("open:1/1/1") < 470
    assert all(1700 < targets.count(pid) < 2060 for pid in "abc")
    moves = [chooser.move_ns() for _ in range(6000)]
    assert 3100 < moves.count(0) < 3500
    assert max(moves) < 2_000_000_000
    assert chooser.entry([], []) is None


@given(st.integers(0, 2**64 - 1), st.integers(1, 10**6))
def test_draws_stay_in_range(seed: int, bound: int) -> None:
    """Streams and keyed draws respect their bounds, and probability 0 never fires."""
    draws = Draws.of_seed(seed)
    stream = draws.process("env", 0)
    assert 0 <= draws.below(bound, "x/1") < bound
    assert draws.below(bound, "x/1") == draws.below(bound, "x/1")
    assert not draws.ppm(0, "x/2")
    assert draws.ppm(1_000_000, "x/2")
    assert 5 <= draws.span_ns(5, 5 + bound * 1_000_000, "x/3") <= 5 + bound * 1_000_000
    assert 5 <= span_ns(stream, 5, 5_000_000) <= 5_000_000
    assert pick(stream, "ab") in "ab"
    assert weighted(stream, [("none", 0), ("some", 3)]) == "some"
    assert not happens(stream, 0)
    assert happens(stream, 1_000_000)


def test_the_lock_table() -> None:
    """Exclusive: one owner until it lets go. Everyone: all of them. A crash of its machine forgets all."""
    table = LockTable(everyone=False)
    assert table.acquire("a")
    assert not table.acquire("b")
    assert (table.owns("a"), table.free("b"), table.free("a")) == (True, False, True)
    table.release("a")
    table.release("a")
    assert table.acquire("b")
    shared = LockTable(everyone=True)
    assert shared.acquire("a")
    assert shared.acquire("b")
    assert shared.owners() == ("a", "b")
    shared.clear()
    assert shared.owners() == ()
