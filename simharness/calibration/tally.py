"""One pass over the events of a run: what the metrics are made of."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Any

from simharness.bundle.reader import EventLine
from simharness.core.units import NS_PER_MS, NS_PER_S


class Tally:
    """Counts and series, filled by `follow`. Times are seconds from the start of the run, delays milliseconds, sizes bytes."""

    def __init__(self, events: Iterable[EventLine]) -> None:
        self.kinds = Counter[str]()
        self.totals = Counter[str]()
        self.times: dict[str, list[float]] = defaultdict(list)
        self.sizes: dict[str, list[float]] = defaultdict(list)
        self.sent = Counter[str]()
        self.hits = self.misses = 0
        self.failed_dials = 0
        self.dial_ms: list[float] = []
        self.reasons = Counter[str]()
        self.opinions: dict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
        self.first_dead: dict[str, str] = {}
        self.suspects = self.suspects_probed_well = 0
        self.incarnations: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.queues: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.exits = Counter[str]()
        self.registered: dict[str, tuple[float, str]] = {}
        self.gossip: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.drops = Counter[str]()
        self.rtt_ms: list[float] = []
        self.timeouts = Counter[str]()
        self.detections: dict[tuple[str, str], float] = {}
        self.false_deaths = 0
        self.end_s = 0.0
        self._dialling: dict[tuple[str, str], float] = {}
        self._probes: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
        self._under_way: dict[tuple[str, str, int], float] = {}
        self._killed: dict[str, float] = {}
        for line, following in pairwise(chain(events, (None,))):
            assert line is not None, "only the last has none after it"
            self._follow(line, following)

    def _follow(self, line: EventLine, following: EventLine | None) -> None:
        event, at_s = line.event, line.virtual_time_ns / NS_PER_S
        kind = str(event.get("kind"))
        self.end_s = max(self.end_s, at_s)
        self.kinds[kind] += 1
        host = line.host_id
        match kind:
            case "RelayEnqueue" | "RelayDequeue":
                self.queues[event["relay"]].append((at_s, event["enqueued_bytes"]))
            case "DialStart" | "DialOutcome":
                self._dial(kind, event, at_s)
            case "Mutation":
                self._mutation(event["mutation"], at_s)
            case "DropOnSend" | "DropOnDelivery":
                self.drops[event["reason"]] += 1
        if host is not None:
            self.totals[host] += 1
            self.times[f"{host}.{kind}"].append(at_s)
            self._host_event(host, line, following)

    def _host_event(self, host: str, line: EventLine, following: EventLine | None) -> None:
        event, at_s = line.event, line.virtual_time_ns / NS_PER_S
        match event.get("kind"):
            case "MessageSent":
                self._message_sent(host, event, _next_of(line, following))
            case "GossipReceived":
                self.gossip[host].append((event["payload_bytes"], event["item_count"]))
            case "SwimIncarnationBumped":
                self.incarnations[host].append((at_s, event["to"]))
            case "SwimProbeSent" | "SwimProbeAcked" | "SwimProbeTimedOut":
                self._probe(host, event, at_s)
            case "SwimTransition":
                self._transition(host, event, at_s)
            case "worker_exited":
                self.exits[f"{host}: {event.get('reason')}"] += 1
            case "register_name":
                self.registered.setdefault(str(event.get("name")), (at_s, host))

    def _message_sent(self, host: str, event: dict[str, Any], following: dict[str, Any]) -> None:
        """Count a send unless the network refused it on sight: production records successful writes only."""
        if following.get("kind") == "DropOnSend" and following.get("reason") != "lossy":
            return
        name = str(event["message_kind"]).rpartition("::")[2]
        self.sizes[name].append(event["size"])
        self.sent[f"{name} {host} -> {event['peer']}"] += 1
        if following.get("kind") == "DialStart":
            self.misses += 1
        else:
            self.hits += 1

    def _dial(self, kind: str, event: dict[str, Any], at_s: float) -> None:
        edge = (event["from"], event["to"])
        if kind == "DialStart":
            self._dialling[edge] = at_s
            return
        self.failed_dials += not event["warm"]
        if edge in self._dialling:
            self.dial_ms.append((at_s - self._dialling.pop(edge)) * (NS_PER_S // NS_PER_MS))

    def _mutation(self, mutation: dict[str, Any], at_s: float) -> None:
        match mutation["kind"]:
            case "peer_kill":
                self._killed[mutation["peer"]] = at_s
            case "peer_resurrect":
                self._killed.pop(mutation["peer"], None)

    def _probe(self, host: str, event: dict[str, Any], at_s: float) -> None:
        """Follow a probe. Its round trip is that of the direct Ping; an ack that came through a helper tells nothing of it."""
        target, direct = event["target"], event["probe_kind"] == "direct"
        probe = (host, target, event["sequence"])
        match event["kind"]:
            case "SwimProbeSent" if direct:
                self._under_way[probe] = at_s
            case "SwimProbeAcked":
                self._probes[host, target].append((at_s, True))
                sent_s = self._under_way.pop(probe, None)
                if sent_s is not None and direct:
                    self.rtt_ms.append((at_s - sent_s) * (NS_PER_S // NS_PER_MS))
            case "SwimProbeTimedOut":
                self.timeouts[event["probe_kind"]] += 1
                if not direct:
                    self._probes[host, target].append((at_s, False))

    def _transition(self, host: str, event: dict[str, Any], at_s: float) -> None:
        peer, after = event["peer"], event["to"]
        self.reasons[event["reason"]] += 1
        self.opinions[host, peer].append((at_s, event["from"], after))
        if after == "Dead" and not self.first_dead:
            self.first_dead = {"observer": host, "peer": peer, "reason": event["reason"]}
        if after == "Dead" and peer in self._killed:
            self.detections.setdefault((peer, host), at_s - self._killed[peer])
        elif after == "Dead":
            self.false_deaths += 1
        if after == "Suspect":
            self.suspects += 1
            self.suspects_probed_well += self._well(host, peer, at_s) and self._well(peer, host, at_s)

    def _well(self, observer: str, target: str, at_s: float) -> bool:
        """Tell whether the latest probe that completed before this instant was acknowledged."""
        return next((ok for when, ok in reversed(self._probes[observer, target]) if when < at_s), False)


def _next_of(line: EventLine, following: EventLine | None) -> dict[str, Any]:
    """Return the event of the next line if the same host wrote it at the same instant."""
    if following is None or (following.virtual_time_ns, following.host_id) != (line.virtual_time_ns, line.host_id):
        return {}
    return following.event
