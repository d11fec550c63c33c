"""Coverage counters: what fired in a run, counted where its effect is visible and never where it was asked for (ruling K8).

Names: a fault kind (`partition`: a send refused, a delivery invalidated, a delay term, a host call that came or failed to come),
`drop:<reason>`, `event:<kind>` and `event:<kind>:<probe kind>`, `transition:<from>-><to>:<reason>`, and
`precondition:<assertion kind>` for a verdict other than Inconclusive.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from simharness.contracts.assertions import ASSERTION_TYPES, Verdict
from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    DuplicateBurst,
    Heal,
    LatencySpike,
    LossBurst,
    Mutation,
    Partition,
    PeerKill,
    PeerPause,
    PeerResurrect,
    PeerSlow,
    RelayBoot,
    RelayBuffer,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
    WorkerExit,
    kind_of,
)
from simharness.contracts.network import Delay
from simharness.contracts.records import EventRecord, Record
from simharness.core.errors import InputError
from simharness.stateful.faults import FAULTS

_OPEN: Final = ("drop:", "event:", "transition:")
"""Prefixes whose rest is any name: host kinds bring their own events."""

COUNTERS: Final = (*FAULTS, *(f"precondition:{of.__struct_config__.tag}" for of in ASSERTION_TYPES))
"""Every counter that has a fixed name."""


def check_counter(name: str, *, file: str, field: str) -> None:
    """Check that a counter of this name can exist.

    Raises:
        InputError: If it cannot; the choices are named.
    """
    if name not in COUNTERS and not any(name.startswith(prefix) and name != prefix for prefix in _OPEN):
        choices = ", ".join((*COUNTERS, *(f"{prefix}<name>" for prefix in _OPEN)))
        raise InputError(file=file, field=field, rule=f"unknown counter {name!r}; choose from {choices}")


class DelayEffects:
    """A `DeliveryObserver`: counts the faults whose effect no record shows.

    It is a delay, a delivery that had become possible again or that came twice, a host call that failed to come, or one at another
    time.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._cut: dict[tuple[str, str], bool] = {}
        self._healed_at: dict[tuple[str, str], int] = {}
        self._resized_at: int | None = None
        self._clocks: dict[str, dict[str, bool]] = {}
        self._slow_from: dict[str, int] = {}
        self._handed: set[tuple[str, int]] = set()  # when a peer that is or was slow was handed something

    def follow(self, mutation: Mutation) -> None:
        """Note a mutation that is applied now."""
        match mutation:
            case Partition(peers_a=one, peers_b=other):
                for a in one:
                    for b in other:
                        self._cut[a, b] = self._cut[b, a] = True
            case Heal(at_ns=at_ns):
                self._healed_at |= dict.fromkeys(self._cut, at_ns)
                self._cut.clear()
            case RelayCapacityChange(at_ns=at_ns):
                self._resized_at = at_ns
            case ClockOffset(peer=peer) | ClockDrift(peer=peer):
                self._clocks.setdefault(peer, {})[kind_of(mutation)] = True
            case PeerSlow(peer=peer, at_ns=at_ns):
                self._slow_from.setdefault(peer, at_ns)
            case PeerPause(peer=peer, at_ns=at_ns, duration_ns=duration_ns):
                self._handed.add((peer, at_ns + duration_ns))

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Delay) -> None:
        """Take one delivery."""
        del tag
        counts = self.counts
        if target in self._slow_from:
            self._handed.add((target, at_ns))
        if delay.latency_spike:
            counts["latency_spike"] += 1
        if delay.relay_buffer:
            counts["relay_buffer"] += 1
        if delay.relay_cold_start:
            counts["relay_boot"] += 1
        if self._healed_at and sent_at_ns >= self._healed_at.get((source, target), sent_at_ns + 1):
            counts["heal"] += 1
        resized_at = self._resized_at
        if resized_at is not None and sent_at_ns >= resized_at and (delay.relay_egress or delay.relay_ingress):
            counts["relay_capacity_change"] += 1

    def duplicated(self, source: str, target: str, at_ns: int) -> None:
        """Take one delivery that is a copy."""
        del source, target, at_ns
        self.counts["duplicate_burst"] += 1

    def held(self, host_id: str, at_ns: int) -> None:
        """Take one call that a pause suppresses."""
        del host_id, at_ns
        self.counts["peer_pause"] += 1

    def skewed(self, host_id: str, at_ns: int, shown_ns: int) -> None:
        """Take one call of a host whose clock is wrong."""
        del at_ns, shown_ns
        for kind in self._clocks[host_id]:
            self.counts[kind] += 1

    def late_receipts(self, events: Iterable[EventRecord]) -> int:
        """Return how many messages a slow peer looked at when nothing was handed to it: they had waited for their turn."""
        if not self._slow_from:
            return 0
        late = 0
        for event in events:
            host_id, at_ns = event.host_id, event.virtual_time_ns
            if host_id in self._slow_from and event.event["kind"] == "MessageReceived":
                late += at_ns >= self._slow_from[host_id] and (host_id, at_ns) not in self._handed
        return late


SEEN_IN_DELAYS: Final = (
    *(LatencySpike, RelayBuffer, RelayBoot, Heal, RelayCapacityChange),
    *(PeerPause, PeerSlow, ClockOffset, ClockDrift, DuplicateBurst),
)
"""The mutations whose effect only a `DeliveryObserver` sees."""


def needs_observer(kinds: Iterable[str]) -> bool:
    """Tell whether any of these fault kinds has an effect that only a `DeliveryObserver` sees."""
    seen = tuple(str(of.__struct_config__.tag) for of in SEEN_IN_DELAYS)
    return any(kind in seen for kind in kinds)


_DROPS: Final = {
    "partitioned": "partition",
    "partition": "partition",
    "host_killed": "peer_kill",
    "relay_down": "relay_kill",
    "relay_peer_conn_down": "relay_peer_conn_down",
}
"""Which fault a reason of a refused send or a lost delivery is the effect of."""


def count(
    records: Sequence[Record], mutations: Sequence[Mutation], verdicts: Iterable[Verdict], delays: DelayEffects
) -> Counter[str]:
    """Return the counters of one run, those that were taken while it went on included. Records in order of emission."""
    events = [record for record in records if type(record) is EventRecord]
    counts: Counter[str] = Counter()
    for kind, seen in Counter([record.event["kind"] for record in events]).items():
        counts[f"event:{kind}"] = seen
    drops: list[EventRecord] = []
    for record in events:
        event = record.event
        kind = event["kind"]
        if kind in ("DropOnSend", "DropOnDelivery"):
            drops.append(record)
            counts[f"drop:{event['reason']}"] += 1
        elif kind == "SwimTransition":
            counts[f"transition:{event['from']}->{event['to']}:{event['reason']}"] += 1
        elif "probe_kind" in event:
            counts[f"event:{kind}:{event['probe_kind']}"] += 1
    for verdict in verdicts:
        if verdict.outcome != "Inconclusive":
            counts[f"precondition:{verdict.kind}"] += 1
    for mutation in mutations:
        counts[kind_of(mutation)] += _effects_of(mutation, events, drops)
    counts["peer_slow"] += delays.late_receipts(events)
    return counts + delays.counts


def _effects_of(mutation: Mutation, events: Sequence[EventRecord], drops: Sequence[EventRecord]) -> int:
    """Return how many events show that one mutation had an effect."""
    match mutation:
        case PeerResurrect(peer=peer, at_ns=at_ns):
            acted = (event for event in events if event.host_id == peer and event.kind_tag != "engine")
            return sum(event.virtual_time_ns > at_ns for event in acted)
        case WorkerExit(peer=peer, at_ns=at_ns) | PeerSlow(peer=peer, at_ns=at_ns):
            acted = (event for event in events if event.host_id == peer and event.kind_tag != "engine")
            return sum(event.virtual_time_ns == at_ns for event in acted)
        case LossBurst():
            return sum(_lost_in(mutation, drop) for drop in drops)
        case RelayCapacityChange(at_ns=at_ns):
            full = (drop for drop in drops if drop.event["reason"] == "relay_queue_full")
            return sum(drop.virtual_time_ns >= at_ns for drop in full)
        case Partition() | PeerKill() | RelayKill() | RelayPeerConnDown():
            return sum(_dropped_by(mutation, drop) for drop in drops)
        case _:
            return 0


def _lost_in(burst: LossBurst, event: EventRecord) -> bool:
    """Tell whether a refused send was lost on a leg of the burst while it was on."""
    inside = burst.at_ns <= event.virtual_time_ns < burst.at_ns + burst.duration_ns
    if not inside or event.event["reason"] != "lossy":
        return False
    source, target = event.event["from"], event.event["to"]
    return any(source == link.source or target == link.target for link in burst.links)


def _dropped_by(mutation: Mutation, event: EventRecord) -> bool:
    """Tell whether a refused send or a lost delivery is what this mutation does to its targets."""
    if event.virtual_time_ns < mutation.at_ns or _DROPS.get(event.event["reason"]) != kind_of(mutation):
        return False
    source, target = event.event["from"], event.event["to"]
    match mutation:
        case Partition(peers_a=one, peers_b=other):
            return (source in one and target in other) or (source in other and target in one)
        case PeerKill(peer=peer):
            return bool(target == peer)
        case RelayPeerConnDown():
            return bool((source, target) == (mutation.source, mutation.target))
        case _:
            return True
