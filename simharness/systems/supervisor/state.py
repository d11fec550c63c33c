"""What a record says, as immutable data, and questions about it. `fold` makes it, event by event."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from simharness.systems.supervisor.config import NO_DEFECTS, Defects, JobSpec, SupervisorDefect
from simharness.systems.supervisor.events import Answer, CallKind, EscalationKind, OutcomeState

Role = Literal["seen", "canonical", "retired"]
AttemptStatus = Literal["authorised", "seen", "failed", "abandoned"]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Shared settings: immutable, compared by value."""


class Attempt(_Part, frozen=True, kw_only=True):
    """One try to create the object of a submission. Unresolved while `authorised`."""

    n: int
    a: int
    by: str
    deadline: int
    status: AttemptStatus = "authorised"


class Obj(_Part, frozen=True, kw_only=True):
    """A known object. `gone`: verified by the person, who found that it no longer exists."""

    obj: str
    n: int
    a: int
    role: Role = "seen"
    retired_at: int | None = None
    verified: bool = False
    gone: bool = False


class Call(_Part, frozen=True, kw_only=True):
    """A bounded call. Open until it is known how it went."""

    cid: str
    kind: CallKind
    obj: str
    by: str
    deadline: int
    closed: Literal["ok", "refused", "fenced"] | None = None


class Submission(_Part, frozen=True, kw_only=True):
    """One authorised try at running the job."""

    n: int
    resume: int
    why: str
    at: int
    attempts: tuple[Attempt, ...] = ()
    canon: str | None = None
    open_authorised: bool = False
    fenced_at: int | None = None
    ended: str | None = None
    """Cause of the canonical's end."""
    ended_at: int | None = None
    exhausted_at: int | None = None
    hold_served: bool = False
    """The hold that the policy asks for after this end has been put, or the person waived it."""

    @property
    def over(self) -> bool:
        """Whether its canonical's end is recorded or its attempts are exhausted."""
        return self.ended is not None or self.exhausted_at is not None

    @property
    def fenced(self) -> bool:
        """Whether it was given up because of a lost node."""
        return self.fenced_at is not None

    @property
    def unresolved(self) -> Attempt | None:
        """Its attempt whose Start nobody has accounted for."""
        return next((attempt for attempt in self.attempts if attempt.status == "authorised"), None)


class HoldState(_Part, frozen=True, kw_only=True):
    """The hold in force."""

    by: Literal["person", "policy"]
    why: str
    at: int


class Outcome(_Part, frozen=True, kw_only=True):
    """How the job ended."""

    state: OutcomeState
    cause: str
    at: int


class Escalation(_Part, frozen=True, kw_only=True):
    """A question to the person, and its answer."""

    id: str
    kind: EscalationKind
    subject: str
    at: int
    answer: Answer | None = None
    answered_at: int | None = None


class State(_Part, frozen=True, kw_only=True):
    """A record of `version` batches. Mappings are in record order and never changed in place."""

    version: int = 0
    spec: JobSpec | None = None
    subs: tuple[Submission, ...] = ()
    objs: Mapping[str, Obj] = {}
    calls: Mapping[str, Call] = {}
    hold: HoldState | None = None
    cancelled_at: int | None = None
    outcome: Outcome | None = None
    cleanup_completed: bool = False
    settled: bool = False
    requeue_requested: bool = False
    resubmit: bool = False
    any_abandon: bool = False
    escalations: Mapping[str, Escalation] = {}

    @property
    def declared(self) -> JobSpec:
        """The job's declaration. An undeclared record has none: our own bug."""
        assert self.spec is not None
        return self.spec

    @property
    def current(self) -> Submission | None:
        """The last submission."""
        return self.subs[-1] if self.subs else None

    @property
    def launching(self) -> bool:
        """Open launch: no cancel, no outcome, not held."""
        return self.cancelled_at is None and self.outcome is None and self.hold is None

    def sub(self, n: int) -> Submission:
        """Return submission `n`, which exists."""
        return self.subs[n - 1]

    def open_calls(self, *, obj: str | None = None, kind: CallKind | None = None) -> list[Call]:
        """Return the calls still open, in record order, of one object or kind if given."""
        return [
            call
            for call in self.calls.values()
            if call.closed is None and obj in (None, call.obj) and kind in (None, call.kind)
        ]

    def unresolved(self) -> list[Attempt]:
        """Return the attempts whose Start nobody has accounted for, in record order."""
        return [attempt for sub in self.subs for attempt in sub.attempts if attempt.status == "authorised"]


def is_clean(s: State, defects: Defects = NO_DEFECTS) -> bool:
    """Tell whether every attempt is resolved, every call closed and every known object verified (R14)."""
    # knob SETTLE_UNRESOLVED: clean with Starts that nobody has accounted for (R14)
    resolved = SupervisorDefect.SETTLE_UNRESOLVED in defects or not s.unresolved()
    # knob SETTLE_BEFORE_FENCE: clean with calls open (R14)
    fenced = SupervisorDefect.SETTLE_BEFORE_FENCE in defects or not s.open_calls()
    return resolved and fenced and all(o.verified for o in s.objs.values())


def condemned_at(s: State, o: Obj) -> int | None:
    """Return since when an object may be stopped (R4), or None if it may not."""
    sub = s.sub(o.n)
    since = [o.retired_at, sub.fenced_at, sub.ended_at, sub.exhausted_at]
    since.append(s.sub(o.n + 1).at if o.n < len(s.subs) else None)
    since.append(None if s.outcome is None else s.outcome.at)
    return min((at for at in since if at is not None), default=None)


def is_condemned(s: State, o: Obj, defects: Defects) -> bool:
    """Tell whether an object may be stopped (R4)."""
    # knob ABANDONED_IS_CONDEMNED: whatever comes of an abandoned attempt is rubbish, even if it was chosen (R4)
    if SupervisorDefect.ABANDONED_IS_CONDEMNED in defects and s.sub(o.n).attempts[o.a - 1].status == "abandoned":
        return True
    return condemned_at(s, o) is not None


def barring_calls(s: State, defects: Defects, *, obj: str | None = None, kind: CallKind | None = None) -> list[Call]:
    """Return the open calls that stand in the way of another call on the object, or of a hold (R8, R11)."""
    pending = s.open_calls(obj=obj, kind=kind)
    # knob HOLD_DURING_RELEASE: an open release is in nobody's way (R11)
    if SupervisorDefect.HOLD_DURING_RELEASE in defects:
        return [call for call in pending if call.kind != "release"]
    return pending


def requeue_in_flight(s: State, obj: str, defects: Defects) -> bool:
    """Tell whether an open requeue call can still bring the object back (R9)."""
    # knob OPEN_DURING_REQUEUE: verified while requeue calls are open (R9, R10)
    if SupervisorDefect.OPEN_DURING_REQUEUE in defects:
        return False
    # knob SETTLE_BEFORE_FENCE: clean-up does not wait for the fence (R14)
    if SupervisorDefect.SETTLE_BEFORE_FENCE in defects and s.outcome is not None:
        return False
    return bool(s.open_calls(obj=obj, kind="requeue"))
