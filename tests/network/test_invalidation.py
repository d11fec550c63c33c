"""What mutations do to messages in flight and to connections (§5.5, rulings E1, E13, N13 to N15, R6)."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.mutations import (
    Heal,
    LatencySpike,
    Partition,
    PeerKill,
    PeerResurrect,
    RelayBoot,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
    WorkerExit,
)
from simharness.contracts.network import Drop, InvalidatedDelivery, MutationEffect
from simharness.network.flight import Cuts, Inbox, InFlight
from simharness.network.model import LinkNetwork
from tests.network.build import arrive, brief, drop, link, refs, relay, scenario

A_FROM_B = Partition(at_ns=0, peers_a=("a",), peers_b=("b",))
KILL_R = RelayKill(at_ns=0, relay="R")


# --- direct links -----------------------------------------------------------------------------------------------------


def test_partition_takes_exactly_what_it_cuts() -> None:
    """Both directions of the pair, in queue order, nothing else; a repeat takes nothing; a Heal brings nothing back."""
    network = LinkNetwork(scenario(latency_ns=100))
    late, other, back = (network.send(*pair, size, 0) for pair, size in (("ab", 9), ("ac", 0), ("ba", 0)))
    effect = network.apply_mutation(A_FROM_B, 50)
    assert effect == MutationEffect(
        (
            InvalidatedDelivery(100, arrive(back).message_id, "b", "a", 0, "partition"),
            InvalidatedDelivery(109, arrive(late).message_id, "a", "b", 0, "partition"),
        )
    )
    assert network.apply_mutation(A_FROM_B, 60) == MutationEffect()
    assert network.apply_mutation(Heal(at_ns=70), 70) == MutationEffect()
    lost = network.apply_mutation(PeerKill(at_ns=80, peer="c"), 80).invalidated
    assert [delivery.message_id for delivery in lost] == [arrive(other).message_id]


@pytest.mark.parametrize(("at_ns", "lost"), [(99, 1), (100, 1), (101, 0)])
def test_a_mutation_at_the_arrival_comes_first(at_ns: int, lost: int) -> None:
    """Ruling E1: what arrives in the very nanosecond of the mutation is still in flight."""
    for mutation in (A_FROM_B, PeerKill(at_ns=0, peer="b")):
        network = LinkNetwork(scenario(latency_ns=100))
        network.send("a", "b", 0, 0)
        assert len(network.apply_mutation(mutation, at_ns).invalidated) == lost


def test_peer_kill_cools_both_directions() -> None:
    """Ruling E13: deliveries to the peer are lost, not those from it; every warm link from or to it goes cold, in order."""
    network = LinkNetwork(scenario(latency_ns=100, cold_dial_penalty_ns=7))
    for pair in ("ba", "ab", "bc", "ca"):
        network.send(*pair, 0, 0)
    effect = network.apply_mutation(PeerKill(at_ns=50, peer="b"), 50)
    assert [(lost.source, lost.target, lost.reason) for lost in effect.invalidated] == [("a", "b", "host_killed")]
    assert [(notice.event["from"], notice.event["to"]) for notice in effect.notices] == [
        ("a", "b"),
        ("b", "a"),
        ("b", "c"),
    ]
    assert brief(effect.notices) == [(50, "CacheStateChange", "invalidated")] * 3
    dials = [arrive(network.send(*pair, 0, 300)).delay.dial for pair in ("ab", "ba", "bc", "ca", "cb")]
    assert dials == [7, 7, 7, 0, 7]


def test_a_link_past_its_idle_limit_has_cooled_by_itself() -> None:
    """Rulings N9, N10: before the invalidation the idle rule is applied, so an idle link says when it cooled."""
    network = LinkNetwork(scenario(cache_invalidate_after_idle_ns=30))
    network.send("a", "b", 0, 10)
    network.send("b", "a", 0, 15)
    notices = network.apply_mutation(PeerKill(at_ns=45, peer="b"), 45).notices
    assert brief(notices) == [(40, "CacheStateChange", "idle_cooled"), (45, "CacheStateChange", "invalidated")]
    assert network.apply_mutation(PeerKill(at_ns=99, peer="b"), 99) == MutationEffect()


def test_others_mutations_change_nothing_here() -> None:
    """Resurrection and worker exits are the engine's; timed effects leave what is in flight alone."""
    network = LinkNetwork(scenario(latency_ns=100))
    network.send("a", "b", 0, 0)
    for mutation in (
        PeerResurrect(at_ns=1, peer="b"),
        WorkerExit(at_ns=1, peer="b", reason="x"),
        LatencySpike(at_ns=1, links=refs("a>b"), factor_x100=300, duration_ns=5),
    ):
        assert network.apply_mutation(mutation, 1) == MutationEffect()


# --- relays -----------------------------------------------------------------------------------------------------------


def relayed(**policy: int) -> LinkNetwork:
    """Return a to b and c to b via R: legs of 100 ns, an egress of 10 ns a byte."""
    slow = relay(egress_capacity_bps_per_link=10**8, **policy)
    return LinkNetwork(scenario(links=(link("a", "b", "R"), link("c", "b", "R")), relays=(slow,), latency_ns=100))


@pytest.mark.parametrize(
    ("at_ns", "lost"), [(1, True), (115, True), (221, True), (222, False), (332, False), (999, False)]
)
@pytest.mark.spec("§5A.5", "Mutation invalidation is exact")
def test_relay_kill_takes_what_has_not_left_it(at_ns: int, lost: bool) -> None:
    """Ruling R6: 10 bytes reach R at 110, ingress to 120, egress to 220. Killed before 220 they are lost, at 220 they are not."""
    network = relayed()
    outcome = arrive(network.send("a", "b", 10, 2))
    assert outcome.delay.relay_egress == 100
    effect = network.apply_mutation(KILL_R, at_ns)
    delivery = InvalidatedDelivery(outcome.at_ns, outcome.message_id, "a", "b", 2, "relay_down")
    assert effect.invalidated == ((delivery,) if lost else ())
    assert effect.killed_messages == ((outcome.message_id,) if lost else ())
    assert effect.relay_emptied == "R"


@pytest.mark.spec("§5A.5", "Mutation invalidation is exact")
def test_relay_kill_then_boot() -> None:
    """Phase R2: what is in flight at the kill is the whole list; afterwards the relay is empty, cold and its tails are free."""
    network = relayed(cold_start_penalty_ns=3)
    first, second = (arrive(network.send(source, "b", 10, 0)) for source in "ac")
    assert second.delay.relay_egress == 100 + (220 - 130)
    effect = network.apply_mutation(KILL_R, 150)
    assert [lost.message_id for lost in effect.invalidated] == [first.message_id, second.message_id]
    network.apply_mutation(RelayBoot(at_ns=160, relay="R"), 160)
    again = arrive(network.send("c", "b", 10, 200))
    assert (again.delay.relay_ingress, again.delay.relay_egress, again.delay.relay_cold_start) == (10, 100, 3)
    change = RelayCapacityChange(at_ns=201, relay="R", queue_depth_bytes=1)
    assert network.apply_mutation(change, 201) == MutationEffect()


def test_relay_kill_cancels_the_records_of_messages_without_delivery() -> None:
    """A full queue's RelayDrop that lies ahead, and the records of a message lost behind the relay, die with it too."""
    links = (link("a", "R"), link("R", "b"), link("R", "c", loss_prob_ppm=10**6))
    network = LinkNetwork(scenario(links=links, relays=(relay(queue_depth_bytes=10),), latency_ns=100))
    held = arrive(network.send("a", "b", 6, 0))  # at R from 106
    beyond = drop(network.send("a", "c", 4, 0))  # at R from 210, lost behind it
    full = drop(network.send("a", "b", 11, 0))  # refused at R at 321
    assert (beyond.reason, full.reason) == ("lossy", "relay_queue_full")
    ids = (held.message_id, beyond.message_id, full.message_id)
    for at_ns, killed in ((0, ids), (111, ids), (112, ids), (118, ids[1:]), (321, ids[2:]), (322, ())):
        network = LinkNetwork(scenario(links=links, relays=(relay(queue_depth_bytes=10),), latency_ns=100))
        for target, size in (("b", 6), ("c", 4), ("b", 11)):
            network.send("a", target, size, 0)
        assert network.apply_mutation(KILL_R, at_ns).killed_messages == killed


def test_relay_kill_cools_its_legs() -> None:
    """No connection outlives the relay. A leg whose first dial still lay ahead was never warm, so it says nothing."""
    network = relayed()
    network.send("a", "b", 10, 0)
    assert [(n.event["from"], n.event["to"]) for n in network.apply_mutation(KILL_R, 150).notices] == [("a", "R")]
    network.apply_mutation(RelayBoot(at_ns=150, relay="R"), 150)
    network.send("a", "b", 10, 150)
    notices = network.apply_mutation(KILL_R, 900).notices
    assert [(n.event["from"], n.event["to"], n.host_id) for n in notices] == [("R", "b", None), ("a", "R", "a")]


def test_partition_reaches_relayed_routes() -> None:
    """Ruling N15: the host pair is cut whatever its route; the relay goes on carrying the bytes, so no relay record dies."""
    network = relayed()
    cut, _ = (arrive(network.send(source, "b", 10, 0)) for source in "ac")
    effect = network.apply_mutation(A_FROM_B, 50)
    assert [lost.message_id for lost in effect.invalidated] == [cut.message_id]
    assert (effect.killed_messages, effect.relay_emptied) == ((), None)
    assert network.send("a", "b", 10, 60) == Drop("partitioned")
    assert arrive(network.send("c", "b", 10, 60)).delay.relay_egress == 90 + 100  # behind c's first, itself behind a's


@pytest.mark.parametrize(("at_ns", "lost"), [(0, True), (219, True), (220, False)])
def test_conn_down_takes_that_pairs_messages_before_egress(at_ns: int, lost: bool) -> None:
    """Exactly the ordered pair's messages that have not left the relay; another sender's to the same host go on."""
    network = relayed()
    mine, _ = (arrive(network.send(source, "b", 10, 0)) for source in "ac")
    down = RelayPeerConnDown(at_ns=at_ns, relay="R", source="a", target="b", duration_ns=5)
    effect = network.apply_mutation(down, at_ns)
    delivery = InvalidatedDelivery(mine.at_ns, mine.message_id, "a", "b", 0, "relay_peer_conn_down")
    assert effect == MutationEffect((delivery,) if lost else ())


def test_peer_kill_leaves_its_bytes_in_the_relay() -> None:
    """A relayed delivery to the killed peer is lost wherever it is, but the relay still carries it (ruling R2)."""
    network = relayed()
    outcome = arrive(network.send("a", "b", 10, 0))
    effect = network.apply_mutation(PeerKill(at_ns=1, peer="b"), 1)
    assert [lost.message_id for lost in effect.invalidated] == [outcome.message_id]
    assert effect.killed_messages == ()
    assert arrive(network.send("c", "b", 10, 2)).delay.relay_egress > outcome.delay.relay_egress


# --- bookkeeping ------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(rng=st.randoms(use_true_random=False))
def test_inbox_equals_a_plain_list(rng: Random) -> None:
    """Sweeping loses nothing that can still be taken, over hundreds of deliveries."""
    inbox, flights, now = Inbox(), [], 0
    for message_id in range(rng.randint(0, 400)):
        now += rng.choice([0, 0, 1, 3])
        flight = InFlight(now + rng.choice([0, 5, 50]), message_id, rng.choice("ab"), "c", now, None, 0)
        inbox.add(flight, now)
        flights.append(flight)
        if message_id % 97 == 96:
            taken = inbox.take(now, lambda each: each.source == "a")
            assert taken == [each for each in flights if each.at_ns >= now and each.source == "a"]
            flights = [each for each in flights if each not in taken]
    assert inbox.take(now, lambda _: True) == [each for each in flights if each.at_ns >= now]


@given(
    steps=st.lists(
        st.tuples(st.permutations("abcdef"), st.integers(1, 3), st.integers(1, 3), st.booleans()), max_size=8
    )
)
def test_cuts_equal_a_list_of_partitions(steps: list[tuple[list[str], int, int, bool]]) -> None:
    """Ruling N13: partitions add up, symmetrically, until a Heal clears them all."""
    cuts, partitions = Cuts(), []
    for peers, left, right, heal in steps:
        if heal:
            cuts.heal()
            partitions = []
        else:
            groups = (tuple(peers[:left]), tuple(peers[left : left + right]))
            cuts.cut(*groups)
            partitions += [groups, groups[::-1]]
        for source in "abcdef":
            for target in "abcdef":
                wanted = any(source in one and target in other for one, other in partitions)
                assert cuts.severs(source, target) == wanted


def test_bookkeeping_stays_small() -> None:
    """However long the run, what is kept is in proportion to what is in flight."""
    network = relayed()
    for at_ns in range(0, 3_000_000, 150):
        arrive(network.send("a", "b", 10, at_ns))
    vertex = network._relays["R"]
    assert len(network._inboxes["b"]._flights) <= 64
    assert len(vertex._pending) <= 64
    assert len(vertex._occupancy._changes) <= 65


def test_a_leg_costs_a_few_hundred_bytes() -> None:
    """A full mesh of 40 peers in which every pair has talked twice: memory a leg, so that a million of them fit."""
    network = LinkNetwork(scenario([f"p{place}" for place in range(40)], latency_ns=100))
    peers = list(network._inboxes)
    tracemalloc.start()
    try:
        for at_ns, (source, target) in enumerate([(a, b) for _ in range(2) for a in peers for b in peers if a != b]):
            network.send(source, target, 50, 10**15 + at_ns)
        assert tracemalloc.get_traced_memory()[0] < 500 * 40 * 39
    finally:
        tracemalloc.stop()
