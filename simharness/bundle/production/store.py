"""The files of an archive, packed or unpacked, by relative path. Nothing is ever written where an archive's names say.

A packed archive is read into memory, at most 1 GiB of it, 64 MiB a file; names that lead out of it, links and devices are refused.
"""

import gzip
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn, Protocol, Self, TypeVar

from simharness.bundle.places import structured_io
from simharness.bundle.production import layout
from simharness.core.errors import InputError

_Top = TypeVar("_Top", str, Path)
_BROKEN: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError)


class Store(Protocol):
    """Files below the top directory of a run."""

    def paths(self) -> list[str]:
        """Return every path, sorted."""

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""

    def refuse(self, path: str, field: str, rule: str) -> NoReturn:
        """Refuse one of the files.

        Raises:
            InputError: Always.
        """


class Unpacked:
    """A directory that holds a run's manifest, or one directory with it."""

    def __init__(self, root: Path) -> None:
        with structured_io(root):
            manifests = [path for path in (root, *_subdirectories(root)) if _holds_manifest(path)]
        self._root = _the_only_top(manifests, root)

    def paths(self) -> list[str]:
        """Return every path, sorted."""
        with structured_io(self._root):
            found = sorted(self._root.rglob("*"))
            for path in found:
                if path.is_symlink():
                    self.refuse(path.relative_to(self._root).as_posix(), "(type)", "a link; unpack regular files only")
            return [path.relative_to(self._root).as_posix() for path in found if path.is_file()]

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        file = self._root.joinpath(path)
        with structured_io(file):
            if file.stat().st_size > layout.LONGEST_FILE:
                self.refuse(path, "(size)", _too_long(layout.LONGEST_FILE))
            return file.read_bytes()

    def refuse(self, path: str, field: str, rule: str) -> NoReturn:
        """Refuse one of the files."""
        raise InputError(file=str(self._root.joinpath(path)), field=field, rule=rule)


class Packed:
    """A gzip tar with one top directory."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        files = dict(_members(archive))
        tops = [path.rpartition("/")[0] for path in files if _is_manifest(path)]
        top = _the_only_top(tops, archive)
        prefix = f"{top}/" if top else ""
        inside = [path for path in files if path.startswith(prefix)]
        self._files: Mapping[str, bytes] = {path.removeprefix(prefix): files[path] for path in sorted(inside)}

    def paths(self) -> list[str]:
        """Return every path, sorted."""
        return [*self._files]

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        return self._files[path]

    def refuse(self, path: str, field: str, rule: str) -> NoReturn:
        """Refuse one of the files."""
        raise InputError(file=f"{self._archive}:{path}", field=field, rule=rule)


class _Header(tarfile.TarInfo):
    """A header that is broken or missing is an error; tarfile takes it for the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read one header.

        Raises:
            ReadError: If it is no header.
            EOFHeaderError: If the archive ends here as archives do.
        """
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # a block of zeros; the stubs leave it out
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from None


class _Bounded:
    """Reads no more of a stream than an archive may hold, headers included."""

    def __init__(self, stream: gzip.GzipFile, archive: Path) -> None:
        self._stream, self._archive, self._left = stream, archive, layout.LONGEST_ARCHIVE

    def read(self, size: int) -> bytes:
        """Read some bytes."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            rule = _too_long(layout.LONGEST_ARCHIVE, "unpack it and name the directory")
            raise InputError(file=str(self._archive), field="(size)", rule=rule)
        return data


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the regular files of an archive with their bytes.

    Raises:
        InputError: If it is no gzip tar, or is cut short, or holds what no archive of a run holds.
    """
    seen: dict[str, None] = {}
    with _structured(archive), gzip.open(archive) as zipped:
        assert isinstance(zipped, gzip.GzipFile)
        bounded = _Bounded(zipped, archive)
        with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_Header) as tar:  # type: ignore[call-overload]  # only read() is used
            for member in tar:
                path = _checked_name(member, archive)
                if member.isdir():
                    continue
                if path in seen:
                    raise _refused(archive, member.name, "(name)", "stands in the archive twice")
                seen[path] = None
                if len(seen) > layout.MOST_FILES:
                    raise InputError(
                        file=str(archive), field="(files)", rule=f"more than {layout.MOST_FILES} files in one archive"
                    )
                content = tar.extractfile(member)
                assert content is not None, "a regular file has content"
                yield path, content.read()
        while bounded.read(1 << 20):  # to the end, where the checksum stands
            pass


def _checked_name(member: tarfile.TarInfo, archive: Path) -> str:
    parts = member.name.split("/")
    if not all(map(str.isprintable, parts)):
        raise _refused(archive, repr(member.name), "(name)", "a name is printable text")
    if member.name.startswith("/") or "\\" in member.name or ".." in parts:
        raise _refused(archive, member.name, "(name)", "leads out of the archive")
    if not (member.isdir() or member.isreg()):
        raise _refused(archive, member.name, "(type)", "neither a directory nor a regular file")
    if member.size > layout.LONGEST_FILE:
        raise _refused(archive, member.name, "(size)", _too_long(layout.LONGEST_FILE))
    return "/".join(part for part in parts if part not in ("", "."))


@contextmanager
def _structured(archive: Path) -> Iterator[None]:
    with structured_io(archive):
        try:
            yield
        except _BROKEN as error:
            text = f"{error}" if f"{error}".isprintable() and f"{error}" else type(error).__name__
            raise InputError(file=str(archive), field="(root)", rule=f"not a whole gzip tar: {text}") from None


def _refused(archive: Path, member: str, field: str, rule: str) -> InputError:
    return InputError(file=f"{archive}:{member}", field=field, rule=rule)


def _too_long(limit: int, advice: str = "") -> str:
    return f"longer than {limit} bytes" + (f"; {advice}" if advice else "")


def _subdirectories(root: Path) -> list[Path]:
    return [path for path in sorted(root.iterdir()) if path.is_dir() and not path.is_symlink()]


def _holds_manifest(directory: Path) -> bool:
    return layout.MANIFEST in [
        path.name for path in sorted(directory.iterdir())
    ]  # spelled to the letter on every system


def _is_manifest(path: str) -> bool:
    return path == layout.MANIFEST or (path.count("/") == 1 and path.endswith(f"/{layout.MANIFEST}"))


def _the_only_top(tops: list[_Top], where: Path) -> _Top:
    if len(tops) != 1:
        found = "no" if not tops else "more than one"
        raise InputError(file=str(where), field=layout.MANIFEST, rule=f"{found} top directory holds {layout.MANIFEST}")
    return tops[0]
