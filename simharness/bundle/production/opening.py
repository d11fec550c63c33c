"""One reader for whatever a run left: a bundle, a production archive, an unpacked one."""

from pathlib import Path

from simharness.bundle.places import MANIFEST, structured_io
from simharness.bundle.production.archive import Archive
from simharness.bundle.production.capture import Capture
from simharness.bundle.production.simulated import Simulated
from simharness.bundle.production.store import Packed, Unpacked
from simharness.bundle.reader import Bundle
from simharness.core.errors import InputError, RefusedError


def open_capture(path: Path) -> Capture:
    """Open a bundle directory (its hashes are checked), a gzip tar of the collector, or a directory that holds its content.

    Raises:
        RefusedError: If it is none of them, or malformed, or a bundle's file differs from its hash.
    """
    with structured_io(path):
        if path.is_file():
            return Archive(Packed(path))
        if not path.is_dir():
            rule = "neither a bundle directory nor a production archive"
            raise InputError(file=str(path), field="(root)", rule=rule)
        names = sorted(entry.name for entry in path.iterdir())
    if MANIFEST in names:  # spelled to the letter: the collector's is MANIFEST.json
        return open_bundle(path)
    return Archive(Unpacked(path))


def open_bundle(path: Path) -> Simulated:
    """Open a bundle directory.

    Raises:
        RefusedError: If it is none, or malformed, or a file of it differs from its hash.
    """
    bundle = Bundle(path)
    problems = bundle.verify()
    if problems:
        raise RefusedError(problems)
    return Simulated(bundle)
