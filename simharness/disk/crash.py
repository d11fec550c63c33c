"""A file system in memory that can lose its power (ruling K3)."""

from collections.abc import Callable

from simharness.contracts.disk import NameTakenError, NoSuchNameError, check_name
from simharness.core.units import PPM


class _File:
    """The content of a file as it is, and as it was at the last sync: empty if there was none."""

    __slots__ = ("data", "durable")

    def __init__(self) -> None:
        self.data = self.durable = b""


class CrashDisk:
    """A `CrashableDisk`. It is as severe as the port allows: nothing becomes durable before it is asked to.

    Each changed directory entry survives or is lost by itself, so an unsynced `rename` can leave both names, either or none.
    """

    __slots__ = ("_durable", "_epoch", "_names")

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """How many times power was lost."""
        return self._epoch

    def list(self) -> tuple[str, ...]:
        """Return every name, sorted."""
        return tuple(sorted(self._names))

    def contents(self) -> dict[str, bytes]:
        """Return every name, sorted, with the content of its file."""
        names = self._names
        return {name: names[name].data for name in sorted(names)}

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self._file(name).data

    def write(self, name: str, data: bytes, *, append: bool = False) -> None:
        """Replace the content of a file, or add to its end; a file that is not there is made."""
        file = self._names.get(name)
        if file is None:
            check_name(name)
            file = self._names[name] = _File()
        file.data = file.data + data if append else bytes(data)

    def sync(self, name: str) -> None:
        """Make the content of a file durable."""
        file = self._file(name)
        file.durable = file.data

    def sync_dir(self) -> None:
        """Make every name durable."""
        self._durable = self._names.copy()

    def link(self, name: str, new: str) -> None:
        """Give a file a second name, unless it is taken."""
        file = self._file(name)
        check_name(new)
        if new in self._names:
            raise NameTakenError(f"{new} exists")
        self._names[new] = file

    def rename(self, name: str, new: str) -> None:
        """Rename a file, in place of one that has the new name; nothing happens if both name the same file."""
        file = self._file(name)
        check_name(new)
        if self._names.get(new) is not file:
            self._names[new] = file
            del self._names[name]

    def unlink(self, name: str) -> None:
        """Take a name away."""
        self._file(name)
        del self._names[name]

    def power_cut(self, survive_ppm: int = 0, draw: Callable[[str], int] | None = None) -> None:
        """Fall back to what is durable, but for the directory entries that a draw lets survive."""
        assert 0 <= survive_ppm <= PPM
        names, durable = self._names, self._durable
        kept: dict[str, _File] = {}
        for name in sorted({*names, *durable}):
            file = durable.get(name)
            if survive_ppm and names.get(name) is not file:
                assert draw is not None, "what may survive is drawn"
                if draw(name) < survive_ppm:
                    file = names.get(name)
            if file is not None:
                file.data = file.durable
                kept[name] = file
        self._names, self._durable = kept, kept.copy()
        self._epoch += 1

    def _file(self, name: str) -> _File:
        file = self._names.get(name)
        if file is None:
            check_name(name)
            raise NoSuchNameError(f"{name} does not exist")
        return file
