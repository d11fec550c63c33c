"""The direct driver: a plain loop over the steps of one world, without a bundle."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from simharness.supervisor.checks import Violation
from simharness.supervisor.chooser import Draws, ReplayChooser
from simharness.supervisor.params import Profile, Shape, draw
from simharness.supervisor.schedule import Entry
from simharness.supervisor.trace import readable
from simharness.supervisor.world import World
from simharness.systems.supervisor.config import NO_DEFECTS, Defects


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to. `violated`: the invariant that was broken, if one was."""

    seed: int
    profile: Profile
    trace_hash: str
    steps: int
    quiet_steps: int
    now_ns: int
    seen: frozenset[str]
    violated: str | None = None
    message: str = ""
    refused: bool = False
    """Whether the record was tampered with, and therefore refused: a pass."""
    schedule: tuple[Entry, ...] = ()
    lines: tuple[str, ...] = ()


def run(
    seed: int,
    shape: Shape,
    *,
    given: Mapping[str, Any] | None = None,
    schedule: Sequence[Entry] | None = None,
    defects: Defects = NO_DEFECTS,
    skip: Iterable[str] = (),
    keep: bool = False,
    quiet: bool = True,
) -> Run:
    """Run one seed in one shape to its end or to the first violation.

    Args:
        seed: The scenario seed.
        shape: The scheduler's shape.
        given: Profile fields, under their scenario names, that are not drawn.
        schedule: What to replay in place of the drawn schedule.
        defects: Rules that are switched off.
        skip: Invariants that are not looked at.
        keep: Keep the schedule and the readable trace.
        quiet: Go through the quiet phase; else the run ends before it.

    Raises:
        ValueError: If a given field is not one that a profile can have.
    """
    draws = Draws.of_seed(seed)
    profile = draw(draws, shape, given)
    replay = None if schedule is None else ReplayChooser(schedule)
    violated, message = None, ""
    world = World(draws, profile, schedule=replay, defects=defects, skip=skip, keep=keep)
    try:
        while not world.done and (quiet or not world.quiet):
            world.step()
    except Violation as violation:
        violated, message = violation.invariant, violation.message
        if world.lines is not None:
            world.lines.append(readable(world.steps, world.now, "VIOLATION", f"invariant {violated}", message))
    return Run(
        seed=seed,
        profile=profile,
        trace_hash=world.trace_hash(),
        steps=world.steps,
        quiet_steps=world.quiet_steps,
        now_ns=world.now,
        seen=frozenset(world.seen),
        violated=violated,
        message=message,
        refused=world.ledger.tampered,
        schedule=tuple(world.schedule or ()),
        lines=tuple(world.lines or ()),
    )
