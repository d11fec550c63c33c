"""Makes the schedule of a failing seed small: the same invariant must break at the end of it.

The seed does not shrink, since it only feeds hashes; the schedule does. Replay skips what is not possible at its moment, so any
part of a schedule is a schedule.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import tomli_w

from simharness.supervisor.chooser import JOB
from simharness.supervisor.direct import Run, run
from simharness.supervisor.params import table
from simharness.supervisor.schedule import Entry, written
from simharness.systems.supervisor.config import NO_DEFECTS, Defects

MOST_RUNS: Final = 4_000
_DURATION_NS: Final = 100_000_000_000_000


class Minimised(msgspec.Struct, frozen=True, kw_only=True):
    """A violation, with the smallest schedule that was found for it."""

    found: Run
    """The run of the minimised schedule."""
    before: int
    """Entries of the drawn schedule."""
    runs: int
    """Candidate runs that it took."""

    @property
    def size(self) -> int:
        """Entries that are left."""
        return len(self.found.schedule)


class _Search:
    """Delta debugging over the entries, after Zeller and Hildebrandt 2002; then clock moves to zero."""

    def __init__(self, first: Run, defects: Defects, most_runs: int) -> None:
        self._first, self._defects, self._left = first, defects, most_runs
        self._fields = table(first.profile)
        self.best = first
        self.runs = 0

    def fails(self, entries: Sequence[Entry]) -> bool:
        """Replay a candidate; keep it if it breaks the same invariant."""
        if self._left <= 0:
            return False
        self._left -= 1
        self.runs += 1
        again = run(
            self._first.seed,
            self._first.profile.shape,
            given=self._fields,
            schedule=entries,
            defects=self._defects,
            keep=True,
            quiet=self._first.quiet_steps > 0,
        )
        if again.violated != self._first.violated:
            return False
        self.best = again
        return True

    def shorten(self, entries: list[Entry]) -> list[Entry]:
        """Take parts away, from halves down to single entries, and single ones again until none can go."""
        size = max(1, len(entries) // 2)
        while True:
            before = len(entries)
            start = 0
            while start < len(entries):
                candidate = _without(entries, start, start + size)
                if self.fails(candidate):
                    entries = candidate
                else:
                    start += size
            if size == 1 and len(entries) == before:
                return entries
            size = max(1, size // 2)

    def still(self, entries: list[Entry]) -> list[Entry]:
        """Set one clock move after the other to zero."""
        for place, entry in enumerate(entries):
            if entry.dt_ns:
                candidate = [*entries[:place], entry._replace(dt_ns=0), *entries[place + 1 :]]
                if self.fails(candidate):
                    entries = candidate
        return entries


def _without(entries: list[Entry], start: int, end: int) -> list[Entry]:
    """Take a part away and leave its clock moves to the entry after it, so that everything else keeps its time."""
    rest = entries[end:]
    if rest:
        moved = sum([entry.dt_ns for entry in entries[start:end]])
        rest[0] = rest[0]._replace(dt_ns=rest[0].dt_ns + moved)
    return entries[:start] + rest


def minimise(found: Run, *, defects: Defects = NO_DEFECTS, most_runs: int = MOST_RUNS) -> Minimised:
    """Shorten the schedule of a run that broke an invariant and was kept (`keep`)."""
    assert found.violated is not None, "there is something to minimise"
    search = _Search(found, defects, most_runs)
    assert search.fails(found.schedule), "a recorded schedule replays"
    entries = search.still(search.shorten(list(found.schedule)))
    best = msgspec.structs.replace(search.best, schedule=tuple(entries))
    return Minimised(found=best, before=len(found.schedule), runs=search.runs)


def regression(small: Minimised) -> tuple[str, str]:
    """Return name and text of the scenario that replays it: every profile field written out, no defect."""
    found = small.found
    name = f"{found.violated}-{found.seed}"
    config: dict[str, Any] = {**table(found.profile), "schedule": written(found.schedule)}
    document = {
        "name": f"supervisor_{name}",
        "seed": found.seed,
        "duration_ns": _DURATION_NS,
        "default_tick": {"period_ns": _DURATION_NS},
        "default_link": {
            "latency_ns": 0,
            "jitter_stddev_ns": 0,
            "loss_prob_ppm": 0,
            "reorder_prob_ppm": 0,
            "bandwidth_bps": 1,
            "cold_dial_penalty_ns": 0,
            "cache_warm_after_ns": 0,
            "cache_invalidate_after_idle_ns": 0,
        },
        "peers": [{"id": JOB, "kind": "supervisor", "initial_state": "fresh", "kind_config": config}],
        "assertions": [{"kind": "supervisor_invariants_hold"}],
    }
    head = (
        f"# {found.message}\n#\n# reproduces: invariant {found.violated} at seed {found.seed} in the shape"
        f" {found.profile.shape}, minimised\n# expected: pass-now\n# extends: none\n\n"
    )
    return f"{name}.toml", head + tomli_w.dumps(document)
