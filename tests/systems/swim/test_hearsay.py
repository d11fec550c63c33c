"""Verify before believing: the hearsay rules (design, "Hearsay"; defect HEARSAY_OVER_EVIDENCE)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.config import Defect
from simharness.systems.swim.diagnostics import Transition
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import IndirectAck, Ping, PingReq
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.wire import unpack
from tests.systems.swim.driver import TICK, ack_of, alone, events, next_ping, rumour, run_ticks, sent, updates, view

ALIVE, SUSPECT, DEAD = MemberState


def acquainted(**changes: Any) -> tuple[SwimNode, int, str, str]:
    """A node that has just had an answer of `peer`; the other one is `gossip`."""
    node = alone(suspicion_timeout=30, **changes)
    now, ping = next_ping(node)
    node.handle(ack_of(ping), now * TICK)
    peer = "b" if ping.to == node_id("b") else "c"
    return node, now, peer, "c" if peer == "b" else "b"


def carried(message: Ping) -> tuple[Any, ...]:
    """The claims in a message."""
    return unpack(message.piggyback).updates if message.piggyback else ()


def test_a_rumour_against_fresh_evidence_is_held_back() -> None:
    """Entry, queue and events are untouched; the highest claim is kept; the peer is asked at the next tick."""
    node, now, peer, teller = acquainted()
    for incarnation in (0, 2, 1):
        out = node.handle(rumour((peer, SUSPECT, incarnation), sender=teller), now * TICK)
        assert events(out, Transition) == []
        assert not sent(out)[0].message.piggyback  # the Ack does not pass it on
    assert view(node, peer) == (ALIVE, 0)
    assert node.hearsay == {node_id(peer): 2}
    ping = sent(node.tick((now + 1) * TICK), Ping)[0]
    assert ping.to == node_id(peer)
    assert carried(ping.message) == ((node_id(peer), SUSPECT, 2),)


def test_with_the_defect_it_is_believed_at_once() -> None:
    """HEARSAY_OVER_EVIDENCE: the same feed makes the peer Suspect, and is passed on."""
    node, now, peer, teller = acquainted(defects=frozenset({Defect.HEARSAY_OVER_EVIDENCE}))
    out = node.handle(rumour((peer, SUSPECT, 2), sender=teller), now * TICK)
    assert events(out, Transition) == [Transition(node_id(peer), "Alive", "Suspect", "gossip", 2)]
    assert carried(sent(out)[0].message) == ((node_id(peer), SUSPECT, 2),)


def test_an_ack_or_newer_word_settles_it() -> None:
    """An ack of the peer drops the claim, direct or through a relay; so does Alive above it, but not Alive at it."""
    node, now, peer, teller = acquainted()
    claim = rumour((peer, SUSPECT, 1), sender=teller)
    node.handle(claim, now * TICK)
    node.handle(rumour((peer, ALIVE, 1), sender=teller), now * TICK)
    assert node.hearsay == {node_id(peer): 1}
    node.handle(rumour((peer, ALIVE, 2), sender=teller), now * TICK)
    assert node.hearsay == {}
    node.handle(rumour((peer, SUSPECT, 2), sender=teller), now * TICK)
    ping = sent(node.tick((now + 1) * TICK), Ping)[0]
    node.handle(ack_of(ping, updates((peer, ALIVE, 3))), (now + 1) * TICK)
    assert node.hearsay == {}
    assert view(node, peer) == (ALIVE, 3)
    node.handle(rumour((peer, SUSPECT, 3), sender=teller), (now + 1) * TICK)
    node.handle(IndirectAck(target=node_id(peer), sequence=12_345), (now + 1) * TICK)
    assert node.hearsay == {}


def test_a_failed_probe_confirms_it() -> None:
    """When the probe fails the claim is accepted with reason `gossip`, at its incarnation, and the suspicion is timed."""
    node, now, peer, teller = acquainted()
    node.handle(rumour((peer, SUSPECT, 4), sender=teller), now * TICK)
    out = run_ticks(node, 7, now)
    assert events(out, Transition) == [Transition(node_id(peer), "Alive", "Suspect", "gossip", 4)]
    assert node.hearsay == {}
    later = [(tick, node.tick(tick * TICK)) for tick in range(now + 8, now + 60)]
    deaths = [tick for tick, out in later for event in events(out, Transition) if event.after == "Dead"]
    assert deaths[0] == now + 7 + 30


def test_old_evidence_confirms_it_too() -> None:
    """When the ack reaches the age limit at a tick, the claim is accepted; beyond it no claim is held at all."""
    node, now, peer, teller = acquainted(probe_timeout=20, probe_interval=10)
    other = node_id(teller)
    for tick in range(now + 1, now + 30):
        pings = sent(node.tick(tick * TICK), Ping)
        if pings and pings[0].to == node_id(peer):
            break
        if pings:
            node.handle(ack_of(pings[0]), tick * TICK)
    node.handle(rumour((peer, SUSPECT, 0), sender=teller), tick * TICK)
    assert node.hearsay == {node_id(peer): 0}
    seen = [(at, node.tick(at * TICK)) for at in range(tick + 1, now + 31)]
    accepted = [(at, event.reason) for at, out in seen for event in events(out, Transition)]
    assert accepted == [(now + 30, "gossip")]
    assert other != node_id(peer)


def test_without_an_ack_a_rumour_is_believed() -> None:
    """No evidence, no custody: and a Suspect learnt by gossip starts no timer."""
    node = alone(probe_interval=10_000)
    out = node.handle(rumour(("c", SUSPECT, 0)), 0)
    assert [event.after for event in events(out, Transition)] == ["Suspect"]
    assert events(run_ticks(node, 500), Transition) == []


def test_death_is_believed_at_once() -> None:
    """A Dead rumour is no hearsay; it also overtakes a held claim at or below it."""
    node, now, peer, teller = acquainted()
    node.handle(rumour((peer, SUSPECT, 1), sender=teller), now * TICK)
    out = node.handle(rumour((peer, DEAD, 1), sender=teller), now * TICK)
    assert [event.after for event in events(out, Transition)] == ["Dead"]
    assert node.hearsay == {}


def test_a_relayed_ping_carries_the_claim_as_well() -> None:
    """Whatever Ping goes to the accused first gives it the chance to refute."""
    node, now, peer, teller = acquainted()
    node.handle(rumour((peer, SUSPECT, 0), sender=teller), now * TICK)
    ask = PingReq(sender=node_id(teller), target=node_id(peer), sequence=77)
    assert carried(sent(node.handle(ask, now * TICK))[0].message) == ((node_id(peer), SUSPECT, 0),)


@given(claims=st.lists(st.tuples(st.sampled_from("bc"), st.sampled_from(MemberState), st.integers(0, 3)), max_size=12))
def test_custody_only_delays(claims: list[tuple[str, MemberState, int]]) -> None:
    """Once held claims are released, the view is what the merge of all claims gives: nothing is lost."""
    node, now, _, _ = acquainted()
    oracle = dict.fromkeys("bc", (0, ALIVE))
    for host, state, incarnation in claims:
        node.handle(rumour((host, state, incarnation)), now * TICK)
        oracle[host] = max(oracle[host], (incarnation, state))
    for peer in node.hearsay:
        node._believe_hearsay(peer, [])
    found = {host: view(node, host) for host in "bc"}
    assert {host: (inc, state) for host, (state, inc) in found.items()} == oracle  # type: ignore[misc]
