"""A disk as one opening of it sees it: after a loss of power nothing that it asks for is done."""

from simharness.contracts.disk import Disk, StaleEpochError


class Handle:
    """A `Disk` that belongs to the epoch in which it was opened.

    Every operation raises `StaleEpochError` once power was lost, so that nobody takes a sync after the loss for a sync of what
    was written before it.
    """

    __slots__ = ("_disk", "_epoch")

    def __init__(self, disk: Disk) -> None:
        self._disk, self._epoch = disk, disk.epoch

    @property
    def epoch(self) -> int:
        """The epoch in which the handle was opened."""
        return self._epoch

    def list(self) -> tuple[str, ...]:
        """Return every name, sorted."""
        return self._current().list()

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self._current().read(name)

    def write(self, name: str, data: bytes, *, append: bool = False) -> None:
        """Replace the content of a file, or add to its end."""
        self._current().write(name, data, append=append)

    def sync(self, name: str) -> None:
        """Make the content of a file durable."""
        self._current().sync(name)

    def sync_dir(self) -> None:
        """Make every name durable."""
        self._current().sync_dir()

    def link(self, name: str, new: str) -> None:
        """Give a file a second name, unless it is taken."""
        self._current().link(name, new)

    def rename(self, name: str, new: str) -> None:
        """Rename a file, in place of one that has the new name."""
        self._current().rename(name, new)

    def unlink(self, name: str) -> None:
        """Take a name away."""
        self._current().unlink(name)

    def _current(self) -> Disk:
        if self._disk.epoch != self._epoch:
            raise StaleEpochError(f"opened in epoch {self._epoch}, now {self._disk.epoch}")
        return self._disk
