"""Whatever ends a live run, no process and no temporary file is left. `python -m tests.benchmarks live` does it a hundred times."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.support import command, environment
from tests.live.endings import MARK, PATIENCE_S, marked, start_and_end, wait_until
from tests.live.support import MESH, head, swim

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")


@pytest.mark.parametrize(
    ("number", "processes", "after_s"),
    [(signal.SIGINT, 6, 2), (signal.SIGTERM, 6, 2), (signal.SIGKILL, 6, 2), (signal.SIGKILL, 3, 0)],
)
def test_a_few_starts_and_ends(tmp_path: Path, number: signal.Signals, processes: int, after_s: float) -> None:
    """In the middle of a run, with one process stopped and one killed, or while processes are still being started."""
    code = start_and_end(tmp_path, number, processes=processes, after_s=after_s)
    assert code == (-number if number is signal.SIGKILL else 130)


def test_a_process_that_dies_by_itself_ends_the_run(tmp_path: Path) -> None:
    """A peer that nobody killed and that is gone is an abort, exit code 4; nothing of the run is left."""
    tmp_path.joinpath("x.toml").write_text("".join((head(600_000), *map(swim, "ab"), MESH)), encoding="utf-8")
    mark = uuid4().hex
    process = subprocess.Popen(
        command("live", "x.toml", "--out", "x"),
        cwd=tmp_path,
        env=environment() | {MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert wait_until(mark, 3, 3) == 3
    time.sleep(1)
    victim = max(pid for pid in marked(mark) if pid != process.pid)
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4
    assert "EngineAbort::live-process-died" in err
    assert wait_until(mark, 0, 0) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.toml"]
