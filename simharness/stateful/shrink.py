"""Shrinks a failing scenario to a local minimum: nothing that a pass can take away may be taken away.

The failure that counts is an assertion of one kind about one subject. A candidate is accepted if it loads, and that assertion
fails on it; where the scenario does not fail without its mutations, neither may the candidate (ruling K10).
Everything is done in a fixed order, so the same file always shrinks to the same file, and that to itself.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import msgspec

from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts.assertions import Assertion, Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.mutations import kind_of
from simharness.contracts.records import Record
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort, InputError, ScenarioError
from simharness.run import engine_for
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.stateful import smaller

SEEDS_TRIED: Final = 256
_SUBJECTS: Final = ("peer", "relay", "name", "message_kind", "event_kind")


class Failure(NamedTuple):
    """What stays the same while a scenario shrinks: the kind of the assertion and what it is about."""

    kind: str
    subject: str | None

    def __str__(self) -> str:
        """Return both in words."""
        return self.kind if self.subject is None else f"{self.kind} about {self.subject}"


class Shrunk(NamedTuple):
    """The outcome of a shrink."""

    scenario: Scenario
    failure: Failure
    failed_at_ns: int
    runs: int
    complete: bool
    """Whether a local minimum was reached before the runs were used up."""


def failure_of(assertion: Assertion) -> Failure:
    """Return which failure an assertion stands for."""
    subjects = (getattr(assertion, name, None) for name in _SUBJECTS)
    return Failure(kind_of(assertion), next((subject for subject in subjects if subject is not None), None))


class _Nowhere:
    """A sink that keeps nothing: the evaluator sees the records as they are made."""

    def write_record(self, record: Record) -> None:
        """Forget the record."""


class Shrinker:
    """One shrink of one scenario.

    Args:
        scenario: A scenario with at least one failing assertion.
        kinds: The host kinds.
        most_runs: Give up after this many candidate runs.
        progress: Called after every candidate run with the number of runs and the best scenario so far.

    Raises:
        InputError: If no assertion of the scenario fails.
    """

    def __init__(
        self,
        scenario: Scenario,
        kinds: KindRegistry,
        *,
        most_runs: int = 5_000,
        progress: Callable[[int, Scenario], None] | None = None,
    ) -> None:
        self._kinds, self._most_runs, self._progress = kinds, most_runs, progress
        self._runs = 0
        self._known: dict[str, int | None] = {}
        verdicts = self._judge(scenario)
        failing = [index for index, verdict in enumerate(verdicts) if verdict.outcome == "Fail"]
        if not failing:
            rule = "no assertion fails on this scenario, so there is nothing to shrink"
            raise InputError(file=scenario.name, field="assertions", rule=rule)
        target = scenario.assertions[failing[0]]
        self.failure = failure_of(target)
        self.best = self._lone(scenario, target)
        failed_at_ns = self._fails(self.best)
        assert failed_at_ns is not None, "an assertion fails alone as it fails among others"
        self._by_mutations = not self._fails_untouched(self.best)
        self._failed_at_ns = failed_at_ns

    def _lone(self, scenario: Scenario, target: Assertion) -> Scenario:
        """Keep the one assertion, and let runs that only serve the search stop as soon as it is decided."""
        return msgspec.structs.replace(scenario, assertions=(target,), early_terminate_on_all_assertions_resolved=True)

    def _judge(self, scenario: Scenario) -> tuple[Verdict, ...]:
        """Run a scenario in memory and judge it."""
        evaluator = StreamingEvaluator(scenario)
        engine = engine_for(scenario, self._kinds, _Nowhere(), evaluator=evaluator)
        end = engine.run()
        return evaluator.close(end.at_ns, cut=end.reason == "early")

    def _fails(self, scenario: Scenario) -> int | None:
        """Return when the failure shows on a candidate, or None if it does not, or if the candidate does not load."""
        text = emit(scenario)
        if text not in self._known:
            self._runs += 1
            self._known[text] = self._try(text)
            if self._progress is not None:
                self._progress(self._runs, self.best if hasattr(self, "best") else scenario)
        return self._known[text]

    def _fails_untouched(self, scenario: Scenario) -> bool:
        """Tell whether a scenario that fails would do so without its mutations, so that they are not the cause."""
        return not scenario.mutations or self._fails(msgspec.structs.replace(scenario, mutations=())) is not None

    def _try(self, text: str) -> int | None:
        try:
            scenario = loads(text, self._kinds)
            evaluator = StreamingEvaluator(scenario)
            end = engine_for(scenario, self._kinds, _Nowhere(), evaluator=evaluator).run()
        except (ScenarioError, EngineAbort):
            return None
        (verdict,) = evaluator.close(end.at_ns, cut=end.reason == "early")
        return end.at_ns if verdict.outcome == "Fail" else None

    def _accept_first(self, candidates: Iterator[Scenario]) -> bool:
        """Take the first candidate that still fails; tell whether there was one."""
        for candidate in candidates:
            if self._runs >= self._most_runs:
                return False
            failed_at_ns = self._fails(candidate)
            if failed_at_ns is not None and not (self._by_mutations and self._fails_untouched(candidate)):
                self.best, self._failed_at_ns = candidate, failed_at_ns
                return True
        return False

    def _end_early(self, scenario: Scenario) -> Iterator[Scenario]:
        for end_ns in smaller.ends_to_try(self._failed_at_ns):
            yield from smaller.cut_at(scenario, end_ns)

    def run(self) -> Shrunk:
        """Shrink until no pass finds anything, or the runs are used up."""
        passes: tuple[smaller.Pass, ...] = (
            self._end_early,
            smaller.without_mutations,
            smaller.without_peers,
            smaller.without_links,
            smaller.without_snapshots,
            partial(smaller.lower_seeds, most=SEEDS_TRIED),
            smaller.shorter,
            smaller.milder,
        )
        improved = True
        while improved and self._runs < self._most_runs:
            improved = False
            for attempt in passes:
                while self._accept_first(attempt(self.best)):
                    improved = True
        final = msgspec.structs.replace(self.best, early_terminate_on_all_assertions_resolved=False)
        return Shrunk(final, self.failure, self._failed_at_ns, self._runs, not improved)
