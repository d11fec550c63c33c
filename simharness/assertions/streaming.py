"""The streaming side (§10.4): the same folds, fed while the run goes on."""

from simharness.assertions.evaluation import Evaluation
from simharness.assertions.fold import Mark
from simharness.assertions.setting import from_scenario
from simharness.bundle.lines import snapshot_object
from simharness.contracts.assertions import Verdict
from simharness.contracts.records import Record, SnapshotRecord
from simharness.contracts.scenario import Scenario


class StreamingEvaluator:
    """A `LiveEvaluator`. Evidence names a record by its sequence, as `record:<sequence>`: lines are numbered when a run is over."""

    def __init__(self, scenario: Scenario) -> None:
        self._evaluation = Evaluation(from_scenario(scenario), _cite)
        self._feed = self._evaluation.feed
        self._reported = 0

    def observe(self, record: Record) -> None:
        """Take one record, in order of emission.

        Raises:
            EngineAbort: `unwritable-snapshot`, if a host's snapshot is not one JSON object.
        """
        if type(record) is not SnapshotRecord:
            self._feed.event(
                record.virtual_time_ns,
                record.host_id,
                record.kind_tag,
                record.event,  # type: ignore[union-attr]  # no snapshot
                record.sequence,
            )
        elif self._feed.wants_snapshot(record.host_id):
            self._feed.snapshot(record.virtual_time_ns, record.host_id, snapshot_object(record), record.sequence)

    def all_final(self, now_ns: int) -> bool:
        """Tell whether every assertion has its final verdict, all dispatches before `now_ns` being over (ruling V1)."""
        self._feed.advance(now_ns)
        return self._feed.all_final

    def newly_final(self) -> tuple[int, ...]:
        """Return the places of the assertions that became final since the last call, in that order."""
        finals = self._evaluation.board.finals
        fresh = tuple(finals[self._reported :])
        self._reported = len(finals)
        return fresh

    def verdict(self, place: int) -> Verdict | None:
        """Return the verdict of one assertion, or None while it is open."""
        return self._evaluation.verdict(place)

    def verdicts(self) -> tuple[Verdict | None, ...]:
        """Return every verdict on the records so far, in declared order; None stands for an open one."""
        return self._evaluation.verdicts()

    def close(self, end_ns: int, *, cut: bool = False) -> tuple[Verdict, ...]:
        """End the run at `end_ns` and return all verdicts.

        Args:
            end_ns: When the run ended; bounds up to then are passed.
            cut: Whether it ended before its time, early or by an abort: what holds for a whole run is then not shown (ruling V2).
        """
        self._feed.close(end_ns, cut=cut)
        return tuple(verdict for verdict in self.verdicts() if verdict is not None)


def _cite(mark: Mark) -> str:
    return f"record:{mark.key}"
