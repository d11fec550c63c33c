"""Training jobs under a swarm of faults: every invariant at every step, and steps again when it is over (training design, 17)."""

from typing import Final

from hypothesis import strategies as st

from simharness.stateful.faults import (
    CLOCK_DRIFT,
    CLOCK_OFFSET,
    DUPLICATE_BURST,
    HEAL,
    LATENCY_SPIKE,
    LOSS_BURST,
    PARTITION,
    PEER_KILL,
    PEER_PAUSE,
    PEER_RESURRECT,
    PEER_SLOW,
    Swarm,
    swarm,
)
from simharness.stateful.machine import SimulationMachine
from simharness.stateful.pools import ints
from simharness.stateful.training import SIX_INVARIANTS, progress_after_quiet, training_jobs

STEP_MS: Final = st.sampled_from((1, 5, 20, 60, 150, 400))
"""Short steps place a fault inside a reduction, long ones let leases run out."""

FAULTS: Final[Swarm] = swarm(
    *(PARTITION, HEAL, LOSS_BURST, DUPLICATE_BURST, LATENCY_SPIKE),
    *(PEER_KILL, PEER_RESURRECT, PEER_PAUSE, PEER_SLOW, CLOCK_OFFSET, CLOCK_DRIFT),
    duration_ms=ints(10, 500),
    factor_x100=ints(200, 3_000),
    offset_ms=st.sampled_from((100, -100, 400, -400)),
    drift_ppm=st.sampled_from((1_000, -1_000, 50_000, -50_000)),
)
_REQUIRED: Final = tuple([kind for kind in FAULTS.kinds if kind != PEER_SLOW])
"""That a slow worker computed for longer shows against what it was given to do: the sweep counts it (`computation slowed`)."""

QUIET_MS: Final = 2_000
GOES_ON: Final = progress_after_quiet(steps=8, after_ms=800, within_ms=1_200)
"""Leases, the wait for a state, that for a joiner and a clock that was ahead by 400 ms are over by then."""


class RingUnderFaults(SimulationMachine):
    """Whatever happens to workers, hub, links and clocks, a ring keeps the six invariants, and steps again in the quiet phase.

    Faults may start at time 0, with nobody having a checkpoint. Exists for the ring's defects: one that commits, applies or rolls
    back wrongly under some interleaving of faults breaks an invariant here.
    """

    scenarios = training_jobs(strategy="ring", workers=ints(1, 6))
    faults = FAULTS
    requires = _REQUIRED
    assertions = (*SIX_INVARIANTS, GOES_ON)
    quiet_ms = QUIET_MS
    max_duration_ms = 1_500
    step_ms = STEP_MS
    max_steps = 25
    budget = 16


class ServerUnderFaults(SimulationMachine):
    """Whatever happens to workers, hub, links and clocks, a server keeps the six invariants, and steps again in the quiet phase.

    With a backup worker in every second job, and checkpoints after every, every second or every fifth step.
    """

    scenarios = training_jobs(strategy="ps", workers=ints(1, 6))
    faults = FAULTS
    requires = _REQUIRED
    assertions = (*SIX_INVARIANTS, GOES_ON)
    quiet_ms = QUIET_MS
    max_duration_ms = 1_500
    step_ms = STEP_MS
    max_steps = 25
    budget = 20
