"""`simharness live` on the command line."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Terminal, command, environment
from tests.cli.test_json import documented, shape
from tests.live.support import MESH, head, swim

COUNT = '[[assertions]]\nkind = "event_count"\nevent_kind = "MessageSent"\n'


@pytest.fixture
def simharness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Terminal]:
    """The command line in an empty directory, with a scenario in it."""
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path, capsys)
    for name, bound in (("holds.toml", "min = 1\n"), ("breaks.toml", "max = 1\n")):
        text = "".join((head(500), *map(swim, "ab"), MESH, COUNT, bound))
        tmp_path.joinpath(name).write_text(text, encoding="utf-8")
    return terminal


def test_exit_codes_are_those_of_run(simharness: Terminal) -> None:
    """All Pass is 0, a Fail is 1; the bundle stands where its scenario's place says."""
    said = simharness("live", "holds.toml")
    assert said.code == 0
    assert "verdict      1 Pass" in said.out
    assert simharness.directory.joinpath(".simharness", "live", "holds", "manifest.json").is_file()
    said = simharness("live", "breaks.toml", "--out", "x", "--swim-defect", "ONE_STEP_REFUTE", "--json")
    assert said.code == 1
    assert shape(said.json) == documented("live")


def test_bad_input_is_2(simharness: Terminal) -> None:
    """A refusal has the form of every other, and leaves nothing."""
    before = simharness.tree()
    for argv in (("missing.toml",), ("holds.toml", "--address", "192.0.2.1"), ("holds.toml", "--address", "localhost")):
        said = simharness("live", *argv, "--json")
        assert said.code == 2
        assert shape(said.json) == documented("refused")
    assert simharness.tree() == before


def test_a_bar_on_a_terminal_only(simharness: Terminal) -> None:
    """On a terminal standard error shows how far the run is; elsewhere it is empty."""
    assert simharness("live", "holds.toml").err == ""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("live", "holds.toml", "--out", "x"),
        cwd=simharness.directory,
        env=environment() | {"TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 4096):
            shown += block
    except OSError:
        pass  # how Linux says that the other end has closed
    os.close(ours)
    assert process.wait() == 0
    assert b"of 0 seconds" in shown
