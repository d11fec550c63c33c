"""Counters are raised where an effect is visible: with the effect they count, with it suppressed they are zero (ruling K8)."""

import pytest
from hypothesis import find

from simharness.contracts.assertions import MessageSizeBounded
from simharness.contracts.links import LinkRef
from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    DuplicateBurst,
    Heal,
    LatencySpike,
    LossBurst,
    Partition,
    PeerKill,
    PeerPause,
    PeerResurrect,
    PeerSlow,
    RelayBoot,
    RelayBuffer,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
    WorkerExit,
)
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_MS, NS_PER_S
from simharness.stateful import SimulationMachine, ints, links, meshes, relays, swarm
from simharness.stateful.coverage import COUNTERS, DelayEffects, check_counter, count, needs_observer
from simharness.stateful.driven import DrivenRun
from simharness.stateful.faults import FAULTS
from simharness.stateful.session import KINDS, Ledger
from simharness.stateful.summary import added_up, silent_counters, summary_of, table, too_inconclusive
from tests.stateful.running import explore
from tests.stateful.toy import StreamKind

MS, S = NS_PER_MS, NS_PER_S
AB = (LinkRef(source="a", target="b"),)
BUSY, SILENT = {}, {"targets": []}
"""Configurations of an echo peer: one that sends on every tick, and one that never does, so that no fault finds a message."""


def echo(config, *, via=False):
    space = meshes(
        peers=3, config=config, link=links(latency_ms=20), **({"via": relays(cold_start_ms=50)} if via else {})
    )
    return find(space, lambda _: True)


def stage(config):
    del config
    return find(meshes(kind="stage", initial_state="cold", config={"name": "s", "address": "x:1"}), lambda _: True)


def counted(base, *mutations):
    """Return the counters of a run of five seconds with these mutations."""
    run = DrivenRun(base, KINDS, (), DelayEffects())
    for mutation in mutations:
        run.advance(mutation.at_ns)
        run.inject(mutation)
    run.advance(5 * S)
    played = run.finish("x")
    return count(played.records, played.scenario.mutations, played.verdicts(), run.delays)


CUT = Partition(at_ns=S, peers_a=("a",), peers_b=("b",))
WITH_EFFECT = {
    "partition": (echo, False, (CUT,)),
    "heal": (echo, False, (CUT, Heal(at_ns=2 * S))),
    "latency_spike": (echo, False, (LatencySpike(at_ns=S, links=AB, factor_x100=300, duration_ns=S),)),
    "loss_burst": (echo, False, (LossBurst(at_ns=S, links=AB, prob_ppm=1_000_000, duration_ns=S),)),
    "duplicate_burst": (echo, False, (DuplicateBurst(at_ns=S, links=AB, prob_ppm=1_000_000, duration_ns=S),)),
    "relay_buffer": (echo, False, (RelayBuffer(at_ns=S, links=AB, floor_ns=90 * MS, duration_ns=S),)),
    "peer_kill": (echo, False, (PeerKill(at_ns=S, peer="b"),)),
    "relay_kill": (echo, True, (RelayKill(at_ns=S, relay="R"),)),
    "relay_boot": (echo, True, (RelayKill(at_ns=S, relay="R"), RelayBoot(at_ns=2 * S, relay="R"))),
    "relay_capacity_change": (
        echo,
        True,
        (RelayCapacityChange(at_ns=S, relay="R", egress_capacity_bps_per_link=5_000),),
    ),
    "relay_peer_conn_down": (echo, True, (RelayPeerConnDown(at_ns=S, relay="R", source="a", target="b"),)),
}


@pytest.mark.parametrize("kind", WITH_EFFECT)
def test_an_effect_is_counted_and_its_absence_is_not(kind):
    """The same mutation counts among peers that send, and counts nothing among peers that are silent."""
    base, via, mutations = WITH_EFFECT[kind]
    options = {"via": via} if via else {}
    assert counted(base(BUSY, **options), *mutations)[kind] > 0
    assert counted(base(SILENT, **options), *mutations)[kind] == 0


def test_a_resurrection_counts_by_what_the_peer_does_afterwards():
    """K8: a peer that was brought back acts again; one that was not acts no more, and a silent one cannot be seen to."""
    kill, back = PeerKill(at_ns=S, peer="b"), PeerResurrect(at_ns=2 * S, peer="b")
    assert counted(echo(BUSY), kill, back)["peer_resurrect"] > 0
    assert counted(echo(BUSY), kill)["peer_resurrect"] == 0
    assert counted(echo(SILENT), kill, back)["peer_resurrect"] == 0


def test_a_worker_exit_counts_by_the_host_call():
    """K8: the exit of a running stage leaves records; one that is aimed at a dead stage is never delivered."""
    leave = WorkerExit(at_ns=2 * S, peer="b", reason="done")
    assert counted(stage({}), leave)["worker_exit"] > 0
    assert counted(stage({}), PeerKill(at_ns=S, peer="b"), leave)["worker_exit"] == 0


ON_A_LIVE_PEER = {
    "peer_pause": (PeerPause(at_ns=2 * S, peer="b", duration_ns=S), PeerPause(at_ns=2 * S, peer="b", duration_ns=1)),
    "peer_slow": (
        PeerSlow(at_ns=2 * S, peer="b", factor_x100=300, duration_ns=S),
        PeerSlow(at_ns=2 * S, peer="b", factor_x100=100, duration_ns=S),
    ),
    "clock_offset": (ClockOffset(at_ns=2 * S, peer="b", offset_ns=5), ClockOffset(at_ns=2 * S, peer="b", offset_ns=0)),
    "clock_drift": (ClockDrift(at_ns=2 * S, peer="b", drift_ppm=900), ClockDrift(at_ns=2 * S, peer="b", drift_ppm=0)),
}
"""A mutation that changes calls of its peer, and one of the same kind that changes none."""


@pytest.mark.parametrize("kind", ON_A_LIVE_PEER)
def test_a_fault_of_the_process_counts_by_the_host_calls(kind):
    """K8, K2: a tick that did not come, a wrong time in a call, an envelope; not if the peer is dead or the fault is nothing."""
    base = find(meshes(kind=StreamKind()), lambda _: True)
    fault, nothing = ON_A_LIVE_PEER[kind]
    assert counted(base, fault)[kind] > 0
    assert counted(base, nothing)[kind] == 0
    assert counted(base, PeerKill(at_ns=S, peer="b"), fault)[kind] == 0


def test_slowness_of_a_swim_member_counts_by_late_receipts():
    """K8, M5: messages that wait for their turn are seen; at full pace, or after a pause alone, none is late."""
    config = {"probe_interval_ns": S, "suspicion_timeout_ns": 5 * S}
    base = find(meshes(kind="swim", initial_state="alive", config=config), lambda _: True)
    pause = PeerPause(at_ns=2 * S, peer="b", duration_ns=2 * S)
    crawl = PeerSlow(at_ns=2 * S, peer="b", factor_x100=300, duration_ns=3 * S)
    assert counted(base, crawl)["peer_slow"] > 0
    assert counted(base, PeerSlow(at_ns=2 * S, peer="b", factor_x100=90, duration_ns=3 * S), pause)["peer_slow"] == 0


def test_every_fault_kind_is_covered_here():
    """A kind that the contract gains needs a test that suppresses its effect."""
    assert sorted((*WITH_EFFECT, *ON_A_LIVE_PEER, "peer_resurrect", "worker_exit")) == sorted(FAULTS)


def test_a_fault_outside_its_links_or_its_time_does_not_count():
    """A burst on a link without losses, and one that is over before anything is sent on it, are not its doing."""
    burst = DuplicateBurst(at_ns=S, links=AB, prob_ppm=0, duration_ns=S)
    assert counted(echo(BUSY), burst)["duplicate_burst"] == 0
    copies = DuplicateBurst(at_ns=S, links=AB, prob_ppm=1_000_000, duration_ns=S)
    lost = LossBurst(at_ns=S, links=AB, prob_ppm=1_000_000, duration_ns=S)
    assert counted(echo(BUSY), copies, lost)["duplicate_burst"] == 0
    burst = LossBurst(at_ns=S, links=AB, prob_ppm=0, duration_ns=S)
    assert counted(echo(BUSY), burst)["loss_burst"] == 0
    late = LossBurst(at_ns=S, links=AB, prob_ppm=1_000_000, duration_ns=1)
    assert counted(echo(BUSY), late)["loss_burst"] == 0


def test_drops_and_events_are_counted_by_name():
    """Reasons of drops, event kinds, and preconditions of verdicts have counters of their own."""
    seen = counted(echo(BUSY), CUT)
    assert seen["drop:partitioned"] == seen["event:DropOnSend"] > 0
    assert seen["event:EchoReceived"] > 0
    assert not any(value == 0 for value in seen.values())


@pytest.mark.parametrize(
    "name", ["partition", "precondition:event_count", "event:Anything", "drop:lossy", "transition:x"]
)
def test_names_of_counters(name):
    """Fixed names, and open ones for what host kinds bring."""
    check_counter(name, file="f", field="x")


@pytest.mark.parametrize("name", ["partitions", "event:", "precondition:flap", ""])
def test_an_unknown_counter_names_the_choices(name):
    """Bad input: one error, every fixed name in it."""
    with pytest.raises(InputError) as caught:
        check_counter(name, file="f.toml", field="line 3")
    assert "file: f.toml\nfield: line 3\nrule: unknown counter" in str(caught.value)
    assert all(known in str(caught.value) for known in COUNTERS)


def test_the_observer_is_there_when_it_is_needed():
    """Only faults that show in delays cost a call a delivery."""
    assert needs_observer(["latency_spike"])
    assert needs_observer(["duplicate_burst"])
    assert needs_observer(["peer_kill", "heal"])
    assert not needs_observer(["partition", "peer_kill", "loss_burst"])


class Vacuous(SimulationMachine):
    """Carries an assertion whose precondition never fires: nobody sends such a message."""

    scenarios = meshes(peers=1, config={"targets": [], "records": False})
    faults = swarm("peer_kill", "loss_burst")
    assertions = (MessageSizeBounded(message_kind="Ping", max_bytes=1),)
    step_ms = ints(100, 200)
    max_duration_ms = 500
    budget = 5


def test_a_vacuous_property_is_noticed():
    """Inconclusive verdicts are counted; more than a tenth of them is too many; counters that stayed zero name the rule."""
    ledger, error = explore(Vacuous)
    assert error is None
    assert dict(ledger.outcomes) == {"Inconclusive": 5}
    assert too_inconclusive(ledger.outcomes) == (
        "5 of 5 verdicts are Inconclusive: the property says too little; 10 % are allowed"
    )
    assert too_inconclusive({"Pass": 9, "Inconclusive": 1}) is None
    assert too_inconclusive({"Pass": 89, "Inconclusive": 10}) is not None
    assert too_inconclusive({}) is None
    lines = silent_counters([summary_of("vacuous", ledger, (*Vacuous.faults.kinds, "precondition:event_count"))])
    assert lines == [
        "vacuous: counter peer_kill is zero; no rule `peer_kill` had an effect that could be seen",
        "vacuous: counter loss_burst is zero; no rule `loss_burst` had an effect that could be seen",
        "vacuous: counter precondition:event_count is zero; every verdict of event_count is Inconclusive",
    ]


def test_workers_add_up():
    """One property seen by two workers is one row with the sums."""
    one, two = Ledger(), Ledger()
    one.examples, two.examples = 3, 4
    one.counters.update(partition=2)
    two.counters.update(partition=1, heal=5)
    one.outcomes.update(Pass=3)
    two.outcomes.update(Pass=3, Inconclusive=1)
    parts = [summary_of("p", one, ("partition",)), summary_of("p", two, ("heal",))]
    (total,) = added_up(parts)
    assert (total.examples, total.outcomes, total.requires) == (
        7,
        {"Pass": 6, "Inconclusive": 1},
        ["partition", "heal"],
    )
    assert total.counters == {"partition": 3, "heal": 5}
    shown = table([total], width=100, colour=False)
    assert "partition 3" in shown
    assert "\x1b" not in shown
