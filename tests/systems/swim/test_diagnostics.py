"""The snapshot: tier-2 state with host names, names and hearsay (reference 10.2, §9.3)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import Ack, IndirectAck, JoinRequest, JoinResponse, Ping, PingReq, Record
from simharness.systems.swim.node import SwimNode
from tests.systems.swim.driver import MS, TICK, ack_of, alone, config, next_ping, rumour, run_ticks, sent

ALIVE, SUSPECT, DEAD = MemberState


def snap(node: SwimNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.snapshot())
    return found


def peer(node: SwimNode, host: str) -> dict[str, Any]:
    return next(entry for entry in snap(node)["peers"] if entry["peer_node_id_hex"] == node_id(host).hex())


@pytest.mark.spec("§6.4", "SWIM snapshot parity with production")
def test_fields_and_order() -> None:
    """Tier-2 fields in tier-2 order, a host-name twin beside each hex, then the two extras."""
    node = alone(suspicion_timeout=60)
    assert list(snap(node)) == [
        "config",
        "self_node_id_hex",
        "self_id",
        "self_incarnation",
        "metadata_local_version",
        "peers",
        "scraped_at_ms",
        "name_registry",
        "hearsay",
    ]
    assert snap(node)["config"] == {
        "probe_interval_ticks": 10,
        "probe_timeout_ticks": 3,
        "suspicion_timeout_ticks": 60,
        "indirect_probes_k": 3,
        "dead_reprobe_interval_ticks": 50,
        "gossip_fanout_lambda": 3,
        "max_piggyback": 6,
        "probe_mode": "periodic",
    }
    assert (snap(node)["self_id"], snap(node)["self_node_id_hex"]) == ("a", node_id("a").hex())
    assert snap(node)["peers"] == [
        {"peer_node_id_hex": node_id(host).hex(), "peer": host, "state": "Alive", "incarnation": 0} for host in "cb"
    ]
    lonely = snap(alone(others=""))
    assert "peers" not in lonely
    assert "recent_messages" not in lonely


def test_times_appear_when_known() -> None:
    """Ping sent, ack received, ping received, suspicion begun and ended; milliseconds of virtual time."""
    node = alone(others="b", dead_reprobe_interval=0)
    now, ping = next_ping(node)
    assert peer(node, "b")["last_ping_sent_at_ms"] == 500
    node.handle(ack_of(ping), now * TICK + 7 * MS)
    node.handle(Ping(sender=node_id("b"), sequence=8), now * TICK + 9 * MS)
    assert (peer(node, "b")["last_ack_received_at_ms"], peer(node, "b")["last_ping_received_at_ms"]) == (507, 509)
    assert snap(node)["scraped_at_ms"] == 509
    assert [(entry["kind"], entry["at_ms"], entry["sequence"]) for entry in snap(node)["recent_messages"]] == [
        ("ack", 507, 1),
        ("ping", 509, 8),
    ]
    run_ticks(node, 17, 10)
    assert (peer(node, "b")["state"], peer(node, "b")["suspect_started_at_ms"]) == ("Suspect", 26 * 50)
    node.handle(rumour(("b", ALIVE, 1)), 30 * TICK)
    assert "suspect_started_at_ms" not in peer(node, "b")


def test_the_ring_holds_received_messages_only() -> None:
    """Sixty-four, oldest first; each kind with its own rule for peer and sequence."""
    node = alone(others="bcd")
    b, c = node_id("b"), node_id("c")
    for message in (
        Ack(sender=b, sequence=1),
        PingReq(sender=b, target=c, sequence=2),
        IndirectAck(target=c, sequence=3),
        JoinRequest(sender=b),
        JoinResponse(members=(Record(c, ALIVE, 0), Record(b, ALIVE, 0))),
    ):
        node.handle(message, 0)
    assert [(entry["kind"], entry["peer"], entry.get("sequence")) for entry in snap(node)["recent_messages"]] == [
        ("ack", "b", 1),
        ("ping_req", "b", 2),
        ("indirect_ack", "c", 3),
        ("join_request", "b", None),
        ("join_response", "c", 2),
    ]
    for sequence in range(40):
        node.handle(Ping(sender=b, sequence=sequence), 0)
    snap(node)
    for sequence in range(40, 60):
        node.handle(Ping(sender=b, sequence=sequence), 0)
    ring = snap(node)["recent_messages"]
    assert len(ring) == 64
    assert [entry.get("sequence") for entry in ring[-60:]] == list(range(60))


def test_a_peer_touched_without_an_opinion_is_unknown() -> None:
    """A message about a stranger leaves a trace, not an opinion."""
    node = alone()
    node.handle(IndirectAck(target=node_id("z"), sequence=1), 0)
    assert peer(node, "z")["state"] == "Unknown"
    assert peer(node, "z")["peer"] == node_id("z").hex()


def test_extras_and_metadata() -> None:
    """Names map to owners, hearsay to incarnations, metadata versions appear where known."""
    node = alone(names=("x", 'quo"te\u2028'), node_name="me")
    other = alone("b", "ac", node_name="other")
    for output in sent(other.handle(Ping(sender=node_id("a"), sequence=1), 0))[1:]:
        node.handle(output.message, 0)
    node.handle(Ack(sender=node_id("b"), sequence=1), 0)
    node.handle(rumour(("b", SUSPECT, 4), sender="c"), 0)
    found = snap(node)
    assert found["name_registry"] == {"x": "a", 'quo"te\u2028': "a"}
    assert found["hearsay"] == {"b": 4}
    assert found["metadata_local_version"] == 1
    assert peer(node, "b")["metadata_version_seen"] == 1


FEEDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abcz"), st.sampled_from(MemberState), st.integers(0, 3)),
        st.integers(1, 40),
        st.none(),
    ),
    max_size=20,
)


@given(feeds=FEEDS)
def test_snapshots_between_change_nothing(feeds: list[Any]) -> None:
    """What is rendered piece by piece equals what one late snapshot renders; opinions are those of the member list."""
    often, once = alone(), alone()
    now = 0
    for feed in feeds:
        for node in (often, once):
            if isinstance(feed, int):
                run_ticks(node, feed, now)
            elif feed is None:
                node.handle(PingReq(sender=node_id("c"), target=node_id("b"), sequence=3), now * TICK)
            else:
                node.handle(rumour(feed, sender="z" if feed[0] == "z" else "b"), now * TICK)
        now += feed if isinstance(feed, int) else 0
        often.snapshot()
    assert often.snapshot() == once.snapshot()
    found = {entry["peer_node_id_hex"]: (entry["state"], entry["incarnation"]) for entry in snap(once)["peers"]}
    held = {node.hex(): (member.state.name.title(), member.incarnation) for node, member in once.members}
    assert {key: value for key, value in found.items() if value[0] != "Unknown"} == held
    assert list(found) == sorted(found)


def test_no_wall_clock_leaks() -> None:
    """Two runs of the same feeds give the same bytes, whatever happened in between."""
    snapshots = []
    for _ in range(2):
        node = alone(others="bcd")
        out = run_ticks(node, 100)
        assert out
        snapshots.append(node.snapshot())
    assert snapshots[0] == snapshots[1]
    assert config(profile="deployed").defects
