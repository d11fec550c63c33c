"""Executes the call that a process is parked at: the fault mode, the effect, the reply."""

from typing import TYPE_CHECKING, Any, Final

from simharness.core.units import NS_PER_S, PPM
from simharness.supervisor.checks import Checks
from simharness.supervisor.chooser import Draws
from simharness.supervisor.faults import POSSIBLE, CallFaults
from simharness.supervisor.files import Files
from simharness.supervisor.locktable import LockTable
from simharness.supervisor.record import Ledger
from simharness.supervisor.seats import Seat
from simharness.supervisor.truth import Truth
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.store.codec import TOMBSTONE
from simharness.systems.supervisor.store.memory import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Callable

_REPLY_LATE: Final = (1 * NS_PER_S, 40 * NS_PER_S)
_BOUNDED: Final = {"hold": "Hold", "release": "Release", "requeue": "Requeue"}
_OK: Final = seam.Ok()
_CHECKPOINT_DIGITS: Final = 8


class UnknownCallError(Exception):
    """A process yielded something that is no seam call: the run is aborted."""


class Calls:
    """The seam, answered. `faults`: what a call may meet; empty in the quiet phase."""

    def __init__(
        self,
        *,
        draws: Draws,
        truth: Truth,
        checks: Checks,
        ledger: Ledger,
        memory: MemoryRecord,
        record: Files,
        checkpoints: Files,
        lock: LockTable,
        seen: set[str],
        faults: dict[str, CallFaults],
    ) -> None:
        self._draws, self._truth, self._checks, self._ledger = draws, truth, checks, ledger
        self._memory, self._record, self._checkpoints, self._lock = memory, record, checkpoints, lock
        self._seen = seen
        self.faults = faults
        self._do: dict[type, Callable[[Seat, Any, str | None], Any]] = {
            seam.Sleep: self._sleep,
            seam.AcquireLock: self._acquire,
            seam.MemRead: self._mem_read,
            seam.MemCommit: self._mem_commit,
            seam.Find: self._find,
            **dict.fromkeys((seam.Start, seam.Open, seam.Stop, seam.BoundedCall), self._backend),
            **dict.fromkeys((seam.ClearBit, seam.Cessation), self._backend),
            **dict.fromkeys((seam.FsList, seam.FsRead, seam.FsWrite, seam.FsSync), self._file),
            **dict.fromkeys((seam.FsLink, seam.FsRename, seam.FsUnlink, seam.FsSyncDir), self._file),
        }
        self.kinds: Final = frozenset(self._do)
        """Everything that is a seam call."""

    def execute(self, seat: Seat, mode: str | None) -> Any:
        """Execute the parked call now.

        Args:
            seat: The process.
            mode: The fault mode, or None for a keyed draw.

        Returns:
            The reply.
        """
        call = seat.call
        return self._do[type(call)](seat, call, mode)

    def delay_ns(self, seat: Seat, reply: Any, mode: str | None) -> int:
        """Return how long the reply of a supervisor's Find is under way."""
        if not (seat.supervises and isinstance(reply, seam.Found)) or self.mode_of(seat, "Find", mode) != "reply_late":
            return 0
        return self._draws.span_ns(*_REPLY_LATE, f"reply/{seat.name}/{seat.calls}")

    def mode_of(self, seat: Seat, operation: str, given: str | None) -> str:
        """Return the fault mode of a call: the given one if the call has a use for it, else the keyed draw."""
        if given is not None:
            return given if given in POSSIBLE.get(operation, ()) else "ok"
        if not seat.supervises:
            return "ok"
        faults = self.faults.get(operation)
        if faults is None:
            return "ok"
        key = self._draws.key(f"mode/{seat.name}/{seat.calls}")
        if ((key >> 32) * PPM) >> 32 < PPM - faults.ppm:
            return "ok"
        modes = faults.modes
        return modes[((key & 0xFFFFFFFF) * len(modes)) >> 32]

    def _sleep(self, _seat: Seat, _call: seam.Sleep, _mode: str | None) -> seam.Ok:
        return _OK

    def _acquire(self, seat: Seat, _call: seam.AcquireLock, _mode: str | None) -> seam.Ok | seam.Refused:
        return _OK if self._lock.acquire(seat.name) else seam.Refused()

    def _backend(self, seat: Seat, call: seam.BackendCall, given: str | None) -> seam.BackendReply:
        operation = _BOUNDED[call.kind] if isinstance(call, seam.BoundedCall) else type(call).__name__
        mode = self.mode_of(seat, operation, given)
        if mode == "crash" and not (isinstance(call, seam.BoundedCall) and call.kind == "requeue"):
            mode = "ok"
        return self._truth.call(call, mode, f"{seat.name}/{seat.calls}")

    def _find(self, seat: Seat, call: seam.Find, given: str | None) -> seam.BackendReply:
        mode = self.mode_of(seat, "Find", given)
        return self._truth.call(call, "fails" if mode == "fails" else "ok", "")

    # --- the record --------------------------------------------------------------------------------------------------

    def _mem_read(self, seat: Seat, call: seam.MemRead, _mode: str | None) -> seam.ReadReply:
        self._checks.read_begins(seat.name)
        return self._memory.read(call)

    def _mem_commit(self, seat: Seat, call: seam.MemCommit, given: str | None) -> seam.CommitReply:
        mode = self.mode_of(seat, "MemCommit", given)
        if mode == "fails":
            self._seen.add("commit_failed")
            return seam.Unknown()
        reply = self._memory.commit(call)
        if isinstance(reply, seam.Committed):
            self._ledger.acknowledge(reply.version, call.batch)
            if mode == "reply_lost":
                self._seen.add("commit_reply_lost")
        return seam.Unknown() if mode == "reply_lost" else reply

    def _file(self, seat: Seat, call: seam.FsCall, given: str | None) -> seam.FsReply:
        if call.fs == "checkpoint":
            return self._checkpoint(seat, call)
        if isinstance(call, seam.FsList):
            self._checks.read_begins(seat.name)
            return self._record.listing()
        reply = self._record.execute(call)
        if isinstance(call, seam.FsLink) and call.new == TOMBSTONE and isinstance(reply, seam.FsDone):
            self._seen.add("tombstoned")
        watch = seat.watch
        if watch.batch is None or not isinstance(call, seam.FsLink | seam.FsSyncDir):
            return reply
        if isinstance(call, seam.FsLink):
            watch.linked = isinstance(reply, seam.FsDone)
        if watch.linked and self.mode_of(seat, "FileCommit", given) == "reply_lost":
            self._seen.add("commit_reply_lost")
            return seam.FsStale()
        return reply

    def _checkpoint(self, seat: Seat, call: seam.FsCall) -> seam.FsReply:
        disk = self._checkpoints
        if isinstance(call, seam.FsList):
            if seat.supervises:
                self._checks.resolves(seat.name)
            return disk.listing()
        reply = disk.execute(call)
        if isinstance(call, seam.FsSync | seam.FsSyncDir) and isinstance(reply, seam.FsDone):
            self._checks.durable(steps_of(disk.durable()))
        return reply


def steps_of(names: Any) -> list[int]:
    """Return the steps of the checkpoints among file names `%08d.<trainer>`."""
    found = []
    for name in names:
        head, dot, _ = name.partition(".")
        if dot and len(head) == _CHECKPOINT_DIGITS and head.isdigit():
            found.append(int(head))
    return found
