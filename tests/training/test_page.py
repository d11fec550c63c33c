"""The page without a browser: the same bytes each time, whole markup, nothing from elsewhere, one tag a table."""

import hashlib
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from simharness.core.errors import InputError
from simharness.pages import plotting
from simharness.training import report as reports
from simharness.training.charts import invisible_figure, sweep_figure
from simharness.training.document import Abort, Crossover, Report
from simharness.training.page import page
from tests.training.reports import bench, run, small

VOID = ("meta", "br")


@cache
def text() -> str:
    return page(small())


def without_library(made: Report | None = None) -> str:
    """The page but for plotly's own source."""
    return (text() if made is None else page(made)).replace(plotting.plotly_script(), "")


class Tags(HTMLParser):
    """Open tags, ids, addresses, and the text of each table."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tables: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "table" in self.open:
            self.tables[-1] += f" {data}"


@cache
def tags() -> Tags:
    found = Tags()
    found.feed(without_library())
    return found


def test_the_markup_is_whole() -> None:
    """Tags nest, ids are unique, every link leads to a place on the page, and nothing comes from elsewhere."""
    found = tags()
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert {address for address in found.addresses if address.removeprefix("#") not in found.ids} == set()


def test_parts_stand_in_their_order() -> None:
    """Claim, invariants, what is no violation, scenarios, sweep, kills, benchmarks, findings."""
    parts = re.findall(r'<section id="([^"]+)"', text())
    assert parts == ["claim", "invariants", "not-violations", "scenarios", "sweep", "kills", "benchmarks", "findings"]
    bare = page(msgspec.structs.replace(small(), sweep=(), kills=(), bench=None, findings=()))
    assert re.findall(r'<section id="([^"]+)"', bare) == parts[:4]


def test_no_table_has_two_tags() -> None:
    """Assumed, simulated and measured figures stand apart; words that come from data are escaped."""
    words = ("assumed", "simulated", "measured")
    assert all(sum(word in table for word in words) <= 1 for table in tags().tables)
    sections = re.findall(r"<h[34]>([^<]*)<span class=\"tag\">(\w+)</span>", text())
    assert {tag for _, tag in sections} == set(words)
    assert not any("speedup" in title.lower() and tag == "measured" for title, tag in sections)
    assert "&lt;little&gt; &amp; known" in text()
    assert "One &amp; &lt;all&gt;" in text()


def test_a_failing_run_says_when() -> None:
    """First broken step, virtual time, worker, invariant; the words lead to the evidence."""
    for found in small().pairs[2].runs:
        assert found.broken is not None
        assert found.broken.step == 2
        assert f"Broke at step 2, {found.broken.at_ns / 1e9:.6f} s virtual, at {found.broken.worker}" in text()
        assert f'id="run-wrong-{found.strategy}-evidence"' in text()
        assert f'data-step="2" data-evidence="run-wrong-{found.strategy}-evidence"' in text()
    (broken,) = {each.wrong.broken for each in small().invisible}
    assert broken is not None
    assert f"invariant 1 fails at step {broken.step}" in text()


def test_no_speedup_is_measured() -> None:
    """Section 19: the assumed speedup stands beside the measured steps a second, and nothing divides the one tag by the other."""
    told = " ".join(reports.bench_lines(bench()))
    assert (
        "ring, N = 4: assumed to do 3.20x the work of one worker; measured, the simulator makes 500 steps/s of it"
        in told
    )
    assert "measured 0." not in told
    assert "the simulator makes 2,000 steps a second of the same job with 1 worker and 500 with 4" in text()


def test_the_curves_stand_beside_their_noise() -> None:
    """What is said of a wrong weighting on a loss curve is what the figures say, whichever is larger."""
    (found,) = small().invisible
    assert len(found.others) == 1
    assert len(found.others[0].losses) == len(found.clean.steps)
    assert found.others[0].seed == found.clean.seed + 1
    assert reports.curve_words(found) in text()
    quiet = msgspec.structs.replace(found, largest_noise=found.largest_difference / 2)
    loud = msgspec.structs.replace(found, largest_noise=found.largest_difference * 2)
    assert reports.curve_words(quiet).endswith("%, which is less")
    assert not reports.curve_words(loud).endswith("which is less")
    assert "clean, other seeds" in text()


def test_a_clean_run_that_fails_is_said_first() -> None:
    """An implementation that is wrong without any switch: in red above the claim, in its figure, on the terminal; not green."""
    (found,) = small().invisible
    good = msgspec.structs.replace(small(), pairs=small().pairs[:2], sweep=(), kills=())
    assert "itself fails" not in "".join(reports.lines(good))
    assert "weighted by samples" in invisible_figure(found, "x")
    assert invisible_figure(found, "x").count('"meta":"violation"') == 1
    wrong = msgspec.structs.replace(found, clean=run("clean_own", "UNWEIGHTED_MEAN"))
    made = msgspec.structs.replace(good, invisible=(wrong,))
    assert (reports.outcome_of(good), reports.outcome_of(made)) == ("Pass", "Fail")
    figure = invisible_figure(wrong, "x")
    assert "weighted by samples" not in figure
    assert "clean run, which itself fails" in figure
    assert "clean run: invariant 1 fails at step 2" in figure
    assert figure.count('"meta":"violation"') == 2
    (line,) = [line for line in reports.lines(made) if line.startswith("loss curve")]
    said = "linear: the clean run itself fails (invariant 1 fails at step 2): neither loss is the right one"
    assert line.startswith(f"loss curve   {said}; the two losses differ by at most ")
    claim = without_library(made).split('<section id="claim"')[1].split("</section>")[0]
    red = [
        claim.index(words)
        for words in ('<p class="broke">Linear: the clean', '<p class="broke">The clean run itself fails')
    ]
    assert (
        red[0]
        < claim.index("Workers train one model")
        < red[1]
        < claim.index("With the unweighted mean invariant 1 fails")
    )
    assert "of the right one, the mean most" not in claim
    blind = msgspec.structs.replace(found, wrong=found.clean)
    assert reports.outcome_of(msgspec.structs.replace(good, invisible=(blind,))) == "Fail"


def test_a_run_that_was_stopped_is_no_green_report() -> None:
    """When, where and why stand beside its figure and under its line; the report counts it as a failure."""
    first, *others = small().pairs[:2]
    abort = Abort(rule="training-guard-hole", host="w1", at_ns=1_250_000_000, detail="a <hole>")
    stopped = msgspec.structs.replace(first.ring, aborted=abort)
    good = msgspec.structs.replace(small(), pairs=small().pairs[:2], sweep=(), kills=())
    made = msgspec.structs.replace(good, pairs=(msgspec.structs.replace(first, ring=stopped), *others))
    assert stopped.outcome == "Abort"
    assert reports.outcome_of(made) == "Fail"
    words = "borted at 1.250000 s virtual, at w1: training-guard-hole, a "
    assert reports.lines(made)[2].strip() == f"a{words}<hole>"
    shown = without_library(made)
    assert f'<p class="broke">A{words}&lt;hole&gt;.</p>' in shown
    assert shown.count('<span class="chip fail">aborted</span>') == 1
    assert reports.decode(reports.encode(made), "r").pairs[0].ring.aborted == abort


def test_what_is_not_run_is_not_listed_as_seen() -> None:
    """Entries of schedules that are not part of the report stand aside."""
    assert "not part of this report" not in text()
    seen, aside = text().split('id="not-violations"')[1].split("</section>")[0].split("<details>")
    assert "seen once" in seen
    assert "A quick report runs some schedules only." in aside
    assert "<code>straggler</code>" in aside


def test_whole_numbers_are_the_same_bytes() -> None:
    """A figure that comes out whole is written as it is read back: report and page are the same from the first time on."""
    some = bench()
    whole = msgspec.structs.replace(some, crossovers=(Crossover(workers=2, textbook=10, assumed=7810, simulated=7890),))
    made = reports.normal(msgspec.structs.replace(small(), bench=whole))
    data = reports.encode(made)
    assert b'"assumed": 7810.0' in data
    again = reports.decode(data, "report.json")
    assert reports.encode(again) == data
    assert page(again) == page(made)


def test_the_outcome_is_the_worst_that_is_shown() -> None:
    """A sweep that lacks something, or a defect that survived, is no green report."""
    good = msgspec.structs.replace(small(), pairs=small().pairs[:2], sweep=(), kills=())
    assert reports.outcome_of(good) == "Pass"
    (first, *_) = small().sweep
    rows = tuple([msgspec.structs.replace(first, seed=seed) for seed in range(200)])
    assert reports.outcome_of(msgspec.structs.replace(good, sweep=rows[:199])) == "Pass"
    assert "too few runs to ask for coverage" in reports.sweep_line(rows[:199])
    assert reports.outcome_of(msgspec.structs.replace(good, sweep=rows)) == "Inconclusive"
    alive = msgspec.structs.replace(small().kills[0], killed=False, by=None)
    assert reports.outcome_of(msgspec.structs.replace(good, kills=(alive,))) == "Fail"


def test_both_policies_of_a_seed_are_drawn() -> None:
    """One point a row, and signs that can be told apart where two rows have one seed; seeds are whole numbers."""
    (first, *_) = small().sweep
    figure = sweep_figure([first, msgspec.structs.replace(first, policy="reshard")], "x")
    assert '"symbol":"square"' in figure
    assert '"symbol":"square-open"' in figure
    assert "Pass, own (1)" in figure
    assert "Pass, reshard (1)" in figure
    assert '"dtick":1' in figure


def test_the_size() -> None:
    """The page stays within its budget: 8 MB, of which 2 MB for a report of some twenty schedules and 2,000 runs of a sweep."""
    assert len(text().encode()) < 8_000_000
    alone = len(without_library().encode())
    assert alone < 1_300_000 / 20 * (len(small().pairs) + 3)
    (first, *_) = small().sweep
    rows = [
        msgspec.structs.replace(first, seed=seed, replay=first.replay.replace("--seed 0 ", f"--seed {seed} "))
        for seed in range(2_000)
    ]
    swept = msgspec.structs.replace(small(), sweep=tuple(rows))
    assert len(without_library(swept).encode()) - alone < 700_000


def test_a_second_rendering_is_the_same(tmp_path: Path) -> None:
    """From the same report, from its JSON, and in another process under another hash seed: one digest."""
    data = reports.encode(small())
    again = reports.decode(data, "report.json")
    assert reports.encode(again) == data
    assert page(again) == text()
    tmp_path.joinpath("report.json").write_bytes(data)
    code = (
        "import hashlib, sys; from simharness.training import page, report; "
        "made = report.decode(open(sys.argv[1], 'rb').read(), 'x'); "
        "print(hashlib.sha256(page.page(made).encode()).hexdigest())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "report.json")],
        env=os.environ | {"PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == hashlib.sha256(text().encode()).hexdigest()


def test_a_report_in_which_figures_disagree_in_silence_is_not_built() -> None:
    """Neither written nor read."""
    bench = small().bench
    assert bench is not None
    silent = msgspec.structs.replace(bench.disagreements[0], explanation="")
    wrong = msgspec.structs.replace(small(), bench=msgspec.structs.replace(bench, disagreements=(silent,)))
    with pytest.raises(InputError, match="nothing explains it"):
        reports.encode(wrong)
    with pytest.raises(InputError, match="nothing explains it"):
        reports.decode(msgspec.json.encode(wrong), "report.json")
    with pytest.raises(InputError, match="missing required field"):
        reports.decode(b"{}", "report.json")


def test_the_summary() -> None:
    """A line a schedule and strategy, under a failing one when it broke, then the totals."""
    lines = reports.lines(small())
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["clean_own", "ring", "++++++"],
        ["clean_own", "ps", "++++++"],
        ["one_death", "ring", "++++++"],
        ["one_death", "ps", "++++++"],
    ]
    assert lines[5].split()[2] == "X+++++"
    assert lines[6].strip().startswith("broke at step 2, 0.")
    rest = "\n".join(lines[9:])
    assert "sweep        10 runs, 1000 steps, 2 failing; first: simharness sweep training --seed 1200 " in rest
    assert "killed       1 of 1" in rest
    assert "largest disagreement: ring, N = 4, 100,000 parameters: assumed 4.40 ms, simulated 4.48 ms" in rest
    assert "findings     2, 1 of them misleading" in rest


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plotly is an optional extra."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(InputError, match=r"simharness\[report\]"):
        page(small())
