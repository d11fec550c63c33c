"""Faults: their names, and which of them an example may use (§5.5)."""

from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from simharness.core.errors import InputError
from simharness.core.units import PPM
from simharness.stateful.pools import ints, pool

PARTITION: Final = "partition"
HEAL: Final = "heal"
LATENCY_SPIKE: Final = "latency_spike"
LOSS_BURST: Final = "loss_burst"
RELAY_BUFFER: Final = "relay_buffer"
PEER_KILL: Final = "peer_kill"
PEER_RESURRECT: Final = "peer_resurrect"
WORKER_EXIT: Final = "worker_exit"
RELAY_KILL: Final = "relay_kill"
RELAY_BOOT: Final = "relay_boot"
RELAY_CAPACITY_CHANGE: Final = "relay_capacity_change"
RELAY_PEER_CONN_DOWN: Final = "relay_peer_conn_down"
PEER_PAUSE: Final = "peer_pause"
PEER_SLOW: Final = "peer_slow"
CLOCK_OFFSET: Final = "clock_offset"
CLOCK_DRIFT: Final = "clock_drift"
DUPLICATE_BURST: Final = "duplicate_burst"

FAULTS: Final = (
    PARTITION,
    HEAL,
    LATENCY_SPIKE,
    LOSS_BURST,
    RELAY_BUFFER,
    PEER_KILL,
    PEER_RESURRECT,
    WORKER_EXIT,
    RELAY_KILL,
    RELAY_BOOT,
    RELAY_CAPACITY_CHANGE,
    RELAY_PEER_CONN_DOWN,
    PEER_PAUSE,
    PEER_SLOW,
    CLOCK_OFFSET,
    CLOCK_DRIFT,
    DUPLICATE_BURST,
)
"""Every kind, in the order of the contract."""

Ints = st.SearchStrategy[int]


class Swarm(msgspec.Struct, frozen=True, kw_only=True):
    """The fault kinds a machine may use and the numbers they are made of; see `swarm`."""

    kinds: tuple[str, ...] = ()
    duration_ms: Ints = ints(100, 5_000)
    factor_x100: Ints = ints(150, 1_000)
    loss_ppm: Ints = st.sampled_from((PPM, *pool(50_000, PPM)[:-1]))
    """Certain loss is the simplest: it does the same under every seed."""
    duplicate_ppm: Ints = st.sampled_from((PPM, *pool(50_000, PPM)[:-1]))
    """Likewise."""
    floor_ms: Ints = ints(10, 2_000)
    capacity_bps: Ints = ints(1_000, 1_000_000)
    queue_bytes: Ints = ints(1_000, 100_000)
    offset_ms: Ints = st.sampled_from((100, -100, 1_000, -1_000, 10_000, -10_000))
    drift_ppm: Ints = st.sampled_from((100, -100, 1_000, -1_000, 50_000, -50_000))
    preserve_state: st.SearchStrategy[bool] = st.sampled_from((False, True))

    def subsets(self) -> st.SearchStrategy[tuple[str, ...]]:
        """Return strategies of the kinds that one example uses, shrinking towards none (swarm testing, Groce et al. 2012)."""
        flags = st.tuples(*(st.sampled_from((False, True)) for _ in self.kinds))
        return flags.map(lambda on: tuple(kind for kind, is_on in zip(self.kinds, on, strict=True) if is_on))


def swarm(*kinds: str, **numbers: Any) -> Swarm:
    """Return the faults a machine may use. Each example switches on a random subset of them.

    Args:
        kinds: Mutation kinds such as `PARTITION`.
        numbers: Strategies in place of the defaults of `Swarm`.

    Raises:
        InputError: If a kind is not a mutation kind; the choices are named.
    """
    for kind in kinds:
        if kind not in FAULTS:
            rule = f"unknown fault kind {kind!r}; choose from {', '.join(FAULTS)}"
            raise InputError(file="(swarm)", field="kinds", rule=rule)
    return Swarm(kinds=kinds, **numbers)
