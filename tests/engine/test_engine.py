"""The engine's contract, paragraph by paragraph (§4.10), over a scripted host and a network of constant latency."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.host import Action, App, Halt, RecordEvent, ScheduleTimer, Send, SendFailed, TimerFired
from simharness.contracts.mutations import Heal, Partition, PeerKill, PeerResurrect, WorkerExit
from simharness.contracts.network import Notice
from simharness.contracts.records import Record, SnapshotRecord
from simharness.contracts.scenario import Scenario, SnapshotDecl
from simharness.core.errors import EngineAbort
from simharness.core.streams import Root
from simharness.engine.engine import Engine
from tests.engine.scripted import MS, ConstantNetwork, Log, ScriptedKind, disks_of, heard, scenario


def note(what: str, **more: Any) -> RecordEvent:
    return RecordEvent({"kind": "note", "what": what, **more})


def silent(host: Any, now_ns: int) -> Sequence[Action]:
    return ()


def ticking(host: Any, now_ns: int) -> Sequence[Action]:
    return (note("tick", n=host.ticks),)


def send_once(host: Any, now_ns: int) -> Sequence[Action]:
    return (Send("b", f"m{host.ticks}".encode()),) if host.id == "a" else ()


def build(
    script: Scenario, kind: ScriptedKind, network: ConstantNetwork | None = None, **more: Any
) -> tuple[Engine, Log]:
    log = Log()
    network = network or ConstantNetwork()
    engine = Engine(script, network=network, kinds={"scripted": kind}, disks=disks_of(script), sink=log, **more)
    return engine, log


def run(script: Scenario, kind: ScriptedKind, network: ConstantNetwork | None = None, **more: Any) -> Log:
    engine, log = build(script, kind, network, **more)
    engine.run()
    return log


@pytest.mark.spec("§4.10", "Tick cadence")
def test_tick_cadence() -> None:
    """Ticks come at the declared period from a seed-derived offset that repeats between runs and differs between hosts."""
    script = scenario("a", "b", "c", seed=7)
    ticks = {
        host: [t for t, h, _, _ in run(script, ScriptedKind(ticking)).lines() if h == host] for host in ("a", "b", "c")
    }
    for host, times in ticks.items():
        assert times[0] == Root(7).host(host, "tick_offset").u64() % (10 * MS)
        assert {later - earlier for earlier, later in pairwise(times)} == {10 * MS}
        assert len(times) == -((times[0] - 100 * MS) // (10 * MS))  # ceil((D - o) / P), ruling E2
    assert len({times[0] for times in ticks.values()}) == 3


@pytest.mark.spec("§4.10", "Action ordering")
def test_action_ordering() -> None:
    """Effects of action N are on record before those of action N+1; a send in between is answered by the network at its place."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        if host.id != "a" or host.ticks > 1:
            return ()
        return (note("one"), Send("b", b"x"), note("two"), Send("c", b"y"), note("three"))

    network = ConstantNetwork(refuse={("a", "b"): "lossy"})
    log = run(scenario("a", "b", "c"), ScriptedKind(tick), network)
    mine = [event for _, host, _, event in log.lines() if host == "a"]
    assert [event.get("what", event["kind"]) for event in mine] == [
        "one",
        "DropOnSend",
        "two",
        "three",
        "SendFailed",
        "failed b lossy",
    ]
    assert [target for _, target, _, _ in network.sent] == ["b", "c"]


@pytest.mark.spec("§4.10", "Send semantics")
def test_send_semantics() -> None:
    """Arrive: the recipient hears the codec's bytes at the arrival time. Drop: a record, SendFailed, and no recipient call."""
    network = ConstantNetwork(latency_ns=3 * MS)
    log = run(scenario("a", "b", duration_ns=40 * MS), ScriptedKind(send_once), network)
    assert log.heard("b") == [(at + 3 * MS, f"app m{n}") for n, (_, _, _, at) in enumerate(network.sent, 1)]
    assert {size for _, _, size, _ in network.sent} == {2 + len("scripted")}  # payload plus frame overhead (ruling N19)

    refusing = ConstantNetwork(refuse={("a", "b"): "partitioned"})
    log = run(scenario("a", "b", duration_ns=40 * MS), ScriptedKind(send_once), refusing)
    times = [at for _, _, _, at in refusing.sent]
    drop = {"kind": "DropOnSend", "from": "a", "to": "b", "reason": "partitioned"}
    assert log.of_kind("DropOnSend") == [(at, drop) for at in times]
    assert log.of_kind("SendFailed") == [(at, drop | {"kind": "SendFailed"}) for at in times]
    assert log.heard("a") == [(at, "failed b partitioned") for at in times]
    assert log.heard("b") == []


@pytest.mark.spec("§4.10", "Timer fidelity")
def test_timer_fidelity() -> None:
    """A timer reaches `recv` at exactly its nanosecond, with its token."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (ScheduleTimer(now_ns + 1_234_567, host.ticks),) if host.ticks < 4 else ()

    log = run(scenario("a"), ScriptedKind(tick))
    offset = Root(1).host("a", "tick_offset").u64() % (10 * MS)
    assert log.heard("a") == [(offset + n * 10 * MS + 1_234_567, f"timer {n + 1}") for n in range(3)]


@pytest.mark.spec("§4.10", "Halt")
def test_halt_from_tick_stops_ticks_but_not_deliveries() -> None:
    """A host that halts in a tick gets no further tick and goes on receiving (ruling E5)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (Send("b", b"x"),) if host.id == "a" else (note("tick"), Halt(), note("after"))

    log = run(scenario("a", "b"), ScriptedKind(tick))
    assert [event["what"] for _, host, _, event in log.lines() if host == "b" and event["kind"] == "note"] == [
        "tick",
        "after",
    ]
    assert len(log.heard("b")) == len(log.heard("b")) > 5


def test_halt_from_recv_stops_everything() -> None:
    """A host that halts in `recv` gets one message; later ones are dropped as host_halted, timers silently (ruling E5)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        if host.id == "a":
            return (Send("b", b"x"),)
        return (note("tick"), ScheduleTimer(now_ns + 15 * MS, 1))

    def recv(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
        return (*heard(host, message, now_ns), Halt()) if isinstance(message, App) else heard(host, message, now_ns)

    network = ConstantNetwork()
    log = run(scenario("a", "b"), ScriptedKind(tick, recv), network)
    (first,) = log.heard("b")
    assert first[1] == "app x"
    dropped = log.of_kind("DropOnDelivery")
    assert len(dropped) == len([s for s in network.sent if s[3] + MS < 100 * MS]) - 1
    assert {(e["reason"], e["from"], e["to"]) for _, e in dropped} == {("host_halted", "a", "b")}
    assert all(at == event["sent_at_ns"] + MS for at, event in dropped)


@pytest.mark.spec("§4.10", "Closed action set")
@pytest.mark.parametrize("bad", ["send", 3, None, ("Send", "b"), RecordEvent], ids=repr)
def test_closed_action_set(bad: Any) -> None:
    """Anything that is not an action aborts the run, naming host, time and value (ruling E19)."""
    engine, _ = build(scenario("a"), ScriptedKind(lambda host, now: (bad,)))
    with pytest.raises(EngineAbort) as caught:
        engine.run()
    assert caught.value.rule == "unknown-action"
    assert (caught.value.host_id, caught.value.at_ns) == ("a", engine.now_ns)
    assert repr(bad) in caught.value.detail
    assert engine.termination is not None
    assert engine.termination.reason == "aborted"


@pytest.mark.parametrize(
    ("actions", "rule"),
    [
        ((Send("a", b"x"),), "self-send"),
        ((Send("nobody", b"x"),), "unknown-destination"),
        ((ScheduleTimer(0, 1),), "timer-in-the-past"),
        ((RecordEvent({"what": "no kind"}),), "unwritable-event"),
        ((RecordEvent(["kind"]),), "unwritable-event"),  # type: ignore[arg-type]
        ((Send("b", b"garbage"),), "undecodable-message"),
        (None, "kind-contract"),
        ((Send("b", b"x", ("t", "x")),), "kind-contract"),  # type: ignore[arg-type]
    ],
)
def test_structured_aborts(actions: Any, rule: str) -> None:
    """Every broken rule of §4 is an abort with its own name (rulings E18, E20); a host's own exception names its line."""
    engine, _ = build(scenario("a", "b"), ScriptedKind(lambda host, now: actions if host.id == "a" else ()))
    with pytest.raises(EngineAbort) as caught:
        engine.run()
    assert caught.value.rule == rule


@pytest.mark.spec("§4.10", "Tie-break")
@given(times=st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_tie_break(times: list[int]) -> None:
    """Entries at one virtual time pop in the order in which they were enqueued."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return [ScheduleTimer(now_ns + gap, n) for n, gap in enumerate(times)] if host.ticks == 1 else ()

    log = run(scenario("a"), ScriptedKind(tick))
    in_order = sorted(range(len(times)), key=times.__getitem__)  # stable
    assert [what for _, what in log.heard("a")] == [f"timer {n}" for n in in_order]


def test_order_at_one_instant() -> None:
    """At equal times: first tick, mutations, snapshots, Terminate, then whatever was enqueued at run time (ruling E1, case B03)."""
    at_ns = Root(1).host("a", "tick_offset").u64() % (10 * MS)  # a's first tick

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        if now_ns == at_ns:
            return (note("first tick"), ScheduleTimer(now_ns, 1), ScheduleTimer(now_ns, 2))
        return ()

    mutations = (Heal(at_ns=at_ns), Heal(at_ns=at_ns))
    script = scenario("a", mutations=mutations, snapshots=(SnapshotDecl(at_ns=at_ns),))
    log = run(script, ScriptedKind(tick))
    names = ["snapshot" if isinstance(r, SnapshotRecord) else r.event.get("what", r.event["kind"]) for r in log.records]
    assert names == ["first tick", "Mutation", "Mutation", "snapshot", "timer 1", "timer 2"]
    assert [r.sequence for r in log.records] == list(range(6))

    # One more Heal, last in the file, adds one Mutation record and changes no other line (case B03).
    longer = scenario("a", mutations=(*mutations, Heal(at_ns=at_ns)), snapshots=(SnapshotDecl(at_ns=at_ns),))
    after = [r.event for r in run(longer, ScriptedKind(tick)).records if not isinstance(r, SnapshotRecord)]
    assert [e for e in after if e.get("index") != 2] == [
        r.event for r in log.records if not isinstance(r, SnapshotRecord)
    ]

    # At the end of the run, nothing that was enqueued at run time is dispatched (ruling E2).
    ending = scenario("a", duration_ns=at_ns, mutations=mutations, snapshots=(SnapshotDecl(at_ns=at_ns),))
    names = [getattr(r, "event", {}).get("what", "-") for r in run(ending, ScriptedKind(tick)).records]
    assert names == ["first tick", "-", "-", "-"]


@pytest.mark.parametrize(("offset_ms", "ticks"), [(37, 10), (0, 11), (36, 11), (99, 10)])
def test_number_of_ticks(offset_ms: int, ticks: int) -> None:
    """A host with offset o gets ceil((D - o) / P) ticks: P = 100 ms, D = 1.037 s (case B03)."""
    assert -((offset_ms - 1037) // 100) == ticks
    period = 100 * MS
    seed = next(s for s in range(10**4) if Root(s).host("a", "tick_offset").u64() % period // MS == offset_ms)
    offset = Root(seed).host("a", "tick_offset").u64() % period
    duration = 1000 * MS + (offset - offset_ms * MS) + 37 * MS  # the same distance to the end as with a whole offset
    log = run(scenario("a", seed=seed, duration_ns=duration, period_ns=period), ScriptedKind(ticking))
    assert len(log.lines()) == ticks


@pytest.mark.spec("§4.10", "Mutation propagation")
def test_mutation_propagation() -> None:
    """What the network invalidates never reaches a host; each leaves a DropOnDelivery at the mutation's time, in queue order."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        others = [i for i in ("a", "b", "c") if i != host.id]
        return [Send(to, f"{host.id}{to}".encode()) for to in others] if host.ticks == 1 else ()

    cut = Partition(at_ns=11 * MS, peers_a=("a",), peers_b=("b", "c"))
    network = ConstantNetwork(latency_ns=20 * MS)
    log = run(scenario("a", "b", "c", mutations=(cut,)), ScriptedKind(tick), network)
    dropped = log.of_kind("DropOnDelivery")
    assert {at for at, _ in dropped} == {11 * MS}
    assert {(e["from"], e["to"], e["reason"]) for _, e in dropped} == {
        (x, y, "partition") for x, y in (("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"))
    }
    arrivals = [event["sent_at_ns"] for _, event in dropped]
    assert arrivals == sorted(arrivals)
    assert {what for host in "abc" for _, what in log.heard(host)} == {"app bc", "app cb"}
    kinds = [e["kind"] for t, _, _, e in log.lines() if t == 11 * MS]
    assert kinds == ["Mutation"] + ["DropOnDelivery"] * 4


@pytest.mark.spec("§4.10", "Snapshot fanout")
def test_snapshot_fanout() -> None:
    """A snapshot gives one record per live host at its time, in id order; the dead are left out, the halted are not (E12)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (Halt(),) if host.id == "c" else ()

    snapshots = (SnapshotDecl(at_ns=50 * MS), SnapshotDecl(at_ns=50 * MS))
    script = scenario("c", "b", "a", mutations=(PeerKill(at_ns=20 * MS, peer="b"),), snapshots=snapshots)
    taken = [r for r in run(script, ScriptedKind(tick)).records if isinstance(r, SnapshotRecord)]
    assert [(r.virtual_time_ns, r.host_id) for r in taken] == [(50 * MS, h) for h in ("a", "c", "a", "c")]


class _AfterEvents:
    """Counts observed records; every assertion counts as final once `limit` were seen."""

    def __init__(self, limit: int) -> None:
        self.limit, self.seen, self.asked = limit, 0, 0

    def observe(self, record: Record) -> None:
        self.seen += 1

    def all_final(self, now_ns: int) -> bool:
        self.asked += 1
        return self.seen >= self.limit


@pytest.mark.spec("§4.10", "Early termination is clean")
def test_early_termination_is_clean() -> None:
    """The run stops after the dispatch that resolved everything; all records up to it are kept, none is later (E22)."""
    script = scenario("a", "b", early_terminate_on_all_assertions_resolved=True)
    whole = run(scenario("a", "b"), ScriptedKind(ticking))
    engine, log = build(script, ScriptedKind(ticking), evaluator=_AfterEvents(5))
    ending = engine.run()
    assert (ending.reason, ending.at_ns) == ("early", log.records[-1].virtual_time_ns)
    assert log.lines() == whole.lines()[:5]
    with pytest.raises(EngineAbort, match="inject-after-end"):
        engine.inject(Heal(at_ns=99 * MS))

    watcher = _AfterEvents(5)
    assert len(run(scenario("a", "b"), ScriptedKind(ticking), evaluator=watcher).lines()) == len(whole.lines())
    assert watcher.asked == 0  # not opted in: nobody polls


@pytest.mark.spec("§4.10", "Determinism")
@given(seed=st.integers(0, 2**64 - 1), count=st.integers(1, 4))
def test_determinism(seed: int, count: int) -> None:
    """Same scenario, same seed: equal records, sequence numbers included."""
    ids = [f"p{n}" for n in range(count)]

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return [Send(to, b"x") for to in ids if to != host.id]

    script = scenario(*ids, seed=seed, duration_ns=30 * MS)
    assert run(script, ScriptedKind(tick)).records == run(script, ScriptedKind(tick)).records


# --- life and death (rulings E6 to E9) ---------------------------------------------------------------------------


def _ticks_of(log: Log, host_id: str) -> list[tuple[int, int]]:
    return [(t, e["n"]) for t, h, _, e in log.lines() if h == host_id and e["kind"] == "note"]


@pytest.mark.parametrize("preserve", [False, True])
@pytest.mark.parametrize("gap_ms", [1, 4, 25])
def test_one_tick_chain_after_resurrection(gap_ms: int, preserve: bool) -> None:
    """After a resurrection ticks come once a period from then on, whether or not the old tick was still pending (E8)."""
    back = (30 + gap_ms) * MS
    mutations = (
        PeerKill(at_ns=30 * MS, peer="a"),
        PeerResurrect(at_ns=back, peer="a", preserve_state=preserve),
    )
    ticks = _ticks_of(run(scenario("a", mutations=mutations), ScriptedKind(ticking)), "a")
    before = [t for t, _ in ticks if t < back]
    after = [(t, n) for t, n in ticks if t >= back]
    assert max(before) < 30 * MS
    assert [t for t, _ in after] == list(range(back + 10 * MS, 100 * MS, 10 * MS))
    assert after[0][1] == (len(before) + 1 if preserve else 1)


def test_halted_host_resumes_by_resurrection_only() -> None:
    """A halted host un-halts through `PeerResurrect` (§4.3), with one tick chain; resurrecting a live host changes nothing (E9)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (note("tick", n=host.ticks), *((Halt(),) if host.ticks == 2 else ()))

    mutations = (
        PeerResurrect(at_ns=5 * MS, peer="a"),
        PeerResurrect(at_ns=55 * MS, peer="a", preserve_state=True),
    )
    ticks = _ticks_of(run(scenario("a", mutations=mutations), ScriptedKind(tick)), "a")
    assert [n for _, n in ticks] == [1, 2, 3, 4, 5, 6]
    assert [t for t, _ in ticks[2:]] == [65 * MS, 75 * MS, 85 * MS, 95 * MS]


@pytest.mark.parametrize(("preserve", "expected"), [(True, ["timer 3"]), (False, [])])
def test_timers_across_death(preserve: bool, expected: list[str]) -> None:
    """A timer due while dead is lost; one due later survives a preserved resurrection only (E8)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        if host.ticks > 1 or host.instance:
            return ()
        return (ScheduleTimer(35 * MS, 2), ScheduleTimer(60 * MS, 3))

    mutations = (
        PeerKill(at_ns=30 * MS, peer="a"),
        PeerKill(at_ns=32 * MS, peer="a"),  # a second kill is a no-op with a record
        PeerResurrect(at_ns=40 * MS, peer="a", preserve_state=preserve),
    )
    log = run(scenario("a", mutations=mutations), ScriptedKind(tick))
    assert [what for _, what in log.heard("a")] == expected
    assert len(log.of_kind("Mutation")) == 3


def test_messages_and_death() -> None:
    """A message that arrives at a dead host is dropped as host_killed; one that arrives after its return is delivered (E7, E8)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (Send("b", str(now_ns).encode()),) if host.id == "a" else ()

    mutations = (PeerKill(at_ns=30 * MS, peer="b"), PeerResurrect(at_ns=50 * MS, peer="b"))
    log = run(scenario("a", "b", mutations=mutations), ScriptedKind(tick), ConstantNetwork(latency_ns=15 * MS))
    heard_at = [t for t, _ in log.heard("b")]
    assert heard_at
    assert all(t < 30 * MS or t >= 50 * MS for t in heard_at)
    assert any(t - 15 * MS < 50 * MS <= t for t in heard_at)  # sent while it was dead
    reasons = {(t == 30 * MS, e["reason"]) for t, e in log.of_kind("DropOnDelivery")}
    assert reasons == {(True, "host_killed"), (False, "host_killed")}


def test_stale_failures_are_discarded() -> None:
    """`SendFailed` never reaches a rebuilt instance, and a dead sender neither hears nor records it (E8)."""
    offset = Root(1).host("a", "tick_offset").u64() % (10 * MS)

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (ScheduleTimer(offset + 20 * MS, 1),) if host.id == "a" and host.ticks == 1 else ()

    def recv(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
        if isinstance(message, TimerFired):
            return (Send("b", b"x"),)
        return heard(host, message, now_ns) if isinstance(message, SendFailed) else ()

    network = ConstantNetwork(refuse={("a", "b"): "lossy"})
    log = run(scenario("a", "b"), ScriptedKind(tick, recv), network)
    assert log.heard("a") == [(offset + 20 * MS, "failed b lossy")]
    engine, log = build(scenario("a", "b"), ScriptedKind(tick, recv), network)
    engine.run_until(offset + 20 * MS)
    engine.inject(PeerKill(at_ns=offset + 20 * MS, peer="a"))
    engine.finish(100 * MS)
    assert log.heard("a") == []


def test_failure_after_a_halt_is_silent() -> None:
    """A host that sends and halts in one `recv` never hears of the failed send (E5, E8)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (ScheduleTimer(now_ns, 1),) if host.id == "a" else ()

    def recv(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
        return (Send("b", b"x"), Halt()) if isinstance(message, TimerFired) else heard(host, message, now_ns)

    log = run(scenario("a", "b"), ScriptedKind(tick, recv), ConstantNetwork(refuse={("a", "b"): "lossy"}))
    assert len(log.of_kind("DropOnSend")) == 1
    assert log.of_kind("SendFailed") == []


# --- worker exits (§6A.3, ruling E15) -----------------------------------------------------------------------------


def test_worker_exit_is_synchronous_and_recorded_at_the_last_instant() -> None:
    """A worker exit at `duration_ns` still reaches the host, inside the mutation's own dispatch (§6A.6)."""
    exit_ = WorkerExit(at_ns=100 * MS, peer="a", reason="bang", status_code=1)
    log = run(scenario("a", mutations=(exit_,)), ScriptedKind(silent, accepts_worker_exit=True))
    assert [e["kind"] for _, _, _, e in log.lines()] == ["Mutation", "heard"]
    assert log.heard("a") == [(100 * MS, "exit bang")]


def test_worker_exit_on_wrong_kind_aborts_before_the_record() -> None:
    """A kind without worker exits aborts the run, naming kind and mutation index, before anything is written (E15)."""
    script = scenario(
        "a", mutations=(Heal(at_ns=MS), WorkerExit(at_ns=2 * MS, peer="a", reason="x")), period_ns=99 * MS
    )
    engine, log = build(script, ScriptedKind(silent))
    with pytest.raises(EngineAbort, match=r"WorkerExitOnWrongKind.*mutation 1 .*'scripted'"):
        engine.run()
    assert len(log.records) == 1


def test_worker_exit_of_a_dead_host_is_a_record_only() -> None:
    """A dead host hears nothing (E15)."""
    mutations = (PeerKill(at_ns=MS, peer="a"), WorkerExit(at_ns=2 * MS, peer="a", reason="x"))
    log = run(scenario("a", mutations=mutations), ScriptedKind(silent, accepts_worker_exit=True))
    assert [e["kind"] for _, _, _, e in log.lines()] == ["Mutation", "Mutation"]


# --- notices (ruling E3) ------------------------------------------------------------------------------------------


def _notice(at_ns: int, kind: str, delta: int = 0, **event: Any) -> Notice:
    relay = "R" if kind.startswith("Relay") else None
    return Notice(at_ns, None, "relay" if relay else "engine", {"kind": kind, **event}, relay, delta)


def test_notices_are_written_when_they_come_to_pass() -> None:
    """Future notices wait in the queue; none is dated after the end; relay totals are stamped as they pop (E3)."""

    class Noticing(ConstantNetwork):
        def send(self, source: str, target: str, byte_len: int, sent_at_ns: int) -> Any:
            arrive = super().send(source, target, byte_len, sent_at_ns)
            return arrive._replace(
                notices=(
                    _notice(sent_at_ns, "DialStart"),
                    _notice(sent_at_ns + MS, "RelayEnqueue", 5),
                    _notice(sent_at_ns + 2 * MS, "RelayDequeue", -5),
                    _notice(sent_at_ns + self.latency_ns, "DialOutcome"),
                )
            )

    log = run(scenario("a", "b", duration_ns=50 * MS), ScriptedKind(send_once), Noticing(latency_ns=15 * MS))
    assert all(t <= 50 * MS for t, *_ in log.lines())
    starts = [t for t, _ in log.of_kind("DialStart")]
    assert [t for t, _ in log.of_kind("DialOutcome")] == [t + 15 * MS for t in starts if t + 15 * MS < 50 * MS]
    assert {e["enqueued_bytes"] for _, e in log.of_kind("RelayEnqueue")} == {5}
    assert {e["enqueued_bytes"] for _, e in log.of_kind("RelayDequeue")} == {0}

    cut = Partition(at_ns=starts[0] + 1, peers_a=("a",), peers_b=("b",))
    log = run(scenario("a", "b", mutations=(cut,)), ScriptedKind(send_once), Noticing(latency_ns=15 * MS))
    lost = starts[0]
    assert lost + 15 * MS not in [t for t, _ in log.of_kind("DialOutcome")]  # that dial never came to an end
    assert lost + MS in [t for t, _ in log.of_kind("RelayEnqueue")]  # the relay still saw its bytes


def test_a_message_through_an_infinitely_fast_relay_never_makes_its_total_negative() -> None:
    """Enqueued and dequeued in one instant, a message still enters before it leaves (E1 orders dequeues of earlier ones)."""

    class Instant(ConstantNetwork):
        def send(self, source: str, target: str, byte_len: int, sent_at_ns: int) -> Any:
            arrive = super().send(source, target, byte_len, sent_at_ns)
            through = sent_at_ns + MS
            notices = (_notice(through, "RelayEnqueue", 5), _notice(through, "RelayDequeue", -5))
            return arrive._replace(notices=notices)

    log = run(scenario("a", "b", duration_ns=50 * MS), ScriptedKind(send_once), Instant(latency_ns=2 * MS))
    totals = [(e["kind"], e["enqueued_bytes"]) for _, _, _, e in log.lines() if "enqueued_bytes" in e]
    assert totals
    assert totals == [("RelayEnqueue", 5), ("RelayDequeue", 0)] * (len(totals) // 2)


# --- driving step by step ------------------------------------------------------------------------------------------

_MUTATIONS = st.one_of(
    st.builds(Heal, at_ns=st.integers(0, 50)),
    st.builds(PeerKill, at_ns=st.integers(0, 50), peer=st.sampled_from("abc")),
    st.builds(PeerResurrect, at_ns=st.integers(0, 50), peer=st.sampled_from("abc"), preserve_state=st.booleans()),
    st.builds(SnapshotDecl, at_ns=st.integers(0, 50)),
)


@given(items=st.lists(_MUTATIONS, max_size=8), stops=st.lists(st.integers(0, 50), max_size=8), seed=st.integers(0, 9))
def test_injected_equals_declared(items: list[Any], stops: list[int], seed: int) -> None:
    """A run driven step by step gives the same records as the same inputs declared in the scenario."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return [note("tick", n=host.ticks), *(Send(to, b"x") for to in "abc" if to != host.id)]

    items.sort(key=lambda item: item.at_ns)
    declared = scenario(
        "a",
        "b",
        "c",
        seed=seed,
        duration_ns=50,
        period_ns=5,
        mutations=tuple(i for i in items if not isinstance(i, SnapshotDecl)),
        snapshots=tuple(i for i in items if isinstance(i, SnapshotDecl)),
    )
    expected = run(declared, ScriptedKind(tick), ConstantNetwork(latency_ns=3)).records

    bare = scenario("a", "b", "c", seed=seed, duration_ns=50, period_ns=5)
    engine, log = build(bare, ScriptedKind(tick), ConstantNetwork(latency_ns=3))
    for item in items:
        for stop in sorted(s for s in stops if s <= item.at_ns):
            engine.run_until(stop)
        engine.run_until(item.at_ns)
        engine.inject(item)
    engine.finish(50)
    assert log.records == expected


def test_driving_errors() -> None:
    """Time never goes back: neither an injected mutation nor the end may lie before the last stop."""
    engine, _ = build(scenario("a"), ScriptedKind(silent))
    engine.run_until(30 * MS)
    with pytest.raises(EngineAbort, match="inject-in-the-past"):
        engine.inject(Heal(at_ns=30 * MS - 1))
    with pytest.raises(EngineAbort, match="unknown-peer"):
        engine.inject(PeerKill(at_ns=40 * MS, peer="nobody"))
    with pytest.raises(EngineAbort, match="finish-in-the-past"):
        engine.finish(30 * MS - 1)
    assert engine.finish(30 * MS).at_ns == 30 * MS


# --- guards (ruling E20, case B09) ---------------------------------------------------------------------------------


def _rearm(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
    return (ScheduleTimer(now_ns, 1),)


def _resend(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
    return (Send("b", b"x"),) if isinstance(message, SendFailed) else ()


def _ping_pong(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
    return (Send("b" if host.id == "a" else "a", b"x"),)


@pytest.mark.parametrize(
    ("recv", "network"),
    [
        (_rearm, ConstantNetwork()),
        (_resend, ConstantNetwork(refuse={("a", "b"): "no_route"})),
        (_ping_pong, ConstantNetwork(latency_ns=0)),
    ],
    ids=["timer at now", "send on failure", "zero-latency ping-pong"],
)
def test_zero_delay_loops_abort(recv: Any, network: ConstantNetwork) -> None:
    """A loop that never lets the clock move ends in an abort naming host and time, never in a hang (case B09)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return (ScheduleTimer(now_ns, 0), Send("b", b"x")) if host.id == "a" else ()

    engine, _ = build(scenario("a", "b"), ScriptedKind(tick, recv), network, max_same_instant=1_000)
    with pytest.raises(EngineAbort) as caught:
        engine.run()
    assert caught.value.rule == "same-instant-loop"
    assert caught.value.host_id in ("a", "b")
    assert caught.value.at_ns == engine.now_ns


def test_long_finite_chain_at_one_instant_completes() -> None:
    """10,000 events of one instant are no runaway, and run in order of enqueueing (case B09)."""

    def tick(host: Any, now_ns: int) -> Sequence[Action]:
        return [ScheduleTimer(now_ns, n) for n in range(10_000)] if host.ticks == 1 else ()

    log = run(scenario("a", duration_ns=11 * MS), ScriptedKind(tick))
    assert [what for _, what in log.heard("a")] == [f"timer {n}" for n in range(10_000)]


def test_dispatch_budget_is_an_abort() -> None:
    """Using up the dispatch budget is never reported as a normal end (ruling E20)."""
    engine, _ = build(scenario("a"), ScriptedKind(silent), max_dispatches=5)
    with pytest.raises(EngineAbort, match="dispatch-budget"):
        engine.run()


class _Stop(BaseException):
    """An exception that is no `Exception`."""


@pytest.mark.parametrize("error", [SystemExit(0), _Stop("no"), FileNotFoundError("x"), ValueError("a\nb")], ids=repr)
@pytest.mark.parametrize("place", ["tick", "recv", "snapshot", "new"])
def test_whatever_a_host_raises_aborts_the_run(error: BaseException, place: str) -> None:
    """`sys.exit()` in a host ends its run and not the program; so does any exception, also while it is built (ruling C2)."""

    def fail(*_: object) -> Any:
        raise error

    kind = ScriptedKind(fail if place == "tick" else lambda host, now: (Send("b" if host.id == "a" else "a", b"x"),))
    if place == "new":
        kind.new = fail  # type: ignore[method-assign]
    elif place != "tick":
        build_one = kind.new

        def new(context: Any) -> Any:
            host = build_one(context)
            setattr(host, place, fail)
            return host

        kind.new = new  # type: ignore[method-assign]
    with pytest.raises(EngineAbort) as caught:
        build(scenario("a", "b", snapshots=(SnapshotDecl(at_ns=90 * MS),)), kind)[0].run()
    assert caught.value.rule == "host-raised"
    assert caught.value.host_id in ("a", "b")
    assert caught.value.detail.startswith(type(error).__name__)
    assert "\n" not in str(caught.value)


class _Mute:
    """A host that cannot be asked for its state."""

    def tick(self, now_ns: int) -> Sequence[Action]:
        raise AssertionError("never called")

    recv = tick


@pytest.mark.parametrize(
    ("built", "what"),
    [
        (None, "None, which has no tick, recv, snapshot"),
        (7, "7, which has no tick, recv, snapshot"),
        (_Mute, "_Mute'>, which is a class; it has to return an instance"),
        (_Mute(), "<_Mute>, which has no snapshot"),
    ],
)
@pytest.mark.parametrize("instance", [0, 1])
def test_what_new_returns_must_be_a_host(built: Any, what: str, instance: int) -> None:
    """Found when it is built, before any call of it, in the first instance and in a later one; the kind is named (ruling C8)."""
    kind = ScriptedKind(silent)
    build_one = kind.new
    kind.new = lambda context: built if context.instance == instance else build_one(context)  # type: ignore[method-assign]
    script = scenario(
        "a", mutations=(PeerKill(at_ns=20 * MS, peer="a"), PeerResurrect(at_ns=30 * MS, peer="a", preserve_state=False))
    )
    with pytest.raises(EngineAbort) as caught:
        build(script, kind)[0].run()
    abort = caught.value
    assert (abort.rule, abort.host_id, abort.at_ns) == ("kind-contract", "a", 30 * MS * instance)
    assert abort.detail.startswith("kind scripted: `new` returned ")
    assert abort.detail.endswith(what)


@pytest.mark.parametrize("codec", [None, object()])
def test_a_kind_without_a_codec(codec: object) -> None:
    """Found when the hosts are built, and named (ruling C8)."""
    kind = ScriptedKind(lambda host, now: ())
    kind.codec = codec  # type: ignore[misc, assignment]
    with pytest.raises(EngineAbort, match=r"kind-contract: host a at 0 ns: .*'encode'"):
        build(scenario("a"), kind)


@pytest.mark.parametrize("overhead", [-1, None, "8"])
def test_a_broken_frame_overhead(overhead: Any) -> None:
    """It is the codec's fault and not the scenario's: an abort that names the kind (ruling C8)."""
    kind = ScriptedKind(lambda host, now: (Send("b", b"x"),) if host.id == "a" else ())
    kind.codec.frame_overhead = lambda tag: overhead  # type: ignore[method-assign]
    with pytest.raises(EngineAbort, match=r"kind-contract: host a at .*kind scripted: frame_overhead"):
        build(scenario("a", "b"), kind)[0].run()


def _drive(engine: Engine, step_ns: int) -> None:
    for at_ns in range(step_ns, 100 * MS, step_ns):
        engine.run_until(at_ns)
    engine.run()


@pytest.mark.parametrize("most", [2_000, 100_000])
def test_a_queue_that_grows_without_end(most: int) -> None:
    """A host that floods is stopped before the machine is, at the same dispatch however the run is driven (ruling E26)."""

    def recv(host: Any, message: Any, now_ns: int) -> Sequence[Action]:
        return [Send("b" if host.id == "a" else "a", b"x")] * 2

    aborts = []
    for driven in (False, True):
        engine, _ = build(scenario("a", "b"), ScriptedKind(send_once, recv), max_pending=most)
        with pytest.raises(
            EngineAbort, match=r"pending-budget: host . at .*; --max-pending raises the limit"
        ) as caught:
            _drive(engine, step_ns=MS if driven else 100 * MS)
        aborts.append((str(caught.value), engine.dispatches))
    assert aborts[0] == aborts[1]
