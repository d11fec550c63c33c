"""The probe cycle, tick by tick (reference sections 5, 15)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.diagnostics import ProbeAcked, ProbeSent, ProbeTimedOut, Transition
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import IndirectAck, Ping, PingReq
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.wire import unpack
from tests.systems.swim.driver import TICK, ack_of, alone, events, next_ping, rumour, run_ticks, sent, updates, view

ALIVE, SUSPECT, DEAD = MemberState


@pytest.mark.parametrize(
    ("size", "tick", "order"),
    [
        (3, 10, [2, 1, 0]),
        (3, 20, [0, 2, 1]),
        (3, 30, [0, 1, 2]),
        (4, 10, [2, 3, 0, 1]),
        (4, 20, [0, 2, 1, 3]),
        (4, 30, [0, 3, 2, 1]),
    ],
)
def test_shuffle(size: int, tick: int, order: list[int]) -> None:
    """The round is permuted by the tick alone; a round visits everybody once."""
    hosts = [f"h{number}" for number in range(size)]
    node = alone("a", hosts, probe_interval=tick)
    targets, now = [], 0
    for _ in range(size):
        now, ping = next_ping(node, now)
        targets.append(ping.to)
        node.handle(ack_of(ping), now * TICK)
    members = sorted(map(node_id, hosts))
    assert targets == [members[place] for place in order]


def test_no_ping_before_the_interval_and_one_at_it() -> None:
    """Exactly one Ping, at tick `probe_interval`; with no members none at all."""
    node = alone(probe_interval=7)
    assert run_ticks(node, 6) == []
    assert len(sent(run_ticks(node, 1, 6), Ping)) == 1
    assert sent(run_ticks(alone(others=""), 100)) == []


def test_phases_take_exactly_one_budget_each() -> None:
    """PingReqs one budget after the Ping, Suspect one more after that, Dead one suspicion timeout later; all are told."""
    node = alone(others="bcde", probe_interval=10, probe_timeout=3, suspicion_timeout=12, indirect_probes=2)
    now, ping = next_ping(node)
    assert now == 10
    assert sent(run_ticks(node, 2, 10)) == []
    asked = run_ticks(node, 1, 12)
    assert [output.message.target for output in sent(asked, PingReq)] == [ping.to, ping.to]
    assert len({output.to for output in sent(asked)} - {ping.to}) == 2
    assert {output.message.sequence for output in sent(asked)} == {ping.message.sequence}
    assert [event.probe_kind for event in events(asked, ProbeTimedOut)] == ["direct"]
    assert [event.probe_kind for event in events(asked, ProbeSent)] == ["indirect", "indirect"]
    assert run_ticks(node, 2, 13) == []
    failed = run_ticks(node, 1, 15)
    assert events(failed, ProbeTimedOut) == [ProbeTimedOut(ping.to, ping.message.sequence, "indirect", 3)]
    assert events(failed, Transition) == [Transition(ping.to, "Alive", "Suspect", "probe-timeout", 0)]
    later = [(tick, node.tick(tick * TICK)) for tick in range(17, 40)]
    deaths = [(tick, event) for tick, out in later for event in events(out, Transition) if event.after == "Dead"]
    assert deaths[:1] == [(28, Transition(ping.to, "Suspect", "Dead", "suspicion-timeout", 0))]


@pytest.mark.parametrize("indirect_probes", [1, 2, 3])
def test_a09_the_only_relay_is_always_asked(indirect_probes: int) -> None:
    """Case A09: with three nodes every failed direct phase asks the one eligible relay, once."""
    node = alone(indirect_probes=indirect_probes, suspicion_timeout=10_000, dead_reprobe_interval=0)
    out = run_ticks(node, 2_005)
    pings, asked = sent(out, Ping), sent(out, PingReq)
    assert len(pings) > 100
    assert len(asked) == len(pings)
    for ping, ask in zip(pings, asked, strict=True):
        assert {ping.to, ask.to} == {node_id("b"), node_id("c")}
        assert ask.message.target == ping.to


def test_with_no_relay_the_second_budget_is_waited_all_the_same() -> None:
    """Two nodes: Suspect two budgets after the Ping, never earlier."""
    node = alone(others="b")
    next_ping(node)
    assert events(run_ticks(node, 5, 10), Transition) == []
    assert [event.after for event in events(run_ticks(node, 1, 15), Transition)] == ["Suspect"]


@pytest.mark.parametrize("late", [1, 4])
def test_a_direct_ack_saves_the_probe_in_either_phase(late: int) -> None:
    """An Ack counts until two budgets after the Ping; the next cycle runs on time."""
    node = alone()
    _, ping = next_ping(node)
    run_ticks(node, late, 10)
    out = node.handle(ack_of(ping), (10 + late) * TICK)
    kind = "direct" if late < 3 else "indirect"
    assert events(out, ProbeAcked) == [ProbeAcked(ping.to, ping.message.sequence, kind)]
    rest = run_ticks(node, 10 - late, 10 + late)
    assert events(rest, Transition) == []
    assert len(sent(rest, Ping)) == 1


def test_an_indirect_ack_counts_in_the_indirect_phase_only() -> None:
    """A relay's word saves the target, but not before relays were asked; a wrong sequence saves nobody."""
    node = alone()
    _, ping = next_ping(node)
    word = IndirectAck(target=ping.to, sequence=ping.message.sequence)
    assert events(node.handle(word, 10 * TICK), ProbeAcked) == []
    run_ticks(node, 3, 10)
    wrong = IndirectAck(target=ping.to, sequence=ping.message.sequence + 1)
    assert events(node.handle(wrong, 13 * TICK), ProbeAcked) == []
    assert [event.probe_kind for event in events(node.handle(word, 13 * TICK), ProbeAcked)] == ["indirect"]
    assert events(run_ticks(node, 6, 13), Transition) == []


def test_an_ack_of_a_suspect_changes_no_state() -> None:
    """A Suspect that answers stays Suspect until it refutes, and is then not declared dead."""
    node = alone(others="b")
    _, ping = next_ping(node)
    run_ticks(node, 6, 10)
    assert view(node, "b") == (SUSPECT, 0)
    now, ping = next_ping(node, 16)
    assert unpack(ping.message.piggyback).updates == ((node_id("b"), SUSPECT, 0),)
    node.handle(ack_of(ping), now * TICK)
    assert view(node, "b") == (SUSPECT, 0)
    node.handle(rumour(("b", ALIVE, 1)), now * TICK)
    assert view(node, "b") == (ALIVE, 1)


def test_the_dead_are_probed_again_and_nobody_else_is() -> None:
    """Every interval one Dead member in turn, carrying the claim; no phase opens; silent when none is Dead or it is off."""
    for interval, pinged in ((20, 5), (0, 0)):
        node = alone(others="bc", dead_reprobe_interval=interval, probe_interval=10_000)
        assert sent(run_ticks(node, 100)) == []
        node.handle(rumour(("b", DEAD, 0), ("c", DEAD, 0), sender="c"), 100 * TICK)
        out = run_ticks(node, 100, 100)
        pings = sent(out, Ping)
        assert len(pings) == pinged
        order = sorted([node_id("b"), node_id("c")])
        assert [ping.to for ping in pings] == [order[turn % 2] for turn in range(pinged)]
        assert events(out, Transition) == events(out, ProbeTimedOut) == []


def test_a_failed_send_probes_at_once() -> None:
    """A known live peer is probed now; unknown and Dead peers and the open target are ignored."""
    node = alone(others="bcd")
    node.handle(rumour(("d", DEAD, 0)), 0)
    assert node.report_send_failure(node_id("z"), 0) == []
    assert node.report_send_failure(node_id("d"), 0) == []
    out = node.report_send_failure(node_id("b"), 0)
    assert [ping.to for ping in sent(out, Ping)] == [node_id("b")]
    assert node.report_send_failure(node_id("b"), 0) == []


def test_a_periodic_probe_keeps_its_own_time_beside_demands() -> None:
    """A probe on demand does not move the next periodic one."""
    node = alone()
    run_ticks(node, 4)
    ping = sent(node.report_send_failure(node_id("b"), 4 * TICK), Ping)[0]
    node.handle(ack_of(ping), 4 * TICK)
    assert next_ping(node, 4)[0] == 10


INPUTS = st.lists(
    st.one_of(
        st.tuples(st.just("ticks"), st.integers(1, 30)),
        st.tuples(st.just("ack"), st.booleans()),
        st.tuples(
            st.just("rumour"), st.tuples(st.sampled_from("abcd"), st.sampled_from(MemberState), st.integers(0, 3))
        ),
        st.tuples(st.just("failed"), st.sampled_from("bcdz")),
        st.tuples(st.just("pause"), st.integers(3, 40)),
    ),
    max_size=25,
)


@given(inputs=INPUTS, profile=st.sampled_from(["current", "deployed"]))
def test_skipping_idle_ticks_changes_nothing(inputs: list[tuple[str, Any]], profile: str) -> None:
    """A node that steps fully on every tick puts out exactly what one does that skips the idle ones."""
    lazy, eager = (alone(others="bcd", profile=profile, names=("n",)) for _ in range(2))
    now, last = 0, None
    for what, value in inputs:
        for _ in range(value if what == "ticks" else 1):
            now += TICK * {"ticks": 1, "pause": value}.get(what, 0)
            outputs = []
            for node in (lazy, eager):
                if node is eager:
                    node._due = 0
                outputs.append(list(feed(node, what, value, last, now)))
            assert outputs[0] == outputs[1]
            last = (sent(outputs[0], Ping) or [last])[0]
        assert lazy.snapshot() == eager.snapshot()


def feed(node: SwimNode, what: str, value: Any, last: Any, now: int) -> Any:
    """Give one input to one node."""
    if what == "ticks":
        return node.tick(now)
    if what == "failed":
        return node.report_send_failure(node_id(value), now)
    if what == "rumour":
        return node.handle(rumour(value), now)
    if what == "ack" and last is not None:
        return node.handle(ack_of(last, updates(("c", SUSPECT, 1)) if value else b""), now)
    return ()
