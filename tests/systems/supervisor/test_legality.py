"""The fold's table (§4.2 of the design), row by row, in both directions."""

from typing import Any

import pytest

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.config import NO_DEFECTS, SupervisorDefect
from simharness.systems.supervisor.events import Event
from simharness.systems.supervisor.fold import ROWS, Illegal, apply
from simharness.systems.supervisor.state import State, condemned_at, is_clean
from tests.systems.supervisor.histories import (
    A1,
    ANSWERED,
    ASKED,
    C1,
    CANCEL,
    CLEANED,
    E1,
    EXHAUSTED,
    EXHAUSTED_1,
    GIVE_UP,
    HOLD,
    O1,
    OBJ,
    OVER_2,
    P1,
    PK,
    RELEASE,
    REQUEUE,
    RESUBMIT,
    S1,
    SETTLED,
    TWO_SEEN,
    V1,
    D,
    History,
    abandoned,
    attempt,
    call,
    chosen,
    closed,
    ended,
    fenced,
    opened,
    outcome,
    retired,
    seen,
    state,
    submission,
    verified,
)

CLOSED = (*V1, outcome(), SETTLED)
FAILED_1 = ev.AttemptFailed(n=1, a=1)
GONE = ev.ObjectGone(obj=OBJ, at=0)
POLICY_HOLD = ev.Hold(by="policy", why="node_lost", at=0)
MAX_OVER: History = (
    *D,
    *(
        event
        for n in (1, 2, 3, 4)
        for event in (
            submission(n),
            attempt(n, 1),
            seen(n, 1, n),
            chosen(f"{n}/1/{n}"),
            opened(f"{n}/1/{n}"),
            ended(n),
            verified(f"{n}/1/{n}"),
        )
    ),
)

LEGAL: list[tuple[History, Event]] = [
    ((), D[0]),
    (D, submission(1)),
    (V1, submission(2)),
    (E1, submission(2)),
    ((*EXHAUSTED_1, RESUBMIT), submission(2)),
    (S1, attempt(1, 1)),
    ((*A1, FAILED_1), attempt(1, 2)),
    ((*A1, abandoned(1, 1)), attempt(1, 2)),
    ((*O1, outcome("failed")), seen(1, 1, 9)),
    (A1, seen(1, 1, 1)),
    ((*A1, CANCEL), seen(1, 1, 1)),
    ((*A1, abandoned(1, 1)), seen(1, 1, 1)),
    (A1, FAILED_1),
    ((*A1, CANCEL), FAILED_1),
    (A1, abandoned(1, 1)),
    ((*A1, CANCEL), abandoned(1, 1)),
    (EXHAUSTED_1[:-1], EXHAUSTED),
    ((*EXHAUSTED_1[:-1], HOLD), EXHAUSTED),
    (O1, chosen(OBJ)),
    ((*O1, HOLD), chosen(OBJ)),
    ((*TWO_SEEN, chosen(OBJ)), retired("1/2/2")),
    ((*O1, outcome("failed")), retired(OBJ)),
    ((*EXHAUSTED_1, seen(1, 2, 7)), retired("1/2/7")),
    (C1, opened(OBJ)),
    (OVER_2, opened("2/1/2")),
    (PK, fenced(OBJ)),
    ((*PK, HOLD), fenced(OBJ)),
    (P1, ended(1)),
    ((*P1, CANCEL), ended(1)),
    ((*P1, HOLD), call("hold")),
    (P1, call("release")),
    (P1, call("requeue")),
    ((*C1, HOLD), call("hold")),
    ((*P1, call("requeue")), closed()),
    ((*P1, call("requeue"), CANCEL), closed(how="fenced")),
    (E1, verified(OBJ)),
    ((*PK, fenced(OBJ)), verified(OBJ)),
    ((*P1, outcome("failed")), verified(OBJ)),
    ((*P1, call("requeue"), ended(1), closed()), verified(OBJ)),
    ((*P1, call("release"), ended(1)), verified(OBJ)),
    (P1, GONE),
    (E1, GONE),
    (D, HOLD),
    (P1, POLICY_HOLD),
    ((*P1, call("release"), closed()), HOLD),
    ((*P1, call("requeue")), HOLD),
    ((*D, HOLD), RELEASE),
    ((*P1, HOLD), ev.Release(by="cessation", at=0)),
    (P1, REQUEUE),
    (E1, RESUBMIT),
    (EXHAUSTED_1, RESUBMIT),
    ((*E1, HOLD), RESUBMIT),
    (D, CANCEL),
    ((*P1, HOLD), CANCEL),
    (C1, GIVE_UP),
    (E1, GIVE_UP),
    (D, GIVE_UP),
    (P1, outcome("completed")),
    ((*P1, CANCEL), outcome("cancelled")),
    ((*D, CANCEL, outcome("cancelled")), CLEANED),
    (CLOSED[:-1], SETTLED),
    ((*D, CANCEL, outcome("cancelled"), CLEANED), SETTLED),
    (D, ASKED),
    ((*P1, outcome("failed")), ASKED),
    ((*D, ASKED), ANSWERED),
    ((*D, ASKED, CANCEL), ANSWERED),
]

OPEN_ENDED, LAUNCH = "no cancel, no outcome", "no cancel, no outcome, not held"
RUNNING = "the submission is current and not over"
ILLEGAL: list[tuple[History, Event, str]] = [
    (D, D[0], "the first event, once"),
    (CLOSED, D[0], "nothing follows the settlement"),
    ((), submission(1), "the job is declared first"),
    ((*D, HOLD), submission(1), LAUNCH),
    ((*D, CANCEL), submission(1), LAUNCH),
    (D, submission(2), "submissions are numbered in order"),
    (P1, submission(2), "the previous submission is over"),
    (MAX_OVER, submission(5), "no more submissions than MAX"),
    ((*D, submission(1, resume=5), *E1[2:]), submission(2, resume=4), "the resume point never drops"),
    ((*S1, HOLD), attempt(1, 1), LAUNCH),
    (E1, attempt(1, 2), RUNNING),
    (C1, attempt(1, 2), "the submission has no canonical"),
    (S1, attempt(1, 2), "attempts are numbered in order"),
    (EXHAUSTED_1[:-1], attempt(1, 4), "no more attempts than the bound"),
    (A1, attempt(1, 2), "no attempt of the submission is unresolved"),
    (S1, seen(1, 1, 1), "the attempt exists"),
    (O1, seen(1, 1, 1), "the object is new"),
    (A1, ev.ObjectSeen(job="job", n=1, a=1, obj="1/2/1"), "its labels are this job, n, a"),
    (A1, ev.ObjectSeen(job="other", n=1, a=1, obj=OBJ), "its labels are this job, n, a"),
    (CLOSED, seen(1, 1, 9), "nothing follows the settlement"),
    (O1, FAILED_1, "the attempt is authorised and unresolved"),
    (S1, FAILED_1, "the attempt exists"),
    (O1, abandoned(1, 1), "the attempt is authorised and unresolved"),
    (A1, abandoned(1, 2), "the attempt exists"),
    (S1, EXHAUSTED, "every attempt is used"),
    (C1, EXHAUSTED, "the submission has no canonical"),
    ((*EXHAUSTED_1[:-2],), EXHAUSTED, "no attempt is unresolved"),
    ((*EXHAUSTED_1[:-1], seen(1, 1, 1)), EXHAUSTED, "all its objects are retired"),
    (EXHAUSTED_1, EXHAUSTED, RUNNING),
    ((*O1, CANCEL), chosen(OBJ), OPEN_ENDED),
    ((*O1, outcome("failed")), chosen(OBJ), OPEN_ENDED),
    ((*TWO_SEEN, chosen(OBJ)), chosen("1/2/2"), "the submission has no canonical"),
    (A1, chosen(OBJ), "the object is known"),
    (EXHAUSTED_1, chosen(OBJ), RUNNING),
    (O1, retired(OBJ), "another is canonical, or nothing of it runs"),
    (C1, retired(OBJ), "the object was only seen"),
    (A1, retired(OBJ), "the object is known"),
    ((*C1, HOLD), opened(OBJ), LAUNCH),
    ((*C1, CANCEL), opened(OBJ), LAUNCH),
    ((*PK, fenced(OBJ)), opened(OBJ), "the submission is not fenced"),
    (O1, opened(OBJ), "the object is its canonical"),
    ((*E1, *OVER_2[len(V1) :]), opened("2/1/2"), "every earlier canonical is verified"),
    (P1, fenced(OBJ), "kubeflow only"),
    ((*PK, CANCEL), fenced(OBJ), OPEN_ENDED),
    ((*PK, fenced(OBJ)), fenced(OBJ), "not fenced yet"),
    (PK[:-1], fenced(OBJ), "its canonical, with Open authorised"),
    (O1, ended(1), "the submission has a canonical"),
    (E1, ended(1), RUNNING),
    ((*P1, CANCEL), call("requeue"), OPEN_ENDED),
    (PK, call("release"), "slurm only"),
    ((*P1, call("release"), closed()), call("release"), "the call is new"),
    (E1, call("release"), "the canonical of a current submission"),
    (O1, call("release"), "the canonical of a current submission"),
    ((*P1, call("requeue")), call("release", cid="c2"), "no other open call on the object"),
    (P1, call("hold"), "hold while held, release and requeue while not"),
    ((*P1, HOLD), call("requeue"), "hold while held, release and requeue while not"),
    ((*P1, HOLD), call("release"), "hold while held, release and requeue while not"),
    (C1, call("requeue"), "a requeue needs Open authorised"),
    (P1, closed(), "the call is open"),
    ((*P1, call("requeue"), closed()), closed(how="fenced"), "the call is open"),
    (P1, verified(OBJ), "the object is condemned"),
    (V1, verified(OBJ), "not verified yet"),
    ((*P1, call("requeue"), ended(1)), verified(OBJ), "no open requeue call on the object"),
    (A1, verified(OBJ), "the object is known"),
    (V1, GONE, "not verified yet"),
    ((*P1, call("requeue")), GONE, "no open requeue call on the object"),
    (A1, GONE, "the object is known"),
    ((*D, HOLD), HOLD, "not held"),
    ((*D, CANCEL), HOLD, OPEN_ENDED),
    ((*P1, call("release")), HOLD, "no open release call"),
    (D, RELEASE, "held"),
    ((*D, HOLD, CANCEL), RELEASE, OPEN_ENDED),
    (PK, REQUEUE, "slurm only"),
    ((*P1, HOLD), REQUEUE, LAUNCH),
    (C1, REQUEUE, "an opened canonical that is not over"),
    (E1, REQUEUE, "an opened canonical that is not over"),
    ((*P1, REQUEUE), REQUEUE, "none pending"),
    (P1, RESUBMIT, "the current submission is over"),
    (D, RESUBMIT, "the current submission is over"),
    ((*E1, CANCEL), RESUBMIT, OPEN_ENDED),
    (MAX_OVER, RESUBMIT, "a further submission is left"),
    ((*D, CANCEL), CANCEL, OPEN_ENDED),
    ((*P1, outcome()), CANCEL, OPEN_ENDED),
    (P1, GIVE_UP, "nothing is opened"),
    ((*C1, CANCEL), GIVE_UP, OPEN_ENDED),
    ((*P1, outcome()), outcome("failed"), "no outcome yet"),
    ((*P1, CANCEL), outcome("completed"), "cancelled if and only if cancelled"),
    (P1, outcome("cancelled"), "cancelled if and only if cancelled"),
    ((*P1, outcome()), CLEANED, "cancelled, with its outcome"),
    ((*D, CANCEL), CLEANED, "cancelled, with its outcome"),
    ((*O1, CANCEL, outcome("cancelled")), CLEANED, "clean"),
    ((*D, CANCEL, outcome("cancelled"), CLEANED), CLEANED, "once"),
    (V1, SETTLED, "the job has an outcome"),
    ((*A1, outcome("failed")), SETTLED, "clean"),
    ((*E1, outcome("failed")), SETTLED, "clean"),
    ((*P1, call("release"), ended(1), verified(OBJ), outcome("failed")), SETTLED, "clean"),
    ((*D, CANCEL, outcome("cancelled")), SETTLED, "a cancel reports its clean-up first"),
    (CLOSED, SETTLED, "nothing follows the settlement"),
    ((*D, ASKED), ASKED, "the escalation is new"),
    ((), ASKED, "the job is declared first"),
    (D, ANSWERED, "the escalation is open"),
    ((*D, ASKED, ANSWERED), ANSWERED, "the escalation is open"),
]


def _name(value: Any) -> str | None:
    return ev.kind_of(value) if type(value) in ROWS else None


@pytest.mark.parametrize(("history", "event"), LEGAL, ids=_name)
def test_legal(history: History, event: Event) -> None:
    """The row lets the event pass, and the state says something else afterwards."""
    before = state(*history)
    assert apply(before, event) != before


@pytest.mark.parametrize(("history", "event", "rule"), ILLEGAL, ids=_name)
def test_illegal(history: History, event: Event, rule: str) -> None:
    """The row refuses the event, names the rule, and leaves the state as it was."""
    before = state(*history)
    with pytest.raises(Illegal) as caught:
        apply(before, event)
    assert (caught.value.kind, caught.value.rule) == (ev.kind_of(event), rule)
    assert before == state(*history)


def test_the_table_is_complete() -> None:
    """Every kind of event has a row, a legal case and two illegal ones; every row is of a kind."""
    kinds = set(ROWS)
    assert kinds == set(ev.Event.__args__)
    assert {type(event) for _, event in LEGAL} == kinds
    refused = [type(event) for _, event, _ in ILLEGAL]
    assert {kind for kind in kinds if refused.count(kind) < 2} == set()


def test_effects_on_requests() -> None:
    """A submission, a hold, an end and a cancel clear a pending requeue; the call consumes it."""
    pending = (*P1, REQUEUE)
    assert state(*pending).requeue_requested
    for event in (HOLD, CANCEL, ended(1), call("requeue")):
        assert not state(*pending, event).requeue_requested
    assert state(*pending, call("release")).requeue_requested
    again = state(*E1, HOLD, RESUBMIT)
    assert (again.resubmit, again.hold) == (True, None)
    assert again.sub(1).hold_served
    assert not state(*E1, RESUBMIT, submission(2)).resubmit


def test_policy_hold_is_served_once() -> None:
    """A hold by the policy counts as served for the submission that ended; a person's does not."""
    assert state(*E1, POLICY_HOLD).sub(1).hold_served
    assert not state(*E1, HOLD).sub(1).hold_served


def test_late_object_of_an_abandoned_attempt() -> None:
    """It is known, and the attempt stays abandoned."""
    late = state(*A1, abandoned(1, 1), seen(1, 1, 1))
    assert late.objs[OBJ].role == "seen"
    assert late.sub(1).attempts[0].status == "abandoned"
    assert late.any_abandon
    assert state(*O1).sub(1).attempts[0].status == "seen"


def test_condemned() -> None:
    """An object may be stopped once it is retired, its submission is over, fenced or not current, or there is an outcome (R4)."""

    def since(s: State) -> int | None:
        return condemned_at(s, s.objs[OBJ])

    assert since(state(*P1)) is None
    assert since(state(*P1, CANCEL)) is None
    assert since(state(*P1, ended(1, at=7))) == 7
    assert since(state(*PK, ev.FenceAuthorised(n=1, obj=OBJ, at=8), ended(1, at=9))) == 8
    assert since(state(*P1, ev.OutcomeDecided(state="failed", cause="x", at=5))) == 5
    assert since(state(*TWO_SEEN, chosen("1/2/2"), ev.ObjectRetired(obj=OBJ, at=3))) == 3
    assert since(state(*EXHAUSTED_1, seen(1, 1, 1))) == 0


def test_clean() -> None:
    """Clean: nothing unresolved, open or unverified."""
    assert is_clean(state(*V1))
    assert not is_clean(state(*A1))
    assert not is_clean(state(*E1))
    assert not is_clean(state(*P1, call("release"), ended(1), verified(OBJ)))


RELAXED: list[tuple[SupervisorDefect, History, Event]] = [
    (SupervisorDefect.UNBOUNDED_ATTEMPTS, EXHAUSTED_1[:-1], attempt(1, 4)),
    (SupervisorDefect.OPEN_DURING_REQUEUE, (*P1, call("requeue"), ended(1)), verified(OBJ)),
    (SupervisorDefect.SETTLE_BEFORE_FENCE, (*P1, call("requeue"), ended(1), outcome("failed")), verified(OBJ)),
    (SupervisorDefect.SETTLE_UNRESOLVED, (*A1, outcome("failed")), SETTLED),
    (SupervisorDefect.HOLD_DURING_RELEASE, (*P1, call("release")), HOLD),
    (SupervisorDefect.HOLD_DURING_RELEASE, (*P1, call("release")), call("requeue", cid="c2")),
    (SupervisorDefect.RETIRE_CANONICAL, C1, retired(OBJ)),
    (SupervisorDefect.RECHOOSE_CANONICAL, (*TWO_SEEN, chosen(OBJ)), chosen("1/2/2")),
]


@pytest.mark.parametrize(("defect", "history", "event"), RELAXED, ids=str)
def test_a_defect_relaxes_its_row(defect: SupervisorDefect, history: History, event: Event) -> None:
    """With the defect on the fold lets pass what its rule forbids, so that the world shows the damage (K1)."""
    before = state(*history)
    with pytest.raises(Illegal):
        apply(before, event, NO_DEFECTS)
    assert apply(before, event, frozenset({defect})) != before


def test_settled_with_calls_open_needs_its_defect() -> None:
    """SETTLE_BEFORE_FENCE calls a record clean whose calls are open."""
    history = (*P1, call("requeue"), ended(1), outcome("failed"))
    defects = frozenset({SupervisorDefect.SETTLE_BEFORE_FENCE})
    assert state(*history, verified(OBJ), SETTLED, defects=defects).settled


def test_wrong_labels_are_never_this_jobs() -> None:
    """D05: identity is job label, submission, attempt and id: the same id under other labels is another object."""
    s = state(*A1, abandoned(1, 1))
    second = apply(apply(s, attempt(1, 2)), seen(1, 2, 1))
    both = apply(second, seen(1, 1, 1))
    assert list(both.objs) == ["1/2/1", "1/1/1"]
    assert both.objs["1/2/1"] != both.objs["1/1/1"]
