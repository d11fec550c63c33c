"""Tombstones the record a few minutes after it settled (file store)."""

from typing import TYPE_CHECKING, Final

from simharness.core.units import NS_PER_S
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.store.codec import RecordCorrupt
from simharness.systems.supervisor.store.files import prune

if TYPE_CHECKING:
    from simharness.supervisor.seats import Body
    from simharness.supervisor.world import World

_LOOK_NS: Final = 20 * NS_PER_S


def pruner(world: "World") -> "Body":
    """Look now and then; once PRUNE_AFTER has passed since the settlement, prune until it is done."""
    after_ns = world.spec.timing.prune_after_ns
    while not world.checks.settled:
        yield seam.Sleep(until_ns=world.now + _LOOK_NS)
    yield seam.Sleep(until_ns=world.now + after_ns)
    while True:
        try:
            done = yield from prune(world.spec.job, world.defects)
        except RecordCorrupt:
            return
        if done:
            return
        yield seam.Sleep(until_ns=world.now + NS_PER_S)
