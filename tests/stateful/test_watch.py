"""The watcher: it notices a change of a source file, runs the changed code, and says what that did to the verdicts."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from simharness.cli.main import main
from simharness.stateful.watch import changes, counted, of_property, of_run
from tests.documents import ROOT

LAW_OF_B1 = "if claim < own and Defect.REFUTE_STALE_CLAIM not in self._defects:"


def test_changes() -> None:
    """What is new, gone and different, each in a line; nothing for nothing."""
    before, after = {"a": "Pass", "b": "Fail", "c": "Pass"}, {"a": "Pass", "b": "Pass", "d": "Fail"}
    assert changes(before, after) == ["b: Fail -> Pass", "d: new, Fail", "c: gone, was Pass"]
    assert changes(after, after) == []


def test_counted() -> None:
    """The worst first; an abort is an outcome of its own."""
    assert counted({"a": "Pass", "b": "Fail", "c": "Pass"}) == "1 Fail, 2 Pass"
    assert counted({"engine": "aborted: self-send"}) == "1 aborted: self-send"
    assert counted({}) == "no verdict"


def test_verdicts_of_reports() -> None:
    """A run's verdicts go by name and subject; a property's by kind, the worst of all examples."""
    verdict = {
        "name": "a1",
        "kind": "event_count",
        "outcome": "Fail",
        "parameters": {"kind": "event_count", "peer": "b", "max": 3},
    }
    assert of_run({"verdicts": [verdict]}) == {"a1 event_count(peer=b)": "Fail"}
    assert of_run({"error": {"rule": "self-send"}, "bundle": None}) == {"engine": "aborted: self-send"}
    rows = [{"kind": "x", "outcome": outcome} for outcome in ("Pass", "Inconclusive", "Pass")]
    assert of_property(rows) == {"x": "Inconclusive"}


@pytest.mark.parametrize("target", ["missing.toml", "missing.py::TestX", "."])
def test_bad_target(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a file nor in one: refused before anything is run."""
    assert main(["watch", target]) == 2
    assert "watch a scenario file" in capsys.readouterr().err


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the package and of what is watched, which a test may break."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "simharness", tmp_path / "simharness", ignore=ignored)
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios", ignore=ignored)
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n")
    shutil.copy(ROOT / "conftest.py", tmp_path)  # brings the plugin, installed or not
    text = "from simharness.stateful.library.returns import PauseExcused\nTestPause = PauseExcused.TestCase\n"
    tmp_path.joinpath("test_pause.py").write_text(text)
    return tmp_path


class Watcher:
    """`simharness watch --json` in a process of its own; each turn is a line."""

    def __init__(self, project: Path, target: str) -> None:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "HYPOTHESIS"))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simharness", "watch", "--json", target],
            cwd=project,
            env={**clean, "PYTHONPATH": str(project)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def turn(self) -> dict:
        assert self.process.stdout is not None
        return orjson.loads(self.process.stdout.readline())

    def end(self) -> tuple[int, bytes]:
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@pytest.fixture
def watching(project: Path) -> Iterator:
    started: list[Watcher] = []

    def start(target: str) -> Watcher:
        started.append(Watcher(project, target))
        return started[-1]

    yield start
    for watcher in started:
        if watcher.process.poll() is None:
            watcher.process.kill()
            watcher.process.communicate()


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_scenario_runs_again_on_the_edited_code(project: Path, watching) -> None:
    """Breaking a rule of the protocol turns a verdict, mending it turns it back; a syntax error is shown; Ctrl-C is clean."""
    watcher = watching("scenarios/reproduction/gossip_flap_fixed.toml")
    first = watcher.turn()
    assert first["changed"] == []
    assert set(first["verdicts"].values()) == {"Pass"}
    members = project / "simharness" / "systems" / "swim" / "members.py"
    edit(members, LAW_OF_B1, "if False:")
    broken = watcher.turn()
    assert broken["changed"] == ["simharness/systems/swim/members.py"]
    assert "a4 self_incarnation_bounded(peer=orchestrator): Pass -> Fail" in broken["new"]
    edit(members, "if False:", "if (:")
    unparsable = watcher.turn()
    assert "SyntaxError" in unparsable["trouble"]
    edit(members, "if (:", LAW_OF_B1)
    mended = watcher.turn()
    assert "a4 self_incarnation_bounded(peer=orchestrator): Fail -> Pass" in mended["new"]
    assert watcher.end() == (130, b"interrupted\n")


def test_a_property_runs_again_on_the_edited_code(project: Path, watching) -> None:
    """The same for a property: its verdicts are those of all examples together."""
    watcher = watching("test_pause.py::TestPause")
    assert watcher.turn()["verdicts"] == {"pause_is_excused": "Pass"}
    edit(
        project / "simharness" / "systems" / "swim" / "node.py",
        "if Defect.OWN_PAUSE_COUNTED in self._config.defects:",
        "if True:",
    )
    assert watcher.turn()["new"] == ["pause_is_excused: Pass -> Fail"]
    assert watcher.end() == (130, b"interrupted\n")
