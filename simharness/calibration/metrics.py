"""The metrics of §11.3, taken from one run by one extractor, whoever recorded it: simulated, live or production."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Protocol

import msgspec

from simharness.bundle.reader import EventLine, SnapshotFile
from simharness.calibration.delays import TERMS, Part, terms_ns
from simharness.calibration.distances import Distribution, distribution
from simharness.calibration.tally import Tally
from simharness.core.units import NS_PER_MS, NS_PER_S

FAMILIES: Final = (
    ("events.", "event time spans"),
    ("swim.transition", "transition reasons"),
    ("message.size", "message sizes"),
    ("message.", "messages by kind and pair"),
    ("swim.self_incarnation", "self-incarnation"),
    ("cache.", "connection cache"),
    ("dial.", "dials"),
    ("swim.alive_fraction", "time Alive"),
    ("swim.dead_", "time Alive"),
    ("swim.first_dead", "time Alive"),
    ("relay.queue_depth", "relay queue depth"),
    ("relay.", "head-of-line delay"),
    ("swim.probe_ok_at_suspect", "probes at suspicion"),
    ("worker.", "worker exits"),
    ("name.", "name resolution"),
    ("gossip.", "gossip receipts"),
    ("probe.", "probe round trips"),
    ("swim.detection", "detection"),
    ("swim.false_deaths", "detection"),
)
"""Prefix of a metric -> its family; the first that fits counts. Thirteen are those of §11.3, the last three come on top."""

_BURST_NS: Final = NS_PER_S
Points = tuple[tuple[float, float], ...]


class Capture(Protocol):
    """What the extractor needs of a run; `bundle.production.capture.Capture` has it."""

    def event_lines(self) -> Iterable[EventLine]:
        """Yield the events in our own form, by time."""

    def snapshot_files(self) -> Iterable[SnapshotFile]:
        """Yield the snapshots in our own form, by time."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What one run comes to. Every key starts with the prefix of its family."""

    numbers: dict[str, float]
    distributions: dict[str, Distribution]
    counts: dict[str, dict[str, int]]
    labels: dict[str, str]
    paths: dict[str, Points]
    """Step functions over the run: (seconds, value) at each step."""


def family_of(metric: str) -> str:
    """Return the family of a metric."""
    return next((family for prefix, family in FAMILIES if metric.startswith(prefix)), "other")


def extract(capture: Capture, parts: Sequence[Part] | None = None) -> Metrics:
    """Return the metrics of a run.

    numbers:
        `message.sent`: successful sends of all nodes.
        `cache.hit`, `cache.miss`, `cache.hit_ratio`: sends over an open connection, sends that dialled, share of the former.
        `dial.started`, `dial.failed`: dials of all legs.
        `swim.transitions`: changes of opinion; `swim.transitions_per_message`; `swim.transition_reasons.gossip_share`.
        `swim.self_incarnation_final.<node>`.
        `swim.alive_fraction.<node>`: share of the run for which the others held it Alive, their mean.
        `swim.dead_share.<node>`: share of the run for which it held at least one other Dead.
        `swim.probe_ok_at_suspect`: share of Suspect transitions before which the latest completed probes of the pair, one in each
        direction, were acknowledged.
        `name.resolution_s.<name>`: from `register_name` to the first snapshot of another node that has it; absent if none has.
        `message.count.<kind>`: successful sends. `probe.timed_out.<direct or indirect>`: phases of probes.
        `swim.false_deaths`: how often a peer was declared Dead that no `peer_kill` had killed. `swim.detection_first_s`,
        `swim.detection_last_s`: from a kill to the first and last survivor's first declaring it Dead, if any did.
        `gossip.receipts.<node>`, `gossip.bytes_per_item`, `gossip.items_per_receipt`; `message.size_max.<kind>` in bytes.
        `events.total.<node>`.
        With `parts`: `relay.max_sojourn_s`, the longest delivery; `relay.burst_after_stall`, the Pings that were on their way to
        the same target when it ended and came within a second of it; `relay.hol.<from> -> <to>.<term>_ms`, the mean of each term.
    distributions:
        `events.times_s.<node>.<kind>`: when the events of a kind came, from the start. `message.size.<kind>` in bytes.
        `relay.queue_depth.<relay>` in bytes and `swim.dead_peers.<node>` (how many it held Dead), both weighted by time.
        `dial.duration_ms`. `swim.detection_s`: from a kill to each survivor's declaring it Dead. `probe.rtt_ms`: from a direct
        Ping to its Ack, if the probe waited that long. With `parts`: `relay.delay_ms.<from> -> <to>`.
    counts:
        `swim.transition_reasons`, `message.count_by_kind_pair`, `worker.exit_reasons`, `message.drop_reasons`.
    labels:
        `swim.first_dead.observer`, `.peer`, `.reason`: the earliest transition to Dead.
    paths:
        `swim.self_incarnation.<node>`, `swim.dead_peers.<node>`, `relay.queue_depth.<relay>`.

    Raises:
        InputError: If a file of the run is malformed.
    """
    tally = Tally(capture.event_lines())
    numbers, labels = _totals(tally), {f"swim.first_dead.{name}": value for name, value in tally.first_dead.items()}
    spread: dict[str, Distribution] = {}
    paths: dict[str, Points] = {}
    for key, times in sorted(tally.times.items()):
        spread[f"events.times_s.{key}"] = distribution(times)
    for kind, sizes in sorted(tally.sizes.items()):
        spread[f"message.size.{kind}"] = distribution(sizes)
        numbers[f"message.size_max.{kind}"] = max(sizes)
        numbers[f"message.count.{kind}"] = len(sizes)
    if tally.dial_ms:
        spread["dial.duration_ms"] = distribution(tally.dial_ms)
    for relay, steps in sorted(tally.queues.items()):
        _stepped(f"relay.queue_depth.{relay}", steps, tally.end_s, spread, paths)
    _opinions(tally, numbers, spread, paths)
    _from_snapshots(capture.snapshot_files(), tally, numbers, paths)
    _probes(tally, numbers, spread)
    if parts:
        _delays(parts, numbers, spread)
    counts = {
        "swim.transition_reasons": dict(sorted(tally.reasons.items())),
        "message.count_by_kind_pair": dict(sorted(tally.sent.items())),
        "worker.exit_reasons": dict(sorted(tally.exits.items())),
        "message.drop_reasons": dict(sorted(tally.drops.items())),
    }
    return Metrics(numbers=numbers, distributions=spread, counts=counts, labels=labels, paths=paths)


def _totals(tally: Tally) -> dict[str, float]:
    """Return everything that is a count of events or a share of one."""
    told = tally.kinds["ConnectionCacheHit"] + tally.kinds["ConnectionCacheMiss"]
    hits = tally.kinds["ConnectionCacheHit"] if told else tally.hits
    misses = tally.kinds["ConnectionCacheMiss"] if told else tally.misses
    sent, transitions = sum(tally.sent.values()), sum(tally.reasons.values())
    receipts = [receipt for node in tally.gossip.values() for receipt in node]
    items = sum(count for _, count in receipts)
    numbers: dict[str, float] = {
        "message.sent": sent,
        "cache.hit": hits,
        "cache.miss": misses,
        "dial.started": tally.kinds["DialStart"],
        "dial.failed": tally.failed_dials,
        "swim.transitions": transitions,
    }
    shares = (
        ("cache.hit_ratio", hits, hits + misses),
        ("swim.transitions_per_message", transitions, sent),
        ("swim.transition_reasons.gossip_share", tally.reasons["gossip"], transitions),
        ("swim.probe_ok_at_suspect", tally.suspects_probed_well, tally.suspects),
        ("gossip.bytes_per_item", sum(size for size, _ in receipts), items),
        ("gossip.items_per_receipt", items, len(receipts)),
    )
    numbers |= {name: part / whole for name, part, whole in shares if whole}
    numbers |= {f"events.total.{node}": total for node, total in sorted(tally.totals.items())}
    numbers |= {f"gossip.receipts.{node}": len(taken) for node, taken in sorted(tally.gossip.items())}
    return numbers


def _probes(tally: Tally, numbers: dict[str, float], spread: dict[str, Distribution]) -> None:
    """Add how the probes went, and what they found out."""
    numbers["swim.false_deaths"] = tally.false_deaths
    numbers |= {f"probe.timed_out.{kind}": total for kind, total in sorted(tally.timeouts.items())}
    if tally.rtt_ms:
        spread["probe.rtt_ms"] = distribution(tally.rtt_ms)
    found = [*tally.detections.values()]
    if found:
        spread["swim.detection_s"] = distribution(found)
        numbers |= {"swim.detection_first_s": min(found), "swim.detection_last_s": max(found)}


def _stepped(
    name: str,
    steps: Sequence[tuple[float, float]],
    end_s: float,
    spread: dict[str, Distribution],
    paths: dict[str, Points],
) -> None:
    """Add a step function, and its values weighted by how long each held; it is 0 before its first step."""
    path = [(0.0, 0.0)]
    for at_s, value in steps:
        if path[-1][0] == at_s:
            path.pop()
        path.append((at_s, value))
    held = [(value, until - since) for (since, value), (until, _) in pairwise([*path, (max(end_s, path[-1][0]), 0.0)])]
    weighted = [(value, weight) for value, weight in held if weight > 0]
    if weighted:
        spread[name] = distribution([value for value, _ in weighted], [weight for _, weight in weighted])
        paths[name] = tuple(path)


def _opinions(
    tally: Tally, numbers: dict[str, float], spread: dict[str, Distribution], paths: dict[str, Points]
) -> None:
    """Add what every observer held of every peer; before the first transition it is what that transition left."""
    observers = sorted({observer: None for observer, _ in tally.opinions})
    alive: dict[str, list[float]] = {}
    changes: dict[str, list[tuple[float, int]]] = {observer: [] for observer in observers}
    for (observer, peer), steps in sorted(tally.opinions.items()):
        states = [(0.0, steps[0][1]), *((at_s, after) for at_s, _, after in steps)]
        spans = [(state, until - since) for (since, state), (until, _) in pairwise([*states, (tally.end_s, "")])]
        alive.setdefault(peer, []).append(sum(span for state, span in spans if state == "Alive") / tally.end_s)
        changes[observer] += [
            (at_s, (after == "Dead") - (before == "Dead"))
            for at_s, before, after in steps
            if "Dead" in (before, after) and before != after
        ]
    for peer, shares in sorted(alive.items()):
        silent = sum(observer != peer for observer in observers) - len(shares)  # they held it Alive throughout
        numbers[f"swim.alive_fraction.{peer}"] = (sum(shares) + silent) / (len(shares) + silent)
    for observer, dead in changes.items():
        held, total = list[tuple[float, float]](), 0
        for at_s, step in sorted(dead):
            total += step
            held.append((at_s, total))
        _stepped(f"swim.dead_peers.{observer}", held, tally.end_s, spread, paths)
        steps_held = pairwise([*held, (tally.end_s, 0)])
        numbers[f"swim.dead_share.{observer}"] = (
            sum(until - at for (at, n), (until, _) in steps_held if n) / tally.end_s
        )


def _from_snapshots(
    snapshots: Iterable[SnapshotFile], tally: Tally, numbers: dict[str, float], paths: dict[str, Points]
) -> None:
    """Add self-incarnations, from bumps where there are any and from snapshots, and the first sight of each registered name."""
    known = {node: list(steps) for node, steps in tally.incarnations.items()}
    for item in snapshots:
        at_s, snapshot = item.virtual_time_ns / NS_PER_S, item.snapshot
        own = snapshot.get("self_incarnation")
        if type(own) is int and item.host_id not in tally.incarnations:
            known.setdefault(item.host_id, []).append((at_s, own))
        names = snapshot.get("name_registry")
        for name in names if isinstance(names, dict) else ():
            since_s, owner = tally.registered.get(name, (at_s, item.host_id))
            if item.host_id != owner and at_s >= since_s:
                numbers.setdefault(f"name.resolution_s.{name}", at_s - since_s)
    for node, steps in sorted(known.items()):
        numbers[f"swim.self_incarnation_final.{node}"] = steps[-1][1]
        paths[f"swim.self_incarnation.{node}"] = ((0.0, 0.0), *steps)


def _delays(parts: Sequence[Part], numbers: dict[str, float], spread: dict[str, Distribution]) -> None:
    """Add what the network told of every delivery."""
    pairs: dict[str, list[Part]] = {}
    for part in parts:
        pairs.setdefault(f"{part.source} -> {part.target}", []).append(part)
    for pair, taken in sorted(pairs.items()):
        spread[f"relay.delay_ms.{pair}"] = distribution([(part.at_ns - part.sent_ns) / NS_PER_MS for part in taken])
        sums = [sum(column) for column in zip(*(terms_ns(part.delay) for part in taken), strict=True)]
        for term, total in zip(TERMS, sums, strict=True):
            numbers[f"relay.hol.{pair}.{term}_ms"] = total / len(taken) / NS_PER_MS
    longest = max(parts, key=_sojourn_ns)
    numbers["relay.max_sojourn_s"] = _sojourn_ns(longest) / NS_PER_S
    numbers["relay.burst_after_stall"] = sum(
        part.target == longest.target
        and part.tag.endswith("::Ping")
        and part.sent_ns < longest.at_ns <= part.at_ns < longest.at_ns + _BURST_NS
        for part in parts
    )


def _sojourn_ns(part: Part) -> int:
    return part.at_ns - part.sent_ns
