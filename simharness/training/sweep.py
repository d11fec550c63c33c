"""Seeds by the thousand: each a job and a fault schedule, under both strategies and both data policies (training design, 17)."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from simharness.assertions.catalog.training_samples import TrainSampleAccountingFold
from simharness.assertions.catalog.training_update import TrainUpdateMatchesReferenceFold
from simharness.assertions.evaluation import Evaluation
from simharness.assertions.setting import from_scenario
from simharness.assertions.training_oracle.ieee import decode
from simharness.assertions.training_oracle.problem import problem_of
from simharness.assertions.training_oracle.quotient import BOUND, largest_difference
from simharness.assertions.training_oracle.reference import Oracle
from simharness.contracts.assertions import Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.records import EventRecord
from simharness.contracts.scenario import Scenario
from simharness.core.streams import Root
from simharness.scenario.emit import emit
from simharness.stateful.playing import Played, attempt, evaluate
from simharness.training.breaking import aborted, decisive, ended
from simharness.training.coverage import covered, missing
from simharness.training.document import MOST_RATIO_PPM
from simharness.training.schedules import EVERYTHING, POLICIES, STRATEGIES, Case, Mix, Policy, Strategy, scenario_of

TWICE_EVERY: Final = 20
"""One seed in twenty is run twice, and must give one digest; all are with `twice`."""

MOST_UNDISCRIMINATING_PERCENT: Final = 20
"""Of the runs with several workers, at most so many may lack a step that could show a wrong weighting."""

LEAST_SEEDS: Final = 200
"""Of fewer seeds coverage is not asked: in 500 seeds each stretch of 150 met every counter, of 100 one in nine did not (G16)."""

_SEVERAL: Final = 2
Row = dict[str, Any]


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep runs of each seed."""

    strategies: tuple[Strategy, ...] = STRATEGIES
    policies: tuple[Policy, ...] = POLICIES
    most_workers: int = EVERYTHING.most_workers
    twice: bool = False

    @property
    def mix(self) -> Mix:
        """What its schedules are drawn from."""
        return Mix(most_workers=self.most_workers)

    def cases(self, seed: int) -> Iterator[Case]:
        """Yield the runs of a seed, in the order of their rows."""
        for strategy in self.strategies:
            for policy in self.policies:
                yield Case(seed, strategy, policy)

    @property
    def runs_a_seed(self) -> int:
        """How many rows a seed has."""
        return len(self.strategies) * len(self.policies)


def row_of(case: Case, space: Space, kinds: KindRegistry) -> Row:
    """Run one case and return its row."""
    scenario = scenario_of(case, space.mix)
    head: Row = {
        "seed": case.seed,
        "strategy": case.strategy,
        "policy": case.policy,
        "workers": len(scenario.peers) - 1,
        "model": scenario.peers[0].kind_config["model"],
        "replay": replay_of(case, space),
        "scenario_sha256": hashlib.sha256(emit(scenario).encode()).hexdigest(),
    }
    row = head | judged(attempt(scenario, kinds))
    if (space.twice or case.seed % TWICE_EVERY == 0) and ended(attempt(scenario, kinds))[0] != row["digest"]:
        row["outcome"] = "Diverged"
    return row


def replay_of(case: Case, space: Space) -> str:
    """Return the command that runs one case again."""
    most = "" if space.most_workers == EVERYTHING.most_workers else f" --max-workers {space.most_workers}"
    return (
        f"simharness sweep training --seed {case.seed} --strategy {case.strategy} --policy {case.policy}{most} --trace"
    )


def judged(played: Played) -> Row:
    """Return what came of a run. Its `ratio_ppm` stops at `MOST_RATIO_PPM`: a wrong weighting is some 1e14 tolerances off.

    One whose only Inconclusive is that no step discriminated counts as a Pass: how many may is asked of the batch. Of one that was
    stopped it is what came until then, and first what stopped it.
    """
    scenario = played.scenario
    evaluation = evaluate(scenario, played.ordered, played.termination)
    verdicts = [verdict for verdict in evaluation.verdicts() if verdict is not None]
    outcomes = {verdict.kind: verdict.outcome for verdict in verdicts}
    update = _fold(evaluation, TrainUpdateMatchesReferenceFold)
    discriminating = sum(step.discriminates for step in update.steps)
    counts = _counted(played, evaluation, discriminating)
    failed = [verdict for verdict in verdicts if verdict.outcome == "Fail"]
    digest, abort = ended(played)
    doubtful = [kind for kind, outcome in outcomes.items() if outcome == "Inconclusive"]
    doubtful = [kind for kind in doubtful if discriminating or kind != verdicts[0].kind]
    row: Row = {
        "outcome": "Fail" if failed else "Inconclusive" if doubtful else "Pass",
        "failed": [verdict.kind for verdict in failed],
        "notes": [f"{verdict.kind}: {verdict.note or 'no note'}{_when(verdict)}" for verdict in failed],
        "doubtful": doubtful,
        "steps": len(update.steps),
        "discriminating": discriminating,
        "rollbacks": counts["rollback"],
        "ratio_ppm": min(MOST_RATIO_PPM, max((step.worst.ratio_ppm for step in update.steps), default=0)),
        "counters": dict(sorted(counts.items())),
        "digest": digest,
    }
    if not _reference_holds(scenario, played):
        row["outcome"] = "Fail"
        row["failed"].append("reference")
        row["notes"].append("reference: its gradient differs from the difference quotient")
    if abort is not None:
        row |= {"outcome": "Abort", "error": msgspec.to_builtins(abort)}
        row["failed"].insert(0, abort.rule)
        row["notes"].insert(0, aborted(abort))
    return row


def _when(verdict: Verdict) -> str:
    found = decisive(verdict)
    return "" if found is None else f" (at {found.virtual_time_ns} ns)"


def _fold(evaluation: Evaluation, of: type[Any]) -> Any:
    (found,) = [fold for fold in evaluation.folds if isinstance(fold, of)]
    return found


def _counted(played: Played, evaluation: Evaluation, discriminating: int) -> Counter[str]:
    facts = from_scenario(played.scenario).training
    assert facts is not None, "a training job"
    counts = covered(facts, played.ordered.events)
    counts["discriminating step"] = discriminating
    counts["orphan"] = sum(map(len, _fold(evaluation, TrainSampleAccountingFold).orphans.values()))
    return +counts


def _reference_holds(scenario: Scenario, played: Played) -> bool:
    """Compare the reference's gradient with a difference quotient, at the state and the samples of one step of the run.

    At a state that is none, of a wrong length or not finite, there is nothing to compare: invariant 1 speaks of it.
    """
    applied = [
        record.event
        for record in played.ordered.events
        if isinstance(record, EventRecord) and record.event["kind"] == "TrainApply"
    ]
    if not applied:
        return True
    draw = Root(scenario.seed).mutation(1)
    event = applied[draw.below(len(applied))]
    facts = from_scenario(scenario).training
    assert facts is not None
    problem = problem_of(facts.config | {"samples": facts.samples}, facts.seed)
    weights = decode(event["weights"] or "")
    if weights is None or len(weights.values) != len(problem.start):
        return True
    batch = sorted({draw.below(facts.samples) for _ in range(4)})
    gradient = Oracle(problem).gradient_sum(weights, batch)
    return largest_difference(problem, weights, batch, gradient) <= BOUND


class Totals:
    """What a sweep has come to so far; rows are added in the order of cases."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.sums: Counter[str] = Counter()
        self.counters: dict[str, Counter[str]] = {}
        self.ratio_ppm = 0
        self.several = self.discriminating = 0
        self.failing: list[Row] = []
        self._seeds: dict[int, None] = {}

    def add(self, row: Row) -> None:
        """Count one row."""
        strategy = row["strategy"]
        self._seeds[row["seed"]] = None
        self.runs[strategy] += 1
        self.outcomes[row["outcome"]] += 1
        for name in ("steps", "rollbacks"):
            self.sums[name] += row[name]
        self.counters.setdefault(strategy, Counter()).update(row["counters"])
        self.ratio_ppm = max(self.ratio_ppm, row["ratio_ppm"])
        if row["workers"] >= _SEVERAL:
            self.several += 1
            self.discriminating += row["discriminating"] > 0
        if row["outcome"] in ("Fail", "Diverged", "Abort"):
            self.failing.append(row)

    @property
    def stalls(self) -> int:
        """Runs that did not take their steps in the quiet phase."""
        return sum("train_progress" in row["failed"] for row in self.failing)

    @property
    def violations(self) -> int:
        """Runs that broke an invariant, or were aborted by a guard."""
        return sum(any(kind != "train_progress" for kind in row["failed"]) for row in self.failing)

    @property
    def seeds(self) -> int:
        """How many seeds were run."""
        return len(self._seeds)

    @property
    def asked(self) -> bool:
        """Whether there are enough seeds to ask for coverage."""
        return self.seeds >= LEAST_SEEDS

    @property
    def coverage(self) -> str:
        """What is to be said of coverage, in words."""
        if not self.asked:
            return f"too few runs to ask for coverage: {self.seeds} seeds of the {LEAST_SEEDS} from which on every counter is due"
        return "; ".join(self.uncovered) or "every required counter was met"

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Why a batch that is large enough does not show what it is for; empty if it does, or is too small to ask."""
        if not self.asked:
            return ()
        zero = [f"no {name} ({strategy})" for strategy, names in self.zero_counters().items() for name in names]
        share = f"{self.discriminating} of {self.several} runs with several workers discriminate, at least "
        share += f"{100 - MOST_UNDISCRIMINATING_PERCENT} % must"
        return (*zero, *(() if self.discriminates_enough else (share,)))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why a batch without a failing run is inconclusive; empty if it is not."""
        unsure = self.outcomes["Inconclusive"]
        return (*([f"{unsure} runs are Inconclusive"] if unsure else ()), *self.uncovered)

    def zero_counters(self) -> dict[str, tuple[str, ...]]:
        """Return the required counters that no run raised, by strategy; strategies without any are left out."""
        found = {strategy: missing(counts, strategy) for strategy, counts in self.counters.items()}
        return {strategy: names for strategy, names in found.items() if names}

    @property
    def discriminates_enough(self) -> bool:
        """Whether enough of the runs with several workers could have shown a wrong weighting."""
        return (self.several - self.discriminating) * 100 <= MOST_UNDISCRIMINATING_PERCENT * self.several


def report(totals: Totals) -> Mapping[str, Any]:
    """Return the totals as a JSON object."""
    return {
        "seeds": totals.seeds,
        "runs": dict(sorted(totals.runs.items())),
        "outcomes": dict(sorted(totals.outcomes.items())),
        "violations": totals.violations,
        "stalls": totals.stalls,
        "steps": totals.sums["steps"],
        "rollbacks": totals.sums["rollbacks"],
        "worst_ratio_ppm": totals.ratio_ppm,
        "several_workers": totals.several,
        "of_them_discriminating": totals.discriminating,
        "counters": {strategy: dict(sorted(counts.items())) for strategy, counts in sorted(totals.counters.items())},
        "zero_counters": totals.zero_counters(),
        "coverage_asked": totals.asked,
        "doubts": totals.doubts,
        "failing": totals.failing,
    }
