"""Folders of files that appear whole or not at all, for reports that lie beside a bundle.

A folder is filled under a hidden name beside its own and renamed into place; whoever ends a session removes what killed ones left.
"""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Final

from simharness.bundle.aside import Aside, is_hidden, remove_leftovers
from simharness.bundle.places import put_file, structured_io
from simharness.core.errors import InputError

_MARK: Final = "report.md"


def put_folder(
    root: str | PurePath, name: str, files: Mapping[str, bytes], fill: Callable[[Path], object] | None = None
) -> None:
    """Make the folder `<root>/<name>`, replacing one made before.

    Args:
        root: Where folders of this sort live.
        name: Path below `root`.
        files: Content by file name; one of them is `report.md`, the mark of such a folder.
        fill: Adds more to the directory that it is given, the files being there.

    Raises:
        InputError: If something else bears the name, or the operating system refuses a write.
    """
    assert _MARK in files
    final = Path(root, name)
    with structured_io(final):
        _check_report(final)
        partial = Aside(final)
        try:
            for file, content in files.items():
                partial.path.joinpath(file).write_bytes(content)
            if fill is not None:
                fill(partial.path)
            partial.put(final, _check_report)
        finally:
            partial.close()


def _check_report(final: Path) -> None:
    if final.exists() and not final.joinpath(_MARK).is_file():
        rule = f"holds something other than a report ({_MARK} is missing); move it away"
        raise InputError(file=str(final), field="out", rule=rule)


def put_lines(root: str | PurePath, name: str, lines: bytes) -> None:
    """Write the file `<root>/<name>` in one step.

    Raises:
        InputError: If the operating system refuses a write.
    """
    final = Path(root, name)
    with structured_io(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        put_file(final, lines)


def clear_partials(root: str | PurePath) -> None:
    """Remove whatever killed processes left half-written below `root`. What a living one is writing stays."""
    for path in sorted(Path(root).rglob(".*.partial")):
        if is_hidden(path.name):
            remove_leftovers(path.parent)
