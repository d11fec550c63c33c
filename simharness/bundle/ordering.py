"""Event lines in bundle order, whatever the order of arrival, in bounded memory (§9.6, `architecture.md` section 4).

Lines gather in memory. When half the limit is reached they are sorted and the older half goes to the file, so a line that is
late by less than that costs nothing. A line that belongs before what the file already holds waits in sorted runs on disk;
`finish` merges them in with one pass, and with none if nothing was that late.
"""

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import Final, NamedTuple

DEFAULT_LIMIT: Final = 65_536
"""How many lines are held in memory at most."""

_KEY_CHARS: Final = 32
_KEY_BYTES: Final = 16

Keyed = tuple[int, int, bytes]
"""Virtual time, sequence, line."""


class _Block(NamedTuple):
    """A stretch of the file: the key of its last line, how many lines, how many bytes."""

    last: tuple[int, int]
    lines: int
    size: int


class LineFile:
    """A file of lines that arrive in any order."""

    def __init__(self, path: Path, scratch: Path, limit: int = DEFAULT_LIMIT) -> None:
        assert limit >= 2  # noqa: PLR2004  # one line pending, one late
        self._path, self._scratch, self._half = path, scratch, limit >> 1
        self._pending: list[Keyed] = []
        self._late: list[Keyed] = []
        self._runs: list[Path] = []
        self._blocks: list[_Block] = []
        self._written = (-1, -1)
        self._file = path.open("wb")
        self._keys = scratch.joinpath("keys").open("wb")
        self._digest = hashlib.sha256()

    def add(self, at_ns: int, sequence: int, line: bytes) -> None:
        """Take one line."""
        pending = self._pending
        pending.append((at_ns, sequence, line))
        if len(pending) >= self._half:
            self._flush((self._half + 1) >> 1)

    def finish(self) -> str:
        """Complete the file and return its SHA-256 in hex."""
        self._flush(len(self._pending))
        self.close()
        if self._late or self._runs:
            self._merge()
        return self._digest.hexdigest()

    @property
    def latest_ns(self) -> int:
        """The time of the latest line so far; 0 before the first."""
        return max(0, self._written[0], *(at_ns for at_ns, _, _ in self._pending))

    def close(self) -> None:
        """Close the open files."""
        self._file.close()
        self._keys.close()

    def _flush(self, count: int) -> None:
        """Write the `count` oldest pending lines; those that the file has already passed go to the late ones."""
        pending = self._pending
        pending.sort()
        first = bisect_left(pending, self._written, key=_key)
        if first:
            self._late += pending[:first]
            if len(self._late) >= self._half:
                self._spill()
        block = pending[first : max(first, count)]
        self._pending = pending[max(first, count) :]
        if block:
            times, sequences, lines = zip(*block, strict=True)
            data = b"".join(lines)
            self._file.write(data)
            self._digest.update(data)
            self._keys.write(array("Q", times + sequences).tobytes())
            self._written = _key(block[-1])
            self._blocks.append(_Block(self._written, len(block), len(data)))

    def _spill(self) -> None:
        self._late.sort()
        run = self._scratch.joinpath(f"run-{len(self._runs)}")
        with run.open("wb") as file:
            file.writelines(b"%016x%016x%b" % keyed for keyed in self._late)
        self._runs.append(run)
        self._late = []

    def _merge(self) -> None:
        """Write the file anew with the late lines in their places, hashing it on the way."""
        self._digest = hashlib.sha256()
        self._late.sort()
        late = merge(self._late, *map(_read_run, self._runs))
        waiting = next(late, None)
        whole = self._scratch.joinpath("merged")
        with (
            self._path.open("rb") as file,
            self._scratch.joinpath("keys").open("rb") as keys,
            whole.open("wb") as out,
        ):
            for block in self._blocks:
                data, key_bytes = file.read(block.size), keys.read(block.lines * _KEY_BYTES)
                if waiting is not None and _key(waiting) < block.last:
                    places = array("Q", key_bytes)
                    keys_of_block = zip(places[: block.lines], places[block.lines :], strict=True)
                    lines: list[bytes] = []
                    for key, line in zip(keys_of_block, data.splitlines(keepends=True), strict=True):
                        while waiting is not None and _key(waiting) < key:
                            lines.append(waiting[2])
                            waiting = next(late, None)
                        lines.append(line)
                    data = b"".join(lines)
                self._digest.update(data)
                out.write(data)
            # Every late line is older than some written one, so nothing can be left over.
            assert waiting is None, "a late line belongs before the end of the file"
        whole.replace(self._path)


def _key(keyed: Keyed) -> tuple[int, int]:
    return keyed[:2]


def _read_run(run: Path) -> Iterator[Keyed]:
    with run.open("rb") as file:
        for line in file:
            yield int(line[:16], 16), int(line[16:_KEY_CHARS], 16), line[_KEY_CHARS:]
