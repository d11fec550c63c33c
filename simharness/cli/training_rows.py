"""What a report on training is given besides scenarios: the rows of a sweep and a kill table, judged before anything is run."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from simharness.bundle.places import structured_io
from simharness.cli.sweep_rows import opened
from simharness.core.errors import InputError
from simharness.core.foreign import text_of
from simharness.scenario.words import printable
from simharness.training.document import Kill, SweepRow

_T = TypeVar("_T")


class _Of(msgspec.Struct):
    """Whose defect a row is about: tables of one name for each system are no repetition."""

    system: str = ""


def sweep_rows(name: str) -> tuple[SweepRow, ...]:
    """Read the rows that `sweep training --out` has written.

    Raises:
        InputError: If there is none, or one was changed, moved, cut off or taken twice, or says what no row can say.
    """
    found: dict[tuple[int, str, str], SweepRow] = {}
    last = b""
    for number, line in enumerate(_bytes(name).splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            raise _refused(name, f"line {number}", "it is cut off; the same sweep goes on from it and makes it whole")
        try:
            _, last = opened(line[:-1], last)
        except ValueError as error:
            raise _refused(name, f"line {number}", str(error)) from None
        row = _decoded(name, f"line {number}", line, SweepRow)
        key = row.seed, row.strategy, row.policy
        if key in found:
            rule = f"seed {row.seed}, {row.strategy}, {row.policy} stands in a line before"
            raise _refused(name, f"line {number}", rule)
        found[key] = row
    return tuple(_some(name, list(found.values())))


def kill_table(name: str) -> tuple[Kill, ...]:
    """Read the table that `knobs --json` has printed: an array, or one object a line.

    Raises:
        InputError: If it has no row, or one is malformed or there twice.
    """
    found: dict[tuple[str, str, str, bool], Kill] = {}
    for where, data in _items(name):
        kill, of = _decoded(name, where, data, Kill), msgspec.json.decode(data, type=_Of)
        key = of.system, kill.defect, kill.strategy, kill.guards
        if key in found:
            raise _refused(name, where, f"the hunt of {kill.defect} stands in a row before")
        found[key] = kill
    return tuple(_some(name, list(found.values())))


def _items(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of a table as JSON, each with its place."""
    data = _bytes(name)
    if data.lstrip().startswith(b"["):
        for number, item in enumerate(_decoded(name, "(rows)", data, list[msgspec.Raw]), 1):
            yield f"row {number}", bytes(item)
        return
    for number, line in enumerate(data.splitlines(), 1):
        yield f"line {number}", line


def _bytes(name: str) -> bytes:
    with structured_io(Path(name)):
        return Path(name).read_bytes()


def _decoded(name: str, where: str, data: bytes, form: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=form)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _refused(name, where, text_of(error)) from None


def _some(name: str, rows: list[_T]) -> list[_T]:
    if not rows:
        raise _refused(name, "(rows)", "it holds no row")
    return rows


def _refused(name: str, where: str, rule: str) -> InputError:
    return InputError(file=printable(name), field=where, rule=rule)
