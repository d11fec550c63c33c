"""Mutations of hosts (ruling K2): what a pause, a slowness or a wrong clock changes, to the nanosecond, and what not."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.host import Action, Halt, RecordEvent, ScheduleTimer, Send
from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    Mutation,
    Partition,
    PeerKill,
    PeerPause,
    PeerResurrect,
    PeerSlow,
    WorkerExit,
)
from simharness.contracts.records import MutationRecord, SnapshotRecord
from simharness.contracts.scenario import Scenario, SnapshotDecl
from simharness.core.errors import EngineAbort
from simharness.core.streams import Root
from simharness.engine.clocks import Clock
from simharness.engine.engine import Engine
from tests.engine.scripted import MS, ConstantNetwork, Log, ScriptedKind, disks_of, heard, scenario

PERIOD = 10 * MS
END = 100 * MS
FIRST_A, FIRST_B = (Root(1).host(name, "tick_offset").u64() % PERIOD for name in "ab")
"""When `a` and `b` tick first."""


def chatter(host: Any, now_ns: int) -> Sequence[Action]:
    """Record the tick; `a` sends a number to `b`; at its first tick `b` asks for three timers."""
    actions: list[Action] = [RecordEvent({"kind": "ticked", "n": host.ticks})]
    if host.id == "a":
        actions.append(Send("b", f"{host.ticks}".encode()))
    elif host.ticks == 1:
        actions += [ScheduleTimer(now_ns + after, token) for token, after in enumerate((1, 33 * MS, 61 * MS))]
    return actions


def build(script: Scenario, tick: Any = chatter, recv: Any = heard, **more: Any) -> tuple[Engine, Log]:
    log = Log()
    kind = ScriptedKind(tick, recv, accepts_worker_exit=True)
    more.setdefault("network", ConstantNetwork(3 * MS))
    more.setdefault("disks", disks_of(script))
    return Engine(script, kinds={"scripted": kind}, sink=log, **more), log


def run(*mutations: Mutation, tick: Any = chatter, recv: Any = heard, ids: str = "ab", **more: Any) -> Log:
    engine, log = build(scenario(*ids, mutations=mutations), tick, recv, **more)
    engine.run()
    return log


def ticks(log: Log, host_id: str = "b") -> list[int]:
    return [t for t, host, _, event in log.lines() if host == host_id and event["kind"] == "ticked"]


def pause(at_ns: int, duration_ns: int, peer: str = "b") -> PeerPause:
    return PeerPause(at_ns=at_ns, peer=peer, duration_ns=duration_ns)


class Watcher:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[str, int, int]] = []
        self.suppressed: list[tuple[str, int]] = []
        self.shown: list[tuple[str, int, int]] = []

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Any) -> None:
        self.deliveries.append((target, sent_at_ns, at_ns))

    def duplicated(self, source: str, target: str, at_ns: int) -> None:
        raise AssertionError

    def held(self, host_id: str, at_ns: int) -> None:
        self.suppressed.append((host_id, at_ns))

    def skewed(self, host_id: str, at_ns: int, shown_ns: int) -> None:
        self.shown.append((host_id, at_ns, shown_ns))


# --- peer_pause --------------------------------------------------------------------------------------------------------

QUIET = run()
TIMES = st.sampled_from((*range(0, END, 7 * MS), FIRST_B, FIRST_B + PERIOD, FIRST_B + PERIOD + 1, FIRST_A + 3 * MS))
PAUSES = st.lists(st.builds(pause, TIMES, st.sampled_from((0, 1, PERIOD, 13 * MS, 40 * MS))), max_size=4)


def released(at_ns: int, pauses: list[PeerPause]) -> int:
    """Return when something that is due at `at_ns` happens: an oracle that walks out of one pause after another."""
    while ends := [p.at_ns + p.duration_ns for p in pauses if p.at_ns <= at_ns < p.at_ns + p.duration_ns]:
        at_ns = max(ends)
    return at_ns


@given(pauses=PAUSES)
def test_a_pause_moves_what_arrives_and_skips_what_ticks(pauses: list[PeerPause]) -> None:
    """K2: ticks in the union of the pauses are gone, the phase stays; all else comes at its end, in the order of the queue."""
    late = [p for p in pauses if p.at_ns > FIRST_B]  # before its first tick b has asked for no timer
    log = run(*late)
    assert ticks(log) == [at for at in ticks(QUIET) if released(at, late) == at]
    moved = [(released(at, late), what) for at, what in QUIET.heard("b")]
    assert log.heard("b") == sorted([item for item in moved if item[0] < END], key=lambda item: item[0])
    assert [line for line in log.lines() if line[1] == "a"] == [line for line in QUIET.lines() if line[1] == "a"]


@pytest.mark.parametrize(
    ("start", "duration", "ticked"),
    [
        (FIRST_B + PERIOD, 1, False),
        (FIRST_B + PERIOD + 1, 1, True),
        (FIRST_B + PERIOD - 5, 5, True),
        (FIRST_B + PERIOD - 5, 6, False),
        (FIRST_B + PERIOD, 0, True),
    ],
)
def test_a_pause_covers_its_first_instant_and_not_its_last(start: int, duration: int, ticked: bool) -> None:
    """K2: [t, t + d) to the nanosecond, at a tick."""
    assert (FIRST_B + PERIOD in ticks(run(pause(start, duration)))) is ticked


@pytest.mark.parametrize(("before", "after"), [(0, 1), (5, 0)])
def test_a_pause_over_the_first_tick(before: int, after: int) -> None:
    """Boundary: a pause that begins before the first tick covers it, one that ends at it does not."""
    log = run(pause(FIRST_B - before, before + after))
    # what comes first in one instant is the first tick (ruling E1): a pause that begins with it comes too late
    assert (FIRST_B in ticks(log)) is (before == 0 or after == 0)


def test_a_failed_send_waits_for_the_end_of_the_pause() -> None:
    """K2: `SendFailed` is recorded when it reaches the sender, which is after the pause."""
    network = ConstantNetwork(refuse={("a", "b"): "lossy"})
    log = run(pause(FIRST_A, 25 * MS, "a"), network=network)
    assert log.heard("a")[0] == (FIRST_A + 25 * MS, "failed b lossy")
    assert log.of_kind("DropOnSend")[0][0] == FIRST_A
    assert log.of_kind("SendFailed")[0][0] == FIRST_A + 25 * MS


def test_a_worker_exit_is_recorded_at_once_and_held() -> None:
    """K2: the mutation's record stands at its time; the envelope waits among the messages that came before and after it."""
    log = run(pause(30 * MS, 30 * MS), WorkerExit(at_ns=45 * MS, peer="b", reason="x"))
    assert [t for t, event in log.of_kind("Mutation")] == [30 * MS, 45 * MS]
    waited = [(at, what) for at, what in QUIET.heard("b") if 30 * MS <= at < 60 * MS]
    place = len([at for at, _ in waited if at < 45 * MS])
    woken = [what for at, what in log.heard("b") if at == 60 * MS]
    assert woken == [*(what for _, what in waited[:place]), "exit x", *(what for _, what in waited[place:])]


def test_a_worker_exit_at_the_end_of_a_pause_comes_first() -> None:
    """M2: in its last instant the mutations come first, then what was held, then what arrives."""
    tail = WorkerExit(at_ns=60 * MS, peer="b", reason="x")
    log = run(pause(30 * MS, 30 * MS), tail)
    assert next(what for at, what in log.heard("b") if at == 60 * MS) == "exit x"


def test_a_pause_that_ends_as_another_begins_goes_on() -> None:
    """K2: overlapping pauses are their union, and so are those that touch."""
    log = run(pause(30 * MS, 20 * MS), pause(50 * MS, 20 * MS))
    assert log.heard("b") == run(pause(30 * MS, 40 * MS)).heard("b")
    inner = run(pause(30 * MS, 40 * MS), pause(35 * MS, 5 * MS))
    assert inner.heard("b") == log.heard("b")


def test_a_kill_ends_a_pause_and_drops_what_was_held() -> None:
    """K2: held deliveries leave their record, in queue order and before those still in flight; a held timer is gone silently."""
    kill, back = PeerKill(at_ns=54 * MS, peer="b"), PeerResurrect(at_ns=55 * MS, peer="b", preserve_state=True)
    log = run(pause(30 * MS, 60 * MS), kill, back)
    times = [at for at, what in QUIET.heard("b") if what.startswith("app") and 30 * MS <= at < 57 * MS]
    drops = log.of_kind("DropOnDelivery")
    assert [event["sent_at_ns"] for _, event in drops] == [at - 3 * MS for at in times]
    assert {(at, event["reason"]) for at, event in drops} == {(54 * MS, "host_killed")}
    assert times[-1] > 54 * MS  # one of them was in flight
    assert [at for at in ticks(log) if at > 30 * MS] == list(range(65 * MS, END, PERIOD))
    later = [(at, what) for at, what in QUIET.heard("b") if at > 57 * MS]
    assert [item for item in log.heard("b") if item[0] >= 30 * MS] == later


def test_a_kill_in_the_last_instant_of_a_pause_still_drops() -> None:
    """M2: mutations come before what is released."""
    log = run(pause(30 * MS, 30 * MS), PeerKill(at_ns=60 * MS, peer="b"))
    assert [at for at, _ in log.heard("b") if at >= 30 * MS] == []
    assert len(log.of_kind("DropOnDelivery")) >= 3


def test_a_second_life_has_pauses_of_its_own() -> None:
    """A pause that a kill has ended does not end a later one early."""
    mutations = (pause(20 * MS, 30 * MS), PeerKill(at_ns=25 * MS, peer="b"), PeerResurrect(at_ns=30 * MS, peer="b"))
    log = run(*mutations, pause(40 * MS, 30 * MS))
    assert [at for at, _ in log.heard("b") if 40 * MS <= at < 70 * MS] == []
    assert [what for at, what in log.heard("b") if at == 70 * MS] != []


@pytest.mark.parametrize("dead", [True, False])
def test_a_pause_of_nobody_is_a_record_only(dead: bool) -> None:
    """M2: like a second kill, a pause of a dead or a halted peer changes nothing."""

    def leave(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
        return (*heard(host, message, now_ns), *((Halt(),) if not dead else ()))

    down = (PeerKill(at_ns=25 * MS, peer="b"),) if dead else ()
    calm, paused = run(*down, recv=leave), run(*down, pause(30 * MS, 20 * MS), recv=leave)
    assert [line for line in paused.lines() if line[3].get("kind") != "Mutation"] == [
        line for line in calm.lines() if line[3].get("kind") != "Mutation"
    ]
    assert len(paused.of_kind("Mutation")) == len(calm.of_kind("Mutation")) + 1


def test_a_host_that_halts_on_waking_hears_no_more() -> None:
    """What was held behind the message that made it halt is dropped like any later one (ruling E5)."""

    def leave(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
        return (*heard(host, message, now_ns), *((Halt(),) if now_ns >= 60 * MS else ()))

    log = run(pause(31 * MS, 29 * MS), recv=leave)
    assert len([at for at, _ in log.heard("b") if at >= 31 * MS]) == 1
    reasons = [(at, event["reason"]) for at, event in log.of_kind("DropOnDelivery")]
    assert reasons[0] == (60 * MS, "host_halted")


def test_a_pause_leaves_snapshots_and_the_network_alone() -> None:
    """K2: a frozen process shows its old state; a partition takes nothing that it has received already."""
    cut = Partition(at_ns=45 * MS, peers_a=("a",), peers_b=("b",))
    script = scenario(*"ab", mutations=(pause(30 * MS, 30 * MS), cut), snapshots=(SnapshotDecl(at_ns=50 * MS),))
    engine, log = build(script)
    engine.run()
    shown = {r.host_id: r.snapshot for r in log.records if isinstance(r, SnapshotRecord)}
    before = len([at for at in ticks(log) if at < 30 * MS])
    assert shown["b"] == b'{"ticks":%d}' % before
    arrived = [what for at, what in QUIET.heard("b") if 30 * MS <= at < 45 * MS and what.startswith("app")]
    assert [what for at, what in log.heard("b") if at == 60 * MS and what.startswith("app")][: len(arrived)] == arrived


def test_the_observer_sees_arrivals_and_what_is_suppressed() -> None:
    """§5.7: a delay is arrival minus send time, whenever the host wakes; K8: each call that fails to come is seen."""
    watcher = Watcher()
    log = run(pause(30 * MS, 30 * MS), observer=watcher)
    assert {at - sent for _, sent, at in watcher.deliveries} == {3 * MS}
    waited = [at for at, _ in QUIET.heard("b") if 30 * MS <= at < 60 * MS]
    skipped = [at for at in ticks(QUIET) if 30 * MS <= at < 60 * MS]
    assert sorted(watcher.suppressed) == sorted(("b", at) for at in waited + skipped)
    assert ticks(log) != ticks(QUIET)


# --- peer_slow ---------------------------------------------------------------------------------------------------------


def slow(at_ns: int, factor_x100: int, duration_ns: int) -> PeerSlow:
    return PeerSlow(at_ns=at_ns, peer="b", factor_x100=factor_x100, duration_ns=duration_ns)


def told(log: Log) -> list[tuple[int, str]]:
    return [item for item in log.heard("b") if item[1].startswith("slow")]


SLOWS = st.lists(
    st.builds(slow, TIMES, st.sampled_from((0, 50, 100, 300, 900)), st.sampled_from((0, 1, PERIOD, 40 * MS))),
    max_size=4,
)


@given(slows=SLOWS)
def test_a_host_is_told_its_factor_whenever_it_changes(slows: list[PeerSlow]) -> None:
    """K2: of the windows in force the latest applied wins, 100 at the end of all; an oracle asks at every boundary."""
    slows.sort(key=lambda m: m.at_ns)
    log = run(*slows)
    boundaries = sorted({at for m in slows for at in (m.at_ns, m.at_ns + m.duration_ns)})
    expected, last = [], 100
    for at in boundaries:
        # at one instant the mutations apply one by one; each makes its own factor the one in force
        applied = [m.factor_x100 for m in slows if m.at_ns == at and m.duration_ns]
        over = [m.factor_x100 for m in slows if m.at_ns < at < m.at_ns + m.duration_ns]
        for factor in applied or [(over or [100])[-1]]:
            if factor != last and at < END:
                expected.append((at, f"slow {factor}"))
                last = factor
    assert told(log) == expected
    assert [item for item in log.heard("b") if item not in expected] == QUIET.heard("b")
    assert ticks(log) == ticks(QUIET)


def test_slow_is_synchronous_and_its_end_comes_before_what_arrives() -> None:
    """K2: told right behind the mutation's record; at the end of the window told before a message of that instant."""
    arrival = FIRST_A + 4 * PERIOD + 3 * MS
    log = run(slow(20 * MS, 300, arrival - 20 * MS))
    lines = log.lines()
    place = next(i for i, line in enumerate(lines) if line[3]["kind"] == "Mutation")
    assert lines[place + 1][3] == {"kind": "heard", "what": "slow 300"}
    assert [what for at, what in log.heard("b") if at == arrival] == ["slow 100", "app 5"]


def test_a_paused_host_is_told_on_waking() -> None:
    """M4: what changes meanwhile is not told step by step, only what holds when it wakes, after what was held."""
    log = run(pause(30 * MS, 40 * MS), slow(35 * MS, 300, 50 * MS), slow(40 * MS, 900, 10 * MS))
    assert told(log) == [(70 * MS, "slow 300"), (85 * MS, "slow 100")]
    assert [what for at, what in log.heard("b") if at == 70 * MS][-1] == "slow 300"
    assert told(run(pause(30 * MS, 40 * MS), slow(35 * MS, 300, 5 * MS))) == []


@pytest.mark.parametrize(("preserve", "expected"), [(True, []), (False, [(40 * MS, "slow 300")])])
def test_slowness_outlives_the_process(preserve: bool, expected: list[tuple[int, str]]) -> None:
    """M4: a fresh instance learns of it when it starts; one that was preserved knows."""
    back = PeerResurrect(at_ns=40 * MS, peer="b", preserve_state=preserve)
    log = run(slow(20 * MS, 300, 40 * MS), PeerKill(at_ns=30 * MS, peer="b"), back)
    assert told(log) == [(20 * MS, "slow 300"), *expected, (60 * MS, "slow 100")]


def test_a_dead_host_is_told_nothing() -> None:
    """Slowness that comes and goes while nobody is there is a record only."""
    back = PeerResurrect(at_ns=60 * MS, peer="b", preserve_state=True)
    kill = PeerKill(at_ns=30 * MS, peer="b")
    assert told(run(kill, slow(40 * MS, 300, 10 * MS), back)) == []
    missed = run(slow(20 * MS, 300, 20 * MS), kill, back)
    assert told(missed) == [(20 * MS, "slow 300"), (60 * MS, "slow 100")]


def test_slow_on_a_kind_that_does_not_accept_it_aborts() -> None:
    """M1: past the loader, as with a worker exit: before the record, naming kind and index."""
    kind = ScriptedKind(chatter)
    kind.accepts = ("peer_kill", "worker_exit")
    log = Log()
    script = scenario("a", "b", mutations=(PeerKill(at_ns=1, peer="a"), slow(2, 300, 5)))
    engine = Engine(script, network=ConstantNetwork(), kinds={"scripted": kind}, disks=disks_of(script), sink=log)
    with pytest.raises(EngineAbort, match=r"PeerSlowOnWrongKind: host b .*mutation 1 .*'scripted'"):
        engine.run()
    assert len(log.of_kind("Mutation")) == 1


# --- clocks ------------------------------------------------------------------------------------------------------------

CLOCKS = st.builds(Clock, st.integers(0, 10**6), st.integers(-(10**6), 10**12), st.integers(-999_999, 10**6))


@given(clock=CLOCKS, after=st.integers(0, 10**15), step=st.integers(0, 10**12))
def test_a_clock_never_runs_backwards(clock: Clock, after: int, step: int) -> None:
    """M3: between two changes it is monotone, at any drift that is allowed."""
    assert clock.read(clock.since_ns + after) <= clock.read(clock.since_ns + after + step)


@given(clock=CLOCKS, ahead=st.integers(0, 10**15))
def test_when_a_clock_shows_a_time(clock: Clock, ahead: int) -> None:
    """M3: the first nanosecond at which it shows that much; the one before shows less."""
    shown = clock.read(clock.since_ns) + ahead
    at = clock.when(shown)
    assert clock.read(at - 1) < shown <= clock.read(at)
    if clock.drift_ppm <= 0:
        assert clock.read(at) == shown


@given(
    clock=CLOCKS, after=st.integers(0, 10**12), offset=st.integers(-(10**9), 10**9), ppm=st.integers(-999_999, 10**6)
)
def test_changing_a_clock(clock: Clock, after: int, offset: int, ppm: int) -> None:
    """M3: an offset says what it shows now and keeps the rate; a drift keeps what it shows now and says the rate."""
    at = clock.since_ns + after
    assert clock.set_off(at, offset).read(at) == at + offset
    assert clock.set_off(at, offset).drift_ppm == clock.drift_ppm
    assert clock.drifting(at, ppm).read(at) == clock.read(at)
    million = clock.drifting(at, ppm).read(at + 10**6) - clock.read(at)
    assert million == 10**6 + ppm
    assert clock.set_off(at, 0).drifting(at, 0).is_true


def telling(host: Any, now_ns: int) -> Sequence[Action]:
    """Like `chatter`, and tell the time that came with the call."""
    return (*chatter(host, now_ns), RecordEvent({"kind": "told", "now_ns": now_ns}))


def telling_too(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
    return (*heard(host, message, now_ns), RecordEvent({"kind": "told", "now_ns": now_ns}))


def errors(log: Log, host_id: str = "b") -> list[tuple[int, int]]:
    """Return (time, by how much the host's clock was wrong) of every call."""
    return [(t, e["now_ns"] - t) for t, host, _, e in log.lines() if host == host_id and e["kind"] == "told"]


def offset(at_ns: int, offset_ns: int) -> ClockOffset:
    return ClockOffset(at_ns=at_ns, peer="b", offset_ns=offset_ns)


def drift(at_ns: int, drift_ppm: int) -> ClockDrift:
    return ClockDrift(at_ns=at_ns, peer="b", drift_ppm=drift_ppm)


def test_a_host_reads_its_own_clock() -> None:
    """K2: an offset holds from its instant on and is replaced by the next; every call of this host, and no other, brings it."""
    mutations = (offset(20 * MS, 7), offset(40 * MS, -3 * MS), offset(60 * MS, 0))
    log = run(*mutations, tick=telling, recv=telling_too)
    for at, wrong in errors(log):
        assert wrong == (0 if at < 20 * MS or at >= 60 * MS else 7 if at < 40 * MS else -3 * MS)
    assert {wrong for _, wrong in errors(log, "a")} == {0}


def test_a_drift_adds_up_from_its_instant_and_stops_where_it_is() -> None:
    """M3: 1,000 ppm for 30 ms are 30 us; without the drift the error stays until an offset ends it."""
    mutations = (drift(20 * MS, 1_000), drift(50 * MS, 0), offset(70 * MS, 0))
    log = run(*mutations, tick=telling, recv=telling_too)
    for at, wrong in errors(log):
        expected = 0 if at < 20 * MS or at >= 70 * MS else min(at - 20 * MS, 30 * MS) // 1_000
        assert wrong == expected


CLOCK_CHANGES = st.lists(
    st.one_of(
        st.builds(offset, TIMES, st.integers(0, 10**9)), st.builds(drift, TIMES, st.sampled_from((-999_999, -7, 10**6)))
    ),
    max_size=4,
)


@given(changes=CLOCK_CHANGES)
def test_clocks_never_change_the_queue(changes: list[Mutation]) -> None:
    """K2: a host that asks for its timers before and looks at no clock does the same at the same time, whatever its clock."""
    log = run(*changes_after_first_tick(changes))
    assert [line for line in log.lines() if line[2] != "mutation"] == QUIET.lines()


def changes_after_first_tick(changes: list[Mutation]) -> list[Mutation]:
    return [change for change in changes if change.at_ns > FIRST_B]


@given(
    changes=st.lists(
        st.one_of(
            st.builds(offset, st.just(0), st.integers(0, 10**9)),
            st.builds(drift, st.just(0), st.integers(-900_000, 10**6)),
        ),
        max_size=3,
    ),
    after=st.integers(0, 40 * MS),
)
def test_a_timer_is_asked_for_in_the_hosts_own_time(changes: list[Mutation], after: int) -> None:
    """K2: it fires at the first nanosecond at which the host's clock shows what it asked for."""
    asked: list[tuple[int, int]] = []

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        if host.id != "b" or host.ticks > 1:
            return ()
        asked.append((FIRST_B, now_ns + after))
        return (ScheduleTimer(now_ns + after, 1),)

    clock = Clock()
    for change in changes:
        match change:
            case ClockOffset(offset_ns=by):
                clock = clock.set_off(0, by)
            case ClockDrift(drift_ppm=ppm):
                clock = clock.drifting(0, ppm)
    log = run(*changes, tick=tick, recv=telling_too)
    [(now, wanted)] = asked
    due = max(now, clock.when(wanted))  # a slow clock may show one time for several nanoseconds
    assert log.heard("b") == ([(due, "timer 1")] if due < END else [])
    if due < END:
        assert [event["now_ns"] for _, event in log.of_kind("told")] == [clock.read(due)]
        assert clock.read(due) >= wanted
        assert due == now or clock.read(due - 1) < wanted


def test_a_timer_that_runs_is_not_moved() -> None:
    """M3: setting the clock does not touch what the queue holds already."""
    log = run(offset(FIRST_B + 20 * MS, 10**9), drift(FIRST_B + 20 * MS, -500_000))
    assert [at for at, what in log.heard("b") if what == "timer 1"] == [FIRST_B + 33 * MS]


@pytest.mark.parametrize("preserve", [True, False])
def test_a_clock_outlives_the_process(preserve: bool) -> None:
    """M3: the clock is the machine's: a resurrected peer reads it, whoever it is, and one that is dead has it all the same."""
    down, up = PeerKill(at_ns=30 * MS, peer="b"), PeerResurrect(at_ns=50 * MS, peer="b", preserve_state=preserve)
    log = run(offset(20 * MS, 5), down, drift(40 * MS, 1_000), up, tick=telling, recv=telling_too)
    late = [(at, wrong) for at, wrong in errors(log) if at > 50 * MS]
    assert late
    assert late == [(at, 5 + (at - 40 * MS) // 1_000) for at, _ in late]


def test_a_clock_is_not_set_to_before_zero() -> None:
    """M3: past the loader it aborts, naming the mutation."""
    with pytest.raises(EngineAbort, match=r"clock-before-zero: host b .*mutation 0 "):
        run(offset(5, -6))
    assert errors(run(offset(5, -5), tick=telling))[0][1] == -5


def test_a_timer_in_the_past_of_the_hosts_clock_aborts() -> None:
    """§4.6 holds in the host's own time: one nanosecond before what its clock shows is too late, however early the queue is."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (ScheduleTimer(now_ns - 1, 1),) if host.id == "b" else ()

    with pytest.raises(EngineAbort, match=r"timer-in-the-past: host b .*clock showed"):
        run(offset(0, 10**9), tick=tick)


def test_the_observer_sees_calls_at_a_wrong_time() -> None:
    """K8: one for each call whose time is wrong, none for a clock that is right."""
    watcher = Watcher()
    log = run(offset(20 * MS, 7), offset(60 * MS, 0), tick=telling, recv=telling_too, observer=watcher)
    assert watcher.shown == [("b", at, at + 7) for at, wrong in errors(log) if wrong]


# --- all of them -------------------------------------------------------------------------------------------------------

ANY = st.one_of(
    st.builds(pause, TIMES, st.sampled_from((0, 1, PERIOD, 40 * MS)), st.sampled_from("ab")),
    st.builds(slow, TIMES, st.sampled_from((50, 300)), st.sampled_from((1, 40 * MS))),
    st.builds(offset, TIMES, st.sampled_from((0, 1, 10**9))),
    st.builds(drift, TIMES, st.sampled_from((0, -7, 10**6))),
    st.builds(PeerKill, at_ns=TIMES, peer=st.sampled_from("ab")),
    st.builds(PeerResurrect, at_ns=TIMES, peer=st.sampled_from("ab"), preserve_state=st.booleans()),
    st.builds(WorkerExit, at_ns=TIMES, peer=st.sampled_from("ab"), reason=st.just("x")),
)


def plain(log: Log) -> list[Any]:
    return [(type(record), record) for record in log.records]


@settings(max_examples=60)
@given(mutations=st.lists(ANY, max_size=6), pieces=st.integers(1, 9))
def test_injected_is_declared(mutations: list[Mutation], pieces: int) -> None:
    """The law of shrinking: a run driven step by step gives the records of the same mutations in a file; and twice the same."""
    mutations.sort(key=lambda mutation: mutation.at_ns)
    declared = run(*mutations, tick=telling, recv=telling_too)
    assert plain(run(*mutations, tick=telling, recv=telling_too)) == plain(declared)
    engine, log = build(scenario(*"ab"), telling, telling_too)
    for mutation in mutations:
        for step in range(1, pieces):
            engine.run_until(engine.now_ns + (mutation.at_ns - engine.now_ns) * step // pieces)
        engine.run_until(mutation.at_ns)
        engine.inject(mutation)
    engine.finish(END)
    assert plain(log) == plain(declared)


@settings(max_examples=40)
@given(mutations=st.lists(ANY, max_size=6))
def test_a_process_does_nothing_while_it_is_dead_or_paused(mutations: list[Mutation]) -> None:
    """E8, K2: no record of a host between its kill and its resurrection, nor inside a pause that no kill has ended."""
    mutations.sort(key=lambda mutation: mutation.at_ns)
    dead, paused_until = {"a": False, "b": False}, {"a": 0, "b": 0}
    for record in run(*mutations).records:
        now = record.virtual_time_ns
        if isinstance(record, MutationRecord):
            match record.mutation:
                case PeerKill(peer=peer):
                    dead[peer], paused_until[peer] = True, 0
                case PeerResurrect(peer=peer):
                    dead[peer] = False
                case PeerPause(peer=peer, duration_ns=duration) if not dead[peer]:
                    paused_until[peer] = max(paused_until[peer], now + duration)
        elif record.kind_tag == "scripted":
            assert record.host_id is not None
            assert not dead[record.host_id]
            assert now >= paused_until[record.host_id]


def test_an_unknown_peer_is_refused() -> None:
    """Injected mutations are checked like those of resurrections: the peer exists."""
    engine, _ = build(scenario(*"ab"))
    for mutation in (
        PeerPause(at_ns=1, peer="z", duration_ns=1),
        PeerSlow(at_ns=1, peer="z", factor_x100=200, duration_ns=1),
        ClockOffset(at_ns=1, peer="z", offset_ns=1),
        ClockDrift(at_ns=1, peer="z", drift_ppm=1),
    ):
        with pytest.raises(EngineAbort, match="unknown-peer"):
            engine.inject(mutation)
