"""The world of one job: one step is one move of the clock and one actor that goes on."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from simharness.supervisor import quiet
from simharness.supervisor.chooser import JOB, Chooser, Draws, ReplayChooser, SeededChooser
from simharness.supervisor.disturbances import Disturbances
from simharness.supervisor.params import Profile
from simharness.supervisor.population import subject_of
from simharness.supervisor.schedule import Entry
from simharness.supervisor.seats import NEVER
from simharness.supervisor.trace import Recorded, TraceHash, readable
from simharness.supervisor.truth import LateCall
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.config import NO_DEFECTS, Defects

if TYPE_CHECKING:
    from simharness.systems.supervisor.backend import Act

_AFTER_SETTLEMENT: Final = 150
_LAND_AT_BOUND_PPM: Final = 700_000
_TAKES_EFFECT: Final = (seam.MemCommit, seam.FsLink)
_IDLE: Final = Entry(0, "idle")
_OK: Final = seam.Ok()
_SPELT_BARE: Final = frozenset({seam.Sleep, seam.AcquireLock, seam.FsList})
_SPELT_BY_NAME: Final = frozenset({seam.FsRead, seam.FsWrite, seam.FsSync, seam.FsUnlink})
_SPELT_BY_NEW_NAME: Final = frozenset({seam.FsLink, seam.FsRename})


class World(Disturbances):
    """One run, step by step.

    Args:
        draws: Process draws, keyed draws and the schedule of the seed.
        profile: The seed's parameters.
        schedule: What to replay in place of the drawn schedule.
        defects: Rules that are switched off, fixed for the run.
        record: Keep trace records; `act` returns them.
        keep: Keep the schedule and the readable trace.
        skip: Invariants that are not looked at.
    """

    def __init__(
        self,
        draws: Draws,
        profile: Profile,
        *,
        schedule: ReplayChooser | None = None,
        defects: Defects = NO_DEFECTS,
        record: bool = False,
        keep: bool = False,
        skip: Iterable[str] = (),
    ) -> None:
        own_forms = () if schedule is None else schedule.stands_in_for()
        super().__init__(draws, profile, own_forms=own_forms, defects=defects, record=record, skip=skip)
        self.chooser: Chooser = SeededChooser(draws.schedule()) if schedule is None else schedule
        self.steps = self.quiet_steps = 0
        self.done = False
        self.jump_ns = 0
        self.schedule: list[Entry] | None = [] if keep else None
        self.lines: list[str] | None = [] if keep else None
        self._hash = TraceHash()
        self._recorded = self.checks if isinstance(self.checks, Recorded) else None
        self._moved_ns = 0
        self._last = ""
        """Who or what the last step was about."""
        self._tamper_step = profile.tamper_step if profile.tamper != "none" else None
        self._settled_step: int | None = None
        self._verbs: dict[str, Callable[[str, str], bool]] = {
            "env": lambda obj, act: self.truth.act(obj, cast("Act", act)),
            "person": self.at_once,
            "crash": lambda pid, _: self.crash(pid),
            "drain": lambda pid, _: self.drain(pid),
            "revoke": lambda pid, _: self.revoke(pid),
            "thaw": lambda pid, _: self.thaw(pid),
            "freeze": lambda pid, for_ns: self.freeze(pid, int(for_ns)),
            "cut": lambda which, _: self.cut(which),
        }
        if self.chooser.ended:  # an empty schedule has no step that could end it
            quiet.begin(self)

    # --- the clock ---------------------------------------------------------------------------------------------------

    def next_dt(self) -> int:
        """Return how far the clock moves before the next step: never past the bound of a call that is still out."""
        move = self.jump_ns
        if not move:
            move = self.chooser.move_ns()
            if self.chooser.drawn:  # if nobody could go on after it, time jumps to what is due
                at_ns = self.now + move
                if self.ready.get(self._last, NEVER) > at_ns:  # who went on last is often still ready: a short cut
                    earliest = min(self.ready.values(), default=NEVER)
                    if at_ns < earliest < NEVER:
                        move = earliest - self.now
        if self.truth.late:
            bound = self.truth.earliest_bound_ns()
            if bound is not None and self.now + move > bound:
                move = bound - self.now
        return move

    def advance(self, at_ns: int) -> None:
        """Set the clock and let timed ground truth happen."""
        move = at_ns - self.now
        self._moved_ns = move
        if not move:
            return
        assert move > 0, "time never goes back"
        self.now = at_ns
        if self.jump_ns:
            self.jump_ns = max(0, self.jump_ns - move)
        elif not self.chooser.drawn:
            self.chooser.moved(move)
        self.truth.advance(at_ns)
        if self.exits:
            for pid, exit_ns in list(self.exits.items()):
                if exit_ns <= at_ns:
                    self.exit(pid)

    def step(self) -> None:
        """Move the clock and perform one step."""
        self.advance(self.now + self.next_dt())
        self.act()

    def act(self) -> list[dict[str, Any]]:
        """Perform one step at the present instant; return its trace records if they are kept.

        Raises:
            Violation: If an invariant is broken.
        """
        assert not self.done, "the run is over"
        self.steps += 1
        if self.steps == self._tamper_step:
            self.tamper()
        late = self.truth.at_bound() if self.truth.late else None
        if late is not None:
            entry = self._at_bound(late)
        elif self.jump_ns:
            entry = _IDLE
        else:
            now = self.now
            landing = self.truth.landing() if self.truth.late else []
            runnable = [pid for pid, ready_ns in self.ready.items() if ready_ns <= now]
            entry = self.chooser.entry(landing, runnable) or _IDLE
        if self.schedule is not None and not self.quiet:  # first, so that a step that breaks an invariant is there too
            self.schedule.append(entry._replace(dt_ns=self._moved_ns))
        self._last = entry.target
        if late is not None:
            actor, op, reply = self._settle_late(late, entry.arg)
        elif entry.verb == "run":
            actor, op, reply = self._run(entry.target, entry.arg or None)
        else:
            actor, op, reply = self._perform(entry)
        self._hash.add(f"{self.steps} {self.now} {actor} {op} {reply}")
        if self.lines is not None:
            self.lines.append(readable(self.steps, self.now, actor, op, reply))
        self._after_step()
        recorded = self._recorded
        if recorded is None:
            return []
        recorded.note("Step", step=self.steps, actor=actor, op=op, reply=reply)
        return recorded.take()

    def trace_hash(self) -> str:
        """Return the hash of all steps so far."""
        return self._hash.hexdigest()

    def snapshot(self) -> dict[str, Any]:
        """Return the fold of the record, the object table, the parked calls and the counters as plain JSON values."""
        objects = [msgspec.to_builtins(o) for o in self.truth.backend.objects if o.job == JOB]
        parked = {pid: describe(seat.call) for pid, seat in self.seats.items() if seat.call is not None}
        return {
            "step": self.steps,
            "world_ns": self.now,
            "quiet": self.quiet,
            "record": msgspec.to_builtins(self.ledger.state),
            "objects": objects,
            "parked": parked,
            "late": [late.late_id for late in self.truth.late],
            "counters": sorted(self.seen),
        }

    def _at_bound(self, late: LateCall) -> Entry:
        fate = None if self.jump_ns else self.chooser.bound(late.late_id)
        if fate is None:
            fate = "land" if self.draws.ppm(_LAND_AT_BOUND_PPM, f"bound/{late.late_id}") else "lose"
        return Entry(0, "late", late.late_id, fate)

    def _after_step(self) -> None:
        """Go over to the quiet phase, or end."""
        if self.quiet:
            self.quiet_steps += 1
            lacking = quiet.missing(self)
            if lacking is None:
                self.done = True
            elif self.quiet_steps >= quiet.bound(self):
                self.checks.fail("L", f"after {self.quiet_steps} quiet steps the run still waits for {lacking}")
                self.done = True
            return
        settled = self._settled_step
        if settled is None and self.checks.settled:
            settled = self._settled_step = self.steps
        if not self.chooser.drawn:
            over = self.chooser.ended
        else:
            over = self.steps >= self.profile.steps or (
                settled is not None and self.steps - settled >= _AFTER_SETTLEMENT and not self.truth.late
            )
        if over:
            quiet.begin(self)

    # --- one step ----------------------------------------------------------------------------------------------------

    def _perform(self, entry: Entry) -> tuple[str, str, str]:
        """Let an entry happen; return actor, operation and reply for the trace."""
        verb, target, arg = entry.verb, entry.target, entry.arg
        if verb == "reply":
            return self._run(target, None)
        if verb == "late":
            late = self.truth.find_late(target)
            if late is not None:
                return self._settle_late(late, arg)
        do = self._verbs.get(verb)
        done = do is not None and do(target, arg)
        return verb, f"{target} {arg}".strip(), "done" if done else "skipped"

    def _settle_late(self, late: LateCall, fate: str) -> tuple[str, str, str]:
        self.truth.settle_late(late, land=fate == "land")
        return "late", late.late_id, fate

    def _run(self, pid: str, mode: str | None) -> tuple[str, str, str]:
        """Let a process execute its parked call and go on to its next yield."""
        seat = self.seats.get(pid)
        if seat is None or self.ready[pid] > self.now or seat.ending is not None:
            return pid, "", "skipped"
        if seat.body is None:
            self.start(seat)
            return pid, "begins", seat.name
        if seat.stalled is not None:
            self.seen.add(seat.stalled)
            seat.stalled = None
        call = seat.call
        if type(call) is seam.Sleep:  # half of all steps: nothing can befall it
            self._resume(seat, _OK)
            return pid, "Sleep", "Ok"
        if seat.reply is not None:
            reply, seat.reply = seat.reply, None
            self.seen.add("find_reply_late")
        else:
            reply = self.calls.execute(seat, mode)
            if type(call) is seam.Find and (delay_ns := self.calls.delay_ns(seat, reply, mode)):
                seat.reply = reply
                seat.sleep_until(self.now + delay_ns)
                return pid, describe(call), "late reply"
            if seat.crash_after and isinstance(call, _TAKES_EFFECT):
                self.crash(pid, "crash_at_call_commit")
                return pid, describe(call), "crash"
        if type(call) is seam.Find and type(reply) is seam.Found:
            self.checks.found(seat.name, [view.obj for view in reply.views])
        self._resume(seat, reply)
        return pid, describe(call), type(reply).__name__


def describe(call: Any) -> str:
    """Return a call as the trace spells it."""
    kind = type(call)
    name = kind.__name__
    if kind in _SPELT_BARE:
        return name
    if kind is seam.FsSyncDir:
        return f"FsSyncDir {call.fs} "
    if kind is seam.MemRead:
        return f"MemRead {call.have}"
    if kind in _SPELT_BY_NAME:
        return f"{name} {call.fs} {call.name}"
    if kind in _SPELT_BY_NEW_NAME:
        return f"{name} {call.fs} {call.new}"
    if kind is seam.MemCommit:
        return f"MemCommit {call.expected} {' '.join([ev.kind_of(event) for event in call.batch])}"
    if kind is seam.BoundedCall:
        return f"{call.kind} {call.obj}"
    return f"{name} {subject_of(call)}"
