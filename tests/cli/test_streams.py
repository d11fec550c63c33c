"""Standard output that is closed, full, or without a reader; wrong arguments in JSON (ruling C6)."""

import os
import subprocess
from pathlib import Path

import pytest

from simharness.bundle.reader import Bundle
from tests.cli.support import BREAKS, HOLDS, Terminal, command, environment


def _ended(directory: Path, *argv: str, how: str = "") -> tuple[int, str]:
    """Run a command from a shell that redirects as it is told; return its exit code and standard error."""
    line = " ".join(f"'{word}'" for word in command(*argv)) + f" {how}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=directory, env=environment(), check=False, stderr=subprocess.PIPE, text=True
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("assertion", "code"), [(HOLDS, 0), (BREAKS, 1)])
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_is_gone_changes_no_verdict(
    simharness: Terminal, assertion: str, code: int, more: tuple[str, ...]
) -> None:
    """`simharness run x | head -0` ends quietly with the verdict's exit code, and the bundle is whole."""
    simharness.write("x.toml", assertion)
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        command("run", "x.toml", "--out", "x", *more),
        cwd=simharness.directory,
        env=environment(),
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (code, b"")
    assert Bundle(simharness.directory / "x").verify() == ()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_output_that_cannot_be_written(simharness: Terminal) -> None:
    """A full device is one clear error."""
    simharness.write("x.toml", HOLDS)
    code, err = _ended(simharness.directory, "check", "x.toml", how="> /dev/full")
    assert (code, err) == (2, "file: (standard output)\nfield: (io)\nrule: No space left on device\n")


def test_closed_streams(simharness: Terminal) -> None:
    """Without a standard output nothing is run; without a standard error the command still has its exit code."""
    simharness.write("x.toml", BREAKS)
    code, err = _ended(simharness.directory, "run", "x.toml", how=">&-")
    assert (code, err.splitlines()[0]) == (2, "file: (standard output)")
    assert not simharness.directory.joinpath(".simharness").exists()
    assert _ended(simharness.directory, "run", "x.toml", how="> out 2>&-") == (1, "")
    assert _ended(simharness.directory, "run", "gone.toml", how="> out 2>&-") == (2, "")


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (("run", "--json"), "(arguments)"),
        (("diff", "a", "b", "--json", "--context", "9999999999999999999"), "--context"),
        (("sweep", "x", "--seeds", "0..9", "--json", "--jobs", "0"), "--jobs"),
        (("run", "x", "--max-dispatches", str(1 << 63), "--json"), "--max-dispatches"),
    ],
)
def test_refused_arguments_in_json(simharness: Terminal, argv: tuple[str, ...], field: str) -> None:
    """What the text says stands in `problems` too."""
    said = simharness(*argv)
    (problem,) = said.json["problems"]
    assert said.code == 2
    assert (problem["file"], problem["field"]) == ("(command line)", field)
    assert f"rule: {problem['rule']}\n" in said.err
    assert "usage: simharness" in said.err
