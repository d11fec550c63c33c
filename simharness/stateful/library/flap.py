"""The gossip flap and its healthy twin (Layer B)."""

from simharness.contracts.scenario import Scenario
from simharness.stateful.scripted import SpaceMachine
from simharness.stateful.spaces import Numbers, Space, swim_cluster
from simharness.stateful.templates import NoFlapWhileProbesOk, SelfIncarnationBounded


def _flapping(numbers: Numbers) -> Scenario:
    return swim_cluster(numbers, duration_ms=20_000, cold_dial_ms=200, timeout_ms=200, occupancy="arrival")


class GossipFlap(SpaceMachine):
    """Nobody flaps while probes succeed both ways, and nobody's incarnation runs away: at most 35 in 20 seconds.

    Four to six peers, 120 to 150 ms apart, a direct timeout of 200 ms: below the round trip, and the whole budget of 400 ms only
    somewhat above it, so jitter, cold dials and loss make many probes fail while every process is alive. Each such failure is one
    genuine claim and one bump; the bound lies between what those add up to (19 at most in the reference's samples) and what
    refuting stale claims adds up to (60 at least). It is a truth about this fault-free space of 20 seconds and no other.
    Exists for REFUTE_STALE_CLAIM (the bound) and HEARSAY_OVER_EVIDENCE (the flap).
    """

    space = Space(
        name="gossip_flap",
        numbers={
            "peers": range(4, 7),
            "latency_ms": range(120, 151),
            "jitter_ms": range(15, 41),
            "loss_ppm": range(5_000, 30_001, 500),
        },
        build=_flapping,
        assertions=(NoFlapWhileProbesOk.each_peer(), SelfIncarnationBounded.each_peer(max_value=35)),
    )
    budget = 45


def _calm(numbers: Numbers) -> Scenario:
    return swim_cluster(numbers, duration_ms=20_000, cold_dial_ms=200, timeout_ms=600)


class GossipFlapHealthy(SpaceMachine):
    """The same cluster with a probe budget well above the round trip: no flap, and at most two bumps from what loss does.

    The twin says that the flap comes from the budget and not from the harness.
    """

    space = Space(
        name="gossip_flap_healthy",
        numbers={
            "peers": (3, 5, 8),
            "latency_ms": range(20, 61),
            "jitter_ms": range(15, 41),
            "loss_ppm": range(5_000, 30_001, 500),
        },
        build=_calm,
        assertions=(NoFlapWhileProbesOk.each_peer(), SelfIncarnationBounded.each_peer(max_value=2)),
    )
    budget = 30
