"""Reading a run in the collector's layout, from an archive or an unpacked one.

Everything is checked when it is opened. Production refuses a whole bundle for one unknown type; here it is counted under its name.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from simharness.bundle.production import layout
from simharness.bundle.production.capture import Exact, ExactTime, Facts, NodeEvent, NodeSnapshot
from simharness.bundle.production.kinds import TYPES, fault_of, is_u64
from simharness.bundle.production.manifest import identity_fault, read_index, read_json
from simharness.bundle.production.names import Names, Node
from simharness.bundle.production.states import from_body
from simharness.bundle.production.store import Store
from simharness.bundle.production.translate import from_production, tag_of
from simharness.bundle.reader import EventLine, SnapshotFile
from simharness.core.units import NS_PER_MS

_SNAPSHOT_TEXTS: Final = ("run_id", "snapshot_id")


class _Files(NamedTuple):
    """The files of one node, and whether what they hold lies in order as it is."""

    events: tuple[str, ...]
    snapshots: tuple[str, ...]
    events_ordered: bool
    snapshots_ordered: bool


class _Places:
    """Follows items by (`wall_ms`, `monotonic_seq`): which time is the first, and whether they come in order."""

    def __init__(self) -> None:
        self.first_ms: int | None = None
        self.ordered = True
        self._last = (0, 0)

    def see(self, item: dict[str, Any]) -> None:
        """Take the next item."""
        at_ms = item["wall_ms"]
        place = (at_ms, item["monotonic_seq"])
        self.ordered = self.ordered and self._last <= place
        self._last = place
        self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)


class Archive:
    """A `Capture` of an archive.

    Args:
        store: Its files.

    Raises:
        InputError: If anything in it is malformed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        index = read_index(store)
        self.facts: Facts = index.facts
        self.nodes: tuple[Node, ...] = index.nodes
        self.names: Names = Names(index.nodes)
        self._paths = store.paths()
        self._exact = index.simulated
        self._first_ms: int | None = index.facts.start_ms
        unknown = Counter[str]()
        self._files = {node.label: self._checked(node.label, unknown) for node in self.nodes}
        self.unknown_types = MappingProxyType(dict(sorted(unknown.items())))

    def events(self) -> Iterator[NodeEvent]:
        """Yield the event records by (`wall_ms`, label, `monotonic_seq`)."""
        return merge(*(self._node_events(node.label) for node in self.nodes), key=_event_place)

    def snapshots(self) -> Iterator[NodeSnapshot]:
        """Yield the snapshots by (`wall_ms`, label, `monotonic_seq`)."""
        return merge(*(self._node_snapshots(node.label) for node in self.nodes), key=_snapshot_place)

    def event_lines(self) -> Iterator[EventLine]:
        """Yield the events in our own form: in the order of the bundle that was exported, else in the order of `events`."""
        hosts = {node.label: node for node in self.nodes}
        if self._exact:
            return merge(*(self._recorded(node) for node in self.nodes), key=_line)
        return (
            self._line(hosts[event.label], event.record, number, self._virtual_ns(event.record["wall_ms"]), None)
            for number, event in enumerate(self.events())
        )

    def snapshot_files(self) -> Iterator[SnapshotFile]:
        """Yield the snapshots in our own form, by time, host and number."""
        files = (self._snapshot_file(node) for node in self.nodes if not node.synthetic)
        return merge(*files, key=_file_place)

    # --- checking --------------------------------------------------------------------------------------------------

    def _checked(self, label: str, unknown: Counter[str]) -> _Files:
        """Check every file of a node."""
        events, snapshots = (
            tuple(path for path in self._paths if path.startswith(f"{label}/{directory}/"))
            for directory in (layout.EVENTS, layout.SNAPSHOTS)
        )
        event_places, snapshot_places = _Places(), _Places()
        for path in events:
            for record in self._check_events(path):
                event_places.see(record)
                if record["type"] not in TYPES:
                    unknown[record["type"]] += 1
        for path in snapshots:
            snapshot_places.see(self._check_snapshot(path))
        for first_ms in (event_places.first_ms, snapshot_places.first_ms):
            if first_ms is not None:
                self._first_ms = first_ms if self._first_ms is None else min(self._first_ms, first_ms)
        if self._exact:
            self._check_exact(label, events, snapshots)
        return _Files(events, snapshots, event_places.ordered, snapshot_places.ordered)

    def _check_events(self, path: str) -> list[dict[str, Any]]:
        records = read_json(self._store, path)
        if not isinstance(records, list):
            self._store.refuse(path, "(root)", "must be an array of event records")
        for index, record in enumerate(records):
            fault = fault_of(record)
            if fault is not None:
                field, rule = fault
                self._store.refuse(path, f"[{index}].{field}".rstrip("."), rule)
        return records

    def _check_snapshot(self, path: str) -> dict[str, Any]:
        document = read_json(self._store, path)
        if not isinstance(document, dict):
            self._store.refuse(path, "(root)", "must be an object")
        fault = identity_fault(document.get("identity"))
        if fault is not None:
            self._store.refuse(path, f"identity.{fault[0]}".rstrip("."), fault[1])
        for field in ("wall_ms", "monotonic_seq"):
            if not is_u64(document.get(field)):
                self._store.refuse(path, field, "must be an unsigned 64-bit integer")
        for field in _SNAPSHOT_TEXTS:
            if type(document.get(field)) is not str:
                self._store.refuse(path, field, "must be a string")
        body = document.get("body")
        if not isinstance(body, dict) or not isinstance(body.get("reachability"), list):
            self._store.refuse(path, "body.reachability", "must be an array")
        if not all(isinstance(row, dict) for row in body["reachability"]):
            self._store.refuse(path, "body.reachability", "must be an array of objects")
        try:
            from_body(body, self.names)
        except ValueError as error:
            field, _, rule = str(error).partition(": ")
            self._store.refuse(path, field, rule)
        return document

    def _check_exact(self, label: str, events: tuple[str, ...], snapshots: tuple[str, ...]) -> None:
        """Check that what production's form has no field for agrees with it, record by record."""
        last_line = -1
        for path in events:
            beside = _beside(path)
            told, records = self._exact_rows(beside), read_json(self._store, path)
            if len(told) != len(records):
                self._store.refuse(beside, "(root)", f"must have one entry for each record of {path}")
            for index, (row, record) in enumerate(zip(told, records, strict=True)):
                if row is None:
                    continue
                good = _is_row(row, 3) and is_u64(row[1]) and row[0] // NS_PER_MS == record["wall_ms"]
                if not good or row[1] <= last_line:
                    self._store.refuse(beside, f"[{index}]", f"does not agree with {path}")
                last_line = row[1]
        beside = f"{label}/{layout.EXACT}/{layout.EXACT_SNAPSHOTS}"
        told = self._exact_rows(beside) if snapshots or beside in self._paths else []
        if len(told) != len(snapshots) or not all(_is_row(row, 2) for row in told):
            self._store.refuse(beside, "(root)", "must have a time and a kind for each snapshot")

    def _exact_rows(self, path: str) -> list[Any]:
        if path not in self._paths:
            self._store.refuse(path, "(root)", "missing, though an export of simharness wrote this archive")
        rows = read_json(self._store, path)
        if not isinstance(rows, list):
            self._store.refuse(path, "(root)", "must be an array")
        return rows

    # --- reading ---------------------------------------------------------------------------------------------------

    def _node_events(self, label: str) -> Iterator[NodeEvent]:
        """Yield a node's records by (`wall_ms`, `monotonic_seq`); what lies in order is read file by file."""
        files = self._files[label]
        records = (event for path in files.events for event in self._batch(label, path))
        return records if files.events_ordered else iter(sorted(records, key=_event_place))

    def _batch(self, label: str, path: str) -> Iterator[NodeEvent]:
        records = read_json(self._store, path)
        if not self._exact:
            return (NodeEvent(label, record, None) for record in records)
        told = read_json(self._store, _beside(path))
        return (
            NodeEvent(label, record, None if row is None else Exact(*row))
            for record, row in zip(records, told, strict=True)
        )

    def _node_snapshots(self, label: str) -> Iterator[NodeSnapshot]:
        """Yield a node's snapshots, numbered in order; what lies in order is read file by file."""
        files = self._files[label]
        times: list[ExactTime | None] = [None] * len(files.snapshots)
        if self._exact and files.snapshots:
            rows = read_json(self._store, f"{label}/{layout.EXACT}/{layout.EXACT_SNAPSHOTS}")
            times = [ExactTime(*row) for row in rows]
        found: Iterable[NodeSnapshot] = (
            NodeSnapshot(label, 0, read_json(self._store, path), exact)
            for path, exact in zip(files.snapshots, times, strict=True)
        )
        if not files.snapshots_ordered:
            found = sorted(found, key=_snapshot_place)
        return (snapshot._replace(number=number) for number, snapshot in enumerate(found))

    def _recorded(self, node: Node) -> Iterator[EventLine]:
        """Yield what a simulation recorded at one node; what an export derived was not there."""
        for event in self._node_events(node.label):
            if event.exact is not None:
                at_ns, line, kind_tag = event.exact
                yield self._line(node, event.record, line, at_ns, kind_tag)

    def _line(self, node: Node, record: dict[str, Any], number: int, at_ns: int, kind_tag: str | None) -> EventLine:
        event = from_production(record, node.name, self.names)
        tag = tag_of(event.get("kind")) if kind_tag is None else kind_tag
        return EventLine(number, at_ns, None if node.synthetic else node.name, tag, event)

    def _snapshot_file(self, node: Node) -> Iterator[SnapshotFile]:
        for snapshot in self._node_snapshots(node.label):
            state = from_body(snapshot.document["body"], self.names)
            exact = snapshot.exact
            if exact is None:
                tag = "swim" if "self_node_id_hex" in state else "production"
                exact = ExactTime(self._virtual_ns(snapshot.document["wall_ms"]), tag)
            yield SnapshotFile(exact.virtual_time_ns, node.name, snapshot.number, exact.kind_tag, state)

    def _virtual_ns(self, at_ms: int) -> int:
        return (at_ms - (self._first_ms or 0)) * NS_PER_MS


def _beside(path: str) -> str:
    label, _, name = path.split("/", 2)
    return f"{label}/{layout.EXACT}/{name}"


def _is_row(row: Any, length: int) -> bool:
    """Tell whether `row` is a time, whatever stands between, and a kind tag."""
    return isinstance(row, list) and len(row) == length and is_u64(row[0]) and type(row[-1]) is str


def _event_place(event: NodeEvent) -> tuple[int, str, int]:
    return event.record["wall_ms"], event.label, event.record["monotonic_seq"]


def _snapshot_place(snapshot: NodeSnapshot) -> tuple[int, str, int]:
    return snapshot.document["wall_ms"], snapshot.label, snapshot.document["monotonic_seq"]


def _line(event: EventLine) -> int:
    return event.line


def _file_place(file: SnapshotFile) -> tuple[int, str, int]:
    return file.virtual_time_ns, file.host_id, file.number
