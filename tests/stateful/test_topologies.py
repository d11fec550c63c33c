"""Scenario spaces: everything drawn passes the loader, and shrinks to the smallest scenario there is."""

import msgspec
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from simharness.contracts.topology import Topology
from simharness.core.errors import InputError, ScenarioError
from simharness.core.units import NS_PER_MS
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.stateful import (
    HEAL,
    LATENCY_SPIKE,
    LOSS_BURST,
    PARTITION,
    PEER_KILL,
    PEER_RESURRECT,
    NoFlapWhileProbesOk,
    chains,
    ints,
    links,
    meshes,
    relayed,
    relays,
    rings,
    scenarios,
    session,
    stars,
    swarm,
    swim_meshes,
)
from simharness.stateful.faults import FAULTS
from simharness.stateful.session import KINDS, Options
from simharness.stateful.topologies import peer_ids
from tests.stateful.toy import StreamKind

SHAPES = {"full": meshes, "ring": rings, "star": stars, "chain": chains, "relayed": relayed}


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15)
@given(data=st.data())
def test_a_base_passes_the_loader(shape, data):
    """Emitting and loading gives the same value back, for every shape and every number of peers."""
    base = data.draw(SHAPES[shape](peers=ints(1, 9), link=links(latency_ms=ints(0, 300), loss_ppm=ints(0, 1_000_000))))
    assert loads(emit(base), KINDS) == base


@settings(max_examples=15)
@given(base=swim_meshes(peers=ints(1, 8), probe_timeout_ms=ints(50, 400, step=50), snapshot_every_ms=1_000))
def test_a_swim_base_passes_the_loader(base):
    """The kind's own validation has filled in its defaults, and validates them again unchanged."""
    assert loads(emit(base), KINDS) == base
    assert all(peer.kind_config["defects"] == [] for peer in base.peers)
    assert base.snapshots[0].at_ns == 1_000 * NS_PER_MS


@pytest.mark.parametrize(
    ("shape", "linked"),
    [("full", 12), ("ring", 8), ("star", 6), ("chain", 6), ("relayed", 12)],
)
def test_who_is_linked(shape, linked):
    """Four peers: how many ordered pairs have a route."""
    topology = Topology(find(SHAPES[shape](peers=4), lambda _: True))
    routes = [topology.route(a, b) for a in "abcd" for b in "abcd" if a != b]
    assert sum(route is not None for route in routes) == linked


def test_a_base_shrinks_to_few_peers_and_seed_0():
    """Whatever the space, its simplest scenario has the fewest peers, the smallest numbers and seed 0."""
    base = find(swim_meshes(peers=ints(3, 9), latency_ms=ints(10, 150), loss_ppm=ints(100, 9_000)), lambda _: True)
    assert [peer.id for peer in base.peers] == ["a", "b", "c"]
    assert (base.seed, base.default_link.latency_ns, base.default_link.loss_prob_ppm) == (0, 10 * NS_PER_MS, 100)


ALL = swarm(*FAULTS)


@settings(max_examples=40)
@given(
    whole=scenarios(
        st.one_of(
            swim_meshes(peers=ints(2, 4)),
            relayed(peers=ints(2, 4)),
            meshes(kind="stage", initial_state="cold", config={"name": "s", "address": "x:1"}),
        ),
        faults=ALL,
        duration_ms=ints(1_000, 9_000),
        snapshot_every_ms=500,
        assertions=(NoFlapWhileProbesOk.each_peer(kind="swim"),),
    )
)
def test_a_whole_scenario_passes_the_loader(whole):
    """Random faults of every kind, snapshots and assertions: what is drawn is what a file could say (§8.2)."""
    assert loads(emit(whole), KINDS) == whole
    times = [mutation.at_ns for mutation in whole.mutations]
    assert times == sorted(times)


def test_a_whole_scenario_shrinks_to_one_early_fault():
    """Asked for a kill, the simplest timeline is that kill at 0 of the first peer."""
    faults = swarm(PARTITION, HEAL, LOSS_BURST, LATENCY_SPIKE, PEER_KILL, PEER_RESURRECT)
    space = scenarios(swim_meshes(peers=ints(3, 6)), faults=faults)
    least = find(space, lambda drawn: any(msgspec.to_builtins(m)["kind"] == PEER_KILL for m in drawn.mutations))
    assert [msgspec.to_builtins(mutation) for mutation in least.mutations] == [
        {"kind": "peer_kill", "at_ns": 0, "peer": "a"}
    ]
    assert len(least.peers) == 3


def test_a_foreign_kind_may_be_handed_over():
    """A kind object is enough: it is registered, and its scenarios load."""
    base = find(meshes(kind=StreamKind(), peers=2), lambda _: True)
    assert base.peers[0].kind == "stream"
    assert loads(emit(base), KINDS) == base


def test_what_a_kind_refuses_is_named():
    """A bad configuration, an unknown kind, an unknown profile: structured errors that name the rule."""
    with pytest.raises(InputError, match=r"unknown host kind 'ecko'; choose from .*echo, "):
        find(meshes(kind="ecko"), lambda _: True)
    with pytest.raises(ScenarioError, match=r"peers\[0\].kind_config.size\nrule: unknown field"):
        find(meshes(kind="echo", config={"size": 1}), lambda _: True)
    with pytest.raises(ScenarioError, match="profile\nrule: must be one of current, deployed"):
        find(swim_meshes(profile="future"), lambda _: True)


def test_the_session_switches_swim_on():
    """K1: the session's profile and defects reach every SWIM peer of a space, beside the space's own."""
    options = Options(swim_profile="deployed", swim_defects=("ACK_DISPATCHED_AS_PING",))
    with session.using(options):
        base = find(swim_meshes(defects=("UNORDERED_MEMBERS",)), lambda _: True)
    table = base.peers[0].kind_config
    assert table["profile"] == "deployed"
    for defect in ("ACK_DISPATCHED_AS_PING", "UNORDERED_MEMBERS", "REFUTE_STALE_CLAIM"):
        assert defect in table["defects"]
    assert find(swim_meshes(), lambda _: True).peers[0].kind_config["defects"] == []


def test_relay_policies_are_numbers_or_spaces():
    """A relay's policy may be fixed or drawn."""
    space = relayed(peers=2, via=relays(egress_bps=ints(100, 1_000), queue_bytes=512, cold_start_ms=3))
    relay = find(space, lambda _: True).relays[0]
    assert (relay.egress_capacity_bps_per_link, relay.queue_depth_bytes) == (100, 512)
    assert relay.cold_start_penalty_ns == 3 * NS_PER_MS


def test_ids_sort_as_they_count():
    """Ids are letters while they last, then numbers of one width: sorted order is declared order."""
    for count in (1, 26, 27, 1_000, 10_000):
        ids = peer_ids(count)
        assert len(ids) == count
        assert list(ids) == sorted(ids)
