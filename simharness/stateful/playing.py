"""One run in memory: play a scenario, judge its records as a finished bundle and as a stream, find where two runs differ."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple

from simharness.assertions.evaluation import EVENTS, Evaluation
from simharness.assertions.fold import Mark
from simharness.assertions.setting import from_scenario
from simharness.assertions.streaming import StreamingEvaluator
from simharness.bundle.digest import event_lines
from simharness.bundle.lines import snapshot_object
from simharness.bundle.memory import MemorySink
from simharness.contracts.assertions import Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.ports import DeliveryObserver
from simharness.contracts.records import Record, SnapshotRecord, Termination
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort
from simharness.run import engine_for


class Played:
    """A run that is over, whose records are still in memory, in order of emission."""

    def __init__(
        self, scenario: Scenario, sink: MemorySink, termination: Termination, aborted: EngineAbort | None = None
    ) -> None:
        self.scenario, self.termination = scenario, termination
        self.aborted = aborted
        """What stopped it before its end; None unless `attempt` has run it."""
        self._sink = sink

    @property
    def records(self) -> Sequence[Record]:
        """Every record of the run."""
        return self._sink.records

    @cached_property
    def ordered(self) -> "Ordered":
        """The records in the order of a bundle."""
        return in_bundle_order(self.records)

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return what the finished bundle of this run would say."""
        return judge(self.scenario, self.ordered, self.termination)

    def digest(self) -> str:
        """Return the digest that its `events.ndjson` would have."""
        return self._sink.events_digest()


def play(scenario: Scenario, kinds: KindRegistry, *, observer: DeliveryObserver | None = None) -> Played:
    """Run a scenario from beginning to end.

    Raises:
        EngineAbort: If the run cannot go on.
        InputError: If a kind is not known.
    """
    sink = MemorySink()
    termination = engine_for(scenario, kinds, sink, observer=observer).run()
    return Played(scenario, sink, termination)


def attempt(scenario: Scenario, kinds: KindRegistry) -> Played:
    """Run a scenario as far as it goes: one that cannot go on is returned with its records up to there, and with its abort.

    Raises:
        InputError: If a kind is not known.
    """
    sink, engine = MemorySink(), None
    try:
        engine = engine_for(scenario, kinds, sink)
        return Played(scenario, sink, engine.run())
    except EngineAbort as abort:  # its own time is that of the host's clock, which may be wrong
        ended = None if engine is None else engine.termination
        return Played(scenario, sink, ended or Termination(reason="aborted", at_ns=0, detail=str(abort)), abort)


class Ordered(NamedTuple):
    """Records in the order of a bundle: event lines, and snapshots numbered per host."""

    events: list[Record]
    snapshots: list[tuple[SnapshotRecord, int]]


_IN_TIME: Final = attrgetter("virtual_time_ns", "sequence")


def in_bundle_order(records: Iterable[Record]) -> Ordered:
    """Sort records as the bundle does: by time and sequence; snapshots by time and host, numbered per host."""
    events: list[Record] = []
    taken: list[SnapshotRecord] = []
    for record in records:
        if isinstance(record, SnapshotRecord):
            taken.append(record)
        else:
            events.append(record)
    events.sort(key=_IN_TIME)
    taken.sort(key=lambda record: (record.virtual_time_ns, record.host_id, record.sequence))
    numbers: dict[str, int] = {}
    numbered = []
    for record in taken:
        numbers[record.host_id] = number = numbers.get(record.host_id, -1) + 1
        numbered.append((record, number))
    return Ordered(events, numbered)


def judge(scenario: Scenario, ordered: Ordered, termination: Termination) -> tuple[Verdict, ...]:
    """Judge a finished run like the post-run side."""
    return tuple(verdict for verdict in evaluate(scenario, ordered, termination).verdicts() if verdict is not None)


def evaluate(scenario: Scenario, ordered: Ordered, termination: Termination) -> Evaluation:
    """Feed a finished run to the folds of its assertions, the snapshots of an instant after its events."""
    evaluation = Evaluation(from_scenario(scenario), _cite)
    feed = evaluation.feed
    events, snapshots = ordered
    waiting = iter(snapshots)
    due = next(waiting, None)
    for line, event in enumerate(events):
        while due is not None and due[0].virtual_time_ns < event.virtual_time_ns:
            _feed_snapshot(evaluation, *due)
            due = next(waiting, None)
        feed.event(event.virtual_time_ns, event.host_id, event.kind_tag, event.event, line)  # type: ignore[union-attr]  # no snapshot
    while due is not None:
        _feed_snapshot(evaluation, *due)
        due = next(waiting, None)
    feed.close(termination.at_ns, cut=termination.reason != "duration")
    return evaluation


def _feed_snapshot(evaluation: Evaluation, record: SnapshotRecord, number: int) -> None:
    if evaluation.feed.wants_snapshot(record.host_id):
        evaluation.feed.snapshot(record.virtual_time_ns, record.host_id, snapshot_object(record), number)


def _cite(mark: Mark) -> str:
    return f"snapshots/{mark.host}/{mark.key}.json" if mark.host else f"{EVENTS}:{mark.key}"


def stream(scenario: Scenario, records: Iterable[Record], termination: Termination) -> tuple[Verdict, ...]:
    """Judge the same records in order of emission, like the streaming side."""
    evaluator = StreamingEvaluator(scenario)
    for record in records:
        evaluator.observe(record)
    return evaluator.close(termination.at_ns, cut=termination.reason != "duration")


def disagreements(
    ordered: Ordered, post_run: Sequence[Verdict], streaming: Sequence[Verdict]
) -> list[tuple[Verdict, Verdict]]:
    """Return the pairs of verdicts that differ in outcome, or in time or record of their evidence (ruling V6)."""
    differing = []
    for late, early in zip(post_run, streaming, strict=True):
        meant = [(item.virtual_time_ns, _running_name(item.event_or_snapshot_ref, ordered)) for item in late.evidence]
        shown = [(item.virtual_time_ns, item.event_or_snapshot_ref) for item in early.evidence]
        if late.outcome != early.outcome or shown != meant:
            differing.append((late, early))
    return differing


def _running_name(reference: str, ordered: Ordered) -> str:
    """Return how the stream names the record that a bundle's reference names."""
    file, _, line = reference.partition(":")
    if line:
        return f"record:{ordered.events[int(line)].sequence}"
    for record, number in ordered.snapshots:
        if file == f"snapshots/{record.host_id}/{number}.json":
            return f"record:{record.sequence}"
    return reference


def first_difference(one: Iterable[Record], two: Iterable[Record]) -> str | None:
    """Return where the event lines of two runs first differ, both lines shown; None if they are the same."""
    left, right = list(event_lines(one)), list(event_lines(two))
    for line in range(max(len(left), len(right))):
        a = left[line] if line < len(left) else b"(no such line)"
        b = right[line] if line < len(right) else b"(no such line)"
        if a != b:
            return f"{EVENTS}:{line}\n  first run:  {a.decode().strip()}\n  second run: {b.decode().strip()}"
    return None
