"""What a run looks like in production's form, whoever recorded it."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from simharness.bundle.production.names import Names, Node
from simharness.bundle.reader import EventLine, SnapshotFile


class Facts(NamedTuple):
    """What is known about the run as a whole. Times are Unix milliseconds, virtual ones if it was simulated; None if unknown."""

    run_id: str
    start_ms: int | None
    end_ms: int | None
    finalize_received: bool


class Exact(NamedTuple):
    """What production's form has no field for: the time in full, the line in `events.ndjson`, the kind tag."""

    virtual_time_ns: int
    line: int
    kind_tag: str


class NodeEvent(NamedTuple):
    """An event record of one node."""

    label: str
    record: dict[str, Any]
    exact: Exact | None
    """None if no simulation recorded it: the run was not simulated, or the export derived the record from others."""


class ExactTime(NamedTuple):
    """What production's snapshots have no field for: the time in full, the kind tag."""

    virtual_time_ns: int
    kind_tag: str


class NodeSnapshot(NamedTuple):
    """A snapshot of one node, `number` from 0."""

    label: str
    number: int
    document: dict[str, Any]
    exact: ExactTime | None


class Capture(Protocol):
    """A run in production's form. Everything that iterates starts afresh when called again."""

    @property
    def facts(self) -> Facts:
        """The run as a whole."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes by label; those that the manifest does not name come last."""

    @property
    def names(self) -> Names:
        """How nodes are called."""

    @property
    def unknown_types(self) -> Mapping[str, int]:
        """How many records there are of each type that production's schema does not know, by name."""

    def events(self) -> Iterator[NodeEvent]:
        """Yield the event records by (`wall_ms`, label, `monotonic_seq`)."""

    def snapshots(self) -> Iterator[NodeSnapshot]:
        """Yield the snapshots by (`wall_ms`, label, `monotonic_seq`)."""

    def event_lines(self) -> Iterator[EventLine]:
        """Yield the events in our own form, as a bundle's reader does; `virtual_time_ns` counts from the first record."""

    def snapshot_files(self) -> Iterator[SnapshotFile]:
        """Yield the snapshots in our own form: the tier-2 state with host ids, and the names where the node told them."""


def by_label(events: Iterable[NodeEvent]) -> Iterator[NodeEvent]:
    """Sort events of one millisecond by label; they come in order of time, and a node's own stay in their order."""
    for _, together in groupby(events, key=_event_ms):
        yield from sorted(together, key=_label)


def snapshots_by_label(snapshots: Iterable[NodeSnapshot]) -> Iterator[NodeSnapshot]:
    """Do the same for snapshots."""
    for _, together in groupby(snapshots, key=_snapshot_ms):
        yield from sorted(together, key=_label)


def _event_ms(event: NodeEvent) -> int:
    at_ms: int = event.record["wall_ms"]
    return at_ms


def _snapshot_ms(snapshot: NodeSnapshot) -> int:
    at_ms: int = snapshot.document["wall_ms"]
    return at_ms


def _label(item: NodeEvent | NodeSnapshot) -> str:
    return item.label
