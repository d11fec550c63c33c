"""What the session has shown: a table of the properties, and the counters that never fired."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from simharness.assertions.absence import remark
from simharness.stateful.session import Ledger

MOST_INCONCLUSIVE_PERCENT: Final = 10
_EVENT: Final = "event:"
_LEAST_WIDTH: Final = 110
_OUTCOMES: Final = ("Pass", "Fail", "Inconclusive")


class PropertySummary(msgspec.Struct, kw_only=True):
    """One property's session in plain numbers; this is what a worker sends to the controller."""

    name: str
    examples: int
    rules: int
    reruns: int
    outcomes: dict[str, int]
    counters: dict[str, int]
    requires: list[str]
    failed: bool
    remarks: dict[str, str] = {}
    """What is to be said of kinds of events that a Pass has bounded and that never occurred (ruling C10)."""


def summary_of(name: str, ledger: Ledger, requires: Sequence[str]) -> PropertySummary:
    """Return the summary of a ledger."""
    return PropertySummary(
        name=name,
        examples=ledger.examples,
        rules=ledger.rules,
        reruns=ledger.reruns,
        outcomes=dict(ledger.outcomes),
        counters=dict(ledger.counters),
        requires=list(requires),
        failed=bool(ledger.failures),
        remarks=_remarks(ledger),
    )


def _remarks(ledger: Ledger) -> dict[str, str]:
    occurred = [name.removeprefix(_EVENT) for name in ledger.counters if name.startswith(_EVENT)]
    return {
        name: remark(name, (*known, *occurred), complete=complete)
        for name, (known, complete) in ledger.bounded.items()
        if name not in known and name not in occurred
    }


def too_inconclusive(outcomes: Mapping[str, int]) -> str | None:
    """Return what is wrong if more than a tenth of the verdicts are Inconclusive, else None."""
    total, open_ones = sum(outcomes.values()), outcomes.get("Inconclusive", 0)
    if open_ones * 100 <= total * MOST_INCONCLUSIVE_PERCENT:
        return None
    allowed = f"{MOST_INCONCLUSIVE_PERCENT} % are allowed"
    return f"{open_ones} of {total} verdicts are Inconclusive: the property says too little; {allowed}"


def added_up(summaries: Sequence[PropertySummary]) -> list[PropertySummary]:
    """Return one summary a property, by name; one property may run in several tests and workers."""
    found: dict[str, PropertySummary] = {}
    for item in sorted(summaries, key=lambda item: item.name):
        total = found.setdefault(
            item.name,
            PropertySummary(
                name=item.name, examples=0, rules=0, reruns=0, outcomes={}, counters={}, requires=[], failed=False
            ),
        )
        total.examples += item.examples
        total.rules += item.rules
        total.reruns += item.reruns
        total.outcomes = dict(Counter(total.outcomes) + Counter(item.outcomes))
        total.counters = dict(Counter(total.counters) + Counter(item.counters))
        total.requires = list(dict.fromkeys((*total.requires, *item.requires)))
        total.failed |= item.failed
        total.remarks = {**item.remarks, **total.remarks}
    return list(found.values())


def silent_counters(summaries: Sequence[PropertySummary]) -> list[str]:
    """Return a line for every required counter that stayed zero, naming the rule that would have to fire."""
    return [
        f"{item.name}: counter {counter} is zero; {_how_to_raise(counter)}"
        for item in summaries
        for counter in item.requires
        if not item.counters.get(counter)
    ]


def doubtful_passes(summaries: Sequence[PropertySummary]) -> list[str]:
    """Return a line for every kind of event that a Pass has bounded though nobody is known to record it (ruling C10)."""
    return [
        f"{item.name}: {said}"
        for item in summaries
        for name, said in sorted(item.remarks.items())
        if not item.counters.get(f"{_EVENT}{name}")
    ]


def _how_to_raise(counter: str) -> str:
    prefix, colon, rest = counter.partition(":")
    if not colon:
        return f"no rule `{counter}` had an effect that could be seen"
    return {
        "precondition": f"every verdict of {rest} is Inconclusive",
        "drop": f"no message was dropped for the reason {rest}",
    }.get(prefix, f"no host did {rest}")


def table(summaries: Sequence[PropertySummary], *, width: int, colour: bool) -> str:
    """Return the table of the properties as text."""
    grid = Table(title="library properties", box=box.SIMPLE, title_justify="left")
    grid.add_column("property", no_wrap=True)
    for heading in ("examples", "twice", *_OUTCOMES):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("faults with an effect", min_width=24)
    for item in summaries:
        faults = ", ".join(f"{name} {seen}" for name, seen in sorted(item.counters.items()) if ":" not in name)
        counts = (str(item.outcomes.get(outcome, 0)) for outcome in _OUTCOMES)
        style = "red" if item.failed else None
        grid.add_row(item.name, str(item.examples), str(item.reruns), *counts, faults or "none", style=style)
    console = Console(width=max(width, _LEAST_WIDTH), force_terminal=colour, no_color=not colour, highlight=False)
    with console.capture() as capture:
        console.print(grid)
    return capture.get()


def plain(summary: PropertySummary) -> Any:
    """Return a summary as what a worker can send."""
    return msgspec.to_builtins(summary)


def from_plain(value: Any) -> PropertySummary:
    """Return the summary that a worker has sent."""
    return msgspec.convert(value, PropertySummary)
