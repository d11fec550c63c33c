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
from simharness.training.page import page
from tests.training.reports import small

VOID = ("meta", "br")


@cache
def text() -> str:
    return page(small())


def without_library() -> str:
    """The page but for plotly's own source."""
    return text().replace(plotting.plotly_script(), "")


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


def test_the_size() -> None:
    """The page stays within its budget: 8 MB, of which 2 MB for a report of some twenty schedules."""
    assert len(text().encode()) < 8_000_000
    assert len(without_library().encode()) < 2_000_000 / 20 * (len(small().pairs) + 3)


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
    silent = msgspec.structs.replace(bench.disagreements[1], explanation="")
    wrong = msgspec.structs.replace(
        small(), bench=msgspec.structs.replace(bench, disagreements=(bench.disagreements[0], silent))
    )
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
    assert "sweep        10 runs, 1000 steps, 2 failing; first: simharness sweep training --seed 3" in rest
    assert "killed       1 of 1" in rest
    assert "largest disagreement: ring, N = 4, 100,000 parameters: assumed 4.40 ms, simulated 4.48 ms" in rest
    assert "findings     2, 1 of them misleading" in rest


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plotly is an optional extra."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(InputError, match=r"simharness\[report\]"):
        page(small())
