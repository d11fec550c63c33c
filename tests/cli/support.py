"""Small scenarios, and the command line called in this process."""

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from simharness.cli.main import main
from tests.documents import ROOT

_ECHO = """
name = "{name}"
seed = 1
duration_ns = {duration_ns}
{head}
[default_tick]
period_ns = 100_000_000

[default_link]
latency_ns = 10_000_000
jitter_stddev_ns = 1_000_000
loss_prob_ppm = {loss_ppm}
reorder_prob_ppm = 0
bandwidth_bps = 1_000_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 10_000_000_000

[[peers]]
id = "a"
kind = "echo"
initial_state = "ready"
kind_config = {{ targets = ["b"] }}

[[peers]]
id = "b"
kind = "echo"
initial_state = "ready"
kind_config = {{ targets = ["a"] }}

[[meshes]]
"""

HOLDS = '[[assertions]]\nkind = "event_count"\nevent_kind = "EchoReceived"\nmin = 5\n'
BREAKS = '[[assertions]]\nkind = "event_count"\nevent_kind = "EchoReceived"\nmax = 5\n'
IDLE = '[[assertions]]\nkind = "message_size_bounded"\nmessage_kind = "Nothing"\nmax_bytes = 1\n'
EARLY = "early_terminate_on_all_assertions_resolved = true\n"
SWIM = """
[[peers]]
id = "s"
kind = "swim"
initial_state = "alive"
kind_config = { probe_interval_ns = 1_000_000_000, suspicion_timeout_ns = 2_000_000_000 }
"""


class Said(NamedTuple):
    """What one command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The standard output as one JSON value."""
        return orjson.loads(self.out)


class Terminal:
    """Calls the command line in one directory and reads what it says."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys

    def __call__(self, *argv: str) -> Said:
        """Run one command; what exits by itself, as `--help` does, counts as an answer too."""
        self._capsys.readouterr()
        try:
            code = main(argv)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        out, err = self._capsys.readouterr()
        return Said(code, out, err)

    def write(self, name: str, *more: str, head: str = "", duration_ns: int = 1_000_000_000, loss_ppm: int = 0) -> str:
        """Write a scenario of two echo peers, with whatever else is given; return its name."""
        text = _ECHO.format(name=name, head=head, duration_ns=duration_ns, loss_ppm=loss_ppm) + "".join(more)
        self.directory.joinpath(name).write_text(text, encoding="utf-8")
        return name

    def bundle(self, name: str, *more: str, **settings: Any) -> str:
        """Run such a scenario into the bundle directory `name`; return that name."""
        said = self("run", self.write(f"{name}.toml", *more, **settings), "--out", name)
        assert "Traceback" not in said.err
        assert self.directory.joinpath(name).is_dir(), said
        return name

    def tree(self) -> dict[str, bytes | None]:
        """Return everything below the directory: files with their bytes, directories with None."""
        found = sorted(self.directory.rglob("*"))
        return {str(path.relative_to(self.directory)): path.read_bytes() if path.is_file() else None for path in found}


def command(*argv: str) -> list[str]:
    """Return the command line of a fresh process."""
    return [sys.executable, "-m", "simharness", *argv]


def environment() -> dict[str, str]:
    """Return an environment in which a process in any directory finds this checkout."""
    return {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}


def run_process(directory: Path, *argv: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a fresh process to its end."""
    return subprocess.run(
        command(*argv), cwd=directory, env=environment(), check=False, text=True, capture_output=True, **settings
    )
