"""`simharness training`: scenarios with and without defects, the report from a file, cross-check, findings."""

import subprocess
import sys
from pathlib import Path

import msgspec
import orjson
import pytest

from simharness.training import report as reports
from tests.cli.support import Terminal, environment
from tests.cli.test_json import documented, shape
from tests.documents import ROOT
from tests.training.reports import small

OWN = str(ROOT / "scenarios" / "training" / "clean_own.toml")
SERVER = str(ROOT / "scenarios" / "training" / "clean_own_ps.toml")
MESH = str(ROOT / "scenarios" / "smoke" / "mesh3.toml")
DDP = str(ROOT / "tests" / "training" / "data" / "ddp.json")


def test_scenarios(simharness: Terminal) -> None:
    """A clean run passes; with a defect the first line names it, the exit code is 1, and the run says when it broke."""
    said = simharness("training", "scenarios", OWN)
    assert said.code == 0
    heading, line = said.out.splitlines()
    assert heading == "1 to 6: the invariants, + Pass, X Fail, ? Inconclusive, - not asked"
    assert line.split()[:4] == ["Pass", "clean_own", "ring", "++++++"]
    assert said.err.splitlines() == [OWN], "who waits in a pipe sees what runs"
    said = simharness("training", "scenarios", "--defect", "unweighted_mean", SERVER, "--defect", "UNWEIGHTED_MEAN")
    assert said.code == 1
    assert said.out.splitlines()[0] == "defects switched on: UNWEIGHTED_MEAN"
    assert "broke at step 2, 0.0" in said.out
    assert "at hub: train_update_matches_reference" in said.out


def test_scenarios_as_json(simharness: Terminal) -> None:
    """The document's form; null where nothing broke."""
    said = simharness("training", "scenarios", OWN, "--defect", "UNWEIGHTED_MEAN", "--json")
    assert said.code == 1
    assert shape(said.json) == documented("training")
    said = simharness("training", "scenarios", SERVER, "--json")
    assert said.json["runs"][0]["broken"] is None


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("scenarios", "nowhere"), "field: NAME\nrule: neither a file nor a scenario"),
        (("scenarios", "nowhere.toml"), "(io)"),
        (("scenarios", "."), "field: NAME\nrule: is a directory; name its scenario files"),
        (("scenarios",), "scenarios/training is no directory here: go to where it is, or name scenario files"),
        (("scenarios", MESH), f"file: {MESH}\nfield: peers\nrule: is no training job"),
        (
            ("scenarios", OWN, "--defect", "NOPE"),
            "field: --defect\nrule: unknown defect 'NOPE'; choose from UNWEIGHTED",
        ),
        (
            ("scenarios", OWN, "--defect", "dup_push"),
            f"--defect\nrule: {OWN} is of strategy 'ring', which has no code for DUP",
        ),
        (("scenarios", OWN, "--out", "x"), "usage: simharness training scenarios"),
        (("scenarios", "--from", "x", OWN), "usage: simharness training scenarios"),
        (("bench", "foo"), "unrecognized arguments: foo"),
        (("report", "--from", "x", OWN), "field: NAME\nrule: does nothing with --from"),
        (("report", "--from", "x", "--sweep", "nope"), "field: --sweep"),
        (("report", "--from", "x", "--knobs", "empty.json"), "field: --knobs"),
        (("report", "--from", "x", "--quick"), "field: --quick"),
        (("report", OWN, SERVER, OWN), "field: NAME\nrule: has the bare name of"),
        (("crosscheck", "--from", DDP, "--out", "x"), "field: --out"),
        (("findings", "--without"), "field: --without"),
        (("nothing",), "invalid choice: 'nothing'"),
        ((), "the following arguments are required: ACTION"),
        (("findings", "nope"), "NAME"),
        (("crosscheck", "--from", OWN), "(root)"),
        (("report", "--from", DDP), "(root)"),
        (("report", OWN), "(name)"),
        (("report", OWN, "--knobs", DDP), "field: line 1\nrule: "),
    ],
)
def test_bad_input(simharness: Terminal, words: tuple[str, ...], field: str) -> None:
    """Refused with code 2, in the three-line form."""
    said = simharness("training", *words)
    assert said.code == 2
    assert field in said.err


def test_an_own_file_needs_no_header(simharness: Terminal) -> None:
    """What opens a shipped scenario is nothing that a scenario of one's own must have (docs/scenario.md)."""
    text = ROOT.joinpath("scenarios/training/clean_own.toml").read_text("utf-8")
    simharness.directory.joinpath("own.toml").write_text(text[text.index("name = ") :])
    said = simharness("training", "scenarios", "own.toml")
    assert said.code == 0, said
    assert said.out.splitlines()[1].split()[1:3] == ["own", "ring"]


def test_a_bare_name(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the scenarios are, their bare names will do; options and names come in any order."""
    monkeypatch.chdir(ROOT)
    said = simharness("training", "--json", "scenarios", "--defect", "UNWEIGHTED_MEAN", "clean_own")
    assert (said.code, said.json["runs"][0]["name"]) == (1, "clean_own")
    said = simharness("training", "scenarios", "clean")
    assert "scenarios/training, which are clean_five, clean_five_ps, clean_own" in said.err


@pytest.mark.parametrize("made", ["file", "link", "directory"])
def test_foreign_files_stay(simharness: Terminal, made: str) -> None:
    """What training did not write is not written over, and that is said before anything is run."""
    place = simharness.directory.joinpath("d")
    for name in ("report.json", "index.html", "bench.json", "emit.toml", "record.json"):
        place.mkdir(exist_ok=True)
        if made == "file":
            place.joinpath(name).write_text("mine")
        elif made == "link":
            place.joinpath(name).symlink_to("/dev/null")
        else:
            place.joinpath(name).mkdir()
        case = ("--seed", "1", "--strategy", "ps", "--policy", "own", "--emit", f"d/{name}")
        words = {
            "bench.json": ("training", "bench", "--out", "d"),
            "emit.toml": ("sweep", "training", *case),
            "record.json": ("training", "crosscheck", "--out", "d/record.json"),
        }.get(name, ("training", "report", "--out", "d"))
        before = simharness.tree()
        said = simharness(*words)
        assert (said.code, f"file: d/{name}" in said.err) == (2, True), said
        assert "exists and was not written by" in said.err
        assert simharness.tree() == before
        place.joinpath(name).rmdir() if made == "directory" else place.joinpath(name).unlink()


def test_a_report_from_a_file(simharness: Terminal) -> None:
    """Rendered without running, twice the same bytes; a failing run makes the exit code 1."""
    simharness.directory.joinpath("r.json").write_bytes(reports.encode(small()))
    said = simharness("training", "report", "--from", "r.json", "--out", "one")
    assert said.code == 1
    assert "written      one/index.html" in said.out
    simharness("training", "report", "--from", "one/report.json", "--out", "two")
    for name in ("report.json", "index.html"):
        assert (
            simharness.directory.joinpath(f"one/{name}").read_bytes()
            == simharness.directory.joinpath(f"two/{name}").read_bytes()
        )
    good = msgspec.structs.replace(small(), pairs=small().pairs[:2], sweep=())
    simharness.directory.joinpath("good.json").write_bytes(reports.encode(good))
    said = simharness("training", "report", "--from", "good.json", "--out", "good", "--no-html", "--json")
    assert said.code == 0
    assert said.json["files"] == ["good/report.json"]
    assert not simharness.directory.joinpath("good/index.html").exists()


def test_crosscheck_of_a_record(simharness: Terminal) -> None:
    """All cases hold, as text and as JSON; a record that was changed does not."""
    said = simharness("training", "crosscheck", "--from", DDP)
    assert said.code == 0
    assert said.out.count("Pass") == 6
    said = simharness("training", "crosscheck", "--from", DDP, "--json")
    assert shape(said.json) == documented("training-crosscheck")
    record = orjson.loads(ROOT.joinpath("tests/training/data/ddp.json").read_bytes())
    record["outputs"][0]["gradient"] = record["outputs"][2]["gradient"]
    simharness.directory.joinpath("changed.json").write_bytes(orjson.dumps(record))
    assert simharness("training", "crosscheck", "--from", "changed.json").code == 1


def test_findings(simharness: Terminal) -> None:
    """Listed, those that would have misled first; shown again with 1, gone with 0."""
    said = simharness("training", "findings")
    assert said.code == 0
    assert said.out.startswith("misleading")
    said = simharness("training", "findings", "coarse_tolerance", "--json")
    assert (said.code, shape(said.json)) == (1, documented("training-findings"))
    assert simharness("training", "findings", "coarse_tolerance", "--without").code == 0


WITHOUT = """
import sys
sys.modules["numpy"] = None
from simharness.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_numpy(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that has no numpy."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words],
        cwd=directory,
        env=environment(),
        check=False,
        text=True,
        capture_output=True,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("training", "report"),
        ("training", "scenarios", OWN),
        ("training", "bench"),
        ("training", "crosscheck"),
        ("training", "crosscheck", "--from", DDP),
        ("training", "findings", "even_shards"),
        ("sweep", "training", "--seed", "1"),
        ("knobs", "--system", "training"),
        ("run", OWN),
    ],
    ids=" ".join,
)
def test_without_numpy_the_extra_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    """One structured error with the extra that is missing, and code 2, whichever command it is."""
    said = without_numpy(tmp_path, *words)
    assert said.returncode == 2, said
    assert said.stderr.count("rule:") == 1
    assert "numpy, which is not installed: pip install 'simharness[train]'" in said.stderr
    assert said.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_report_is_rendered_without_numpy(tmp_path: Path) -> None:
    """What renders and lists computes nothing."""
    tmp_path.joinpath("r.json").write_bytes(reports.encode(small()))
    said = without_numpy(tmp_path, "training", "report", "--from", "r.json", "--out", "out")
    assert (said.returncode, said.stderr) == (1, ""), said
    assert tmp_path.joinpath("out/index.html").exists()
    assert without_numpy(tmp_path, "training", "findings").returncode == 0
