"""The life of a stage (§6A.2), as a table: read down it, and nothing else moves a stage."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a stage stands. The value is its spelling in records and snapshots."""

    COLD = "Cold"
    REGISTERING = "Registering"
    RUNNING = "Running"
    HALTED = "Halted"


class Input(StrEnum):
    """What can move a stage."""

    TICK = "tick"
    REGISTERED = "registered"
    EXIT = "exit"


TRANSITIONS: Final[Mapping[tuple[State, Input], State]] = {
    (State.COLD, Input.TICK): State.REGISTERING,
    (State.REGISTERING, Input.REGISTERED): State.RUNNING,
    (State.COLD, Input.EXIT): State.HALTED,  # before the first tick: "from the current state" (§6A.3, ruling E16)
    (State.REGISTERING, Input.EXIT): State.HALTED,
    (State.RUNNING, Input.EXIT): State.HALTED,
}

IGNORED: Final = (
    (State.COLD, Input.REGISTERED),
    (State.REGISTERING, Input.TICK),
    (State.RUNNING, Input.TICK),  # steady: no records of its own
    (State.RUNNING, Input.REGISTERED),
    (State.HALTED, Input.TICK),  # no way back: a resurrected stage is another instance (§6A.2)
    (State.HALTED, Input.REGISTERED),
    (State.HALTED, Input.EXIT),
)
"""Pairs that do nothing. With `TRANSITIONS` they are all pairs there are."""
