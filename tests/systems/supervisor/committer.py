"""Commits to a record in a real directory, one batch after the other, and prints each version that was acknowledged.

Run as `python -m tests.systems.supervisor.committer DIRECTORY NAME COUNT`; it is meant to be killed.
"""

import sys
from pathlib import Path

from simharness.disk.real import RealDisk
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.config import JobSpec
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.operator import declare
from simharness.systems.supervisor.store.files import FileStore
from simharness.systems.supervisor.store.port import perform
from tests.systems.supervisor.rig import drive

DECLARED = declare(JobSpec(job="job", shape="slurm"))


def batch(name: str, number: int) -> Batch:
    """Batch `number` of committer `name`, large enough for a write to be cut off in the middle."""
    subject = f"{name} {number} " + "x" * 4_000
    return (ev.EscalationRaised(id=f"held/{name}{number}/1", kind="held", subject=subject, at=number),)


def main(directory: str, name: str, count: int) -> None:
    """Commit `count` batches."""
    disk = RealDisk(Path(directory))

    def answer(call: seam.SeamCall) -> seam.Reply:
        assert isinstance(call, seam.FsCall)
        return perform(disk, call, shared=True)

    store, version, number = FileStore("job"), 0, 0
    while number < count:
        read = drive(store.read(version), answer)
        assert isinstance(read, seam.Batches)
        version = read.version
        mine, mutation = (batch(name, number), str(number)) if version else (DECLARED, "declaration")
        reply = drive(store.commit(version, mine, f"{name}#{mutation}"), answer)
        if isinstance(reply, seam.Committed):
            sys.stdout.write(f"{reply.version} {mutation}\n")
            sys.stdout.flush()
            number += 1 if version else 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
