"""The scripts of continuous integration parse; with stand-ins they run commands that exist, and see a difference."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

from simharness.cli.main import parser
from tests.documents import ROOT

SCRIPTS: Final = sorted(path for path in ROOT.joinpath(".ci").iterdir() if path.is_file())
STAND_IN: Final = """#!/bin/sh
echo "$(basename "$0") $*" >> "$PLAYED"
case "$PYTHONHASHSEED" in
    "$WRONG") echo '{"digest": "bad"}' ;;
    *) echo '{"digest": "900d"}' ;;
esac
"""
TOOLS: Final = ("python3", "python3.11", "python3.12", "python3.13", "pytest", "simharness", "cmp")


class Night:
    """One playing of .ci/nightly in which every program that it calls only writes down how it was called."""

    def __init__(self, root: Path, *, wrong: str = "none") -> None:
        programs = root.joinpath("bin")
        programs.mkdir()
        shutil.copytree(ROOT.joinpath(".ci"), root.joinpath(".ci"))
        root.joinpath("tests").symlink_to(ROOT.joinpath("tests"))
        stand_ins = [programs.joinpath(tool) for tool in TOOLS]
        for version in ("dev", "3.11", "3.12", "3.13", "torch"):
            inside = root.joinpath("made", version, "bin")
            inside.mkdir(parents=True)
            stand_ins += [inside.joinpath(tool) for tool in ("pip", "pytest", "simharness")]
        for place in stand_ins:
            place.write_text(STAND_IN, encoding="utf-8")
            place.chmod(0o755)
        # Nothing makes environments here, so they stand ready: the script's own `rm` is what takes a real one away.
        programs.joinpath("rm").write_text("#!/bin/sh\ncp -r made .venv-ci\n", encoding="utf-8")
        programs.joinpath("rm").chmod(0o755)
        played = root.joinpath("played")
        surroundings = {
            "PATH": f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "PLAYED": str(played),
            "WRONG": wrong,
        }
        self.outcome = subprocess.run(
            [str(root.joinpath(".ci", "nightly")), "200"], env=surroundings, check=False, capture_output=True, text=True
        )
        self.commands = [shlex.split(line) for line in played.read_text(encoding="utf-8").splitlines()]

    def of(self, program: str) -> list[list[str]]:
        """Return the arguments of every call of a program."""
        return [words for name, *words in self.commands if name == program]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses(script: Path) -> None:
    """`bash -n` reads it to the end; what is run by its name may be run."""
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    assert os.access(script, os.X_OK) == script.read_text(encoding="utf-8").startswith("#!")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_names_commands_that_exist(script: Path) -> None:
    """Each literal call of the command line is one that its parser takes; each path below properties/ or tests/ is there."""
    text = re.sub(r"\$\w+|\$\(\(.*?\)\)", "1", script.read_text(encoding="utf-8"))
    for line in re.findall(r"^simharness (.*)$", text, re.MULTILINE):
        parser().parse_args(shlex.split(line))
    for path in re.findall(r"\b(?:properties|tests|scenarios)/[\w./]*", text):
        assert ROOT.joinpath(path).exists(), path


def test_a_night_runs_commands_that_exist(tmp_path: Path) -> None:
    """From end to end, each command parses, the marker is ours, and both shapes, every knob and every Python are tried."""
    night = Night(tmp_path)
    assert night.outcome.returncode == 0, night.outcome.stderr
    assert night.outcome.stdout.endswith("== all good\n")
    asked = [parser().parse_args(words) for words in night.of("simharness")]
    batches = [args for args in asked if args.command == "supervisor"]
    assert [(args.seeds, args.shape) for args in batches if args.coverage and args.twice] == [("0..200", "both")]
    assert [(args.system, args.full) for args in asked if args.command == "knobs"] == [("all", True)]
    assert [args.target for args in asked if args.command == "sweep"] == ["training"]
    options = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    named = [words[words.index("-m") + 1] for words in night.of("pytest") if "-m" in words]
    assert named == ["knobs"]
    assert [marker for marker in options["markers"] if marker.startswith("knobs:")]
    for version in ("3.11", "3.12", "3.13"):
        assert f"Python {version}" in night.outcome.stdout
        assert ["-m", "venv", f".venv-ci/{version}"] in night.of(f"python{version}")


def test_a_night_sees_another_digest(tmp_path: Path) -> None:
    """A run that depends on the hash seed ends the night at once, and says of what it depends."""
    night = Night(tmp_path, wrong="4242")
    assert night.outcome.returncode == 1
    assert "PYTHONHASHSEED=4242 changes what a run does" in night.outcome.stderr
    assert night.of("pytest") == []
