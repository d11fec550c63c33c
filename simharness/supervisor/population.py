"""Who is in the world of one job, and what surrounds them: seats, disks, lock table, ground truth, record."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from simharness.core.units import NS_PER_S
from simharness.supervisor.calls import Calls, UnknownCallError
from simharness.supervisor.checks import Checks
from simharness.supervisor.chooser import JOB, Draws
from simharness.supervisor.faults import CLASSES, call_faults
from simharness.supervisor.files import Files
from simharness.supervisor.locktable import LockTable
from simharness.supervisor.params import Profile
from simharness.supervisor.parking import Parking
from simharness.supervisor.procs.chaos import chaos
from simharness.supervisor.procs.env import env
from simharness.supervisor.procs.person import Person
from simharness.supervisor.procs.pruner import pruner
from simharness.supervisor.procs.sweeper import sweeper
from simharness.supervisor.procs.trainer import trainer
from simharness.supervisor.record import Ledger, WatchedStore
from simharness.supervisor.seats import Body, Seat, Surroundings
from simharness.supervisor.trace import Recorded
from simharness.supervisor.truth import Truth
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.config import NO_DEFECTS, Defects, JobSpec, Policy, Timing
from simharness.systems.supervisor.fold import Illegal
from simharness.systems.supervisor.operator import declare
from simharness.systems.supervisor.process import Ending, supervisor
from simharness.systems.supervisor.store.codec import TOMBSTONE
from simharness.systems.supervisor.store.files import FileStore
from simharness.systems.supervisor.store.memory import MemoryRecord, MemoryStore

if TYPE_CHECKING:
    from simharness.supervisor.world import World

_BACK: Final = (5 * NS_PER_S, 60 * NS_PER_S)
BACKEND_CALLS: Final = (seam.Start, seam.Open, seam.Stop, seam.BoundedCall, seam.ClearBit, seam.Cessation, seam.Find)


class Population:
    """Everybody and everything in one run; processes are spawned, resumed and ended here.

    Args:
        draws: Process draws, keyed draws and the schedule of the seed.
        profile: The seed's parameters.
        own_forms: Processes that a schedule stands in for.
        defects: Rules that are switched off, fixed for the run.
        record: Keep trace records.
        skip: Invariants that are not looked at.
    """

    def __init__(
        self,
        draws: Draws,
        profile: Profile,
        *,
        own_forms: Sequence[str] = (),
        defects: Defects = NO_DEFECTS,
        record: bool = False,
        skip: Iterable[str] = (),
    ) -> None:
        self.draws, self.profile, self.defects = draws, profile, defects
        self.now = 0
        self.quiet = False
        self.seen: set[str] = set()
        self.checks = Recorded(ev.raw, skip) if record else Checks(ev.raw, skip)
        timing = Timing(start_wait_ns=profile.start_wait_ns)
        self.spec = JobSpec(
            job=JOB,
            shape=profile.shape,
            policy=Policy(node_lost=profile.node_loss),
            shared=profile.shared,
            abandon=profile.abandon,
            timing=timing,
        )
        self.lock = LockTable(everyone=profile.lock == "everyone")
        self.record, self.checkpoints = Files(), Files()
        self.memory = MemoryRecord(defects)
        world = cast("World", self)
        self.persona = Person(world)
        self.truth = Truth(profile, draws, timing, self.checks, self.seen, self._execution, defects)
        self.ledger = Ledger(self.checks, self.seen, defects, self.persona.sense, lambda: bool(self.truth.purged_at))
        seed_class = CLASSES[profile.seed_class]
        self.calls = Calls(
            draws=draws,
            truth=self.truth,
            checks=self.checks,
            ledger=self.ledger,
            memory=self.memory,
            record=self.record,
            checkpoints=self.checkpoints,
            lock=self.lock,
            seen=self.seen,
            faults=call_faults(frozenset(profile.kinds), seed_class, profile.rate_ppm),
        )
        self.parking = Parking(world)
        self.exits: dict[str, int] = {}
        self.seats: dict[str, Seat] = {}
        self.ready: dict[str, int] = {}
        """When each process may go on, in spawn order as the seats: a dictionary of its own because every step goes through it."""
        self._declare()
        for number in range(profile.supervisors):
            self._spawn(f"sup{number}", self._supervisor)
        for pid, body in (("env", self._env), ("person", self._person), ("chaos", self._chaos)):
            if pid not in own_forms:
                self._spawn(pid, body)
        self._spawn("sweeper", lambda _seat: sweeper(world))
        if profile.store == "file":
            self._spawn("pruner", self._pruner)

    # --- spawning ----------------------------------------------------------------------------------------------------

    def _spawn(self, pid: str, body: Callable[[Seat], Body]) -> None:
        """Put a process into the world; its first incarnation begins at its first step."""
        self.seats[pid] = Seat(pid, body, self.draws.process, self.ready)

    def respawn(self, pid: str) -> None:
        """Let a process begin anew, as its next incarnation and the last in spawn order, whether it was there or not."""
        seat = self.seats.pop(pid, None)
        if seat is None:
            self._spawn(pid, self._env if pid == "env" else self._person)
        else:
            del self.ready[pid]
            seat.stop(self.now)
            seat.ending = None
            self.seats[pid] = seat

    def finish(self, pid: str) -> None:
        """End a process for good, if there is one."""
        seat = self.seats.pop(pid, None)
        if seat is not None:
            seat.finish("over")
            del self.ready[pid]

    def _supervisor(self, seat: Seat) -> Body:
        context = Surroundings(seat, self.clock, self.lock)
        return supervisor(context, self.store_of(seat), self.defects)

    def _env(self, seat: Seat) -> Body:
        return env(cast("World", self), seat.stream, quiet=self.quiet)

    def _person(self, seat: Seat) -> Body:
        return self.persona.live(seat)

    def _chaos(self, seat: Seat) -> Body:
        return chaos(cast("World", self), seat.stream)

    def _pruner(self, _seat: Seat) -> Body:
        return pruner(cast("World", self))

    def store_of(self, seat: Seat) -> WatchedStore:
        """Open the record for one incarnation."""
        if self.profile.store == "memory":
            inner: seam.Store = MemoryStore()
        else:
            inner = FileStore(JOB, self.defects)
        owns = self._owns(seat.name) if seat.supervises else _always
        return WatchedStore(inner, seat.name, self.ledger, self.checks, self.seen, seat.watch, owns)

    def _owns(self, name: str) -> Callable[[], bool]:
        return lambda: self.lock.owns(name)

    def _declare(self) -> None:
        """Write the record's first batch, before anybody is there."""
        seat = self._visitor = Seat("visitor", lambda _seat: _nobody(), self.draws.process, {})
        seat.begin()
        store = self.store_of(seat)
        reply = self.inline(seat, store.commit(0, declare(self.spec), f"{seat.name}#1"))
        assert isinstance(reply, seam.Committed)

    def requeue_open(self) -> bool:
        """Tell whether the acknowledged record has an open requeue call."""
        return bool(self.ledger.state.open_calls(kind="requeue"))

    def tombstone(self) -> bool:
        """Tell whether the record's disk shows a tombstone."""
        return TOMBSTONE in self.record.listing().files

    def at_once(self, what: str, escalation: str) -> bool:
        """Let the person act now, as an entry of a schedule asks."""
        seat = self._visitor
        seat.begin()
        return bool(self.inline(seat, self.persona.at_once(seat, what, escalation)))

    def inline(self, seat: Seat, body: Body) -> Any:
        """Run a process to its end at this instant, undisturbed; return its result, or None if it wants to wait."""
        reply: Any = None
        while True:
            try:
                call = body.send(reply)
            except StopIteration as stop:
                return stop.value
            if type(call) is seam.Sleep:
                body.close()
                return None
            seat.call = call
            reply = self.calls.execute(seat, "ok")

    # --- trainers ----------------------------------------------------------------------------------------------------

    def _execution(self, obj: str, runs: int, begins: bool) -> None:  # noqa: FBT001  # a callback has no keywords
        """An execution begins: its trainer is there at once. One ends: its trainer lingers for a drawn while."""
        pid = f"trainer:{obj}:{runs}"
        if begins:
            self._spawn(pid, lambda seat: trainer(cast("World", self), seat))
            self.truth.living_trainers.add(pid)
            self.checks.trainer(pid, alive=True)
        elif pid in self.truth.living_trainers:
            self.exits[pid] = self.now + self.draws.span_ns(0, self.profile.linger_ns, f"linger/{pid}")
            if self.exits[pid] <= self.now:
                self.exit(pid)

    def exit(self, pid: str) -> None:
        """A trainer exits."""
        del self.exits[pid]
        self.finish(pid)
        self.truth.living_trainers.discard(pid)
        self.checks.trainer(pid, alive=False)

    # --- going on ----------------------------------------------------------------------------------------------------

    def clock(self) -> int:
        """Return the instant, in ns since the first tick."""
        return self.now

    def start(self, seat: Seat) -> None:
        """Begin the next incarnation of a process."""
        seat.begin()
        seat.sleep_until(self.now)
        self._resume(seat, None)

    def _resume(self, seat: Seat, reply: Any) -> None:
        body = seat.body
        assert body is not None
        try:
            call = body.send(reply)
        except StopIteration as stop:
            self._ended(seat, stop.value)
            return
        except Illegal as illegal:
            message = f"{seat.name} reads a record that does not fold: {illegal.rule}"
            raise self.checks.broken("9", message) from None
        seat.call = call
        seat.calls += 1
        if type(call) is seam.Sleep:
            seat.sleep_until(call.until_ns)
            return
        if type(call) not in self.calls.kinds:
            raise UnknownCallError(f"{seat.name} yields {call!r}, which is no seam call")
        seat.sleep_until(self.now)
        if seat.supervises and isinstance(call, BACKEND_CALLS):
            self.checks.issued(seat.name, call.version, type(call).__name__, subject_of(call))
        self.parking.park(seat)

    def _ended(self, seat: Seat, ending: object) -> None:
        """A process has returned: a drained supervisor comes back, everybody else has finished."""
        self.lock.release(seat.name)
        if ending is Ending.DRAINED:
            self.seen.add("drain")
            seat.stop(self.now + self.draws.span_ns(*_BACK, f"back/{seat.name}"))
        else:
            seat.finish(str(ending))


def subject_of(call: seam.BackendCall) -> str:
    """Return what a backend call is about: attempt or object; empty for a Find."""
    if isinstance(call, seam.Start):
        return f"{call.n}/{call.a}"
    return "" if isinstance(call, seam.Find) else call.obj


def _always() -> bool:
    return True


def _nobody() -> Body:
    return
    yield
