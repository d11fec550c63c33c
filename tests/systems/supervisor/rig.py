"""A small world for the supervisor's own tests: processes parked at their calls, a backend, two disks, and a script of faults.

It is not the simulator: it has no schedule, no checks and no coverage, and every fault is asked for by the test that wants it.
"""

import random
from collections.abc import Callable
from typing import TypeVar

from simharness.disk.crash import CrashDisk
from simharness.systems.supervisor import operator, seam
from simharness.systems.supervisor.backend import Adapter, BackendObject, Env, MemoryBackend
from simharness.systems.supervisor.config import NO_DEFECTS, SECOND, Defects, JobSpec
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.fold import fold
from simharness.systems.supervisor.process import Ending, supervisor
from simharness.systems.supervisor.state import State
from simharness.systems.supervisor.store.files import FileStore
from simharness.systems.supervisor.store.memory import MemoryRecord, MemoryStore
from simharness.systems.supervisor.store.port import perform

T = TypeVar("T")

BACKEND_CALLS = (
    seam.Start,
    seam.Open,
    seam.Stop,
    seam.Find,
    seam.BoundedCall,
    seam.ClearBit,
    seam.Cessation,
)


class Calm:
    """A nature that does the same every time; a test changes what it is about."""

    def __init__(self) -> None:
        self.ids: dict[tuple[int, int], int] = {}
        self.lag_ns = 0
        self.kill_ns = 4 * SECOND
        self.lost_ns: int | None = None
        self.purge_ns: int | None = None
        self.processes = False

    def id_for(self, n: int, a: int) -> int | None:
        return self.ids.get((n, a))

    def visible_lag_ns(self, obj: str) -> int:
        return self.lag_ns

    def kill_after_ns(self, obj: str, runs: int) -> int:
        return self.kill_ns

    def lost_for_ns(self, obj: str, runs: int) -> int | None:
        return self.lost_ns

    def purge_after_ns(self, obj: str, runs: int) -> int | None:
        return self.purge_ns

    def processes_left(self, job: str) -> bool:
        return self.processes


class Seat:
    """One incarnation: its context, its generator, and the call that it is parked at."""

    def __init__(self, rig: "Rig", incarnation: str) -> None:
        self._rig = rig
        self.incarnation = incarnation
        self.draining = False
        self.lock = True
        self.ending: Ending | None = None
        self.wake = 0
        self.process = supervisor(self, rig.store(), rig.defects)
        self.parked: seam.SeamCall = next(self.process)

    def now(self) -> int:
        return self._rig.now

    def owns_lock(self) -> bool:
        return self.lock

    def may_acquire(self) -> bool:
        return True

    def send(self, reply: seam.Reply) -> None:
        """Answer the parked call and run to the next one, or to the end."""
        try:
            self.parked = self.process.send(reply)
        except StopIteration as stop:
            self.ending = stop.value
        else:
            self.wake = self.parked.until_ns if isinstance(self.parked, seam.Sleep) else self._rig.now


Fault = Callable[[seam.SeamCall], "seam.Reply | None"]


class Rig:
    """One job. `fault` may answer a call in the world's place; it is then up to it whether the call takes effect."""

    def __init__(self, spec: JobSpec, *, files: bool = False, defects: Defects = NO_DEFECTS) -> None:
        self.spec, self.files, self.defects = spec, files, defects
        self.now = 0
        self.nature = Calm()
        self.backend = MemoryBackend(shape=spec.shape, nature=self.nature)
        self.adapter = Adapter(self.backend, job=spec.job, timing=spec.timing, defects=defects)
        self.env = Env(self.backend)
        self.record = MemoryRecord(defects)
        self.disks = {"record": CrashDisk(), "checkpoint": CrashDisk()}
        self.seats: list[Seat] = []
        self.sent: list[tuple[str, seam.BackendCall]] = []
        self.fault: Fault = lambda _call: None
        self.commit(operator.declare(spec))

    def store(self) -> seam.Store:
        """Return a store as a new process opens it."""
        return FileStore(self.spec.job, self.defects) if self.files else MemoryStore()

    def spawn(self, incarnation: str = "sup0.0") -> Seat:
        """Start an incarnation."""
        seat = Seat(self, incarnation)
        self.seats.append(seat)
        return seat

    def answer(self, call: seam.SeamCall) -> seam.Reply:
        """Do a call at once."""
        if isinstance(call, seam.Sleep | seam.AcquireLock):
            return seam.Ok()
        if isinstance(call, seam.MemRead):
            return self.record.read(call)
        if isinstance(call, seam.MemCommit):
            return self.record.commit(call)
        if isinstance(call, BACKEND_CALLS):
            return self.adapter.execute(call, self.now)
        return perform(self.disks[call.fs], call)

    def step(self, seat: Seat) -> None:
        """Let one incarnation do its call and run to the next; the clock jumps to its wake."""
        self.advance(max(self.now, seat.wake))
        call = seat.parked
        if isinstance(call, BACKEND_CALLS):
            self.sent.append((seat.incarnation, call))
        reply = self.fault(call)
        seat.send(self.answer(call) if reply is None else reply)

    def advance(self, to: int) -> None:
        """Move the clock."""
        self.now = to
        self.backend.advance(to)

    def run(self, until: Callable[[], bool], most: int = 5_000) -> None:
        """Run the incarnations in order of their wakes until something is so."""
        for _ in range(most):
            if until():
                return
            alive = [seat for seat in self.seats if seat.ending is None]
            assert alive, "every supervisor has ended"
            self.step(min(alive, key=lambda seat: seat.wake))
        raise AssertionError(f"not within {most} steps: {self.state()}")

    def batches(self) -> tuple[Batch, ...]:
        """Return the record."""
        if not self.files:
            return tuple(self.record.batches)
        reply = self.drive(FileStore(self.spec.job).read(0))
        assert isinstance(reply, seam.Batches)
        return reply.batches

    def state(self) -> State:
        """Return what the record says."""
        return fold(self.batches(), self.defects)

    def commit(self, batch: Batch) -> None:
        """Commit as somebody else."""
        expected = len(self.batches()) if self.files else len(self.record.batches)
        reply = self.drive(self.store().commit(expected, batch, f"other#{expected}"))
        assert isinstance(reply, seam.Committed)

    def drive(self, process: "seam.Process[T]") -> T:
        """Run a part of a process to its end, undisturbed."""
        return drive(process, self.answer)

    def kinds(self, incarnation: str | None = None) -> list[str]:
        """Return the backend calls other than Find that were sent, by name."""
        return [
            type(call).__name__
            for sender, call in self.sent
            if incarnation in (None, sender) and not isinstance(call, seam.Find)
        ]

    def truth(self, obj: str) -> BackendObject:
        """Return an object."""
        o = self.backend.get(self.spec.job, obj)
        assert o is not None
        return o


def drive(process: "seam.Process[T]", answer: Callable[[seam.SeamCall], seam.Reply]) -> T:
    """Run a process, or a part of one, with these answers."""
    try:
        call = next(process)
        while True:
            call = process.send(answer(call))
    except StopIteration as stop:
        return stop.value


def wander(seed: int, spec: JobSpec, *, files: bool, steps: int, on_batch: Callable[[State, Batch], None]) -> Rig:
    """Run two supervisors, an environment and a person with faults of every kind, all drawn from `seed`.

    Args:
        seed: What everything is drawn from.
        spec: The job.
        files: Whether the record lies on a disk.
        steps: How many steps are done.
        on_batch: Told of every batch that is proposed at the version the record is at.
    """
    draw = random.Random(seed)  # noqa: S311 - a test, replayed from its seed
    rig = Rig(spec, files=files)
    rig.nature.lag_ns = draw.choice((0, 20 * SECOND))
    rig.nature.lost_ns = draw.choice((None, 40 * SECOND))
    rig.nature.purge_ns = draw.choice((None, 60 * SECOND))
    late: list[seam.BackendCall] = []

    def fault(call: seam.SeamCall) -> "seam.Reply | None":
        if isinstance(call, seam.MemCommit) and call.expected == len(rig.record.batches):
            on_batch(rig.state(), call.batch)
        if not isinstance(call, (seam.MemCommit, *BACKEND_CALLS)) or draw.random() > 0.25:
            return None
        fate = draw.choice(("lost", "dropped", "late"))
        if fate == "late" and isinstance(call, seam.Start | seam.Open | seam.Stop | seam.BoundedCall):
            if rig.adapter.admit(call, rig.now) is None:
                late.append(call)
        elif fate == "lost":
            rig.answer(call)
        return seam.Unknown()

    rig.fault = fault
    seats = [rig.spawn("sup0.0"), rig.spawn("sup1.0")]
    for number in range(steps):
        if draw.random() < 0.4:
            rig.advance(rig.now + draw.randrange(3 * SECOND))
        for call in [call for call in late if isinstance(call, seam.BoundedCall)]:
            if rig.now > call.deadline_ns + rig.spec.timing.call_bound_ns:
                late.remove(call)
        if late and draw.random() < 0.1:
            rig.adapter.land(late.pop(draw.randrange(len(late))), rig.now, steps=draw.choice((1, 2, 3, 3, 3)))
        _nature(rig, draw)
        if draw.random() < 0.02:
            _person(rig, draw, on_batch)
        chosen = draw.randrange(2)
        if seats[chosen].ending is not None or draw.random() < 0.005:
            seats[chosen].process.close()
            seats[chosen] = rig.spawn(f"sup{chosen}.{number + 1}")
        elif seats[chosen].wake <= rig.now:
            rig.step(seats[chosen])
    return rig


def _nature(rig: Rig, draw: random.Random) -> None:
    for o in rig.backend.objects:
        if draw.random() < 0.1:
            rig.env.do(o, "place", rig.now)
        if draw.random() < 0.02:
            rig.env.do(o, draw.choice(("complete", "fail", "preempt", "preempt", "lose", "lose", "revive")), rig.now)


def _person(rig: Rig, draw: random.Random, on_batch: Callable[[State, Batch], None]) -> None:
    state = rig.state()
    asked = [question for question in state.escalations.values() if question.answer is None]
    if asked:
        question = draw.choice(asked)
        given = draw.choice(operator.answers(question.kind))
        if given == "confirmed_gone" and rig.backend.get(rig.spec.job, question.subject) is not None:
            given = "checked"
        batch = operator.answer(state, question.id, given, rig.now)
    else:
        weights = (1, 10, 20, 20, 5, 1)
        command = draw.choices(operator.COMMANDS, weights)[0]
        batch = operator.command(state, command, rig.now)
    if not isinstance(batch, operator.Refusal):
        on_batch(state, batch)
        rig.commit(batch)
