"""What is done with a finished run: judge it twice, run it again if asked, count, and report what failed."""

import inspect
from collections import Counter
from collections.abc import Sequence

import msgspec

from simharness.assertions.evaluation import plain
from simharness.contracts.assertions import Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.scenario import Scenario
from simharness.core.canonical_json import compact
from simharness.core.errors import EngineAbort
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.stateful.coverage import DelayEffects, count
from simharness.stateful.failures import Failure, of_verdicts
from simharness.stateful.laws import Law, judged_by
from simharness.stateful.playing import Played, disagreements, first_difference, play, stream
from simharness.stateful.session import Ledger


class Conclusion(msgspec.Struct, frozen=True):
    """What one run came to."""

    verdicts: tuple[Verdict, ...]
    counters: Counter[str]
    failure: Failure | None


def conclude(
    played: Played,
    kinds: KindRegistry,
    *,
    again: bool,
    delays: DelayEffects,
    test_id: str,
    laws: Sequence[Law] = (),
) -> Conclusion:
    """Judge a run.

    Args:
        played: The run.
        kinds: Where its host kinds are found.
        again: Run its scenario file again even if nothing failed.
        delays: What was counted while it went on.
        test_id: The test it belongs to.
        laws: What else must hold; their verdicts follow those of the assertions.
    """
    scenario, records = played.scenario, played.records
    about = {"property_name": scenario.name, "scenario": scenario, "test_id": test_id}
    declared = played.verdicts()
    verdicts = (*declared, *judged_by(laws, scenario, records))
    counters = count(records, scenario.mutations, verdicts, delays)
    digest = played.digest() if again else ""
    claims = {law.name: claim_of(law) for law in laws}
    failure = of_verdicts(verdicts, records, digest=digest, claims=claims, **about)
    differing = disagreements(played.ordered, declared, stream(scenario, records, played.termination))
    if differing:
        late, early = differing[0]
        headline = f"{late.name} {late.kind}: {late.outcome} of the bundle, {early.outcome} of the stream"
        failure = Failure(kind="disagreement", headline=headline, **about)  # type: ignore[arg-type]
    if again or failure is not None:
        difference = first_difference_again(played, kinds)
        if difference is not None:
            headline = f"two runs of one scenario differ in {scenario.name}"
            evidence = tuple(difference.splitlines())
            failure = Failure(kind="nondeterminism", headline=headline, evidence=evidence, **about)  # type: ignore[arg-type]
    return Conclusion(verdicts, counters, failure)


def claim_of(law: Law) -> str:
    """Return what a law says, in one line: the first paragraph of its check's docstring."""
    return " ".join((inspect.getdoc(getattr(law.check, "func", law.check)) or "").partition("\n\n")[0].split())


def first_difference_again(played: Played, kinds: KindRegistry) -> str | None:
    """Run the scenario file of a run and return where the events differ, None if they are the same."""
    try:
        second = play(loads(emit(played.scenario), kinds, name=played.scenario.name), kinds)
    except EngineAbort as abort:
        return f"the second run was aborted: {abort}"
    return None if second.digest() == played.digest() else first_difference(played.records, second.records)


def aborted(abort: EngineAbort, scenario: Scenario, *, test_id: str) -> Failure:
    """Return the failure of a run that could not go on."""
    return Failure(
        kind="engine_abort",
        headline=f"{abort} in {scenario.name}",
        property_name=scenario.name,
        scenario=scenario,
        test_id=test_id,
    )


def enter(ledger: Ledger, seed: int, conclusion: Conclusion) -> None:
    """Write one run into its property's ledger: a row a verdict, the outcomes, the counters."""
    for verdict in conclusion.verdicts:
        ledger.outcomes[verdict.outcome] += 1
        ledger.rows.append(compact({"example": ledger.examples, "seed": seed, **plain(verdict)}))
    ledger.counters.update(conclusion.counters)
    if conclusion.failure is not None:
        ledger.failures[conclusion.failure.kind] = conclusion.failure
        ledger.diverged |= conclusion.failure.kind == "nondeterminism"


def outcomes(verdicts: Sequence[Verdict]) -> Counter[str]:
    """Return how many verdicts have each outcome."""
    return Counter(verdict.outcome for verdict in verdicts)
