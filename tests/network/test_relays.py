"""The relay vertex: §5A.3 by computed values, and the laws of §5A.5."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.mutations import (
    RelayBoot,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
)
from simharness.contracts.network import Arrive, Delay, Drop, Notice
from simharness.contracts.scenario import Scenario
from simharness.network.model import LinkNetwork
from tests.network.build import MS, S, arrive, brief, drop, link, relay, scenario

KILL, BOOT = RelayKill(at_ns=0, relay="R"), RelayBoot(at_ns=0, relay="R")


def star(pairs: str = "ab", relays: dict[str, Any] | None = None, **policy: Any) -> Scenario:
    """Return peers a to d whose named pairs are routed via R."""
    links = tuple(link(*pair, via="R", **policy) for pair in pairs.split())
    return scenario("abcd", links, (relay(**(relays or {})),))


def hub(relays: dict[str, Any] | None = None, bandwidth_bps: int = S, **latencies: int) -> Scenario:
    """Return peers a to d with legs towards R of the given latencies, and of none from it."""
    into = tuple(link(peer, "R", latency_ns=latency) for peer, latency in latencies.items())
    out = tuple(link("R", peer) for peer in "abcd")
    return scenario("abcd", into + out, (relay(**(relays or {})),), bandwidth_bps=bandwidth_bps)


# --- values computed by hand ------------------------------------------------------------------------------------------


def test_parity_scenario_arithmetic() -> None:
    """The first sends of the published parity scenario: 654866 direct; 654890, 655130 and 805154 through the relay."""
    policy = {"latency_ns": 100_000, "cold_dial_penalty_ns": 50_000, "cache_warm_after_ns": MS}
    links = (link("c", "b", **policy), link("c", "a", via="R", **policy))
    network = LinkNetwork(scenario(links=links, relays=(relay(egress_capacity_bps_per_link=10**8),)))
    assert arrive(network.send("c", "b", 24, 504_842)).at_ns == 654_866
    outcome = arrive(network.send("c", "a", 24, 504_842))
    assert outcome.at_ns == 805_154
    assert brief(outcome.notices) == [
        (504_842, "DialStart", "R"),
        (654_866, "DialOutcome", True),
        (654_866, "RelayEnqueue", 24),
        (655_130, "RelayDequeue", 24),
        (655_130, "DialStart", "a"),
        (805_154, "DialOutcome", True),
    ]
    assert outcome.delay == Delay(
        base_latency=200_000, serialisation=48, dial=100_000, relay_ingress=24, relay_egress=240
    )


def test_relay_notices_carry_what_the_schema_names() -> None:
    """Key order, no host for what a relay does (ruling R11), and the signed change of the relay's total."""
    notices = arrive(LinkNetwork(star()).send("a", "b", 8, 0)).notices
    event = {"relay": "R", "from": "a", "to": "b", "byte_len": 8}
    enqueue, dequeue = [notice for notice in notices if notice.kind_tag == "relay"]
    assert enqueue == Notice(8, None, "relay", {"kind": "RelayEnqueue", **event}, "R", 8)
    assert dequeue == Notice(24, None, "relay", {"kind": "RelayDequeue", **event}, "R", -8)
    assert list(enqueue.event) == ["kind", "relay", "from", "to", "byte_len"]
    assert [notice.host_id for notice in notices if notice.event["kind"] == "DialStart"] == ["a", None]


def test_case_a25() -> None:
    """Case A25: 9800 and 200 bytes fill a queue of 10000 exactly; one more byte at 30 ms is refused."""
    network = LinkNetwork(a25())
    first, second = (arrive(network.send("a", "b", size, 0)) for size in (9800, 200))
    assert [notice.at_ns for notice in first.notices if notice.relay_delta] == [10 * MS, 108_980_000]
    assert next(notice.at_ns for notice in second.notices if notice.relay_delta) == 20 * MS
    third = drop(network.send("a", "b", 1, 0))
    assert third.reason == "relay_queue_full"
    assert brief(third.notices) == [(30 * MS, "RelayDrop", "queue_full")]


def a25() -> Scenario:
    """Return the scenario of case A25, with c beside b behind the relay."""
    policy = {"ingress_capacity_bps": 10**7, "egress_capacity_bps_per_link": 10**5, "queue_depth_bytes": 10_000}
    return star("ab ac", policy, latency_ns=10 * MS, bandwidth_bps=10**13)


@pytest.mark.parametrize(("sent_at_ns", "accepted"), [(98_979_999, False), (98_980_000, True)])
def test_case_a25_room_from_the_egress_end_on(sent_at_ns: int, accepted: bool) -> None:
    """Case A25, ruling R2: the first message leaves at 108.98 ms; a byte that arrives in that very nanosecond fits."""
    network = LinkNetwork(a25())
    for size in (9800, 200):
        arrive(network.send("a", "b", size, 0))
    assert isinstance(network.send("a", "b", 1, sent_at_ns), Arrive) == accepted


def test_case_a25_depth_is_shared() -> None:
    """Case A25: 201 bytes for c do not fit beside 9800 for b, although c's egress is idle; 10001 bytes never fit."""
    network = LinkNetwork(a25())
    arrive(network.send("a", "b", 9800, 0))
    assert drop(network.send("a", "c", 201, 0)).reason == "relay_queue_full"
    assert drop(LinkNetwork(a25()).send("a", "b", 10_001, 0)).reason == "relay_queue_full"


def test_no_slot_waits_for_a_later_arrival() -> None:
    """Ruling R1, arrivals that do not rise: c's message is computed second, arrives first and waits for nothing.

    The slot that a's message was given before stands, so here the two overlap: the bound of composing in one call.
    """
    slow = {"ingress_capacity_bps": 10**8, "egress_capacity_bps_per_link": 10**8}
    network = LinkNetwork(hub(slow, a=100, c=10))
    first, second = arrive(network.send("a", "b", 9, 0)), arrive(network.send("c", "d", 9, 1))
    spans = [[notice.at_ns for notice in outcome.notices if notice.relay_delta] for outcome in (first, second)]
    assert spans == [[109, 109 + 90 + 90], [20, 20 + 90 + 90]]
    third = arrive(network.send("c", "d", 9, 95))
    assert [notice.at_ns for notice in third.notices if notice.relay_delta] == [114, 199 + 90 + 90]


def test_room_must_last_for_arrivals_admitted_before() -> None:
    """Ruling R2: a message that arrives earlier than an admitted one is refused if both would not fit together."""
    slow = {"egress_capacity_bps_per_link": 10**7, "queue_depth_bytes": 10}
    for size, accepted in ((4, True), (5, False)):
        network = LinkNetwork(hub(slow, a=300, c=0))
        arrive(network.send("a", "b", 6, 0))  # held from 306 on
        assert isinstance(network.send("c", "d", size, 0), Arrive) == accepted  # held from 4 or 5 to over 400


# --- §5A.5 ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("§5A.5", "Composition is transparent to hosts")
@given(size=st.integers(0, 10_000), at_ns=st.integers(0, 10**9))
def test_composition_is_transparent(size: int, at_ns: int) -> None:
    """One outcome of the same shape as a direct one, later by the relay's serialisation on a second leg of no cost (R4)."""
    policy = {"latency_ns": 7 * MS, "bandwidth_bps": 10**6}
    direct = arrive(LinkNetwork(scenario(links=(link("a", "b", **policy),))).send("a", "b", size, at_ns))
    links = (link("a", "R", **policy), link("R", "b", bandwidth_bps=10**15))
    network = LinkNetwork(scenario(links=links, relays=(relay(egress_capacity_bps_per_link=10**8),)))
    relayed = arrive(network.send("a", "b", size, at_ns))
    assert type(relayed) is type(direct)
    assert relayed.at_ns == direct.at_ns + size + 10 * size
    assert relayed.message_id == direct.message_id


@pytest.mark.spec("§5A.5", "HOL is observable and bounded")
@settings(max_examples=60)
@given(script=st.lists(st.tuples(st.sampled_from("ac"), st.integers(1, 5000)), min_size=2, max_size=6))
def test_head_of_line_blocking(script: list[tuple[str, int]]) -> None:
    """Messages that share an egress arrive in send order, each delayed by the egress times of all in front and by its own.

    So two of one size are the first's egress time apart. Whose they are does not matter. All reach the relay at once, and
    the legs cost nothing.
    """
    network = LinkNetwork(
        hub({"egress_capacity_bps_per_link": 8 * 10**6, "ingress_capacity_bps": 10**15}, 10**15, a=0, c=0)
    )
    arrivals = [arrive(network.send(source, "b", size, 0)).at_ns for source, size in script]
    assert arrivals == [125 * sum(size for _, size in script[: place + 1]) for place in range(len(script))]


@pytest.mark.spec("§5A.5", "HOL is observable and bounded")
def test_a_small_message_waits_for_large_ones() -> None:
    """Two messages of 100 kB at 8 * 10**6 bytes a second leave 12.5 ms apart; a byte of another sender waits for both."""
    fast = {"egress_capacity_bps_per_link": 8 * 10**6, "ingress_capacity_bps": 10**15}
    network = LinkNetwork(hub(fast, bandwidth_bps=10**15, a=0, c=0))
    first, second = (arrive(network.send("a", "b", 100_000, 0)) for _ in range(2))
    small = arrive(network.send("c", "b", 1, 0))
    assert [outcome.at_ns for outcome in (first, second, small)] == [12_500_000, 25_000_000, 25_000_125]
    assert arrive(network.send("c", "d", 100_000, 0)).at_ns == 12_500_000


@pytest.mark.spec("§5A.5", "Ingress and egress are independent")
@given(size=st.integers(0, 100_000))
def test_ingress_and_egress_are_independent(size: int) -> None:
    """Whatever is queued for b, a message for d leaves the egress as fast as if it were alone, and ingress goes on."""
    network = LinkNetwork(hub({"egress_capacity_bps_per_link": 10**6}, a=0, c=0))
    busy = arrive(network.send("a", "b", size, 0))
    other = arrive(network.send("c", "d", 50, size))
    assert other.delay.relay_egress == 50_000
    assert other.delay.relay_ingress <= size + 50
    assert busy.delay.relay_egress == 1000 * size


@pytest.mark.spec("§5A.5", "Queue overflow is exact")
@given(sizes=st.lists(st.integers(1, 600), min_size=1, max_size=8))
def test_queue_overflow_is_exact(sizes: list[int]) -> None:
    """While nothing leaves, a message is accepted exactly if it still fits; each refusal leaves one RelayDrop at arrival."""
    network = LinkNetwork(star("ab", {"queue_depth_bytes": 1024, "egress_capacity_bps_per_link": 1}))
    held = 0
    for size in sizes:
        outcome = network.send("a", "b", size, 0)
        if held + size <= 1024:
            held += size
            arrive(outcome)
        else:
            refusal = drop(outcome)
            assert refusal.reason == "relay_queue_full"
            assert [notice.event["kind"] for notice in refusal.notices if notice.kind_tag == "relay"] == ["RelayDrop"]


@pytest.mark.spec("§5A.5", "Queue overflow is exact")
def test_exactly_full_is_accepted() -> None:
    """512 and 512 bytes fill a queue of 1024; one more byte is refused."""
    network = LinkNetwork(star("ab", {"queue_depth_bytes": 1024, "egress_capacity_bps_per_link": 1}))
    assert [type(network.send("a", "b", size, 0)) for size in (512, 512, 1)] == [Arrive, Arrive, Drop]


@pytest.mark.spec("§5A.5", "Cold-start penalty is paid once per boot")
def test_cold_start_is_paid_once_per_boot() -> None:
    """None at the start of a run (ruling R3); after a boot, of a dead relay or of a running one (R8), once."""
    network = LinkNetwork(star("ab", {"cold_start_penalty_ns": 50 * MS}))
    paid = [arrive(network.send("a", "b", 10, 0)).delay.relay_cold_start]
    network.apply_mutation(KILL, S)
    network.apply_mutation(BOOT, S)
    paid += [arrive(network.send("a", "b", 10, at_ns)).delay.relay_cold_start for at_ns in (S, 2 * S)]
    network.apply_mutation(BOOT, 3 * S)
    paid += [arrive(network.send("a", "b", 10, at_ns)).delay.relay_cold_start for at_ns in (3 * S, 4 * S)]
    assert paid == [0, 50 * MS, 0, 50 * MS, 0]


def test_a_refused_message_does_not_pay_the_cold_start() -> None:
    """The penalty is for the first message that is forwarded; one that the queue refuses leaves the relay booting."""
    network = LinkNetwork(star("ab", {"cold_start_penalty_ns": 7, "queue_depth_bytes": 10}))
    network.apply_mutation(BOOT, 0)
    drop(network.send("a", "b", 11, 0))
    assert arrive(network.send("a", "b", 10, 0)).delay.relay_cold_start == 7


def test_a_message_lost_behind_the_relay_was_forwarded() -> None:
    """Rulings R4, R5: lost before the relay it leaves no trace there; lost behind it, it has held the queue."""
    for leg, kinds in (("aR", []), ("Rb", ["RelayEnqueue", "RelayDequeue"])):
        links = tuple(link(*pair, loss_prob_ppm=10**6 if pair == leg else 0) for pair in ("aR", "Rb"))
        tight = relay(queue_depth_bytes=10, egress_capacity_bps_per_link=1)
        network = LinkNetwork(scenario(links=(*links, link("c", "R"), link("R", "d")), relays=(tight,), peers="abcd"))
        refusal = drop(network.send("a", "b", 10, 0))
        assert refusal.reason == "lossy"
        assert [notice.event["kind"] for notice in refusal.notices if notice.kind_tag == "relay"] == kinds
        assert isinstance(network.send("c", "d", 1, 20), Drop) == bool(kinds)


def test_capacities_count_from_the_change_on() -> None:
    """Ruling R9: what is sent before keeps its times, what is sent after uses the new ones; nothing is invalidated."""
    network = LinkNetwork(star("ab", {"egress_capacity_bps_per_link": 10**6, "queue_depth_bytes": 10**6}))
    before = arrive(network.send("a", "b", 100, 0))
    change = RelayCapacityChange(
        at_ns=10, relay="R", ingress_capacity_bps=10**8, egress_capacity_bps_per_link=10**7, queue_depth_bytes=100
    )
    assert network.apply_mutation(change, 10) == LinkNetwork(star()).apply_mutation(BOOT, 0)
    assert drop(network.send("a", "b", 1, 20)).reason == "relay_queue_full"
    after = arrive(network.send("a", "b", 100, before.at_ns + 1000))
    assert (before.delay.relay_egress, after.delay.relay_ingress, after.delay.relay_egress) == (100_000, 1000, 10_000)


def test_a_dead_relay_refuses_at_the_door() -> None:
    """Ruling R7: `relay_down` with one RelayDrop at send time, until the relay boots."""
    network = LinkNetwork(star())
    network.apply_mutation(KILL, 5)
    refusal = drop(network.send("a", "b", 3, 6))
    assert (refusal.reason, brief(refusal.notices)) == ("relay_down", [(6, "RelayDrop", "down")])
    network.apply_mutation(BOOT, 7)
    arrive(network.send("a", "b", 3, 7))


def test_conn_down_cuts_one_ordered_pair_for_its_time() -> None:
    """Directional, half-open, its own reason and record; overlapping times are their union; 0 is for good."""
    network = LinkNetwork(star("ab ba ac"))
    down = RelayPeerConnDown(at_ns=10, relay="R", source="a", target="b", duration_ns=20)
    network.apply_mutation(down, 10)
    network.apply_mutation(RelayPeerConnDown(at_ns=15, relay="R", source="a", target="b", duration_ns=5), 15)
    refusal = drop(network.send("a", "b", 3, 29))
    assert refusal.reason == "relay_peer_conn_down"
    assert brief(refusal.notices) == [(29, "RelayDrop", "peer_conn_down")]
    assert [type(network.send(*pair, 3, 29)) for pair in ("ba", "ac")] == [Arrive, Arrive]
    arrive(network.send("a", "b", 3, 30))
    network.apply_mutation(RelayPeerConnDown(at_ns=40, relay="R", source="a", target="b"), 40)
    assert drop(network.send("a", "b", 3, 10**17)).reason == "relay_peer_conn_down"
