"""The processes of one execution: they publish checkpoints, and go on for a while after the execution has ended."""

from typing import TYPE_CHECKING, Final

from simharness.core.units import NS_PER_S
from simharness.supervisor.chooser import pick, span_ns
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.checkpoint import newest_step, publish

if TYPE_CHECKING:
    from simharness.supervisor.seats import Body, Seat
    from simharness.supervisor.world import World

_EVERY: Final = (10 * NS_PER_S, 60 * NS_PER_S)
_STEPS: Final = range(1, 11)


def trainer(world: "World", seat: "Seat") -> "Body":
    """Go on from the newest checkpoint that is listed; publish every 10 to 60 s."""
    stream = seat.stream
    name = seat.pid.replace("trainer:", "").replace("/", "-").replace(":", "-")
    step = yield from newest_step()
    while True:
        yield seam.Sleep(until_ns=world.now + span_ns(stream, *_EVERY))
        step += pick(stream, _STEPS)
        durable = yield from publish(step, name)
        if durable and seat.pid in world.exits:
            world.seen.add("old_trainer_publish")
