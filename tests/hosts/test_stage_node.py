"""A stage with a SWIM node in the same process (ruling S2): names across hosts, and one end for both."""

from typing import Any

import pytest
from hypothesis import strategies as st

from simharness.contracts.host import App, Halt, HostMessage, RecordEvent, Send, SendFailed, TimerFired, WorkerExited
from simharness.core import canonical_json
from simharness.hosts.stage.kind import KIND
from simharness.stateful.conformance import HostKindConformance, Step
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.messages import Ping, RegistryGossip
from tests.hosts.stage_runs import LIFE, MS, START, SWIM, TICK, Run, S, at, exits, resolves, scenario, stage, swim
from tests.hosts.swim_messages import MESSAGES
from tests.hosts.test_stage import EXITS

GONE = "pp-s"


class TestStageWithNode(HostKindConformance):
    """The kind-agnostic laws for the union of supervisor and node."""

    kind = KIND
    kind_config = {  # noqa: RUF012  # the suite declares it
        "name": "pp-stage-0",
        "address": "10.0.0.10:7700",
        "node": SWIM,
        "subprocess": {"ready_after_ns": S, "exit_after_ns": 3 * S, "exit_signal": 9, "ready_name": "pp-entry"},
    }
    initial_state = "cold"

    def messages(self) -> st.SearchStrategy[Any]:
        return MESSAGES

    def steps(self) -> st.SearchStrategy[list[Step]]:
        arriving: st.SearchStrategy[HostMessage | None] = st.one_of(
            st.none(),
            self.messages().map(App),
            st.builds(TimerFired, st.integers(0, 7)),
            st.builds(SendFailed, st.sampled_from(self.peer_ids[1:]), st.just("lossy")),
            EXITS,
        )
        return st.lists(st.tuples(st.sampled_from((0, 1, self.tick_period_ns)), arriving), max_size=12)


def trio(duration_ns: int, *mutations: dict[str, Any], seed: int = 1, **more: Any) -> Run:
    """Two swim peers `n1`, `n2` and a stage `s` with a node; a snapshot each second."""
    node = more.pop("node", {})
    tables = {"snapshots": at(*range(S, duration_ns + 1, S)), "mutations": list(mutations)} | more
    return Run(
        scenario(
            swim("n1", **node), swim("n2", **node), stage("s", node=node), duration_ns=duration_ns, seed=seed, **tables
        )
    )


def known_at(run: Run, host: str, name: str) -> list[int]:
    """The seconds at which a snapshot of `host` shows `name`."""
    return [at_ns // S for at_ns, names in run.names(host).items() if name in names]


def states_of(run: Run, host: str, peer: str) -> list[str]:
    """What `host` thinks of `peer`, second by second."""
    views = [{entry["peer"]: entry["state"] for entry in state["peers"]} for state in run.snapshots(host).values()]
    return [view[peer] for view in views]


def test_name_reaches_every_swim_observer() -> None:
    """A name is published when the stage starts running; swim peers show its owner, other stages' nodes too."""
    run = Run(
        scenario(
            swim("n"),
            stage("s1", node={}),
            stage("s2", node={}),
            stage("plain"),
            duration_ns=5 * S,
            snapshots=at(5 * S),
            assertions=[
                resolves("pp-s1", "n", "s1", "s2", from_ns=0, within_ns=5 * S),
                resolves("pp-plain", "plain", from_ns=0, within_ns=5 * S),
                resolves("pp-plain", "n", from_ns=0, within_ns=5 * S),
            ],
        )
    )
    assert run.verdicts == ["Pass", "Pass", "Fail"]
    assert run.names("n")[5 * S] == {"pp-s1": "s1", "pp-s2": "s2"}
    assert run.names("s1")[5 * S] == {"pp-s1": "s1:7700", "pp-s2": "s2"}
    assert run.names("plain")[5 * S] == {"pp-plain": "plain:7700"}


def test_snapshot_is_the_union() -> None:
    """Every field of the node's tier-2 state beside `state`; `last_exit_reason` when halted; both maps in one registry."""
    run = trio(4 * S, exits("s", 3 * S))
    fields = list(run.snapshots("n1")[2 * S])
    states = run.snapshots("s")
    assert list(states[2 * S]) == ["state", *fields]
    assert list(states[4 * S]) == ["state", "last_exit_reason", *fields]
    assert (states[2 * S]["state"], states[4 * S]["state"]) == ("Running", "Halted")
    assert states[2 * S]["self_id"] == "s"
    assert states[4 * S]["name_registry"] == {"pp-s": "s:7700"}


def test_healthy_cluster_of_stages() -> None:
    """Four stages with nodes: no transition, every probe acknowledged, incarnation 0."""
    run = Run(scenario(*[stage(f"s{i}", node={}) for i in range(4)], duration_ns=20 * S, snapshots=at(20 * S)))
    acked = {(host, e["target"], e["sequence"]) for _, host, e in run.events("SwimProbeAcked")}
    sent = [(host, e["target"], e["sequence"]) for t, host, e in run.events("SwimProbeSent") if t < 19 * S]
    assert run.events("SwimTransition", "SwimProbeTimedOut", "SwimIncarnationBumped", "Error") == []
    assert len(sent) >= 4 * 15
    assert set(sent) <= acked
    assert {state["self_incarnation"] for i in range(4) for state in run.snapshots(f"s{i}").values()} == {0}


def test_farewell_comes_before_the_three_actions() -> None:
    """Ruling W1: the node takes its names back, a frame to each member; then exactly the three actions of §6A.3."""
    host = TestStageWithNode().build()
    host.tick(0)
    *said, exited, moved, halt = host.recv(WorkerExited("crash", 1), 5 * MS)
    assert [action.event["kind"] for action in (exited, moved) if isinstance(action, RecordEvent)] == [
        "worker_exited",
        "stage_lifecycle",
    ]
    assert halt == Halt()
    sends = [action for action in said if isinstance(action, Send)]
    assert sorted(send.to for send in sends) == ["b", "c"]
    for send in sends:
        assert isinstance(send.message, RegistryGossip)
        assert [(entry.name, entry.tombstone) for entry in send.message.entries] == [("pp-stage-0", True)]
    kinds = [action.event["kind"] for action in said if isinstance(action, RecordEvent)]
    assert kinds == ["SubprocessExited", "MessageSent", "MessageSent"]
    assert (list(host.tick(S)), list(host.recv(App(Ping(sender=node_id("b"), sequence=1)), S))) == ([], [])


def test_real_exit_withdraws_the_name_at_once() -> None:
    """Observers lose the name one latency after the exit, long before they find the peer Dead; nobody claims it again."""
    run = trio(
        25 * S,
        exits("s", 3 * S + 1),
        assertions=[
            resolves("pp-s", "n1", "n2", from_ns=0, within_ns=3 * S),
            resolves("pp-s", "n1", from_ns=4 * S, within_ns=20 * S),
            {"kind": "peer_detected_dead_within", "peer": "s", "after_ns": 3 * S, "within_ns": 20 * S},
        ],
    )
    for observer in ("n1", "n2"):
        assert known_at(run, observer, GONE)[-1] == 3
        assert states_of(run, observer, "s")[3] == "Alive"
        assert states_of(run, observer, "s")[-1] == "Dead"
    assert run.moves("s") == LIFE
    assert run.verdicts == ["Pass", "Fail", "Pass"]


def test_halting_halts_both() -> None:
    """After the exit neither supervisor nor node says anything, and what arrives is dropped as `host_halted`."""
    run = trio(10 * S, exits("s", 3 * S))
    assert (
        max(t for t, host, _ in run.events("MessageSent", "MessageReceived", "SwimProbeSent") if host == "s") == 3 * S
    )
    drops = run.events("DropOnDelivery", host="s")
    assert drops
    assert {event["reason"] for _, _, event in drops} == {"host_halted"}


def test_lost_farewell_is_made_good_by_detection() -> None:
    """Ruling W1: if the cluster is cut off when the stage ends, the name stays until it is found Dead, and is buried then."""
    run = trio(
        30 * S,
        {"kind": "partition", "at_ns": 2 * S, "peers_a": ["s"], "peers_b": ["n1", "n2"]},
        exits("s", 3 * S + 1),
        {"kind": "heal", "at_ns": 4 * S},
    )
    for observer in ("n1", "n2"):
        alive = [second for second, state in enumerate(states_of(run, observer, "s"), 1) if state != "Dead"]
        assert alive[-1] > 6
        assert known_at(run, observer, GONE) == list(range(known_at(run, observer, GONE)[0], alive[-1] + 1))


@pytest.mark.parametrize(("profile", "verdict"), [("current", "Pass"), ("deployed", "Fail")])
def test_false_death_does_not_erase_the_name(profile: str, verdict: str) -> None:
    """A cut makes everybody think the stage dead; after it the name is back, except under the defect B6 of the deployed."""
    cut_ns = 30 * S
    run = trio(
        90 * S,
        {"kind": "partition", "at_ns": 3 * S, "peers_a": ["s"], "peers_b": ["n1", "n2"]},
        {"kind": "heal", "at_ns": cut_ns},
        node={"profile": profile, "probe_timeout_ns": 300 * MS, "dead_reprobe_interval_ns": 5 * S},
        assertions=[
            resolves("pp-s", "n1", "n2", from_ns=0, within_ns=3 * S),
            resolves("pp-s", "n1", "n2", from_ns=cut_ns, within_ns=60 * S),
            {"kind": "dead_peer_resurrects_within", "peer": "s", "after_ns": cut_ns, "within_ns": 30 * S},
        ],
    )
    assert states_of(run, "n1", "s")[25] == "Dead"
    assert "pp-s" not in run.names("n1")[26 * S]
    assert run.moves("s") == START
    assert run.verdicts == ["Pass", verdict, "Pass"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("down", ["worker_exit", "peer_kill"])
@pytest.mark.parametrize("pause_s", [1, 20])
def test_resurrected_stage_registers_again(down: str, pause_s: int, seed: int) -> None:
    """Ruling W4: back before or after it was found Dead, its name resolves at both observers again and stays."""
    fall = exits("s", 5 * S + 1) if down == "worker_exit" else {"kind": down, "at_ns": 5 * S + 1, "peer": "s"}
    back = (5 + pause_s) * S + 2
    run = trio(
        80 * S,
        fall,
        {"kind": "peer_resurrect", "at_ns": back, "peer": "s"},
        seed=seed,
        assertions=[
            resolves("pp-s", "n1", "n2", from_ns=back, within_ns=45 * S),
            {"kind": "all_alive_at", "at_ns": 80 * S, "peers": ["n1", "n2", "s"]},
        ],
    )
    assert run.verdicts == ["Pass", "Pass"]
    if down == "worker_exit" or pause_s == 20:
        assert known_at(run, "n1", GONE)[-1] == 80
        assert 5 + pause_s not in known_at(run, "n1", GONE)
    assert run.moves("s") == (LIFE if down == "worker_exit" else START) + START
    assert {run.names(host)[80 * S]["pp-s"] for host in ("n1", "n2")} == {"s"}


def test_one_name_at_two_stages() -> None:
    """Case A23 with nodes: the last writer's registration stands, and the other stage's exit does not take it away."""
    owners = {"s1": "10.0.0.1:7700", "s2": "10.0.0.2:7700"}
    winner = max(owners, key=node_id)  # equal clocks: the higher node id wins
    [loser] = [host for host in owners if host != winner]
    run = Run(
        scenario(
            swim("n"),
            *[stage(host, node={}, name="stage-0", address=address) for host, address in owners.items()],
            duration_ns=30 * S,
            snapshots=at(5 * S, 30 * S),
            mutations=[exits(loser, 6 * S)],
        )
    )
    assert run.names("n") == {5 * S: {"stage-0": winner}, 30 * S: {"stage-0": winner}}
    assert states_of(run, "n", loser)[-1] == "Dead"
    assert [run.names(host)[30 * S] for host in owners] == [{"stage-0": address} for address in owners.values()]


def test_messages_wait_for_the_first_tick() -> None:
    """Ruling W2: what arrives at a cold stage is handled in its first tick, after the registration."""
    host = TestStageWithNode().build()
    for sequence in (1, 2):
        assert list(host.recv(App(Ping(sender=node_id("b"), sequence=sequence)), sequence)) == []
    state = canonical_json.parse(host.snapshot())
    assert (state["state"], state["name_registry"]) == ("Cold", {})
    first = host.tick(TICK)
    acks = [
        action.message.sequence for action in first if isinstance(action, Send) and hasattr(action.message, "sequence")
    ]
    kinds = [action.event["kind"] for action in first if isinstance(action, RecordEvent)]
    assert acks == [1, 2]
    assert kinds[:4] == ["stage_lifecycle", "register_name", "stage_lifecycle", "SubprocessSpawned"]
    assert "MessageReceived" not in [a.event["kind"] for a in host.tick(2 * TICK) if isinstance(a, RecordEvent)]


def test_stage_joins_through_its_seeds() -> None:
    """An embedded node that names seeds asks them to let it join; once it has, it knows all, and its name spreads."""
    run = Run(
        scenario(
            swim("n1"),
            swim("n2"),
            stage("s", node={"seeds": ["n1"], "join_at_ns": 2 * S}),
            duration_ns=12 * S,
            snapshots=at(12 * S),
        )
    )
    assert sorted(entry["peer"] for entry in run.snapshots("s")[12 * S]["peers"]) == ["n1", "n2"]
    sent = [
        (t, e["peer"]) for t, _, e in run.events("MessageSent", host="s") if e["message_kind"].endswith("JoinRequest")
    ]
    assert [(t // S, peer) for t, peer in sent] == [(2, "n1")]
    assert run.names("n2")[12 * S] == {"pp-s": "s"}
