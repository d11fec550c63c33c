"""Starting live runs and ending them from outside: what is left, by a mark that every process inherits."""

import os
import signal
import subprocess
import time
from pathlib import Path
from uuid import uuid4

from tests.cli.support import command, environment
from tests.live.support import MESH, head, mutation, stage, swim

PATIENCE_S = 60
MARK = "SIMHARNESS_TEST_MARK"
SIGNALS = [
    number
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP)
    if signal.getsignal(number) is not signal.SIG_IGN  # as SIGHUP is below nohup, and in whatever that starts
]

RELAY = """
[[relays]]
id = "r"
ingress_capacity_bps = 1_000_000
egress_capacity_bps_per_link = 1_000_000
queue_depth_bytes = 10_000
"""


def marked(mark: str) -> list[int]:
    """Return every process that has the mark in its environment: children and their children inherit it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in entry.joinpath("environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile, or is a zombie
    return found


def wait_until(mark: str, low: int, high: int) -> int:
    """Wait until the number of marked processes lies in a range; return it."""
    give_up = time.monotonic() + PATIENCE_S
    while not low <= (number := len(marked(mark))) <= high and time.monotonic() < give_up:
        time.sleep(0.02)
    return number


def start_and_end(directory: Path, number: signal.Signals, *, processes: int, after_s: float) -> int:
    """Start a live run of six processes and a worker, end it some time after so many are there; return its exit code."""
    scratch = directory.joinpath("scratch")
    scratch.mkdir()
    parts = (
        head(600_000),
        *map(swim, "ab"),
        stage("s"),
        RELAY,
        MESH,
        mutation("peer_pause", 1, 'peer = "b"\nduration_ns = 500_000_000_000'),
    )
    parts += (mutation("peer_kill", 300, 'peer = "a"'), mutation("peer_resurrect", 400_000, 'peer = "a"'))
    directory.joinpath("x.toml").write_text("".join(parts), encoding="utf-8")
    mark = uuid4().hex
    process = subprocess.Popen(
        command("live", "x.toml", "--out", "x"),
        cwd=directory,
        env=environment() | {MARK: mark, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert wait_until(mark, processes, 100) >= processes
        time.sleep(after_s)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert b"Traceback" not in err
        assert wait_until(mark, 0, 0) == 0
        assert sorted(path.name for path in directory.rglob("*")) == ["scratch", "x.toml"]
    finally:
        for leftover in marked(mark):
            os.kill(leftover, signal.SIGKILL)
        process.wait()
    return process.returncode
