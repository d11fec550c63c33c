"""Shrinks a failing scenario to a local minimum: nothing that a pass can take away may be taken away.

The failure that counts is an assertion of one kind about one subject, or an abort by one rule at one kind of host. A candidate is
accepted if it is no harsher than the scenario (`gentler`, ruling K11), loads, and fails in that way; where the scenario does not
fail without its mutations, neither may the candidate (ruling K10).
Everything is done in a fixed order, so the same file always shrinks to the same file, and that to itself.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts.assertions import Assertion, EventCount, Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.mutations import kind_of
from simharness.contracts.records import Record
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort, InputError, ScenarioError
from simharness.run import engine_for
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.stateful import smaller
from simharness.stateful.gentler import Gentler

_SUBJECTS: Final = ("peer", "relay", "name", "message_kind", "event_kind")
_WORD: Final = re.compile(r"\w+")


class Failure(NamedTuple):
    """What stays the same while a scenario shrinks."""

    kind: str
    """An assertion's kind, or the rule of an abort."""
    subject: str | None
    """What the assertion is about, or the kind of the host at which the run was aborted."""
    aborts: bool = False

    def __str__(self) -> str:
        """Return all of it in words."""
        if self.aborts:
            return f"abort {self.kind}" + ("" if self.subject is None else f" at a host of kind {self.subject}")
        return self.kind if self.subject is None else f"{self.kind} about {self.subject}"


class Seen(NamedTuple):
    """A failure of one run."""

    at_ns: int
    host: str | None = None
    """Where the run was aborted."""


class Shrunk(NamedTuple):
    """The outcome of a shrink."""

    scenario: Scenario
    failure: Failure
    seen: Seen
    runs: int
    complete: bool
    """Whether a local minimum was reached before the runs were used up."""

    @property
    def failed_at_ns(self) -> int:
        """When the failure shows."""
        return self.seen.at_ns

    def __str__(self) -> str:
        """Return how it still fails."""
        if not self.failure.aborts:
            return f"still fails  {self.failure}"
        return f"still aborts  {self.failure.kind}" + ("" if self.seen.host is None else f" at {self.seen.host}")


def failure_of(assertion: Assertion) -> Failure:
    """Return which failure an assertion stands for."""
    subjects = (getattr(assertion, name, None) for name in _SUBJECTS)
    return Failure(kind_of(assertion), next((subject for subject in subjects if subject is not None), None))


def abort_of(abort: EngineAbort, scenario: Scenario) -> Failure:
    """Return which failure an abort stands for; of an exception of a host its type is part of it."""
    kinds = {peer.id: peer.kind for peer in scenario.peers}
    rule = abort.rule
    if rule == "host-raised" and (raised := _WORD.match(abort.detail)) is not None:
        rule = f"{rule} {raised.group()}"
    return Failure(rule, None if abort.host_id is None else kinds.get(abort.host_id), aborts=True)


class _Nowhere:
    """A sink that keeps nothing: the evaluator sees the records as they are made."""

    def write_record(self, record: Record) -> None:
        """Forget the record."""


class Shrinker:
    """One shrink of one scenario.

    Args:
        scenario: A scenario with at least one failing assertion, or whose run is aborted.
        kinds: The host kinds.
        most_runs: Give up after this many candidate runs.
        progress: Called after every candidate run with the number of runs and the best scenario so far.

    Raises:
        InputError: If no assertion of the scenario fails, and its run comes to its end.
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
        self._known: dict[str, Seen | None] = {}
        self.best = scenario
        try:
            self.failure, self.best = self._failing(scenario, self._judge(scenario))
        except EngineAbort as abort:
            self.failure = abort_of(abort, scenario)
            self.best = self._aborting(scenario)
        seen = self._fails(self.best)
        assert seen is not None, "an assertion fails alone as it fails among others"
        self._seen = seen
        self._by_mutations = not self._fails_untouched(self.best)
        self._gentler = Gentler(self.best, kinds, by_mutations=self._by_mutations)

    def _failing(self, scenario: Scenario, verdicts: tuple[Verdict, ...]) -> tuple[Failure, Scenario]:
        """Keep the assertion that fails first, and let runs that only serve the search stop as soon as it is decided.

        Of a count that is too high, the lower bound goes: else a candidate could fail by having too few.
        """
        failing = [index for index, verdict in enumerate(verdicts) if verdict.outcome == "Fail"]
        if not failing:
            rule = "no assertion fails on this scenario, so there is nothing to shrink"
            if not scenario.assertions:
                rule = (
                    "no assertion is declared and the run comes to its end; what a law finds is shrunk by its property"
                )
            raise InputError(file=scenario.name, field="assertions", rule=rule)
        self.failure = failure_of(scenario.assertions[failing[0]])
        target = scenario.assertions[failing[0]]
        lone = replace(scenario, assertions=(target,), early_terminate_on_all_assertions_resolved=True)
        if isinstance(target, EventCount) and target.min is not None and target.max is not None:
            most = replace(lone, assertions=(replace(target, min=None),))
            lone = most if self._fails(most) is not None else replace(lone, assertions=(replace(target, max=None),))
        return self.failure, lone

    def _aborting(self, scenario: Scenario) -> Scenario:
        """Keep no assertion, unless the run is aborted only because somebody reads its snapshots."""
        whole = replace(scenario, early_terminate_on_all_assertions_resolved=False)
        alone = replace(whole, assertions=())
        return alone if self._fails(alone) is not None else whole

    def _judge(self, scenario: Scenario) -> tuple[Verdict, ...]:
        """Run a scenario in memory and judge it."""
        evaluator = StreamingEvaluator(scenario)
        engine = engine_for(scenario, self._kinds, _Nowhere(), evaluator=evaluator)
        end = engine.run()
        return evaluator.close(end.at_ns, cut=end.reason == "early")

    def _fails(self, scenario: Scenario) -> Seen | None:
        """Return how the failure shows on a candidate, or None if it does not, or if the candidate does not load."""
        text = emit(scenario)
        if text not in self._known:
            self._runs += 1
            self._known[text] = self._try(text)
            if self._progress is not None:
                self._progress(self._runs, self.best)
        return self._known[text]

    def _fails_untouched(self, scenario: Scenario) -> bool:
        """Tell whether a scenario that fails would do so without its mutations, so that they are not the cause."""
        return not scenario.mutations or self._fails(replace(scenario, mutations=())) is not None

    def _try(self, text: str) -> Seen | None:
        try:
            scenario = loads(text, self._kinds)
        except ScenarioError:
            return None
        evaluator = StreamingEvaluator(scenario)
        try:
            end = engine_for(scenario, self._kinds, _Nowhere(), evaluator=evaluator).run()
        except EngineAbort as abort:
            same = abort_of(abort, scenario) == self.failure
            return Seen(abort.at_ns or 0, abort.host_id) if same else None
        verdicts = evaluator.close(end.at_ns, cut=end.reason == "early")
        fails = not self.failure.aborts and verdicts[0].outcome == "Fail"
        return Seen(end.at_ns) if fails else None

    def _accept_first(self, candidates: Iterator[Scenario]) -> bool:
        """Take the first candidate that is no harsher and still fails; tell whether there was one."""
        for candidate in candidates:
            if self._runs >= self._most_runs:
                return False
            if not self._gentler.allows(candidate):
                continue
            seen = self._fails(candidate)
            if seen is not None and not (self._by_mutations and self._fails_untouched(candidate)):
                self.best, self._seen = candidate, seen
                return True
        return False

    def _end_early(self, scenario: Scenario) -> Iterator[Scenario]:
        for end_ns in smaller.ends_to_try(self._seen.at_ns):
            yield from smaller.cut_at(scenario, end_ns)

    def run(self) -> Shrunk:
        """Shrink until no pass finds anything, or the runs are used up."""
        improved = True
        while improved and self._runs < self._most_runs:
            improved = False
            for attempt in (self._end_early, *smaller.PASSES):
                while self._accept_first(attempt(self.best)):
                    improved = True
        final = replace(self.best, early_terminate_on_all_assertions_resolved=False)
        return Shrunk(final, self.failure, self._seen, self._runs, not improved)
