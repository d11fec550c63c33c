"""What changed in the verdicts from one run to the next: the loop of somebody who fixes a protocol."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

Verdicts = Mapping[str, str]
"""What was judged -> its outcome, in declared order."""

_WORST_FIRST: Final = ("Fail", "Inconclusive", "Pass")


def of_run(report: Mapping[str, Any]) -> Verdicts:
    """Return the verdicts of one run out of the report of `simharness run --json`."""
    if "error" in report:
        return {"engine": f"aborted: {report['error']['rule']}"}  # the whole text goes with the turn
    found = {}
    for verdict in report["verdicts"]:
        about = ", ".join(f"{name}={value}" for name, value in verdict["parameters"].items() if name in _SUBJECTS)
        found[f"{verdict['name']} {verdict['kind']}({about})"] = verdict["outcome"]
    return found


_SUBJECTS: Final = ("peer", "relay", "name", "message_kind", "event_kind")


def of_property(rows: Iterable[Mapping[str, Any]]) -> Verdicts:
    """Return the verdicts of a property out of its rows: for each kind, the worst outcome of any example."""
    worst: dict[str, str] = {}
    for one in rows:
        kind, outcome = one["kind"], one["outcome"]
        worst[kind] = min(outcome, worst.get(kind, outcome), key=_WORST_FIRST.index)
    return worst


def changes(before: Verdicts, after: Verdicts) -> list[str]:
    """Return one line for every verdict that is new, gone or different."""
    lines = [
        f"{what}: {before[what]} -> {outcome}" if what in before else f"{what}: new, {outcome}"
        for what, outcome in after.items()
        if before.get(what) != outcome
    ]
    return lines + [f"{what}: gone, was {outcome}" for what, outcome in before.items() if what not in after]


def counted(verdicts: Verdicts) -> str:
    """Return how many verdicts have which outcome."""
    outcomes = list(verdicts.values())
    shown = [*_WORST_FIRST, *dict.fromkeys(outcome for outcome in outcomes if outcome not in _WORST_FIRST)]
    return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in shown if outcome in outcomes) or "no verdict"
