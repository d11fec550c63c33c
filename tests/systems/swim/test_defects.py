"""Each defect, on and off, on the smallest feed that shows it (design "Profiles and defects").

The others: `test_hearsay` (HEARSAY_OVER_EVIDENCE), `test_names` (COMBINED_PIGGYBACK, FALSE_DEATH_ERASES_NAMES),
`test_members` (UNORDERED_MEMBERS).
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.config import Defect
from simharness.systems.swim.diagnostics import ProbeAcked, ProbeTimedOut, Transition
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import Ack, IndirectAck, Ping, PingReq
from simharness.systems.swim.node import SwimNode
from tests.systems.swim.driver import TICK, ack_of, alone, events, next_ping, rumour, run_ticks, sent, view

ALIVE, SUSPECT, DEAD = MemberState


def with_defect(defect: Defect, *, on: bool, **changes: Any) -> SwimNode:
    return alone(**{"defects": frozenset({defect}) if on else frozenset(), **changes})


@pytest.mark.parametrize(("on", "incarnation"), [(True, 50), (False, 1)])
def test_refute_stale_claim(on: bool, incarnation: int) -> None:
    """B1, shape R0: fifty copies of one stale claim raise the incarnation fifty times, or once; a current one then counts."""
    node = with_defect(Defect.REFUTE_STALE_CLAIM, on=on)
    for _ in range(50):
        node.handle(rumour(("a", SUSPECT, 0)), 0)
    assert node.members.self_incarnation == incarnation
    node.handle(rumour(("a", SUSPECT, incarnation)), 0)
    assert node.members.self_incarnation == incarnation + 1


@pytest.mark.parametrize(("on", "incarnation"), [(True, 1), (False, 11)])
def test_one_step_refute(on: bool, incarnation: int) -> None:
    """B5: a restarted node climbs one by one, or jumps above the claim."""
    node = with_defect(Defect.ONE_STEP_REFUTE, on=on)
    node.handle(rumour(("a", DEAD, 10)), 0)
    assert node.members.self_incarnation == incarnation


@pytest.mark.parametrize("on", [True, False])
def test_timer_survives_refutation(on: bool) -> None:
    """B4: the timer of a refuted suspicion ends the next one early, or dies with it."""
    node = with_defect(Defect.TIMER_SURVIVES_REFUTATION, on=on, others="b", dead_reprobe_interval=0)
    run_ticks(node, 40)
    assert view(node, "b") == (SUSPECT, 0)  # timed since tick 16, for thirty ticks
    for claim in (("b", ALIVE, 1), ("b", SUSPECT, 1)):
        node.handle(rumour(claim, sender="z"), 40 * TICK)
    died = [
        tick for tick in range(41, 90) for event in events(node.tick(tick * TICK), Transition) if event.after == "Dead"
    ]
    assert died[0] == 46 if on else died[0] >= 70


FEEDS = st.lists(
    st.tuples(
        st.integers(1, 12), st.sampled_from("bc"), st.sampled_from(MemberState), st.integers(0, 4), st.booleans()
    ),
    max_size=40,
)


@given(feeds=FEEDS)
def test_no_death_comes_early(feeds: list[tuple[int, str, MemberState, int, bool]]) -> None:
    """B4's law: every Dead by own timer is a full suspicion timeout after the latest Alive to Suspect about that peer."""
    node = alone(suspicion_timeout=20)
    since: dict[bytes, int] = {}
    tick = 0
    for wait, host, state, incarnation, answered in feeds:
        for _ in range(wait):
            tick += 1
            out = list(node.tick(tick * TICK))
            if answered:
                out += [extra for ping in sent(out, Ping) for extra in node.handle(ack_of(ping), tick * TICK)]
            note(out, since, tick)
        note(node.handle(rumour((host, state, incarnation)), tick * TICK), since, tick)


def note(out: Any, since: dict[bytes, int], tick: int) -> None:
    for event in events(out, Transition):
        if (event.before, event.after) == ("Alive", "Suspect"):
            since[event.peer] = tick
        if event.reason == "suspicion-timeout" and event.peer in since:
            assert tick - since[event.peer] >= 20


@pytest.mark.parametrize("on", [True, False])
def test_demand_queue_stuck(on: bool) -> None:
    """B7: a send that failed while a probe was open is forgotten for good, or probed one tick after it ends."""
    node = with_defect(Defect.DEMAND_QUEUE_STUCK, on=on)
    now, ping = next_ping(node)
    other = node_id("c") if ping.to == node_id("b") else node_id("b")
    assert sent(node.report_send_failure(other, now * TICK)) == []
    node.handle(ack_of(ping), now * TICK)
    assert [output.to for output in sent(node.tick((now + 1) * TICK), Ping)] == ([] if on else [other])
    if on:
        assert sent(node.report_send_failure(other, (now + 1) * TICK)) == []


@pytest.mark.parametrize(("on", "completed"), [(True, 1), (False, 0)])
def test_probe_key_shared(on: bool, completed: int) -> None:
    """B8: the Ack of a relayed probe completes the relay's own probe of the same target too, or only what it answers."""
    node = with_defect(Defect.PROBE_KEY_SHARED, on=on)
    now, own = next_ping(node)
    asker = node_id("c") if own.to == node_id("b") else node_id("b")
    ask = PingReq(sender=asker, target=own.to, sequence=own.message.sequence)
    relayed = sent(node.handle(ask, now * TICK), Ping)[0]
    out = node.handle(ack_of(relayed), now * TICK)
    assert sent(out)[0].message == IndirectAck(target=own.to, sequence=own.message.sequence)
    assert len(events(out, ProbeAcked)) == completed


@pytest.mark.parametrize("on", [True, False])
def test_ack_dispatched_as_ping(on: bool) -> None:
    """S1: an Ack or a PingReq is answered like a Ping and completes nothing, or is what its tag says."""
    node = with_defect(Defect.ACK_DISPATCHED_AS_PING, on=on)
    now, ping = next_ping(node)
    out = node.handle(ack_of(ping), now * TICK)
    assert len(events(out, ProbeAcked)) == (0 if on else 1)
    assert len(sent(out, Ack)) == (1 if on else 0)
    ask = PingReq(sender=node_id("b"), target=node_id("c"), sequence=4)
    assert len(sent(node.handle(ask, now * TICK), Ack)) == (1 if on else 0)


@pytest.mark.parametrize(("on", "verdict"), [(True, True), (False, False)])
@pytest.mark.parametrize("phase", range(1, 7))
def test_own_pause_counted(phase: int, on: bool, verdict: bool) -> None:
    """A node frozen at any tick of an open probe convicts nobody for it, unless the defect is on."""
    node = with_defect(Defect.OWN_PAUSE_COUNTED, on=on, others="b", dead_reprobe_interval=0)
    now, _ = next_ping(node)
    run_ticks(node, phase - 1, now)
    resumed = now + phase - 1 + 200
    out = [output for step in range(7 - phase) for output in node.tick((resumed + step) * TICK)]
    assert bool(events(out, Transition)) is verdict
    assert bool(events(out, ProbeTimedOut)) is verdict


@pytest.mark.parametrize(("on", "dead_at"), [(True, 5), (False, 30)])
def test_a_pause_restarts_suspicions(on: bool, dead_at: int) -> None:
    """A running suspicion starts anew after a pause: the accused may have refuted while nobody listened."""
    node = with_defect(Defect.OWN_PAUSE_COUNTED, on=on, others="b", dead_reprobe_interval=0, probe_interval=1_000)
    node.report_send_failure(node_id("b"), 0)
    run_ticks(node, 7)
    assert view(node, "b") == (SUSPECT, 0)
    run_ticks(node, 24, 7)
    seen = [step for step in range(60) for event in events(node.tick((300 + step) * TICK), Transition)]
    assert seen[:1] == [dead_at]


@pytest.mark.parametrize(("on", "dead_at"), [(True, 5), (False, 30)])
def test_timer_survives_pause(on: bool, dead_at: int) -> None:
    """The rest of a suspicion runs on after a pause, or the whole of it begins again; the open probe is excused in either case."""
    node = with_defect(Defect.TIMER_SURVIVES_PAUSE, on=on, others="b", dead_reprobe_interval=0, probe_interval=1_000)
    node.report_send_failure(node_id("b"), 0)
    run_ticks(node, 31)
    assert view(node, "b") == (SUSPECT, 0)
    seen = [step for step in range(60) for event in events(node.tick((300 + step) * TICK), Transition)]
    assert seen[:1] == [dead_at]
    other = with_defect(Defect.TIMER_SURVIVES_PAUSE, on=on, others="b", dead_reprobe_interval=0)
    now, _ = next_ping(other)
    assert events([out for step in range(7) for out in other.tick((now + 200 + step) * TICK)], ProbeTimedOut) == []


@pytest.mark.parametrize("relayed", [False, True])
@pytest.mark.parametrize("on", [True, False])
def test_timer_survives_ack(on: bool, relayed: bool) -> None:
    """A Suspect that has answered without a refutation is buried by the timer from before, or stays Suspect until a probe fails."""
    node = with_defect(Defect.TIMER_SURVIVES_ACK, on=on, others="b", dead_reprobe_interval=0)
    run_ticks(node, 16)
    assert view(node, "b") == (SUSPECT, 0)  # timed for thirty ticks
    for tick in range(17, 80):
        out = node.tick(tick * TICK)
        if any(event.after == "Dead" for event in events(out, Transition)):
            break
        for ping in sent(out, Ping):
            word = IndirectAck(target=ping.to, sequence=ping.message.sequence)
            at = tick + 3 if relayed else tick
            run_ticks(node, at - tick, tick)
            node.handle(word if relayed else ack_of(ping), at * TICK)
    assert view(node, "b") == ((DEAD, 0) if on else (SUSPECT, 0))


@pytest.mark.parametrize("on", [True, False])
def test_claim_survives_ack(on: bool) -> None:
    """What a peer has answered is believed once its last answer is old enough, or is settled."""
    node = with_defect(Defect.CLAIM_SURVIVES_ACK, on=on, dead_reprobe_interval=0, probe_interval=1_000)
    node.handle(Ack(sender=node_id("b"), sequence=99), 0)
    node.handle(rumour(("b", SUSPECT, 0), sender="c"), 0)
    (ping,) = sent(node.tick(TICK), Ping)
    node.handle(ack_of(ping), TICK)
    assert node.hearsay == ({node_id("b"): 0} if on else {})
    believed = [Transition(node_id("b"), "Alive", "Suspect", "gossip", 0)] if on else []
    assert events(run_ticks(node, 60, 1), Transition) == believed


def test_two_periods_are_no_pause() -> None:
    """One skipped tick is jitter, not a pause."""
    node = alone(others="b", dead_reprobe_interval=0)
    now, _ = next_ping(node)
    out = [output for step in range(1, 8) for output in node.tick((now + 2 * step) * TICK)]
    assert len(events(out, Transition)) == 1
