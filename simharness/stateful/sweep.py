"""One seed of a sweep: its scenario, its run, its row. No Hypothesis, no files; rows are the same whoever computes them."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from simharness.contracts.assertions import Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.mutations import kind_of
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort
from simharness.scenario.emit import emit
from simharness.stateful.coverage import DelayEffects, count
from simharness.stateful.laws import Law, judged_by
from simharness.stateful.playing import play

TWICE_EVERY: Final = 20
"""One seed in twenty is run twice, and must give one digest."""

Row = dict[str, Any]


class Source(Protocol):
    """Where a sweep takes the scenario of a seed from."""

    @property
    def name(self) -> str:
        """What rows call it."""
        ...

    @property
    def laws(self) -> tuple[Law, ...]:
        """What must hold besides the scenario's own assertions."""
        ...

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of a seed; a pure function of the seed."""
        ...


class FileSource(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario file whose seed is varied."""

    name: str
    base: Scenario
    laws: tuple[Law, ...] = ()

    def scenario(self, seed: int) -> Scenario:
        """Return the file's scenario under another seed."""
        return msgspec.structs.replace(self.base, seed=seed)


def row_of(source: Source, seed: int, kinds: KindRegistry) -> Row:
    """Run one seed and return its row."""
    scenario = source.scenario(seed)
    head: Row = {
        "space": source.name,
        "seed": seed,
        "scenario_sha256": hashlib.sha256(emit(scenario).encode()).hexdigest(),
    }
    try:
        result, digest = _judged(scenario, source.laws, kinds)
        if seed % TWICE_EVERY == 0 and _judged(scenario, source.laws, kinds)[1] != digest:
            result["outcome"] = "Diverged"
    except EngineAbort as abort:
        return head | {"outcome": "Abort", "error": {"rule": abort.rule, "host": abort.host_id, "at_ns": abort.at_ns}}
    return head | result


def _judged(scenario: Scenario, laws: Sequence[Law], kinds: KindRegistry) -> tuple[Row, str]:
    effects = DelayEffects()
    for mutation in scenario.mutations:
        effects.follow(mutation)
    played = play(scenario, kinds, observer=effects if scenario.mutations else None)
    verdicts = (*played.verdicts(), *judged_by(laws, scenario, played.records))
    effect = count(played.records, scenario.mutations, verdicts, effects)
    faults = dict.fromkeys(sorted(kind_of(mutation) for mutation in scenario.mutations), 0)
    digest = played.digest()
    row = {
        "outcome": _worst(verdicts),
        "events_sha256": digest,
        "verdicts": dict(sorted(Counter[str](verdict.outcome for verdict in verdicts).items())),
        "failed": [_about(verdict) for verdict in verdicts if verdict.outcome == "Fail"],
        "faults": {kind: effect[kind] for kind in faults},
    }
    return row, digest


def _worst(verdicts: Sequence[Verdict]) -> str:
    outcomes = [verdict.outcome for verdict in verdicts]
    return next(outcome for outcome in ("Fail", "Inconclusive", "Pass") if outcome in outcomes or outcome == "Pass")


def _about(verdict: Verdict) -> dict[str, Any]:
    evidence = verdict.evidence[0] if verdict.evidence else None
    return {
        "name": verdict.name,
        "kind": verdict.kind,
        "peer": verdict.parameters.get("peer"),
        "at_ns": None if evidence is None else evidence.virtual_time_ns,
    }


class Totals:
    """What a sweep has come to so far; rows are added in the order of seeds."""

    def __init__(self) -> None:
        self.seeds = 0
        self.outcomes: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.faults: dict[str, int] = {}
        """Fault kind -> events that show an effect, 0 for a kind that was injected and had none."""
        self.failing: dict[str, Row] = {}
        """Outcome worse than Inconclusive -> the first row that has it."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row."""
        self.seeds += 1
        outcome = row["outcome"]
        self.outcomes[outcome] += 1
        self.verdicts.update(row.get("verdicts", {}))
        for kind, seen in row.get("faults", {}).items():
            self.faults[kind] = self.faults.get(kind, 0) + seen
        if outcome in ("Fail", "Diverged", "Abort"):
            self.failing.setdefault(outcome, dict(row))

    @property
    def first_failing(self) -> Row | None:
        """The row of the lowest seed that failed in any way."""
        return min(self.failing.values(), key=lambda row: row["seed"], default=None)

    @property
    def silent(self) -> tuple[str, ...]:
        """The fault kinds that were injected and never had an effect."""
        return tuple(kind for kind, seen in sorted(self.faults.items()) if not seen)
