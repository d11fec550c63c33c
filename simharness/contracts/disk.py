"""The disk of one machine (ruling K3): a flat directory, and what of it outlives a loss of power.

What an operation changes is visible at once and durable later: data after `sync` of its file, names after `sync_dir`.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

NAME_RULE: Final = "a file name is 1 to 128 characters of A-Z a-z 0-9 . _ - and does not start with a dot"
_NAME: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,128}")

TEMPORARY_SUFFIX: Final = ".tmp"
"""What `put` adds to a name while the content is not whole. A loss of power may leave such a file behind."""


class DiskError(OSError):
    """An operation on a disk was refused. A system that imports nothing of ours catches its built-in bases."""


class NoSuchNameError(DiskError, FileNotFoundError):
    """The directory does not hold the name."""


class NameTakenError(DiskError, FileExistsError):
    """The directory holds the name already."""


class StaleEpochError(DiskError):
    """Power was lost since this handle was opened: what it wrote may be gone."""


class Disk(Protocol):
    """A flat directory: names of files, each with its bytes; several names may be links to one file.

    Every method refuses a name that breaks `NAME_RULE` with a ValueError, and a name that it needs and that is not there with
    `NoSuchNameError`.
    """

    @property
    def epoch(self) -> int:
        """How many times power was lost."""

    def list(self) -> tuple[str, ...]:
        """Return every name, sorted."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def write(self, name: str, data: bytes, *, append: bool = False) -> None:
        """Replace the content of a file, or add to its end; a file that is not there is made."""

    def sync(self, name: str) -> None:
        """Make the content of a file durable, under whatever name."""

    def sync_dir(self) -> None:
        """Make the directory durable: which names there are, and which file each means."""

    def link(self, name: str, new: str) -> None:
        """Give a file a second name.

        Raises:
            NameTakenError: If there is a file of that name already: of several that try, one succeeds.
        """

    def rename(self, name: str, new: str) -> None:
        """Rename a file, in place of one that has the new name; nothing happens if both name the same file."""

    def unlink(self, name: str) -> None:
        """Take a name away; the file goes with its last name."""


class CrashableDisk(Disk, Protocol):
    """A disk that can lose its power; what a run gives to each of its machines."""

    def power_cut(self, survive_ppm: int = 0, draw: Callable[[str], int] | None = None) -> None:
        """Fall back to what is durable, and count one epoch more.

        Args:
            survive_ppm: The share of changed directory entries that survive without having been synced.
            draw: Gives the number in [0, 1_000_000) of an entry, by name; it is asked for entries that changed, in order of
                their names, and only if `survive_ppm` is not 0. An entry whose number is below `survive_ppm` survives.
        """


def check_name(name: str) -> None:
    """Refuse what is no file name.

    Raises:
        ValueError: If `name` breaks `NAME_RULE`.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{NAME_RULE}: {name!r}")


def put(disk: Disk, name: str, data: bytes) -> None:
    """Replace a file whole and durably: whenever power is lost, it holds its old content or all of `data`.

    What a loss of power left under the temporary name is never written into: it may be linked to the file itself.
    """
    temporary = name + TEMPORARY_SUFFIX
    with suppress(NoSuchNameError):
        disk.unlink(temporary)
    disk.write(temporary, data)
    disk.sync(temporary)
    disk.rename(temporary, name)
    disk.sync_dir()


def append(disk: Disk, name: str, data: bytes) -> None:
    """Add to the end of a file, which is made if it is not there; durable only after `sync` (and `sync_dir`, if it is new)."""
    disk.write(name, data, append=True)
