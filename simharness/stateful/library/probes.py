"""The probe cycle: what a probe must do, cluster by cluster, under loss and under none."""

from simharness.contracts.mutations import PeerKill
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful.scripted import SpaceMachine
from simharness.stateful.spaces import Numbers, Space, swim_cluster
from simharness.stateful.swim_laws import (
    ACKS_ANSWER_THEIR_PROBE,
    ANSWERED_IS_NOT_BURIED,
    DEMAND_IS_SERVED,
    HEALTHY_CLUSTER,
    SUSPICION_RUNS_ITS_TIME,
)
from simharness.stateful.topologies import peer_ids


def _undisturbed(numbers: Numbers) -> Scenario:
    return swim_cluster(numbers, duration_ms=6_000, cold_dial_ms=200, occupancy="wire")


class HealthyCluster(SpaceMachine):
    """In a cluster that nothing disturbs, every probe is acknowledged (acked == sent), nobody changes state, nobody refutes.

    Round trips of 10 to 150 ms, the first one longer by two cold dials, under a budget of 600 ms, on links that are free again when
    the last byte has left. Exists for ACK_DISPATCHED_AS_PING: the simulator that this one replaces handled every Ack as a Ping, no
    probe of it was ever acknowledged, and no assertion saw it.
    """

    space = Space(
        name="healthy_cluster",
        numbers={"peers": range(3, 13), "latency_ms": range(5, 76, 5)},
        build=_undisturbed,
        laws=(HEALTHY_CLUSTER,),
    )
    budget = 30


def _losing_sends(numbers: Numbers) -> Scenario:
    return swim_cluster(
        numbers,
        duration_ms=15_000,
        interval_ms=1_000,
        timeout_ms=300,
        suspicion_ms=20_000,
        config={"dead_reprobe_interval_ns": 0},
    )


class DemandServed(SpaceMachine):
    """A failed send to a live peer is answered by a probe of it, as soon as the open probe is over.

    Loss makes sends fail while probes are open; nobody dies in the fifteen seconds, since suspicion takes twenty. Exists for
    DEMAND_QUEUE_STUCK: what was queued was never drained, and no verdict of the catalogue depends on it.
    """

    space = Space(
        name="demand_served",
        numbers={"peers": range(3, 7), "latency_ms": range(20, 121, 10), "loss_ppm": range(100_000, 250_001, 10_000)},
        build=_losing_sends,
        laws=(DEMAND_IS_SERVED,),
    )
    budget = 30


def _relaying(numbers: Numbers) -> Scenario:
    return swim_cluster(numbers, duration_ms=20_000, timeout_ms=200, suspicion_ms=30_000)


class ProbesJoin(SpaceMachine):
    """Each acknowledged probe was answered: not sooner than light on the wire allows, not though its Ping never left.

    Loss makes relayed probes frequent, so that a relay's own probe and one that it relays meet at the same target. Exists for
    PROBE_KEY_SHARED: with (target, sequence) for a key, one Ack completed both, and the round-trip times joined on it were wrong.
    """

    space = Space(
        name="probes_join",
        numbers={"peers": range(4, 8), "latency_ms": range(20, 91, 10), "loss_ppm": range(100_000, 300_001, 10_000)},
        build=_relaying,
        laws=(ACKS_ANSWER_THEIR_PROBE,),
    )
    budget = 45


def _refuting(numbers: Numbers) -> Scenario:
    kill = PeerKill(at_ns=6_000 * NS_PER_MS, peer=peer_ids(numbers["peers"])[-1])
    return swim_cluster(
        numbers,
        duration_ms=11_000,
        interval_ms=200,
        timeout_ms=100,
        tick_ms=20,
        config={"max_piggyback": numbers["updates"]},
        script=(kill,),
    )


class SuspicionTimers(SpaceMachine):
    """Nobody is declared Dead before a whole suspicion timeout has passed since the suspicion, nor after it has answered.

    Loss and a short probe budget make suspicions come and go; one peer is killed after six seconds, so that somebody dies in every
    example. Where a message carries one update, an Ack may come without the refutation. Exists for TIMER_SURVIVES_REFUTATION: the
    timer of a refuted suspicion ended the next one early; and for TIMER_SURVIVES_ACK.
    """

    space = Space(
        name="suspicion_timers",
        numbers={
            "updates": (6, 1, 2),
            "peers": range(3, 6),
            "latency_ms": range(20, 61, 10),
            "loss_ppm": range(50_000, 250_001, 10_000),
        },
        build=_refuting,
        laws=(SUSPICION_RUNS_ITS_TIME, ANSWERED_IS_NOT_BURIED),
    )
    budget = 30
