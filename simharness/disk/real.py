"""A directory of the real file system behind the port of a disk (ruling K3): what runs on a simulated disk runs on this one.

No simulated run uses it. POSIX only: it relies on hard links and on directories that can be synced.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simharness.contracts.disk import NameTakenError, NoSuchNameError, check_name


class RealDisk:
    """A `Disk`. `epoch` is always 0: nobody who holds this object outlives a loss of power.

    Args:
        directory: Where the files lie; it is made if it is not there, and holds nothing else.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory

    @property
    def epoch(self) -> int:
        """0."""
        return 0

    def list(self) -> tuple[str, ...]:
        """Return every name, sorted."""
        return tuple(sorted(path.name for path in self._directory.iterdir()))

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with _errors_of_the_port():
            return self._path(name).read_bytes()

    def write(self, name: str, data: bytes, *, append: bool = False) -> None:
        """Replace the content of a file in place, or add to its end."""
        with self._path(name).open("ab" if append else "wb") as file:
            file.write(data)

    def sync(self, name: str) -> None:
        """Have the system write the content of a file to the device."""
        with _errors_of_the_port(), self._path(name).open("rb") as file:
            os.fsync(file.fileno())

    def sync_dir(self) -> None:
        """Have the system write the directory to the device."""
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, name: str, new: str) -> None:
        """Give a file a second name, unless it is taken."""
        old_path, new_path = self._path(name), self._path(new)
        with _errors_of_the_port():
            new_path.hardlink_to(old_path)

    def rename(self, name: str, new: str) -> None:
        """Rename a file, in place of one that has the new name; nothing happens if both name the same file."""
        old_path, new_path = self._path(name), self._path(new)
        with _errors_of_the_port():
            old_path.replace(new_path)

    def unlink(self, name: str) -> None:
        """Take a name away."""
        with _errors_of_the_port():
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        check_name(name)
        return self._directory.joinpath(name)


@contextmanager
def _errors_of_the_port() -> Iterator[None]:
    """Turn the two answers that callers act on into the port's own; any other error passes as it is."""
    try:
        yield
    except FileNotFoundError as error:
        raise NoSuchNameError(f"{error.filename} does not exist") from error
    except FileExistsError as error:
        raise NameTakenError(f"{error.filename2 or error.filename} exists") from error
