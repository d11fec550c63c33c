"""Lifeguard (rulings F1 to F4): local health, suspicions that others confirm, nacks; and nothing of it unless it is on."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.config import Lifeguard
from simharness.systems.swim.diagnostics import ProbeTimedOut, Transition
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.lifeguard import Accusations, Health, log2_fixed
from simharness.systems.swim.members import MemberList, MemberState
from simharness.systems.swim.messages import Ack, IndirectAck, IndirectNack, Ping, PingReq
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.wire import encode, pack_updates, unpack, update_json
from tests.systems.swim.driver import (
    MS,
    TICK,
    Cluster,
    ack_of,
    alone,
    config,
    constant,
    events,
    next_ping,
    run_ticks,
    sent,
    updates,
    view,
)

ALIVE, SUSPECT, DEAD = MemberState
ON = Lifeguard()
B, C, D, E, X = map(node_id, "bcdex")


def known(others: str = "bcdefgh") -> MemberList:
    members = MemberList(node_id("a"))
    members.preload([(node_id(other), 0) for other in others])
    return members


def accused_by(peer: str, state: MemberState, incarnation: int, *accusers: str, sender: str = "c") -> Ping:
    """A Ping that carries one claim of each accuser."""
    texts = [update_json(node_id(peer), state, incarnation, node_id(accuser)) for accuser in accusers]
    return Ping(sender=node_id(sender), sequence=9_999, piggyback=pack_updates(texts))


def claims(message: Any) -> list[tuple[Any, Any]]:
    """The (claimed, accuser) pairs of a message."""
    gossip = unpack(message.piggyback) if message.piggyback else None
    return [] if gossip is None else list(zip(gossip.updates, gossip.accusers, strict=True))


def health(node: SwimNode) -> int:
    return node._health.score


# --- health ------------------------------------------------------------------------------------------------------------


@given(steps=st.lists(st.integers(-1, 3), max_size=40), most=st.integers(0, 64))
def test_the_score_stays_within_its_bounds(steps: list[int], most: int) -> None:
    """F1: a saturating counter; the multiplier is one more; with Lifeguard off it is 1 whatever happens."""
    on, off, expected = Health(Lifeguard(max_health_score=most)), Health(None), 0
    for step in steps:
        for one in (on, off):
            one.better() if step < 0 else one.worse(step)
        expected = min(most, max(0, expected + step))
    assert (on.score, on.multiplier) == (expected, expected + 1)
    assert off.multiplier == 1


def failing(node: SwimNode, start: int = 0, nacks: int = 0, limit: int = 60) -> tuple[int, list[Any]]:
    """Let one probe fail; answer the first `nacks` of its requests with a nack. Returns the tick after it, and what was put out."""
    step, ping = next_ping(node, start)
    out: list[Any] = []
    for tick in range(step + 1, step + limit):
        answer = list(node.tick(tick * TICK))
        out += answer
        for request in sent(answer, PingReq)[:nacks]:
            nack = IndirectNack(sender=request.to, target=ping.to, sequence=ping.message.sequence)
            node.handle(nack, tick * TICK)
            node.handle(nack, tick * TICK)  # a second copy says nothing new
        if any(event.probe_kind == "indirect" for event in events(answer, ProbeTimedOut)):
            return tick, out
    raise AssertionError("the probe does not end")


@pytest.mark.parametrize(("others", "nacks", "score"), [("bcde", 0, 3), ("bcde", 1, 2), ("bcde", 3, 0), ("b", 0, 1)])
def test_a_failed_probe_counts_by_the_nacks_that_it_misses(others: str, nacks: int, score: int) -> None:
    """F1: each of the three relays that says nothing counts one; if all speak the target is to blame; without relays it is one."""
    node = alone(others=others, lifeguard=ON, indirect_probes=3)
    failing(node, nacks=nacks)
    assert health(node) == score


def test_a_nack_that_answers_nothing_is_ignored() -> None:
    """F1: of another probe, of somebody who was not asked, or in the direct phase."""
    node = alone(others="bcde", lifeguard=ON, indirect_probes=3)
    step, ping = next_ping(node)
    relays = [other for other in (B, C, D, E) if other != ping.to]
    for nack in (
        IndirectNack(sender=relays[0], target=ping.to, sequence=ping.message.sequence),
        IndirectNack(sender=X, target=ping.to, sequence=ping.message.sequence + 1),
    ):
        node.handle(nack, step * TICK)
    for tick in range(step + 1, step + 7):
        node.tick(tick * TICK)
        node.handle(IndirectNack(sender=X, target=ping.to, sequence=ping.message.sequence), tick * TICK)
    assert health(node) == 3


def test_an_answered_probe_and_a_refutation() -> None:
    """F1: one down for an ack, one up for each claim that had to be refuted, nothing for one that is refuted already."""
    node = alone(lifeguard=ON)
    for incarnation, expected in ((0, 1), (0, 1), (1, 2)):
        node.handle(Ping(sender=B, sequence=1, piggyback=updates(("a", SUSPECT, incarnation))), TICK)
        assert health(node) == expected
    step, ping = next_ping(node)
    node.handle(ack_of(ping), step * TICK)
    assert health(node) == 1
    assert b'"health_score":1}' in node.snapshot()
    assert b"health_score" not in alone().snapshot()


def test_health_scales_interval_and_timeout() -> None:
    """F1: at score 3 each phase lasts four times as long, and so does the wait for the next probe."""
    plain, _ = failing(alone(others="bcde"))
    assert plain == 10 + 2 * 3
    node = alone(others="bcde", lifeguard=ON, indirect_probes=3)
    first, _ = failing(node)
    assert first == plain  # it was well when it began
    assert health(node) == 3
    step, _ = next_ping(node, first)
    assert step == 20  # the date was set when the first probe began
    end, out = failing_from(node, step)
    budgets = [event.budget_ticks for event in events(out, ProbeTimedOut)]
    assert budgets == [12, 12]
    assert end == step + 24
    assert next_ping(node, end)[0] == step + 40


def failing_from(node: SwimNode, step: int) -> tuple[int, list[Any]]:
    """Let the open probe fail; returns the tick and what was put out."""
    out: list[Any] = []
    for tick in range(step + 1, step + 80):
        answer = list(node.tick(tick * TICK))
        out += answer
        if any(event.probe_kind == "indirect" for event in events(answer, ProbeTimedOut)):
            return tick, out
    raise AssertionError("the probe does not end")


# --- suspicion ---------------------------------------------------------------------------------------------------------


@given(value=st.integers(1, 10**9))
def test_the_logarithm_has_no_float_in_it(value: int) -> None:
    """§7.4: fixed point, below the true value by less than a millionth, exact for powers of two."""
    assert 0 <= math.log2(value) - log2_fixed(value) / 2**24 < 1e-6
    assert log2_fixed(1 << (value % 40)) == (value % 40) << 24


@pytest.mark.parametrize(
    ("others", "accusers", "timeout"),
    [
        ("bcdefgh", "", 180),
        ("bcdefgh", "c", 105),
        ("bcdefgh", "cd", 62),
        ("bcdefgh", "cde", 30),
        ("bcdefgh", "cdef", 30),
        ("bcd", "", 180),
        ("bcd", "c", 86),
        ("bcd", "cd", 30),
        ("bc", "", 180),
        ("bc", "c", 30),
        ("b", "", 30),
    ],
)
def test_a_suspicion_lasts_the_shorter_the_more_confirm_it(others: str, accusers: str, timeout: int) -> None:
    """F2: max - (max - min) log(C + 1) / log(K + 1) with min 30, max 6 x 30, K = 3 or as many as can confirm."""
    table = Accusations(ON, known(others), 30)
    table.accuse(B, 0, node_id("a"))  # the own one confirms nothing
    for accuser in accusers:
        table.accuse(B, 0, node_id(accuser))
    assert table.timeout(B) == timeout
    assert Accusations(None, known(others), 30).timeout(B) == 30


def test_an_accusation_is_news_once_while_it_is_current_and_few_have_come() -> None:
    """F2: heard before, older than the opinion or than another accusation, of a stranger, unnamed, or the fifth: no news."""
    members = known()
    table = Accusations(ON, members, 30)
    assert table.accuse(B, 1, C)
    assert not table.accuse(B, 1, C)
    assert not table.accuse(B, 0, D)
    assert not table.accuse(X, 1, D)
    assert not table.accuse(B, 1, None)
    assert [table.accuse(B, 1, node_id(other)) for other in "defg"] == [True, True, True, False]
    assert table.of(B) == (None,)  # the opinion held is about another incarnation
    members.apply(B, SUSPECT, 1)
    assert table.of(B) == [C, D, E, node_id("f")]
    assert table.accuse(B, 2, D)  # a new incarnation is accused anew
    members.apply(B, SUSPECT, 2)
    assert table.of(B) == [D]
    table.cleared(B, 1)
    assert table.of(B) == [D]
    table.cleared(B, 3)
    assert table.of(B) == (None,)
    members.apply(B, SUSPECT, 5)
    assert not table.accuse(B, 4, C)
    assert not Accusations(None, members, 30).accuse(B, 5, C)


def test_the_own_suspicion_names_its_accuser_and_waits_for_others() -> None:
    """F2: alone it becomes a death after six timeouts; each confirmation that comes brings that forward, at once."""
    for confirming, lasts in (("", 180), ("d", 105), ("def", 30)):
        node = alone(others="bcdefgh", lifeguard=ON, indirect_probes=1)
        end, out = failing(node, nacks=1)
        [change] = events(out, Transition)
        peer = next(name for name in "bcdefgh" if node_id(name) == change.peer)
        others = confirming.replace(peer, "g")
        if others:
            node.handle(accused_by(peer, SUSPECT, 0, *others), end * TICK)
        changes = [
            (tick, event) for tick in range(end + 1, end + 190) for event in events(node.tick(tick * TICK), Transition)
        ]
        deaths = [tick for tick, event in changes if (event.peer, event.after) == (change.peer, "Dead")]
        assert deaths == [end + lasts]


def test_each_accuser_is_passed_on_once_and_no_more_than_count() -> None:
    """F2: what confirms a suspicion travels beside it, each accuser under a budget of its own; the fifth changes nothing."""
    node = alone(others="bcdefgh", lifeguard=ON)
    node.handle(accused_by("b", SUSPECT, 0, "c", "d"), TICK)
    assert view(node, "b") == (SUSPECT, 0)
    first = claims(sent(node.handle(Ping(sender=D, sequence=1), TICK))[0].message)
    assert [(claim.node, accuser) for claim, accuser in first] == [(B, C), (B, D)]
    node.handle(accused_by("b", SUSPECT, 0, "c", "e", "f", "g"), TICK)
    later = claims(sent(node.handle(Ping(sender=D, sequence=2), TICK))[0].message)
    assert [accuser for _, accuser in later] == [C, D, E, node_id("f")]
    answer = claims(sent(node.handle(Ping(sender=B, sequence=3), TICK))[0].message)
    assert [(claim.node, accuser) for claim, accuser in answer] == [(B, C)]  # the accused needs to hear of it once
    node.handle(Ping(sender=B, sequence=4, piggyback=updates(("b", ALIVE, 1))), TICK)
    cleared = claims(sent(node.handle(Ping(sender=D, sequence=5), TICK))[0].message)
    assert [(claim.state, accuser) for claim, accuser in cleared] == [(ALIVE, None)]


def test_the_ping_of_a_suspect_says_so_and_by_whom() -> None:
    """F3, the buddy rule: whoever probes a suspect tells it first of all, however often that was said already."""
    node = alone(others="b", lifeguard=ON)
    node.handle(accused_by("b", SUSPECT, 0, "c", sender="b"), 0)
    for _ in range(40):
        node.handle(Ping(sender=B, sequence=1), 0)  # every copy is used up
    assert claims(sent(node.handle(Ping(sender=B, sequence=1), 0))[0].message) == []
    _, ping = next_ping(node)
    assert [(claim[:2], accuser) for claim, accuser in claims(ping.message)] == [((B, SUSPECT), C)]


# --- nacks -------------------------------------------------------------------------------------------------------------


def relaying(nack: bool, timeout: int = 10) -> tuple[SwimNode, Ping]:
    """A node that has just been asked by `b` to ping `c`, and its Ping."""
    node = alone(probe_timeout=timeout, probe_interval=1_000, suspicion_timeout=2_000, dead_reprobe_interval=0)
    out = node.handle(PingReq(sender=B, target=C, sequence=77, nack=nack), 0)
    [ping] = sent(out, Ping)
    assert ping.to == C
    return node, ping.message


@pytest.mark.parametrize(("timeout", "after"), [(1, 1), (3, 2), (10, 8), (15, 12)])
def test_a_nack_comes_after_four_fifths_of_the_timeout(timeout: int, after: int) -> None:
    """F1: once, to the requester, under its own number; the ack that comes later is passed on all the same."""
    node, ping = relaying(nack=True, timeout=timeout)
    ticks = [(tick, message) for tick in range(1, 40) for message in sent(node.tick(tick * TICK))]
    assert [(tick, message.to, message.message) for tick, message in ticks] == [
        (after, B, IndirectNack(sender=node_id("a"), target=C, sequence=77))
    ]
    late = node.handle(Ack(sender=C, sequence=ping.sequence), 41 * TICK)
    assert [message.message for message in sent(late)] == [IndirectAck(target=C, sequence=77)]


def test_no_nack_if_the_target_answers_or_nobody_asked_for_one() -> None:
    """F1: an ack settles it; a node without Lifeguard asks for none, but gives one."""
    node, ping = relaying(nack=True)
    node.handle(Ack(sender=C, sequence=ping.sequence), TICK)
    assert [message for tick in range(1, 40) for message in sent(node.tick(tick * TICK))] == []
    node, _ = relaying(nack=False)
    assert [message for tick in range(1, 40) for message in sent(node.tick(tick * TICK))] == []


# --- off, and mixed ----------------------------------------------------------------------------------------------------


def storm(**changes: Any) -> Cluster:
    """Six nodes of which two hear late: probes fail, suspicions and deaths abound."""
    cluster = Cluster("abcdef", lambda a, b, now: 400 * MS if "a" in (a, b) or "b" in (a, b) else 10 * MS, **changes)
    cluster.run(60 * 1_000 * MS)
    return cluster


def test_off_it_leaves_no_trace_on_the_wire() -> None:
    """F4: without the table no message has a field or a kind that plain nodes do not know; with it some have."""
    plain, guarded = storm(), storm(lifeguard=ON)
    for cluster, there in ((plain, False), (guarded, True)):
        texts = [encode(message) for _, _, _, message, _ in cluster.messages]
        requests = [
            text
            for text, (_, _, _, message, _) in zip(texts, cluster.messages, strict=True)
            if isinstance(message, PingReq)
        ]
        assert requests
        assert all(text.endswith(b',"nack":true}') is there for text in requests)
        assert any(isinstance(message, IndirectNack) for _, _, _, message, _ in cluster.messages) is there
        named = [accuser for _, _, _, message, _ in cluster.messages for _, accuser in claims_of(message)]
        assert any(accuser is not None for accuser in named) is there
        assert named


def claims_of(message: Any) -> list[tuple[Any, Any]]:
    return claims(message) if getattr(message, "piggyback", b"") else []


def test_a_plain_node_reads_what_a_guarded_one_writes() -> None:
    """F4: it believes the claim, passes it on without the name, and asks for no nack."""
    node = alone(others="bcd")
    node.handle(accused_by("b", SUSPECT, 0, "c", "d"), TICK)
    assert view(node, "b") == (SUSPECT, 0)
    passed = claims(sent(node.handle(Ping(sender=D, sequence=1), TICK))[0].message)
    assert [(claim.node, accuser) for claim, accuser in passed] == [(B, None)]
    node.handle(IndirectNack(sender=B, target=C, sequence=1), TICK)
    assert health(node) == 0


def test_a_mixed_cluster_agrees_on_a_death_and_on_a_return() -> None:
    """F4: half with, half without: the death of a member is known to all, and so is its return."""
    configs = {host: config(lifeguard=ON) for host in "ace"}
    cluster = Cluster("abcdef", constant(10 * MS), configs=configs)
    cluster.run(5_000 * MS)
    cluster.kill("f")
    cluster.run(30_000 * MS)
    assert {opinion and opinion[0] for opinion in cluster.views("f").values()} == {DEAD}
    cluster.resurrect("f", preserve=False)
    cluster.run(60_000 * MS)
    assert {opinion and opinion[0] for opinion in cluster.views("f").values()} == {ALIVE}


def test_a_healthy_cluster_is_the_same_with_and_without() -> None:
    """Nothing fails, so nothing is scaled: the same messages at the same times, byte for byte."""
    runs = []
    for changes in ({}, {"lifeguard": ON}):
        cluster = Cluster("abcde", constant(10 * MS), **changes)
        cluster.run(30_000 * MS)
        runs.append([(at, source, to, encode(message)) for at, source, to, message, _ in cluster.messages])
    assert runs[0] == runs[1]


def test_a_node_that_hears_late_does_not_condemn_the_others() -> None:
    """The point of it: what one node hears comes 2 s late, a suspicion lasts 1.5 s: plain, it declares healthy members dead."""
    deaths = {}
    for name, changes in (("plain", {}), ("guarded", {"lifeguard": ON})):
        cluster = Cluster("abcdefgh", lambda _, to, __: 2_000 * MS if to == "a" else 10 * MS, **changes)
        cluster.run(120_000 * MS)
        deaths[name] = len([1 for _, _, event in cluster.of(Transition, "a") if event.after == "Dead"])
    assert deaths["guarded"] == 0 < deaths["plain"]


def test_due_ticks_are_exact() -> None:
    """A node that skips ticks where nothing is due does what one does that looks at every tick, with Lifeguard as without."""
    eager, lazy = alone(others="bcde", lifeguard=ON), alone(others="bcde", lifeguard=ON)
    script = {
        40: accused_by("b", SUSPECT, 0, "c"),
        55: accused_by("b", SUSPECT, 0, "d"),
        90: accused_by("c", SUSPECT, 0, "e"),
    }
    script |= {12: PingReq(sender=D, target=E, sequence=3, nack=True)}
    for tick in range(1, 900):
        eager._due = 0
        assert list(eager.tick(tick * TICK)) == list(lazy.tick(tick * TICK))
        if tick in script:
            assert eager.handle(script[tick], tick * TICK) == lazy.handle(script[tick], tick * TICK)
    assert run_ticks(lazy, 0) == []
