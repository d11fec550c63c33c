"""`simharness calibrate`: exit codes, what is written, what is refused."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.support import Terminal
from tests.cli.test_json import documented, shape
from tests.documents import ROOT
from tests.live.support import MESH, head, swim

PLACE = "scenarios/calibration"
DEFECT = 'defects = ["ONE_STEP_REFUTE"]'


@pytest.fixture
def corpus(simharness: Terminal) -> Path:
    """The shipped calibration files, where the command looks for them."""
    shutil.copytree(ROOT / PLACE, simharness.directory / PLACE)
    return simharness.directory / PLACE


def shortened(corpus: Path, name: str, seconds: int) -> None:
    """Make a shipped pair quick: same shape, less time."""
    text = corpus.joinpath(f"{name}.toml").read_text("utf-8")
    head, rest = text.split("snapshots = [", 1)
    rest = rest.split("]\n", 1)[1]
    body = head.replace("duration_ns = 300", f"duration_ns = {seconds}") + rest
    corpus.joinpath(f"{name}.toml").write_text(body.split("[[assertions]]")[0], "utf-8")


def test_a_pair_by_its_name(simharness: Terminal, corpus: Path) -> None:
    """The shape of the JSON; a failing pair exits with 1; JSON, page and bundle are where it says."""
    shortened(corpus, "n3_own_relay_stub", 20)
    said = simharness("calibrate", "n3_own_relay_stub", "--json", "--out", "c")
    assert said.code == 1
    assert shape(said.json) == documented("calibrate")
    for file in said.json["files"]:
        assert simharness.directory.joinpath(file).exists()
    written = json.loads(simharness.directory.joinpath("c/calibration.json").read_bytes())
    assert written["pairs"][0]["rows"] == said.json["pairs"][0]["rows"]
    assert "message.sent" in written["pairs"][0]["metrics"]["numbers"]


def test_text_says_what_runs_first(simharness: Terminal, corpus: Path) -> None:
    """Ruling K1: the first line names the defects; a table and the coverage follow; no page was asked for."""
    shortened(corpus, "n3_own_relay_stub", 5)
    said = simharness("calibrate", f"{PLACE}/n3_own_relay_stub.toml", "--no-html", "--out", "c", "--seed", "9")
    lines = said.out.splitlines()
    assert lines[0].startswith("defects switched on: COMBINED_PIGGYBACK, ")
    assert lines[1] == "pair         n3_own_relay_stub against vastai-N3-stub  seed 9"
    assert any(line.startswith("coverage     ") for line in lines)
    assert not simharness.directory.joinpath("c/report.html").exists()


def test_pairs_are_compared_among_themselves(simharness: Terminal, corpus: Path) -> None:
    """The relations whose runs are all there, in text, JSON and page; they count for the exit code like a pair."""
    shortened(corpus, "n3_own_relay_stub", 10)
    text = corpus.joinpath("n3_own_relay_stub.toml").read_text("utf-8")
    names = ("one", "other")
    for name, captured in zip(names, ("vastai-N3-1", "vastai-N3-2"), strict=True):
        corpus.joinpath(f"{name}.toml").write_text(text.replace("vastai-N3-stub", captured), "utf-8")
    said = simharness("calibrate", *names, "--json", "--out", "c")
    metrics = [row["metric"] for row in said.json["across"]["rows"]]
    assert metrics == ["order dial.started vastai-N3-2 vastai-N3-1", "order cache.miss vastai-N3-2 vastai-N3-1"]
    written = json.loads(simharness.directory.joinpath("c/calibration.json").read_bytes())
    assert written["across"] == said.json["across"]
    assert "across runs" in simharness.directory.joinpath("c/report.html").read_text("utf-8")
    said = simharness("calibrate", *names, "--no-html", "--out", "d")
    assert "relations    between the runs of 2 pairs" in said.out


def test_too_few_figures_are_inconclusive(simharness: Terminal, corpus: Path) -> None:
    """Less than four judged metrics mean nothing: 3, never 0."""
    shortened(corpus, "n3_own_relay_stub", 5)
    figures = corpus / "corpus" / "vastai-N3-stub" / "metrics.json"
    document = json.loads(figures.read_bytes())
    document["run_id"] = "nobody"
    kept = {name: figure for name, figure in document["figures"].items() if figure.get("role") == "input"}
    figures.write_text(json.dumps(document | {"figures": kept}), "utf-8")
    said = simharness("calibrate", "n3_own_relay_stub", "--no-html", "--out", "c")
    assert said.code == 3


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (("nowhere",), "nowhere.toml"),
        (("scenarios/calibration/n3_1779733878_repro.toml",), "no line `# pairs with: RUN`"),
        (("n3_own_relay_stub=nothing.json",), "nothing.json"),
        (("n3_own_relay_stub", "scenarios/calibration/n3_own_relay_stub.toml"), "would share the bundle directory"),
    ],
)
def test_bad_input_exits_with_2(simharness: Terminal, corpus: Path, argv: tuple[str, ...], rule: str) -> None:
    """In the three-line form, before anything is run."""
    said = simharness("calibrate", *argv, "--out", "c")
    assert (said.code, rule in said.err) == (2, True)
    assert not simharness.directory.joinpath("c").exists()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("notes", "c\nfield: out\nrule: holds something else than this command writes: notes"),
        ("calibration.json", "c/calibration.json\nfield: out\nrule: exists and was not written by this command"),
        ("report.html", "c/report.html\nfield: out\nrule: exists and was not written by this command"),
    ],
)
def test_a_foreign_directory_is_refused(simharness: Terminal, corpus: Path, name: str, rule: str) -> None:
    """Before anything is run, and it stays as it is."""
    Path("c").mkdir()
    Path("c", name).write_text("{}", "utf-8")
    before = simharness.tree()
    said = simharness("calibrate", "n3_own_relay_stub", "--no-html", "--out", "c")
    assert (said.code, rule in said.err, simharness.tree()) == (2, True, before)


def test_nothing_to_compare_is_bad_input(simharness: Terminal) -> None:
    """Without a pair to be found the command says how to name one."""
    said = simharness("calibrate")
    assert said.code == 2
    assert "name a file" in said.err


def test_figures_may_be_named(simharness: Terminal, corpus: Path) -> None:
    """SCENARIO=FIGURES pairs any scenario with any figures of its profile, and refuses another profile."""
    figures = f"{PLACE}/corpus/vastai-N3-stub/metrics.json"
    said = simharness("calibrate", f"{PLACE}/n3_1779733878_repro.toml={figures}", "--no-html", "--out", "c")
    assert said.code == 2
    assert "ran the profile deployed" in said.err


def test_without_plotly_the_extra_is_named(simharness: Terminal, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ruling K4: one error, before anything is run."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    said = simharness("calibrate", "n3_own_relay_stub", "--out", "c")
    assert said.code == 2
    assert "simharness[report]" in said.err
    assert not simharness.directory.joinpath("c").exists()


def test_live_pairs(simharness: Terminal) -> None:
    """The shape of the JSON; each seed has a bundle of either kind; how far it is goes to standard error."""
    text = "".join([head(500).replace("25_000_000", "100_000_000"), swim("a", more=DEFECT), swim("b"), MESH])
    simharness.directory.joinpath("x.toml").write_text(
        text.replace("150_000_000", "200_000_000").replace("suspicion_timeout_ns = 500", "suspicion_timeout_ns = 800"),
        "utf-8",
    )
    said = simharness("calibrate", "--live", "x.toml", "--repeats", "3", "--json", "--out", "c")
    if said.json["verdict"] == "inconclusive":
        pytest.skip("this machine is too busy for live runs")
    assert shape(said.json) == documented("calibrate-live")
    places = [f"c/x-{seed}-{way}" for seed in (7, 8, 9) for way in ("live", "simulated")]
    assert said.json["files"] == ["c/calibration.json", "c/report.html", *places]
    assert all(simharness.directory.joinpath(file).exists() for file in said.json["files"])
    assert "x  seed 9  latest tick" in said.err
    written = json.loads(simharness.directory.joinpath("c/calibration.json").read_bytes())
    assert [len(side) for side in written["pairs"][0]["metrics"].values()] == [3, 3]


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (("--repeats", "3"), "add --live"),
        (("--live", "--repeats", "2", "n3_own_relay_stub"), "at least 3"),
        (("--live", "nowhere"), "nowhere.toml"),
        (("--live", "live_relay4", "scenarios/calibration/live_relay4.toml"), "would share the bundle directories"),
        (("--live", str(ROOT / "scenarios/training/clean_own.toml")), "a live run hosts the kinds"),
    ],
)
def test_bad_live_pairs_exit_with_2(simharness: Terminal, corpus: Path, argv: tuple[str, ...], rule: str) -> None:
    """Before anything is run."""
    said = simharness("calibrate", *argv, "--out", "c")
    assert (said.code, rule in said.err) == (2, True)
    assert not simharness.directory.joinpath("c").exists()
