"""The row file of a sweep: one JSON object a line, appended as rows are made, good again after any kill."""

from collections.abc import Iterator
from pathlib import Path

from simharness.bundle.places import structured_io
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.stateful.sweep import Row


class RowFile:
    """Rows on disk. What follows the last line end was cut off by a kill and is taken away before anything is added."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Iterator[Row]:
        """Yield the whole rows; the file ends after them from now on.

        Raises:
            InputError: If it cannot be read, or a whole line is no row.
        """
        with structured_io(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as file:
                file.seek(0)
                data = file.read()
                whole = data.rfind(b"\n") + 1
                file.truncate(whole)
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
        with structured_io(self._path), self._path.open("ab") as file:
            file.write(canonical_json.compact(row) + b"\n")

    def foreign(self, place: int, why: str) -> InputError:
        """Return the error of a line that this sweep did not write."""
        rule = f"line {place + 1} is not this sweep's: {why}; name another file, or remove this one"
        return InputError(file=str(self._path), field="--out", rule=rule)
