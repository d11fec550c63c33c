"""The file store on a real directory, whose writers are killed.

SIGKILL ends a process between two instructions and loses nothing that the kernel has: it shows that a half-written batch is never
read and that what was acknowledged is there. It does not show what a loss of power leaves: that is the matter of the crash file
system, in `test_stores`.
"""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simharness.disk.real import RealDisk
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.store import codec
from simharness.systems.supervisor.store.files import FileStore, prune
from simharness.systems.supervisor.store.port import perform
from tests.systems.supervisor.committer import DECLARED, batch
from tests.systems.supervisor.rig import drive

ROOT = Path(__file__).parents[3]
COMMITS = 40


def read_back(directory: Path) -> tuple[seam.Batches, list[str]]:
    """Return the record of a directory that nobody writes any more, and the names of its files."""
    disk = RealDisk(directory)

    def answer(call: seam.SeamCall) -> seam.Reply:
        assert isinstance(call, seam.FsCall)
        return perform(disk, call)

    reply = drive(FileStore("job").read(0), answer)
    assert isinstance(reply, seam.Batches)
    return reply, list(disk.list())


def kill_once(directory: Path, writers: int, draw: random.Random) -> None:
    """Let writers commit, kill them at a random moment of their first twenty and more commits, and check what is left."""
    command = (sys.executable, "-m", "tests.systems.supervisor.committer", str(directory))
    names = "ab"[:writers]
    running = [
        subprocess.Popen((*command, name, str(COMMITS)), cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in names
    ]
    first = running[0].stdout
    assert first is not None
    acknowledged = [("a", first.readline()) for _ in range(draw.randrange(25))]
    time.sleep(draw.randrange(4_000) / 1_000_000)
    for process in running:
        process.kill()
    for name, process in zip(names, running, strict=True):
        rest, _ = process.communicate()
        acknowledged += [(name, line) for line in rest.splitlines(keepends=True)]
    record, files = read_back(directory)
    for name, line in acknowledged:
        if line.endswith("\n"):  # the last line of a killed process may be cut off: then nobody was told
            version, mutation = line.split()
            told = DECLARED if mutation == "declaration" else batch(name, int(mutation))
            assert record.batches[int(version) - 1] == told
    expected = {name: [batch(name, number) for number in range(COMMITS)] for name in names}
    for events in record.batches[1:]:  # a prefix of what each writer writes, in order: nothing else, nothing twice
        assert any(own and own.pop(0) == events for own in expected.values() if own and own[0] == events)
    versions = [version for file in files if (version := codec.version_of(file)) is not None]
    assert versions == list(range(1, record.version + 1))


def kills(tmp_path: Path, writers: int, count: int) -> None:
    draw = random.Random(count)  # noqa: S311 - only where to kill
    for number in range(count):
        kill_once(tmp_path / str(number), writers, draw)


@pytest.mark.parametrize(("writers", "count"), [(1, 14), (2, 6)])
def test_killed_writers(tmp_path: Path, writers: int, count: int) -> None:
    """20 kills: what is read back is a prefix, holds all that was acknowledged, and no temporary file is taken for a batch."""
    kills(tmp_path, writers, count)


@pytest.mark.slow
@pytest.mark.parametrize("writers", [1, 2])
def test_two_hundred_killed_writers(tmp_path: Path, writers: int) -> None:
    """The same with 100 kills each."""
    kills(tmp_path, writers, 100)


def test_a_real_directory_of_another_job(tmp_path: Path) -> None:
    """A directory that belongs to another job is one clear error, and its bytes are as before."""
    disk = RealDisk(tmp_path / "record")

    def answer(call: seam.SeamCall) -> seam.Reply:
        assert isinstance(call, seam.FsCall)
        return perform(disk, call)

    drive(FileStore("job").commit(0, DECLARED, "p#0"), answer)
    before = {name: disk.read(name) for name in disk.list()}
    for attempt in (FileStore("other").read(0), FileStore("other").commit(1, batch("a", 1), "q#1"), prune("other")):
        with pytest.raises(codec.RecordForeign, match="holds the record of job job, not of other"):
            drive(attempt, answer)
    assert {name: disk.read(name) for name in disk.list()} == before
