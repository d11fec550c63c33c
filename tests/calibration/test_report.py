"""The report: one self-contained page, the same bytes each time, and a clear word where its library is missing."""

import re
import sys
from functools import cache
from html.parser import HTMLParser

import pytest

from simharness.calibration.compare import against_runs
from simharness.calibration.report import Part, page, plain, table
from simharness.core.errors import InputError
from simharness.pages import plotting
from tests.calibration.shipped import outcome, reference, tolerances

PAIR = "n3_own_relay_stub"


def part() -> Part:
    found = outcome(PAIR)
    run = reference(found.comparison.reference)
    return Part(
        comparison=found.comparison,
        ours=(found.metrics,),
        reference=run,
        tolerances=tolerances().runs[run.run_id],
        facts=("<seed & 3>",),
    )


def sets() -> Part:
    one, other = outcome(PAIR).metrics, outcome("n3_1779733878").metrics
    compared = against_runs("sets", [one], [other, one], tolerances().sets, reference="live")
    return Part(comparison=compared, ours=(one,), theirs=(other, one))


@cache
def text() -> str:
    return page("Calibration", [part(), sets()])


def without_library() -> str:
    """The page but for plotly's own source."""
    return text().replace(plotting.plotly_script(), "")


class Tags(HTMLParser):
    """The tags that are open, and every id."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_is_the_same_bytes_each_time() -> None:
    """No clock, no random id."""
    assert page("Calibration", [part(), sets()]) == text()


def test_it_needs_nothing_but_itself() -> None:
    """Well-formed, every id once, nothing fetched."""
    tags = Tags()
    tags.feed(without_library())
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids)) >= 10
    assert tags.addresses == []
    assert re.findall(r"@import|url\(", without_library()) == []


def test_it_says_what_was_compared() -> None:
    """Every metric, both figures, the tolerance and the reason; what comes from files is escaped."""
    shown = without_library()
    for row in outcome(PAIR).comparison.rows:
        assert row.metric in shown
    assert "&lt;seed &amp; 3&gt;" in shown
    assert "10 of 10 judged in tolerance, of which 3 follow from one fitted parameter" in shown
    assert shown.count("<b>Fitted.</b> The tick of the stages was chosen") == 3
    assert "live 2" in shown


def test_the_table_has_every_metric_and_the_coverage() -> None:
    """Failures come first, then what passes; causes and coverage below."""
    lines = table(outcome("n3_canary_relay_real_worker").comparison)
    verdicts = [line.rsplit(maxsplit=1)[-1] for line in lines if line.endswith((" pass", " fail"))]
    assert verdicts == sorted(verdicts)
    assert [line.split(":")[0] for line in lines if line.startswith("cause")] == [
        "cause        simulator",
        "cause        figure",
    ]
    assert lines[-1].startswith("coverage     3 of 10 judged in tolerance")


def test_the_table_marks_what_was_fitted() -> None:
    """The figure that the tick was chosen by, and those that are the same number, have a mark; the choice is named below."""
    lines = table(outcome(PAIR).comparison)
    marked = [line.split()[0] for line in lines if line.endswith(" pass, fitted")]
    assert marked == ["message.sent", "cache.hit", "cache.hit_ratio"]
    assert [line for line in lines if line.startswith("fitted       The tick of the stages was chosen")]


def test_json_says_the_same() -> None:
    """One entry a metric, and the verdict."""
    found = plain(outcome(PAIR).comparison)
    assert (found["verdict"], found["judged"], found["passed"]) == ("pass", 10, 10)
    assert len(found["rows"]) == len(reference("vastai-N3-stub").figures)


def test_without_plotly_one_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ruling K4."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(InputError, match=re.escape("simharness[report]")):
        page("Calibration", [])
