"""Places that output may take, and files that are written in one step (rulings B9, B19)."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from simharness.bundle.aside import aside, is_hidden
from simharness.core.canonical_json import parse
from simharness.core.errors import InputError

MANIFEST: Final = "manifest.json"
SCENARIO: Final = "scenario.toml"
EVENTS: Final = "events.ndjson"
SNAPSHOTS: Final = "snapshots"
VERDICTS: Final = "verdicts.json"
SCRATCH: Final = ".scratch"

_INTERNAL: Final = re.compile(r"\.[0-9]+\.partial(/|$)")
_ENTRIES: Final = (MANIFEST, SCENARIO, EVENTS, SNAPSHOTS, VERDICTS)


@contextmanager
def structured_io(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a structured error.

    Raises:
        InputError: In place of any OSError.
    """
    try:
        yield
    except OSError as error:
        raise InputError(file=str(path), field="(io)", rule=_refusal(error, path)) from None


def _refusal(error: OSError, path: Path) -> str:
    """Say what the system refused, and about which file if that is one that its user knows."""
    reason = (error.strerror or str(error)).partition("\n")[0]
    about = str(error.filename or path)
    return reason if _INTERNAL.search(about) or about == str(path) else f"{reason}: {about}"


def check_replaceable(final: Path) -> None:
    """Check that `final` is free, an empty directory, or a bundle and nothing else, and that its directory can be written.

    Raises:
        InputError: If writing there would destroy anything but a bundle, or is not possible.
    """
    check_writable(final)
    if not final.exists() and not final.is_symlink():
        return
    if final.is_symlink() or not final.is_dir():
        raise _taken(final, "exists and is not a directory")
    names = sorted(entry.name for entry in final.iterdir())
    if names and not (_is_bundle(final) and all(name in _ENTRIES for name in names)):
        raise _taken(final, "holds something other than a simharness bundle; name a new or an empty directory")


def check_writable(final: Path) -> None:
    """Check, before any work is done, that something can be written at `final`: make a hidden place for it, and take it away.

    Raises:
        InputError: If the path has no name of its own, leads through a file, or nothing can be made there.
    """
    if not final.name:
        raise _taken(final, "names no place of its own; name a new file or directory")
    with structured_io(final):
        parent = final.parent
        while not os.path.lexists(parent):
            parent = parent.parent
        if not parent.is_dir():
            raise InputError(file=str(final), field="(io)", rule=f"{parent} is not a directory")
        _try(parent, final)


def _try(above: Path, final: Path) -> None:
    """Make a hidden directory in `above` and in it, one below the other, what `final` needs besides; remove them.

    Nothing is made under a name of its own, which another writer could meet and count on.

    Raises:
        OSError: If the system refuses one of them, as it does in /proc, or a name that is too long.
    """
    first, *more = final.relative_to(above).parts
    hidden = [*more[:-1], *(f".{name}.0.partial" for name in more[-1:])]
    with aside(above.joinpath(first)) as made:
        made.joinpath(*[name for name in hidden if name != ".."]).mkdir(parents=True, exist_ok=True)


def check_folder(final: Path, ours: Mapping[str, Callable[[bytes], bool]]) -> None:
    """Check that `final` is free, or a directory that holds bundles, the files that `ours` knows by name and bytes, nothing else.

    Raises:
        InputError: If writing there would mix with anything else, or is not possible.
    """
    check_writable(final)
    if not final.exists() and not final.is_symlink():
        return
    if final.is_symlink() or not final.is_dir():
        raise _taken(final, "exists and is not a directory")
    for entry in sorted(final.iterdir()):
        if entry.name in ours:
            check_own(entry, ours[entry.name], by="this command")
        elif not is_hidden(entry.name) and not (_is_bundle(entry) and not entry.is_symlink()):
            raise _taken(final, f"holds something else than this command writes: {entry.name}; name a new directory")
    for name in ours:
        check_writable(final.joinpath(name))


def check_own(final: Path, ours: Callable[[bytes], bool], *, by: str, field: str = "out") -> None:
    """Check that `final` is free, or a file whose bytes `ours` knows, written `by` a command; no link, whatever it leads to.

    Raises:
        InputError: If writing there would destroy anything else, or is not possible.
    """
    check_writable(final)
    with structured_io(final):
        free = not os.path.lexists(final)
        known = free or (final.is_file() and not final.is_symlink() and ours(final.read_bytes()))
    if not known:
        rule = f"exists and was not written by {by}; name a new file, or remove it"
        raise InputError(file=str(final), field=field, rule=rule)


def put_file(file: Path, data: bytes) -> None:
    """Write `file` in one step: a reader sees the old bytes or the new ones, whoever else writes it at the same time."""
    put_files({file: data})


def put_files(files: Mapping[Path, bytes]) -> None:
    """Write each file in one step, and none before all of them are whole on disk: a full disk leaves what stood there."""
    with ExitStack() as held:
        fresh = {file: held.enter_context(aside(file, directory=False)) for file in files}
        for file, data in files.items():
            fresh[file].write_bytes(data)
        for file, whole in fresh.items():
            whole.replace(file)


def _is_bundle(directory: Path) -> bool:
    try:
        manifest = parse(directory.joinpath(MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and "events_ndjson_sha256" in manifest and "simulator_version" in manifest


def _taken(path: Path, rule: str) -> InputError:
    return InputError(file=str(path), field="out", rule=rule)
