"""The tables: who held what of whom, snapshot by snapshot, and what two nodes had to do with each other."""

from pathlib import Path
from typing import IO, Any, Final

from simharness.bundle.production.capture import Capture, NodeEvent, NodeSnapshot
from simharness.bundle.production.kinds import ENVELOPE
from simharness.bundle.production.names import Names, Node
from simharness.bundle.production.reachability import outcome_text
from simharness.bundle.render.words import UNKNOWN, cell, entries, flag

REACHABILITY: Final = "reachability.tsv"
_TIMELINE_HEAD: Final = "time_ms\tsource\tkind\tpeer\tdetails\n"
_BETWEEN: Final = (
    *("SwimTransition", "DialStarted", "DialOutcome", "IrohConnTypeChanged", "SwimMetadataReceived"),
    *("ConnectionCacheHit", "ConnectionCacheMiss", "ConnectionCacheInvalidated", "NodeMapUpdate"),
    *("MessageSent", "MessageReceived", "Error"),
)
"""The types that a timeline shows."""
_HELD_ROWS: Final = 1_024


class Reachability:
    """Writes `reachability.tsv`: a row a snapshot, a column a node."""

    def __init__(self, capture: Capture, file: IO[bytes]) -> None:
        self._nodes = [node for node in capture.nodes if not node.orphan]
        self._file = file
        self._write("time_ms", "observer", *(node.label for node in self._nodes))

    def snapshot(self, snapshot: NodeSnapshot) -> None:
        """Write the row of a snapshot."""
        rows = entries(snapshot.document["body"], "reachability")
        opinions = {row.get("peer_node_id_hex"): row.get("current_swim_opinion") for row in rows}
        cells = [_opinion(node, snapshot.label, opinions) for node in self._nodes]
        self._write(str(snapshot.document["wall_ms"]), snapshot.label, *cells)

    def _write(self, *cells: str) -> None:
        self._file.write(("\t".join(cells) + "\n").encode())


def _opinion(node: Node, observer: str, opinions: dict[Any, Any]) -> str:
    if node.label == observer:
        return "-"
    held = None if node.node_id is None else opinions.get(node.node_id.hex())
    return UNKNOWN if held is None else cell(held)


class Timelines:
    """Writes `timeline-<a>-to-<b>.tsv` for every ordered pair of the given nodes: the records of either that name the other."""

    def __init__(self, labels: list[str], names: Names, root: Path) -> None:
        self._names, self._root = names, root
        self._place = {label: index for index, label in enumerate(labels)}
        self._pairs = [(one, other) for index, one in enumerate(labels) for other in labels[index + 1 :]]
        self._rows: dict[tuple[str, str], list[str]] = {pair: [_TIMELINE_HEAD] for pair in self._pairs}

    def event(self, event: NodeEvent) -> None:
        """Add a record to the timeline of its two nodes, if it belongs there."""
        record = event.record
        peer = record.get("peer")
        if record["type"] not in _BETWEEN or peer is None or event.label not in self._place:
            return
        named = self._names.label_of(peer)
        if named not in self._place or named == event.label:
            return
        one, other = sorted((event.label, named), key=self._place.__getitem__)
        rows = self._rows[one, other]
        cells = (str(record["wall_ms"]), event.label, record["type"], named, _details(record))
        rows.append("\t".join(cells) + "\n")
        if len(rows) >= _HELD_ROWS:
            self._flush((one, other))

    def finish(self) -> None:
        """Write what is held, then the other direction of each pair, which tells the same."""
        for one, other in self._pairs:
            self._flush((one, other))
            self._root.joinpath(timeline_name(other, one)).write_bytes(
                self._root.joinpath(timeline_name(one, other)).read_bytes()
            )

    def _flush(self, pair: tuple[str, str]) -> None:
        with self._root.joinpath(timeline_name(*pair)).open("ab") as file:
            file.write("".join(self._rows[pair]).encode())
        self._rows[pair].clear()


def timeline_name(one: str, other: str) -> str:
    """Return the file name of a timeline."""
    return f"timeline-{one}-to-{other}.tsv"


def _details(record: dict[str, Any]) -> str:
    if record["type"] == "SwimTransition":
        return f"{record['from']} -> {record['to']} ({cell(record['reason'])})"
    pairs = ((name, value) for name, value in record.items() if name not in ENVELOPE and name != "peer")
    return " ".join(f"{cell(name)}={_value(value)}" for name, value in pairs)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return flag(value)
    return cell(outcome_text(value) if isinstance(value, dict) and "Error" in value else value)
