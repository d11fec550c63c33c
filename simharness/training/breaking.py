"""When, where and why a run broke or was stopped: one reading of verdicts and aborts, for rows, scenarios, traces and pages."""

from collections.abc import Sequence
from typing import Final

from simharness.contracts.assertions import TRAINING_INVARIANTS, Evidence, Verdict
from simharness.contracts.records import EventRecord, Record
from simharness.core.errors import EngineAbort
from simharness.core.units import NS_PER_S
from simharness.stateful.playing import Played
from simharness.training.document import Abort, Break, Run

GUARD: Final = "training-guard-"
"""What the rule of an abort begins with if a guard of production raised it (ruling G8)."""

WAY_ON: Final = (
    "a guard of production's own stopped it: `simharness shrink` shrinks the file (of a sweep: by --emit) as it is; with "
    "`guards = false` for every peer in it the invariants judge the run"
)
INVARIANTS: Final = tuple([str(kind.__struct_config__.tag) for kind in TRAINING_INVARIANTS])
_FAR: Final = 1 << 63


def decisive(verdict: Verdict) -> Evidence | None:
    """Return the record at which a rule broke. Folds name it last, after the earlier ones that it contradicts."""
    return verdict.evidence[-1] if verdict.evidence else None


def first_break(verdicts: Sequence[Verdict], events: Sequence[Record]) -> Break | None:
    """Return the earliest violation; of several that one record shows, that of the first invariant. Events are a bundle's lines."""
    failed = [(found, verdict) for verdict in verdicts if verdict.outcome == "Fail" and (found := decisive(verdict))]
    if not failed:
        return None
    found, first = min(failed, key=lambda pair: (pair[0].virtual_time_ns, _line(pair[0])))
    record = events[_line(found)] if _line(found) < len(events) else None
    return Break(
        step=_step(record) if isinstance(record, EventRecord) else _due(events, found.virtual_time_ns),
        at_ns=found.virtual_time_ns,
        worker=(None if record is None else record.host_id) or "-",
        invariant=first.kind,
        note=first.note or "",
        reference=found.event_or_snapshot_ref,
    )


def _line(evidence: Evidence) -> int:
    """Return the line of an event; past all lines for what should have been in the stream and is not."""
    line = evidence.event_or_snapshot_ref.partition(":")[2]
    return int(line) if line else _FAR


def _step(record: EventRecord) -> int:
    """Return the step that a record is of: an apply names the state that it has made."""
    event = record.event
    return max(0, int(event.get("step", 0)) - (event.get("kind") == "TrainApply"))


def _due(events: Sequence[Record], at_ns: int) -> int:
    """Return the step that should have come, and has not by then."""
    commits = [
        record.event["step"]
        for record in events
        if isinstance(record, EventRecord) and record.event["kind"] == "TrainCommit" and record.virtual_time_ns <= at_ns
    ]
    return int(commits[-1]) + 1 if commits else 0


def stopped(played: Played) -> Abort | None:
    """Return what stopped a run, by the virtual time at which it did."""
    abort = played.aborted
    if abort is None:
        return None
    return Abort(rule=abort.rule, host=abort.host_id, at_ns=played.termination.at_ns, detail=abort.detail)


def ended(played: Played) -> tuple[str, Abort | None]:
    """Return the events digest of a run and what stopped it: the rule, too, by which a record can stand in no bundle (B10)."""
    try:
        return played.digest(), stopped(played)
    except EngineAbort as error:
        at_ns = played.termination.at_ns if error.at_ns is None else error.at_ns
        return "", stopped(played) or Abort(rule=error.rule, host=error.host_id, at_ns=at_ns, detail=error.detail)


def aborted(abort: Abort) -> str:
    """Say when, where and why a run was stopped."""
    where = "" if abort.host is None else f", at {abort.host}"
    return f"aborted at {abort.at_ns / NS_PER_S:.6f} s virtual{where}: {abort.rule}, {abort.detail}"


def when_it_fails(run: Run) -> str:
    """Say which invariant fails at which step, or that a run was stopped."""
    if run.broken is None:
        return "invariant 1 stays silent" if run.aborted is None else aborted(run.aborted)
    kind = run.broken.invariant
    what = f"invariant {INVARIANTS.index(kind) + 1}" if kind in INVARIANTS else kind
    return f"{what} fails at step {run.broken.step}"


def way_on(rules: Sequence[str]) -> str:
    """Say what to do next if any of these rules is a guard's; empty if none is."""
    return WAY_ON if any(rule.startswith(GUARD) for rule in rules) else ""
