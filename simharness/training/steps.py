"""A run's records as a table of steps, with what happened between them and the faults on the same axis."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from sys import float_info
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simharness.assertions.catalog.training_update import JudgedStep, TrainUpdateMatchesReferenceFold
from simharness.assertions.fold import Board
from simharness.assertions.setting import from_scenario
from simharness.assertions.training_oracle.problem import problem_of
from simharness.contracts.assertions import TrainUpdateMatchesReference
from simharness.contracts.mutations import Mutation, as_table, kind_of
from simharness.contracts.records import Record, SnapshotRecord
from simharness.contracts.scenario import Scenario
from simharness.training.document import Mark, Step, Window
from simharness.training.sights import Line, counters

if TYPE_CHECKING:
    from simharness.training.losses import Losses

_PPM: Final = 1_000_000
_MOST_PPM: Final = _PPM * int(float_info.max)
"""A tolerance below the normal range makes a quotient that no float holds."""

_MARKED: Final = {"TrainRollback": "rollback", "TrainPause": "pause", "TrainEvict": "evict"}
_ENDED_BY: Final = {"partition": "heal", "peer_kill": "peer_resurrect"}


class Seen(NamedTuple):
    """What the records of one run show."""

    steps: tuple[Step, ...]
    marks: tuple[Mark, ...]
    windows: tuple[Window, ...]
    counters: dict[str, int]
    last_weights: str


def seen(scenario: Scenario, records: Sequence[Record]) -> Seen:
    """Read a run of a training job whose model has a reference. Records come in the order of a bundle."""
    from simharness.training.losses import Losses  # noqa: PLC0415  # a report is rendered without numpy

    facts = from_scenario(scenario).training
    assert facts is not None, "it is a training job"
    events = [record for record in records if not isinstance(record, SnapshotRecord)]
    losses = Losses(problem_of(facts.config | {"samples": facts.samples}, facts.seed))
    steps = _steps(scenario, events, losses)
    marks = sorted([*_marks(events), *_epoch_ends(steps)], key=lambda mark: (mark.at_ns, mark.step, mark.kind))
    windows = tuple([_placed(window, steps) for window in _windows(scenario)])
    return Seen(steps, tuple(marks), windows, counters(facts, events) | _aborts(marks), _last(events))


def _aborts(marks: Iterable[Mark]) -> dict[str, int]:
    found = sum(mark.kind == "abort" for mark in marks)
    return {"abort": found} if found else {}


def _last(events: Iterable[Line]) -> str:
    """Return the digest of the weights that were applied last."""
    posts = [record.event["post"][0] for record in events if record.event["kind"] == "TrainApply"]
    return str(posts[-1]) if posts else ""


def _steps(scenario: Scenario, events: Iterable[Line], losses: "Losses") -> tuple[Step, ...]:
    fold = TrainUpdateMatchesReferenceFold(TrainUpdateMatchesReference(), from_scenario(scenario), Board(), 0)
    handlers = fold.handlers()
    made: dict[tuple[int, int], bytes] = {}
    for line, record in enumerate(events):
        event = record.event
        kind = event["kind"]
        if kind in handlers:
            handlers[kind](record.virtual_time_ns, record.host_id, event, line)
        if kind == "TrainApply" and event["weights"] is not None:
            made.setdefault((event["generation"], event["step"]), bytes.fromhex(event["weights"]))
    return tuple([step_of(judged, losses.at(made[judged.generation, judged.step + 1])) for judged in fold.steps])


def step_of(judged: JudgedStep, loss: float) -> Step:
    """Return a step as a part of the document, with the loss after it."""
    return Step(
        step=judged.step,
        at_ns=judged.at_ns,
        generation=judged.generation,
        view=judged.view,
        epoch=judged.epoch,
        batch=sum(judged.counts),
        counts=judged.counts,
        ratio=min(judged.worst.ratio_ppm, _MOST_PPM) / _PPM,
        discriminates=judged.discriminates,
        loss=loss,
    )


def _marks(events: Iterable[Line]) -> list[Mark]:
    """Return views after the first, steps that were begun anew, rollbacks, pauses and evictions."""
    marks: list[Mark] = []
    begun: dict[tuple[int, int], int] = {}
    first = True
    for record in events:
        event, at_ns = record.event, record.virtual_time_ns
        kind = event["kind"]
        if kind == "TrainGradient":
            begun[event["generation"], event["step"]] = event["view"]
        elif kind == "TrainView":
            step = event["step"]
            if begun.get((event["generation"], step), event["view"]) != event["view"]:
                marks.append(Mark(kind="abort", at_ns=at_ns, step=step, text=f"step {step} begun anew"))
            members = " ".join(f"{worker}.{incarnation}" for worker, incarnation in event["members"])
            text = f"view {event['view']}: {members} ({event['reason']})"
            if not first:
                marks.append(Mark(kind="view", at_ns=at_ns, step=step, text=text))
            first = False
        elif kind in _MARKED:
            marks.append(Mark(kind=_MARKED[kind], at_ns=at_ns, step=event["step"], text=_text(event)))
    return marks


def _text(event: dict[str, Any]) -> str:
    if event["kind"] == "TrainRollback":
        return f"rollback to step {event['step']}, generation {event['generation']}"
    peer = f"{event['peer']} " if event.get("peer") else ""
    return f"{_MARKED[event['kind']]}: {peer}{event['why']}"


def _epoch_ends(steps: Sequence[Step]) -> list[Mark]:
    return [
        Mark(kind="epoch_end", at_ns=last.at_ns, step=last.step, text=f"epoch {last.epoch} ends")
        for last, following in pairwise(steps)
        if following.generation == last.generation and following.epoch > last.epoch
    ]


class _Fault(NamedTuple):
    kind: str
    text: str
    from_ns: int
    until_ns: int


def _windows(scenario: Scenario) -> list[_Fault]:
    """Return each fault with the time at which it ends: its own, that of what undoes it, or the end of the run."""
    found: list[_Fault] = []
    mutations = scenario.mutations
    for place, mutation in enumerate(mutations):
        table = as_table(mutation)
        kind = kind_of(mutation)
        if kind in ("heal", "peer_resurrect", "worker_exit") or (kind.startswith("clock_") and not _clock(table)):
            continue
        until = mutation.at_ns + table["duration_ns"] if "duration_ns" in table else scenario.duration_ns
        until = min([until, *_undone(mutation, mutations[place + 1 :])])
        found.append(_Fault(kind, _words(table), mutation.at_ns, min(until, scenario.duration_ns)))
    return found


def _clock(table: dict[str, Any]) -> int:
    value: int = table.get("offset_ns", table.get("drift_ppm", 0))
    return value


def _undone(mutation: Mutation, later: Iterable[Mutation]) -> list[int]:
    """Return when a later mutation ends this one."""
    kind, peer = kind_of(mutation), getattr(mutation, "peer", None)
    by = _ENDED_BY.get(kind, kind if kind.startswith("clock_") else "")
    return [other.at_ns for other in later if kind_of(other) == by and getattr(other, "peer", None) == peer][:1]


def _words(table: dict[str, Any]) -> str:
    parts = [str(table["kind"]).replace("_", " ")]
    if "peer" in table:
        parts.append(table["peer"])
    if "peers_a" in table:
        parts.append(f"{' '.join(table['peers_a'])} | {' '.join(table['peers_b'])}")
    if "factor_x100" in table:
        parts.append(f"x{table['factor_x100'] / 100:g}")
    if "prob_ppm" in table:
        parts.append(f"{table['prob_ppm'] / 10_000:g} %")
    if "offset_ns" in table:
        parts.append(f"{table['offset_ns'] / 1e6:+g} ms")
    if "drift_ppm" in table:
        parts.append(f"{table['drift_ppm']:+d} ppm")
    return " ".join(parts)


def _placed(fault: _Fault, steps: Sequence[Step]) -> Window:
    return Window(
        kind=fault.kind,
        text=fault.text,
        from_ns=fault.from_ns,
        until_ns=fault.until_ns,
        from_step=_on_axis(fault.from_ns, steps),
        until_step=_on_axis(fault.until_ns, steps),
    )


def _on_axis(at_ns: int, steps: Sequence[Step]) -> float:
    """Return where a time lies on the axis of steps, between the steps before and after it."""
    times = [step.at_ns for step in steps]
    place = bisect_left(times, at_ns)
    if not steps:
        return 0.0
    if place in (0, len(steps)):
        return float(steps[place - 1].step if place else steps[0].step)
    before, after = steps[place - 1], steps[place]
    if after.step <= before.step:
        return float(before.step)
    return round(before.step + (at_ns - before.at_ns) / (after.at_ns - before.at_ns), 3)
