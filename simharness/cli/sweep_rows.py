"""The row file of a sweep: one JSON object a line, appended as rows are made, good again after any kill."""

import fcntl
from collections.abc import Iterator
from pathlib import Path

from simharness.bundle.places import check_writable, structured_io
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.stateful.sweep import Row


class RowFile:
    """Rows on disk. What follows the last line end was cut off by a kill and is taken away before anything is added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        check_writable(path)
        if path.exists() and not path.is_file():
            raise InputError(file=str(path), field="--out", rule="is no regular file")
        with structured_io(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._new = not path.exists()
            self._file = path.open("ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            rule = "another sweep is writing this file; name another one, or wait"
            raise InputError(file=str(path), field="--out", rule=rule) from None

    def close(self) -> None:
        """Let another sweep have the file; one that was made for nothing is removed."""
        self._file.flush()
        if self._new and self._path.stat().st_size == 0:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def read(self) -> Iterator[Row]:
        """Yield the whole rows; the file ends after them from now on.

        Raises:
            InputError: If it cannot be read, or a whole line is no row.
        """
        with structured_io(self._path):
            self._file.seek(0)
            data = self._file.read()
            whole = data.rfind(b"\n") + 1
            self._file.truncate(whole)
        for place, line in enumerate(data[:whole].split(b"\n")[:-1]):
            try:
                row = canonical_json.parse(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise self.foreign(place, "it is no row of a sweep")
            yield row

    def append(self, row: Row) -> None:
        """Add one row; a reader of the file sees it at once."""
        with structured_io(self._path):
            self._file.write(canonical_json.compact(row) + b"\n")
            self._file.flush()

    def foreign(self, place: int, why: str) -> InputError:
        """Return the error of a line that this sweep did not write."""
        rule = f"line {place + 1} is not this sweep's: {why}; name another file, or remove this one"
        return InputError(file=str(self._path), field="--out", rule=rule)
