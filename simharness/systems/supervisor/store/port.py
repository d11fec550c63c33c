"""Answers file calls from a disk: the simulated one and a real directory alike, whatever has the operations of the Disk port."""

from typing import Protocol

from simharness.systems.supervisor.seam import (
    FsCall,
    FsData,
    FsDone,
    FsExists,
    FsLink,
    FsList,
    FsListing,
    FsMissing,
    FsRead,
    FsRename,
    FsReply,
    FsStale,
    FsSync,
    FsSyncDir,
    FsUnlink,
    FsWrite,
)


class Directory(Protocol):
    """The Disk port, as far as it is needed here."""

    @property
    def epoch(self) -> int:
        """How many times power was lost."""

    def list(self) -> tuple[str, ...]:
        """Return every name."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def write(self, name: str, data: bytes) -> None:
        """Replace the content of a file."""

    def sync(self, name: str) -> None:
        """Make the content of a file durable."""

    def sync_dir(self) -> None:
        """Make every name durable."""

    def link(self, name: str, new: str) -> None:
        """Give a file a second name, unless it is taken."""

    def rename(self, name: str, new: str) -> None:
        """Rename a file, in place of one that has the new name."""

    def unlink(self, name: str) -> None:
        """Take a name away."""


def perform(disk: Directory, call: FsCall, *, shared: bool = False) -> FsReply:
    """Do one file call.

    Args:
        disk: The directory.
        call: The call.
        shared: Whether other processes may change the directory meanwhile, as they may a real one.

    Raises:
        OSError: What the disk raises, but for names that are missing or taken: these are replies.
    """
    if isinstance(call, FsList):
        return _listing(disk, shared=shared)
    if call.epoch not in (None, disk.epoch):
        return FsStale()
    try:
        if isinstance(call, FsRead):
            return FsData(epoch=disk.epoch, data=disk.read(call.name))
        _change(disk, call)
    except FileNotFoundError:
        return FsMissing()
    except FileExistsError:
        return FsExists()
    return FsDone(epoch=disk.epoch)


def _change(disk: Directory, call: FsWrite | FsSync | FsLink | FsRename | FsUnlink | FsSyncDir) -> None:
    match call:
        case FsSyncDir():  # every read of a record asks for it
            disk.sync_dir()
        case FsWrite(name=name, data=data):
            disk.write(name, data)
        case FsSync(name=name):
            disk.sync(name)
        case FsLink(old=old, new=new):
            disk.link(old, new)
        case FsRename(old=old, new=new):
            disk.rename(old, new)
        case FsUnlink(name=name):
            disk.unlink(name)


def _listing(disk: Directory, *, shared: bool) -> FsListing:
    """List a directory with its contents, as they are at one instant.

    While others add and remove names a real listing may show a later name and miss an earlier one: it is taken again until
    nothing has changed. A file that has its final name never changes.
    """
    while True:
        names = disk.list()
        try:
            files = {name: disk.read(name) for name in names}
        except FileNotFoundError:
            continue
        if not shared or disk.list() == names:
            return FsListing(epoch=disk.epoch, files=files)
