"""A slow process and a wrong clock, as SWIM and a stage with a node take them (rulings K2, M3, M4, M5)."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.host import Action, App, RecordEvent, ScheduleTimer, SendFailed, Slow, TimerFired
from simharness.core.units import NS_PER_MS
from simharness.hosts.stage.kind import KIND as STAGE
from simharness.hosts.swim.backlog import FIRST_TICKET, SERVICE_NS, Backlog
from simharness.hosts.swim.kind import KIND as SWIM
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.messages import Ping
from tests.hosts.stage_runs import MS, TICK, Run, S, scenario, stage, start_ns, swim
from tests.hosts.test_swim_adapter import build


def ping(number: int) -> App:
    return App(Ping(sender=node_id("b"), sequence=number))


def heard(actions: Sequence[Action]) -> list[str]:
    """The kinds of messages that were looked at."""
    events = [action.event for action in actions if isinstance(action, RecordEvent)]
    return [event["message_kind"] for event in events if event["kind"] == "MessageReceived"]


def timers(actions: Sequence[Action]) -> list[ScheduleTimer]:
    return [action for action in actions if isinstance(action, ScheduleTimer)]


def test_who_accepts_what() -> None:
    """M1: both kinds take every mutation of hosts; a worker exit only the stage."""
    for kind in (SWIM, STAGE):
        assert {"peer_pause", "peer_slow", "clock_offset", "clock_drift"} <= set(kind.accepts)
    assert FIRST_TICKET > 2  # the stage's own timers come first


def test_at_full_pace_a_message_is_looked_at_at_once() -> None:
    """M5: no timer, whether nothing was said, the factor is 100, or it is below."""
    for said in ((), (Slow(100),), (Slow(20),), (Slow(900), Slow(100))):
        host = build()
        for envelope in said:
            assert host.recv(envelope, 1) == ()
        answer = host.recv(ping(7), 5)
        assert heard(answer) == ["swactor_dist::Ping"]
        assert timers(answer) == []


def test_a_slow_process_serves_one_message_after_the_other() -> None:
    """M5: each takes (factor - 100) percent of 10 ms, first in, first out; what comes meanwhile waits; a failed send does not."""
    assert SERVICE_NS == 10 * NS_PER_MS
    host = build()
    host.recv(Slow(300), 0)
    [first] = timers(host.recv(ping(1), 5))
    assert first.at_ns == 5 + 20 * MS
    assert host.recv(ping(2), 6) == ()
    assert heard(host.recv(SendFailed("b", "lossy"), 7)) == []
    answer = host.recv(TimerFired(first.token), first.at_ns)
    assert heard(answer) == ["swactor_dist::Ping"]
    [second] = timers(answer)
    assert second.at_ns == first.at_ns + 20 * MS
    assert host.recv(TimerFired(first.token), first.at_ns + 1) == ()  # a ticket is good once
    last = host.recv(TimerFired(second.token), second.at_ns)
    assert heard(last) == ["swactor_dist::Ping"]
    assert timers(last) == []


def test_when_the_slowness_ends_the_backlog_goes_with_the_message_in_hand() -> None:
    """M5: the message that is being served keeps its time, the rest costs nothing more; then nothing waits."""
    host = build()
    host.recv(Slow(1_000), 0)
    [due] = timers(host.recv(ping(1), 0))
    for number in (2, 3):
        host.recv(ping(number), number)
    host.recv(Slow(100), 10)
    assert host.recv(ping(4), 11) == ()  # no overtaking
    answer = host.recv(TimerFired(due.token), due.at_ns)
    assert heard(answer) == ["swactor_dist::Ping"] * 4
    assert timers(answer) == []
    assert heard(host.recv(ping(5), due.at_ns)) == ["swactor_dist::Ping"]


def test_a_timer_that_died_is_made_good() -> None:
    """E8: a preserved process lost its timers; the next message starts the service anew, and nothing is lost or doubled."""
    host = build()
    host.recv(Slow(200), 0)
    [lost] = timers(host.recv(ping(1), 0))
    [again] = timers(host.recv(ping(2), lost.at_ns + 1))
    assert again.at_ns == lost.at_ns + 1 + 10 * MS
    assert host.recv(TimerFired(lost.token), again.at_ns) == ()
    answer = host.recv(TimerFired(again.token), again.at_ns)
    assert heard(answer) == ["swactor_dist::Ping"]
    assert heard(host.recv(TimerFired(timers(answer)[0].token), again.at_ns + 10 * MS)) == ["swactor_dist::Ping"]


STEPS = st.lists(
    st.tuples(st.sampled_from((0, 1, 3 * MS, 15 * MS)), st.sampled_from(("message", 100, 150, 400))), max_size=12
)


@settings(max_examples=80)
@given(steps=STEPS)
def test_a_backlog_is_a_queue_with_one_server(steps: list[tuple[int, str | int]]) -> None:
    """M5 against an oracle: start = max(arrival, end of the one before), at the factor that holds at the start."""
    backlog, now, arrivals, done = Backlog(), 0, [], []
    changes, free, pending = [((0, -1), 0)], 0, None
    for number, (gap, step) in enumerate([*steps, (10**12, 100)]):
        until = now + gap
        while pending is not None and pending.at_ns <= until:
            done += [(pending.at_ns, item) for item in backlog.served(pending.token)]
            pending = next(iter(backlog.begin(pending.at_ns)), None)
        now = until
        if step == "message":
            arrivals.append((number, now))
            asked = backlog.add(number, now) if backlog.busy else ()
            done += [] if asked or backlog.busy else [(now, number)]
            pending = asked[0] if asked else pending
        else:
            backlog.slow(int(step))
            changes.append(((now, number), 10 * MS * (int(step) - 100) // 100))
    oracle = []
    for number, arrival in arrivals:
        # what a message costs is settled when it is begun: at its arrival, or at the end of the one before, when timers come first
        begun = (arrival, number) if arrival >= free else (free, -1)
        cost = [cost for at, cost in changes if at < begun][-1]
        free = begun[0] + cost
        oracle.append((free, number))
    assert [number for _, number in done] == [number for _, number in oracle]
    for (got, _), (want, _) in zip(done, oracle, strict=True):
        assert got == want


def test_in_a_run_a_slow_member_answers_late_and_nobody_else_does() -> None:
    """K2 through the engine: while it lasts, every receipt is 40 ms after its arrival; before and after, at once."""
    slow = {"kind": "peer_slow", "at_ns": 5 * S, "peer": "b", "factor_x100": 500, "duration_ns": 5 * S}
    calm = Run(scenario(swim("a"), swim("b"), swim("c"), duration_ns=15 * S))
    run = Run(scenario(swim("a"), swim("b"), swim("c"), duration_ns=15 * S, mutations=[slow]))
    receipts = run.events("MessageReceived", host="b")
    late = [(at, event) for at, _, event in receipts if 5 * S + 100 * MS < at < 10 * S]
    on_time = {(at, event["message_kind"]) for at, _, event in calm.events("MessageReceived", host="b")}
    pings = [at for at, event in late if event["message_kind"].endswith("::Ping")]
    assert len(pings) >= 5
    assert all((at - 40 * MS, "swactor_dist::Ping") in on_time for at in pings)
    assert {(at, e["message_kind"]) for at, _, e in receipts if at < 5 * S} <= on_time
    assert {(at, e["message_kind"]) for at, _, e in receipts if at > 10 * S + 100 * MS} <= on_time
    assert run.events("SwimTransition") == []


def test_a_stage_hands_slowness_to_its_node_and_keeps_its_own_timers() -> None:
    """K2, S2: the embedded node serves slowly; the worker's script runs on time; a stage without a node has nothing to slow."""
    script = {"ready_after_ns": 2 * S, "exit_after_ns": 6 * S, "exit_code": 0}
    peers = (stage("s", node={}, subprocess=script), stage("bare"), swim("b"))
    slow = [
        {"kind": "peer_slow", "at_ns": S, "peer": peer, "factor_x100": 500, "duration_ns": 20 * S}
        for peer in ("s", "bare")
    ]
    run = Run(scenario(*peers, duration_ns=10 * S, mutations=slow))
    pings = [at for at, _, e in run.events("MessageReceived", host="s") if e["message_kind"].endswith("Ping")]
    sent = [at for at, _, e in run.events("MessageSent", host="b") if e["message_kind"].endswith("Ping")]
    slowed = [at for at in pings if at > 2_500 * MS]  # when its names are spread and nothing queues
    assert len(slowed) > 2
    for at in slowed:  # 5 ms of latency, some microseconds of bandwidth, 40 ms of service
        assert any(45 * MS <= at - left < 45 * MS + 10_000 for left in sent)
    [(ended, _, _)] = run.events("worker_exited")
    assert ended == start_ns("s") + 6 * S


@pytest.mark.parametrize("by_ns", [-4 * S, 3 * S])
def test_a_member_whose_clock_is_set_stays_a_member(by_ns: int) -> None:
    """K2: SWIM reads time only to notice its own pauses; a clock that jumps makes no suspicion, and snapshots show its own time."""
    jump: dict[str, Any] = {"kind": "clock_offset", "at_ns": 5 * S, "peer": "b", "offset_ns": by_ns}
    peers = [swim("a"), swim("b"), swim("c")]
    run = Run(scenario(*peers, duration_ns=15 * S, mutations=[jump], snapshots=[{"at_ns": 10 * S}]))
    assert run.events("SwimTransition") == []
    [state] = run.snapshots("b").values()
    assert abs(state["scraped_at_ms"] - (10 * S + by_ns) // MS) <= TICK // MS
