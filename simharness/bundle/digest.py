"""Digests: of an event stream and of a whole bundle (ruling B6)."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from simharness.bundle.lines import encode_line
from simharness.bundle.places import EVENTS, VERDICTS
from simharness.bundle.reader import Bundle
from simharness.contracts.records import Record, SnapshotRecord


def event_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield the event lines of `records` in bundle order, newline included, whatever their order here."""
    events = [record for record in records if not isinstance(record, SnapshotRecord)]
    events.sort(key=lambda record: (record.virtual_time_ns, record.sequence))
    return map(encode_line, events)


def events_digest(records: Iterable[Record]) -> str:
    """Return what the manifest of a bundle of these records would give as `events_ndjson_sha256`."""
    digest = hashlib.sha256()
    for line in event_lines(records):
        digest.update(line)
    return digest.hexdigest()


def bundle_digest(root: Path) -> str:
    """Return the SHA-256, in hex, over events, snapshots in path order, and verdicts (if there are any).

    The manifest is left out: version and architecture may differ where the run does not.
    """
    digest = hashlib.sha256()
    paths = [EVENTS, *Bundle(root).snapshot_paths()]
    if root.joinpath(VERDICTS).is_file():
        paths.append(VERDICTS)
    for path in paths:
        with root.joinpath(path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
