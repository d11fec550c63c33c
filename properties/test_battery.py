"""The battery's families whose table names a property: A, D and F (the others are files alone)."""

from collections.abc import Mapping
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.assertions import (
    AllAliveAt,
    Assertion,
    ConvergenceAfter,
    NameResolvesWithin,
    NoDeadWhenProbesOk,
    NoFlapWhileProbesOk,
)
from simharness.contracts.mutations import Heal, Mutation, Partition, RelayPeerConnDown
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_S
from simharness.scenario.emit import emit
from simharness.stateful import session
from simharness.stateful.library.relayed import OWN_RELAY, AsymmetricLoss, RelayConnDrop, behind
from simharness.stateful.playing import play
from simharness.stateful.pools import ints, seeds
from simharness.stateful.session import KINDS, Options
from simharness.stateful.spaces import swim_cluster

TestRelayConnDrop = RelayConnDrop.TestCase
TestAsymmetricLoss = AsymmetricLoss.TestCase


# --- F: compound faults -------------------------------------------------------------------------------------------------

QUIET_S: Final = 25
PEERS: Final = ("a", "b", "c")

Times = Mapping[str, int]
"""Seconds: when each fault begins, and how long it lasts."""

TIMES = st.fixed_dictionaries(
    {"cut_s": ints(2, 12), "cut_length_s": ints(1, 20), "down_s": ints(2, 35), "down_length_s": ints(1, 20)}
)


def partition(times: Times) -> tuple[Mutation, ...]:
    """Return the first fault: b and c cannot reach each other."""
    start_ns, end_ns = times["cut_s"] * NS_PER_S, (times["cut_s"] + times["cut_length_s"]) * NS_PER_S
    return Partition(at_ns=start_ns, peers_a=("b",), peers_b=("c",)), Heal(at_ns=end_ns)


def conn_down(times: Times) -> tuple[Mutation, ...]:
    """Return the second fault: nothing goes from a to c."""
    start_ns, length_ns = times["down_s"] * NS_PER_S, times["down_length_s"] * NS_PER_S
    return (RelayPeerConnDown(at_ns=start_ns, relay=OWN_RELAY.id, source="a", target="c", duration_ns=length_ns),)


def claims(last_ns: int) -> tuple[Assertion, ...]:
    """Return what must hold whatever the faults: no flap and no death while probes succeed, and recovery once they are over."""
    end_ns = last_ns + QUIET_S * NS_PER_S
    guarded: list[Assertion] = []
    for peer in PEERS:
        guarded.append(NoFlapWhileProbesOk(peer=peer, window_start_ns=0, window_end_ns=end_ns))
        guarded.append(NoDeadWhenProbesOk(peer=peer, window_start_ns=0, window_end_ns=end_ns))
    names = NameResolvesWithin(name="pp-c", observers=("a", "b"), from_ns=end_ns - NS_PER_S, within_ns=NS_PER_S)
    agreement = ConvergenceAfter(after_ns=last_ns, within_ns=QUIET_S * NS_PER_S, peers=PEERS)
    return (*guarded, agreement, AllAliveAt(at_ns=end_ns, peers=PEERS), names)


def scenario_of(times: Times, script: tuple[Mutation, ...], seed: int) -> Scenario:
    """Return three peers behind their own relay, under one script, judged by the claims."""
    last_s = max(times["cut_s"] + times["cut_length_s"], times["down_s"] + times["down_length_s"])
    cluster = swim_cluster(
        {"peers": 3, "latency_ms": 60, "jitter_ms": 15},
        duration_ms=(last_s + QUIET_S) * 1_000,
        cold_dial_ms=200,
        timeout_ms=1_200,
        suspicion_ms=3_750,
        occupancy="wire",
        own=lambda peer: {"names": [f"pp-{peer}"]},
        script=tuple(sorted(script, key=lambda mutation: mutation.at_ns)),
        snapshots_ms=tuple(range(1_000, (last_s + QUIET_S) * 1_000 + 1, 1_000)),
    )
    scenario = behind(OWN_RELAY, cluster)
    return msgspec.structs.replace(scenario, name="compound", seed=seed, assertions=claims(last_s * NS_PER_S))


def violated(scenario: Scenario) -> set[str]:
    """Return which claims a run violates, as `a<index>`; Inconclusive ones are none."""
    return {verdict.name for verdict in play(scenario, KINDS).verdicts() if verdict.outcome == "Fail"}


def excess(times: Times, seed: int) -> set[str]:
    """Return the claims that both faults together violate and neither violates alone: a compound bug, if any."""
    one, other = partition(times), conn_down(times)
    alone = violated(scenario_of(times, one, seed)) | violated(scenario_of(times, other, seed))
    return violated(scenario_of(times, (*one, *other), seed)) - alone


FILED: Final = {f"a{place}" for place, claim in enumerate(claims(0)) if isinstance(claim, NoDeadWhenProbesOk)}
"""The compound bug that stands as `scenarios/battery/f_compound/buried_by_rumour.toml`: a Dead rumour is believed unverified."""


@settings(max_examples=20)
@given(times=TIMES, seed=seeds())
def test_two_faults_violate_no_more_than_each_alone(times: Times, seed: int) -> None:
    """Family F over overlap, order and length: what the compound violates is within the union of its parts, or filed."""
    both = scenario_of(times, (*partition(times), *conn_down(times)), seed)
    assert excess(times, seed) <= FILED, emit(both)


def test_the_filed_compound_bug_is_still_there() -> None:
    """What the property lets pass happens: once it does not, the exception above goes."""
    times = {"cut_s": 12, "cut_length_s": 20, "down_s": 18, "down_length_s": 18}
    assert excess(times, 29) & FILED


def test_a_compound_bug_is_found() -> None:
    """With names that a false death erases, the same comparison finds an excess: the name, and nothing else."""
    times = {"cut_s": 2, "cut_length_s": 20, "down_s": 5, "down_length_s": 15}
    with session.using(Options(seed=0, swim_defects=("FALSE_DEATH_ERASES_NAMES",))):
        names = f"a{len(claims(0)) - 1}"
        assert excess(times, 0) == {names}
    assert excess(times, 0) == set()
