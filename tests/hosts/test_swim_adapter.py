"""The SWIM kind: translation only (§6.2, §6.4; rulings E8, N19, S2, S3, B11)."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.host import (
    Action,
    App,
    HostContext,
    PeerFacts,
    RecordEvent,
    Send,
    SendFailed,
    TimerFired,
    Wire,
    WorkerExited,
)
from simharness.contracts.scenario import PeerDecl
from simharness.core.errors import EngineAbort
from simharness.core.streams import Root
from simharness.disk.crash import CrashDisk
from simharness.hosts.swim.adapter import SwimHost
from simharness.hosts.swim.codec import Malformed, SwimCodec
from simharness.hosts.swim.kind import KIND
from simharness.stateful.conformance import HostKindConformance
from simharness.systems.swim.config import Defect
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import Ack, IndirectAck, JoinRequest, JoinResponse, Ping, PingReq, Record
from simharness.systems.swim.wire import TAGS, encode, pack_updates, update_json
from tests.hosts.swim_messages import MESSAGES

MS = 1_000_000
TICK = 100 * MS
ALIVE, SUSPECT, DEAD = MemberState
CODEC = SwimCodec()
CONFIG = {"probe_interval_ns": 10 * TICK, "suspicion_timeout_ns": 30 * TICK}


class TestSwim(HostKindConformance):
    kind = KIND
    kind_config: ClassVar[dict[str, Any]] = CONFIG
    initial_state = "alive"

    def messages(self) -> st.SearchStrategy[Any]:
        return MESSAGES


def facts(host: str, state: str = "alive") -> PeerFacts:
    return PeerFacts(id=host, initial_state=state, tick_period_ns=TICK, peer_ids=("a", "b", "c"))


def build(
    *,
    state: str = "alive",
    instance: int = 0,
    configs: dict[str, dict[str, Any]] | None = None,
    kinds: dict[str, str] | None = None,
    **own: Any,
) -> SwimHost:
    """Host `a` beside `b` and `c`."""
    tables = {"a": {**CONFIG, **own}, **(configs or {})}
    peers = []
    for host in "abc":
        kind = (kinds or {}).get(host, "swim")
        table = tables.get(host, CONFIG)
        if kind == "swim":
            validated = KIND.validate(table, facts(host, state if host == "a" else "alive"))
            assert validated.complaints == ()
            table = validated.config
        peers.append(PeerDecl(id=host, kind=kind, initial_state=state, kind_config=table))
    host = KIND.new(
        HostContext(
            host_id="a",
            config=peers[0].kind_config,
            initial_state=state,
            tick_period_ns=TICK,
            rng=Root(0).host_rng("a"),
            peers=tuple(peers),
            disk=CrashDisk(),
            instance=instance,
        )
    )
    assert isinstance(host, SwimHost)
    return host


def records(actions: Sequence[Action]) -> list[dict[str, Any]]:
    return [action.event for action in actions if isinstance(action, RecordEvent)]


def kinds_of(actions: Sequence[Action]) -> list[str]:
    return [action.event["kind"] if isinstance(action, RecordEvent) else type(action).__name__ for action in actions]


def sends(actions: Sequence[Action]) -> list[Send]:
    return [action for action in actions if isinstance(action, Send)]


def claim(*claims: tuple[str, MemberState, int]) -> bytes:
    return pack_updates([update_json(node_id(host), state, incarnation) for host, state, incarnation in claims])


def snap(host: SwimHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.snapshot())
    return found


def state_of(host: SwimHost, peer: str) -> tuple[str, int] | None:
    found = [entry for entry in snap(host).get("peers", []) if entry["peer"] == peer]
    return (found[0]["state"], found[0]["incarnation"]) if found else None


def test_a_message_and_its_answer() -> None:
    """Receipt first, then each message with its accounting before it, then the events, in order; ids are host ids."""
    host = build()
    message = Ping(sender=node_id("b"), sequence=3, piggyback=claim(("c", DEAD, 2), ("a", SUSPECT, 0)))
    actions = host.recv(App(message), 5 * MS)
    assert kinds_of(actions) == [
        "MessageReceived",
        "MessageSent",
        "Send",
        "GossipReceived",
        "SwimTransition",
        "SwimIncarnationBumped",
    ]
    received, sent, gossip, transition, bumped = records(actions)
    size = len(encode(message))
    assert received == {"kind": "MessageReceived", "peer": "b", "message_kind": "swactor_dist::Ping", "size": size}
    (send,) = sends(actions)
    assert send.to == "b"
    assert send.wire == CODEC.encode(send.message)
    assert sent == {
        "kind": "MessageSent",
        "peer": "b",
        "message_kind": "swactor_dist::Ack",
        "size": len(send.wire.payload),
    }
    assert gossip == {
        "kind": "GossipReceived",
        "source_peer": "b",
        "payload_kind": "swim_piggyback",
        "payload_bytes": len(message.piggyback),
        "item_count": 2,
    }
    assert transition == {"kind": "SwimTransition", "peer": "c", "from": "Alive", "to": "Dead", "reason": "gossip"}
    assert bumped == {
        "kind": "SwimIncarnationBumped",
        "from": 0,
        "to": 1,
        "claim_state": "Suspect",
        "claim_incarnation": 0,
        "claimed_by": "b",
    }


def test_the_probe_life_cycle_on_record() -> None:
    """Sent, acked; sent, direct time-out, indirect, indirect time-out: the fields of the schema, in its order."""
    host = build()
    seen = [event for tick in range(1, 18) for event in records(host.tick(tick * TICK)) if "Probe" in event["kind"]]
    target = seen[0]["target"]
    probe = {"target": target, "sequence": 1}
    assert [list(event) for event in seen[:2]] == [
        ["kind", "target", "sequence", "probe_kind"],
        ["kind", "target", "sequence", "probe_kind", "budget_ticks"],
    ]
    assert seen == [
        {"kind": "SwimProbeSent", **probe, "probe_kind": "direct"},
        {"kind": "SwimProbeTimedOut", **probe, "probe_kind": "direct", "budget_ticks": 3},
        {"kind": "SwimProbeSent", **probe, "probe_kind": "indirect"},
        {"kind": "SwimProbeTimedOut", **probe, "probe_kind": "indirect", "budget_ticks": 3},
    ]
    host = build()
    ping = next(send for tick in range(1, 12) for send in sends(host.tick(tick * TICK)))
    ack = Ack(sender=node_id(ping.to), sequence=ping.message.sequence)
    assert records(host.recv(App(ack), 11 * TICK))[1:] == [
        {"kind": "SwimProbeAcked", "target": ping.to, "sequence": 1, "probe_kind": "direct"}
    ]


@pytest.mark.parametrize(
    ("message", "peer"),
    [
        (Ack(sender=node_id("b"), sequence=1), "b"),
        (PingReq(sender=node_id("b"), target=node_id("c"), sequence=1), "b"),
        (IndirectAck(target=node_id("c"), sequence=1), "c"),
        (JoinRequest(sender=node_id("c")), "c"),
        (JoinResponse(members=(Record(node_id("c"), ALIVE, 0), Record(node_id("b"), ALIVE, 0))), "b"),
        (JoinResponse(members=()), None),
    ],
)
def test_whom_a_receipt_names(message: Any, peer: str | None) -> None:
    """The sender; an IndirectAck's target, the last record of a JoinResponse."""
    receipt = records(build().recv(App(message), 0))[0]
    assert (receipt["kind"], receipt["peer"]) == ("MessageReceived", peer)
    assert receipt["message_kind"] == TAGS[type(message)]


def test_an_idle_tick_does_nothing() -> None:
    """No action at all."""
    assert list(build().tick(TICK)) == []


def test_timers_are_ignored_and_failed_sends_reported() -> None:
    """SWIM sets no timers; a refused send starts a probe at once."""
    host = build()
    assert list(host.recv(TimerFired(3), 0)) == []
    actions = host.recv(SendFailed("b", "lossy"), 0)
    assert kinds_of(actions) == ["MessageSent", "Send", "SwimProbeSent"]


@pytest.mark.spec("§6A.6", "`WorkerExit` against SWIM aborts")
def test_a_worker_exit_is_not_for_swim() -> None:
    """The kind refuses it, and so does the host if it came through."""
    assert not KIND.accepts_worker_exit
    with pytest.raises(EngineAbort) as caught:
        build().recv(WorkerExited("crash"), 7)
    assert (caught.value.host_id, caught.value.at_ns) == ("a", 7)


@pytest.mark.spec("§6.4", "SWIM unknown-output is loud")
@pytest.mark.parametrize("sent", [False, True])
def test_unknown_output_aborts(sent: bool) -> None:
    """An output, or a message, that the adapter does not know aborts the run with a structured error."""
    from simharness.systems.swim.outbox import Outgoing

    host = build()
    novel: Any = Outgoing(node_id("b"), object()) if sent else object()  # type: ignore[arg-type]
    with pytest.raises(EngineAbort) as caught:
        host._actions([novel], [])
    assert (caught.value.rule, caught.value.host_id) == ("unknown-output", "a")


ALLOWED = {
    "SwimTransition",
    "SwimProbeSent",
    "SwimProbeAcked",
    "SwimProbeTimedOut",
    "GossipReceived",
    "SwimIncarnationBumped",
    "MessageSent",
    "MessageReceived",
    "Error",
}
CLAIMS = st.tuples(st.sampled_from("abc"), st.sampled_from(MemberState), st.sampled_from([0, 1, 2**63 - 2, 2**63 - 1]))


@pytest.mark.spec("§6.4", "SWIM emits no novel kinds")
@given(claims=st.lists(CLAIMS, max_size=6), ticks=st.integers(0, 60), defects=st.sets(st.sampled_from(list(Defect))))
def test_no_novel_kinds(claims: list[tuple[str, MemberState, int]], ticks: int, defects: set[Defect]) -> None:
    """Whatever happens, with any defects, every record is of a kind in the closed list."""
    host = build(
        defects=[defect.value for defect in Defect if defect in defects], names=["n"], metadata={"node_name": "x"}
    )
    actions = list(host.recv(App(Ping(sender=node_id("b"), sequence=1, piggyback=claim(*claims))), 0))
    for tick in range(1, ticks + 1):
        actions += host.tick(tick * TICK)
    assert {event["kind"] for event in records(actions)} <= ALLOWED


def test_malformed_messages_are_dropped_with_an_error_record() -> None:
    """Ruling S3: a bad payload under a known tag, and a claim nobody could refute, are told and never applied."""
    host = build()
    before = host.snapshot()
    malformed = CODEC.decode(Wire("swactor_dist::Ping", b'{"from":[1]}'))
    assert isinstance(malformed, Malformed)
    assert CODEC.encode(malformed) == Wire("swactor_dist::Ping", b'{"from":[1]}')
    (error,) = records(host.recv(App(malformed), 0))
    assert list(error) == ["kind", "component", "message", "peer"]
    assert (error["kind"], error["component"], error["peer"]) == ("Error", "codec", None)
    assert host.snapshot() == before
    actions = host.recv(App(Ping(sender=node_id("b"), sequence=1, piggyback=claim(("c", DEAD, 2**63 - 1)))), 0)
    assert [event["peer"] for event in records(actions) if event["kind"] == "Error"] == ["b"]
    assert state_of(host, "c") == ("Alive", 0)
    with pytest.raises(ValueError, match="unknown type tag"):
        CODEC.decode(Wire("swactor_dist::Pong", b"{}"))


def test_frame_overhead_is_the_production_frame() -> None:
    """Ruling N19."""
    assert CODEC.frame_overhead("swactor_dist::Ping") == 22


def test_alive_hosts_know_everybody_at_their_first_incarnation() -> None:
    """Every declared peer that runs a node, an embedded one included; a plain stage is none (ruling S2)."""
    node = {**CONFIG, "initial_incarnation": 4}
    host = build(configs={"b": {"name": "s", "node": node}, "c": {"name": "t"}}, kinds={"b": "stage", "c": "stage"})
    assert [(entry["peer"], entry["incarnation"]) for entry in snap(host)["peers"]] == [("b", 4)]
    other = build(configs={"c": {**CONFIG, "initial_incarnation": 7}}, initial_incarnation=3)
    assert (snap(other)["self_incarnation"], state_of(other, "c")) == (3, ("Alive", 7))


def test_a_rebuilt_instance_remembers_nothing() -> None:
    """Ruling E8: like the first one, but its own incarnation is 0."""
    assert snap(build(initial_incarnation=3, instance=1))["self_incarnation"] == 0


def test_joining_hosts_know_only_their_seeds() -> None:
    """They ask at their first tick at or after `join_at_ns`."""
    host = build(state="joining", seeds=["c"], join_at_ns=2 * TICK)
    assert "peers" not in snap(host)
    assert sends(host.tick(TICK)) == []
    assert [(send.to, type(send.message)) for send in sends(host.tick(2 * TICK))] == [("c", JoinRequest)]


def test_leaving_names_and_metadata_come_from_the_table() -> None:
    """`leave_at_ns`, `names`, `metadata`."""
    host = build(names=["x"], metadata={"relay_url": "u"}, leave_at_ns=12 * TICK)
    assert snap(host)["name_registry"] == {"x": "a"}
    assert snap(host)["metadata_local_version"] == 1
    for tick in range(1, 13):
        host.tick(tick * TICK)
    assert snap(host)["name_registry"] == {}


def test_complaints_name_the_field_of_the_peer() -> None:
    """Each under `kind_config`, the state under `initial_state`."""
    found = KIND.validate({"probe_interval_ns": 5}, facts("a", "ready")).complaints
    assert [complaint.field for complaint in found] == [
        "initial_state",
        "kind_config.probe_interval_ns",
        "kind_config.suspicion_timeout_ns",
    ]


def test_checking_a_swim_peer_imports_no_node_code() -> None:
    """`simharness check` stays fast: the node, the adapter and the codec come with the first host."""
    script = (
        "import sys\n"
        "from simharness.hosts.kinds import Kinds\n"
        "from simharness.contracts.host import PeerFacts\n"
        "kind = Kinds().get('swim')\n"
        "kind.validate({}, PeerFacts(id='a', initial_state='alive', tick_period_ns=1, peer_ids=('a',)))\n"
        "print(sorted(name for name in sys.modules if name.startswith(('simharness.systems.', 'simharness.hosts.swim.'))))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "['simharness.hosts.swim.kind', 'simharness.systems.swim', 'simharness.systems.swim.config']"
