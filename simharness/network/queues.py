"""Time on a relay: slots of a serialising resource, and the bytes that are held (§5A.3, rulings R1, R2).

Sends are answered in the order of the calls, but messages of different inbound legs reach the relay in another order. Both
structures therefore take arrivals in any order, not before the call that brings them, and cost about the same as if they rose.
"""

from bisect import bisect_left, bisect_right
from typing import Final

_FEW: Final = 64
"""Below this many entries nobody looks for settled ones; above, whenever their number has doubled."""


class Tail:
    """When a resource is free again, as seen by a message that arrives at a given time.

    A message waits for those that arrived no later than it did; it never displaces a slot that has been given (ruling R1). So
    what matters is the latest end among earlier arrivals: a staircase of arrivals and ends that both rise.
    """

    __slots__ = ("_arrivals", "_ends", "_limit")

    def __init__(self) -> None:
        self._arrivals: list[int] = []
        self._ends: list[int] = []
        self._limit = _FEW

    def seen_from(self, arrival_ns: int) -> int:
        """Return the latest end of a slot whose message arrived no later than `arrival_ns`; 0 if there is none."""
        arrivals = self._arrivals
        if arrivals and arrival_ns >= arrivals[-1]:
            return self._ends[-1]
        place = bisect_right(arrivals, arrival_ns)
        return self._ends[place - 1] if place else 0

    def give(self, arrival_ns: int, end_ns: int, now_ns: int) -> None:
        """Note a slot that ends at `end_ns`, no sooner than `seen_from(arrival_ns)`. No later arrival lies before `now_ns`."""
        arrivals, ends = self._arrivals, self._ends
        if not arrivals or arrival_ns >= arrivals[-1]:
            arrivals.append(arrival_ns)
            ends.append(end_ns)
        else:
            self._give_between(arrival_ns, end_ns)
        if len(arrivals) > self._limit:
            settled = max(0, bisect_right(arrivals, now_ns) - 1)  # of the steps up to now the last one still counts
            del arrivals[:settled]
            del ends[:settled]
            self._limit = max(_FEW, 2 * len(arrivals))

    def _give_between(self, arrival_ns: int, end_ns: int) -> None:
        """Insert a step before steps of later arrivals; those that it ends after are hidden by it from now on."""
        arrivals, ends = self._arrivals, self._ends
        place = stop = bisect_right(arrivals, arrival_ns)
        while stop < len(ends) and ends[stop] <= end_ns:
            stop += 1
        arrivals[place:stop] = (arrival_ns,)
        ends[place:stop] = (end_ns,)


class Occupancy:
    """How many bytes a relay holds at any time from now on: each message counts in [arrival, egress end) (ruling R2).

    A list of changes in time order, and a cursor that stands behind every change up to the last arrival asked about. Arrivals
    come nearly in order, so the cursor moves by few changes a call.
    """

    __slots__ = ("_changes", "_latest_ns", "_level", "_limit", "_place")

    def __init__(self) -> None:
        self._changes: list[tuple[int, int]] = []
        self._place = 0
        self._level = 0
        self._latest_ns = 0
        self._limit = _FEW

    def peak(self, arrival_ns: int, end_ns: int) -> int:
        """Return the most bytes held at `arrival_ns` or at an admitted arrival before `end_ns`."""
        self._seek(arrival_ns)
        changes, place, level = self._changes, self._place, self._level
        peak = level
        last_ns = min(end_ns - 1, self._latest_ns)  # behind the last admitted arrival the level only falls
        while place < len(changes) and changes[place][0] <= last_ns:
            level += changes[place][1]
            place += 1
            peak = max(peak, level)
        return peak

    def add(self, arrival_ns: int, end_ns: int, byte_len: int, now_ns: int) -> None:
        """Hold `byte_len` bytes in [arrival_ns, end_ns). No later call asks about a time before `now_ns`."""
        if end_ns == arrival_ns:
            return
        self._seek(arrival_ns)
        # At one instant departures stand before arrivals, so a sum of all changes up to a place never exceeds what was held.
        self._changes.insert(self._place, (arrival_ns, byte_len))
        self._place += 1
        self._level += byte_len
        self._changes.insert(bisect_left(self._changes, (end_ns,), self._place), (end_ns, -byte_len))
        self._latest_ns = max(self._latest_ns, arrival_ns)
        if len(self._changes) > self._limit:
            settled = bisect_left(self._changes, (now_ns + 1,), 0, self._place)
            del self._changes[:settled]
            self._place -= settled
            self._limit = max(_FEW, 2 * len(self._changes))

    def _seek(self, when_ns: int) -> None:
        changes, place, level = self._changes, self._place, self._level
        while place < len(changes) and changes[place][0] <= when_ns:
            level += changes[place][1]
            place += 1
        while place and changes[place - 1][0] > when_ns:
            place -= 1
            level -= changes[place][1]
        self._place, self._level = place, level
