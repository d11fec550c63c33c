"""Checkpoints of a job as files: publishing one, and finding the one to resume from (§9 of the design).

A checkpoint is a file `SSSSSSSS.trainer`; its content names its step and carries a digest, so that half a file is none. Names
are unique, the greatest step wins. `LATEST` is a pointer for people to look at: nothing may rely on it (R19).
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from simharness.systems.supervisor.config import NO_DEFECTS, Defects, SupervisorDefect
from simharness.systems.supervisor.seam import (
    FileSystem,
    FsData,
    FsDone,
    FsList,
    FsListing,
    FsRead,
    FsRename,
    FsSync,
    FsSyncDir,
    FsWrite,
    Process,
)

LATEST: Final = "LATEST"
TEMPORARY: Final = "t"
"""First letter of the name of a checkpoint that is not whole yet."""

FS: Final[FileSystem] = "checkpoint"
_NAME: Final = re.compile(r"(\d{8,})\.[A-Za-z0-9._-]+")


def name_of(step: int, trainer: str) -> str:
    """Return the file name of a checkpoint."""
    return f"{step:08}.{trainer}"


def content_of(name: str) -> bytes:
    """Return the content of a whole checkpoint: its name and the digest of it."""
    return f"{name} {hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}\n".encode()


def step_of(name: str, content: bytes) -> int | None:
    """Return the step of a checkpoint, or None if the file is something else or not whole."""
    named = _NAME.fullmatch(name)
    return int(named[1]) if named and content == content_of(name) else None


def greatest(files: Mapping[str, bytes]) -> str | None:
    """Return the name of the greatest valid checkpoint of a listing; of equal steps the last by name."""
    valid = [(step, name) for name, content in files.items() if (step := step_of(name, content)) is not None]
    return max(valid)[1] if valid else None


def newest_step() -> Process[int]:
    """List, and return the greatest step that is there, durable or not; 0 if there is none."""
    listing = yield FsList(fs=FS)
    assert isinstance(listing, FsListing)
    name = greatest(listing.files)
    return 0 if name is None else _step(name)


def publish(step: int, trainer: str) -> Process[bool]:
    """Publish a checkpoint and point `LATEST` to it.

    Returns:
        Whether it is durable: all of it happened in one epoch.
    """
    name = name_of(step, trainer)
    temporary = f"{TEMPORARY}{name}"
    written = yield FsWrite(fs=FS, name=temporary, data=content_of(name))
    if not isinstance(written, FsDone):
        return False
    epoch = written.epoch
    for call in (
        FsSync(fs=FS, name=temporary, epoch=epoch),
        FsRename(fs=FS, old=temporary, new=name, epoch=epoch),
        FsSyncDir(fs=FS, epoch=epoch),
    ):
        reply = yield call
        if not isinstance(reply, FsDone):
            return False
    yield FsWrite(fs=FS, name=LATEST, data=name.encode())
    return True


def resolve(defects: Defects = NO_DEFECTS) -> Process[int]:
    """Find the greatest valid checkpoint by listing, and make it durable before anybody records it (R19).

    Returns:
        Its step; 0 if there is none.
    """
    while True:
        listing = yield FsList(fs=FS)
        assert isinstance(listing, FsListing)
        name = greatest(listing.files)
        # knob TRUST_LATEST_POINTER: the pointer is believed (R19)
        if SupervisorDefect.TRUST_LATEST_POINTER in defects:
            pointer = yield FsRead(fs=FS, name=LATEST)
            pointed = pointer.data.decode("ascii", "replace") if isinstance(pointer, FsData) else ""
            name = pointed if step_of(pointed, listing.files.get(pointed, b"")) is not None else None
        if name is None:
            return 0
        # knob RESOLVE_WITHOUT_SYNC: recorded as it was listed (R19)
        if SupervisorDefect.RESOLVE_WITHOUT_SYNC in defects:
            return _step(name)
        synced = yield FsSync(fs=FS, name=name, epoch=listing.epoch)
        if isinstance(synced, FsDone):
            synced = yield FsSyncDir(fs=FS, epoch=listing.epoch)
            if isinstance(synced, FsDone):
                return _step(name)


def _step(name: str) -> int:
    return int(name.partition(".")[0])
