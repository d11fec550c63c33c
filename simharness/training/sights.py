"""What happened in a run, counted from records where it shows (ruling K8), and what of it is deliberately no violation.

The list is the training design's section 15. Each entry names the schedule that produces it and the counters that prove it did.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from simharness.contracts.records import EventRecord, MutationRecord
from simharness.training.document import Pair

_REASONED: Final = ("TrainReject", "TrainEvict", "TrainPause")
_LATE_NS: Final = 100_000_000
Line = EventRecord | MutationRecord
"""What stands in an event line."""

_Part = tuple[str, int, int]


class Sight(NamedTuple):
    """An entry of the list."""

    says: str
    scenario: str
    """The schedule that shows it."""
    counters: tuple[str, ...]
    """Any of them, under either strategy; the whole name or what stands before its colon."""


NOT_VIOLATIONS: Final = (
    Sight(
        "The effective batch shrinks after a death, and the loss with it becomes noisier.",
        "one_death",
        ("step without a worker",),
    ),
    Sight("A step is given up and begun anew with other members.", "death_mid_reduce", ("step begun anew",)),
    Sight(
        "A worker that died after it had delivered its part is in the commit: it computed the samples while it was alive.",
        "death_after_ready",
        ("contribution of the dead",),
    ),
    Sight(
        "A late, doubled or stale message is refused, and its sender told where it ought to be.",
        "lossy",
        ("TrainReject",),
    ),
    Sight(
        "A minority, or a group too small for min_workers, stops, and goes on without a rollback if it still has the newest state.",
        "hub_isolated",
        ("TrainPause", "TrainView:resumed"),
    ),
    Sight(
        "A worker that is healthy but cut off from a neighbour is put out and fetches the state.",
        "pair_cut",
        ("TrainEvict",),
    ),
    Sight("A slow replica applies a commit long after the others.", "paused_worker", ("late apply", "late adopt")),
    Sight(
        "A worker holds the parameters of a dead branch until it hears of the new generation.",
        "hub_crash",
        ("holder of a dead branch",),
    ),
    Sight("Samples whose owner was absent when the epoch closed are orphans of that epoch.", "one_death", ("orphan",)),
    Sight(
        "Samples are trained on again after a rollback: the first use is no longer on the lineage.",
        "hub_crash",
        ("sample undone",),
    ),
    Sight("The rollback itself, when nobody who could be asked held anything newer.", "total_loss", ("TrainRollback",)),
    Sight(
        "Ring and server end with weights that differ in the last bits: they add in another order.",
        "clean_own",
        ("other last weights",),
    ),
    Sight("The strategies take different times for a step under one schedule.", "straggler", ("step at another time",)),
    Sight("A contribution is empty: its worker's shard is used up.", "clean_own", ("empty contribution",)),
    Sight("A backup worker's part is dropped, in many steps in a row.", "straggler_backup", ("gradient dropped",)),
)


def sightings(sight: Sight, pairs: Mapping[str, Pair]) -> int | None:
    """Return how often an entry of the list was seen in its scenario; None if that was not run."""
    pair = pairs.get(sight.scenario)
    if pair is None:
        return None
    counts = [run.counters for run in pair.runs] + [_between(pair)]
    return sum(
        count
        for counters in counts
        for name, count in counters.items()
        if name in sight.counters or name.partition(":")[0] in sight.counters
    )


def _between(pair: Pair) -> dict[str, int]:
    """Count what shows between the two strategies."""
    times = zip(pair.ring.steps, pair.ps.steps, strict=False)
    return {
        "other last weights": int(pair.ring.last_weights != pair.ps.last_weights),
        "step at another time": sum(one.at_ns != other.at_ns for one, other in times),
    }


def counters(events: Iterable[Line], workers: int) -> dict[str, int]:
    """Count what the records of a run show, by name, sorted."""
    seen = _Seen()
    for record in events:
        seen.take(record)
    found = seen.found
    found["step without a worker"] = sum(0 < each < workers for each in seen.members)
    found["gradient dropped"] = sum(
        bool(count)
        for name, (place, count) in seen.gradients.items()
        if place in seen.commits and name not in seen.parts
    )
    return dict(sorted((+found).items()))


class _Seen:
    """Takes the records of a run, in order."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.members: list[int] = []
        """Members of the view of each commit."""
        self.gradients: dict[_Part, tuple[tuple[int, int, int], int]] = {}
        self.parts: dict[_Part, bool] = {}
        self.commits: dict[tuple[int, int, int], int] = {}
        self._dead: dict[str, bool] = {}
        self._views: dict[int, int] = {}
        self._begun: dict[tuple[int, int], int] = {}
        self._made: dict[tuple[int, int], int] = {}
        self._held: dict[str, int] = {}

    def take(self, record: Line) -> None:
        """Count one record."""
        event = record.event
        kind = str(event["kind"])
        if kind == "Mutation":
            self._mutation(event["mutation"])
        if not kind.startswith("Train"):
            return
        self.found[f"{kind}:{event['why']}" if kind in _REASONED else kind] += 1
        if kind == "TrainView":
            self._view(event)
        elif kind == "TrainGradient":
            self._gradient(record.host_id or "", event)
        elif kind == "TrainCommit":
            self._commit(record.virtual_time_ns, event)
        elif kind == "TrainRollback":
            self.found["holder of a dead branch"] += sum(held > event["step"] for held in self._held.values())
        if kind in ("TrainApply", "TrainAdopt"):
            self._applied(record.virtual_time_ns, kind, event)
        if kind in ("TrainApply", "TrainAdopt", "TrainInstall") and record.kind_tag == "train_worker":
            self._held[record.host_id or ""] = event["step"]

    def _mutation(self, mutation: Mapping[str, Any]) -> None:
        if mutation["kind"] in ("peer_kill", "peer_resurrect"):
            self._dead[mutation["peer"]] = mutation["kind"] == "peer_kill"

    def _view(self, event: Mapping[str, Any]) -> None:
        generation, view, step = event["generation"], event["view"], event["step"]
        self.found[f"TrainView:{event['reason']}"] += 1
        self.found["view of one member"] += len(event["members"]) == 1
        self.found["step begun anew"] += self._begun.get((generation, step), view) != view
        self._views[view] = len(event["members"])

    def _gradient(self, worker: str, event: Mapping[str, Any]) -> None:
        place = event["generation"], event["view"], event["step"]
        self._begun[event["generation"], event["step"]] = event["view"]
        self.gradients[worker, event["incarnation"], event["seq"]] = place, event["count"]

    def _commit(self, at_ns: int, event: Mapping[str, Any]) -> None:
        self.commits[event["generation"], event["view"], event["step"]] = at_ns
        self._made[event["generation"], event["step"] + 1] = at_ns
        self.members.append(self._views.get(event["view"], 0))
        for worker, incarnation, seq, count in event["contributions"]:
            self.parts[worker, incarnation, seq] = True
            self.found["empty contribution"] += count == 0
            self.found["contribution of the dead"] += self._dead.get(worker, False)

    def _applied(self, at_ns: int, kind: str, event: Mapping[str, Any]) -> None:
        made = self._made.get((event["generation"], event["step"]), at_ns)
        self.found[f"late {kind.removeprefix('Train').lower()}"] += at_ns - made >= _LATE_NS
