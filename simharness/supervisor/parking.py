"""Targeted faults: what may happen to a process just as it parks, where a call is decided and not yet sent."""

from typing import TYPE_CHECKING, Final

from simharness.core.units import NS_PER_S
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam

if TYPE_CHECKING:
    from simharness.supervisor.seats import Seat
    from simharness.supervisor.world import World

_SHORT: Final = (5 * NS_PER_S, 60 * NS_PER_S)
_SETTLE: Final = (10 * NS_PER_S, 120 * NS_PER_S)
_COMMIT: Final = (60 * NS_PER_S, 700 * NS_PER_S)
_SETTLING: Final = (ev.StopVerified, ev.OpenAuthorised, ev.CleanupCompleted, ev.Settled)
_DISTURBED: Final = (seam.Start, seam.Open, seam.Stop, seam.BoundedCall, seam.ClearBit, seam.Cessation)
_FIRST_OF_COMMIT: Final = (seam.MemCommit, seam.FsWrite)
_DURING_COMMIT: Final = (seam.MemCommit, seam.FsSync, seam.FsLink, seam.FsSyncDir)

PAST_DEADLINE_PPM: Final = 250_000
STALL_PPM: Final = 150_000
STORM_STOP_PPM: Final = 600_000
SETTLE_PPM: Final = 400_000
CALL_COMMIT_PPM: Final = 300_000
MID_COMMIT_PPM: Final = 60_000
PUBLISH_PPM: Final = 400_000
RESOLVE_PPM: Final = 400_000
_HALF: Final = 2


class Parking:
    """Draws the targeted faults of a seed. `on` is false in the quiet phase."""

    def __init__(self, world: "World") -> None:
        self._world, self._draws = world, world.draws
        self._kinds = frozenset(world.profile.kinds)
        self._launch_storm = world.profile.seed_class == "launch_storm"
        self.on = True

    def park(self, seat: "Seat") -> None:
        """A supervisor or a trainer has parked at a call."""
        if not self.on:
            return
        call = seat.call
        kind = type(call)
        if not seat.supervises:
            if isinstance(call, seam.FsSyncDir) and call.fs == "checkpoint":
                self._maybe_freeze(seat, "slow_publish", PUBLISH_PPM, _SHORT)
            return
        if kind in _DISTURBED:
            if kind is seam.BoundedCall:
                self._maybe_freeze(seat, "call_past_deadline", PAST_DEADLINE_PPM, _SHORT, counter="stall_call")
            storm = self._launch_storm and kind is seam.Stop
            self._maybe_freeze(seat, "stall_call", STORM_STOP_PPM if storm else STALL_PPM, _SHORT)
            return
        batch = seat.watch.batch
        if batch is None:
            return
        if kind in _FIRST_OF_COMMIT:
            self._before_commit(seat, batch)
        if "freeze_mid_commit" in self._kinds and seat.body is not None and kind in _DURING_COMMIT:
            self._maybe_freeze(seat, "freeze_mid_commit", MID_COMMIT_PPM, _COMMIT)

    def _before_commit(self, seat: "Seat", batch: ev.Batch) -> None:
        kinds, draws = self._kinds, self._draws
        address = f"{seat.name}/{seat.calls}"
        for event in batch:
            if isinstance(event, _SETTLING):
                self._maybe_freeze(seat, "freeze_before_settle", SETTLE_PPM, _SETTLE)
            elif isinstance(event, ev.SubmissionAuthorised):
                if event.n > 1 and "ckpt_cut_at_resolve" in kinds and draws.ppm(RESOLVE_PPM, f"resolve/{address}"):
                    self._world.cut("checkpoint")
            elif (
                isinstance(event, ev.CallAuthorised)
                and "crash_at_call_commit" in kinds
                and draws.ppm(CALL_COMMIT_PPM, f"call_commit/{address}")
            ):
                if draws.below(_HALF, f"call_commit_after/{address}"):
                    seat.crash_after = True
                else:
                    self._world.crash(seat.pid, "crash_at_call_commit")

    def _maybe_freeze(
        self, seat: "Seat", kind: str, ppm: int, span: tuple[int, int], *, counter: str | None = None
    ) -> None:
        address = f"{seat.name}/{seat.calls}"
        if kind in self._kinds and self._draws.ppm(ppm, f"{kind}/{address}"):
            seat.freeze(self._world.now + self._draws.span_ns(*span, f"{kind}_ns/{address}"), counter or kind)
