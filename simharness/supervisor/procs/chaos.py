"""Faults of processes and machines."""

from typing import TYPE_CHECKING, Final

from simharness.core.streams import Stream
from simharness.core.units import NS_PER_S
from simharness.supervisor.chooser import pick, span_ns
from simharness.supervisor.faults import PROCESS
from simharness.systems.supervisor import seam

if TYPE_CHECKING:
    from collections.abc import Generator

    from simharness.supervisor.world import World

_FREEZE: Final = (5 * NS_PER_S, 180 * NS_PER_S)


def chaos(world: "World", stream: Stream) -> "Generator[seam.SeamCall, None, None]":
    """Let one of the seed's process faults happen every 3 to 40 s."""
    kinds = [kind for kind in PROCESS if kind in world.profile.kinds]
    if world.profile.store == "memory":
        kinds = [kind for kind in kinds if kind != "machine_crash"]
    while kinds:
        yield seam.Sleep(until_ns=world.now + span_ns(stream, 3 * NS_PER_S, 40 * NS_PER_S))
        kind = pick(stream, kinds)
        if kind == "machine_crash":
            world.cut("record")
        elif kind == "ckpt_power_cut":
            world.cut("checkpoint")
        else:
            alive = world.living_supervisors()
            if alive:
                _strike(world, stream, kind, pick(stream, alive))


def _strike(world: "World", stream: Stream, kind: str, pid: str) -> None:
    if kind == "sup_crash":
        world.crash(pid)
    elif kind == "sup_drain":
        world.drain(pid)
    elif kind == "sup_freeze":
        world.freeze(pid, span_ns(stream, *_FREEZE))
    else:
        world.revoke(pid)
