"""Laws of SWIM: what the fixed source keeps and one defect breaks, where no assertion of the catalogue can tell.

Each follows events only (ruling K7). Tick arithmetic allows for the tick that is running when something happens.
"""

from collections import Counter
from typing import Final

from simharness.contracts.scenario import Scenario
from simharness.contracts.topology import Direct, Relayed, Topology
from simharness.stateful.laws import Finding, Law, Line, Story, swim_peers

_Probe = tuple[str | None, str, int]
"""A probe: who, whom, under which sequence number."""

_FAILED: Final = "indirect"
"""The `probe_kind` of the time-out that ends a probe; a direct one only ends its first phase."""

_REFUSED_PING: Final = "refused Ping"

_DEEPEST_SIGMAS: Final = 3
"""The jitter table ends at 2.886 standard deviations (§5.6)."""


def _healthy_cluster(story: Story) -> Finding:
    """In a cluster that nothing disturbs nobody changes state, every probe is acknowledged, and none is left out.

    So `acked == sent` but for a probe still under way at the end, and a node sends at least floor(duration / interval) - N probes.
    """
    peers = swim_peers(story.scenario)
    broken = [
        line for line in story.lines if line.kind in ("SwimTransition", "SwimIncarnationBumped", "SwimProbeTimedOut")
    ]
    waiting: dict[_Probe, Line] = {}
    sent: Counter[str | None] = Counter()
    for line in story.lines:
        if line.kind == "SwimProbeSent":
            sent[line.host] += 1
            waiting[_probe_of(line)] = line
        elif line.kind == "SwimProbeAcked" and waiting.pop(_probe_of(line), None) is None:
            broken.append(line)
    end_ns = story.scenario.duration_ns
    broken += [
        line
        for line in waiting.values()
        if end_ns - line.at_ns > peers[line.host or ""].kind_config["probe_timeout_ns"]
    ]
    for peer in peers.values():
        if sent[peer.id] < end_ns // peer.kind_config["probe_interval_ns"] - len(peers):
            broken += [line for line in story.lines if line.host == peer.id][-1:]
    return Finding(sum(sent.values()), broken)


def _suspicion_runs_its_time(story: Story) -> Finding:
    """Nobody is declared Dead by an observer's own timer before a full suspicion timeout has passed.

    It counts from the observer's latest change of mind about the peer from Alive to Suspect.
    """
    timeout_ns = {peer.id: peer.kind_config["suspicion_timeout_ns"] for peer in swim_peers(story.scenario).values()}
    since: dict[tuple[str, str], int] = {}
    judged, broken = 0, []
    for line in story.lines:
        if line.kind != "SwimTransition" or line.host not in timeout_ns:
            continue
        event, pair = line.event, (line.host, line.event["peer"])
        if (event["from"], event["to"]) == ("Alive", "Suspect"):
            since[pair] = line.at_ns
        elif event["reason"] == "suspicion-timeout" and pair in since:
            judged += 1
            if line.at_ns - since[pair] < timeout_ns[line.host]:
                broken.append(line)
    return Finding(judged, broken)


def _answered_is_not_buried(story: Story) -> Finding:
    """Nobody is declared Dead by an observer's own timer after a probe of it was acknowledged: that takes another failed one."""
    answered: dict[tuple[str | None, str], bool] = {}
    judged, broken = 0, []
    for line in story.lines:
        if _ends_probe(line):
            answered[line.host, line.event["target"]] = line.kind == "SwimProbeAcked"
        elif line.kind == "SwimTransition" and line.event["reason"] == "suspicion-timeout":
            judged += 1
            if answered.get((line.host, line.event["peer"])):
                broken.append(line)
    return Finding(judged, broken)


class _Prober:
    """One node: its open probe, the peers whose probe is asked for, when the next one has to start, whom it holds Dead."""

    def __init__(self, tick_ns: int) -> None:
        self._tick_ns = tick_ns
        self._target: str | None = None
        self._dead: dict[str, bool] = {}
        self._due_ns: int | None = None
        self.owed: dict[str, Line] = {}

    def failed_send(self, line: Line) -> bool:
        """Take a failed send; tell whether a probe is owed for it that was not owed before."""
        peer = line.event["to"]
        if self._dead.get(peer) or peer in self.owed or peer == self._target:
            return False
        self.owed[peer] = line
        if self._target is None:
            self._due_ns = line.at_ns + self._tick_ns
        return True

    def follow(self, line: Line) -> bool:
        """Take one of the node's own events; tell whether it is a probe that starts late."""
        event = line.event
        if line.kind == "SwimTransition":
            self._dead[event["peer"]] = dead = event["to"] == "Dead"
            if dead and self.owed.pop(event["peer"], None) is not None and not self.owed:
                self._due_ns = None
            if dead and event["peer"] == self._target and event["reason"] == "suspicion-timeout":
                self._ended(line)
        elif line.kind == "SwimProbeSent" and event["probe_kind"] == "direct":
            late = self.late(line.at_ns)
            self.owed.pop(event["target"], None)
            self._target, self._due_ns = event["target"], None
            return late
        elif _ends_probe(line):
            self._ended(line)
        return False

    def late(self, at_ns: int) -> bool:
        """Tell whether a probe had to start before now."""
        return self._due_ns is not None and at_ns > self._due_ns

    def _ended(self, line: Line) -> None:
        self._target = None
        self._due_ns = line.at_ns + self._tick_ns if self.owed else None


def _demand_is_served(story: Story) -> Finding:
    """After a failed send to a peer that is held alive, probes follow each other within a tick until that peer has had its own.

    For clusters without a re-probe of the dead, whose Ping looks like a probe and is none.
    """
    scenario = story.scenario
    probers = {host: _Prober(scenario.tick_period_ns(peer)) for host, peer in swim_peers(scenario).items()}
    judged, broken = 0, []
    for line in story.lines:
        if line.kind == "SendFailed":
            judged += probers[line.event["from"]].failed_send(line)
        elif line.host in probers and line.kind.startswith("Swim") and probers[line.host].follow(line):
            broken.append(line)
    for prober in probers.values():
        if prober.late(scenario.duration_ns):
            broken += list(prober.owed.values())[:1]
    return Finding(judged, broken)


def _acks_answer_their_probe(story: Story) -> Finding:
    """Each acknowledged probe joins the one probe that was sent under its (target, sequence).

    It does so after at least the time that a Ping and its Ack need on the links, and never directly if its Ping was refused at the
    sender.
    """
    floor_ns = _round_trips(story.scenario)
    sent: dict[_Probe, tuple[Line, bool]] = {}
    latest: dict[tuple[str, str], str] = {}
    judged, broken = 0, []
    for line in story.lines:
        match line.kind:
            case "MessageSent":
                latest[line.host or "", line.event["peer"]] = line.event["message_kind"].rpartition("::")[2]
            case "DropOnSend" if latest.get((line.event["from"], line.event["to"])) == "Ping":
                latest[line.event["from"], line.event["to"]] = _REFUSED_PING
            case "SwimProbeSent" if (
                line.event["probe_kind"] == "direct"
            ):  # its Ping is the latest message to its target
                lost = latest[line.host or "", line.event["target"]] == _REFUSED_PING
                sent.setdefault(_probe_of(line), (line, lost))
            case "SwimProbeAcked":
                judged += 1
                probe, lost = sent.get(_probe_of(line), (None, False))
                direct = line.event["probe_kind"] == "direct"
                too_soon = (
                    probe is not None and line.at_ns - probe.at_ns < floor_ns[line.host or "", line.event["target"]]
                )
                if probe is None or too_soon or (lost and direct):
                    broken.append(line)
    return Finding(judged, broken)


class _Accuser:
    """One node: whom it holds Suspect or Dead, who has answered its probes and when, and when it has heard what others say."""

    def __init__(self) -> None:
        self._answered: dict[str, list[Line]] = {}
        self._heard: dict[str, int] = {}
        self._opinions: dict[str, Line] = {}
        self.received: Line | None = None

    def follow(self, line: Line) -> None:
        """Take one of the node's own events."""
        event = line.event
        if line.kind == "SwimProbeAcked":
            self._answered.setdefault(event["target"], []).append(line)
        elif line.kind == "GossipReceived" and event["item_count"]:
            self._heard[event["source_peer"]] = line.number
        elif line.kind == "SwimTransition":
            self._opinions[event["peer"]] = line
        elif line.kind == "MessageReceived":
            self.received = line

    def answer(self, peer: str, before_ns: int) -> Line | None:
        """Return the last answer of a peer up to a time."""
        return next((line for line in reversed(self._answered.get(peer, [])) if line.at_ns <= before_ns), None)

    def may_accuse(self, peer: str, since: int) -> bool:
        """Tell whether the node has held the peer Suspect or Dead, or has heard what others say, after line `since`."""
        opinion = self._opinions.get(peer)
        holds = opinion is not None and (opinion.event["to"] != "Alive" or opinion.number > since)
        return holds or any(number > since for source, number in self._heard.items() if source != peer)


def _answered_is_not_accused(story: Story) -> Finding:
    """A Ping accuses its addressee by what its sender holds, or by a rumour that came after the addressee's last answer.

    Judged where the addressee refutes, for links without jitter: an answer counts from a round trip later on, when every Ping from
    before it has arrived.
    """
    floor_ns = _round_trips(story.scenario)
    nodes = {host: _Accuser() for host in swim_peers(story.scenario)}
    judged, broken = 0, []
    for line in story.lines:
        if line.host not in nodes:
            continue
        nodes[line.host].follow(line)
        brought = nodes[line.host].received
        if (
            line.kind != "SwimIncarnationBumped"
            or brought is None
            or not brought.event["message_kind"].endswith("::Ping")
        ):
            continue
        accuser = nodes[line.event["claimed_by"]]
        answer = accuser.answer(line.host, line.at_ns - floor_ns[line.event["claimed_by"], line.host])
        if answer is not None:
            judged += 1
            if not accuser.may_accuse(line.host, answer.number):
                broken.append(line)
    return Finding(judged, broken)


class _Sleeper:
    """One node: its open probes, and what was open when it was last frozen for long."""

    def __init__(self, tick_ns: int, suspicion_ns: int) -> None:
        self._tick_ns, self._suspicion_ns = tick_ns, suspicion_ns
        self._open: dict[_Probe, bool] = {}
        self._excused: dict[_Probe, bool] = {}
        self._frozen_ns = 0
        self._resumed_ns: int | None = None

    def freeze(self, at_ns: int) -> None:
        """Note that the node stops."""
        self._frozen_ns = at_ns

    def resume(self, at_ns: int) -> bool:
        """Note that the node goes on; tell whether it can know that it was frozen."""
        if at_ns - self._frozen_ns <= 2 * self._tick_ns:
            return False
        self._resumed_ns, self._excused = at_ns, dict(self._open)
        return True

    def follow(self, line: Line) -> bool:
        """Take one of the node's own events; tell whether it convicts somebody for the node's own pause."""
        if line.kind == "SwimProbeSent":
            self._open[_probe_of(line)] = True
        elif line.kind == "SwimTransition":
            own_timer = line.event["reason"] == "suspicion-timeout" and self._resumed_ns is not None
            return own_timer and line.at_ns - (self._resumed_ns or 0) < self._suspicion_ns
        if _ends_probe(line):
            self._open.pop(_probe_of(line), None)
        return line.kind == "SwimProbeTimedOut" and _probe_of(line) in self._excused


def _pause_is_excused(story: Story) -> Finding:
    """A node that was frozen for more than two tick periods and goes on convicts nobody for its own silence.

    No probe that was open times out, and no suspicion runs out before a full timeout has passed since.
    """
    sleepers = {
        host: _Sleeper(story.scenario.tick_period_ns(peer), peer.kind_config["suspicion_timeout_ns"])
        for host, peer in swim_peers(story.scenario).items()
    }
    judged, broken = 0, []
    for line in story.lines:
        if line.kind == "Mutation":
            mutation = line.event["mutation"]
            if mutation["kind"] == "peer_kill":
                sleepers[mutation["peer"]].freeze(line.at_ns)
            elif mutation["kind"] == "peer_resurrect" and mutation.get("preserve_state"):
                judged += sleepers[mutation["peer"]].resume(line.at_ns)
        elif line.host in sleepers and sleepers[line.host].follow(line):
            broken.append(line)
    return Finding(judged, broken)


def _back_in_two_refutes(story: Story) -> Finding:
    """A node that was killed and built anew is back after at most two refutations, whatever incarnation it had before."""
    bumps: dict[str, int] = {}
    broken = []
    for line in story.lines:
        if line.kind == "Mutation" and line.event["mutation"]["kind"] == "peer_resurrect":
            bumps[line.event["mutation"]["peer"]] = 0
        elif line.kind == "SwimIncarnationBumped" and line.host in bumps:
            bumps[line.host] += 1
            if bumps[line.host] > 2:  # noqa: PLR2004  # the claim
                broken.append(line)
    return Finding(len(bumps), broken)


def _first_detection_in_time(story: Story) -> Finding:
    """Whoever lives learns of a kill, by a probe of its own that fails or by a rumour, within SWIM's worst case of 2N - 1 periods.

    Das, Gupta and Motivala (2002), section 4.3: a member chosen first in one round and last in the next is passed over for 2N - 1
    periods. Where we differ: a period here is the probe interval or twice the probe timeout, whichever is longer, because one
    probe is open at a time and a failing one takes both its budgets; and it begins on a tick, so one tick comes on top.
    """
    peers = swim_peers(story.scenario)
    killed: dict[str, int] = {}
    learnt: dict[tuple[str, str], bool] = {}
    judged, broken = 0, []
    for line in story.lines:
        if line.kind == "Mutation" and line.event["mutation"]["kind"] == "peer_kill":
            killed[line.event["mutation"]["peer"]] = line.at_ns
        victim = line.event.get("target", line.event.get("peer"))
        if line.host not in peers or victim not in killed or (line.host, victim) in learnt:
            continue
        if _fails_probe(line) or (line.kind == "SwimTransition" and line.event["to"] != "Alive"):
            judged += 1
            learnt[line.host, victim] = True
            if line.at_ns - killed[victim] > detection_bound_ns(story.scenario, line.host):
                broken.append(line)
    return Finding(judged, broken)


def detection_bound_ns(scenario: Scenario, observer: str) -> int:
    """Return 2N - 1 periods of an observer and a tick."""
    peers = swim_peers(scenario)
    return (2 * len(peers) - 1) * period_ns(scenario, observer) + scenario.tick_period_ns(peers[observer])


def period_ns(scenario: Scenario, observer: str) -> int:
    """Return how far apart an observer's probes are when they fail."""
    config = swim_peers(scenario)[observer].kind_config
    interval_ns, timeout_ns = int(config["probe_interval_ns"]), int(config["probe_timeout_ns"])
    return max(interval_ns, 2 * timeout_ns)


def _probe_of(line: Line) -> _Probe:
    return line.host, line.event["target"], line.event["sequence"]


def _ends_probe(line: Line) -> bool:
    return line.kind == "SwimProbeAcked" or _fails_probe(line)


def _fails_probe(line: Line) -> bool:
    return line.kind == "SwimProbeTimedOut" and line.event["probe_kind"] == _FAILED


def _round_trips(scenario: Scenario) -> dict[tuple[str, str], int]:
    """Return the least time of a Ping and its Ack, for every ordered pair."""
    topology, hosts = Topology(scenario), tuple(swim_peers(scenario))
    one_way = {(a, b): _least_ns(topology, a, b) for a in hosts for b in hosts if a != b}
    return {(a, b): there + one_way[b, a] for (a, b), there in one_way.items()}


def _least_ns(topology: Topology, source: str, target: str) -> int:
    """Return the shortest possible delay of a route; 0 if there is none."""
    match topology.route(source, target):
        case Direct(policy=policy):
            legs = (policy,)
        case Relayed(inbound=inbound, outbound=outbound):
            legs = (inbound, outbound)  # type: ignore[assignment]  # two legs
        case None:
            legs = ()  # type: ignore[assignment]  # no leg
    return sum(max(0, leg.latency_ns - _DEEPEST_SIGMAS * leg.jitter_stddev_ns) for leg in legs)


HEALTHY_CLUSTER: Final = Law(name="healthy_cluster", check=_healthy_cluster)
SUSPICION_RUNS_ITS_TIME: Final = Law(name="suspicion_runs_its_time", check=_suspicion_runs_its_time)
ANSWERED_IS_NOT_BURIED: Final = Law(name="answered_is_not_buried", check=_answered_is_not_buried)
ANSWERED_IS_NOT_ACCUSED: Final = Law(name="answered_is_not_accused", check=_answered_is_not_accused)
DEMAND_IS_SERVED: Final = Law(name="demand_is_served", check=_demand_is_served)
ACKS_ANSWER_THEIR_PROBE: Final = Law(name="acks_answer_their_probe", check=_acks_answer_their_probe)
PAUSE_IS_EXCUSED: Final = Law(name="pause_is_excused", check=_pause_is_excused)
BACK_IN_TWO_REFUTES: Final = Law(name="back_in_two_refutes", check=_back_in_two_refutes)
FIRST_DETECTION_IN_TIME: Final = Law(name="first_detection_in_time", check=_first_detection_in_time)

SWIM_LAWS: Final = (
    HEALTHY_CLUSTER,
    SUSPICION_RUNS_ITS_TIME,
    ANSWERED_IS_NOT_BURIED,
    ANSWERED_IS_NOT_ACCUSED,
    DEMAND_IS_SERVED,
    ACKS_ANSWER_THEIR_PROBE,
    PAUSE_IS_EXCUSED,
    BACK_IN_TWO_REFUTES,
    FIRST_DETECTION_IN_TIME,
)
