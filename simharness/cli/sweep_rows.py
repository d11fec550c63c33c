"""Files that a stopped command goes on from: one JSON object a line, appended as it is made, good again after any kill.

Each line ends with a checksum over itself and the checksum before it, so a line that was changed, moved or taken out is found.
"""

import fcntl
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

from simharness.bundle.places import check_writable, structured_io
from simharness.core import canonical_json
from simharness.core.errors import InputError

Row = dict[str, Any]

_CHECK: Final = b',"check":"'
_DIGITS: Final = 16
_END: Final = b'"}'


class RowFile:
    """Rows on disk. What follows the last line end was cut off by a kill and is taken away before anything is added.

    Args:
        path: The file; its directory is made.
        of: What its rows are of, for errors: `sweep`, `batch`.
        begins: The key that every file of this sort begins with: of its header, if it has one, else of its rows.
        header: The first line; a file with another one is refused.

    Raises:
        InputError: If nothing can be written there, it is no regular file, or somebody is writing it.
    """

    def __init__(self, path: Path, *, of: str = "sweep", begins: str = "space", header: Row | None = None) -> None:
        self._path, self._of, self._begins = path, of, f'{{"{begins}":'.encode()
        self._header, self._last, self._whole = header, b"", 0
        with structured_io(path):
            if path.exists() and not path.is_file():
                raise InputError(file=str(path), field="--out", rule="is no regular file")
        check_writable(path)
        with structured_io(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._new = not path.exists()
            self._file = path.open("ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            rule = f"another {of} is writing this file; name another one, or wait"
            raise InputError(file=str(path), field="--out", rule=rule) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another command have the file; one that was made for nothing is removed."""
        self._file.flush()
        if self._new and self._path.stat().st_size == 0:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def read(self) -> Iterator[Row]:
        """Yield the whole rows; what is appended comes after them. Nothing is changed yet.

        Raises:
            InputError: If it cannot be read, is another's, or a line is not as it was written.
        """
        with structured_io(self._path):
            self._file.seek(0)
            data = self._file.read()
        head = data[: len(self._begins)]
        if data and not self._begins.startswith(head):
            raise self.foreign(0, f"it is no row of a {self._of}")
        self._whole = data.rfind(b"\n") + 1
        for place, line in enumerate(data[: self._whole].split(b"\n")[:-1]):
            row = self._opened(place, line)
            if self._header is not None and place == 0:
                if row != canonical_json.parse(canonical_json.compact(self._header)):
                    raise self.foreign(0, "it is of another one, or of other sources")
                continue
            yield row

    def _opened(self, place: int, line: bytes) -> Row:
        try:
            row, self._last = opened(line, self._last)
        except ValueError as error:
            raise self.foreign(place, str(error)) from None
        return row

    def append(self, row: Row) -> None:
        """Add one row; a reader of the file sees it at once."""
        with structured_io(self._path):
            self._file.truncate(self._whole)
            if self._header is not None and not self._whole:
                self._put(self._header)
            self._put(row)
            self._file.flush()

    def _put(self, row: Row) -> None:
        line, self._last = sealed(row, self._last)
        self._file.write(line + b"\n")
        self._whole += len(line) + 1

    def foreign(self, place: int, why: str) -> InputError:
        """Return the error of a line that this command did not write."""
        rule = f"line {place + 1} is not this {self._of}'s: {why}; name another file, or remove this one"
        return InputError(file=str(self._path), field="--out", rule=rule)


def sealed(row: Row, last: bytes) -> tuple[bytes, bytes]:
    """Return a row as a line without its end, and its checksum; `last` is that of the line before, empty for the first."""
    body = canonical_json.compact(row)
    check = _checksum(body, last)
    return body[:-1] + _CHECK + check + _END, check


def opened(line: bytes, last: bytes) -> tuple[Row, bytes]:
    """Return the row of a line, and its checksum.

    Raises:
        ValueError: If it is none, or is not as it was written.
    """
    cut = len(line) - len(_CHECK) - _DIGITS - len(_END)
    body, check = line[: max(0, cut)] + b"}", line[-_DIGITS - len(_END) : -len(_END)]
    if not line.startswith(b"{") or not line.endswith(_END) or line[max(0, cut) :][: len(_CHECK)] != _CHECK:
        raise ValueError("it has no checksum, as another version or another program writes it")
    if check != _checksum(body, last):
        raise ValueError("its checksum does not fit: it was changed, or a line before it was taken out")
    row: Row = canonical_json.parse(body)
    return row, check


def _checksum(body: bytes, last: bytes) -> bytes:
    return blake2b(last + body, digest_size=_DIGITS // 2).hexdigest().encode()
