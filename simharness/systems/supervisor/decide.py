"""What one supervisor should do next (§5.3 of the design): a pure function of the record, its own memory and the clock.

Rules are tried in order and the first that applies wins. Names R1 to R22 are the protocol rules of §4.3.
"""

from typing import Final

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.config import NO_DEFECTS, SECOND, Defects, SupervisorDefect
from simharness.systems.supervisor.events import Batch, CallKind
from simharness.systems.supervisor.obs import CleanSweep, Obs, is_news
from simharness.systems.supervisor.seam import (
    Open,
    Start,
    Stop,
    View,
)
from simharness.systems.supervisor.state import (
    Attempt,
    Obj,
    State,
    Submission,
    barring_calls,
    is_clean,
    is_condemned,
)
from simharness.systems.supervisor.steps import (
    GONE,
    Commit,
    Decision,
    Done,
    Look,
    Resolve,
    Send,
    Wait,
    attempts,
    bounded,
    calls,
    clear_bit,
    escalate,
    find_if_stale,
    held_wait,
    put_question,
    rest,
    stop_and_verify,
)

UNDECLARED_WAIT_NS: Final = SECOND
"""How long to wait for the declaration of a job: nothing says yet how often to look."""

RESEND_AFTER_NS: Final = 20 * SECOND
"""Patience of the defect RESEND_START."""


def next_step(s: State, ob: Obs, now: int, me: str, defects: Defects = NO_DEFECTS) -> Decision:
    """Return what incarnation `me` does next.

    Args:
        s: The record as just read.
        ob: The incarnation's memory; it is not changed.
        now: The instant, in ns.
        me: Name of the incarnation.
        defects: Rules switched off.
    """
    if s.settled:
        return Done()
    if s.spec is None:
        return Wait(now + UNDECLARED_WAIT_NS)
    facts = tuple(fact for fact in ob.facts if is_news(s, fact))
    if facts:
        return Commit(facts)
    found = ob.find
    # knob STALE_FIND_EVIDENCE: the last Find counts whatever its version (R6)
    if found and found.version != s.version and SupervisorDefect.STALE_FIND_EVIDENCE not in defects:
        found = None
    look = Look(s, ob, found, now, me, defects)
    new = _new_objects(look)
    if new:
        return Commit(new)
    if s.cancelled_at is not None and s.outcome is None:
        return Commit((ev.OutcomeDecided(state="cancelled", cause="cancel", at=now),))
    return _cleanup(look) if s.outcome else _running(look)


def _new_objects(look: Look) -> Batch:
    """Return what the evidence shows for the first time. The adapter has left out what is not this job's (B8)."""
    s = look.s
    views = look.found.views.values() if look.found else ()
    return tuple(
        ev.ObjectSeen(job=s.declared.job, n=view.n, a=view.a, obj=view.obj)
        for view in views
        if view.obj not in s.objs and view.n <= len(s.subs) and view.a <= len(s.sub(view.n).attempts)
    )


# --- after the outcome -----------------------------------------------------------------------------------------------


def _cleanup(look: Look) -> Decision:
    """Stop, verify and fence everything, then close the record (R14)."""
    s, now = look.s, look.now
    unwanted = [o for o in s.objs.values() if o.role == "seen"]
    if unwanted:
        return Commit(tuple(ev.ObjectRetired(obj=o.obj, at=now) for o in unwanted))
    step = calls(look) or find_if_stale(look) or _open_after_all(look)
    step = step or stop_and_verify(look, s.objs.values()) or attempts(look)
    if step:
        return step
    if not (is_clean(s, look.defects) and _nothing_listed_lives(look)):
        return rest(look)
    if s.cancelled_at is None or s.cleanup_completed:
        return Commit((ev.Settled(at=now),))
    return _report_cleanup(look)


def _open_after_all(look: Look) -> Decision | None:
    # knob OPEN_IGNORES_CANCEL: a still gated canonical is opened in clean-up (R12)
    if SupervisorDefect.OPEN_IGNORES_CANCEL not in look.defects or look.s.current is None:
        return None
    canon = look.s.current.canon
    view = None if canon is None else look.view(canon)
    if view and view.alive and view.gated and look.due("open", view.obj, look.timing.open_retry_ns):
        return Send(Open(obj=view.obj, version=look.s.version))
    return None


def _nothing_listed_lives(look: Look) -> bool:
    # knob VERIFIED_STOPPED_AS_EVIDENCE: the record's word is enough (R14)
    if SupervisorDefect.VERIFIED_STOPPED_AS_EVIDENCE in look.defects:
        return True
    assert look.found is not None
    return all(look.ended(view) and not look.bit(view) for view in look.found.views.values())


def _report_cleanup(look: Look) -> Decision:
    """Report the clean-up after a second clean Find, far enough from the first for a new object to be listed (R14)."""
    assert look.found is not None
    report = Commit((ev.CleanupCompleted(at=look.now),))
    # knob SINGLE_CANCEL_SWEEP: one clean Find is enough (R14)
    if SupervisorDefect.SINGLE_CANCEL_SWEEP in look.defects:
        return report
    first, start = look.ob.sweep1, look.found.start
    if first is None or first.version != look.s.version:
        first = CleanSweep(look.s.version, start)
    if start - first.start >= look.timing.settle_gap_ns:
        return report
    return Wait(look.now + look.timing.poll_ns, first)


# --- while the job is to run -----------------------------------------------------------------------------------------


def _running(look: Look) -> Decision:
    s, now, sub = look.s, look.now, look.s.current
    if sub is None:
        return held_wait(look) if s.hold else Commit((ev.SubmissionAuthorised(n=1, resume=0, why="first", at=now),))
    step = calls(look) or _other_choice(look, sub)
    if step:
        return step
    unwanted = [o for o in s.objs.values() if o.role == "seen" and (o.n != sub.n or sub.over or sub.canon is not None)]
    if unwanted:  # R4: the record condemns first
        return Commit(tuple(ev.ObjectRetired(obj=o.obj, at=now) for o in unwanted))
    if sub.over:
        return _over(look, sub)
    return _launch(look, sub) if sub.canon is None else _keep(look, sub, s.objs[sub.canon])


def _condemned(look: Look) -> list[Obj]:
    """Return what may be stopped and is not verified yet."""
    return [o for o in look.s.objs.values() if not o.verified and is_condemned(look.s, o, look.defects)]


def _over(look: Look, sub: Submission) -> Decision:
    """Decide what follows a submission that is over."""
    s, now = look.s, look.now
    step = find_if_stale(look) or stop_and_verify(look, _condemned(look)) or attempts(look)
    if step:
        return step
    if sub.exhausted_at is not None and not s.resubmit:
        return escalate(look, "launch_exhausted", str(sub.n), sub.exhausted_at) or rest(look)
    if s.hold:
        return held_wait(look)
    if sub.ended is not None and not sub.hold_served and _recovery(s, sub.ended) == "hold":
        return _policy_hold(look, sub.ended)
    if sub.n == look.timing.max_submissions:
        return Commit((ev.OutcomeDecided(state="failed", cause="recovery_exhausted", at=now),))
    found = look.ob.ckpt
    # knob RESUME_REMEMBERED: looked for once, and remembered whatever was recorded since (R19)
    remembered = SupervisorDefect.RESUME_REMEMBERED in look.defects
    if found is None or (found.version != s.version and not remembered):
        return Resolve()
    why = "resubmit" if s.resubmit or sub.ended is None else sub.ended
    resume = max(found.step, sub.resume)
    return Commit((ev.SubmissionAuthorised(n=sub.n + 1, resume=resume, why=why, at=now),))


def _recovery(s: State, cause: str) -> str:
    """Return the rule for a lost submission. Shared checkpoints make every recovery wait."""
    if s.declared.shared:
        return "hold"
    policy = s.declared.policy
    return policy.preempted if cause == "preempted" else policy.node_lost


def _policy_hold(look: Look, cause: str) -> Decision:
    s, now = look.s, look.now
    if barring_calls(s, look.defects, kind="release"):  # R11
        return rest(look)
    shared = s.declared.shared
    hold = ev.Hold(by="policy", why="shared" if shared else cause, at=now)
    waits_for_cessation = shared and s.declared.shape == "slurm"
    asked = () if waits_for_cessation else put_question(look, "held", str(now))  # R21
    return Commit((hold, *asked))


def _launch(look: Look, sub: Submission) -> Decision:
    """Get one object of the submission created and chosen."""
    s, now, timing = look.s, look.now, look.timing
    seen = [o for o in s.objs.values() if o.n == sub.n and o.role == "seen"]
    if seen:
        return _choose(look, sub, seen)
    attempt = sub.unresolved
    if attempt is not None:
        if _may_start(look, attempt):
            return Send(Start(n=sub.n, a=attempt.a, version=s.version))
        return find_if_stale(look) or attempts(look) or rest(look, attempt.deadline + 1)
    if s.hold:
        return held_wait(look)
    # knob UNBOUNDED_ATTEMPTS: no retry bound (R15)
    if len(sub.attempts) < timing.retry_bound or SupervisorDefect.UNBOUNDED_ATTEMPTS in look.defects:
        deadline = now + timing.start_wait_ns
        return Commit((ev.AttemptAuthorised(n=sub.n, a=len(sub.attempts) + 1, by=look.me, deadline=deadline),))
    return Commit((ev.LaunchExhausted(n=sub.n, at=now),))


def _may_start(look: Look, attempt: Attempt) -> bool:
    """Tell whether this incarnation has a Start to send: its own, never sent before (R2)."""
    sent = (attempt.n, attempt.a) in look.ob.sent
    if look.is_own(attempt.by) and not sent:
        return True
    # knob RESEND_START: sent again after a while, by anyone (R2)
    if SupervisorDefect.RESEND_START not in look.defects:
        return False
    ago = look.since("start", f"{attempt.n}/{attempt.a}")
    waited = look.now - (attempt.deadline - look.timing.start_wait_ns) if ago is None else ago
    return waited >= RESEND_AFTER_NS


def _choose(look: Look, sub: Submission, seen: list[Obj]) -> Decision:
    """Choose the canonical object by commit: the one of the lowest attempt (R4)."""
    chosen = min(seen, key=lambda o: o.a)
    # knob LOCAL_CHOICE: stops the others, then commits the choice (R4)
    if SupervisorDefect.LOCAL_CHOICE in look.defects and len(seen) > 1:
        chosen = next((o for o in seen if sub.attempts[o.a - 1].by == look.me), chosen)
        for o in seen:
            if o is not chosen and look.since("stop", o.obj) is None:
                return Send(Stop(obj=o.obj, version=look.s.version))
    return Commit((ev.ObjectChosen(n=sub.n, obj=chosen.obj),))


def _other_choice(look: Look, sub: Submission) -> Decision | None:
    """Break R4 where a duplicate shows up beside the canonical object; nothing in the normal build."""
    if sub.canon is None or sub.over:
        return None
    seen = [o for o in look.s.objs.values() if o.n == sub.n and o.role == "seen"]
    # knob RETIRE_CANONICAL: of duplicates the newest is kept and the rest retired, the canonical with it (R4)
    canonical = look.s.objs[sub.canon].role == "canonical"
    if SupervisorDefect.RETIRE_CANONICAL in look.defects and seen and canonical:
        older = (sub.canon, *(o.obj for o in seen[:-1]))
        return Commit(tuple(ev.ObjectRetired(obj=obj, at=look.now) for obj in older))
    # knob RECHOOSE_CANONICAL: a newer one is preferred until Open is authorised (R4)
    newer = [o for o in seen if o.a > look.s.objs[sub.canon].a]
    if SupervisorDefect.RECHOOSE_CANONICAL in look.defects and newer and not sub.open_authorised:
        return Commit((ev.ObjectChosen(n=sub.n, obj=newer[-1].obj),))
    return None


def _keep(look: Look, sub: Submission, canon: Obj) -> Decision:
    """Open the canonical object, keep it as the record wants it, and see how it ends."""
    s, now = look.s, look.now
    step = find_if_stale(look) or stop_and_verify(look, _condemned(look)) or attempts(look)
    if step:
        return step
    # A fenced object may be verified and then purged before its end is recorded: verified is ended, listed or not (§5.2).
    view = look.view(canon.obj) or (GONE if canon.verified else None)
    if view is None:
        return escalate(look, "object_missing", canon.obj, look.ob.missing.get(canon.obj)) or rest(look)
    if look.ended(view):
        return _ended(look, sub, view)
    if sub.fenced:
        return rest(look)
    if view.lost and sub.open_authorised:
        # knob STOP_BEFORE_FENCE: the Stop first, the record later (R13)
        stop_first = SupervisorDefect.STOP_BEFORE_FENCE in look.defects
        if stop_first and look.due("stop", canon.obj, look.timing.stop_retry_ns):
            return Send(Stop(obj=canon.obj, version=s.version))
        return Commit((ev.FenceAuthorised(n=sub.n, obj=canon.obj, at=now),))
    if not sub.open_authorised:
        # knob OPEN_WHILE_HELD: a hold keeps nobody from opening (R11)
        if s.hold and SupervisorDefect.OPEN_WHILE_HELD not in look.defects:
            return held_wait(look)
        return Commit((ev.OpenAuthorised(n=sub.n, obj=canon.obj),)) if _earlier_ended(look, sub) else rest(look)
    return _serve(look, view) or (held_wait(look) if s.hold else rest(look))


def _ended(look: Look, sub: Submission, view: View) -> Decision:
    """Record the end of the canonical object, and the outcome if the job ended with it."""
    cause = "node_lost" if sub.fenced and view.cause != "completed" else view.cause or "lost"
    ended = ev.SubmissionEnded(n=sub.n, cause=cause, at=look.now)
    if cause in ("preempted", "node_lost"):
        return Commit((ended,))
    state: ev.OutcomeState = "completed" if cause == "completed" else "failed"
    return Commit((ended, ev.OutcomeDecided(state=state, cause=cause, at=look.now)))


def _earlier_ended(look: Look, sub: Submission) -> bool:
    """Tell whether no earlier canonical object can run any more (R10)."""
    for before in look.s.subs[: sub.n - 1]:
        if before.canon is None:
            continue
        if not look.s.objs[before.canon].verified:
            return False
        view = look.view(before.canon)
        # knob VERIFIED_STOPPED_AS_EVIDENCE: no second look (R10)
        second_look = SupervisorDefect.VERIFIED_STOPPED_AS_EVIDENCE not in look.defects
        if second_look and view is not None and not look.ended(view):
            return False
    return True


def _serve(look: Look, view: View) -> Decision | None:
    """Bring the opened object in line with the record: its gate, its hold, a requeue, its requeue bit."""
    s, obj, timing = look.s, view.obj, look.timing
    if view.gated and not s.hold and look.due("open", obj, timing.open_retry_ns):
        return Send(Open(obj=obj, version=s.version))
    if s.declared.shape != "slurm":
        return None
    if barring_calls(s, look.defects, obj=obj):
        return None
    if s.hold and view.state == "pending" and not view.held:
        return _authorise(look, "hold", obj)
    if not s.hold and view.held:
        return _authorise(look, "release", obj)
    if not s.hold and s.requeue_requested:
        return _authorise(look, "requeue", obj)
    return clear_bit(look, view) if look.bit(view) else None  # R22


def _authorise(look: Look, kind: CallKind, obj: str) -> Decision:
    """Put a bounded call and its deadline in the record, before it is sent (R1, R8)."""
    s, deadline = look.s, look.now + look.timing.call_window_ns
    call = ev.CallAuthorised(cid=f"c{len(s.calls) + 1}", kind=kind, obj=obj, by=look.me, deadline=deadline)
    # knob DEADLINE_AFTER_SEND: sent first, in the record later (R1)
    if SupervisorDefect.DEADLINE_AFTER_SEND in look.defects:
        return Send(bounded(s, call), (call,))
    return Commit((call,))
