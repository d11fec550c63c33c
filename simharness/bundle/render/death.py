"""The section on the first peer that anybody held Dead."""

from typing import Any

from simharness.bundle.production.capture import NodeEvent, NodeSnapshot
from simharness.bundle.production.names import Names
from simharness.bundle.render.section import Section
from simharness.bundle.render.words import block, cell, entries

_UNKNOWN = "unknown"


class _Nearest:
    """The snapshot of one node that lies nearest to a time, the earlier of two."""

    def __init__(self) -> None:
        self._distance_ms: int | None = None
        self.body: dict[str, Any] = {}

    def see(self, snapshot: NodeSnapshot, at_ms: int) -> None:
        distance_ms = abs(snapshot.document["wall_ms"] - at_ms)
        if self._distance_ms is None or distance_ms < self._distance_ms:
            self._distance_ms, self.body = distance_ms, snapshot.document["body"]


class FirstDeathSection(Section):
    """Who was held Dead first, by whom, and what both sides' snapshots said around that time.

    The probes here are the host-level UDP echoes to the collector, not SWIM's: they tell that a host had a network, not that the
    two peers could reach each other.
    """

    heading = "## First peer to go Dead"

    def __init__(self, names: Names) -> None:
        self._names = names
        self._first: NodeEvent | None = None
        self._observer, self._peer = _Nearest(), _Nearest()

    def event(self, event: NodeEvent) -> None:
        """Remember the first transition to Dead."""
        record = event.record
        if self._first is None and record["type"] == "SwimTransition" and record["to"] == "Dead":
            self._first = event

    def snapshot(self, snapshot: NodeSnapshot) -> None:
        """Keep the nearest snapshot of either side."""
        if self._first is None:
            return
        at_ms = self._first.record["wall_ms"]
        if snapshot.label == self._first.label:
            self._observer.see(snapshot, at_ms)
        if snapshot.label == self._names.label_of(self._first.record["peer"]):
            self._peer.see(snapshot, at_ms)

    def lines(self) -> list[str]:
        """Return the transition and what stood around it."""
        if self._first is None:
            return ["- no peer went Dead"]
        observer, record = self._first.label, self._first.record
        ours, theirs = bytes(record["node_id"]).hex(), bytes(record["peer"]).hex()
        return [
            f"- observer: {observer}",
            f"- peer: {self._names.label_of(record['peer'])}",
            f"- time_ms: {record['wall_ms']}",
            f"- reason: {cell(record['reason'])}",
            f"- observer-side conn_type: {_connection(self._observer.body, theirs)}",
            f"- peer-side conn_type: {_connection(self._peer.body, ours)}",
            f"- observer probes_ok_at_transition: {_probes_ok(self._observer.body)}",
            f"- peer probes_ok_at_transition: {_probes_ok(self._peer.body)}",
        ]


def _connection(body: dict[str, Any], peer_hex: str) -> str:
    for peer in entries(block(body, "iroh"), "peers"):
        if peer.get("peer_node_id_hex") == peer_hex and peer.get("conn_type") is not None:
            return cell(peer["conn_type"])
    return _UNKNOWN


def _probes_ok(body: dict[str, Any]) -> str:
    """Tell whether the last outcome of every host-level probe was ok."""
    outcomes = [probe.get("last_outcome") for probe in entries(block(body, "probes"), "probes")]
    if not outcomes:
        return _UNKNOWN
    return "yes" if all(outcome == "ok" for outcome in outcomes) else "no"
