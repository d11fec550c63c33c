"""The hunts of an approval beside the tallies of its batch: a header, then one line a hunt, so that a stopped approval goes on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from simharness.cli.sweep_rows import RowFile
from simharness.supervisor.approve import Hunted


class HuntFile:
    """Finished hunts on disk, if there is a file."""

    def __init__(self, file: RowFile | None) -> None:
        self._file = file

    @classmethod
    @contextmanager
    def opened(cls, out: str | None, sources: str, exempt: Sequence[str]) -> "Iterator[HuntFile]":
        """Open the file beside that of the tallies.

        Raises:
            InputError: If it cannot be written, or somebody is writing it.
        """
        if out is None:
            yield cls(None)
            return
        header = {"sources": sources, "exempt": [*exempt]}
        with RowFile(Path(f"{out}.hunts"), of="approval", begins="sources", header=header) as file:
            yield cls(file)

    def taken_up(self) -> dict[tuple[str, bool], Hunted]:
        """Return the hunts that the file holds, by defect and whether X1 was left out.

        Raises:
            InputError: If other sources made it, there were other exemptions, or a line is not as it was written.
        """
        found: dict[tuple[str, bool], Hunted] = {}
        if self._file is None:
            return found
        for place, row in enumerate(self._file.read(), 1):
            try:
                one = msgspec.convert(row, Hunted)
            except msgspec.ValidationError:
                raise self._file.foreign(place, "it is no finished hunt") from None
            found[one.defect, one.alone] = one
        return found

    def append(self, found: Hunted) -> None:
        """Add a finished hunt."""
        if self._file is not None:
            self._file.append(msgspec.to_builtins(found))
