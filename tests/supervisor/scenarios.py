"""Supervisor scenarios as text, for the engine driver."""

import tomli_w

from simharness.contracts.scenario import Scenario
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import loads
from simharness.stateful.playing import Played, play

KINDS = Kinds()
LONG_NS = 40_000_000_000_000
TICK_NS = 100_000_000_000
"""A world begins at its first tick, which may be anywhere in the first period (O8)."""


def scenario(seed: int, config: dict[str, object], **tables: object) -> Scenario:
    """Return the scenario of one world; it is given eleven virtual hours."""
    document = {
        "name": "world",
        "seed": seed,
        "duration_ns": LONG_NS,
        "default_tick": {"period_ns": TICK_NS},
        "default_link": {
            "latency_ns": 0,
            "jitter_stddev_ns": 0,
            "loss_prob_ppm": 0,
            "reorder_prob_ppm": 0,
            "bandwidth_bps": 1,
            "cold_dial_penalty_ns": 0,
            "cache_warm_after_ns": 0,
            "cache_invalidate_after_idle_ns": 0,
        },
        "peers": [{"id": "job", "kind": "supervisor", "initial_state": "fresh", "kind_config": config}],
        **tables,
    }
    return loads(tomli_w.dumps(document), KINDS, name="world")


def played(seed: int, config: dict[str, object], **tables: object) -> Played:
    """Run it with the engine."""
    return play(scenario(seed, config, **tables), KINDS)


def events_of(run: Played, kind: str) -> list[dict[str, object]]:
    """Return the events of one kind, in order."""
    return [record.event for record in run.records if getattr(record, "event", {}).get("kind") == kind]
