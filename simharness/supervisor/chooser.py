"""Every draw of a world: schedule draws, process draws and keyed draws, never mixed.

All of them are streams of the host `job` (§7.2). Schedule draws are sequential and decide the interleaving; process draws are
sequential in the order of the process's own code; a keyed draw is one value with an address of its own, so that taking a step out
of a schedule changes no other incidental value. A probability is integer ppm. The low end of every choice is the benign one.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from simharness.core.streams import HostRng, Root, Stream, siphash
from simharness.core.units import NS_PER_MS, PPM
from simharness.supervisor.schedule import OWN_FORMS, Entry, stands_in_for

JOB: Final = "job"
"""The peer id of every supervisor scenario; draws use it in every driver."""

MOST_NS: Final = 2_000_000_000
"""A drawn clock move stays below this."""

_LOW: Final = 0xFFFFFFFF
_MOVE_PPM: Final = 450_000
_LATE_PPM: Final = 60_000
_LATE_QUIET_PPM: Final = 100_000
_BLOCK: Final = 64
_T = TypeVar("_T")


def happens(stream: Stream, ppm: int) -> bool:
    """Draw whether something of probability `ppm` happens."""
    return stream.below(PPM) >= PPM - ppm


def pick(stream: Stream, choices: Sequence[_T]) -> _T:
    """Draw one of `choices`, each as likely."""
    return choices[stream.below(len(choices))]


def weighted(stream: Stream, choices: Sequence[tuple[_T, int]]) -> _T:
    """Draw one of `choices` in proportion to its weight; the first is the benign one."""
    left = stream.below(sum([weight for _, weight in choices]))
    for choice, weight in choices:
        left -= weight
        if left < 0:
            return choice
    raise AssertionError("the weights add up")


def span_ns(stream: Stream, low_ns: int, high_ns: int) -> int:
    """Draw a duration in [low, high], in whole milliseconds above `low`."""
    return low_ns + NS_PER_MS * stream.below((high_ns - low_ns) // NS_PER_MS + 1)


def _threshold(ppm: int) -> int:
    """Return what the upper half of a word reaches with this probability."""
    return ((PPM - ppm) << 32) // PPM


_STILL: Final = _threshold(_MOVE_PPM)


class Draws:
    """Process draws and keyed draws of one run.

    The stream ("host", "job", "key") gives the key of the keyed draws: each is SipHash-2-4, under that key, of what it decides.
    """

    __slots__ = ("_key", "_rng")

    def __init__(self, rng: HostRng) -> None:
        self._rng = rng
        first, second, _, _ = rng.substream("key").state
        self._key = first.to_bytes(8, "little") + second.to_bytes(8, "little")

    @classmethod
    def of_seed(cls, seed: int) -> "Draws":
        """Return the draws that a scenario with this seed gives the peer `job`."""
        return cls(Root(seed).host_rng(JOB))

    def schedule(self, *, quiet: bool = False) -> Stream:
        """Return a new stream of schedule draws. The quiet phase has its own, so that a replayed schedule meets the same one."""
        return self._rng.substream("quiet" if quiet else "sched")

    def process(self, pid: str, incarnation: int) -> Stream:
        """Return a new stream for one incarnation of a process."""
        return self._rng.substream(f"proc/{pid}/{incarnation}")

    def key(self, address: str) -> int:
        """Return the 64 bits at one address, "<what>/<identity>"."""
        return siphash(address.encode(), self._key)

    def below(self, bound: int, address: str) -> int:
        """Draw an integer in [0, bound)."""
        return (siphash(address.encode(), self._key) * bound) >> 64

    def ppm(self, ppm: int, address: str) -> bool:
        """Draw whether something of probability `ppm` happens."""
        return (siphash(address.encode(), self._key) * PPM) >> 64 >= PPM - ppm

    def span_ns(self, low_ns: int, high_ns: int, address: str) -> int:
        """Draw a duration in [low, high], in whole milliseconds above `low`."""
        return low_ns + NS_PER_MS * self.below((high_ns - low_ns) // NS_PER_MS + 1, address)


class Chooser(Protocol):
    """Decides clock moves and actors. The world says what is possible and cuts a move at the next bound."""

    def move_ns(self) -> int:
        """Return how far the clock should move before the next step."""

    def moved(self, by_ns: int) -> None:
        """Learn how far the clock has moved really."""

    def bound(self, late_id: str) -> str | None:
        """Return "land" or "lose" if the schedule itself says what becomes of a call at its bound, else None."""

    def entry(self, landing: Sequence[str], runnable: Sequence[str]) -> Entry | None:
        """Return what happens now; None if nothing can.

        Args:
            landing: Ids of late calls whose style lets them land.
            runnable: Processes that can go on, in spawn order.
        """

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to choose, and never will be."""

    @property
    def drawn(self) -> bool:
        """Whether the clock jumps to what is due when nobody could go on."""


class SeededChooser:
    """Draws the schedule."""

    __slots__ = ("_on_time", "_runs", "_stream", "_words")
    ended = False
    drawn = True

    def __init__(self, stream: Stream, *, quiet: bool = False) -> None:
        self._stream = stream
        self._words: list[int] = []
        """What was drawn ahead, the next word last. Nobody else draws from the stream."""
        self._runs: dict[str, Entry] = {}
        """The one entry of each process: nearly every step needs one."""
        self._on_time = _threshold(_LATE_QUIET_PPM if quiet else _LATE_PPM)

    def move_ns(self) -> int:
        """Draw a clock move: mostly none, else anything below two seconds."""
        word = (self._words or self._draw()).pop()  # one draw decides whether and, by its other half, how far
        return ((word & _LOW) * MOST_NS) >> 32 if word >> 32 >= _STILL else 0

    def moved(self, by_ns: int) -> None:
        """Draws do not depend on it."""

    def bound(self, late_id: str) -> str | None:
        """Leave it to the keyed draw."""
        del late_id
        return None

    def entry(self, landing: Sequence[str], runnable: Sequence[str]) -> Entry | None:
        """Draw a late landing, or one of the processes that can go on."""
        if not (landing or runnable):
            return None
        word = (self._words or self._draw()).pop()
        low = word & _LOW
        if landing and word >> 32 >= self._on_time:
            return Entry(0, "late", landing[(low * len(landing)) >> 32], "land")
        if not runnable:
            return None
        pid = runnable[(low * len(runnable)) >> 32]
        entry = self._runs.get(pid)
        if entry is None:
            entry = self._runs[pid] = Entry(0, "run", pid)
        return entry

    def _draw(self) -> list[int]:
        self._words = self._stream.words(_BLOCK)[::-1]
        return self._words


class ReplayChooser:
    """Replays a written schedule. A move that is cut at a bound goes on after it."""

    __slots__ = ("_left_ns", "_place", "entries")
    drawn = False

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)
        self._place = 0
        self._left_ns = self.entries[0].dt_ns if self.entries else 0

    @property
    def over(self) -> bool:
        """Whether every entry was played."""
        return self._place >= len(self.entries)

    @property
    def ended(self) -> bool:
        """Whether the schedule is used up."""
        return self.over

    def stands_in_for(self) -> tuple[str, ...]:
        """Return the processes whose own forms the schedule uses: the world has no such process."""
        return stands_in_for(self.entries)

    def move_ns(self) -> int:
        """Return what is left of the entry's clock move."""
        return self._left_ns

    def moved(self, by_ns: int) -> None:
        """Take the move off."""
        self._left_ns = max(0, self._left_ns - by_ns)

    def bound(self, late_id: str) -> str | None:
        """Use the entry up if it is this very landing."""
        if not self.over and not self._left_ns:
            entry = self.entries[self._place]
            if entry.verb == "late" and entry.target == late_id:
                self._advance()
                return entry.arg
        return None

    def entry(self, landing: Sequence[str], runnable: Sequence[str]) -> Entry | None:
        """Return the next entry, possible or not, unless part of its clock move is still to come."""
        del landing, runnable
        if self.over or self._left_ns:
            return None
        entry = self.entries[self._place]
        self._advance()
        return entry

    def _advance(self) -> None:
        self._place += 1
        self._left_ns = 0 if self.over else self.entries[self._place].dt_ns


class HypothesisChooser(ReplayChooser):
    """A schedule that grows while it is played: the rules of a state machine append to it."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        super().__init__()
        self._closed = False

    @property
    def ended(self) -> bool:
        """Whether the schedule was closed."""
        return self._closed

    def stands_in_for(self) -> tuple[str, ...]:
        """Return all three: environment, person and chaos are rules of the machine."""
        return tuple(OWN_FORMS)

    def close(self) -> None:
        """Say that there will be no further entry."""
        self._closed = True

    def choose(self, entry: Entry) -> None:
        """Append an entry; everything before it must have been played."""
        assert self.over, "one entry at a time"
        self.entries.append(entry)
        self._left_ns = entry.dt_ns
