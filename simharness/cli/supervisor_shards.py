"""The file of a batch: a header, then one line a block. A batch that was stopped goes on from it, and shards are merged from it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from simharness.bundle.places import structured_io
from simharness.cli.supervisor_sources import source_digest
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.supervisor.batch import Block, Tally, Task, from_plain, plain, total


class BatchFile:
    """Tallies on disk, if a path was given. What follows the last line end was cut off by a kill and is taken away."""

    def __init__(self, path: Path | None, task: Task) -> None:
        self._path, self._task = path, task
        self.done = 0
        """Blocks that the file holds."""

    @classmethod
    @contextmanager
    def opened(cls, name: str | None, task: Task) -> "Iterator[BatchFile]":
        """Open the file of a task; its header is written if there is none.

        Raises:
            InputError: If it is another task's, or other sources made it.
        """
        yield cls(None if name is None else Path(name), task)

    def taken_up(self, blocks: Sequence[Block]) -> list[Tally]:
        """Return the tallies that the file holds already."""
        if self._path is None:
            return []
        header = canonical_json.parse(canonical_json.compact(_header(self._task)))
        with structured_io(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            data = self._path.read_bytes() if self._path.exists() else b""
            data = data[: data.rfind(b"\n") + 1]
            self._path.write_bytes(data or canonical_json.compact(header) + b"\n")
        if not data:
            return []
        found = _read(self._path)
        if found[0] != header:
            raise InputError(
                file=str(self._path), field="--out", rule="it is the file of another batch, or of other sources"
            )
        tallies = found[1][: len(blocks)]
        self.done = len(tallies)
        return tallies

    def append(self, tally: Tally) -> None:
        """Add the tally of the next block."""
        if self._path is not None:
            with structured_io(self._path), self._path.open("ab") as file:
                file.write(canonical_json.compact(plain(tally)) + b"\n")


def _header(task: Task) -> dict[str, Any]:
    return {"task": msgspec.to_builtins(task), "sources": source_digest()}


def _read(path: Path) -> tuple[dict[str, Any], list[Tally]]:
    """Read a whole file.

    Raises:
        InputError: If it is no file of a batch.
    """
    with structured_io(path):
        lines = path.read_bytes().split(b"\n")[:-1]
    try:
        header, *rows = map(canonical_json.parse, lines)
        return header, [from_plain(row) for row in rows]
    except (ValueError, msgspec.ValidationError, TypeError, AttributeError):
        raise InputError(file=str(path), field="(root)", rule="it is no file of a batch") from None


def merged(paths: Sequence[Path]) -> tuple[Task, Tally]:
    """Put the shards of one batch together.

    Raises:
        InputError: If they are not all the shards of one batch, each whole, made by the same sources.
    """
    task: Task | None = None
    sources: object = None
    seen: list[int] = []
    parts: list[Tally] = []
    for path in paths:
        header, rows = _read(path)
        own = msgspec.convert(header["task"], Task)
        whole = msgspec.structs.replace(own, index=0)
        if task is None:
            task, sources = whole, header["sources"]
        if (whole, header["sources"]) != (task, sources):
            raise InputError(file=str(path), field="--merge", rule="it belongs to another batch, or to other sources")
        if own.index in seen:
            raise InputError(file=str(path), field="--merge", rule=f"shard {own.index} is there twice")
        if len(rows) != len(list(own.blocks())):
            raise InputError(file=str(path), field="--merge", rule="the shard is not finished")
        seen.append(own.index)
        parts.extend(rows)
    assert task is not None, "the command line asks for one file at least"
    if len(seen) != task.shards:
        rule = f"{len(seen)} of {task.shards} shards are given"
        raise InputError(file=str(paths[0]), field="--merge", rule=rule)
    return task, total(parts)
