"""The quiet phase: faults stop, half an hour passes, and within a bound of steps the job must come to its end."""

from typing import TYPE_CHECKING, Final

from simharness.core.units import NS_PER_S
from simharness.supervisor.chooser import SeededChooser

if TYPE_CHECKING:
    from simharness.supervisor.world import World

JUMP_NS: Final = 1_800 * NS_PER_S
MEMORY_BOUND: Final = 2_000
FILE_BOUND: Final = 8_000


def begin(world: "World") -> None:
    """Turn every fault off, bring back who can come back, and set the clock's jump."""
    world.quiet = True
    world.calls.faults = {}
    world.parking.on = False
    world.truth.quiet = True
    for seat in list(world.seats.values()):
        seat.thaw()
        if seat.supervises and seat.ending is None and seat.body is None:
            seat.sleep_until(world.now)
    world.finish("chaos")
    world.respawn("env")
    world.respawn("person")
    world.jump_ns = JUMP_NS
    world.chooser = SeededChooser(world.draws.schedule(quiet=True), quiet=True)


def bound(world: "World") -> int:
    """Return how many steps the quiet phase may take."""
    return MEMORY_BOUND if world.profile.store == "memory" else FILE_BOUND


def missing(world: "World") -> str | None:
    """Return what is still to come, or None if the job has come to its end."""
    if world.jump_ns:
        return "the clock's jump"
    if world.ledger.tampered:
        return _waiting(world)
    if not world.checks.settled:
        return "the settlement"
    if world.truth.late:
        return f"the landing of {', '.join([late.late_id for late in world.truth.late])}"
    alive = [o.obj for o in world.truth.objects() if o.alive]
    if alive:
        return f"the end of {', '.join(alive)}"
    if waiting := _waiting(world):
        return waiting
    return None if world.profile.store == "memory" or world.tombstone() else "the tombstone"


def _waiting(world: "World") -> str | None:
    """Return which supervisors are still there, if any is."""
    waiting = [seat.pid for seat in world.seats.values() if seat.supervises and seat.ending is None]
    return f"the end of {', '.join(waiting)}" if waiting else None
