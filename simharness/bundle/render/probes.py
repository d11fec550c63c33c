"""Sections on probes: the host-level UDP ones, and the round trips of SWIM's."""

from typing import Any, Final

from simharness.bundle.production.capture import NodeEvent, NodeSnapshot
from simharness.bundle.production.names import Names
from simharness.bundle.render.section import Section
from simharness.bundle.render.words import UNKNOWN, block, cell, entries, known, number

BUCKET_MS: Final = 5_000
_PERCENT: Final = 100


class ProbeOutcomesSection(Section):
    """Host-level UDP probes, from the latest snapshot of each node that has any."""

    heading = "## Probe outcomes"

    def __init__(self) -> None:
        self._latest: dict[str, list[dict[str, Any]]] = {}

    def snapshot(self, snapshot: NodeSnapshot) -> None:
        """Keep the latest block of a node."""
        probes = block(snapshot.document, "body", "probes")
        if probes:
            self._latest[snapshot.label] = entries(probes, "probes")

    def lines(self) -> list[str]:
        """Return one line a node and probe."""
        rows = [
            (label, str(probe.get("kind")), str(probe.get("target")), probe)
            for label, probes in self._latest.items()
            for probe in probes
        ]
        rows.sort(key=lambda row: row[:3])
        return [
            f"- {label}: {cell(kind)}/{cell(target)} {known(probe.get('last_outcome'))} rtt_ms={known(probe.get('last_rtt_ms'))} "
            f"{number(probe.get('successes'))}/{number(probe.get('attempts'))}"
            for label, kind, target, probe in rows
        ] or ["- no host-level probes recorded"]


class _Probe:
    """One probe. Several ping-requests of one fan-out are one."""

    __slots__ = ("rtt_ms", "sent_ms", "timed_out")

    def __init__(self, sent_ms: int) -> None:
        self.sent_ms = sent_ms
        self.rtt_ms: int | None = None
        self.timed_out = False


class ProbeRttSection(Section):
    """SWIM probes by observer and target, in total and by the 5 s in which they were sent.

    A probe is joined with its acknowledgement on (target, sequence, kind); the first answer counts. A time is a difference of
    `wall_ms`.
    """

    heading = "## Probe RTT distribution"

    def __init__(self, names: Names) -> None:
        self._names = names
        self._probes: dict[tuple[str, str], list[_Probe]] = {}
        self._open: dict[tuple[str, bytes, int, str], _Probe] = {}
        self._budgets: dict[tuple[str, str], dict[int, None]] = {}

    def event(self, event: NodeEvent) -> None:
        """Follow a probe."""
        record = event.record
        name = record["type"]
        if name not in ("SwimProbeSent", "SwimProbeAcked", "SwimProbeTimedOut"):
            return
        target, at_ms = bytes(record["target"]), record["wall_ms"]
        key = (event.label, target, record["sequence"], record["kind"])
        pair = (event.label, self._names.label_of(target))
        if name == "SwimProbeTimedOut":
            self._budgets.setdefault(pair, {})[record["budget_ticks"]] = None
        if name == "SwimProbeSent":
            known_probe = self._open.get(key)
            if known_probe is None or known_probe.sent_ms != at_ms:
                self._open[key] = probe = _Probe(at_ms)
                self._probes.setdefault(pair, []).append(probe)
            return
        resolved = self._open.pop(key, None)
        if resolved is not None:
            resolved.timed_out = name == "SwimProbeTimedOut"
            resolved.rtt_ms = None if resolved.timed_out else at_ms - resolved.sent_ms

    def lines(self) -> list[str]:
        """Return one line a pair, below it one for each 5 s."""
        rows = []
        for pair in sorted(self._probes):
            observer, target = pair
            budgets = ",".join(map(str, sorted(self._budgets.get(pair, {})))) or UNKNOWN
            probes = self._probes[pair]
            rows.append(f"- {observer} -> {target}: {_counts(probes)} timeout_budget_ticks={budgets}")
            buckets: dict[int, list[_Probe]] = {}
            for probe in probes:
                buckets.setdefault(probe.sent_ms // BUCKET_MS * BUCKET_MS, []).append(probe)
            rows += [
                f"  - [{start}, {start + BUCKET_MS}): {_counts(inside)}" for start, inside in sorted(buckets.items())
            ]
        return rows or ["- no SWIM probes recorded"]


def percentile(ordered: list[int], percent: int) -> int:
    """Return the nearest-rank percentile of sorted values: index ceil(percent/100 * n) - 1, clamped."""
    rank = -(-percent * len(ordered) // _PERCENT)
    return ordered[min(max(rank - 1, 0), len(ordered) - 1)]


def _counts(probes: list[_Probe]) -> str:
    rtts = sorted(probe.rtt_ms for probe in probes if probe.rtt_ms is not None)
    timed_out = sum(probe.timed_out for probe in probes)
    times = (
        f"median={percentile(rtts, 50)} p95={percentile(rtts, 95)} p99={percentile(rtts, 99)}" if rtts else "(no acks)"
    )
    return (
        f"probes={len(probes)} acked={len(rtts)} timed_out={timed_out} pending={len(probes) - len(rtts) - timed_out} "
        f"rtt_ms {times}"
    )
