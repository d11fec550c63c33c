"""Sections on traffic: kernel drops, gossip receipts, inference responses, bandwidth, dials."""

from collections import Counter
from typing import Any

from simharness.bundle.production.capture import NodeEvent, NodeSnapshot
from simharness.bundle.production.kinds import is_node_id
from simharness.bundle.production.names import Names
from simharness.bundle.production.reachability import outcome_text
from simharness.bundle.render.section import Section
from simharness.bundle.render.words import block, cell, known, number

Bytes = tuple[int, int]
"""How many, and how many bytes in all."""


class KernelDropsSection(Section):
    """UDP counters of the kernel that rose between a node's first and last snapshot that has them."""

    heading = "## Kernel network drops"

    def __init__(self) -> None:
        self._first: dict[str, dict[str, Any]] = {}
        self._last: dict[str, dict[str, Any]] = {}

    def snapshot(self, snapshot: NodeSnapshot) -> None:
        """Keep the first and the last counters."""
        stats = block(snapshot.document, "body", "host", "network", "udp_kernel_stats")
        if stats:
            self._first.setdefault(snapshot.label, stats)
            self._last[snapshot.label] = stats

    def lines(self) -> list[str]:
        """Return one line a node with a change."""
        if not self._last:
            return ["- no kernel counters recorded"]
        rows = []
        for label in sorted(self._last):
            first, last = self._first[label], self._last[label]
            deltas = {name: number(last[name]) - number(first.get(name)) for name in last}
            risen = " ".join(f"{cell(name)} {delta:+}" for name, delta in deltas.items() if delta)
            if risen:
                rows.append(f"- {label}: {risen}")
        return rows or ["- no counter changed"]


class GossipSection(Section):
    """Piggybacks received, by node and kind of payload."""

    heading = "## Gossip receipts (by node, by kind)"

    def __init__(self) -> None:
        self._receipts = Counter[tuple[str, str]]()
        self._bytes = Counter[tuple[str, str]]()
        self._items = Counter[tuple[str, str]]()

    def event(self, event: NodeEvent) -> None:
        """Count a receipt."""
        record = event.record
        if record["type"] == "GossipReceived":
            key = (event.label, record["payload_kind"])
            self._receipts[key] += 1
            self._bytes[key] += record["payload_bytes"]
            self._items[key] += record["item_count"]

    def lines(self) -> list[str]:
        """Return one line a node and kind."""
        return [
            f"- {key[0]}: {cell(key[1])} x {count} ({self._bytes[key]} B, {self._items[key]} items)"
            for key, count in sorted(self._receipts.items())
        ] or ["- no gossip receipts recorded"]


class InferenceSection(Section):
    """Responses that were sent, in order of time."""

    heading = "## Inference responses"

    def __init__(self, names: Names) -> None:
        self._names = names
        self._rows: list[str] = []

    def event(self, event: NodeEvent) -> None:
        """Keep a response."""
        record = event.record
        if record["type"] == "InferenceResponseSent":
            target = record.get("target_peer")
            shown = self._names.label_of(target) if is_node_id(target) else self._names.label_of_hex(target)
            self._rows.append(
                f"- {event.label} -> {cell(shown)}: request {known(record.get('request_id'))}, {record['byte_size']} B, "
                f"{cell(record['send_outcome'])}, at {record['wall_ms']} ms"
            )

    def lines(self) -> list[str]:
        """Return one line a response."""
        return self._rows or ["- no inference responses recorded"]


class BandwidthSection(Section):
    """Messages and bytes, by kind and by peer."""

    heading = "## Bandwidth (by node, by kind and peer)"

    def __init__(self, names: Names) -> None:
        self._names = names
        self._kinds: dict[tuple[str, str, str], Bytes] = {}
        self._peers: dict[tuple[str, str, str], Bytes] = {}

    def event(self, event: NodeEvent) -> None:
        """Count a message."""
        record = event.record
        if record["type"] not in ("MessageSent", "MessageReceived"):
            return
        sent = record["type"] == "MessageSent"
        peer = self._names.label_of(record["peer"])
        for table, key in (
            (self._kinds, (event.label, "sent" if sent else "recv", record["kind"])),
            (self._peers, (event.label, "->" if sent else "<-", peer)),
        ):
            count, size = table.get(key, (0, 0))
            table[key] = (count + 1, size + record["size"])

    def lines(self) -> list[str]:
        """Return both lists."""
        if not self._kinds:
            return ["- no messages recorded"]
        kinds = [
            f"- {label} {way} {cell(kind)} x {count} ({size} B)"
            for (label, way, kind), (count, size) in sorted(self._kinds.items())
        ]
        peers = [
            f"- {label} {way} {peer} x {count} ({size} B)"
            for (label, way, peer), (count, size) in sorted(self._peers.items())
        ]
        return ["By kind:", "", *kinds, "", "By peer:", "", *peers]


class _Dials:
    """Dials of one target by everybody."""

    def __init__(self) -> None:
        self.started = self.succeeded = self.failed = 0
        self.last: tuple[str, int] | None = None

    def numbers(self) -> tuple[int, int, int, int]:
        """Return how many were started, succeeded, failed, and are not over."""
        return self.started, self.succeeded, self.failed, self.started - self.succeeded - self.failed

    def shown_last(self) -> str:
        """Return the two cells of the last outcome."""
        return f"{cell(self.last[0]).replace('|', '/')} | {self.last[1]}" if self.last else "none | none"


class DialsSection(Section):
    """Dials by target, over all observers."""

    heading = "## Per-peer dials"

    def __init__(self, names: Names) -> None:
        self._names = names
        self._targets: dict[str, _Dials] = {}

    def event(self, event: NodeEvent) -> None:
        """Count a dial or its outcome."""
        record = event.record
        if record["type"] not in ("DialStarted", "DialOutcome"):
            return
        dials = self._targets.setdefault(self._names.label_of(record["peer"]), _Dials())
        if record["type"] == "DialStarted":
            dials.started += 1
            return
        good = record["outcome"] == "Success"
        dials.succeeded += good
        dials.failed += not good
        dials.last = (outcome_text(record["outcome"]), record["wall_ms"])

    def lines(self) -> list[str]:
        """Return the totals and a table."""
        if not self._targets:
            return ["- no dials recorded"]
        targets = sorted(self._targets.items())
        started, succeeded, failed, in_flight = map(sum, zip(*(dials.numbers() for _, dials in targets), strict=True))
        return [
            f"started={started}, succeeded={succeeded}, failed={failed}, in-flight={in_flight}",
            "",
            "| peer | started | succeeded | failed | in-flight | last_outcome | last_outcome_at_ms |",
            "|---|---|---|---|---|---|---|",
            *(
                f"| {label} | {' | '.join(map(str, dials.numbers()))} | {dials.shown_last()} |"
                for label, dials in targets
            ),
        ]
