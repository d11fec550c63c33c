"""Decisions, what they are taken from, and the steps that running and cleaning up share (§5.3 of the design)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.config import Defects, SupervisorDefect, Timing
from simharness.systems.supervisor.events import Batch, EscalationKind, Event
from simharness.systems.supervisor.obs import CleanSweep, Evidence, Obs
from simharness.systems.supervisor.seam import BackendCall, BoundedCall, Cessation, ClearBit, Find, Stop, View
from simharness.systems.supervisor.state import Call, Obj, State, condemned_at, requeue_in_flight

STALE_POLLS: Final = 4
"""How many polls the defect STALE_FIND_EVIDENCE lives on one Find."""


class Commit(msgspec.Struct, frozen=True):
    """Append this batch at the version that was read."""

    batch: Batch


class Send(msgspec.Struct, frozen=True):
    """Make this backend call. `then` is committed after it: only the defect DEADLINE_AFTER_SEND has any."""

    call: BackendCall
    then: Batch = ()


class Resolve(msgspec.Struct, frozen=True):
    """Find the checkpoint to resume from."""


class Wait(msgspec.Struct, frozen=True):
    """Look again at `until_ns`. `sweep`: the first clean Find after a cancel, to be remembered."""

    until_ns: int
    sweep: CleanSweep | None = None


class Done(msgspec.Struct, frozen=True):
    """The record is closed."""


Decision = Commit | Send | Resolve | Wait | Done


class Look(NamedTuple):
    """All that one decision looks at. `found`: the Find that counts, if any."""

    s: State
    ob: Obs
    found: Evidence | None
    now: int
    me: str
    defects: Defects

    @property
    def timing(self) -> Timing:
        """The job's periods and bounds."""
        return self.s.declared.timing

    def is_own(self, by: str) -> bool:
        """Tell whether this incarnation is the one that an authorisation names (R2)."""
        # knob NAME_WITHOUT_INCARNATION: any incarnation of the same supervisor is (R2)
        if SupervisorDefect.NAME_WITHOUT_INCARNATION in self.defects:
            return by.partition(".")[0] == self.me.partition(".")[0]
        return by == self.me

    def since(self, op: str, obj: str) -> int | None:
        """Return how long ago an operation on an object was sent, or None if it never was."""
        at = self.ob.last.get((op, obj))
        return None if at is None else self.now - at

    def due(self, op: str, obj: str, retry_ns: int) -> bool:
        """Tell whether an operation on an object may be sent (again)."""
        ago = self.since(op, obj)
        return ago is None or ago >= retry_ns

    def view(self, obj: str) -> View | None:
        """Return what the evidence shows of an object; absence is no evidence (R7)."""
        assert self.found is not None
        view = self.found.views.get(obj)
        # knob ABSENT_MEANS_ENDED (R7)
        return GONE if view is None and SupervisorDefect.ABSENT_MEANS_ENDED in self.defects else view

    def ended(self, view: View) -> bool:
        """Tell whether an object is shown ended."""
        # knob FENCE_WITHOUT_VERIFY: a Stop sent to a lost node counts as the end (R13)
        unseen = SupervisorDefect.FENCE_WITHOUT_VERIFY in self.defects and view.lost
        return not view.alive or (unseen and self.since("stop", view.obj) is not None)

    def bit(self, view: View) -> bool:
        """Tell whether an object is shown with its requeue bit set."""
        # knob IGNORE_REQUEUE_BIT: neither cleared nor in the way (R22)
        return view.bit and SupervisorDefect.IGNORE_REQUEUE_BIT not in self.defects


GONE: Final = View(obj="", n=0, a=0, alive=False, gated=False, state="ended", cause="lost")
"""What stands for an object that no longer exists."""


def find_if_stale(look: Look) -> Decision | None:
    """Look at the backend, unless that was done at this version not long ago (R6)."""
    # knob STALE_FIND_EVIDENCE, second half: and for longer (R6)
    polls = STALE_POLLS if SupervisorDefect.STALE_FIND_EVIDENCE in look.defects else 1
    if look.found is None or look.now - look.found.start >= polls * look.timing.poll_ns:
        return Send(Find(version=look.s.version))
    return None


def rest(look: Look, *wakes: int) -> Wait:
    """Wait for the next poll, or for the earliest instant at which something falls due."""
    s, timing = look.s, look.timing
    fences = [call.deadline + timing.call_bound_ns + 1 for call in s.open_calls()]
    return Wait(min(at for at in (look.now + timing.poll_ns, *wakes, *fences) if at > look.now))


def bounded(s: State, call: Call | ev.CallAuthorised) -> BoundedCall:
    """Return the call that the record authorises, with the record's deadline."""
    return BoundedCall(cid=call.cid, kind=call.kind, obj=call.obj, deadline_ns=call.deadline, version=s.version)


def calls(look: Look) -> Decision | None:
    """Send the own call that waits for it, once; close by the fence those that can have no effect any more (R8)."""
    s = look.s
    pending = s.open_calls()
    if s.cancelled_at is None and s.outcome is None:
        for call in pending:
            if look.is_own(call.by) and call.cid not in look.ob.sent:
                return Send(bounded(s, call))
    past = [call for call in pending if look.now > call.deadline + look.timing.call_bound_ns]
    return Commit(tuple(ev.CallClosed(cid=call.cid, how="fenced") for call in past)) if past else None


def stop_and_verify(look: Look, objects: Iterable[Obj]) -> Decision | None:
    """Stop what lives, clear what could live again, and record what has ended for good (R9, R22)."""
    verified: list[Event] = []
    question: Decision | None = None
    for o in objects:
        if o.verified:
            continue
        view = look.view(o.obj)
        if view is None:  # R7
            question = question or escalate(look, "object_missing", o.obj, look.ob.missing.get(o.obj))
        elif not look.ended(view):
            if look.due("stop", o.obj, look.timing.stop_retry_ns):
                return Send(Stop(obj=o.obj, version=look.s.version))
            question = question or escalate(look, "stop_stuck", o.obj, condemned_at(look.s, o))
        elif requeue_in_flight(look.s, o.obj, look.defects):
            continue
        elif look.bit(view):
            step = clear_bit(look, view)
            if step:
                return step
        else:
            verified.append(ev.StopVerified(obj=o.obj, at=look.now))
    return Commit(tuple(verified)) if verified else question


def clear_bit(look: Look, view: View) -> Decision | None:
    """Take back the permission to requeue an object, now and then until it is seen clear (R22)."""
    if look.due("clearbit", view.obj, look.timing.bit_retry_ns):
        return Send(ClearBit(obj=view.obj, version=look.s.version))
    return None


def attempts(look: Look) -> Decision | None:
    """Give up waiting for Starts that are past their deadline, or ask whether to."""
    assert look.found is not None
    start, manual = look.found.start, look.s.declared.abandon == "manual"
    question: Decision | None = None
    abandoned: list[Event] = []
    for attempt in look.s.unresolved():
        if manual:
            question = question or escalate(look, "start_unresolved", f"{attempt.n}/{attempt.a}", attempt.deadline)
        elif start > attempt.deadline:
            abandoned.append(ev.AttemptAbandoned(n=attempt.n, a=attempt.a, by="policy"))
    return Commit(tuple(abandoned)) if abandoned else question


def held_wait(look: Look) -> Decision:
    """Wait for the end of the hold; a hold for shared checkpoints ends when the old run's processes are gone (R20)."""
    s, hold, sub = look.s, look.s.hold, look.s.current
    assert hold is not None
    if s.declared.shape == "slurm" and hold.why == "shared" and sub and sub.ended and sub.canon:
        # knob CESSATION_BEFORE_FENCE: any object, any version (R20)
        anyhow = SupervisorDefect.CESSATION_BEFORE_FENCE in look.defects
        if anyhow or s.objs[sub.canon].verified:
            answer = look.ob.cess
            if answer and answer.ceased and answer.obj == sub.canon and (anyhow or answer.version == s.version):
                return Commit((ev.Release(by="cessation", at=look.now),))
            if look.due("cessation", sub.canon, look.timing.poll_ns):
                return Send(Cessation(obj=sub.canon, version=s.version))
    return escalate(look, "held", str(hold.at), hold.at) or Wait(look.now + look.timing.poll_ns)


def put_question(look: Look, kind: EscalationKind, subject: str) -> tuple[Event, ...]:
    """Return the question as an event, whatever was asked before."""
    # knob SILENT_WAIT: nobody is ever asked (R21)
    if SupervisorDefect.SILENT_WAIT in look.defects:
        return ()
    number = 1 + sum(1 for asked in look.s.escalations.values() if (asked.kind, asked.subject) == (kind, subject))
    return (ev.EscalationRaised(id=f"{kind}/{subject}/{number}", kind=kind, subject=subject, at=look.now),)


def escalate(look: Look, kind: EscalationKind, subject: str, since: int | None) -> Decision | None:
    """Ask the person about a condition that has lasted, unless the question is open or was answered lately (R21)."""
    if since is None:
        return None
    for asked in look.s.escalations.values():
        if (asked.kind, asked.subject) == (kind, subject):
            if asked.answered_at is None:
                return None
            since = max(since, asked.answered_at)
    question = put_question(look, kind, subject) if look.now - since >= look.timing.esc_age_ns else ()
    return Commit(question) if question else None
