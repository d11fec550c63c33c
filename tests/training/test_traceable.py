"""Every number on the page is one of `report.json`: as it stands there, in another unit, or a sum or count of what stands there."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import msgspec

from simharness.training import report as reports
from simharness.training.document import Report
from simharness.training.known import KNOWN
from simharness.training.page import page
from simharness.training.sights import NOT_VIOLATIONS, sightings
from simharness.training.sweep import LEAST_SEEDS
from tests.training.reports import small

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
SENTENCE = 8
"""What is shorter is a name or a number by itself."""
FORMS = ("{}", "{:,}", "{:.3g}", "{:#.3g}", "{:.4g}", "{:,.0f}", "{:.3f}", "{:.2f}")


class Words(HTMLParser):
    """The text of a page, scripts and styles left out."""

    def __init__(self) -> None:
        super().__init__()
        self._hidden = 0
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.texts.append(data.strip())


def texts(report: Report) -> list[str]:
    """What a reader reads."""
    found = Words()
    found.feed(page(report))
    return found.texts


def leaves(value: Any) -> Iterator[int | float | str]:
    """The numbers and words of a document, and how many entries its lists have."""
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        yield len(value)
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, int | float | str) and not isinstance(value, bool):
        yield value


def totals(report: Report) -> Iterator[int]:
    """What the page adds up."""
    steps = [step for run in report.runs for step in run.steps]
    yield from (len(report.runs), len(steps), sum(step.discriminates for step in steps))
    for run in report.runs:
        yield from (run.discriminating, len(run.steps))
    for kind in {judged.kind for run in report.runs for judged in run.verdicts}:
        outcomes = [judged.outcome for run in report.runs for judged in run.verdicts if judged.kind == kind]
        yield from map(outcomes.count, ("Pass", "Fail", "Inconclusive"))
    pairs = {pair.name: pair for pair in report.pairs}
    yield from (sightings(sight, pairs) or 0 for sight in NOT_VIOLATIONS)
    some = [row for row in report.sweep if row.workers > 1]
    yield from (len({row.seed for row in report.sweep}), LEAST_SEEDS)  # the second is the rule's, not the report's
    yield from (len(some), sum(row.discriminating > 0 for row in some), sum(row.failing for row in report.sweep))
    yield from (sum(row.steps for row in report.sweep), sum(row.rollbacks for row in report.sweep))
    for strategy in ("ring", "ps"):
        met: Counter[str] = Counter()
        for row in report.sweep:
            if row.strategy == strategy:
                met.update(row.counters)
        yield from met.values()
    yield from (len({kill.defect for kill in report.kills}), sum(kill.killed for kill in report.kills))
    yield sum(finding.confidently_wrong for finding in report.findings)
    if report.bench is not None:
        yield from Counter((each.what, each.explanation) for each in report.bench.disagreements).values()


def untraced(report: Report, shown: Report) -> list[str]:
    """The numbers on the page of `shown` that nothing in the document of `report` accounts for."""
    document = list(leaves(json.loads(reports.encode(report))))
    numbers = [value for value in document if not isinstance(value, str)] + list(totals(report))
    numbers += [each.relative for each in (report.bench.disagreements if report.bench else ())]
    empty = Report(version=report.version, quick=report.quick, pairs=(), invisible=())
    words = (
        [value for value in document if isinstance(value, str)] + texts(empty) + [text for row in KNOWN for text in row]
    )
    quoted = sorted({word for word in words if len(word) >= SENTENCE}, key=len, reverse=True)
    good = {form.format(abs(value)).rstrip(".") for value in numbers for form in FORMS}
    good |= {f"{abs(value) / 1e9:.{digits}f}" for value in numbers for digits in (3, 6)}
    good |= {f"{value / 1e6:.3g}" for value in numbers} | {f"{100 * abs(value):.1f}" for value in numbers}
    found = []
    for text in texts(shown):
        left = text
        for word in quoted:
            left = left.replace(word, "")
        found += [number for number in NUMBER.findall(left) if number.rstrip(",") not in good]
    return found


def test_every_number_is_in_the_document() -> None:
    """Tables, sentences, headings: nothing on the page was computed from anything but the report."""
    assert untraced(small(), small()) == []


def test_a_number_from_elsewhere_is_noticed() -> None:
    """The check on the check: a page on which one loss is another."""
    report = small()
    first, *others = report.pairs
    step = msgspec.structs.replace(first.ring.steps[0], loss=0.98765)
    ring = msgspec.structs.replace(first.ring, steps=(step, *first.ring.steps[1:]))
    changed = msgspec.structs.replace(report, pairs=(msgspec.structs.replace(first, ring=ring), *others))
    assert untraced(report, changed) == ["0.9877"]
