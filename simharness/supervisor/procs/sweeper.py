"""A host that sweeps residuals: once the record is settled it stops whatever of the job is still alive."""

from typing import TYPE_CHECKING, Any, Final

from simharness.core.units import NS_PER_S
from simharness.systems.supervisor import seam

if TYPE_CHECKING:
    from collections.abc import Generator

    from simharness.supervisor.world import World

_PERIOD_NS: Final = 20 * NS_PER_S


def sweeper(world: "World") -> "Generator[seam.SeamCall, Any, None]":
    """Look every 20 s."""
    while True:
        yield seam.Sleep(until_ns=world.now + _PERIOD_NS)
        if not world.checks.settled:
            continue
        version = world.ledger.state.version
        found = yield seam.Find(version=version)
        for view in found.views:
            if view.alive:
                yield seam.Stop(obj=view.obj, version=version)
                world.seen.add("swept_after_settlement")
