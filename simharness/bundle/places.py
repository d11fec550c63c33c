"""Directories that a bundle may take, and the swap that puts it there (ruling B9)."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from simharness.core.canonical_json import parse
from simharness.core.errors import InputError

MANIFEST: Final = "manifest.json"
SCENARIO: Final = "scenario.toml"
EVENTS: Final = "events.ndjson"
SNAPSHOTS: Final = "snapshots"
VERDICTS: Final = "verdicts.json"
SCRATCH: Final = ".scratch"

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
        raise InputError(
            file=str(path), field="(io)", rule=f"{error.strerror or error}: {error.filename or path}"
        ) from None


def check_replaceable(final: Path) -> None:
    """Check that `final` is free, an empty directory, or a bundle and nothing else.

    Raises:
        InputError: If writing there would destroy anything but a bundle.
    """
    if not final.exists() and not final.is_symlink():
        return
    if final.is_symlink() or not final.is_dir():
        raise _taken(final, "exists and is not a directory")
    names = sorted(entry.name for entry in final.iterdir())
    if names and not (_is_bundle(final) and all(name in _ENTRIES for name in names)):
        raise _taken(final, "holds something other than a simharness bundle; name a new or an empty directory")


def make_partial(final: Path) -> Path:
    """Make and return the directory beside `final` that the bundle is written in; one left by a killed run is replaced.

    Raises:
        InputError: If something else bears its name.
    """
    partial = final.with_name(f".{final.name}.partial")
    if partial.is_symlink() or (partial.exists() and not _is_leftover(partial)):
        raise _taken(partial, "is in the way and was not left by a killed run")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    return partial


def put_in_place(partial: Path, final: Path) -> None:
    """Rename `partial` to `final`, replacing an old bundle."""
    check_replaceable(final)
    old = final.with_name(f".{final.name}.old")
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def put_file(file: Path, data: bytes) -> None:
    """Write `file` in one step: a reader sees the old bytes or the new ones."""
    fresh = file.with_name(f".{file.name}.fresh")
    fresh.write_bytes(data)
    fresh.replace(file)


def _is_bundle(directory: Path) -> bool:
    try:
        manifest = parse(directory.joinpath(MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and "events_ndjson_sha256" in manifest and "simulator_version" in manifest


def _is_leftover(directory: Path) -> bool:
    return directory.is_dir() and all(entry.name in (*_ENTRIES, SCRATCH) for entry in directory.iterdir())


def _taken(path: Path, rule: str) -> InputError:
    return InputError(file=str(path), field="out", rule=rule)
