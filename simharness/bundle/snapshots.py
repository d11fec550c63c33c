"""Snapshot files, numbered per host from 0 in the order (time, sequence) (§9.6 Snapshot organization, ruling B3)."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from simharness.bundle.lines import encode_snapshot
from simharness.contracts.records import SnapshotRecord
from simharness.core.ids import is_valid_id


class _Written(NamedTuple):
    """One file: its place in the order, the number it was written under, its SHA-256."""

    at_ns: int
    sequence: int
    number: int
    sha256: str


class SnapshotFiles:
    """Writes each snapshot as it comes; `finish` renumbers the hosts whose snapshots came out of order."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._hosts: dict[str, list[_Written]] = {}

    def add(self, record: SnapshotRecord) -> None:
        """Write one snapshot."""
        host = record.host_id
        written = self._hosts.get(host)
        if written is None:
            assert is_valid_id(host), host  # ids become directory names (ruling L9)
            self._root.joinpath("snapshots", host).mkdir()
            written = self._hosts[host] = []
        data = encode_snapshot(record)
        self._file(host, len(written)).write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        written.append(_Written(record.virtual_time_ns, record.sequence, len(written), sha256))

    def finish(self) -> dict[str, str]:
        """Return the SHA-256 of every snapshot by relative path, in path order."""
        hashes: dict[str, str] = {}
        for host, written in self._hosts.items():
            ordered = sorted(written)
            if ordered != written:
                self._renumber(host, ordered)
            hashes |= {f"snapshots/{host}/{number}.json": item.sha256 for number, item in enumerate(ordered)}
        return dict(sorted(hashes.items()))

    def _renumber(self, host: str, ordered: list[_Written]) -> None:
        for item in ordered:
            file = self._file(host, item.number)
            file.rename(file.with_suffix(".moving"))
        for number, item in enumerate(ordered):
            self._file(host, item.number).with_suffix(".moving").rename(self._file(host, number))

    def _file(self, host: str, number: int) -> Path:
        return self._root.joinpath("snapshots", host, f"{number}.json")
