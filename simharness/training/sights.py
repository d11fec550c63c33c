"""What happened in a run, counted from records where it shows (ruling K8), and what of it is deliberately no violation.

The list is the training design's section 15. Each entry names the schedule that produces it and the counters that prove it did.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from simharness.assertions.training_facts import TrainingFacts
from simharness.contracts.records import EventRecord, MutationRecord
from simharness.training.coverage import covered
from simharness.training.document import Pair

_REASONED: Final = ("TrainReject", "TrainEvict", "TrainPause")
_HOLDING: Final = ("TrainApply", "TrainAdopt", "TrainInstall")
Line = EventRecord | MutationRecord
"""What stands in an event line."""


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
        ("view without a worker",),
    ),
    Sight("A step is given up and begun anew with other members.", "death_mid_reduce", ("abort",)),
    Sight(
        "A worker that died after it had delivered its part is in the commit: it computed the samples while it was alive.",
        "death_after_ready",
        ("death after READY or PUSH",),
    ),
    Sight(
        "A late, doubled or stale message is refused, and its sender told where it ought to be.",
        "lossy",
        ("TrainReject",),
    ),
    Sight(
        "A minority, or a group too small for min_workers, stops, and goes on without a rollback if it still has the newest state.",
        "hub_isolated",
        ("TrainPause",),
    ),
    Sight(
        "A worker that is healthy but cut off from a neighbour is put out and fetches the state.",
        "pair_cut",
        ("TrainEvict",),
    ),
    Sight("A slow replica applies a commit long after the others.", "paused_worker", ("commit applied late",)),
    Sight(
        "A worker holds the parameters of a dead branch until it hears of the new generation.",
        "hub_crash",
        ("holder of a dead branch",),
    ),
    Sight("Samples whose owner was absent when the epoch closed are orphans of that epoch.", "one_death", ("orphan",)),
    Sight(
        "Samples are trained on again after a rollback: the first use is no longer on the lineage.",
        "hub_crash",
        ("trained again",),
    ),
    Sight("The rollback itself, when nobody who could be asked held anything newer.", "total_loss", ("TrainRollback",)),
    Sight(
        "Ring and server end with weights that differ in the last bits: they add in another order.",
        "clean_own",
        ("other last weights",),
    ),
    Sight("The strategies take different times for a step under one schedule.", "straggler", ("step at another time",)),
    Sight("A contribution is empty: its worker's shard is used up.", "clean_own", ("empty contribution",)),
    Sight("A backup worker's part is dropped, in many steps in a row.", "straggler_backup", ("backup dropped",)),
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


def counters(facts: TrainingFacts, events: Sequence[Line]) -> dict[str, int]:
    """Count what event lines show, by name, sorted: the coverage of the run, records by kind and reason, and a little more."""
    found = covered(facts, events)
    held: dict[str, int] = {}
    for record in events:
        event = record.event
        kind = str(event["kind"])
        if not kind.startswith("Train"):
            continue
        found[f"{kind}:{event['why']}" if kind in _REASONED else kind] += 1
        if kind == "TrainView":
            found["view without a worker"] += len(event["members"]) < len(facts.workers)
        elif kind == "TrainRollback":
            found["holder of a dead branch"] += sum(step > event["step"] for step in held.values())
        elif kind in _HOLDING and record.host_id in facts.workers:
            held[record.host_id] = event["step"]
    return dict(sorted((+found).items()))
