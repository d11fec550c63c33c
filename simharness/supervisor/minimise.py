"""Makes the schedule of a failing seed small: the same invariant must break at the end of it.

The seed does not shrink, since it only feeds hashes; the schedule does. Replay skips what is not possible at its moment, so any
part of a schedule is a schedule.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import tomli_w

from simharness.supervisor.chooser import JOB
from simharness.supervisor.direct import Run, run
from simharness.supervisor.params import table
from simharness.supervisor.quiet import FILE_BOUND, MEMORY_BOUND
from simharness.supervisor.schedule import Entry, written
from simharness.systems.supervisor.config import NO_DEFECTS, Defects

MOST_RUNS: Final = 4_000
MOST_QUIET_RUNS: Final = 100
_DURATION_NS: Final = 100_000_000_000_000
_TICK_NS: Final = 100_000_000_000
"""The world begins at its first tick, which may be anywhere in the first period: the rest of the run must be long enough."""


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


class _Candidate(NamedTuple):
    """Entries, and the step before which the record is tampered with: it moves with the entries before it."""

    entries: list[Entry]
    tamper_step: int

    def without(self, start: int, end: int) -> "_Candidate":
        """Take a part away and leave its clock moves to the entry after it, so that everything else keeps its time."""
        entries, rest = self.entries, self.entries[end:]
        if rest:
            moved = sum([entry.dt_ns for entry in entries[start:end]])
            rest[0] = rest[0]._replace(dt_ns=rest[0].dt_ns + moved)
        earlier = max(0, min(end, len(entries), self.tamper_step - 1) - start)
        return _Candidate(entries[:start] + rest, max(1, self.tamper_step - earlier))

    def still(self, place: int) -> "_Candidate":
        """Let no time pass before an entry."""
        entries = list(self.entries)
        entries[place] = entries[place]._replace(dt_ns=0)
        return self._replace(entries=entries)


class _Search:
    """Delta debugging over the entries, after Zeller and Hildebrandt 2002; then clock moves to zero."""

    def __init__(self, first: Run, defects: Defects, most_runs: int) -> None:
        self._first, self._defects, self._left = first, defects, most_runs
        self._fields = table(first.profile)
        self.best = first
        self.runs = 0

    def fails(self, candidate: _Candidate) -> bool:
        """Replay a candidate; keep it if it breaks the same invariant."""
        if self._left <= 0:
            return False
        self._left -= 1
        self.runs += 1
        again = run(
            self._first.seed,
            self._first.profile.shape,
            given=self._fields | {"tamper_step": candidate.tamper_step},
            schedule=candidate.entries,
            defects=self._defects,
            keep=True,
            quiet=self._first.quiet_steps > 0,
        )
        if again.violated != self._first.violated:
            return False
        self.best = msgspec.structs.replace(again, schedule=tuple(candidate.entries))
        return True

    def shorten(self, best: _Candidate) -> _Candidate:
        """Take parts away, from halves down to single entries, and single ones again until none can go."""
        size = max(1, len(best.entries) // 2)
        while True:
            before, start = len(best.entries), 0
            while start < len(best.entries):
                candidate = best.without(start, start + size)
                if self.fails(candidate):
                    best = candidate
                else:
                    start += size
            if size == 1 and len(best.entries) == before:
                return best
            size = max(1, size // 2)

    def settle(self, best: _Candidate) -> None:
        """Set one clock move after the other to zero."""
        for place in range(len(best.entries)):
            if best.entries[place].dt_ns and self.fails(best.still(place)):
                best = best.still(place)


def minimise(found: Run, *, defects: Defects = NO_DEFECTS, most_runs: int | None = None) -> Minimised:
    """Shorten the schedule of a run that broke an invariant and was kept (`keep`).

    `most_runs` bounds the candidates that are tried: fewer by default where each goes through a quiet phase.
    """
    assert found.violated is not None, "there is something to minimise"
    if most_runs is None:
        most_runs = MOST_QUIET_RUNS if found.quiet_steps else MOST_RUNS
    search = _Search(found, defects, most_runs)
    whole = _Candidate(list(found.schedule), found.profile.tamper_step)
    replays = search.fails(whole)
    assert replays, "a recorded schedule replays"
    search.settle(search.shorten(whole))
    return Minimised(found=search.best, before=len(found.schedule), runs=search.runs)


def engine_document(name: str, found: Run, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario document in which the engine runs the world of a run, judged by both assertions about it."""
    return {
        "name": name,
        "seed": found.seed,
        "duration_ns": _DURATION_NS,
        "default_tick": {"period_ns": _TICK_NS},
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
        "peers": [{"id": JOB, "kind": "supervisor", "initial_state": "fresh", "kind_config": dict(config)}],
        "assertions": [
            {"kind": "supervisor_invariants_hold"},
            {
                "kind": "supervisor_settles_within",
                "steps": FILE_BOUND if found.profile.store == "file" else MEMORY_BOUND,
            },
        ],
    }


def regression(small: Minimised, *, found_with: Iterable[str] = ()) -> tuple[str, str]:
    """Return name and text of the scenario that replays it: every profile field written out, no defect.

    `found_with`: the defects that were on. The header names them, for they are what the scenario must notice.
    """
    found = small.found
    name = f"{found.violated}-{found.seed}"
    config: dict[str, Any] = {**table(found.profile), "schedule": written(found.schedule)}
    document = engine_document(f"supervisor_{name}", found, config)
    knobs = ", ".join(found_with)
    head = (
        f"# {found.message}\n#\n# reproduces: invariant {found.violated} at seed {found.seed} in the shape"
        f" {found.profile.shape}{f', found with {knobs}' if knobs else ''}, minimised\n# expected: pass-now\n# extends: none\n\n"
    )
    return f"{name}.toml", head + tomli_w.dumps(document)
