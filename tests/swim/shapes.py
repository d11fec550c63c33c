"""The reference shapes of Layer B, with the links of real paths: occupancy `wire`, Gaussian jitter."""

from statistics import median
from typing import Any, Final, NamedTuple

from tests.cases.base import MS, SECOND, Document, Run, both_ways, claim, run, swim_peer
from tests.cases.claimant import Claim, kinds, with_claims

STALE_REFUTES: Final = ["REFUTE_STALE_CLAIM", "HEARSAY_OVER_EVIDENCE"]
"""The storm's cause and the rule that feeds it."""


def knobs(tick_ns: int, interval: int, timeout: int, suspicion: int, **more: Any) -> dict[str, Any]:
    """Return a `kind_config` with its periods given in ticks."""
    periods = {"probe_interval_ns": interval, "probe_timeout_ns": timeout, "suspicion_timeout_ns": suspicion}
    return {field: ticks * tick_ns for field, ticks in periods.items()} | more


def shape(
    peers: list[str], *, tick_ns: int, duration_ns: int, link: dict[str, int], swim: dict[str, Any], seed: int
) -> Document:
    """Return a full mesh of SWIM peers over one kind of link. Fields of BASE that `swim` leaves out are left out."""
    nothing = dict.fromkeys(swim_peer("x")["kind_config"])
    return {
        "name": "shape",
        "seed": seed,
        "duration_ns": duration_ns,
        "default_tick": {"period_ns": tick_ns},
        "default_link": {
            "loss_prob_ppm": 0,
            "reorder_prob_ppm": 0,
            "bandwidth_bps": 25_000_000,
            "cold_dial_penalty_ns": 0,
            "cache_warm_after_ns": 200 * MS,
            "cache_invalidate_after_idle_ns": 30 * SECOND,
            "occupancy": "wire",
            **link,
        },
        "peers": [swim_peer(peer, **(nothing | swim)) for peer in peers],
        "meshes": [{"peers": peers, "shape": "full"}],
        "links": [],
        "assertions": [],
    }


def r1(count: int, seed: int, defects: list[str]) -> Document:
    """R1 (3 peers) and R1b (16): one suspicion of p01 put into the head of p00 at about its tick 40."""
    tick = 50 * MS
    peers = [f"p{place:02}" for place in range(count)]
    document = shape(
        peers,
        tick_ns=tick,
        duration_ns=20 * SECOND,
        link={"latency_ns": 60 * MS, "jitter_stddev_ns": 12 * MS},
        swim=knobs(tick, 10, 30, 600, indirect_probes=2, max_piggyback=8, max_message_bytes=0, defects=defects),
        seed=seed,
    )
    told = with_claims(document, [Claim(40 * tick, "p00", "p01", "Suspect", 0)])
    told["links"] = [*told["links"], {"from": "z", "to": "p00", "latency_ns": 0, "jitter_stddev_ns": 0}]
    return told


def r2(profile: str, seed: int) -> Document:
    """R2, the original gossip-flap file: 3 peers, 60 ms, loss 0.5 %, a probe timeout below the round trip."""
    tick = 50 * MS
    more = {"indirect_probes": 3, "dead_reprobe_interval_ns": 0, "max_piggyback": 8, "profile": profile}
    return shape(
        ["orchestrator", "worker_a", "worker_b"],
        tick_ns=tick,
        duration_ns=20 * SECOND,
        link={
            "latency_ns": 60 * MS,
            "jitter_stddev_ns": 15 * MS,
            "loss_prob_ppm": 5_000,
            "cold_dial_penalty_ns": 200 * MS,
            "cache_invalidate_after_idle_ns": 10 * SECOND,
        },
        swim=knobs(tick, 10, 2, 40, **more),
        seed=seed,
    )


STAGES: Final = ["stage-0", "stage-1", "stage-2"]
R4_PEERS: Final = ["orchestrator", *STAGES]


def r4(profile: str, seed: int, duration_ns: int = 60 * SECOND) -> Document:
    """R4s (60 s) and R4 (420 s): four peers, the orchestrator in another region, the N3 configuration."""
    tick = 20 * MS
    document = shape(
        R4_PEERS,
        tick_ns=tick,
        duration_ns=duration_ns,
        link={"latency_ns": 90 * MS, "jitter_stddev_ns": 75 * MS, "cold_dial_penalty_ns": 200 * MS},
        swim=knobs(
            tick, 10, 15, 60, indirect_probes=2, dead_reprobe_interval_ns=100 * tick, max_piggyback=8, profile=profile
        ),
        seed=seed,
    )
    legs = [leg for stage in STAGES for leg in both_ways("orchestrator", stage)]
    document["links"] = [leg | {"latency_ns": 200 * MS} for leg in legs]
    document["assertions"] = [
        claim("no_flap_while_probes_ok", peer=peer, window_start_ns=0, window_end_ns=duration_ns) for peer in R4_PEERS
    ]
    return document


class Figures(NamedTuple):
    """What a run of a Layer B shape is measured by."""

    orchestrator: int
    others: int
    transitions: int
    deaths: int
    acked: int
    probes: int
    flaps: tuple[str, ...]
    """Outcome of `no_flap_while_probes_ok` for each peer."""


KEPT: Final = ("SwimIncarnationBumped", "SwimTransition", "SwimProbeAcked", "SwimProbeSent")
"""The event kinds that figures are made of."""


def measured(document: Document) -> Figures:
    """Run a shape and return its figures."""
    done = run(document, kinds=kinds(), keep=KEPT)
    bumps = done.events("SwimIncarnationBumped")
    return Figures(
        orchestrator=peak(done, "orchestrator"),
        others=max((event["to"] for event in bumps if event.host != "orchestrator"), default=0),
        transitions=len(done.transitions()),
        deaths=len(done.transitions("Dead")),
        acked=len(done.events("SwimProbeAcked")),
        probes=len(done.events("SwimProbeSent", probe_kind="direct")),
        flaps=tuple(done.outcomes),
    )


def peak(done: Run, host: str) -> int:
    """Return the highest incarnation that a host gave itself."""
    return max((event["to"] for event in done.events("SwimIncarnationBumped", host)), default=0)


def middle(figures: list[Figures], field: str) -> float:
    """Return the median of one figure."""
    value: float = median(getattr(one, field) for one in figures)
    return value
