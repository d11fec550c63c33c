"""`simharness live` on the command line."""

import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from simharness.cli import live_command
from simharness.live.peer import lateness_ns
from simharness.live.run import LiveResult, run_live
from tests.cli.support import Terminal, command, environment
from tests.cli.test_json import documented, shape
from tests.live.support import MESH, MS, head, swim

COUNT = '[[assertions]]\nkind = "event_count"\nevent_kind = "MessageSent"\n'


def timed(late_ns: int) -> Callable[..., LiveResult]:
    """A live run whose latest tick is said to have been so late, whatever this machine is doing."""
    return lambda *args, **options: msgspec.structs.replace(run_live(*args, **options), late_ns=late_ns)


@pytest.fixture
def simharness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Terminal]:
    """The command line in an empty directory, with a scenario in it."""
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path, capsys)
    monkeypatch.setattr(live_command, "run_live", timed(0))
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


@pytest.mark.parametrize(
    ("late_ns", "codes", "last"),
    [
        (24_999_999, (0, 1), "latest tick  24 ms late, of a period of 25 ms"),
        (25_000_000, (3, 1), "Inconclusive a tick came a whole period late: "),
    ],
)
def test_a_run_that_is_not_believed_passes_nothing(
    simharness: Terminal, monkeypatch: pytest.MonkeyPatch, late_ns: int, codes: tuple[int, int], last: str
) -> None:
    """A tick that is a whole period late makes a Pass Inconclusive; a Fail stays one. Text and JSON say why."""
    monkeypatch.setattr(live_command, "run_live", timed(late_ns))
    said = simharness("live", "holds.toml")
    assert said.code == codes[0]
    lines = said.out.splitlines()
    assert lines[0] == "scenario     holds.toml  seed 7  0.5 s real  2 processes"
    assert lines[-1].startswith(last)
    assert f"latest tick  {late_ns // MS} ms late, of a period of 25 ms" in lines
    said = simharness("live", "breaks.toml", "--json")
    assert (said.code, said.json["believable"], said.json["tick_period_ns"]) == (codes[1], codes[0] == 0, 25 * MS)


def test_a_declared_pause_makes_no_tick_late() -> None:
    """What falls due in a pause, or just before one that holds it up, can come when the pause ends, and is late from then on."""
    pauses = [(100, 200), (190, 300)]
    due_now_late = {
        (50, 60): 10,
        (50, 99): 49,
        (99, 310): 10,
        (150, 301): 1,
        (150, 160): 0,
        (250, 300): 0,
        (300, 305): 5,
    }
    assert {(due, now): lateness_ns(due, now, pauses) for due, now in due_now_late} == due_now_late
    assert lateness_ns(50, 60, []) == 10


def test_bad_input_is_2(simharness: Terminal) -> None:
    """A refusal has the form of every other, and leaves nothing."""
    echo = simharness.directory.joinpath("scenarios", "echo.toml")
    echo.parent.mkdir()
    simharness.write("scenarios/echo.toml", "")
    before = simharness.tree()
    for argv in (("missing.toml",), ("holds.toml", "--address", "192.0.2.1"), ("holds.toml", "--address", "localhost")):
        said = simharness("live", *argv, "--json")
        assert said.code == 2
        assert shape(said.json) == documented("refused")
    for argv in (("holds.toml", "--address", "localhost"), ("holds.toml", "--out", "."), (str(echo),)):
        said = simharness("live", *argv)
        assert (said.code, said.out) == (2, "")  # no heading of a run that does not begin
    assert said.err.splitlines()[:2] == [f"file: {echo}", "field: peers[0].kind"]
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
    assert process.wait() in (0, 3)  # 3 if this machine was too busy for the run to be believed
    assert b"of 0 seconds" in shown
