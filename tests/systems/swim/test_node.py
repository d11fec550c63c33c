"""Handlers, joining, leaving (reference sections 6, 8, 15; rulings S3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.config import MAX_INCARNATION
from simharness.systems.swim.diagnostics import Fault, GossipReceived, IncarnationBumped, Transition
from simharness.systems.swim.ids import Directory, node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import (
    Ack,
    IndirectAck,
    JoinRequest,
    JoinResponse,
    Ping,
    PingReq,
    Record,
)
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.wire import encode, unpack
from tests.systems.swim.driver import (
    TICK,
    ack_of,
    alone,
    config,
    events,
    next_ping,
    rumour,
    run_ticks,
    sent,
    updates,
    view,
)

ALIVE, SUSPECT, DEAD = MemberState


def carried(message: Any) -> list[tuple[bytes, MemberState, int]]:
    return list(unpack(message.piggyback).updates) if message.piggyback else []


def test_a_ping_is_answered_once_with_its_sequence() -> None:
    """One Ack, to the sender, same sequence; a known sender changes nothing."""
    node = alone()
    out = node.handle(Ping(sender=node_id("b"), sequence=2**64 - 1), 0)
    assert [(output.to, output.message) for output in sent(out)] == [
        (node_id("b"), Ack(sender=node_id("a"), sequence=2**64 - 1))
    ]
    assert len(out) == 1


def test_a_ping_from_a_stranger_adds_it_silently() -> None:
    """One notification, no gossip."""
    node = alone()
    out = node.handle(Ping(sender=node_id("z"), sequence=1), 0)
    assert events(out, Transition) == [Transition(node_id("z"), "Unknown", "Alive", "ping-received", 0)]
    assert not sent(out)[0].message.piggyback


@pytest.mark.parametrize("state", [SUSPECT, DEAD])
def test_a_ping_does_not_revive(state: MemberState) -> None:
    """Whoever is held Suspect or Dead stays so until it refutes."""
    node = alone()
    node.handle(rumour(("c", state, 0)), 0)
    assert events(node.handle(Ping(sender=node_id("c"), sequence=1), 0), Transition) == []
    assert view(node, "c") == (state, 0)


def test_accepted_gossip_is_told_once_and_travels_on_at_once() -> None:
    """Accepted: one notification, and it rides on the very next message. Rejected: neither."""
    node = alone()
    out = node.handle(rumour(("c", DEAD, 2)), 0)
    assert events(out, GossipReceived) == [GossipReceived(node_id("b"), len(updates(("c", DEAD, 2))), 1)]
    assert events(out, Transition) == [Transition(node_id("c"), "Alive", "Dead", "gossip", 2)]
    assert carried(sent(out)[0].message) == [(node_id("c"), DEAD, 2)]
    again = node.handle(rumour(("c", SUSPECT, 2)), 0)
    assert events(again, Transition) == []


def test_equal_state_at_a_higher_incarnation_is_news() -> None:
    """Self-loops such as Alive to Alive occur and are told."""
    out = alone().handle(rumour(("c", ALIVE, 1)), 0)
    assert events(out, Transition) == [Transition(node_id("c"), "Alive", "Alive", "gossip", 1)]


def test_gossip_is_credited_to_its_source() -> None:
    """The sender of a Ping, Ack or PingReq, and the target of an IndirectAck."""
    blob = updates(("c", ALIVE, 1), ("c", ALIVE, 2))
    b, c = node_id("b"), node_id("c")
    for message, source in (
        (Ping(sender=b, sequence=1, piggyback=blob), b),
        (Ack(sender=b, sequence=1, piggyback=blob), b),
        (PingReq(sender=b, target=c, sequence=1, piggyback=blob), b),
        (IndirectAck(target=c, sequence=1, piggyback=blob), c),
    ):
        node = alone()
        assert events(node.handle(message, 0), GossipReceived) == [GossipReceived(source, len(blob), 2)]
        assert view(node, "c") == (ALIVE, 2)


def test_garbage_gossip_is_told_and_changes_nothing() -> None:
    """The message itself is still answered."""
    node = alone()
    out = node.handle(Ping(sender=node_id("b"), sequence=1, piggyback=b"garbage"), 0)
    assert len(events(out, Fault)) == 1
    assert len(sent(out, Ack)) == 1
    assert view(node, "b") == (ALIVE, 0)


def test_a_relay_forwards_and_brings_the_word_back() -> None:
    """A PingReq becomes a Ping from the relay; the matching Ack one IndirectAck to the requester, under its number."""
    node = alone(others="bcd")
    ask = PingReq(sender=node_id("b"), target=node_id("c"), sequence=500)
    ping = sent(node.handle(ask, 0))[0]
    assert (ping.to, ping.message.sender) == (node_id("c"), node_id("a"))
    stranger = Ack(sender=node_id("d"), sequence=ping.message.sequence)
    assert sent(node.handle(stranger, 0)) == []
    answer = sent(node.handle(ack_of(ping), 0))
    assert [(output.to, output.message) for output in answer] == [
        (node_id("b"), IndirectAck(target=node_id("c"), sequence=500))
    ]
    assert sent(node.handle(ack_of(ping), 0)) == []


def test_the_oldest_of_seventeen_relayed_probes_is_dropped() -> None:
    """Sixteen pending relays are kept."""
    node = alone(others="bcd")
    pings = []
    for sequence in range(17):
        ask = PingReq(sender=node_id("b"), target=node_id("c"), sequence=sequence)
        pings.append(sent(node.handle(ask, 0))[0])
    assert sent(node.handle(ack_of(pings[0]), 0)) == []
    answered = [sent(node.handle(ack_of(ping), 0))[0].message.sequence for ping in pings[1:]]
    assert answered == list(range(1, 17))


def test_a01_the_largest_rumour() -> None:
    """Case A01: `@M` and `@2**63` are refused and told, `@(M-1)` is refuted at M for good, `@2**31` is then stale."""
    node = alone("b", "ac")
    for incarnation, own, faults in (
        (MAX_INCARNATION, 0, 1),
        (MAX_INCARNATION - 1, MAX_INCARNATION, 0),
        (2**31, None, 0),
    ):
        before = node.members.self_incarnation
        out = node.handle(rumour(("b", SUSPECT, incarnation), sender="a"), 0)
        assert len(events(out, Fault)) == faults
        assert node.members.self_incarnation == (before if own is None else own)
        for output in sent(out):
            encode(output.message)
    assert len(events(node.handle(rumour(("b", SUSPECT, 2**63), sender="a"), 0), Fault)) == 1
    assert node.members.self_incarnation == MAX_INCARNATION
    other = alone("c", "ab")
    other.handle(rumour(("b", ALIVE, MAX_INCARNATION), ("a", SUSPECT, MAX_INCARNATION)), 0)
    assert (view(other, "b"), view(other, "a")) == ((ALIVE, MAX_INCARNATION), (ALIVE, 0))


CLAIMS = st.tuples(st.sampled_from([SUSPECT, DEAD]), st.sampled_from([0, 1, 2, 7, 2**31, 2**63 - 2, 2**63 - 1, 2**63]))


@given(claims=st.lists(CLAIMS, max_size=10))
def test_the_own_incarnation_law(claims: list[tuple[MemberState, int]]) -> None:
    """Ruling S3: own <= claim < M gives claim + 1, any other claim changes nothing; each bump is told with its cause."""
    node = alone()
    for state, claim in claims:
        own = node.members.self_incarnation
        out = node.handle(rumour(("a", state, claim)), 0)
        expected = claim + 1 if own <= claim < MAX_INCARNATION else own
        assert node.members.self_incarnation == expected
        name = "Dead" if state is DEAD else "Suspect"
        bumps = [IncarnationBumped(own, expected, name, claim, node_id("b"))] if expected > own else []
        assert events(out, IncarnationBumped) == bumps
        assert view(node, "a") is None
        if bumps:
            assert (node_id("a"), ALIVE, expected) in carried(sent(out)[0].message)


def test_a_stale_claim_is_answered_again_without_a_bump() -> None:
    """Case A19: whoever still makes a refuted claim has missed the refutation, so it is spread once more; no bump, no event."""
    node = alone()
    node.handle(rumour(("a", DEAD, 0)), 0)
    while carried(sent(node.handle(Ping(sender=node_id("b"), sequence=1), 0))[0].message):
        pass
    out = node.handle(rumour(("a", DEAD, 0)), 0)
    assert events(out, IncarnationBumped) == []
    assert carried(sent(out)[0].message) == [(node_id("a"), ALIVE, 1)]


def test_news_about_the_addressee_and_the_sender_goes_first() -> None:
    """Under a tight cap a claim still reaches whom it accuses, and a refutation its accuser, past any number of deaths."""
    others = [f"peer-{number:02}" for number in range(12)]
    node = alone("a", ["b", *others], max_piggyback=2, max_message_bytes=0)
    claims = [(other, DEAD, 1) for other in others]
    node.handle(rumour(("a", SUSPECT, 0), ("b", SUSPECT, 0), *claims, sender=others[0]), 0)
    ack = sent(node.handle(Ping(sender=node_id("b"), sequence=1), 0))[0]
    assert carried(ack.message) == [(node_id("b"), SUSPECT, 0), (node_id("a"), ALIVE, 1)]


def test_alive_about_self_never_bumps() -> None:
    """Even at a high incarnation."""
    node = alone()
    assert events(node.handle(rumour(("a", ALIVE, 99)), 0), IncarnationBumped) == []
    assert node.members.self_incarnation == 0


def joiner(host: str, seeds: str, **changes: Any) -> SwimNode:
    return SwimNode(
        directory=Directory("abcd"), self_id=node_id(host), config=config(**changes), seeds=[node_id(s) for s in seeds]
    )


def test_joining() -> None:
    """It asks every seed at its first tick at or after `join_at_ns`, again every ten intervals, until it is answered."""
    node = joiner("d", "ab", join_at_ns=5 * TICK)
    asked = [(tick, output.to) for tick in range(1, 210) for output in sent(node.tick(tick * TICK), JoinRequest)]
    assert asked == [(tick, node_id(seed)) for tick in (5, 105, 205) for seed in "ab"]
    seed = alone("a", "bc")
    seed.handle(rumour(("c", DEAD, 3)), 0)
    out = seed.handle(JoinRequest(sender=node_id("d")), 0)
    assert events(out, Transition) == [Transition(node_id("d"), "Unknown", "Alive", "join-request", 0)]
    answer = sent(out, JoinResponse)[0]
    assert answer.to == node_id("d")
    records = [Record(node_id(host), ALIVE, 0) for host in "dcb"]
    records[1] = Record(node_id("c"), DEAD, 3)
    assert answer.message.members == (*records, Record(node_id("a"), ALIVE, 0))
    told = node.handle(answer.message, 210 * TICK)
    assert [(event.before, event.after, event.reason) for event in events(told, Transition)] == [
        ("Unknown", "Dead", "join-response"),
        ("Unknown", "Alive", "join-response"),
        ("Unknown", "Alive", "join-response"),
    ]
    assert view(node, "d") is None
    assert sent(run_ticks(node, 300, 210), JoinRequest) == []


def test_the_bulk_list_is_not_gossiped_on_but_the_newcomer_is() -> None:
    """The seed spreads the join; the joiner spreads nothing of what it was told."""
    seed = alone("a", "bc")
    seed.handle(JoinRequest(sender=node_id("d")), 0)
    _, ping = next_ping(seed)
    assert carried(ping.message) == [(node_id("d"), ALIVE, 0)]
    known = seed.handle(JoinRequest(sender=node_id("d")), 0)
    assert events(known, Transition) == []
    assert len(sent(known, JoinResponse)) == 1
    node = joiner("d", "a")
    node.handle(sent(known)[0].message, 0)
    assert not sent(node.handle(Ping(sender=node_id("a"), sequence=1), 0))[0].message.piggyback


def test_a_large_membership_is_split_to_the_cap() -> None:
    """Every part is within `max_message_bytes`, ends with the seed's own record, and together they are everything."""
    others = [f"peer-{number:03}" for number in range(60)]
    node = alone("a", others, max_message_bytes=1_400)
    parts = [output.message for output in sent(node.handle(JoinRequest(sender=node_id("z")), 0), JoinResponse)]
    assert len(parts) > 5
    assert max(len(encode(part)) for part in parts) <= 1_400
    assert all(part.members[-1] == Record(node_id("a"), ALIVE, 0) for part in parts)
    told = [record.node for part in parts for record in part.members[:-1]]
    assert told == sorted(map(node_id, [*others, "z"]))


def test_leaving_spreads_and_is_not_undone() -> None:
    """No notification, the own Dead record rides on later messages; the claim that comes back is not refuted."""
    node = alone()
    node.leave()
    now, ping = next_ping(node)
    assert carried(ping.message) == [(node_id("a"), DEAD, 0)]
    out = node.handle(rumour(("a", DEAD, 0)), now * TICK)
    assert events(out, IncarnationBumped) == []
    timed = alone(leave_at_ns=10 * TICK)
    assert carried(next_ping(timed)[1].message) == [(node_id("a"), DEAD, 0)]


@given(
    claims=st.lists(
        st.tuples(st.sampled_from("bcde"), st.sampled_from(MemberState), st.integers(0, 2**40)), min_size=1, max_size=12
    ),
    cap=st.sampled_from([1_000, 1_200, 1_400, 4_096]),
)
def test_no_message_exceeds_the_cap(claims: list[tuple[str, MemberState, int]], cap: int) -> None:
    """Ping, Ack, PingReq, IndirectAck: whole payload within `max_message_bytes`, and gossip still moves."""
    node = alone("a", "bcdefgh", max_message_bytes=cap, names=("n" * 200, "m" * 200), node_name="x" * 200)
    out: list[Any] = []
    for claim in claims:
        out += node.handle(rumour(claim), 0)
    out += node.handle(PingReq(sender=node_id("b"), target=node_id("c"), sequence=2**64 - 1), 0)
    out += node.handle(ack_of(sent(out, Ping)[-1]), 0)
    out += run_ticks(node, 30)
    assert {type(output.message) for output in sent(out)} >= {Ping, Ack, PingReq, IndirectAck}
    assert max(len(encode(output.message)) for output in sent(out)) <= cap
    news = [event for event in events(out, Transition) if event.reason == "gossip"]
    assert not news or any(carried(output.message) for output in sent(out, Ack))


@given(claims=st.lists(st.tuples(st.sampled_from("bcd"), st.sampled_from(MemberState), st.integers(0, 3)), max_size=15))
def test_notifications_fold_to_the_view(claims: list[tuple[str, MemberState, int]]) -> None:
    """The stream of transitions reproduces the final view, each continues the one before and strictly advances."""
    node = alone(others="bcd")
    folded: dict[bytes, tuple[int, int, str]] = {node_id(host): (0, 0, "Alive") for host in "bcd"}
    out = [output for claim in claims for output in node.handle(rumour(claim), 0)] + run_ticks(node, 60)
    names = {"Alive": 0, "Suspect": 1, "Dead": 2}
    for event in events(out, Transition):
        incarnation, state, name = folded[event.peer]
        assert event.before == name
        assert (event.incarnation, names[event.after]) > (incarnation, state)
        folded[event.peer] = (event.incarnation, names[event.after], event.after)
    assert {node: member.state for node, member in node.members} == {
        node: state for node, (_, state, _) in folded.items()
    }
