"""Hidden names beside a place: what is being written stands there until it is whole (rulings B9, B19).

The name is `.<name>.<number>.partial`. Each writer takes the first number that is free and holds a lock on what it made, so
writers of one place, in whatever processes, never share a file. The lock ends with its process: what no lock holds is a leftover
of one that was killed, and the next writer of that place removes it.
"""

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

_HIDDEN: Final = re.compile(r"\.(?P<name>.+)\.[0-9]+\.partial")
_OURS: Final = re.compile(
    r"manifest\.json|scenario\.toml|events\.ndjson|snapshots|verdicts\.json|\.scratch"  # a bundle
    r"|bundle|report\.md|tree|archive\.tar\.gz|old"  # a report, an archive, what is replaced
    r"|summary\.md|reachability\.tsv|timeline-.*\.tsv"  # a rendering
)
_OCCUPIED: Final = (errno.EEXIST, errno.ENOTEMPTY)


def is_hidden(name: str) -> bool:
    """Tell whether a file name is of the form that this module gives."""
    return _HIDDEN.fullmatch(name) is not None


class Aside:
    """A directory, or an empty file, beside `final` that belongs to this writer alone until `close`.

    Raises:
        OSError: If it cannot be made; also from `put`.
    """

    def __init__(self, final: Path, *, directory: bool = True) -> None:
        remove_leftovers(final.parent, final.name)
        self._made = [parent for parent in final.parents if not parent.exists()] if directory else []
        """The directories above it that it makes, the innermost first."""
        if directory:
            final.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._lock = _claimed(final, _make_directory if directory else _make_file)

    def put(self, final: Path, check: Callable[[Path], object]) -> None:
        """Rename it to `final`. What stands there is taken away first, if `check` lets it; whoever comes last stays."""
        with aside(final) as trash:
            old = trash.joinpath("old")
            while True:
                check(final)
                with suppress(FileNotFoundError):
                    final.rename(old)
                try:
                    self.path.rename(final)
                except OSError as error:
                    if error.errno not in _OCCUPIED:  # else another writer was faster: its turn is over too
                        if old.exists():
                            old.rename(final)
                        raise
                    shutil.rmtree(old, ignore_errors=True)
                else:
                    return

    def close(self) -> None:
        """Remove it, if it still has its hidden name, and what was made for it alone."""
        if _same(self.path, self._lock):
            _remove(self.path)
        os.close(self._lock)
        with suppress(OSError):  # whatever has something else in it by now stays
            for parent in self._made:
                parent.rmdir()


@contextmanager
def aside(final: Path, *, directory: bool = True) -> Iterator[Path]:
    """Give a hidden name beside `final`; remove what still bears it at the end."""
    held = Aside(final, directory=directory)
    try:
        yield held.path
    finally:
        held.close()


def remove_leftovers(parent: Path, name: str | None = None) -> None:
    """Remove what killed writers left in a directory, of one name or of any. What cannot be removed is left where it is."""
    with suppress(OSError):
        for path in sorted(parent.iterdir()):
            form = _HIDDEN.fullmatch(path.name)
            if form is not None and name in (None, form["name"]):
                _remove_leftover(path)


def _remove_leftover(path: Path) -> None:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same(path, lock) and _is_ours(path):
            _remove(path)
    except OSError:  # somebody is at work there, or this file system has no locks
        pass
    finally:
        os.close(lock)


def _is_ours(path: Path) -> bool:
    """Tell whether a directory holds nothing but what is written into hidden ones; anything else is somebody's own."""
    if not path.is_dir():
        return True
    names = sorted(entry.name for entry in path.iterdir())
    return all(_OURS.fullmatch(name) or _HIDDEN.fullmatch(name) for name in names)


def _claimed(final: Path, make: Callable[[Path], object]) -> tuple[Path, int]:
    for number in count():
        path = final.with_name(f".{final.name}.{number}.partial")
        with suppress(FileExistsError):
            make(path)
            with suppress(FileNotFoundError):
                lock = os.open(path, os.O_RDONLY)
                with suppress(OSError):  # a file system without locks: nothing here is ever taken for a leftover
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if _same(path, lock):
                    return path, lock
                os.close(lock)  # taken for a leftover between its making and its locking
    raise AssertionError("the numbers do not end")


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True)  # another writer that gave up may have taken its empty directory away again


def _make_file(path: Path) -> None:
    path.touch(exist_ok=False)


def _same(path: Path, lock: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(lock))
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
