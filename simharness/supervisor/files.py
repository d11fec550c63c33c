"""Answers file calls over a crash disk, and knows what of it would outlive a power cut."""

from collections.abc import Callable, Mapping
from typing import Final

from simharness.disk.crash import CrashDisk
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.store.codec import decode_entry, record_name
from simharness.systems.supervisor.store.port import perform

SURVIVE_PPM: Final = 300_000
"""How likely a directory entry that was never synced survives a power cut."""


class Files:
    """One simulated file system. Directory listings are cached: they are asked for more often than the disk changes."""

    __slots__ = ("_data_durable", "_disk", "_listing", "_names_changed", "_names_durable")

    def __init__(self) -> None:
        self._disk = CrashDisk()
        self._listing: seam.FsListing | None = None
        self._data_durable: set[str] = set()
        self._names_durable: set[str] = set()
        self._names_changed = False
        """Whether there was anything for a sync of the directory to do."""

    @property
    def epoch(self) -> int:
        """How many times power was lost."""
        return self._disk.epoch

    def listing(self) -> seam.FsListing:
        """Return every file with its content."""
        found = self._listing
        if found is None:
            found = self._listing = seam.FsListing(epoch=self._disk.epoch, files=self._disk.contents())
        return found

    def durable(self) -> list[str]:
        """Return the names whose entry and content would outlive a power cut now, sorted."""
        return sorted(self._names_durable & self._data_durable)

    def execute(self, call: seam.FsCall) -> seam.FsReply:
        """Do what a file call asks for, at this instant."""
        if isinstance(call, seam.FsList):
            return self.listing()
        if isinstance(call, seam.FsSyncDir) and not self._names_changed and call.epoch in (None, self._disk.epoch):
            return seam.FsDone(epoch=self._disk.epoch)  # nothing to do, as after most reads
        reply = perform(self._disk, call)
        if isinstance(reply, seam.FsDone):
            self._follow(call)
        return reply

    def _follow(self, call: seam.FsCall) -> None:
        """Keep track of what is durable."""
        match call:
            case seam.FsSync(name=name):
                self._data_durable.add(name)
                return
            case seam.FsSyncDir():
                self._names_durable = set(self._disk.list())
                self._names_changed = False
                return
            case seam.FsWrite(name=name):
                self._data_durable.discard(name)
            case seam.FsLink(old=old, new=new) | seam.FsRename(old=old, new=new):
                if old in self._data_durable:
                    self._data_durable.add(new)
                else:
                    self._data_durable.discard(new)
                self._names_durable.discard(new)
            case _:
                pass
        self._changed()

    def _changed(self) -> None:
        self._listing = None
        self._names_changed = True

    def cut(self, draw: Callable[[str], int]) -> bool:
        """Lose power; return whether anything was lost with it."""
        before = dict(self.listing().files)
        self._disk.power_cut(SURVIVE_PPM, draw)
        self._listing = None
        after = self.listing().files
        self._names_durable = set(after)
        self._data_durable = set(after)
        return before != after

    def change(self, name: str, data: bytes | None) -> None:
        """Change a file, or take it away if `data` is None, behind everybody's back and durably.

        The content goes into a file of its own: what it replaces may have other names.
        """
        disk = self._disk
        disk.unlink(name)
        if data is not None:
            disk.write(name, data)
            disk.sync(name)
        disk.sync_dir()
        self._changed()


def batches_of(files: Mapping[str, bytes]) -> list[Batch]:
    """Return the batches of a record's files, in order, up to the first that is missing."""
    found: list[Batch] = []
    while (data := files.get(record_name(len(found) + 1))) is not None:
        found.append(decode_entry("", data).e)
    return found
