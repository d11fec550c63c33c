"""The hunts of an approval beside the tallies of its batch: a header, then one line a hunt, so that a stopped approval goes on."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from simharness.bundle.places import structured_io
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.supervisor.approve import Hunted


class HuntFile:
    """Finished hunts on disk, if a path was given. What follows the last line end was cut off by a kill and is taken away."""

    def __init__(self, out: str | None, sources: str, exempt: Sequence[str]) -> None:
        self._path = None if out is None else Path(f"{out}.hunts")
        self._header = canonical_json.compact({"sources": sources, "exempt": [*exempt]})

    def taken_up(self) -> dict[tuple[str, bool], Hunted]:
        """Return the hunts that the file holds, by defect and whether X1 was left out; write its header if it holds nothing.

        Raises:
            InputError: If other sources made it, there were other exemptions, or it is something else.
        """
        if self._path is None:
            return {}
        with structured_io(self._path):
            data = self._path.read_bytes() if self._path.exists() else b""
            header, *lines = data[: data.rfind(b"\n") + 1].split(b"\n")
            if header not in (b"", self._header):
                rule = "it is of other sources or other exemptions, or no file of hunts"
                raise InputError(file=str(self._path), field="--out", rule=rule)
            self._path.write_bytes(b"\n".join([self._header, *lines]) if header else self._header + b"\n")
        try:
            found = [msgspec.convert(canonical_json.parse(line), Hunted) for line in lines if line]
        except (ValueError, msgspec.ValidationError) as error:
            raise InputError(file=str(self._path), field="(root)", rule=f"it is no file of hunts: {error}") from None
        return {(one.defect, one.alone): one for one in found}

    def append(self, found: Hunted) -> None:
        """Add a finished hunt."""
        if self._path is not None:
            with structured_io(self._path), self._path.open("ab") as file:
                file.write(canonical_json.compact(msgspec.to_builtins(found)) + b"\n")
