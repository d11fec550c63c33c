"""Several nodes and time: the shapes of reference section 14, the reported cases, detection and return."""

import random
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.systems.swim.config import Defect
from simharness.systems.swim.diagnostics import IncarnationBumped, ProbeAcked, ProbeSent, ProbeTimedOut, Transition
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import PingReq
from simharness.systems.swim.probe import SuspectPeer
from tests.systems.swim.driver import MS, Cluster, Delay, constant, events

ALIVE, SUSPECT, DEAD = MemberState
S = 1_000 * MS
BASE: dict[str, Any] = {
    "tick_period_ns": 100 * MS,
    "probe_interval": 10,
    "probe_timeout": 5,
    "suspicion_timeout": 30,
    "indirect_probes": 2,
    "gossip_lambda": 4,
    "max_message_bytes": 1_400,
    "dead_reprobe_interval": 50,
}


def hosts(count: int) -> list[str]:
    return [f"p{number:03}" for number in range(count)]


def gauss(seed: int, latency: int, sigma: int) -> Delay:
    """Independent Gaussian latency, never negative."""
    rng = random.Random(seed)  # noqa: S311  # a replayable network, no secret
    return lambda _from, _to, _now: max(0, int(rng.gauss(latency, sigma)))


def healthy(cluster: Cluster, seconds: int) -> None:
    """Zero transitions, every probe acked, enough probes at each node, incarnation 0."""
    cluster.run(seconds * S)
    config = cluster.configs[cluster.hosts[0]]
    rounds = seconds * S // (config.probe_interval * config.tick_period_ns)
    assert cluster.of(Transition) == cluster.of(ProbeTimedOut) == []
    for host in cluster.hosts:
        sent, acked = len(cluster.of(ProbeSent, host)), len(cluster.of(ProbeAcked, host))
        assert rounds - len(cluster.hosts) <= acked
        assert sent - 1 <= acked <= sent  # one may still be open
        assert cluster.incarnation(host) == 0


@settings(max_examples=15)
@given(count=st.integers(2, 8), latency_ms=st.integers(0, 200))
def test_a_healthy_cluster_is_quiet(count: int, latency_ms: int) -> None:
    """The healthy-cluster law, at any latency whose round trip fits the budget."""
    healthy(Cluster(hosts(count), constant(latency_ms * MS), **BASE), 20)


def test_a_larger_healthy_cluster_is_quiet() -> None:
    """The same with sixty nodes, and with the deployed profile: its defects need a cause."""
    healthy(Cluster(hosts(60), constant(20 * MS), **BASE), 15)
    healthy(Cluster(hosts(5), constant(20 * MS), profile="deployed", **BASE), 30)


def test_shape_guessing_starves_every_probe() -> None:
    """S1: in the same healthy cluster no probe is ever acked."""
    cluster = Cluster("abc", constant(5 * MS), defects=frozenset({Defect.ACK_DISPATCHED_AS_PING}), **BASE)
    cluster.run(5 * S)
    assert cluster.of(ProbeSent)
    assert cluster.of(ProbeAcked) == []


def forced_suspicion(count: int, seed: int, defects: frozenset[Defect]) -> int:
    """Shapes R1 and R1b: one suspicion forced on one observer at its tick 40; the incarnation of its victim after 20 s."""
    names = hosts(count)
    knobs = {
        "probe_timeout": 30,
        "suspicion_timeout": 600,
        "indirect_probes": 2,
        "max_piggyback": 8,
        "max_message_bytes": 0,
    }
    cluster = Cluster(names, gauss(seed, 60 * MS, 12 * MS), probe_interval=10, defects=defects, **knobs)
    cluster.run(40 * 50 * MS + 1)
    out: list[Any] = []
    cluster.nodes[names[0]]._perform([SuspectPeer(node_id(names[1]))], out)
    assert [event.reason for event in events(out, Transition)] == ["probe-timeout"]
    cluster.run(20 * S)
    assert all(view == (ALIVE, cluster.incarnation(names[1])) for view in cluster.views(names[1]).values())
    assert {cluster.incarnation(name) for name in names if name != names[1]} == {0}
    return cluster.incarnation(names[1])


@pytest.mark.parametrize("count", [3, 16])
@pytest.mark.parametrize("defects", [frozenset(), frozenset({Defect.HEARSAY_OVER_EVIDENCE})])
def test_r1_one_suspicion_costs_one_incarnation(count: int, defects: frozenset[Defect]) -> None:
    """R1, R1b, gate on: exactly 1, with and without the hearsay rule."""
    assert {forced_suspicion(count, seed, defects) for seed in range(8)} == {1}


def test_r1_with_stale_refutes() -> None:
    """R1, R1b, bug on: copies of one claim that are still queued are answered again and again.

    With three peers always twice more; with sixteen it depends on who pings the victim while copies live.
    """
    defects = frozenset({Defect.REFUTE_STALE_CLAIM, Defect.HEARSAY_OVER_EVIDENCE})
    small = [forced_suspicion(3, seed, defects) for seed in range(8)]
    large = [forced_suspicion(16, seed, defects) for seed in range(8)]
    assert set(small) == {3}
    assert median(large) >= 2
    assert max(large) >= 4


ORCHESTRATED = ["orchestrator", "stage-0", "stage-1", "stage-2"]


def wide_area(seed: int) -> Delay:
    """Shape R4's links: 200 ms to the orchestrator, 90 ms else, sigma 75 ms, first use 200 ms more; order is kept."""
    rng = random.Random(seed)  # noqa: S311  # a replayable network, no secret
    last: dict[tuple[str, str], int] = {}

    def delay(source: str, target: str, now: int) -> int:
        pair = (source, target)
        latency = 200 * MS if "orchestrator" in pair else 90 * MS
        arrival = now + max(0, int(rng.gauss(latency, 75 * MS))) + (0 if pair in last else 200 * MS)
        last[pair] = max(arrival, last.get(pair, 0) + 1)
        return last[pair] - now

    return delay


def r4s(seed: int, profile: str) -> Cluster:
    knobs = {"probe_timeout": 15, "suspicion_timeout": 60, "dead_reprobe_interval": 100, "indirect_probes": 2}
    more = {"max_piggyback": 8, "max_message_bytes": 0 if profile == "deployed" else 4_096}
    cluster = Cluster(ORCHESTRATED, wide_area(seed), profile=profile, tick_period_ns=20 * MS, **knobs, **more)
    cluster.run(60 * S)
    return cluster


def test_r4s_separates_deployed_from_current() -> None:
    """R4s over three seeds: medians at least threefold apart, no current run above 20, fewer transitions in each."""
    deployed, current = ([r4s(seed, profile) for seed in range(1, 4)] for profile in ("deployed", "current"))
    peaks = [[cluster.incarnation("orchestrator") for cluster in runs] for runs in (deployed, current)]
    assert median(peaks[0]) >= 20
    assert median(peaks[0]) >= 3 * median(peaks[1])
    assert max(peaks[1]) <= 20
    for bad, good in zip(deployed, current, strict=True):
        assert len(good.of(Transition)) < len(bad.of(Transition))


def only_alive(cluster: Cluster, peer: str) -> bool:
    return all(view is not None and view[0] is ALIVE for view in cluster.views(peer).values())


def test_a05_a_fast_restart_jumps_over_its_old_incarnation() -> None:
    """Case A05: `b` restarts at 0 while held at 7; one real suspicion later it is at 8 or 9, never between, nobody Dead."""
    lossy = (30 * S, 34 * S)

    def delay(source: str, target: str, now: int) -> int | None:
        return None if "b" in (source, target) and lossy[0] <= now < lossy[1] else 20 * MS

    cluster = Cluster("abc", delay, incarnations={"b": 7}, **{**BASE, "suspicion_timeout": 100})
    cluster.run(20 * S)
    cluster.kill("b")
    cluster.run(20_300 * MS)
    cluster.resurrect("b", preserve=False)
    cluster.run(60 * S)
    about_b = [event for _, _, event in cluster.of(Transition) if event.peer == node_id("b")]
    assert "Dead" not in [event.after for event in about_b]
    assert [event.after for _, _, event in cluster.of(IncarnationBumped, "b")][:1] == [8]
    assert 1 <= len(cluster.of(IncarnationBumped, "b")) <= 2
    assert all(event.incarnation >= 7 for event in about_b)
    assert only_alive(cluster, "b")


def test_a07_helpers_are_asked_before_anybody_is_suspected() -> None:
    """Case A07: with one pair cut and two helpers, probes go round it: no suspicion, no incarnation."""
    cluster = Cluster("abcd", lambda source, target, _: None if {source, target} == {"a", "b"} else 20 * MS, **BASE)
    cluster.run(60 * S)
    assert cluster.of(Transition) == []
    assert cluster.incarnation("a") == cluster.incarnation("b") == 0
    indirect = [event for _, _, event in cluster.of(ProbeAcked) if event.probe_kind == "indirect"]
    assert len(indirect) > 20


def test_a07_without_helpers_suspicion_waits_for_both_budgets() -> None:
    """All links of `b` lossy: Suspect not before the probe's start plus both budgets."""
    cluster = Cluster("abcd", lambda source, target, _: None if "b" in (source, target) else 20 * MS, **BASE)
    cluster.run(20 * S)
    for host in "acd":
        started = [at for at, _, event in cluster.of(ProbeSent, host) if event.target == node_id("b")]
        suspected = [at for at, _, _, reason in cluster.transitions(host, "b") if reason == "probe-timeout"]
        assert all(at >= min(started) + 1 * S for at in suspected)
    assert {view[0] for view in cluster.views("b").values() if view} == {DEAD}


def test_a09_the_relay_is_never_target_asker_or_twice_the_same() -> None:
    """Case A09 in a cluster: each failed direct phase of a-b asks exactly `c`, for every k."""
    for fanout in (1, 2, 3):
        cut: Delay = lambda source, target, _: None if {source, target} == {"a", "b"} else 20 * MS  # noqa: E731
        cluster = Cluster("abc", cut, **{**BASE, "indirect_probes": fanout})
        cluster.run(60 * S)
        for host, other in (("a", "b"), ("b", "a")):
            direct = [e for _, _, e in cluster.of(ProbeTimedOut, host) if e.probe_kind == "direct"]
            asks = [(to, m.target) for _, f, to, m, _ in cluster.messages if f == host and isinstance(m, PingReq)]
            assert asks == [("c", node_id(other))] * len(direct)
            assert direct


def test_a11_a_short_interval_is_not_cut_to_nothing() -> None:
    """Case A11: 100 us ticks, suspicion of 900 us lasts 900 us to the tick."""
    us = 1_000
    knobs = {"tick_period_ns": 100 * us, "probe_interval": 2, "probe_timeout": 1, "suspicion_timeout": 9}
    cluster = Cluster("abc", constant(10 * us), **{**BASE, **knobs})
    cluster.run(50 * MS)
    cluster.kill("b")
    cluster.run(200 * MS)
    dead = 0
    for host in "ac":
        since = 0
        for at, before, after, reason in cluster.transitions(host, "b"):
            since = at if (before, after) == ("Alive", "Suspect") else since
            if reason == "suspicion-timeout":
                dead += 1
                assert 900 * us <= at - since < 1_000 * us
    assert dead


def test_a19_no_ghost_returns() -> None:
    """Case A19: killed during a partition, never Alive again in any view; all agree after the heal."""
    sides = {"a": 0, "b": 0, "c": 1, "d": 1}
    window = (10 * S, 40 * S)

    def delay(source: str, target: str, now: int) -> int | None:
        return None if sides[source] != sides[target] and window[0] <= now < window[1] else 20 * MS

    cluster = Cluster("abcd", delay, **BASE)
    cluster.run(12 * S)
    cluster.kill("b")
    cluster.run(60 * S)
    for host in "acd":
        assert [after for at, _, after, _ in cluster.transitions(host, "b") if at > 12 * S and after == "Alive"] == []
    assert {view[0] for view in cluster.views("b").values() if view} == {DEAD}
    for peer in "acd":
        assert only_alive(cluster, peer)


@pytest.mark.parametrize("kill_ms", [10_000, 10_110, 10_240, 10_550, 10_990])
def test_a21_a_resumed_node_blames_nobody(kill_ms: int) -> None:
    """Case A21: twelve intervals frozen, at any phase of a probe; it suspects nobody, and is taken back."""
    cluster = Cluster("abc", constant(20 * MS), **BASE)
    cluster.run(kill_ms * MS)
    cluster.kill("a")
    cluster.run(22 * S)
    assert {view[0] for view in cluster.views("a").values() if view} == {DEAD}
    cluster.resurrect("a", preserve=True)
    cluster.run(32 * S)
    assert [event for at, _, event in cluster.of(Transition, "a") if at >= 22 * S and event.after != "Alive"] == []
    assert only_alive(cluster, "a")


def test_a27_a_year_later_a_restarted_node_is_taken_back() -> None:
    """Case A27: hourly ticks, down for more than a year: nothing depends on elapsed time, and cost follows ticks."""
    hour = 3_600 * S
    knobs = {"tick_period_ns": hour, "probe_interval": 2, "probe_timeout": 1, "suspicion_timeout": 6}
    cluster = Cluster("abc", constant(20 * MS), **{**BASE, **knobs, "dead_reprobe_interval": 10})
    cluster.run(1_000 * S)
    cluster.kill("b")
    cluster.run(40_086_167 * S)
    assert {view[0] for view in cluster.views("b").values() if view} == {DEAD}
    cluster.resurrect("b", preserve=False)
    cluster.run(40_086_167 * S + 40 * hour)
    assert only_alive(cluster, "b")


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6), count=st.integers(3, 6), latency_ms=st.integers(1, 100), loss_percent=st.integers(0, 10)
)
def test_a_real_death_is_detected_in_time(seed: int, count: int, latency_ms: int, loss_percent: int) -> None:
    """Dead at every observer by kill + (N-1) rounds + 2 suspicion timeouts + 1 round, at loss up to 10 %."""
    rng = random.Random(seed)  # noqa: S311  # a replayable network, no secret
    names = hosts(count)
    cluster = Cluster(
        names,
        lambda _f, _t, _n: None if rng.randrange(100) < loss_percent else latency_ms * MS,
        report_losses=True,
        **BASE,
    )
    cluster.run(10 * S)
    cluster.kill(names[0])
    cluster.run(10 * S + (count - 1) * S + 2 * 3 * S + S + 1)
    assert {view[0] for view in cluster.views(names[0]).values() if view} == {DEAD}


@settings(max_examples=15)
@given(
    incarnation=st.sampled_from([0, 1, 7, 1_000, 2**40, 2**63 - 3]), down_s=st.integers(1, 30), preserve=st.booleans()
)
def test_kill_and_restart_at_any_incarnation(incarnation: int, down_s: int, preserve: bool) -> None:
    """Back to Alive everywhere within two refutes, whatever incarnation the others remember."""
    cluster = Cluster("abcd", constant(20 * MS), incarnations={"b": incarnation}, **BASE)
    cluster.run(5 * S)
    cluster.kill("b")
    cluster.run(5 * S + down_s * S)
    cluster.resurrect("b", preserve=preserve)
    cluster.run(5 * S + down_s * S + 15 * S)
    assert only_alive(cluster, "b")
    assert len(cluster.of(IncarnationBumped, "b")) <= 2


def test_one_step_refutes_keep_a_restarted_node_away() -> None:
    """B5: with the defect, incarnation 1,000 is out of reach in the same time."""
    cluster = Cluster(
        "abcd", constant(20 * MS), incarnations={"b": 1_000}, defects=frozenset({Defect.ONE_STEP_REFUTE}), **BASE
    )
    cluster.run(5 * S)
    cluster.kill("b")
    cluster.run(25 * S)
    cluster.resurrect("b", preserve=False)
    cluster.run(40 * S)
    assert not only_alive(cluster, "b")


def test_joiners_learn_everybody_through_one_seed() -> None:
    """Four nodes joining through one seed reach a shared all-Alive view; every message obeys the cap (A13)."""
    names = hosts(30)
    cluster = Cluster(names, constant(20 * MS), joining=dict.fromkeys(names[1:], names[:1]), **BASE)
    cluster.run(15 * S)
    assert all(only_alive(cluster, name) for name in names)
    for name in names[-5:]:
        cluster.kill(name)
    cluster.run(60 * S)
    for name in names[-5:]:
        assert {view[0] for view in cluster.views(name).values() if view} == {DEAD}
    assert max(size for *_, size in cluster.messages) <= 1_400


def test_a_death_that_nobody_probes_travels_by_gossip() -> None:
    """A change known to one node reaches all: a hub tells its leaves, which are not linked among themselves."""

    def star(source: str, target: str, _now: int) -> int | None:
        return 20 * MS if "hub" in (source, target) else None

    names = ["hub", "x", "y", "z"]
    cluster = Cluster(names, star, report_losses=False, **BASE)
    cluster.run(15 * S)
    cluster.kill("z")
    cluster.run(45 * S)
    assert {view[0] for view in cluster.views("z").values() if view} == {DEAD}


def test_a_leaver_is_dead_everywhere_and_stays_so() -> None:
    """Leaving spreads by gossip; the leaver answers, but does not refute."""
    cluster = Cluster("abcd", constant(20 * MS), **BASE)
    cluster.run(5 * S)
    cluster.nodes["d"].leave()
    cluster.run(60 * S)
    assert set(cluster.views("d").values()) == {(DEAD, 0)}
    assert cluster.of(IncarnationBumped) == []
