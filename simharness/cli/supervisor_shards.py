"""The file of a batch: a header, then one line a block. A batch that was stopped goes on from it, and shards are merged from it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from simharness.bundle.places import structured_io
from simharness.cli.supervisor_sources import source_digest
from simharness.cli.sweep_rows import RowFile, opened
from simharness.core.errors import InputError
from simharness.supervisor.batch import Block, Tally, Task, from_plain, plain, total


class BatchFile:
    """Tallies on disk, if there is a file."""

    def __init__(self, file: RowFile | None) -> None:
        self._file = file
        self.done = 0
        """Blocks that the file holds."""

    @classmethod
    @contextmanager
    def opened(cls, name: str | None, task: Task) -> "Iterator[BatchFile]":
        """Open the file of a task.

        Raises:
            InputError: If it cannot be written, or somebody is writing it.
        """
        if name is None:
            yield cls(None)
            return
        with RowFile(Path(name), of="batch", begins="task", header=_header(task)) as file:
            yield cls(file)

    def taken_up(self, blocks: Sequence[Block]) -> list[Tally]:
        """Return the tallies that the file holds already.

        Raises:
            InputError: If it is another task's, other sources made it, or a line is not as it was written.
        """
        if self._file is None:
            return []
        found = []
        for place, row in enumerate(self._file.read(), 1):
            try:
                found.append(from_plain(row))
            except msgspec.ValidationError:
                raise self._file.foreign(place, "it is no tally of a block") from None
        tallies = found[: len(blocks)]
        self.done = len(tallies)
        return tallies

    def append(self, tally: Tally) -> None:
        """Add the tally of the next block."""
        if self._file is not None:
            self._file.append(plain(tally))


def _header(task: Task) -> dict[str, Any]:
    return {"task": msgspec.to_builtins(task), "sources": source_digest()}


def _read(path: Path) -> tuple[dict[str, Any], list[Tally]]:
    """Read a whole file.

    Raises:
        InputError: If it is no file of a batch, or a line is not as it was written.
    """
    with structured_io(path):
        lines = path.read_bytes().split(b"\n")[:-1]
    rows, last = [], b""
    for place, line in enumerate(lines):
        try:
            row, last = opened(line, last)
        except ValueError as error:
            raise InputError(file=str(path), field=f"line {place + 1}", rule=str(error)) from None
        rows.append(row)
    try:
        header, *tallies = rows
        return {**header, "task": msgspec.convert(header["task"], Task)}, [from_plain(row) for row in tallies]
    except (ValueError, KeyError, msgspec.ValidationError):
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
        own: Task = header["task"]
        whole = msgspec.structs.replace(own, index=0)
        if task is None:
            task, sources = whole, header.get("sources")
        if (whole, header.get("sources")) != (task, sources):
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
