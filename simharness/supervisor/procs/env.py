"""The scheduler's own decisions and accidents: it places, ends, loses and revives."""

from typing import TYPE_CHECKING, Final

from simharness.core.streams import Stream
from simharness.core.units import NS_PER_S
from simharness.supervisor.chooser import happens, pick, span_ns, weighted
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.backend import Act, BackendObject

if TYPE_CHECKING:
    from collections.abc import Generator

    from simharness.supervisor.world import World

_REVIVE_PPM: Final = 200_000
_PLACE_PPM: Final = 600_000
_END_PPM: Final = 120_000
_STORM_END_PPM: Final = 150_000
_RACE_END_PPM: Final = 700_000
_ENDINGS: Final[tuple[tuple[Act, int], ...]] = (("complete", 30), ("fail", 10), ("preempt", 30), ("lose", 30))
_STORM_ENDINGS: Final[tuple[tuple[Act, int], ...]] = (("complete", 15), ("fail", 5), ("preempt", 40), ("lose", 40))


def env(world: "World", stream: Stream, *, quiet: bool) -> "Generator[seam.SeamCall, None, None]":
    """Act every 1 to 8 s; every 1 to 2 s while a requeue call is open in the requeue storm."""
    storm = world.profile.seed_class == "requeue_storm"
    slurm = world.profile.shape == "slurm"  # the other shape revives nothing
    while True:
        racing = storm and not quiet and world.requeue_open()
        yield seam.Sleep(until_ns=world.now + span_ns(stream, NS_PER_S, (2 if racing else 8) * NS_PER_S))
        objects = world.truth.objects()
        if not objects:
            continue
        if slurm and not quiet and _revive(world, stream, objects):
            continue
        waiting = [o for o in objects if o.state == "pending" and world.truth.env.possible(o, "place")]
        if waiting and happens(stream, _PLACE_PPM):
            chosen = pick(stream, waiting)
            if (
                world.profile.seed_class == "hold_storm" and not quiet
            ):  # the binding comes later, and is looked at again
                yield seam.Sleep(until_ns=world.now + span_ns(stream, NS_PER_S, 15 * NS_PER_S))
            world.truth.act(chosen.obj, "place")
            continue
        _end(world, stream, objects, storm=storm, quiet=quiet)


def _revive(world: "World", stream: Stream, objects: list[BackendObject]) -> bool:
    found = [o for o in objects if o.bit and world.truth.env.possible(o, "revive")]
    return bool(found) and happens(stream, _REVIVE_PPM) and world.truth.act(pick(stream, found).obj, "revive")


def _end(world: "World", stream: Stream, objects: list[BackendObject], *, storm: bool, quiet: bool) -> None:
    running = [o for o in objects if o.state == "running" and not o.lost]
    if not running:
        return
    ppm = _END_PPM
    if storm and not quiet:
        ppm = _RACE_END_PPM if world.requeue_open() else _STORM_END_PPM
    if happens(stream, ppm):
        how: Act = "complete"
        if not quiet:
            how = weighted(stream, _STORM_ENDINGS if storm else _ENDINGS)
        world.truth.act(pick(stream, running).obj, how)
