"""The stage kind without a node: §6A to the letter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.host import (
    Action,
    App,
    Halt,
    HostMessage,
    RecordEvent,
    SendFailed,
    TimerFired,
    WorkerExited,
)
from simharness.contracts.mutations import WorkerExit
from simharness.core import canonical_json
from simharness.core.errors import EngineAbort, ScenarioError
from simharness.hosts.kinds import BUILT_IN, Kinds
from simharness.hosts.stage.kind import KIND
from simharness.stateful.conformance import HostKindConformance, Step
from tests.hosts.stage_runs import (
    LIFE,
    MS,
    START,
    TICK,
    Run,
    S,
    at,
    exits,
    resolves,
    scenario,
    stage,
    start_ns,
    swim,
)
from tests.hosts.swim_messages import MESSAGES

EXITS = st.builds(WorkerExited, st.text(max_size=8), st.none() | st.integers(0, 255), st.none() | st.integers(1, 64))


class TestStage(HostKindConformance):
    """The kind-agnostic laws, worker exits included. Messages are the kind's; a stage without a node gets none."""

    kind = KIND
    kind_config = {"name": "pp-stage-0", "address": "10.0.0.10:7700"}  # noqa: RUF012  # the suite declares it
    initial_state = "cold"

    def messages(self) -> st.SearchStrategy[Any]:
        return MESSAGES

    def steps(self) -> st.SearchStrategy[list[Step]]:
        arriving: st.SearchStrategy[HostMessage | None] = st.one_of(
            st.none(), EXITS, st.builds(TimerFired, st.integers(0, 7))
        )
        return st.lists(st.tuples(st.sampled_from((0, 1, self.tick_period_ns)), arriving), max_size=12)


def answers(*calls: str | WorkerExited, config: dict[str, Any] | None = None) -> list[list[Action]]:
    """What a lone stage answers to ticks and worker exits, 100 ms apart."""
    suite = TestStage()
    if config is not None:
        suite.kind_config = config  # type: ignore[misc]  # this instance only
    steps: list[Step] = [(TICK, None if call == "tick" else call) for call in calls]  # type: ignore[misc]
    return suite.drive(suite.build(), steps)


def events(actions: list[Action]) -> list[dict[str, Any]]:
    return [action.event for action in actions if isinstance(action, RecordEvent)]


# --- §6A.6, paragraph by paragraph ---------------------------------------------------------------------------------


@pytest.mark.spec("§6A.6", "Trait conformance")
def test_trait_conformance() -> None:
    """The tag is "stage" and no other registered kind has it; a worker exit may reach it."""
    kinds = Kinds()
    found = [kinds.get(name) for name in BUILT_IN]
    assert [kind.kind_tag for kind in found if kind is not None].count("stage") == 1
    assert KIND.kind_tag == TestStage().build().kind_tag == "stage"
    assert KIND.accepts_worker_exit


@pytest.mark.spec("§6A.6", "Lifecycle linearity")
@given(data=st.data())
def test_lifecycle_linearity(data: st.DataObject) -> None:
    """Cold, Registering, Running, Halted, one record each; only an exit before the first tick skips (ruling E16)."""
    suite = TestStage()
    steps = data.draw(suite.steps())
    said = [event for answer in suite.drive(suite.build(), steps) for event in events(answer)]
    moves = [(event["from"], event["to"]) for event in said if event["kind"] == "stage_lifecycle"]
    decisive = [message for _, message in steps if not isinstance(message, TimerFired)]
    gone = any(isinstance(message, WorkerExited) for message in decisive)
    if decisive and decisive[0] is None:
        assert moves == (LIFE if gone else START)
    else:
        assert moves == ([("Cold", "Halted")] if gone else [])


@pytest.mark.spec("§6A.6", "`register_name` exactly once")
def test_register_name_exactly_once() -> None:
    """The first tick registers, between its two transitions (ruling E17); no later call does."""
    first, *later = answers("tick", "tick", WorkerExited("crash"), "tick")
    assert events(first) == [
        {"kind": "stage_lifecycle", "from": "Cold", "to": "Registering"},
        {"kind": "register_name", "name": "pp-stage-0", "address": "10.0.0.10:7700", "peer_node_id": "a"},
        {"kind": "stage_lifecycle", "from": "Registering", "to": "Running"},
    ]
    assert all(type(action) is RecordEvent for action in first)
    assert "register_name" not in [event["kind"] for answer in later for event in events(answer)]


@pytest.mark.spec("§6A.6", "`worker_exited` exactly once")
@given(exit_=EXITS, again=EXITS)
def test_worker_exited_exactly_once(exit_: WorkerExited, again: WorkerExited) -> None:
    """Exactly three actions in the order of §6A.3, the reason as it came; a second exit says nothing."""
    _, actions, *later = answers("tick", exit_, again, "tick")
    assert actions == [
        RecordEvent(
            {
                "kind": "worker_exited",
                "reason": exit_.reason,
                "status_code": exit_.status_code,
                "signal": exit_.signal,
            }
        ),
        RecordEvent({"kind": "stage_lifecycle", "from": "Running", "to": "Halted"}),
        Halt(),
    ]
    assert later == [[], []]


@pytest.mark.spec("§6A.6", "`worker_exited` exactly once")
@pytest.mark.parametrize("reason", ["", "a\u2028b\u2029c\u0085d\x7f", 'quote " and \\', "\U0001f600", "x" * 5000])
def test_reason_is_byte_equal(reason: str) -> None:
    """Whatever text the mutation gives reaches the record unchanged (case L13)."""
    run = Run(scenario(stage("s"), duration_ns=S, mutations=[exits("s", 500 * MS, reason, status_code=1)]))
    [(at_ns, _, event)] = run.events("worker_exited")
    assert at_ns == 500 * MS
    assert event == {"kind": "worker_exited", "reason": reason, "status_code": 1, "signal": None}
    assert canonical_json.parse(canonical_json.compact(event))["reason"].encode() == reason.encode()


@pytest.mark.spec("§6A.6", "Event-before-halt is observable")
@pytest.mark.parametrize("early_ns", [1, 0])
def test_exit_at_the_end_of_the_run(early_ns: int) -> None:
    """An exit at `duration_ns`, or 1 ns before, of two stages at once: both recorded, both halted, and judged so."""
    end_ns = 2 * S
    run = Run(
        scenario(
            stage("s1"),
            stage("s2"),
            duration_ns=end_ns,
            mutations=[exits("s1", end_ns - early_ns, "one"), exits("s2", end_ns - early_ns, "two", signal=9)],
            snapshots=at(end_ns),
            assertions=[
                {"kind": "worker_alive_throughout", "peer": peer, "window_start_ns": 0, "window_end_ns": window_end_ns}
                for peer in ("s1", "s2")
                for window_end_ns in (end_ns, end_ns - 2)
            ],
        )
    )
    assert [(t, host, e["reason"]) for t, host, e in run.events("worker_exited")] == [
        (end_ns - early_ns, "s1", "one"),
        (end_ns - early_ns, "s2", "two"),
    ]
    assert run.verdicts == ["Fail", "Pass", "Fail", "Pass"]
    for peer, reason in (("s1", "one"), ("s2", "two")):
        assert run.moves(peer) == LIFE
        state = run.snapshots(peer)[end_ns]
        assert (state["state"], state["last_exit_reason"]) == ("Halted", reason)


@pytest.mark.spec("§6A.6", "`WorkerExit` against SWIM aborts")
def test_worker_exit_against_swim_aborts() -> None:
    """The loader refuses it; past the loader the run aborts, naming kind and index, before any record (ruling E15)."""
    with pytest.raises(ScenarioError) as refused:
        scenario(swim("n"), stage("s"), duration_ns=S, mutations=[exits("s", 1), exits("n", 2)])
    [problem] = refused.value.problems
    assert problem.field == "mutations[1].peer"
    assert "swim" in problem.rule

    def drive(engine: Any) -> None:
        engine.run_until(500 * MS)
        engine.inject(WorkerExit(at_ns=500 * MS, peer="s", reason="fine"))
        engine.inject(WorkerExit(at_ns=600 * MS, peer="n", reason="wrong"))
        with pytest.raises(EngineAbort, match=r"EngineAbort::WorkerExitOnWrongKind: host n .*mutation 1 .*'swim'"):
            engine.finish(S)

    run = Run(scenario(swim("n"), stage("s"), duration_ns=S), drive)
    assert [event["index"] for _, _, event in run.events("Mutation")] == [0]
    assert run.moves("s") == LIFE


@pytest.mark.spec("§6A.6", "Snapshot contains the registry")
def test_snapshot_contains_the_registry() -> None:
    """Cold has no name, Running and Halted have it; `last_exit_reason` is there when Halted and never else."""
    first = start_ns("s")
    run = Run(
        scenario(
            stage("s"), duration_ns=S, snapshots=at(first - 1, first + 1, 2 * TICK, S), mutations=[exits("s", 150 * MS)]
        )
    )
    names = {"pp-s": "s:7700"}
    assert list(run.snapshots("s").values()) == [
        {"state": "Cold", "name_registry": {}},
        {"state": "Running", "name_registry": names},
        {"state": "Halted", "last_exit_reason": "crash", "name_registry": names},
        {"state": "Halted", "last_exit_reason": "crash", "name_registry": names},
    ]


@pytest.mark.spec("§6A.6", "Determinism")
@given(times=st.lists(st.integers(0, S), max_size=4), seed=st.integers(0, 5))
def test_determinism(times: list[int], seed: int) -> None:
    """Same scenario, same records, byte for byte; the stream of calls to one host is a law of the conformance suite."""
    declared = scenario(
        stage("s1"),
        stage("s2", subprocess={"exit_after_ns": S}),
        duration_ns=S,
        seed=seed,
        snapshots=at(S),
        mutations=[exits("s1", time) for time in sorted(times)],
    )
    one, two = Run(declared), Run(declared)
    assert one.sink.records == two.sink.records
    assert one.sink.events_digest() == two.sink.events_digest()


# --- the rest of §6A and the rulings -------------------------------------------------------------------------------


def test_phase_r3() -> None:
    """§12 R3: one stage, one exit: one register_name, one worker_exited, three stage_lifecycle, in the order of §6A.2."""
    run = Run(scenario(stage("s"), duration_ns=S, mutations=[exits("s", 500 * MS)]))
    assert run.kinds("s") == [
        "stage_lifecycle",
        "register_name",
        "stage_lifecycle",
        "worker_exited",
        "stage_lifecycle",
    ]
    assert run.moves("s") == LIFE
    first = start_ns("s")
    assert [t for t, _, _ in run.events("stage_lifecycle", "register_name", "worker_exited")] == [
        first,
        first,
        first,
        500 * MS,
        500 * MS,
    ]


def test_exit_before_the_first_tick() -> None:
    """Ruling E16: Cold goes straight to Halted, no name is registered, and no tick follows."""
    run = Run(scenario(stage("s"), duration_ns=S, mutations=[exits("s", start_ns("s") - 1)], snapshots=at(S)))
    assert run.kinds("s") == ["worker_exited", "stage_lifecycle"]
    assert run.moves("s") == [("Cold", "Halted")]
    assert run.names("s") == {S: {}}


def test_second_exit_and_exit_of_the_dead_are_records_only() -> None:
    """Ruling E15: a halted or a dead target gets a mutation record and nothing else."""
    run = Run(
        scenario(
            stage("s1"),
            stage("s2"),
            duration_ns=S,
            mutations=[
                exits("s1", 200 * MS),
                exits("s1", 300 * MS, "again"),
                {"kind": "peer_kill", "at_ns": 400 * MS, "peer": "s2"},
                exits("s2", 500 * MS),
            ],
        )
    )
    assert len(run.events("Mutation")) == 4
    assert [event["reason"] for _, _, event in run.events("worker_exited")] == ["crash"]
    assert run.moves("s2") == START


def test_killed_stage_says_nothing() -> None:
    """Ruling E14: a killed process emits nothing and shows no snapshot; for the assertion its kill is the halt."""
    window = {"kind": "worker_alive_throughout", "peer": "s", "window_start_ns": 0}
    run = Run(
        scenario(
            stage("s"),
            duration_ns=S,
            mutations=[{"kind": "peer_kill", "at_ns": 500 * MS, "peer": "s"}],
            snapshots=at(400 * MS, 600 * MS),
            assertions=[window | {"window_end_ns": S}, window | {"window_end_ns": 500 * MS - 1}],
        )
    )
    assert run.events("worker_exited") == []
    assert run.moves("s") == START
    assert list(run.snapshots("s")) == [400 * MS]
    assert run.verdicts == ["Fail", "Pass"]


@pytest.mark.parametrize("preserve_state", [True, False])
@pytest.mark.parametrize("down", ["worker_exit", "peer_kill"])
def test_resurrection_is_a_fresh_cold_instance(down: str, *, preserve_state: bool) -> None:
    """Ruling E25: whatever `preserve_state` says, the new life starts Cold with an empty registry, one tick later."""
    fall = exits("s", 300 * MS) if down == "worker_exit" else {"kind": down, "at_ns": 300 * MS, "peer": "s"}
    rise = {"kind": "peer_resurrect", "at_ns": 500 * MS, "peer": "s", "preserve_state": preserve_state}
    run = Run(scenario(stage("s"), duration_ns=S, mutations=[fall, rise], snapshots=at(500 * MS, 600 * MS)))
    assert run.moves("s")[-2:] == START
    assert len(run.events("register_name")) == 2
    assert run.events("register_name")[1][0] == 500 * MS + TICK
    states = run.snapshots("s")
    assert states[500 * MS] == {"state": "Cold", "name_registry": {}}
    assert states[600 * MS]["state"] == "Cold"  # a snapshot sorts before the tick of its instant (ruling E1)


def test_old_worker_timer_dies_with_its_instance() -> None:
    """Rulings E8, E25: the exit that the first life's worker had planned does not reach the second life."""
    run = Run(
        scenario(
            stage("s", subprocess={"exit_after_ns": 600 * MS}),
            duration_ns=S,
            mutations=[
                {"kind": "peer_kill", "at_ns": 200 * MS, "peer": "s"},
                {"kind": "peer_resurrect", "at_ns": 300 * MS, "peer": "s", "preserve_state": True},
            ],
        )
    )
    assert [(t, e["pid"]) for t, _, e in run.events("SubprocessSpawned")] == [(start_ns("s"), 1), (400 * MS, 2)]
    assert run.events("worker_exited", "SubprocessExited") == []


def test_no_resurrection_of_a_live_stage() -> None:
    """Ruling E9: resurrecting a stage that runs is a record and nothing else."""
    run = Run(
        scenario(stage("s"), duration_ns=S, mutations=[{"kind": "peer_resurrect", "at_ns": 500 * MS, "peer": "s"}])
    )
    assert run.moves("s") == START


def test_without_a_node_no_message_is_taken() -> None:
    """§6A.5, rulings S2, W6: without `node` a stage sends nothing, and what is sent to it aborts the run, loudly."""
    host = TestStage().build()
    host.tick(0)
    for message in (App(b"anything"), SendFailed("b", "lossy")):
        with pytest.raises(EngineAbort, match="stage-has-no-messages: host a at 5 ns"):
            host.recv(message, 5)
    run = Run(scenario(stage("s"), swim("n1"), swim("n2"), duration_ns=10 * S, snapshots=at(10 * S)))
    assert run.events("MessageSent", host="s") == []
    assert "s" not in {event["peer"] for _, _, event in run.events("MessageSent")}
    assert run.names("n1") == {10 * S: {}}


def test_a23_two_stages_of_one_name() -> None:
    """Case A23: one name at two addresses. Each host shows its own; a SWIM observer shows none and does not crash."""
    windows = [("s1", 0), ("s2", 0), ("observer", 0), ("s1", 8 * S + 1)]
    run = Run(
        scenario(
            stage("s1", name="stage-0", address="10.0.0.1:7700"),
            stage("s2", name="stage-0", address="10.0.0.2:7700"),
            swim("observer"),
            duration_ns=9 * S,
            snapshots=at(2 * S, 4 * S, 6 * S, 8 * S),
            mutations=[
                exits("s1", 3 * S),
                {"kind": "peer_resurrect", "at_ns": 5 * S, "peer": "s1", "preserve_state": False},
            ],
            assertions=[
                resolves("stage-0", observer, from_ns=from_ns, within_ns=900 * MS if from_ns else 8 * S)
                for observer, from_ns in windows
            ],
        )
    )
    assert [host for _, host, _ in run.events("register_name")].count("s1") == 2
    assert [host for _, host, _ in run.events("register_name")].count("s2") == 1
    assert run.moves("s1") == LIFE + START
    assert run.moves("s2") == START
    assert run.names("s1") == {t * S: {"stage-0": "10.0.0.1:7700"} for t in (2, 4, 6, 8)}
    assert run.names("s2") == {t * S: {"stage-0": "10.0.0.2:7700"} for t in (2, 4, 6, 8)}
    assert run.verdicts == ["Pass", "Pass", "Fail", "Inconclusive"]


def test_injected_exit_equals_a_declared_one() -> None:
    """The law of step by step driving holds for the synchronous dispatch of §6A.3, at the instant of a tick included."""
    time = start_ns("s") + 3 * TICK
    declared = scenario(stage("s"), duration_ns=S, mutations=[exits("s", time)])

    def drive(engine: Any) -> None:
        engine.run_until(time)
        engine.inject(WorkerExit(at_ns=time, peer="s", reason="crash"))
        engine.finish(S)

    assert Run(scenario(stage("s"), duration_ns=S), drive).sink.events_digest() == Run(declared).sink.events_digest()
