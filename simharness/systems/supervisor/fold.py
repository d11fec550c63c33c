"""The fold of a record: which event is legal where, and what it changes (§4.2 of the design, one function a row).

`apply` gives the state after one event or raises `Illegal`; the state it was given is untouched either way. With a defect on,
the row that keeps the reverted rule is relaxed too, so that it is the world that shows the damage and not the fold.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.config import NO_DEFECTS, Defects, JobSpec, SupervisorDefect
from simharness.systems.supervisor.events import Batch, Event
from simharness.systems.supervisor.state import (
    Attempt,
    AttemptStatus,
    Call,
    Escalation,
    HoldState,
    Obj,
    Outcome,
    State,
    Submission,
    barring_calls,
    is_clean,
    is_condemned,
    requeue_in_flight,
)


class Illegal(Exception):  # noqa: N818 - the design's word: a verdict on an event, not an error of ours
    """An event that the record must never hold at this place. `kind`: the event's; `rule`: the one it breaks."""

    def __init__(self, kind: str, rule: str) -> None:
        super().__init__(f"event: {kind}\nrule: {rule}")
        self.kind, self.rule = kind, rule


def _no(event: Event, rule: str) -> NoReturn:
    raise Illegal(ev.kind_of(event), rule)


def _need(event: Event, rule: str, *, holds: bool) -> None:
    if not holds:
        raise Illegal(ev.kind_of(event), rule)


def _open_ended(s: State, event: Event) -> None:
    _need(event, "no cancel, no outcome", holds=s.cancelled_at is None and s.outcome is None)


def _launch(s: State, event: Event) -> None:
    _need(event, "no cancel, no outcome, not held", holds=s.launching)


def _running(s: State, event: Event, n: int) -> Submission:
    """Return submission `n`, which must be the current one and not over."""
    if not s.subs or n != s.subs[-1].n or s.subs[-1].over:
        _no(event, "the submission is current and not over")
    return s.subs[-1]


def _known(s: State, event: Event, obj: str) -> Obj:
    if obj not in s.objs:
        _no(event, "the object is known")
    return s.objs[obj]


def _with_sub(s: State, sub: Submission, **changes: Any) -> State:
    subs = (*s.subs[: sub.n - 1], sub, *s.subs[sub.n :])
    return replace(s, subs=subs, **changes)


def _with_attempt(s: State, event: Event, n: int, a: int, status: AttemptStatus, **changes: Any) -> State:
    """Resolve attempt (n, a), which must be authorised."""
    if not (1 <= n <= len(s.subs) and 1 <= a <= len(s.sub(n).attempts)):
        _no(event, "the attempt exists")
    sub = s.sub(n)
    attempt = sub.attempts[a - 1]
    _need(event, "the attempt is authorised and unresolved", holds=attempt.status == "authorised")
    attempts = (*sub.attempts[: a - 1], replace(attempt, status=status), *sub.attempts[a:])
    return _with_sub(s, replace(sub, attempts=attempts), **changes)


def _with_obj(s: State, o: Obj, **changes: Any) -> State:
    return replace(s, objs={**s.objs, o.obj: o}, **changes)


def _job_declared(s: State, e: ev.JobDeclared, _defects: Defects) -> State:
    _need(e, "the first event, once", holds=s.spec is None)
    spec = JobSpec(job=e.job, shape=e.shape, policy=e.policy, shared=e.shared, abandon=e.abandon, timing=e.timing)
    return replace(s, spec=spec)


def _submission_authorised(s: State, e: ev.SubmissionAuthorised, _defects: Defects) -> State:
    _launch(s, e)
    _need(e, "submissions are numbered in order", holds=e.n == len(s.subs) + 1)
    _need(e, "no more submissions than MAX", holds=e.n <= s.declared.timing.max_submissions)
    last = s.current
    _need(e, "the previous submission is over", holds=last is None or last.over)
    _need(e, "the resume point never drops", holds=e.resume >= (0 if last is None else last.resume))
    sub = Submission(n=e.n, resume=e.resume, why=e.why, at=e.at)
    return replace(s, subs=(*s.subs, sub), requeue_requested=False, resubmit=False)


def _attempt_authorised(s: State, e: ev.AttemptAuthorised, defects: Defects) -> State:
    _launch(s, e)
    sub = _running(s, e, e.n)
    _need(e, "the submission has no canonical", holds=sub.canon is None)
    _need(e, "attempts are numbered in order", holds=e.a == len(sub.attempts) + 1)
    bound = s.declared.timing.retry_bound
    # knob UNBOUNDED_ATTEMPTS: no retry bound (R15)
    _need(e, "no more attempts than the bound", holds=SupervisorDefect.UNBOUNDED_ATTEMPTS in defects or e.a <= bound)
    _need(e, "no attempt of the submission is unresolved", holds=sub.unresolved is None)
    attempt = Attempt(n=e.n, a=e.a, by=e.by, deadline=e.deadline)
    return _with_sub(s, replace(sub, attempts=(*sub.attempts, attempt)))


def _object_seen(s: State, e: ev.ObjectSeen, _defects: Defects) -> State:
    _need(e, "the attempt exists", holds=1 <= e.n <= len(s.subs) and 1 <= e.a <= len(s.sub(e.n).attempts))
    _need(e, "the object is new", holds=e.obj not in s.objs)
    labelled = e.job == s.declared.job and e.obj.startswith(f"{e.n}/{e.a}/")
    _need(e, "its labels are this job, n, a", holds=labelled)
    if s.sub(e.n).attempts[e.a - 1].status == "authorised":
        s = _with_attempt(s, e, e.n, e.a, "seen")
    return _with_obj(s, Obj(obj=e.obj, n=e.n, a=e.a))


def _attempt_failed(s: State, e: ev.AttemptFailed, _defects: Defects) -> State:
    return _with_attempt(s, e, e.n, e.a, "failed")


def _attempt_abandoned(s: State, e: ev.AttemptAbandoned, _defects: Defects) -> State:
    return _with_attempt(s, e, e.n, e.a, "abandoned", any_abandon=True)


def _launch_exhausted(s: State, e: ev.LaunchExhausted, _defects: Defects) -> State:
    sub = _running(s, e, e.n)
    _need(e, "the submission has no canonical", holds=sub.canon is None)
    _need(e, "every attempt is used", holds=len(sub.attempts) >= s.declared.timing.retry_bound)
    _need(e, "no attempt is unresolved", holds=sub.unresolved is None)
    _need(e, "all its objects are retired", holds=all(o.role == "retired" for o in s.objs.values() if o.n == e.n))
    return _with_sub(s, replace(sub, exhausted_at=e.at))


def _object_chosen(s: State, e: ev.ObjectChosen, defects: Defects) -> State:
    _open_ended(s, e)
    sub = _running(s, e, e.n)
    # knob RECHOOSE_CANONICAL: a choice may be revised until Open is authorised (R4)
    again = SupervisorDefect.RECHOOSE_CANONICAL in defects and not sub.open_authorised
    _need(e, "the submission has no canonical", holds=sub.canon is None or again)
    o = _known(s, e, e.obj)
    _need(e, "an object of the submission that was only seen", holds=o.n == e.n and o.role == "seen")
    if sub.canon is not None:  # only with RECHOOSE_CANONICAL
        s = _with_obj(s, replace(s.objs[sub.canon], role="seen"))
    return _with_obj(_with_sub(s, replace(sub, canon=e.obj)), replace(o, role="canonical"))


def _object_retired(s: State, e: ev.ObjectRetired, defects: Defects) -> State:
    o = _known(s, e, e.obj)
    sub = s.sub(o.n)
    unwanted = sub.canon is not None or o.n != len(s.subs) or sub.over or s.outcome is not None
    # knob RETIRE_CANONICAL: the canonical is retired like any other (R4)
    canonical = SupervisorDefect.RETIRE_CANONICAL in defects and o.role == "canonical"
    _need(e, "the object was only seen", holds=o.role == "seen" or canonical)
    _need(e, "another is canonical, or nothing of it runs", holds=unwanted)
    return _with_obj(s, replace(o, role="retired", retired_at=e.at))


def _open_authorised(s: State, e: ev.OpenAuthorised, defects: Defects) -> State:
    opened = _open_ended if SupervisorDefect.OPEN_WHILE_HELD in defects else _launch
    opened(s, e)
    sub = _running(s, e, e.n)
    _need(e, "the submission is not fenced", holds=not sub.fenced)
    _need(e, "the object is its canonical", holds=sub.canon == e.obj)
    earlier = [s.objs[before.canon] for before in s.subs[:-1] if before.canon is not None]
    _need(e, "every earlier canonical is verified", holds=all(o.verified for o in earlier))
    return _with_sub(s, replace(sub, open_authorised=True))


def _fence_authorised(s: State, e: ev.FenceAuthorised, _defects: Defects) -> State:
    _open_ended(s, e)
    _need(e, "kubeflow only", holds=s.declared.shape == "kubeflow")
    sub = _running(s, e, e.n)
    _need(e, "not fenced yet", holds=not sub.fenced)
    _need(e, "its canonical, with Open authorised", holds=sub.canon == e.obj and sub.open_authorised)
    return _with_sub(s, replace(sub, fenced_at=e.at))


def _submission_ended(s: State, e: ev.SubmissionEnded, _defects: Defects) -> State:
    sub = _running(s, e, e.n)
    _need(e, "the submission has a canonical", holds=sub.canon is not None)
    return _with_sub(s, replace(sub, ended=e.cause, ended_at=e.at), requeue_requested=False)


def _call_authorised(s: State, e: ev.CallAuthorised, defects: Defects) -> State:
    _open_ended(s, e)
    _need(e, "slurm only", holds=s.declared.shape == "slurm")
    _need(e, "the call is new", holds=e.cid not in s.calls)
    sub = s.current
    _need(e, "the canonical of a current submission", holds=sub is not None and sub.canon == e.obj and not sub.over)
    assert sub is not None
    _need(e, "no other open call on the object", holds=not barring_calls(s, defects, obj=e.obj))
    _need(e, "hold while held, release and requeue while not", holds=(e.kind == "hold") == (s.hold is not None))
    _need(e, "a requeue needs Open authorised", holds=e.kind != "requeue" or sub.open_authorised)
    call = Call(cid=e.cid, kind=e.kind, obj=e.obj, by=e.by, deadline=e.deadline)
    pending = s.requeue_requested and e.kind != "requeue"
    return replace(s, calls={**s.calls, e.cid: call}, requeue_requested=pending)


def _call_closed(s: State, e: ev.CallClosed, _defects: Defects) -> State:
    _need(e, "the call is open", holds=e.cid in s.calls and s.calls[e.cid].closed is None)
    return replace(s, calls={**s.calls, e.cid: replace(s.calls[e.cid], closed=e.how)})


def _unverified(s: State, event: Event, obj: str) -> Obj:
    o = _known(s, event, obj)
    _need(event, "not verified yet", holds=not o.verified)
    return o


def _stop_verified(s: State, e: ev.StopVerified, defects: Defects) -> State:
    o = _unverified(s, e, e.obj)
    _need(e, "no open requeue call on the object", holds=not requeue_in_flight(s, e.obj, defects))
    _need(e, "the object is condemned", holds=is_condemned(s, o, defects))
    return _with_obj(s, replace(o, verified=True))


def _object_gone(s: State, e: ev.ObjectGone, defects: Defects) -> State:
    o = _unverified(s, e, e.obj)
    _need(e, "no open requeue call on the object", holds=not requeue_in_flight(s, e.obj, defects))
    return _with_obj(s, replace(o, verified=True, gone=True))


def _hold(s: State, e: ev.Hold, defects: Defects) -> State:
    _need(e, "not held", holds=s.hold is None)
    _open_ended(s, e)
    _need(e, "no open release call", holds=not barring_calls(s, defects, kind="release"))
    if e.by == "policy" and s.subs:
        s = _with_sub(s, replace(s.subs[-1], hold_served=True))
    return replace(s, hold=HoldState(by=e.by, why=e.why, at=e.at), requeue_requested=False)


def _release(s: State, e: ev.Release, _defects: Defects) -> State:
    _need(e, "held", holds=s.hold is not None)
    _open_ended(s, e)
    return replace(s, hold=None)


def _requeue_requested(s: State, e: ev.RequeueRequested, _defects: Defects) -> State:
    _need(e, "slurm only", holds=s.declared.shape == "slurm")
    _launch(s, e)
    sub = s.current
    _need(e, "an opened canonical that is not over", holds=sub is not None and sub.open_authorised and not sub.over)
    _need(e, "none pending", holds=not s.requeue_requested)
    return replace(s, requeue_requested=True)


def _resubmit_requested(s: State, e: ev.ResubmitRequested, _defects: Defects) -> State:
    sub = s.current
    if sub is None or not sub.over:
        _no(e, "the current submission is over")
    _open_ended(s, e)
    _need(e, "a further submission is left", holds=sub.n < s.declared.timing.max_submissions)
    return _with_sub(s, replace(sub, hold_served=True), resubmit=True, hold=None)


def _cancel_requested(s: State, e: ev.CancelRequested, _defects: Defects) -> State:
    _open_ended(s, e)
    return replace(s, cancelled_at=e.at, requeue_requested=False)


def _give_up(s: State, e: ev.GiveUp, _defects: Defects) -> State:
    _open_ended(s, e)
    sub = s.current
    _need(e, "nothing is opened", holds=sub is None or sub.over or not sub.open_authorised)
    return replace(s, outcome=Outcome(state="gave_up", cause="person", at=e.at))


def _outcome_decided(s: State, e: ev.OutcomeDecided, _defects: Defects) -> State:
    _need(e, "no outcome yet", holds=s.outcome is None)
    _need(e, "cancelled if and only if cancelled", holds=(e.state == "cancelled") == (s.cancelled_at is not None))
    return replace(s, outcome=Outcome(state=e.state, cause=e.cause, at=e.at))


def _cleanup_completed(s: State, e: ev.CleanupCompleted, defects: Defects) -> State:
    _need(e, "cancelled, with its outcome", holds=s.cancelled_at is not None and s.outcome is not None)
    _need(e, "once", holds=not s.cleanup_completed)
    _need(e, "clean", holds=is_clean(s, defects))
    return replace(s, cleanup_completed=True)


def _settled(s: State, e: ev.Settled, defects: Defects) -> State:
    _need(e, "the job has an outcome", holds=s.outcome is not None)
    _need(e, "clean", holds=is_clean(s, defects))
    _need(e, "a cancel reports its clean-up first", holds=s.cancelled_at is None or s.cleanup_completed)
    return replace(s, settled=True)


def _escalation_raised(s: State, e: ev.EscalationRaised, _defects: Defects) -> State:
    _need(e, "the escalation is new", holds=e.id not in s.escalations)
    question = Escalation(id=e.id, kind=e.kind, subject=e.subject, at=e.at)
    return replace(s, escalations={**s.escalations, e.id: question})


def _escalation_answered(s: State, e: ev.EscalationAnswered, _defects: Defects) -> State:
    question = s.escalations.get(e.id)
    if question is None or question.answer is not None:
        _no(e, "the escalation is open")
    answered = replace(question, answer=e.answer, answered_at=e.at)
    return replace(s, escalations={**s.escalations, e.id: answered})


ROWS: Final[Mapping[type[Any], Callable[[State, Any, Defects], State]]] = {
    ev.JobDeclared: _job_declared,
    ev.SubmissionAuthorised: _submission_authorised,
    ev.AttemptAuthorised: _attempt_authorised,
    ev.ObjectSeen: _object_seen,
    ev.AttemptFailed: _attempt_failed,
    ev.AttemptAbandoned: _attempt_abandoned,
    ev.LaunchExhausted: _launch_exhausted,
    ev.ObjectChosen: _object_chosen,
    ev.ObjectRetired: _object_retired,
    ev.OpenAuthorised: _open_authorised,
    ev.FenceAuthorised: _fence_authorised,
    ev.SubmissionEnded: _submission_ended,
    ev.CallAuthorised: _call_authorised,
    ev.CallClosed: _call_closed,
    ev.StopVerified: _stop_verified,
    ev.ObjectGone: _object_gone,
    ev.Hold: _hold,
    ev.Release: _release,
    ev.RequeueRequested: _requeue_requested,
    ev.ResubmitRequested: _resubmit_requested,
    ev.CancelRequested: _cancel_requested,
    ev.GiveUp: _give_up,
    ev.OutcomeDecided: _outcome_decided,
    ev.CleanupCompleted: _cleanup_completed,
    ev.Settled: _settled,
    ev.EscalationRaised: _escalation_raised,
    ev.EscalationAnswered: _escalation_answered,
}


def apply(s: State, event: Event, defects: Defects = NO_DEFECTS) -> State:
    """Return the state after `event`. Raises: Illegal."""
    if s.settled:
        _no(event, "nothing follows the settlement")
    if s.spec is None and not isinstance(event, ev.JobDeclared):
        _no(event, "the job is declared first")
    return ROWS[type(event)](s, event, defects)


def extend(s: State, batches: Iterable[Batch], defects: Defects = NO_DEFECTS) -> State:
    """Return the state after further batches, one version each. Raises: Illegal."""
    for batch in batches:
        version = s.version + 1
        for event in batch:
            s = apply(s, event, defects)
        s = replace(s, version=version)
    return s


def fold(batches: Iterable[Batch], defects: Defects = NO_DEFECTS) -> State:
    """Return what a record says. Raises: Illegal."""
    return extend(State(), batches, defects)
