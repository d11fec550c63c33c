"""The disk of a process: the port that is handed in, and what is done with it."""

from contextlib import suppress
from typing import Final, Protocol

_INCARNATION: Final = "incarnation"
CHECKPOINT: Final = "checkpoint"


class Disk(Protocol):
    """A flat directory. What is written is durable after `sync` of the file and `sync_dir`; a missing name is FileNotFoundError."""

    def list(self) -> tuple[str, ...]:
        """Return every name, sorted."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def write(self, name: str, data: bytes, *, append: bool = False) -> None:
        """Replace the content of a file, or add to its end."""

    def sync(self, name: str) -> None:
        """Make the content of a file durable."""

    def sync_dir(self) -> None:
        """Make names durable."""

    def rename(self, name: str, new: str) -> None:
        """Rename a file, in place of one that has the new name."""

    def unlink(self, name: str) -> None:
        """Take a name away."""


def put(disk: Disk, name: str, data: bytes) -> None:
    """Replace a file whole and durably."""
    fresh = f"{name}.tmp"
    with suppress(FileNotFoundError):
        disk.unlink(fresh)
    disk.write(fresh, data)
    disk.sync(fresh)
    disk.rename(fresh, name)
    disk.sync_dir()


def get(disk: Disk, name: str) -> bytes | None:
    """Return the content of a file, or None if there is none."""
    try:
        return disk.read(name)
    except FileNotFoundError:
        return None


def next_incarnation(disk: Disk) -> int:
    """Count one start more, and return how many there were."""
    number = int.from_bytes(get(disk, _INCARNATION) or b"", "little") + 1
    put(disk, _INCARNATION, number.to_bytes(4, "little"))
    return number
