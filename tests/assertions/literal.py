"""A slow, literal reading of §10.1 and the rulings: the whole run is at hand, every question is asked of all of it.

Shares nothing with the evaluator. A verdict is an outcome and the sequence of the first record that a Fail rests on (-1 for the
whole stream). "At the end of the instant t" means: after everything stamped t or earlier.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from simharness.contracts import assertions as kinds
from simharness.contracts.records import EventRecord, MutationRecord, Record, SnapshotRecord
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.core.canonical_json import parse

Event = EventRecord | MutationRecord
Verdict = tuple[str, int | None]


class Seen(NamedTuple):
    """A state and who shows it: sorts by time, events first, host, sequence."""

    at_ns: int
    host: str
    sequence: int
    state: str


class Reading:
    """One run, read literally."""

    def __init__(self, scenario: Scenario, records: Sequence[Record], end_ns: int, *, cut: bool) -> None:
        self.peers = {peer.id: peer for peer in scenario.peers}
        self.default_tick = scenario.default_tick_period_ns
        self.end_ns, self.cut = end_ns, cut
        self.known: dict[tuple[str, int], tuple[bool, int]] = {}
        ordered = sorted(records, key=lambda record: (record.virtual_time_ns, record.sequence))
        self.events: list[Event] = [record for record in ordered if not isinstance(record, SnapshotRecord)]
        self.snaps = [record for record in ordered if isinstance(record, SnapshotRecord)]
        self.bodies = {snap.sequence: parse(snap.snapshot) for snap in self.snaps}

    # --- lives (E8, E25); a halted stage observes nothing -----------------------------------------------------------

    def lives(self, peer: str, until_ns: int) -> tuple[bool, int]:
        """Whether `peer` is up at the end of the instant, and at which event its instance began (-1: at the start)."""
        if (peer, until_ns) not in self.known:
            self.known[peer, until_ns] = self._lives(peer, until_ns)
        return self.known[peer, until_ns]

    def _lives(self, peer: str, until_ns: int) -> tuple[bool, int]:
        dead = halted = False
        born = -1
        for place, record in enumerate(self.events):
            if record.virtual_time_ns > until_ns:
                break
            event = record.event
            if event["kind"] == "stage_lifecycle" and record.host_id == peer and event["to"] == "Halted":
                halted = True
            mutation = event.get("mutation", {})
            if mutation.get("peer") != peer:
                continue
            if mutation["kind"] == "peer_kill":
                dead = True
            if mutation["kind"] == "peer_resurrect" and (dead or halted):
                kept = mutation["preserve_state"] and self.peers[peer].kind != "stage"
                born = born if kept else place
                dead = halted = False
        return not (dead or halted), born

    def up(self, peer: str, at_ns: int) -> bool:
        return self.lives(peer, at_ns)[0]

    def own_snaps(self, peer: str, until_ns: int) -> list[SnapshotRecord]:
        """The snapshots of the instance of `peer` that there is at the end of the instant."""
        born = self.lives(peer, until_ns)[1]
        since = self.events[born].virtual_time_ns if born >= 0 else -1
        return [s for s in self.snaps if s.host_id == peer and since <= s.virtual_time_ns <= until_ns]

    # --- views -----------------------------------------------------------------------------------------------------

    def shown(self, snap: SnapshotRecord, subject: str) -> str:
        entries = {entry["peer"]: entry["state"] for entry in self.bodies[snap.sequence].get("peers", [])}
        return entries.get(subject, "Unknown")

    def view(self, observer: str, subject: str, at_ns: int) -> Seen | None:
        """What `observer` holds about `subject` at the end of the instant, if it can be known."""
        alive, born = self.lives(observer, at_ns)
        if not alive:
            return None
        turns = [
            record
            for place, record in enumerate(self.events)
            if place > born and record.virtual_time_ns <= at_ns and record.host_id == observer
            and record.event["kind"] == "SwimTransition" and record.event["peer"] == subject
        ]  # fmt: skip
        snaps = self.own_snaps(observer, at_ns)
        if turns and (not snaps or turns[-1].virtual_time_ns >= snaps[-1].virtual_time_ns):
            last = turns[-1]
            return Seen(last.virtual_time_ns, "", last.sequence, last.event["to"])
        if snaps:
            return Seen(snaps[-1].virtual_time_ns, observer, snaps[-1].sequence, self.shown(snaps[-1], subject))
        return None

    def mutual(self, peers: Sequence[str], at_ns: int) -> list[Seen]:
        """What the named peers hold about each other other than Alive, earliest first."""
        views = [self.view(o, s, at_ns) for o in peers for s in peers if o != s]
        return sorted(view for view in views if view is not None and view.state != "Alive")

    def whole(self, conclude: Verdict) -> Verdict:
        """A rule about the whole run says nothing about a run that was cut short (V2)."""
        return ("Inconclusive", None) if self.cut else conclude

    def of_kind(self, kind: str, until_ns: int | None = None) -> list[Event]:
        return [
            r for r in self.events if r.event["kind"] == kind and (until_ns is None or r.virtual_time_ns <= until_ns)
        ]

    def membership(self, peer: PeerDecl) -> str:
        return "swim" if "node" in peer.kind_config else peer.kind

    def like(self, *named: str) -> list[str]:
        wanted = [self.membership(self.peers[name]) for name in named]
        return [peer.id for peer in self.peers.values() if self.membership(peer) in wanted]

    # --- one method a kind -----------------------------------------------------------------------------------------

    def judge(self, assertion: kinds.Assertion) -> Verdict:
        method = getattr(self, type(assertion).__struct_config__.tag)
        verdict: Verdict = method(assertion)
        return verdict

    def all_alive_at(self, a: kinds.AllAliveAt) -> Verdict:
        if a.at_ns > self.end_ns:
            return "Inconclusive", None
        bad = self.mutual(a.peers, a.at_ns)
        if bad:
            return "Fail", bad[0].sequence
        known = all(self.up(peer, a.at_ns) and self.own_snaps(peer, a.at_ns) for peer in a.peers)
        return ("Pass" if known else "Inconclusive"), None

    def all_alive_throughout(self, a: kinds.AllAliveThroughout) -> Verdict:
        bad: list[tuple[int, int, Seen]] = []  # when it is known; what the window begins with is known last
        gaps = False
        for record in self.events:
            at_ns, event = record.virtual_time_ns, record.event
            if not a.window_start_ns <= at_ns <= a.window_end_ns:
                continue
            named = event["kind"] == "SwimTransition" and record.host_id in a.peers and event["peer"] in a.peers
            if named and (event["to"] != "Alive" or (at_ns > a.window_start_ns and event["from"] != "Alive")):
                bad.append((at_ns, 0, Seen(at_ns, "", record.sequence, "")))
            if event.get("mutation", {}).get("kind") == "peer_kill" and event["mutation"]["peer"] in a.peers:
                gaps = True
            if event["kind"] == "stage_lifecycle" and event["to"] == "Halted" and record.host_id in a.peers:
                gaps = True
        snaps = [s for s in self.snaps if a.window_start_ns <= s.virtual_time_ns <= a.window_end_ns]
        for snap in snaps:
            others = [peer for peer in a.peers if peer != snap.host_id]
            if snap.host_id in a.peers and any(self.shown(snap, peer) != "Alive" for peer in others):
                bad.append((snap.virtual_time_ns, 0, Seen(snap.virtual_time_ns, snap.host_id, snap.sequence, "")))
        if a.window_start_ns <= self.end_ns:
            bad += [(a.window_start_ns, 1, seen) for seen in self.mutual(a.peers, a.window_start_ns)]
        if bad:
            return "Fail", min(bad)[2].sequence
        gaps |= not all(self.up(peer, a.window_start_ns) for peer in a.peers)
        shown = all(any(snap.host_id == peer for snap in snaps) for peer in a.peers)
        done = a.window_end_ns <= self.end_ns and shown and not gaps
        return ("Pass" if done else "Inconclusive"), None

    def instants(self, observers: Sequence[str], after_ns: int, deadline_ns: int) -> list[list[SnapshotRecord]]:
        """For every instant in the window with snapshots: the latest one in the window of each live observer."""
        found = []
        mine = [s for s in self.snaps if s.host_id in observers and after_ns < s.virtual_time_ns <= deadline_ns]
        for at_ns in sorted({s.virtual_time_ns for s in mine}):
            live = [o for o in observers if self.up(o, at_ns)]
            latest = [[s for s in self.own_snaps(o, at_ns) if s.virtual_time_ns > after_ns] for o in live]
            if live and all(latest):
                found.append([snaps[-1] for snaps in latest])
        return found

    def convergence_after(self, a: kinds.ConvergenceAfter) -> Verdict:
        subjects = self.like(*a.peers)
        verdict: Verdict = "Inconclusive", None
        for snaps in self.instants(a.peers, a.after_ns, a.after_ns + a.within_ns):
            views = [[("Alive" if s.host_id == p else self.shown(s, p)) for p in subjects] for s in snaps]
            if all(view == views[0] for view in views):
                return "Pass", snaps[0].sequence
            verdict = "Fail", snaps[0].sequence
        return verdict if a.after_ns + a.within_ns <= self.end_ns else ("Inconclusive", None)

    def peer_detected_dead_within(self, a: kinds.PeerDetectedDeadWithin) -> Verdict:
        observers = [peer for peer in self.like(a.peer) if peer != a.peer]
        verdict: Verdict = "Inconclusive", None
        for snaps in self.instants(observers, a.after_ns, a.after_ns + a.within_ns):
            against = [snap for snap in snaps if self.shown(snap, a.peer) != "Dead"]
            if not against:
                return "Pass", snaps[0].sequence
            verdict = "Fail", against[0].sequence
        return verdict if a.after_ns + a.within_ns <= self.end_ns else ("Inconclusive", None)

    def probes(self, observer: str, peer: str) -> list[tuple[int, Event, str]]:
        """The completed probes of a pair: place in the file, record, and `out`, `back` or `failed`."""
        found = []
        for place, record in enumerate(self.events):
            event = record.event
            ends = (record.host_id, event.get("target"))
            if ends not in ((observer, peer), (peer, observer)):
                continue
            if event["kind"] == "SwimProbeAcked":
                found.append((place, record, "out" if ends[0] == observer else "back"))
            if event["kind"] == "SwimProbeTimedOut" and event["probe_kind"] == "indirect":
                found.append((place, record, "failed"))
        return found

    def probes_ok(self, probes: Sequence[tuple[Event, str]], fresh_after_ns: int) -> bool:
        """(i) one completed each way, (ii) none in failure, (iii) the observer's last one is fresh (V4)."""
        ways = [way for _, way in probes]
        outward = [r.virtual_time_ns for r, way in probes if way == "out"]
        return bool(outward) and "back" in ways and "failed" not in ways and outward[-1] > fresh_after_ns

    def detector(self, observer: str) -> tuple[int, int] | None:
        """Suspicion timeout and tick of an observer."""
        peer = self.peers[observer]
        config: Any = peer.kind_config.get("node", peer.kind_config)
        if "suspicion_timeout_ns" not in config:
            return None
        tick = self.default_tick if peer.tick_period_ns_override is None else peer.tick_period_ns_override
        return config["suspicion_timeout_ns"], tick

    def same_life(self, observer: str, first: int, last: int) -> bool:
        """No rebuild of the observer between two places of the file."""
        births = [
            place for place, r in enumerate(self.events)
            if r.event.get("mutation", {}).get("kind") == "peer_resurrect" and r.event["mutation"]["peer"] == observer
        ]  # fmt: skip
        return all(not first < place < last or not self.born_at(observer, place) for place in births)

    def born_at(self, observer: str, place: int) -> bool:
        """Whether the event at `place` rebuilt the observer."""
        shorter = Reading.__new__(Reading)
        shorter.peers, shorter.events, shorter.known = self.peers, self.events[: place + 1], {}
        return shorter.lives(observer, self.events[place].virtual_time_ns)[1] == place

    def suspects(self, a: kinds.NoFlapWhileProbesOk | kinds.NoDeadWhenProbesOk) -> list[str]:
        return [peer for peer in self.peers if peer != a.peer and self.detector(peer) is not None]

    def turns(self, a: kinds.NoFlapWhileProbesOk | kinds.NoDeadWhenProbesOk, observer: str) -> list[tuple[int, Event]]:
        return [
            (place, r) for place, r in enumerate(self.events)
            if r.event["kind"] == "SwimTransition" and r.host_id == observer and r.event["peer"] == a.peer
            and a.window_start_ns <= r.virtual_time_ns <= a.window_end_ns
        ]  # fmt: skip

    def clean(self, a: kinds.NoFlapWhileProbesOk | kinds.NoDeadWhenProbesOk) -> Verdict:
        """The verdict if nothing is violated (V7)."""
        probed = any(
            a.window_start_ns <= record.virtual_time_ns <= a.window_end_ns
            for observer in self.suspects(a)
            for _, record, _ in self.probes(observer, a.peer)
        )
        return ("Pass" if probed and a.window_end_ns <= self.end_ns else "Inconclusive"), None

    def no_flap_while_probes_ok(self, a: kinds.NoFlapWhileProbesOk) -> Verdict:
        flaps: list[tuple[int, int]] = []
        for observer in self.suspects(a):
            timeout, tick = self.detector(observer) or (0, 0)
            turns = self.turns(a, observer)
            for (i, first), (_, middle), (k, second) in combinations(turns, 3):
                states = [r.event["to"] for r in (first, middle, second)]
                if states != ["Suspect", "Alive", "Suspect"] or not self.same_life(observer, i, k):
                    continue
                # Collapsed: `first` and `second` are the first of their runs, and nothing else lies in between.
                before = [r for p, r in turns if p < i and self.same_life(observer, p, i)]
                if before and before[-1].event["to"] == "Suspect":
                    continue
                between = [r.event["to"] for p, r in turns if i < p < k]
                while between and between[0] == "Suspect":
                    between.pop(0)
                if any(state != "Alive" for state in between):
                    continue
                probes = [(r, way) for p, r, way in self.probes(observer, a.peer) if i < p < k]
                if self.probes_ok(probes, second.virtual_time_ns - (timeout - tick)):
                    flaps.append((k, first.sequence))
        return ("Fail", min(flaps)[1]) if flaps else self.clean(a)

    def no_dead_when_probes_ok(self, a: kinds.NoDeadWhenProbesOk) -> Verdict:
        deaths: list[tuple[int, int]] = []
        for observer in self.suspects(a):
            timeout, tick = self.detector(observer) or (0, 0)
            for place, dead in self.turns(a, observer):
                probes = [
                    (r, way) for p, r, way in self.probes(observer, a.peer)
                    if p < place and dead.virtual_time_ns - timeout < r.virtual_time_ns and self.same_life(observer, p, place)
                ]  # fmt: skip
                if dead.event["to"] == "Dead" and self.probes_ok(probes, dead.virtual_time_ns - (timeout - tick)):
                    deaths.append((place, dead.sequence))
        return ("Fail", min(deaths)[1]) if deaths else self.clean(a)

    def self_incarnation_bounded(self, a: kinds.SelfIncarnationBounded) -> Verdict:
        kind = self.peers[a.peer].kind
        signs = [
            Seen(r.virtual_time_ns, "", r.sequence, "")
            for r in self.events
            if (r.host_id, r.kind_tag) == (a.peer, kind)
        ]
        signs += [Seen(s.virtual_time_ns, s.host_id, s.sequence, "") for s in self.snaps if s.host_id == a.peer]
        bad = [
            Seen(r.virtual_time_ns, "", r.sequence, "") for r in self.of_kind("SwimIncarnationBumped")
            if r.host_id == a.peer and max(r.event["from"], r.event["to"]) > a.max_value
        ]  # fmt: skip
        bad += [
            Seen(s.virtual_time_ns, s.host_id, s.sequence, "") for s in self.snaps
            if s.host_id == a.peer and self.bodies[s.sequence]["self_incarnation"] > a.max_value
        ]  # fmt: skip
        if signs and self.peers[a.peer].kind_config.get("initial_incarnation", 0) > a.max_value:
            bad.append(min(signs))
        if bad:
            return "Fail", min(bad).sequence
        return self.whole(("Pass" if signs else "Inconclusive", None))

    def message_size_bounded(self, a: kinds.MessageSizeBounded) -> Verdict:
        sent = [
            r for r in self.of_kind("MessageSent")
            if a.message_kind in (r.event["message_kind"], r.event["message_kind"].split("::")[-1])
        ]  # fmt: skip
        large = [r for r in sent if r.event["size"] > a.max_bytes]
        if large:
            return "Fail", large[0].sequence
        return self.whole(("Pass" if sent else "Inconclusive", None))

    def dead_peer_resurrects_within(self, a: kinds.DeadPeerResurrectsWithin) -> Verdict:
        deadline = a.after_ns + a.within_ns
        if deadline > self.end_ns:
            return "Inconclusive", None
        final = []
        for observer in self.peers:
            alive, born = self.lives(observer, deadline)
            if observer == a.peer or not alive:
                continue
            took = any(
                place > born and r.host_id == observer and r.event["kind"] == "SwimTransition" and r.event["peer"] == a.peer
                and r.virtual_time_ns <= deadline and "Dead" in (r.event["from"], r.event["to"])
                for place, r in enumerate(self.events)
            )  # fmt: skip
            held = any(self.shown(snap, a.peer) == "Dead" for snap in self.own_snaps(observer, deadline))
            if took or held:
                view = self.view(observer, a.peer, deadline)
                assert view is not None
                final.append(view)
        bad = sorted(view for view in final if view.state != "Alive")
        if bad:
            return "Fail", bad[0].sequence
        return ("Pass" if final else "Inconclusive"), None

    def train_progress(self, a: kinds.TrainProgress) -> Verdict:
        deadline_ns = a.after_ns + a.within_ns
        times = [r.virtual_time_ns for r in self.events if r.event["kind"] == "TrainCommit"]
        if sum(a.after_ns < at_ns <= deadline_ns for at_ns in times) >= a.min_steps:
            return "Pass", None
        return ("Fail", -1) if deadline_ns <= self.end_ns else ("Inconclusive", None)

    def event_count(self, a: kinds.EventCount) -> Verdict:
        found = [r for r in self.of_kind(a.event_kind) if a.peer is None or r.host_id == a.peer]
        if a.max is not None and len(found) > a.max:
            return "Fail", found[a.max].sequence
        if a.max is None and len(found) >= (a.min or 0):
            return "Pass", None
        return self.whole(("Fail", -1) if len(found) < (a.min or 0) else ("Pass", None))

    def event_rate(self, a: kinds.EventRate) -> Verdict:
        found = self.of_kind(a.event_kind)
        crowded = []
        for place, first in enumerate(found):
            window = [r for r in found[place:] if r.virtual_time_ns < first.virtual_time_ns + a.window_ns]
            if len(window) > a.max_per_window:
                crowded.append((found.index(window[a.max_per_window]), first.sequence))
        if crowded:
            return "Fail", min(crowded)[1]
        return self.whole(("Pass", None))

    def relay_queue_depth_bounded(self, a: kinds.RelayQueueDepthBounded) -> Verdict:
        start = a.window_start_ns or 0
        depth, reached, lifted = 0, False, None
        carried: int | None = None
        for record in self.events:
            event, at_ns = record.event, record.virtual_time_ns
            if at_ns > start and carried is None and lifted is not None:
                carried = lifted
            if carried is not None:
                return "Fail", carried
            if a.window_end_ns is not None and at_ns > a.window_end_ns:
                break
            if event.get("mutation", {}).get("relay") == a.relay and event["mutation"]["kind"] == "relay_kill":
                depth = 0
            elif event.get("relay") == a.relay:
                reached = True
                if event["kind"] == "RelayEnqueue":
                    depth += event["byte_len"]
                    if depth > a.max_bytes and at_ns >= start:
                        return "Fail", record.sequence
                    if depth > a.max_bytes and lifted is None:
                        lifted = record.sequence
                if event["kind"] == "RelayDequeue":
                    depth -= event["byte_len"]
            if depth <= a.max_bytes:
                lifted = None
        if lifted is not None and start <= self.end_ns:
            return "Fail", lifted
        verdict: Verdict = ("Pass" if reached else "Inconclusive"), None
        if a.window_end_ns is None:
            return self.whole(verdict) if start <= self.end_ns else ("Inconclusive", None)
        return verdict if a.window_end_ns <= self.end_ns else ("Inconclusive", None)

    def worker_alive_throughout(self, a: kinds.WorkerAliveThroughout) -> Verdict:
        ran, dead = False, False
        down: int | None = None
        for record in self.events:
            event, at_ns = record.event, record.virtual_time_ns
            if at_ns > a.window_start_ns and down is not None:
                return "Fail", down
            if at_ns > a.window_end_ns:
                break
            mutation = event.get("mutation", {})
            mine = mutation.get("peer") == a.peer
            killed = mine and mutation["kind"] == "peer_kill" and not dead
            if mine and mutation["kind"] in ("peer_kill", "peer_resurrect"):
                dead = mutation["kind"] == "peer_kill"
            lifecycle = event["to"] if event["kind"] == "stage_lifecycle" and record.host_id == a.peer else None
            if killed or lifecycle == "Halted":
                if at_ns >= a.window_start_ns:
                    return "Fail", record.sequence
                if ran and down is None:
                    down = record.sequence
            if lifecycle == "Running":
                ran, down = True, None
        if down is not None and a.window_start_ns <= self.end_ns:
            return "Fail", down
        return ("Pass" if ran and a.window_end_ns <= self.end_ns else "Inconclusive"), None

    def name_resolves_within(self, a: kinds.NameResolvesWithin) -> Verdict:
        deadline = a.from_ns + a.within_ns
        asked = [s for s in self.snaps if s.host_id in a.observers and a.from_ns <= s.virtual_time_ns <= deadline]
        resolved = [s for s in asked if a.name in self.bodies[s.sequence]["name_registry"]]
        if all(any(s.host_id == observer for s in resolved) for observer in a.observers):
            firsts = [next(s for s in resolved if s.host_id == observer) for observer in a.observers]
            return "Pass", min(firsts, key=lambda s: (s.virtual_time_ns, s.host_id, s.sequence)).sequence
        if not asked or deadline > self.end_ns:
            return "Inconclusive", None
        missing = [o for o in a.observers if not any(s.host_id == o for s in resolved)]
        last = [[s for s in asked if s.host_id == o][-1] for o in missing if any(s.host_id == o for s in asked)]
        last = last or [
            [s for s in asked if s.host_id == o][-1] for o in a.observers if any(s.host_id == o for s in asked)
        ]
        return "Fail", min(last, key=lambda s: (s.virtual_time_ns, s.host_id, s.sequence)).sequence
