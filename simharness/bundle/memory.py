"""A record sink that keeps everything in memory: for tests and for runs whose bundle is written only on a failure."""

from simharness.bundle.digest import events_digest
from simharness.contracts.records import Record


class MemorySink:
    """A `RecordSink` without a disk."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write_record(self, record: Record) -> None:
        """Take one record."""
        self.records.append(record)

    def events_digest(self) -> str:
        """Return the digest that the bundle of these records would have for its events."""
        return events_digest(self.records)
