"""Lifeguard against plain SWIM, after the paper: some members are slow or frozen by turns, the others are well.

Nothing here is about time on a clock: these are counts and virtual times of deterministic runs.
"""

from collections.abc import Iterable
from statistics import median
from typing import Any, Final, NamedTuple

import tomli_w

from simharness.contracts.records import Record
from simharness.contracts.scenario import Scenario
from simharness.run import engine_for
from tests.benchmarks.measuring import Row, Scale
from tests.benchmarks.meshes import KINDS, loaded

S: Final = 10**9
MS: Final = 10**6
PEERS, SICK = 16, 4
SLOW_X100: Final = 5_000
"""490 ms a message, where a healthy member gets two or three a second: at times it catches up, at times it does not."""
ON_S, OFF_S = 15, 5
KILLED_AT_S: Final = 40
CONFIG: Final = {"probe_interval_ns": S, "probe_timeout_ns": 500 * MS, "suspicion_timeout_ns": 5 * S}
LINK: Final = {
    "latency_ns": 20 * MS,
    "jitter_stddev_ns": 2 * MS,
    "loss_prob_ppm": 0,
    "reorder_prob_ppm": 0,
    "bandwidth_bps": 10**9,
    "cold_dial_penalty_ns": 0,
    "cache_warm_after_ns": 0,
    "cache_invalidate_after_idle_ns": 3_600 * S,
    "occupancy": "wire",
}


def cluster(seed: int, duration_s: int, mutations: list[dict[str, Any]], *, guarded: bool) -> Scenario:
    """Return a full mesh of SWIM peers on good links."""
    table = CONFIG | ({"lifeguard": True} if guarded else {})
    document = {
        "name": "lifeguard",
        "seed": seed,
        "duration_ns": duration_s * S,
        "default_tick": {"period_ns": 100 * MS},
        "default_link": LINK,
        "peers": [
            {"id": f"p{place:02}", "kind": "swim", "initial_state": "alive", "kind_config": table}
            for place in range(PEERS)
        ],
        "meshes": [{"shape": "full"}],
        "mutations": mutations,
    }
    return loaded(tomli_w.dumps(document))


def is_sick(peer: str) -> bool:
    """Tell whether a peer is one of those that are slow or frozen by turns."""
    return int(peer[1:]) < SICK


def spells(duration_s: int, kind: str = "peer_slow") -> list[dict[str, Any]]:
    """Return fifteen bad seconds and five good ones in turn, for every sick member; the last ones have time to end."""
    effect = {"factor_x100": SLOW_X100} if kind == "peer_slow" else {}
    return [
        {"at_ns": at_s * S, "kind": kind, "peer": f"p{place:02}", "duration_ns": ON_S * S} | effect
        for at_s in range(5, duration_s - ON_S - OFF_S, ON_S + OFF_S)
        for place in range(SICK)
    ]


class Death(NamedTuple):
    """A member was declared dead, or believed to be, by another."""

    at_ns: int
    observer: str
    peer: str


class Deaths:
    """A sink that keeps the deaths."""

    def __init__(self) -> None:
        self.found: list[Death] = []

    def write_record(self, record: Record) -> None:
        """Take one record."""
        if record.kind_tag == "swim":
            event = getattr(record, "event", {})
            if event.get("kind") == "SwimTransition" and event["to"] == "Dead":
                self.found.append(Death(record.virtual_time_ns, str(record.host_id), event["peer"]))


def deaths(scenario: Scenario) -> list[Death]:
    """Run a scenario and return who was held dead, when and by whom."""
    sink = Deaths()
    engine_for(scenario, KINDS, sink).run()
    return sink.found


class FalseDeaths(NamedTuple):
    """False deaths of healthy members: seen by anybody, and seen by healthy members."""

    anywhere: int
    at_healthy: int


def false_deaths(seeds: Iterable[int], duration_s: int, *, guarded: bool, kind: str = "peer_slow") -> FalseDeaths:
    """Count deaths of members that are well, over several seeds."""
    found = [
        death
        for seed in seeds
        for death in deaths(cluster(seed, duration_s, spells(duration_s, kind), guarded=guarded))
        if not is_sick(death.peer)
    ]
    return FalseDeaths(len(found), len([death for death in found if not is_sick(death.observer)]))


class Detection(NamedTuple):
    """Medians over seeds, in seconds after the kill: the first healthy member that knows, and every one of them."""

    first: float
    everyone: float


def detection(seeds: Iterable[int], *, guarded: bool, sick: bool) -> Detection:
    """Kill a healthy member, in a calm cluster or amid slow members, and measure when the healthy ones hold it dead."""
    duration_s, victim = KILLED_AT_S + 50, f"p{PEERS - 1:02}"
    kill = {"at_ns": KILLED_AT_S * S, "kind": "peer_kill", "peer": victim}
    firsts, all_of_them = [], []
    for seed in seeds:
        mutations = [*(spells(duration_s) if sick else []), kill]
        heard: dict[str, float] = {}
        for death in deaths(cluster(seed, duration_s, mutations, guarded=guarded)):
            if death.peer == victim and death.at_ns >= KILLED_AT_S * S and not is_sick(death.observer):
                heard.setdefault(death.observer, death.at_ns / S - KILLED_AT_S)
        assert len(heard) == PEERS - SICK - 1, "every healthy member detects the death"
        firsts.append(min(heard.values()))
        all_of_them += heard.values()
    return Detection(median(firsts), median(all_of_them))


def lifeguard(scale: Scale) -> list[Row]:
    """False deaths of healthy members and median detection, plain and with Lifeguard; 4 of 16 members slow by turns."""
    seeds, duration_s = range(scale.of(60, 1)), scale.of(125, 45)
    rows = []
    for what, kind in (("slow members", "peer_slow"), ("frozen members", "peer_pause")):
        plain, guarded = (false_deaths(seeds, duration_s, guarded=on, kind=kind) for on in (False, True))
        for where, before, after in zip(("anywhere", "at healthy members"), plain, guarded, strict=True):
            measured = f"{before} plain, {after} guarded"
            met = before >= 50 * after if before else None  # a frozen member wakes with its timers where they were
            rows.append(Row(f"false deaths {where}, {what}", measured, "at least 50x fewer", met))
    for what, sick in (("calm cluster", False), ("amid slow members", True)):
        plain_d, guarded_d = (detection(seeds, guarded=on, sick=sick) for on in (False, True))
        for which, before_s, after_s in zip(("first", "every"), plain_d, guarded_d, strict=True):
            ratio = after_s / before_s
            measured = f"{before_s:.2f} s plain, {after_s:.2f} s guarded, {ratio:.2f}x"
            rows.append(Row(f"median detection, {which} member, {what}", measured, "at most 1.1x", ratio <= 1.1))
    return rows
