"""What only a process of its own can show: signals, closed pipes, a locale without Unicode."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.support import HOLDS, Terminal, command, environment, run_process

ENDLESS_NS = 10**15
PATIENCE_S = 60


def _start_and_wait(directory: Path, *argv: str, partial: str = ".x.0.partial") -> "subprocess.Popen[str]":
    """Start a run and return once it has begun: its events file is open."""
    process = subprocess.Popen(
        command(*argv), cwd=directory, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    events = directory.joinpath(partial, "events.ndjson")
    give_up = time.monotonic() + PATIENCE_S
    while not events.exists() and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.02)
    time.sleep(0.2)  # into the run itself; what is asserted holds at any moment of it
    assert process.poll() is None, process.communicate()
    return process


def test_a_killed_run_leaves_no_bundle(simharness: Terminal) -> None:
    """After SIGKILL nothing stands under the final name; the next run cleans up and takes its place (ruling B9)."""
    simharness.write("long.toml", duration_ns=ENDLESS_NS)
    process = _start_and_wait(simharness.directory, "run", "long.toml", "--out", "x")
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert sorted(path.name for path in simharness.directory.iterdir()) == [".x.0.partial", "long.toml"]
    assert simharness("run", simharness.write("short.toml", HOLDS), "--out", "x").code == 0
    assert sorted(path.name for path in simharness.directory.iterdir()) == ["long.toml", "short.toml", "x"]


def test_an_old_bundle_outlives_a_killed_run(simharness: Terminal) -> None:
    """A bundle stays whole until its successor is."""
    simharness.bundle("x", HOLDS)
    before = {name: data for name, data in simharness.tree().items() if name.startswith("x/")}
    simharness.write("long.toml", duration_ns=ENDLESS_NS)
    process = _start_and_wait(simharness.directory, "run", "long.toml", "--out", "x")
    process.kill()
    process.communicate()
    after = simharness.tree()
    assert {name: data for name, data in after.items() if name.startswith("x/")} == before
    assert simharness("replay", "x").code == 0


@pytest.mark.parametrize("more", [(), ("--keep-partial",)])
def test_an_interrupted_run_exits_with_130(simharness: Terminal, more: tuple[str, ...]) -> None:
    """Ctrl-C is one word, no traceback and no leftovers; with `--keep-partial` what was written is kept (ruling C6)."""
    simharness.write("long.toml", duration_ns=ENDLESS_NS)
    process = _start_and_wait(simharness.directory, "run", "long.toml", "--out", "x", *more)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == "interrupted\n"
    assert sorted(path.name for path in simharness.directory.iterdir()) == ["long.toml", *(("x",) if more else ())]
    if more:
        assert b'"reason": "aborted"' in (simharness.tree()["x/manifest.json"] or b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_end(simharness: Terminal, number: signal.Signals) -> None:
    """SIGTERM and SIGHUP do what Ctrl-C does; the directory that was made for the bundle alone goes too (ruling C6)."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("it is ignored here, and by what is started here")
    simharness.write("long.toml", duration_ns=ENDLESS_NS)
    process = _start_and_wait(simharness.directory, "run", "long.toml", "--out", "d/e/x", partial="d/e/.x.0.partial")
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "interrupted\n")
    assert [*simharness.tree()] == ["long.toml"]


def test_a_reader_that_is_gone_is_no_error(simharness: Terminal) -> None:
    """Output into a closed pipe ends the command quietly, as in `simharness check ... | head -0` (ruling C6)."""
    file = simharness.write("x.toml")
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        command("check", file),
        cwd=simharness.directory,
        env=environment(),
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (0, b"")


def test_a_terminal_without_unicode(simharness: Terminal) -> None:
    """In an ASCII locale a name outside it is escaped on the terminal, and the bundle has the same bytes (ruling C5)."""
    simharness.write("x.toml", HOLDS)
    simharness.directory.joinpath("x.toml").rename(simharness.directory.joinpath("\u00e9\U0001f300.toml"))
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    outcome = subprocess.run(
        command("run", "\u00e9\U0001f300.toml", "--out", "x"),
        cwd=simharness.directory,
        env=environment() | plain,
        check=False,
        capture_output=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.isascii()
    assert simharness("run", "\u00e9\U0001f300.toml", "--out", "y").code == 0
    tree = simharness.tree()
    names = [name.removeprefix("x/") for name in tree if name.startswith("x/")]
    assert [tree[f"x/{name}"] for name in names] == [tree[f"y/{name}"] for name in names]


def test_the_module_is_the_console_script(simharness: Terminal) -> None:
    """`python -m simharness` answers as the installed script does."""
    said = simharness("check", simharness.write("x.toml"))
    process = run_process(simharness.directory, "check", "x.toml")
    assert (process.returncode, process.stdout, process.stderr) == said
