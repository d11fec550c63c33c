"""Sections on the run as a whole: the run, its nodes, their hosts, how often each type of record occurred."""

from collections import Counter
from typing import Any, Final

from simharness.bundle.production.capture import Capture, NodeEvent, NodeSnapshot
from simharness.bundle.production.kinds import CUSTOM, TYPES
from simharness.bundle.production.names import SHORT, Node
from simharness.bundle.render.section import Section
from simharness.bundle.render.words import UNKNOWN, cell, flag, known

_HOST_FIELDS: Final = {
    "rental": "vastai_contract_id",
    "ip": "host_ip_public",
    "dc": "datacenter_id",
    "country": "host_country",
    "container": "container_id",
    "hostname": "hostname",
    "relay": "home_relay_url_at_boot",
    "iroh": "iroh_version",
    "git": "git_sha",
}


class RunSection(Section):
    """How large the run was and how long it took; what is unknown is left out."""

    heading = "## Run"

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def lines(self) -> list[str]:
        """Return one line a fact."""
        facts = self._capture.facts
        rows = [
            f"- nodes: {sum(not node.orphan for node in self._capture.nodes)}",
            f"- finalize_received: {flag(facts.finalize_received)}",
        ]
        if facts.start_ms is not None:
            rows.append(f"- run_start_ms: {facts.start_ms}")
        if facts.end_ms is not None:
            rows.append(f"- run_end_ms: {facts.end_ms}")
        if facts.start_ms is not None and facts.end_ms is not None:
            rows.append(f"- duration_ms: {facts.end_ms - facts.start_ms}")
        return rows


class NodesSection(Section):
    """Who took part."""

    heading = "## Nodes"

    def __init__(self, capture: Capture) -> None:
        self._nodes = capture.nodes
        self._events, self._snapshots = Counter[str](), Counter[str]()

    def event(self, event: NodeEvent) -> None:
        """Count a record."""
        self._events[event.label] += 1

    def snapshot(self, snapshot: NodeSnapshot) -> None:
        """Count a snapshot."""
        self._snapshots[snapshot.label] += 1

    def lines(self) -> list[str]:
        """Return two lines a node."""
        return [line for node in self._nodes for line in self._node(node)] or ["- no node"]

    def _node(self, node: Node) -> tuple[str, str]:
        short = UNKNOWN if node.node_id is None else node.node_id.hex()[:SHORT]
        orphan = " (not in the manifest)" if node.orphan else ""
        counts = f"snapshots={self._snapshots[node.label]}, events={self._events[node.label]}"
        return (
            f"- **{node.label}** ({known(node.role)}) {short}{orphan}",
            f"  {counts}, finalize_recorded={flag(node.finalize_recorded)}",
        )


class HostsSection(Section):
    """Where the nodes ran."""

    heading = "## Hosts"

    def __init__(self, capture: Capture) -> None:
        self._nodes = capture.nodes

    def lines(self) -> list[str]:
        """Return one line a node."""
        return [f"- {node.label}: {_host(node.identity)}" for node in self._nodes] or ["- no node"]


def _host(identity: dict[str, Any] | None) -> str:
    if identity is None:
        return "boot record absent"
    return " ".join(f"{name}={known(identity.get(field))}" for name, field in _HOST_FIELDS.items())


class TotalsSection(Section):
    """How often each type occurred. A type that production's schema does not know is marked."""

    heading = "## Event totals (by type)"

    def __init__(self) -> None:
        self._totals = Counter[tuple[str, bool]]()

    def event(self, event: NodeEvent) -> None:
        """Count a record."""
        record = event.record
        name = record["type"]
        shown = f"{CUSTOM}({record['kind']})" if name == CUSTOM else name
        self._totals[shown, name in TYPES] += 1

    def lines(self) -> list[str]:
        """Return one line a type."""
        rows = [
            f"- {cell(name)}: {count}" + ("" if in_schema else " (unknown type)")
            for (name, in_schema), count in sorted(self._totals.items())
        ]
        return rows or ["- no events"]
