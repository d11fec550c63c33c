"""Timed effects: scoping, nesting and expiry (§5.5, ruling N16)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.mutations import Heal, LatencySpike, LossBurst, Partition, RelayBuffer
from simharness.contracts.network import Arrive, Drop, SendOutcome
from simharness.network.model import LinkNetwork
from simharness.network.windows import Floor, Override, Windows
from tests.network.build import MS, S, arrive, link, refs, relay, scenario

WINDOWS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 12), st.integers(0, 4)), max_size=8)


@given(steps=WINDOWS, ahead=st.integers(0, 12))
def test_windows_equal_a_plain_list(steps: list[tuple[int, int, int]], ahead: int) -> None:
    """Ruling N16: the latest applied of the active windows wins, floors take the maximum; forgetting changes no answer."""
    override, floor, applied, now = Override(), Floor(), [], 0
    for gap, duration, value in steps:
        now += gap
        for effect in (override, floor):
            effect.forget(now)
            effect.put(now + duration, value)
        applied.append((now, now + duration, value))
        for when in (now, now + ahead):
            active = [value for start, end, value in applied if start <= when < end]
            assert override.at(when) == (active[-1] if active else None)
            assert floor.at(when) == max(active, default=0)
    last = max((end for _, end, _ in applied), default=0)
    assert not override.forget(last)
    assert not floor.forget(last)


def test_windows_are_gone_when_all_have_ended() -> None:
    """A leg whose windows have all ended forgets them (ruling N16): its sends are as cheap as before."""
    windows = Windows()
    windows.spike_x100.put(10, 300)
    windows.burst_ppm.put(12, 5)
    windows.floor_ns.put(20, 7)
    assert [windows.forget(now) for now in (0, 10, 12, 19, 20)] == [True, True, True, True, False]
    network = LinkNetwork(scenario())
    network.apply_mutation(LatencySpike(at_ns=0, links=refs("a>b"), factor_x100=300, duration_ns=10), 0)
    arrive(network.send("a", "b", 1, 10))
    assert network._named(RelayBuffer(at_ns=10, links=refs("a>b"), floor_ns=1, duration_ns=1))[0]._windows is None


def spike(at_ns: int, *links: str, factor_x100: int = 300, duration_ns: int = 2 * S) -> LatencySpike:
    return LatencySpike(at_ns=at_ns, links=refs(*links), factor_x100=factor_x100, duration_ns=duration_ns)


def test_spike_and_burst_on_one_link() -> None:
    """Case B11, first input: a spike in [1 s, 3 s) and a total burst in [2 s, 4 s) do not end each other."""
    network = LinkNetwork(scenario(latency_ns=20 * MS))
    burst = LossBurst(at_ns=2 * S, links=refs("a>b"), prob_ppm=10**6, duration_ns=2 * S)
    gained: list[Any] = []
    for half in range(1, 10):
        at_ns = half * S // 2
        if at_ns == S:
            network.apply_mutation(spike(S, "a>b"), S)
        elif at_ns == 2 * S:
            network.apply_mutation(burst, at_ns)
        elif half % 2:
            outcome = network.send("a", "b", 0, at_ns)
            gained.append(outcome.at_ns - at_ns if isinstance(outcome, Arrive) else outcome.reason)
    assert gained == [20 * MS, 60 * MS, "lossy", "lossy", 20 * MS]


def test_nested_bursts() -> None:
    """Case B11, second input: when the inner burst ends, the outer one is in force again, not the base."""
    network = LinkNetwork(scenario(loss_prob_ppm=10**6))
    bursts = {1: LossBurst(at_ns=S, links=refs("a>b"), prob_ppm=0, duration_ns=3 * S)}
    bursts[2] = LossBurst(at_ns=2 * S, links=refs("a>b"), prob_ppm=10**6, duration_ns=S)
    kinds: list[type[SendOutcome]] = []
    for second in range(5):
        if second in bursts:
            network.apply_mutation(bursts[second], second * S)
        kinds.append(type(network.send("a", "b", 0, second * S + S // 2)))
    assert kinds == [Drop, Arrive, Drop, Arrive, Drop]


def test_partitions_add_up_until_heal() -> None:
    """Case B11, third input, and ruling N13: a second partition adds to the first; one Heal clears both."""
    network = LinkNetwork(scenario("abcd"))
    network.apply_mutation(Partition(at_ns=1, peers_a=("a",), peers_b=("b",)), 1)
    network.apply_mutation(Partition(at_ns=2, peers_a=("c",), peers_b=("d",)), 2)
    assert [type(network.send(*pair, 0, 3)) for pair in ("ab", "ba", "cd", "dc", "ac")] == [Drop] * 4 + [Arrive]
    network.apply_mutation(Heal(at_ns=4), 4)
    assert [type(network.send(*pair, 0, 4)) for pair in ("ab", "ba", "cd", "dc")] == [Arrive] * 4


@pytest.mark.parametrize(
    ("factor_x100", "gained"), [(0, 0), (50, 500), (100, 1001), (333, 3333)], ids=["none", "half", "same", "floored"]
)
def test_spike_scales_latency_and_nothing_else(factor_x100: int, gained: int) -> None:
    """§5.4 step 6 by value, rounded down: 10 ns of transmission and a dial of 7 are not scaled."""
    network = LinkNetwork(scenario(latency_ns=1001, cold_dial_penalty_ns=7))
    network.apply_mutation(spike(0, "a>b", factor_x100=factor_x100), 0)
    assert arrive(network.send("a", "b", 10, 0)).at_ns == 10 + gained + 7


def test_floor_comes_before_the_dial() -> None:
    """Ruling N3: the floor lifts the arrival to send plus floor, the penalty stands on top; a slower send is not lifted."""
    network = LinkNetwork(scenario(latency_ns=10, cold_dial_penalty_ns=7))
    network.apply_mutation(RelayBuffer(at_ns=0, links=refs("a>b", "a>c"), floor_ns=100, duration_ns=50), 0)
    outcome = arrive(network.send("a", "b", 5, 0))
    assert (outcome.at_ns, outcome.delay.relay_buffer) == (107, 85)
    outcome = arrive(network.send("a", "c", 95, 0))
    assert (outcome.at_ns, outcome.delay.relay_buffer) == (112, 0)


@pytest.mark.spec("§5.7", "Mutation scoping")
@given(
    named=st.sets(st.sampled_from(["a>b", "b>a", "a>c", "c>b"]), min_size=1),
    start=st.integers(0, 20),
    duration=st.integers(0, 20),
    kind=st.sampled_from(["spike", "burst", "floor"]),
)
def test_mutation_scoping(named: set[str], start: int, duration: int, kind: str) -> None:
    """An effect changes exactly the sends on its links in [start, start + duration)."""
    links = refs(*sorted(named))
    mutation: Any = {
        "spike": LatencySpike(at_ns=start, links=links, factor_x100=200, duration_ns=duration),
        "burst": LossBurst(at_ns=start, links=links, prob_ppm=10**6, duration_ns=duration),
        "floor": RelayBuffer(at_ns=start, links=links, floor_ns=9, duration_ns=duration),
    }[kind]
    plain = scenario(latency_ns=1, cache_invalidate_after_idle_ns=100)
    changed, twin = LinkNetwork(plain), LinkNetwork(plain)
    for at_ns in range(0, 45, 9):  # far enough apart that no send waits for another
        if at_ns - 9 < start <= at_ns:
            changed.apply_mutation(mutation, start)
        for pair in ("a>b", "b>a", "a>c", "c>b", "b>c"):
            outcomes = [network.send(pair[0], pair[2], 0, at_ns) for network in (changed, twin)]
            touched = pair in named and start <= at_ns < start + duration
            if touched:
                assert outcomes[0] != outcomes[1]
            elif isinstance(outcomes[0], Arrive):
                assert outcomes[0].delay._replace(dial=0) == arrive(outcomes[1]).delay
            else:
                raise AssertionError(outcomes[0])


def test_a_relayed_pair_means_both_its_legs() -> None:
    """Ruling N17: a spike on a via pair doubles both legs, one on a leg by name doubles that leg alone."""
    via = (link("a", "b", "R", latency_ns=10 * MS),)
    delays = []
    for name in ("a>b", "a>R", "R>b"):
        network = LinkNetwork(scenario(links=via, relays=(relay(),)))
        network.apply_mutation(spike(0, name, factor_x100=200), 0)
        delays.append(arrive(network.send("a", "b", 0, 0)).at_ns)
    assert delays == [40 * MS, 30 * MS, 30 * MS]


def test_a_leg_beyond_a_relay_is_judged_at_egress() -> None:
    """Ruling N16: a window counts at the leg's own send time, so one that ends before the egress misses the outbound leg."""
    links = (link("a", "b", "R", latency_ns=10),)
    for duration_ns, at_ns in ((10, 30), (11, 40)):  # egress at 20: the inbound leg is spiked to 20
        network = LinkNetwork(scenario(links=links, relays=(relay(),)))
        network.apply_mutation(spike(0, "a>b", factor_x100=200, duration_ns=duration_ns + 10), 0)
        assert arrive(network.send("a", "b", 0, 0)).at_ns == at_ns


def test_adding_a_window_ends_no_other() -> None:
    """A floor put on a link at 8 leaves the spike of [0, 10) in force at 9 and not at 10."""
    network = LinkNetwork(scenario(latency_ns=100))
    network.apply_mutation(spike(0, "a>b", "a>c", duration_ns=10), 0)
    network.apply_mutation(RelayBuffer(at_ns=8, links=refs("a>b", "a>c"), floor_ns=1, duration_ns=50), 8)
    assert [arrive(network.send("a", target, 0, at_ns)).at_ns for target, at_ns in (("b", 9), ("c", 10))] == [309, 110]


def test_a_window_outlives_a_send_that_is_ahead_of_it() -> None:
    """A message that leaves the relay after the window does not end it for one that is sent later and leaves before."""
    links = (link("a", "R", latency_ns=500), link("c", "R"), link("R", "b", latency_ns=100, occupancy="wire"))
    network = LinkNetwork(scenario(links=links, relays=(relay(),)))
    network.apply_mutation(spike(0, "R>b", duration_ns=200), 0)
    assert arrive(network.send("a", "b", 0, 0)).delay.latency_spike == 0  # leaves R at 500
    assert arrive(network.send("c", "b", 0, 50)).delay.latency_spike == 200  # leaves R at 50
