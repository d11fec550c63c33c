"""`simharness supervisor approve` and `status`: a small run is recorded and never approved, a record is about its sources."""

import argparse
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from simharness.cli import supervisor_approval
from simharness.cli.main import parser
from simharness.cli.supervisor_approval import PAGE, RECORD
from simharness.cli.supervisor_sources import source_digest
from simharness.core import canonical_json
from simharness.supervisor.approve import Approval, from_plain, to_plain
from simharness.supervisor.batch import Breach
from simharness.supervisor.knobs import SupervisorKnob
from tests.cli.support import Terminal
from tests.documents import ROOT, block
from tests.supervisor.test_approve import of_the_bar

PROJECT = {"pyproject.toml": b'[project]\nname = "simharness"\n'}
SMALL = ("supervisor", "approve", "--seeds", "0..2", "--jobs", "1")


@pytest.fixture(autouse=True)
def project(simharness: Terminal) -> None:
    """Stand in the project, whose record it is."""
    for name, data in PROJECT.items():
        simharness.directory.joinpath(name).write_bytes(data)


@pytest.mark.parametrize("text", [None, '[project]\nname = "other"\n', "project = 3", "["])
def test_outside_of_the_project_there_is_no_record(simharness: Terminal, text: str | None) -> None:
    """Neither is one looked for, nor a docs/ made in somebody else's directory."""
    place = simharness.directory.joinpath("pyproject.toml")
    place.unlink() if text is None else place.write_text(text, "utf-8")
    for argv in (SMALL, ("supervisor", "status")):
        said = simharness(*argv)
        assert (said.code, [*simharness.tree()]) == (2, [] if text is None else ["pyproject.toml"])
        assert f"{simharness.directory} is no clone of it" in said.err


def put(found: Approval) -> None:
    """Write a record where `status` looks for it."""
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_bytes(canonical_json.pretty(to_plain(found)))


def arguments(*argv: str) -> argparse.Namespace:
    """Return a command line as the command sees it."""
    return parser().parse_args(["supervisor", *argv])


def test_a_small_run_is_recorded_and_partial(simharness: Terminal) -> None:
    """It says so first, exits with 3, names what the bar asks for beyond it, and writes both forms whole."""
    assert simharness("supervisor", "status").out == f"never        there is no {RECORD}\n"
    said = simharness(*SMALL)
    assert said.code == 3
    lines = said.out.splitlines()
    assert lines[0].startswith("partial      8 runs, ")
    assert "missing      2 of 50000 seeds in the shape slurm" in lines
    assert lines[-1] == f"recorded     {RECORD}, {PAGE}"
    assert sorted(simharness.tree()) == ["docs", str(PAGE), str(RECORD), *PROJECT]
    assert PAGE.read_text("utf-8").startswith("# Approval of the job supervisor\n")
    found = from_plain(orjson.loads(RECORD.read_bytes()))
    assert (found.sources, found.runs, found.task.twice, found.sample) == (
        source_digest(),
        {"slurm": 2, "kubeflow": 2},
        True,
        2,
    )
    said = simharness("supervisor", "status")
    assert (said.code, said.out.split()[0]) == (3, "partial")


def test_a_stopped_run_goes_on_from_its_file(simharness: Terminal) -> None:
    """Taken up from the tallies of another time, it comes to the same record, the speed excepted."""
    said = simharness(*SMALL, "--out", "tallies", "--json")
    assert (said.code, said.json["verdict"], said.json["files"]) == (3, "partial", [str(RECORD), str(PAGE)])
    whole = Path("tallies").read_bytes()
    Path("tallies").write_bytes(whole[:-20])
    again = simharness(*SMALL, "--out", "tallies", "--json").json
    assert Path("tallies").read_bytes() == whole
    assert again | {"runs_per_s": 0} == said.json | {"runs_per_s": 0}


@pytest.mark.parametrize(
    ("found", "word", "code"),
    [
        (of_the_bar(), "approved", 0),
        (of_the_bar(sample=0), "partial", 3),
        (
            of_the_bar(breaches=(Breach(seed=1, shape="slurm", invariant="5", message="m", step=1, now_ns=1),)),
            "failed",
            1,
        ),
    ],
)
def test_the_status_of_a_record(simharness: Terminal, found: Approval, word: str, code: int) -> None:
    """What it says is about the sources that it names; about all others it says nothing."""
    put(msgspec.structs.replace(found, sources=source_digest()))
    said = simharness("supervisor", "status", "--json")
    assert (said.code, said.json["status"]) == (code, word)
    put(found)
    said = simharness("supervisor", "status")
    assert (said.code, said.out.split()[0]) == (3, "stale")
    assert f"{word} were those of ab" in said.out


def test_a_small_run_takes_no_approval_away(simharness: Terminal) -> None:
    """The record of these very sources stays; that of others is replaced, and what is no record is left alone."""
    put(msgspec.structs.replace(of_the_bar(), sources=source_digest()))
    before = simharness.tree()
    said = simharness(*SMALL)
    assert (said.code, simharness.tree()) == (2, before)
    assert "these sources are approved" in said.err
    RECORD.write_bytes(b"{}")
    for argv in (SMALL, ("supervisor", "status")):
        said = simharness(*argv)
        assert said.code == 2
        assert "it is no record of an approval" in said.err
    assert RECORD.read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ('[supervisor]\n"slurm crush" = "x"', "supervisor.slurm crush", "must be a defect, or a shape and a counter"),
        ('[supervisor]\n"slurm crash" = "too few words"', "supervisor.slurm crash", "must have at least 20 words"),
        ("[supervisor]\ncrash = 3", "(root)", "must hold one table [supervisor] of texts"),
        ("[supervisor", "(root)", "must hold one table [supervisor] of texts"),
    ],
)
def test_an_explanation_that_explains_nothing(simharness: Terminal, text: str, field: str, rule: str) -> None:
    """It is refused before anything runs."""
    Path("properties").mkdir()
    Path("properties", "explanations.toml").write_text(text, "utf-8")
    said = simharness(*SMALL)
    assert said.code == 2
    assert f"file: properties/explanations.toml\nfield: {field}\nrule: {rule}" in said.err


@pytest.mark.parametrize(
    "argv",
    [
        ("approve", "--defect", "ungated_start"),
        ("approve", "--seeds", "0..2", "--shape", "slurm"),
        ("approve", "--seeds", "0..2", "--shard", "0/2"),
        ("approve", "--seeds", "0..2", "--stop-at-first"),
        ("approve", "--seeds", "0..2", "--trace"),
        ("approve", "--seeds", "2..0"),
        ("status", "--seeds", "0..2"),
        ("status", "--defect", "ungated_start"),
        ("status", "--out", "x"),
    ],
)
def test_what_would_make_less_of_it_is_refused(simharness: Terminal, argv: tuple[str, ...]) -> None:
    """A defect above all; one structured error, and nothing is written."""
    said = simharness("supervisor", *argv)
    assert (said.code, simharness.tree()) == (2, PROJECT)
    assert "rule: " in said.err


def test_a_hunt_that_comes_to_nothing_fails(simharness: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    """A caught defect is named in the record; one that survives its budget makes the run fail, unless it is exempt."""
    caught = SupervisorKnob(defect="UNGATED_START", caught_by=("4",), budget=2, hits=9479)
    survives = SupervisorKnob(defect="UNGATED_START", caught_by=("16",), budget=1, hits=9479)
    args = arguments("approve", "--seeds", "0..2", "--jobs", "1")
    assert supervisor_approval.approve(args, [caught]) == 3
    (hunt,) = from_plain(orjson.loads(RECORD.read_bytes())).hunts
    assert (hunt.name, hunt.wrong, hunt.breach is not None) == ("UNGATED_START", (), True)
    capsys.readouterr()
    assert supervisor_approval.approve(args, [caught, survives]) == 1
    out = capsys.readouterr().out
    assert out.startswith("failed ")
    assert "wrong        UNGATED_START was not caught by 16 in 2 runs" in out
    assert simharness("supervisor", "status").code == 1
    exemptions = Path("properties", "exemptions.toml")
    exemptions.parent.mkdir()
    text = f'[[exempt]]\nsystem = "supervisor"\ndefect = "UNGATED_START"\nargument = "{"why none can " * 20}"\n'
    exemptions.write_text(text, "utf-8")
    assert supervisor_approval.approve(args, [survives]) == 3


def test_a_finished_hunt_is_not_done_again(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken up from the file beside the tallies, a torn line excepted; a file of other sources is refused."""
    knob = SupervisorKnob(defect="UNGATED_START", caught_by=("4",), budget=2, hits=9479)
    hunted: list[str] = []
    real: Any = supervisor_approval.hunt

    def hunt(one: SupervisorKnob, *given: Any, **named: Any) -> Any:
        hunted.append(one.defect)
        return real(one, *given, **named)

    monkeypatch.setattr(supervisor_approval, "hunt", hunt)
    args = arguments("approve", "--seeds", "0..2", "--jobs", "1", "--out", "tallies")
    file = simharness.directory.joinpath("tallies.hunts")
    assert supervisor_approval.approve(args, [knob]) == 3
    whole, record = file.read_bytes(), RECORD.read_bytes()
    assert supervisor_approval.approve(args, [knob]) == 3
    assert (file.read_bytes(), hunted) == (whole, ["UNGATED_START"])
    assert from_plain(orjson.loads(RECORD.read_bytes())).hunts == from_plain(orjson.loads(record)).hunts
    file.write_bytes(whole[:-9])
    assert supervisor_approval.approve(args, [knob]) == 3
    assert (file.read_bytes(), hunted) == (whole, ["UNGATED_START"] * 2)
    for wrong in (whole.replace(source_digest().encode(), b"other"), whole + b"{}\n"):
        file.write_bytes(wrong)
        said = simharness(*SMALL, "--out", "tallies")
        assert (said.code, file.read_bytes()) == (2, wrong)
        assert "tallies.hunts" in said.err


def test_a_violation_ends_it_and_says_so_first(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is hunted any more, and what is recorded has failed."""
    real: Any = supervisor_approval.ran
    broken = Breach(seed=0, shape="slurm", invariant="determinism", message="two runs differ", step=1, now_ns=1)

    def ran(*given: Any) -> Any:
        done = real(*given)
        first, *rest = done.tallies
        return done._replace(tallies=[msgspec.structs.replace(first, breaches=(broken,)), *rest])

    monkeypatch.setattr(supervisor_approval, "ran", ran)
    said = simharness(*SMALL)
    assert (said.code, said.out.startswith("lost determinism 8 runs, ")) == (1, True)
    found = from_plain(orjson.loads(RECORD.read_bytes()))
    assert (found.verdict, found.hunts, found.sample) == ("failed", (), 0)


def test_sources_that_change_meanwhile_are_not_recorded(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can say which of them was run."""
    digests = iter(["before", "after"])
    monkeypatch.setattr(supervisor_approval, "source_digest", lambda: next(digests))
    said = simharness(*SMALL)
    assert (said.code, simharness.tree()) == (2, PROJECT)
    assert "they changed meanwhile" in said.err


def test_the_samples_of_the_document(simharness: Terminal) -> None:
    """Keys as docs/command_line.md shows them."""
    samples = {
        name: orjson.loads(block("docs/command_line.md", "json", name).text)
        for name in ("supervisor-approve", "supervisor-status")
    }
    said = simharness(*SMALL, "--json")
    assert [*said.json] == [*samples["supervisor-approve"]]
    assert [*simharness("supervisor", "status", "--json").json] == [*samples["supervisor-status"]]


def test_the_record_of_the_project_is_one() -> None:
    """If one is checked in, it reads, and its page is the one that its figures give."""
    from simharness.supervisor.approve import page

    record = ROOT.joinpath(RECORD)
    if record.exists():
        found = from_plain(orjson.loads(record.read_bytes()))
        assert ROOT.joinpath(PAGE).read_text("utf-8") == page(found)
