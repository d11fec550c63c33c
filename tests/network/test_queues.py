"""Tail and Occupancy against plain lists, over arrivals in any order (rulings R1, R2)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.network.queues import Occupancy, Tail

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 9), st.integers(1, 9)), max_size=25)


@settings(max_examples=80)
@given(steps=STEPS, probe=st.integers(0, 30))
def test_tail_sees_the_latest_end_of_earlier_arrivals(steps: list[tuple[int, int, int, int]], probe: int) -> None:
    """A message waits for every slot whose message arrives no later, and for no other; slots given stay (ruling R1)."""
    tail, slots, now = Tail(), [(0, 0)], 0
    for gap, ahead, span, _ in steps:
        now += gap
        arrival = now + ahead
        seen = max(end for earlier, end in slots if earlier <= arrival)
        assert tail.seen_from(arrival) == seen
        end = max(arrival, seen) + span
        tail.give(arrival, end, now)
        slots.append((arrival, end))
        assert tail.seen_from(now + probe) == max(end for earlier, end in slots if earlier <= now + probe)


@settings(max_examples=80)
@given(steps=STEPS, span=st.integers(0, 30))
def test_occupancy_equals_a_scan(steps: list[tuple[int, int, int, int]], span: int) -> None:
    """The peak over a residence is the most that is held at its start or at an arrival in it (ruling R2)."""
    occupancy, held, now = Occupancy(), [], 0
    for gap, ahead, stay, size in steps:
        now += gap
        arrival = now + ahead
        instants = [arrival, *(start for start, _, _ in held if arrival < start < arrival + span)]
        levels = [sum(part for start, end, part in held if start <= when < end) for when in instants]
        assert occupancy.peak(arrival, arrival + span) == max(levels)
        occupancy.add(arrival, arrival + stay, size, now)
        held.append((arrival, arrival + stay, size))


@pytest.mark.parametrize("spread", [1, 400])
def test_what_is_over_is_forgotten(spread: int) -> None:
    """Both structures stay in proportion to what is ahead, however mixed the arrivals, and forget nothing that counts.

    Every message is told to wait for a slot that ends long after it came, so the last settled step goes on counting.
    """
    tail, occupancy, given, longest = Tail(), Occupancy(), [(0, 0)], 0
    for now in range(0, 9_000, 3):
        arrival = now + 500 + now * 7919 % spread
        end = max(arrival, tail.seen_from(arrival)) + 2
        tail.give(arrival, end, now)
        given.append((arrival, end))
        occupancy.peak(arrival, arrival + 40)
        occupancy.add(arrival, arrival + 40, 5, now)
        longest = max(longest, len(tail._arrivals), len(occupancy._changes))
        recent = given[-1000:]
        assert tail.seen_from(now) == max((end for earlier, end in recent if earlier <= now), default=0)
    assert longest < 2 * 2 * (500 + spread + 40) // 3 + 64
