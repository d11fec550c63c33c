"""`simharness training`: scenarios with and without defects, the report from a file, cross-check, findings."""

import msgspec
import orjson
import pytest

from simharness.training import report as reports
from tests.cli.support import Terminal
from tests.cli.test_json import documented, shape
from tests.documents import ROOT
from tests.training.reports import small

OWN = str(ROOT / "scenarios" / "training" / "clean_own.toml")
SERVER = str(ROOT / "scenarios" / "training" / "clean_own_ps.toml")
DDP = str(ROOT / "tests" / "training" / "data" / "ddp.json")


def test_scenarios(simharness: Terminal) -> None:
    """A clean run passes; with a defect the first line names it, the exit code is 1, and the run says when it broke."""
    said = simharness("training", "scenarios", OWN)
    assert said.code == 0
    assert said.out.split()[:4] == ["Pass", "clean_own", "ring", "++++++"]
    said = simharness("training", "scenarios", SERVER, "--defect", "UNWEIGHTED_MEAN")
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
        (("scenarios", "nowhere"), "(io)"),
        (("scenarios", OWN, "--defect", "NOPE"), "training.defects[0]"),
        (("findings", "nope"), "NAME"),
        (("crosscheck", "--from", OWN), "(root)"),
        (("report", "--from", DDP), "(root)"),
        (("report", OWN), "(name)"),
        (("report", OWN, "--knobs", DDP), "(rows)"),
    ],
)
def test_bad_input(simharness: Terminal, words: tuple[str, ...], field: str) -> None:
    """Refused with code 2, in the three-line form."""
    said = simharness("training", *words)
    assert said.code == 2
    assert field in said.err


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
