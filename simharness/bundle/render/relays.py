"""The section on relay sessions."""

from typing import Any

from simharness.bundle.production.capture import Capture, NodeEvent, NodeSnapshot
from simharness.bundle.production.names import RELAY
from simharness.bundle.render.section import Section
from simharness.bundle.render.words import block, cell, entries, known


class RelaySessionsSection(Section):
    """What relay nodes counted, and how the last session of each peer ended, joined with what the peer's own cache says of it."""

    heading = "## Relay sessions"

    def __init__(self, capture: Capture) -> None:
        self._names = capture.names
        self._relays = {node.label: node.node_id for node in capture.nodes if node.role == RELAY}
        self._totals: dict[str, dict[str, Any]] = {}
        self._closed: dict[str, dict[str, dict[str, Any]]] = {label: {} for label in self._relays}
        self._failures: dict[str, dict[str, str]] = {}

    def event(self, event: NodeEvent) -> None:
        """Keep the last close of each peer."""
        record = event.record
        if event.label in self._relays and record["type"] == "RelaySessionClosed":
            peer = self._names.label_of_hex(record["peer_node_id_hex"])
            self._closed[event.label][peer] = record

    def snapshot(self, snapshot: NodeSnapshot) -> None:
        """Keep the latest counters of a relay, and the latest failures in the connection cache of a node."""
        body = snapshot.document["body"]
        server = block(body, "relay_server")
        if server:
            self._totals[snapshot.label] = server
        for entry in entries(block(body, "iroh"), "connection_cache"):
            if entry.get("last_failure_reason") is not None:
                failures = self._failures.setdefault(snapshot.label, {})
                failures[str(entry.get("peer_node_id_hex"))] = str(entry["last_failure_reason"])

    def lines(self) -> list[str]:
        """Return the totals of each relay, below them one line a peer."""
        rows: list[str] = []
        for label, key in self._relays.items():
            rows.append(f"- {label}: {_totals(self._totals.get(label))}")
            key_hex = "" if key is None else key.hex()
            for peer, record in sorted(self._closed[label].items()):
                failure = self._failures.get(peer, {}).get(key_hex)
                rows.append(f"  - {cell(peer)}: {_close(record)}, last_failure_reason={known(failure)}")
        return rows or ["- no node has the role relay"]


def _totals(server: dict[str, Any] | None) -> str:
    if server is None:
        return "no relay counters recorded"
    reasons = server.get("closes_by_reason")
    pairs = [pair for pair in reasons if isinstance(pair, list)] if isinstance(reasons, list) else []
    shown = ",".join(cell(":".join(map(str, pair))) for pair in pairs) or "none"
    return (
        f"active={known(server.get('active_sessions'))} opens={known(server.get('total_opens'))} "
        f"closes={known(server.get('total_closes'))} rx={known(server.get('bytes_rx_total'))} "
        f"tx={known(server.get('bytes_tx_total'))} closes_by_reason={shown}"
    )


def _close(record: dict[str, Any]) -> str:
    return (
        f"closed by {cell(record['close_initiator'])} ({cell(record['close_reason'])}) after {record['duration_ms']} ms, "
        f"rx={record['bytes_rx']} tx={record['bytes_tx']}"
    )
