"""Faults: every kind has a rule, each draw means something, and removing one fault leaves the others as they are."""

import pytest
from hypothesis import find, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from simharness.contracts.mutations import (
    MUTATION_TYPES,
    ClockDrift,
    Heal,
    Partition,
    PeerKill,
    PeerResurrect,
    RelayBoot,
    RelayCapacityChange,
    RelayKill,
    kind_of,
)
from simharness.core.errors import InputError
from simharness.run import kinds_of
from simharness.stateful import SimulationMachine, meshes, relayed, swarm
from simharness.stateful.aims import draws
from simharness.stateful.faults import FAULTS
from simharness.stateful.session import KINDS
from simharness.stateful.situation import Situation

EVERY = swarm(*FAULTS)


def situation(space=None):
    base = find(relayed(peers=4) if space is None else space, lambda _: True)
    return Situation(base, kinds_of(base, KINDS))


def stages():
    return meshes(kind="stage", peers=3, initial_state="cold", config={"name": "s", "address": "x:1"})


def test_every_mutation_kind_has_a_rule():
    """A kind that the contract gains needs a rule, a maker and a name of its own."""
    machine = type("Everything", (SimulationMachine,), {"faults": EVERY})
    rules = [rule.function.__name__ for rule in machine.setup_state().rules]
    assert sorted(rules) == sorted((*FAULTS, "advance", "snapshot", "idle"))
    assert tuple(of.__struct_config__.tag for of in MUTATION_TYPES) == FAULTS


def test_a_machine_has_only_the_rules_of_its_swarm():
    """Kinds outside the swarm cost nothing; a subclass with another swarm gets its own rules back."""
    calm = type("Calm", (SimulationMachine,), {})
    cut = type("Cut", (calm,), {"faults": swarm("partition")})
    names = {machine: [rule.function.__name__ for rule in machine.setup_state().rules] for machine in (calm, cut)}
    assert sorted(names[calm]) == ["advance", "idle", "snapshot"]
    assert sorted(names[cut]) == ["advance", "idle", "partition", "snapshot"]


def test_an_unknown_fault_names_the_choices():
    """Bad input: one error, with every kind in it."""
    with pytest.raises(InputError, match="unknown fault kind 'partitoin'; choose from partition, heal, latency_spike"):
        swarm("partition", "partitoin")


def test_subsets_shrink_to_none_and_reach_each():
    """Swarm testing: every kind may be drawn, alone or with most of the others; the simplest subset is empty."""
    assert find(EVERY.subsets(), lambda _: True) == ()
    assert [find(EVERY.subsets(), lambda on, kind=kind: kind in on) for kind in FAULTS] == [(kind,) for kind in FAULTS]
    most = len(FAULTS) * 2 // 3
    assert len(find(EVERY.subsets(), lambda on: len(on) >= most)) == most


@settings(max_examples=150)
@given(data=st.data())
def test_what_is_allowed_can_be_drawn_and_means_something(data):
    """From any situation that faults lead to, an allowed kind gives a mutation of that kind that changes something."""
    base = data.draw(st.one_of(relayed(peers=4), meshes(peers=3), stages(), meshes(peers=1)))
    now = Situation(base, kinds_of(base, KINDS))
    for at_ns in range(data.draw(st.integers(0, 8))):
        allowed = [kind for kind in FAULTS if now.allows(kind)]
        if not allowed:
            break
        mutation = data.draw(draws(data.draw(st.sampled_from(allowed)), EVERY, now, at_ns))
        assert mutation.at_ns == at_ns
        match mutation:
            case PeerKill(peer=peer):
                assert now.is_up(peer)
            case PeerResurrect(peer=peer):
                assert not now.is_up(peer)
            case RelayKill(relay=relay):
                assert relay not in now.down
            case RelayBoot(relay=relay):
                assert relay in now.down
            case Heal():
                assert now.cut
            case Partition(peers_a=one, peers_b=other):
                assert one
                assert other
                assert not set(one) & set(other)
        now.apply(mutation)


@pytest.mark.parametrize(
    ("space", "never"),
    [
        (meshes(peers=3), ("worker_exit", "relay_kill", "relay_boot", "relay_capacity_change", "relay_peer_conn_down")),
        (meshes(peers=1), ("partition", "latency_spike", "duplicate_burst", "relay_buffer", "peer_kill", "peer_slow")),
        (stages(), ("relay_kill", "peer_resurrect", "heal")),
    ],
)
def test_no_kind_without_a_target(space, never):
    """Relays' mutations need a relay, links' a link, and a worker exit a kind that accepts it (§6A.3)."""
    now = situation(space)
    assert [kind for kind in never if now.allows(kind)] == []
    assert situation(stages()).allows("worker_exit")


def test_the_quiet_phase_ends_what_would_last():
    """Partitions heal, relays come back with their declared policy, and every peer is there again."""
    now = situation()
    for mutation in (
        Partition(at_ns=0, peers_a=("a",), peers_b=("b",)),
        PeerKill(at_ns=1, peer="c"),
        RelayCapacityChange(at_ns=2, relay="R", queue_depth_bytes=1),
        RelayKill(at_ns=3, relay="R"),
        ClockDrift(at_ns=4, peer="d", drift_ppm=100),
    ):
        now.apply(mutation)
    undone = now.undo(9)
    assert [kind_of(mutation) for mutation in undone] == [
        "heal",
        "relay_capacity_change",
        "relay_boot",
        "peer_resurrect",
        "clock_drift",
        "clock_offset",
    ]
    assert undone[1].queue_depth_bytes == 65_536
    for mutation in undone:
        now.apply(mutation)
    assert not now.cut
    assert not now.down
    assert all(map(now.is_up, "abcd"))


@pytest.mark.parametrize("kind", ["partition", "loss_burst", "duplicate_burst", "relay_peer_conn_down", "peer_kill"])
def test_earlier_faults_do_not_change_later_draws(kind):
    """One choice sequence aims at the same peers whether or not a fault on somebody else came before."""
    faults = (PeerKill(at_ns=1, peer="a"), Partition(at_ns=1, peers_a=("a",), peers_b=("b",)))
    compared = 0
    for number in range(12):
        plain = _drawn(kind, (), number)
        if getattr(plain, "peer", None) != "a":
            compared += 1
            assert _drawn(kind, faults, number) == plain
    assert compared > 6


def _drawn(kind, after, number):
    """Return the fault that one seed gives in the situation after some others."""
    now = situation()
    for mutation in after:
        now.apply(mutation)
    found = []

    @settings(max_examples=2, database=None)
    @with_seed(number)
    @given(draws(kind, EVERY, now, 5))
    def take(mutation):
        found.append(mutation)

    take()
    return found[-1]
