"""A batch scheduler in memory with the behaviour of §7.2 of the design, the adapter that keeps its contract, and the environment.

`MemoryBackend` is ground truth and its transitions, `Adapter` is what a supervisor's calls go through (contract B1 to B8), and
`Env` does what only an environment does. Nothing here draws: what is left to chance is asked of a `Nature`. Timed behaviour is
computed from the clock in `advance`, never by a timer.
"""

from collections.abc import Callable
from typing import Final, Literal, Protocol

import msgspec

from simharness.systems.supervisor.config import NO_DEFECTS, Defects, Shape, SupervisorDefect, Timing
from simharness.systems.supervisor.seam import (
    BackendCall,
    BackendReply,
    BoundedCall,
    Ceased,
    Cessation,
    ClearBit,
    Created,
    Find,
    Found,
    ObjectState,
    Ok,
    Open,
    Refused,
    Start,
    Stop,
    View,
)

Act = Literal["place", "complete", "fail", "preempt", "lose", "revive", "purge", "power_off"]
ACTS: Final[tuple[Act, ...]] = ("place", "complete", "fail", "preempt", "lose", "revive", "purge", "power_off")
REQUEUE_STEPS: Final = 3
_NEVER: Final = 1 << 62


class BackendObject(msgspec.Struct, kw_only=True, eq=False):
    """Ground truth of one object. Its identity is (job, n, a, id); `opened`: it could run at some time."""

    job: str
    n: int
    a: int
    id: int
    created_at: int
    visible_at: int
    gated: bool = True
    opened: bool = False
    held: bool = False
    bit: bool = False
    state: ObjectState = "pending"
    cause: str | None = None
    lost: bool = False
    lost_until: int | None = None
    runs: int = 0
    stop_requested: bool = False
    revived: bool = False
    kill_at: int | None = None
    ended_at: int | None = None
    purge_at: int | None = None
    purged: bool = False

    @property
    def obj(self) -> str:
        """Its identity within the job, as events and views spell it."""
        return f"{self.n}/{self.a}/{self.id}"

    @property
    def alive(self) -> bool:
        """Whether it is not ended."""
        return self.state != "ended"


class Nature(Protocol):
    """What a real cluster decides by itself. Every answer is fixed by its arguments, however often it is asked."""

    def id_for(self, n: int, a: int) -> int | None:
        """Return a used id for the object of a Start, or None for a fresh one."""

    def visible_lag_ns(self, obj: str) -> int:
        """Return how long Finds miss a new object; at most `visible_lag_ns` of the timing (B5)."""

    def kill_after_ns(self, obj: str, runs: int) -> int:
        """Return how long a stopped execution takes to end."""

    def lost_for_ns(self, obj: str, runs: int) -> int | None:
        """Return how long a lost node stays away, or None for ever (kubeflow)."""

    def purge_after_ns(self, obj: str, runs: int) -> int | None:
        """Return how long after its end an object is collected, or None for never (B7)."""

    def processes_left(self, job: str) -> bool:
        """Tell whether a process of the job is left on any node."""


Watch = Callable[[BackendObject, str, object, object], None]
"""Told of every transition: the object, the field, its old and its new value."""


class MemoryBackend:
    """Objects of any number of jobs, in creation order, and the transitions of ground truth."""

    def __init__(self, *, shape: Shape, nature: Nature, watch: Watch | None = None) -> None:
        self.shape, self.nature, self.watch = shape, nature, watch
        self.objects: list[BackendObject] = []
        self._by_name: dict[tuple[str, str], BackendObject] = {}
        self._next_id = 1
        self.due_ns = 0
        """Nothing falls due before this instant; 0 if that must be looked for again."""

    def create(self, *, job: str, n: int, a: int, now: int, gated: bool = True) -> BackendObject:
        """Add a pending object. One atomic step: there is no instant at which a gated one is not gated (B1)."""
        number = self.nature.id_for(n, a)
        if number is None:
            number = self._next_id
        return self.plant(
            BackendObject(job=job, n=n, a=a, id=number, created_at=now, visible_at=now, gated=gated, opened=not gated)
        )

    def plant(self, o: BackendObject) -> BackendObject:
        """Add an object as it is, its visibility apart, which nature decides for an object that is still alive."""
        key = (o.job, o.obj)
        assert key not in self._by_name, "an identity is never given twice (B8)"
        self._next_id = max(self._next_id, o.id + 1)
        self.due_ns = 0
        if o.alive:
            o.visible_at = o.created_at + self.nature.visible_lag_ns(o.obj)
        self.objects.append(o)
        self._by_name[key] = o
        if self.watch is not None:
            self.watch(o, "created", None, o.obj)
        return o

    def get(self, job: str, obj: str) -> BackendObject | None:
        """Return the object of this whole identity, unless there is none or it was purged (B8)."""
        o = self._by_name.get((job, obj))
        return None if o is None or o.purged else o

    def of(self, job: str) -> list[BackendObject]:
        """Return the objects of a job that are not purged, in creation order."""
        return [o for o in self.objects if o.job == job and not o.purged]

    def advance(self, now: int) -> None:
        """Let everything happen that is due: executions end, nodes come back, ended objects are collected."""
        if not self.due_ns:
            times = [at for o in self.objects for at in (o.kill_at, o.lost_until, o.purge_at) if at is not None]
            self.due_ns = min(times, default=_NEVER)
        if now < self.due_ns:
            return
        self.due_ns = 0
        for o in self.objects:
            if o.kill_at is not None and o.kill_at <= now:
                self.end(o, "stopped", o.kill_at)
            if o.lost_until is not None and o.lost_until <= now:
                back = o.lost_until
                self._set(o, lost_until=None, lost=False)
                if o.stop_requested:
                    self.end(o, "stopped", back)
            if o.purge_at is not None and o.purge_at <= now:
                self.purge(o)

    # --- effects of calls --------------------------------------------------------------------------------------------

    def open(self, o: BackendObject) -> None:
        """Take the gate away; an ended object cannot be opened (B2)."""
        if o.alive and o.gated:
            self._set(o, gated=False, opened=True)

    def stop(self, o: BackendObject, now: int) -> None:
        """End a pending object, begin to end a running one, leave word for a lost one."""
        if o.lost:
            self._set(o, stop_requested=True)
        elif o.state == "pending":
            self.end(o, "stopped", now)
        elif o.state == "running":
            self._set(o, state="stopping", kill_at=now + self.nature.kill_after_ns(o.obj, o.runs))

    def hold(self, o: BackendObject) -> None:
        """Keep a pending object from being placed."""
        if o.state == "pending":
            self._set(o, held=True)

    def release(self, o: BackendObject) -> None:
        """Undo a hold."""
        self._set(o, held=False)

    def requeue(self, o: BackendObject, *, steps: int = REQUEUE_STEPS) -> None:
        """Put an execution back in the queue, in three steps: allow it, do it, take the permission back.

        Args:
            o: The object; an ended one lives again, a pending or stopping one only gets the permission and loses it.
            steps: How many steps are done before the scheduler crashes; fewer than all leave the bit set.
        """
        allow, do, done = (step < steps for step in range(REQUEUE_STEPS))
        if allow:
            self._set(o, bit=True)
        if do:
            if o.state == "running":
                self._set(o, state="pending", runs=o.runs + 1)
            elif o.state == "ended":
                self.revive(o)
        if done:
            self._set(o, bit=False)

    def clear_bit(self, o: BackendObject) -> None:
        """Take back the permission to be requeued."""
        self._set(o, bit=False)

    # --- transitions -------------------------------------------------------------------------------------------------

    def revive(self, o: BackendObject) -> None:
        """Bring an ended object back: pending, ungated, unheld."""
        assert not o.purged, "a purged object never runs again (B7)"
        self._set(
            o,
            revived=True,
            cause=None,
            held=False,
            gated=False,
            opened=True,
            runs=o.runs + 1,
            stop_requested=False,
            ended_at=None,
            purge_at=None,
            state="pending",  # last: whoever watches sees it alive only when it is whole
        )

    def lose(self, o: BackendObject, now: int) -> None:
        """Lose the node under an execution. slurm ends it; kubeflow goes on listing it as alive."""
        if self.shape == "slurm":
            self.end(o, "node_lost", now)
            return
        away = self.nature.lost_for_ns(o.obj, o.runs)
        self._set(o, lost=True, lost_until=None if away is None else now + away)

    def place(self, o: BackendObject) -> None:
        """Give a pending object its nodes."""
        self._set(o, state="running")

    def purge(self, o: BackendObject) -> None:
        """Collect an ended object, bit and all (B7)."""
        assert not o.alive, "only what has ended is collected"
        self._set(o, purge_at=None, bit=False, purged=True)

    def end(self, o: BackendObject, cause: str, at: int) -> None:
        """End an object, at an instant that may lie before now, for a cause."""
        self._set(
            o, kill_at=None, lost_until=None, lost=False, stop_requested=False, cause=cause, ended_at=at, state="ended"
        )
        after = self.nature.purge_after_ns(o.obj, o.runs)
        self._set(o, purge_at=None if after is None else at + after)

    def _set(self, o: BackendObject, **changes: object) -> None:
        self.due_ns = 0
        for field, value in changes.items():
            old = getattr(o, field)
            if old != value:
                setattr(o, field, value)
                if self.watch is not None:
                    self.watch(o, field, old, value)


class Adapter:
    """One job's calls on a backend. `execute` is the undisturbed call; a simulated world takes it apart.

    A call starts with `admit`, which looks at the clock (B3); what was admitted may land at once or later, a bounded call not
    after `bound_ns` of the instant at which it started.
    """

    def __init__(self, backend: MemoryBackend, *, job: str, timing: Timing, defects: Defects = NO_DEFECTS) -> None:
        self._backend, self._job, self._timing, self._defects = backend, job, timing, defects

    def execute(self, call: BackendCall, now: int) -> BackendReply:
        """Do a call, whole and at once."""
        return self.admit(call, now) or self.land(call, now)

    def admit(self, call: BackendCall, now: int) -> Refused | None:
        """Start a call: refuse a bounded one that comes too late, without any effect (B3, B4)."""
        if not isinstance(call, BoundedCall):
            return None
        # knob LATE_CLIENT_DEADLINE: nobody looks at the clock when the call starts (R8)
        late = now > call.deadline_ns and SupervisorDefect.LATE_CLIENT_DEADLINE not in self._defects
        return Refused() if late else None

    def bound_ns(self, call: BoundedCall, started_at: int) -> int:
        """Return the last instant at which an admitted bounded call may have an effect (B3)."""
        # knob LATE_CLIENT_DEADLINE, second half: a call that starts in time starts no later than its deadline
        return max(call.deadline_ns, started_at) + self._timing.call_bound_ns

    def land(self, call: BackendCall, now: int, *, steps: int = REQUEUE_STEPS) -> BackendReply:
        """Let an admitted call take effect now.

        Args:
            call: The call.
            now: The instant.
            steps: How far a requeue comes before the scheduler crashes.

        Returns:
            The reply that its sender gets if nothing is in the way.
        """
        if isinstance(call, Start):
            # knob UNGATED_START: created as something that may run (R3)
            gated = SupervisorDefect.UNGATED_START not in self._defects
            return Created(obj=self._backend.create(job=self._job, n=call.n, a=call.a, now=now, gated=gated).obj)
        if isinstance(call, Find):
            return self.found(now)
        o = self._backend.get(self._job, call.obj)
        if o is None:
            return Refused() if isinstance(call, BoundedCall) else Ok()
        match call:
            case Open():
                self._backend.open(o)
            case Stop():
                self._backend.stop(o, now)
            case _:
                return self._slurm(call, o, steps)
        return Ok()

    def _slurm(self, call: BoundedCall | ClearBit | Cessation, o: BackendObject, steps: int) -> BackendReply:
        assert self._backend.shape == "slurm", "the other shape has no such call"
        match call:
            case Cessation():
                busy = o.state in ("running", "stopping")
                return Ceased(ceased=not busy and not self._backend.nature.processes_left(self._job))
            case ClearBit():
                self._backend.clear_bit(o)
            case BoundedCall(kind="hold"):
                self._backend.hold(o)
            case BoundedCall(kind="release"):
                self._backend.release(o)
            case BoundedCall():
                self._backend.requeue(o, steps=steps)
        return Ok()

    def found(self, now: int) -> Found:
        """Return the job's objects as they are, but for those too young to be listed (B5); other jobs' never (B8)."""
        return Found(views=tuple(_view(o) for o in self._backend.of(self._job) if o.visible_at <= now))


def _view(o: BackendObject) -> View:
    return View(
        obj=o.obj,
        n=o.n,
        a=o.a,
        alive=o.alive,
        gated=o.gated,
        state=o.state,
        cause=o.cause,
        held=o.held,
        bit=o.bit,
        lost=o.lost,
        runs=o.runs,
    )


class Env:
    """What only an environment does to objects: the scheduler's own decisions, accidents, and the person at the power switch."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def possible(self, o: BackendObject, act: Act) -> bool:
        """Tell whether `act` can happen to an object as it is."""
        if o.purged:
            return False
        match act:
            case "place":
                return o.state == "pending" and not o.gated and not o.held
            case "complete" | "fail" | "preempt" | "lose":
                return o.state == "running" and not o.lost
            case "revive":
                slurm = self._backend.shape == "slurm"
                return slurm and not o.alive and o.bit and o.cause in ("preempted", "node_lost")
            case "purge":
                return not o.alive
            case "power_off":
                return o.alive and o.lost

    def do(self, o: BackendObject, act: Act, now: int) -> bool:
        """Do it, if it is possible; tell whether it was."""
        if not self.possible(o, act):
            return False
        backend = self._backend
        match act:
            case "place":
                backend.place(o)
            case "complete":
                backend.end(o, "completed", now)
            case "fail":
                backend.end(o, "failed", now)
            case "preempt":
                backend.end(o, "preempted", now)
            case "lose":
                backend.lose(o, now)
            case "revive":
                backend.revive(o)
            case "purge":
                backend.purge(o)
            case "power_off":
                backend.end(o, "node_lost", now)
        return True
