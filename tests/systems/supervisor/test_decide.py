"""The decision function (§5.3 of the design): its branches one by one, with and without defects, and what it always keeps."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.config import SECOND, JobSpec, Policy, SupervisorDefect, Timing
from simharness.systems.supervisor.decide import next_step
from simharness.systems.supervisor.events import Batch, Event
from simharness.systems.supervisor.fold import extend
from simharness.systems.supervisor.obs import CessationAnswer, Evidence, Obs, ResolvedCheckpoint
from simharness.systems.supervisor.state import State
from simharness.systems.supervisor.steps import Commit, Decision, Done, Send, Wait
from tests.systems.supervisor.histories import (
    A1,
    C1,
    CANCEL,
    CLEANED,
    E1,
    EXHAUSTED_1,
    HOLD,
    O1,
    OBJ,
    OVER_2,
    P1,
    PK,
    REQUEUE,
    RESUBMIT,
    SETTLED,
    TWO_SEEN,
    V1,
    D,
    History,
    abandoned,
    attempt,
    call,
    chosen,
    ended,
    fenced,
    opened,
    outcome,
    retired,
    state,
    submission,
    verified,
)
from tests.systems.supervisor.rig import wander

NOW = 1_000 * SECOND
ME = "sup0.0"
SILENT = SupervisorDefect.SILENT_WAIT
LAST_OVER = (  # the last submission that is allowed, over and verified
    *V1,
    *(
        event
        for n in (2, 3, 4)
        for event in (
            submission(n),
            attempt(n, 1),
            ev.ObjectSeen(job="job", n=n, a=1, obj=f"{n}/1/{n}"),
            chosen(f"{n}/1/{n}"),
            opened(f"{n}/1/{n}"),
            ended(n),
            verified(f"{n}/1/{n}"),
        )
    ),
)


def view(obj: str = OBJ, **fields: Any) -> seam.View:
    """An object as a Find shows it, running unless told otherwise."""
    n, a, _ = map(int, obj.split("/"))
    given = {"alive": True, "gated": False, "state": "running", **fields}
    return seam.View(obj=obj, n=n, a=a, **given)


ENDED: dict[str, Any] = {"alive": False, "state": "ended", "cause": "preempted"}
PENDING: dict[str, Any] = {"state": "pending"}
GATED: dict[str, Any] = {"state": "pending", "gated": True}


def decide(
    history: History,
    *views: seam.View,
    now: int = NOW,
    age: int | None = 0,
    behind: int = 0,
    last: Mapping[tuple[str, str], int] | None = None,
    defect: SupervisorDefect | None = None,
    **memory: Any,
) -> Decision:
    """Return what `sup0.0` does after these events.

    Args:
        history: The record, one event a batch.
        views: What the last Find showed.
        now: The instant.
        age: How long ago the Find began; None if there was none.
        behind: How many versions ago.
        last: (operation, object) -> how long ago it was sent.
        defect: The rule that is off.
        memory: Further attributes of the incarnation's memory.
    """
    defects = frozenset() if defect is None else frozenset({defect})
    s = state(*history, defects=defects)
    ob = Obs()
    if age is not None:
        ob.find = Evidence(now - age, s.version - behind, {seen.obj: seen for seen in views})
    ob.last = {key: now - ago for key, ago in (last or {}).items()}
    for name, value in memory.items():
        setattr(ob, name, value)
    before = {name: getattr(ob, name) for name in Obs.__slots__}
    step = next_step(s, ob, now, ME, defects)
    assert {name: getattr(ob, name) for name in Obs.__slots__} == before  # pure
    return step


def commits(step: Decision) -> tuple[Event, ...]:
    """Return the events that a decision proposes."""
    assert isinstance(step, Commit), step
    return step.batch


def kinds(step: Decision) -> list[str]:
    """Return the kinds of events that a decision proposes, or the name of the call it makes, or of itself."""
    match step:
        case Commit(batch=batch):
            return [ev.kind_of(event) for event in batch]
        case Send(call=sent):
            return [type(sent).__name__]
    return [type(step).__name__]


def version(history: History) -> int:
    return len(history)


def test_before_and_after_everything() -> None:
    """It waits for the declaration, and is done once the record is closed."""
    assert decide(()) == Wait(NOW + SECOND)
    assert decide((*V1, outcome(), SETTLED)) == Done()


def test_replies_first() -> None:
    """Facts are committed before anything else, but only those that the record does not know."""
    news = [ev.ObjectSeen(job="job", n=1, a=1, obj=OBJ), ev.AttemptFailed(n=1, a=1), ev.CallClosed(cid="c9", how="ok")]
    assert commits(decide(A1, age=None, facts=news)) == tuple(news[:2])
    assert kinds(decide(O1, age=None, facts=news)) == ["object_chosen"]
    assert kinds(decide((*A1, CANCEL), age=None, facts=news[:1])) == ["object_seen"]
    assert kinds(decide((*P1, call("requeue", cid="c9")), age=None, facts=news[2:], sent={"c9"})) == ["call_closed"]


def test_new_objects_are_recorded() -> None:
    """What a valid Find shows for the first time is recorded, unless no attempt of ours has these labels."""
    assert commits(decide(A1, view(OBJ, **GATED))) == (ev.ObjectSeen(job="job", n=1, a=1, obj=OBJ),)
    assert kinds(decide(A1, view("9/1/1", **ENDED), last={})) != ["object_seen"]
    assert kinds(decide(A1, view("1/2/1", **ENDED), last={})) != ["object_seen"]


def test_evidence_counts_at_its_own_version_only() -> None:
    """R6: evidence of an earlier version is no evidence; nor is evidence older than POLL. What the knob does is O5."""
    gone = view(**ENDED)
    assert kinds(decide(P1, gone)) == ["submission_ended"]
    assert decide(P1, gone, behind=1) == Send(seam.Find(version=version(P1)))
    assert kinds(decide(P1, gone, age=5 * SECOND)) == ["Find"]
    for off in ({"behind": 1}, {"age": 5 * SECOND}):
        assert kinds(decide(P1, gone, **off, defect=SupervisorDefect.STALE_FIND_EVIDENCE)) == ["submission_ended"]


LAUNCH: list[tuple[History, dict[str, Any], list[str]]] = [
    (D, {}, ["submission_authorised"]),
    ((*D, HOLD), {"now": SECOND}, ["Wait"]),
    ((*D, HOLD), {}, ["escalation_raised"]),
    ((*D, HOLD), {"defect": SILENT}, ["Wait"]),
    ((*D, submission(1)), {}, ["attempt_authorised"]),
    ((*D, submission(1), HOLD), {"now": SECOND}, ["Wait"]),
    (A1, {}, ["Start"]),
    ((*A1, HOLD), {}, ["Start"]),
    (A1, {"sent": {(1, 1)}, "now": 45}, ["Wait"]),
    (A1, {"sent": {(1, 1)}, "age": None}, ["Find"]),
    (A1, {"sent": {(1, 1)}}, ["attempt_abandoned"]),
    ((*A1[:-1], attempt(1, 1, by="sup1.0", deadline=NOW)), {}, ["Wait"]),
    ((*A1[:-1], attempt(1, 1, by="sup1.0", deadline=NOW)), {"defect": SupervisorDefect.RESEND_START}, ["Start"]),
    (EXHAUSTED_1[:-1], {}, ["launch_exhausted"]),
    (EXHAUSTED_1[:-1], {"defect": SupervisorDefect.UNBOUNDED_ATTEMPTS}, ["attempt_authorised"]),
    (O1, {"age": None}, ["object_chosen"]),
    (TWO_SEEN, {"age": None}, ["object_chosen"]),
    (TWO_SEEN, {"age": None, "defect": SupervisorDefect.LOCAL_CHOICE}, ["Stop"]),
    ((*TWO_SEEN, chosen(OBJ)), {"age": None}, ["object_retired"]),
    ((*TWO_SEEN, chosen(OBJ)), {"defect": SupervisorDefect.RETIRE_CANONICAL}, ["object_retired"]),
    ((*TWO_SEEN, chosen(OBJ)), {"defect": SupervisorDefect.RECHOOSE_CANONICAL}, ["object_chosen"]),
]


@pytest.mark.parametrize(("history", "how", "does"), LAUNCH)
def test_launch(history: History, how: dict[str, Any], does: list[str]) -> None:
    """From nothing to one canonical object: R2, R4, R15, R21."""
    assert kinds(decide(history, **how)) == does


def test_the_lowest_attempt_is_chosen() -> None:
    """R4: of several the one of the lowest attempt, though a later one was seen first."""
    late_first = (*A1, abandoned(1, 1), attempt(1, 2), *TWO_SEEN[-1:], TWO_SEEN[-2])
    assert commits(decide(late_first, age=None)) == (ev.ObjectChosen(n=1, obj=OBJ),)


def test_an_attempt_waits_for_its_deadline() -> None:
    """It is authorised for START_WAIT, and waited for until a Find begins after its deadline."""
    authorised = commits(decide((*D, submission(1))))[0]
    assert authorised == ev.AttemptAuthorised(n=1, a=1, by=ME, deadline=NOW + 45 * SECOND)
    waiting = (*D, submission(1), attempt(1, 1, deadline=NOW + SECOND))
    assert decide(waiting, sent={(1, 1)}) == Wait(NOW + SECOND + 1)
    assert kinds(decide(waiting, sent={(1, 1)}, now=NOW + SECOND)) == ["Wait"]
    assert kinds(decide(waiting, sent={(1, 1)}, now=NOW + SECOND + 1)) == ["attempt_abandoned"]


KEEP: list[tuple[History, tuple[seam.View, ...], dict[str, Any], list[str]]] = [
    (C1, (view(**GATED),), {}, ["open_authorised"]),
    ((*C1, HOLD), (view(**GATED),), {"now": SECOND}, ["Wait"]),
    (P1, (view(**GATED),), {}, ["Open"]),
    (P1, (view(**GATED),), {"last": {("open", OBJ): 5 * SECOND}}, ["Wait"]),
    (P1, (view(**GATED),), {"last": {("open", OBJ): 6 * SECOND}}, ["Open"]),
    ((*PK, HOLD), (view(**GATED),), {"now": SECOND}, ["Wait"]),
    (P1, (view(),), {}, ["Wait"]),
    (P1, (view(**ENDED),), {}, ["submission_ended"]),
    (P1, (view(**{**ENDED, "cause": "completed"}),), {}, ["submission_ended", "outcome_decided"]),
    (P1, (view(**{**ENDED, "cause": "failed"}),), {}, ["submission_ended", "outcome_decided"]),
    ((*P1, HOLD), (view(**PENDING),), {}, ["call_authorised"]),
    ((*P1, HOLD), (view(**PENDING, held=True),), {"now": SECOND}, ["Wait"]),
    ((*P1, HOLD), (view(),), {"now": SECOND}, ["Wait"]),
    (P1, (view(**PENDING, held=True),), {}, ["call_authorised"]),
    ((*P1, REQUEUE), (view(),), {}, ["call_authorised"]),
    ((*P1, REQUEUE), (view(),), {"defect": SupervisorDefect.DEADLINE_AFTER_SEND}, ["BoundedCall"]),
    ((*P1, call("requeue")), (view(),), {"now": 5 * SECOND}, ["BoundedCall"]),
    ((*P1, call("requeue")), (view(),), {"now": 5 * SECOND, "sent": {"c1"}}, ["Wait"]),
    ((*P1, call("requeue", by="sup1.0")), (view(),), {"now": 15 * SECOND + 20}, ["Wait"]),
    ((*P1, call("requeue", by="sup1.0")), (view(),), {"now": 15 * SECOND + 21}, ["call_closed"]),
    ((*P1, call("release", by="sup1.0"), REQUEUE), (view(),), {"now": SECOND}, ["Wait"]),
    (
        (*P1, call("release", by="sup1.0"), REQUEUE),
        (view(),),
        {"now": SECOND, "defect": SupervisorDefect.HOLD_DURING_RELEASE},
        ["call_authorised"],
    ),
    (P1, (view(bit=True),), {}, ["ClearBit"]),
    (P1, (view(bit=True),), {"last": {("clearbit", OBJ): SECOND}}, ["Wait"]),
    (P1, (view(bit=True),), {"defect": SupervisorDefect.IGNORE_REQUEUE_BIT}, ["Wait"]),
    (P1, (), {}, ["Wait"]),
    (P1, (), {"missing": {OBJ: NOW - 180 * SECOND}}, ["escalation_raised"]),
    (P1, (), {"missing": {OBJ: NOW - 180 * SECOND}, "defect": SILENT}, ["Wait"]),
    (P1, (), {"defect": SupervisorDefect.ABSENT_MEANS_ENDED}, ["submission_ended", "outcome_decided"]),
    ((*P1, ev.ObjectGone(obj=OBJ, at=0)), (), {}, ["submission_ended", "outcome_decided"]),
    ((*PK, fenced(OBJ), ev.ObjectGone(obj=OBJ, at=0)), (), {}, ["submission_ended"]),
    (PK, (view(lost=True),), {}, ["fence_authorised"]),
    (PK, (view(lost=True),), {"defect": SupervisorDefect.STOP_BEFORE_FENCE}, ["Stop"]),
    ((*PK, fenced(OBJ)), (view(lost=True),), {}, ["Stop"]),
    ((*PK, fenced(OBJ)), (view(lost=True),), {"now": SECOND, "last": {("stop", OBJ): 0}}, ["Wait"]),
    (
        (*PK, fenced(OBJ)),
        (view(lost=True),),
        {"last": {("stop", OBJ): 0}, "defect": SupervisorDefect.FENCE_WITHOUT_VERIFY},
        ["stop_verified"],
    ),
    ((*PK, fenced(OBJ)), (view(lost=True),), {"last": {("stop", OBJ): 0}}, ["escalation_raised"]),
    ((*PK, fenced(OBJ), verified(OBJ)), (view(**ENDED),), {}, ["submission_ended"]),
    (OVER_2, (view("2/1/2", **GATED), view(**ENDED)), {}, ["open_authorised"]),
    (OVER_2, (view("2/1/2", **GATED),), {}, ["open_authorised"]),
    (OVER_2, (view("2/1/2", **GATED), view()), {}, ["Wait"]),
    (
        OVER_2,
        (view("2/1/2", **GATED), view()),
        {"defect": SupervisorDefect.VERIFIED_STOPPED_AS_EVIDENCE},
        ["open_authorised"],
    ),
]


@pytest.mark.parametrize(("history", "views", "how", "does"), KEEP)
def test_keep(history: History, views: tuple[seam.View, ...], how: dict[str, Any], does: list[str]) -> None:
    """The canonical object, from its gate to its end: R1, R3, R7, R8, R10, R11, R13, R22."""
    assert kinds(decide(history, *views, **how)) == does


def test_causes() -> None:
    """A fenced object that in truth completed is recorded as completed; any other end of it is its node's."""
    both = (*PK, fenced(OBJ), verified(OBJ))
    lost = commits(decide(both, view(**{**ENDED, "cause": "stopped"})))
    assert lost == (ev.SubmissionEnded(n=1, cause="node_lost", at=NOW),)
    done = commits(decide(both, view(**{**ENDED, "cause": "completed"})))
    assert done[1] == ev.OutcomeDecided(state="completed", cause="completed", at=NOW)


NODE_LOST = (*P1, ended(1, "node_lost"), verified(OBJ))
AFTER: list[tuple[History, tuple[seam.View, ...], dict[str, Any], list[str]]] = [
    (E1, (view(),), {}, ["Stop"]),
    (E1, (view(**ENDED),), {}, ["stop_verified"]),
    (E1, (view(**ENDED, bit=True),), {}, ["ClearBit"]),
    (E1, (view(**ENDED, bit=True),), {"defect": SupervisorDefect.IGNORE_REQUEUE_BIT}, ["stop_verified"]),
    ((*P1, call("requeue", by="x"), ended(1)), (view(**ENDED),), {"now": SECOND}, ["Resolve"]),
    (
        (*P1, call("requeue", by="x"), ended(1)),
        (view(**ENDED),),
        {"now": SECOND, "defect": SupervisorDefect.OPEN_DURING_REQUEUE},
        ["stop_verified"],
    ),
    (V1, (), {}, ["Resolve"]),
    (V1, (), {"ckpt": ResolvedCheckpoint(len(V1), 7)}, ["submission_authorised"]),
    (V1, (), {"ckpt": ResolvedCheckpoint(len(V1) - 1, 7)}, ["Resolve"]),
    (LAST_OVER, (), {}, ["outcome_decided"]),
    ((*V1, HOLD), (), {"now": SECOND}, ["Wait"]),
    (EXHAUSTED_1, (), {"now": SECOND}, ["Wait"]),
    (EXHAUSTED_1, (), {}, ["escalation_raised"]),
    ((*EXHAUSTED_1, RESUBMIT), (), {}, ["Resolve"]),
    ((*EXHAUSTED_1, *TWO_SEEN[-1:]), (), {"age": None}, ["object_retired"]),
]


@pytest.mark.parametrize(("history", "views", "how", "does"), AFTER)
def test_after_a_submission(
    history: History, views: tuple[seam.View, ...], how: dict[str, Any], does: list[str]
) -> None:
    """What follows a submission that is over: R9, R10, R21."""
    assert kinds(decide(history, *views, **how)) == does


def test_resume_point() -> None:
    """The next submission resumes from the greatest checkpoint, never from an earlier one than the last did (R19)."""
    later = (*D, submission(1, resume=9), *E1[2:], verified(OBJ))
    step = commits(decide(later, ckpt=ResolvedCheckpoint(len(later), 7)))
    assert step == (ev.SubmissionAuthorised(n=2, resume=9, why="preempted", at=NOW),)


def _with_spec(history: History, **fields: Any) -> History:
    declared = history[0]
    assert isinstance(declared, ev.JobDeclared)
    return (msgspec.structs.replace(declared, **fields), *history[1:])


def test_policy_holds() -> None:
    """R11, R21: put once, with its question unless a cessation answer can end it, and not while a release is open."""
    hold_rule = _with_spec(NODE_LOST, policy=Policy(node_lost="hold"))
    assert kinds(decide(hold_rule)) == ["hold", "escalation_raised"]
    assert kinds(decide(hold_rule, defect=SILENT)) == ["hold"]
    assert kinds(decide(_with_spec(V1, policy=Policy(node_lost="hold")))) == ["Resolve"]
    shared = _with_spec(V1, shared=True)
    assert kinds(decide(shared)) == ["hold"]
    assert kinds(decide(_with_spec(shared, shape="kubeflow"))) == ["hold", "escalation_raised"]
    served = (*hold_rule, ev.Hold(by="policy", why="node_lost", at=0), ev.Release(by="person", at=0))
    assert kinds(decide(served)) == ["Resolve"]
    releasing = _with_spec(
        (*P1, call("release", by="x"), ended(1, "node_lost"), verified(OBJ)), policy=Policy(node_lost="hold")
    )
    assert kinds(decide(releasing, now=SECOND)) == ["Wait"]
    early = decide(releasing, now=SECOND, defect=SupervisorDefect.HOLD_DURING_RELEASE)
    assert kinds(early) == ["hold", "escalation_raised"]


def test_cessation() -> None:
    """R20: asked about a verified object only, every POLL; an answer counts at the version at which it was asked."""
    held = _with_spec((*E1, ev.Hold(by="policy", why="shared", at=NOW)), shared=True)
    closed = (*held, verified(OBJ))
    early = SupervisorDefect.CESSATION_BEFORE_FENCE
    assert kinds(decide(held, view(**ENDED, bit=True), last={("clearbit", OBJ): 0})) == ["Wait"]
    assert kinds(decide(held, view(**ENDED, bit=True), last={("clearbit", OBJ): 0}, defect=early)) == ["Cessation"]
    assert kinds(decide(closed)) == ["Cessation"]
    assert kinds(decide(closed, last={("cessation", OBJ): 4 * SECOND})) == ["Wait"]
    fresh, old = CessationAnswer(len(closed), OBJ, ceased=True), CessationAnswer(len(closed) - 1, OBJ, ceased=True)
    assert kinds(decide(closed, cess=fresh)) == ["release"]
    assert kinds(decide(closed, cess=CessationAnswer(len(closed), OBJ, ceased=False))) == ["Cessation"]
    assert kinds(decide(closed, cess=old)) == ["Cessation"]
    assert kinds(decide(closed, cess=old, defect=early)) == ["release"]


FAILED = (*E1, outcome("failed"))
CANCELLED = (*V1, CANCEL, outcome("cancelled"))
LATE_REQUEUE = (*P1, call("requeue", by="x"), ended(1), outcome("failed"))
CLEANUP: list[tuple[History, tuple[seam.View, ...], dict[str, Any], list[str]]] = [
    ((*P1, CANCEL), (), {"age": None}, ["outcome_decided"]),
    ((*O1, outcome("failed")), (), {"age": None}, ["object_retired"]),
    (FAILED, (), {"age": None}, ["Find"]),
    (FAILED, (view(),), {}, ["Stop"]),
    (FAILED, (view(**GATED),), {}, ["Stop"]),
    (FAILED, (view(**GATED),), {"defect": SupervisorDefect.OPEN_IGNORES_CANCEL}, ["Open"]),
    (FAILED, (view(**ENDED),), {}, ["stop_verified"]),
    (FAILED, (), {"now": SECOND}, ["Wait"]),
    (FAILED, (), {"missing": {OBJ: 0}}, ["escalation_raised"]),
    (FAILED, (), {"defect": SupervisorDefect.ABSENT_MEANS_ENDED}, ["stop_verified"]),
    (LATE_REQUEUE, (view(**ENDED),), {"now": SECOND}, ["Wait"]),
    (
        LATE_REQUEUE,
        (view(**ENDED),),
        {"now": SECOND, "defect": SupervisorDefect.SETTLE_BEFORE_FENCE},
        ["stop_verified"],
    ),
    (LATE_REQUEUE, (view(**ENDED),), {}, ["call_closed"]),
    ((*A1, outcome("failed")), (), {}, ["attempt_abandoned"]),
    ((*A1, outcome("failed")), (), {"now": 45}, ["Wait"]),
    ((*A1, outcome("failed")), (), {"now": 45, "defect": SupervisorDefect.SETTLE_UNRESOLVED}, ["settled"]),
    ((*V1, outcome("failed")), (view(**ENDED),), {}, ["settled"]),
    ((*V1, outcome("failed")), (view(**ENDED, bit=True),), {}, ["Wait"]),
    ((*V1, outcome("failed")), (view(),), {}, ["Wait"]),
    (
        (*V1, outcome("failed")),
        (view(),),
        {"defect": SupervisorDefect.VERIFIED_STOPPED_AS_EVIDENCE},
        ["settled"],
    ),
    (CANCELLED, (), {}, ["Wait"]),
    (CANCELLED, (), {"defect": SupervisorDefect.SINGLE_CANCEL_SWEEP}, ["cleanup_completed"]),
    ((*CANCELLED, CLEANED), (), {}, ["settled"]),
]


@pytest.mark.parametrize(("history", "views", "how", "does"), CLEANUP)
def test_cleanup(history: History, views: tuple[seam.View, ...], how: dict[str, Any], does: list[str]) -> None:
    """After the outcome: R4, R8, R12, R14."""
    assert kinds(decide(history, *views, **how)) == does


def test_no_call_goes_out_after_a_cancel() -> None:
    """R12: an own bounded call that was not sent stays unsent, and is closed by its fence."""
    cancelled = (*P1, call("requeue"), CANCEL, outcome("cancelled"))
    assert kinds(decide(cancelled, view(), now=SECOND)) == ["Stop"]
    assert kinds(decide(cancelled, view(), age=None)) == ["call_closed"]


def test_two_sweeps() -> None:
    """R14: the first clean Find is remembered with its version; the second counts SETTLE_GAP later."""
    step = decide(CANCELLED)
    assert isinstance(step, Wait)
    first = step.sweep
    assert first == (len(CANCELLED), NOW)
    gap = 30 * SECOND
    assert kinds(decide(CANCELLED, now=NOW + gap - 1, sweep1=first)) == ["Wait"]
    assert kinds(decide(CANCELLED, now=NOW + gap, sweep1=first)) == ["cleanup_completed"]
    other = decide(CANCELLED, now=NOW + gap, sweep1=first._replace(version=1))
    assert other == Wait(NOW + gap + 5 * SECOND, (len(CANCELLED), NOW + gap))


def test_questions_are_asked_again_after_their_answer() -> None:
    """One open question a subject; after an answer ESC_AGE counts from it, and the next question has the next number."""
    stuck = (*FAILED, ev.EscalationRaised(id=f"stop_stuck/{OBJ}/1", kind="stop_stuck", subject=OBJ, at=0))
    recent = {("stop", OBJ): SECOND}
    assert kinds(decide(stuck, view(), last=recent)) == ["Wait"]
    answered = (*stuck, ev.EscalationAnswered(id=f"stop_stuck/{OBJ}/1", answer="checked", at=NOW - 180 * SECOND + 1))
    assert kinds(decide(answered, view(), last=recent)) == ["Wait"]
    again = commits(decide(answered, view(), last=recent, now=NOW + 1))[0]
    assert isinstance(again, ev.EscalationRaised)
    assert again.id == f"stop_stuck/{OBJ}/2"


def test_manual_abandon_asks() -> None:
    """Under the manual policy a Start past its deadline becomes a question after ESC_AGE, never an abandonment."""
    manual = _with_spec(A1, abandon="manual")
    assert kinds(decide(manual, sent={(1, 1)}, now=SECOND)) == ["Wait"]
    question = commits(decide(manual, sent={(1, 1)}))[0]
    assert isinstance(question, ev.EscalationRaised)
    assert (question.kind, question.subject) == ("start_unresolved", "1/1")


def test_retired_objects_are_stopped_while_another_runs() -> None:
    """R4: a condemned duplicate is stopped; the canonical is not."""
    both = (*TWO_SEEN, chosen(OBJ), retired("1/2/2"), opened(OBJ))
    step = decide(both, view(), view("1/2/2", **GATED))
    assert step == Send(seam.Stop(obj="1/2/2", version=len(both)))
    assert kinds(decide(both, view(), view("1/2/2", **ENDED))) == ["stop_verified"]


SHAPES = st.sampled_from(("slurm", "kubeflow"))


@given(seed=st.integers(0, 2**32), shape=SHAPES, shared=st.booleans(), manual=st.booleans(), hold=st.booleans())
@settings(max_examples=60)
def test_every_proposed_commit_is_legal(seed: int, shape: str, shared: bool, manual: bool, hold: bool) -> None:
    """From any reachable state, whatever was lost, late or repeated, what is proposed at the record's version folds."""
    spec = JobSpec(
        job="job",
        shape=shape,  # type: ignore[arg-type]
        shared=shared,
        abandon="manual" if manual else "auto",
        policy=Policy(node_lost="hold" if hold else "resubmit"),
        timing=Timing(esc_age_ns=40 * SECOND),
    )
    proposed = 0

    def on_batch(s: State, batch: Batch) -> None:
        nonlocal proposed
        proposed += 1
        extend(s, (batch,))

    wander(seed, spec, files=False, steps=600, on_batch=on_batch)
    assert proposed
