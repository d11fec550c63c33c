"""The person's commands and answers (§6.2 of the design): what they commit, and that a refused one changes no byte."""

import pytest

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import operator, seam
from simharness.systems.supervisor.config import JobSpec, Timing
from simharness.systems.supervisor.events import Event
from simharness.systems.supervisor.operator import COMMANDS, Command, Refusal
from tests.systems.supervisor.histories import (
    A1,
    C1,
    CANCEL,
    E1,
    EXHAUSTED_1,
    HOLD,
    OBJ,
    P1,
    PK,
    D,
    History,
    call,
    outcome,
    state,
)
from tests.systems.supervisor.rig import Rig

AT = 7


@pytest.mark.parametrize(
    ("history", "command", "batch"),
    [
        (P1, "cancel", (ev.CancelRequested(at=AT),)),
        (P1, "hold", (ev.Hold(by="person", why="person", at=AT),)),
        ((*P1, HOLD), "release", (ev.Release(by="person", at=AT),)),
        (P1, "requeue", (ev.RequeueRequested(at=AT),)),
        (E1, "resubmit", (ev.ResubmitRequested(at=AT),)),
        (C1, "give_up", (ev.GiveUp(at=AT),)),
        (A1, "give_up", (ev.AttemptAbandoned(n=1, a=1, by="person"), ev.GiveUp(at=AT))),
    ],
)
def test_obeyed(history: History, command: Command, batch: tuple[Event, ...]) -> None:
    """Each command commits its batch."""
    assert operator.command(state(*history), command, AT) == batch


REFUSED: list[tuple[History, Command, str]] = [
    ((*P1, CANCEL), "cancel", "no cancel, no outcome"),
    ((*P1, HOLD), "hold", "not held"),
    ((*P1, call("release")), "hold", "no open release call"),
    (P1, "release", "held"),
    (PK, "requeue", "slurm only"),
    ((*P1, HOLD), "requeue", "no cancel, no outcome, not held"),
    (P1, "resubmit", "the current submission is over"),
    (P1, "give_up", "nothing is opened"),
    *(((*P1, outcome()), command, "no cancel, no outcome") for command in ("cancel", "hold", "give_up")),
]


@pytest.mark.parametrize(("history", "command", "rule"), REFUSED)
def test_refused(history: History, command: Command, rule: str) -> None:
    """A command that the record does not allow is one clear line."""
    refusal = operator.command(state(*history), command, AT)
    assert refusal == Refusal(asked=command, rule=rule)
    assert str(refusal) == f"{command} refused: {rule}"


def test_every_command_is_refused_once_settled() -> None:
    """Nothing is asked of a closed record."""
    closed = state(*D, CANCEL, outcome("cancelled"), ev.CleanupCompleted(at=0), ev.Settled(at=0))
    for command in COMMANDS:
        refusal = operator.command(closed, command, AT)
        assert isinstance(refusal, Refusal)


def test_a_refused_command_changes_no_byte() -> None:
    """The record's files are the same before and after a command that is refused."""
    rig = Rig(JobSpec(job="job", shape="slurm"), files=True)
    disk = rig.disks["record"]
    before = {name: disk.read(name) for name in disk.list()}
    for command in ("release", "requeue", "resubmit"):
        assert isinstance(operator.command(rig.state(), command, AT), Refusal)
    assert {name: disk.read(name) for name in disk.list()} == before


def _asked(kind: ev.EscalationKind, subject: str) -> Event:
    return ev.EscalationRaised(id=f"{kind}/{subject}/1", kind=kind, subject=subject, at=0)


UNRESOLVED, HELD, STUCK = _asked("start_unresolved", "1/1"), _asked("held", "0"), _asked("stop_stuck", OBJ)
NO_LAUNCH, MISSING = _asked("launch_exhausted", "1"), _asked("object_missing", OBJ)


@pytest.mark.parametrize(
    ("history", "question", "given", "more"),
    [
        (A1, UNRESOLVED, "abandon", (ev.AttemptAbandoned(n=1, a=1, by="person"),)),
        (A1, UNRESOLVED, "moot", ()),
        ((*P1, HOLD), HELD, "release", (ev.Release(by="person", at=AT),)),
        (P1, HELD, "moot", ()),
        (EXHAUSTED_1, NO_LAUNCH, "resubmit", (ev.ResubmitRequested(at=AT),)),
        (EXHAUSTED_1, NO_LAUNCH, "give_up", (ev.GiveUp(at=AT),)),
        ((*EXHAUSTED_1, CANCEL), NO_LAUNCH, "moot", ()),
        (E1, STUCK, "node_confirmed_dead", ()),
        (E1, STUCK, "checked", ()),
        (E1, MISSING, "confirmed_gone", (ev.ObjectGone(obj=OBJ, at=AT),)),
        (E1, MISSING, "checked", ()),
    ],
)
def test_answers(history: History, question: Event, given: ev.Answer, more: tuple[Event, ...]) -> None:
    """An answer closes its question and carries what follows from it, in one batch; `moot` only closes it (O4)."""
    assert isinstance(question, ev.EscalationRaised)
    answered = ev.EscalationAnswered(id=question.id, answer=given, at=AT)
    assert operator.answer(state(*history, question), question.id, given, AT) == (answered, *more)
    assert given in operator.answers(question.kind)


def test_answers_that_are_refused() -> None:
    """No such question, an answer of another kind, a question answered before, a consequence that is not legal."""
    s = state(*E1, STUCK)
    assert isinstance(operator.answer(s, "held/0/1", "moot", AT), Refusal)
    refusal = operator.answer(s, f"stop_stuck/{OBJ}/1", "release", AT)
    assert isinstance(refusal, Refusal)
    assert refusal.rule == "a question of kind stop_stuck takes node_confirmed_dead, checked, moot"
    twice = state(*E1, STUCK, ev.EscalationAnswered(id=f"stop_stuck/{OBJ}/1", answer="checked", at=0))
    assert isinstance(operator.answer(twice, f"stop_stuck/{OBJ}/1", "checked", AT), Refusal)
    assert isinstance(operator.answer(state(*P1, HELD), "held/0/1", "release", AT), Refusal)


def test_declarations_are_checked() -> None:
    """A wrong declaration is refused, one line a mistake, all of them together."""
    timing = Timing(visible_lag_ns=30 * 10**9, retry_bound=0, poll_ns=0)
    with pytest.raises(ValueError, match="poll_ns: must be at least 1") as caught:
        operator.declare(JobSpec(job="a/b", shape="slurm", timing=timing))
    assert str(caught.value).splitlines() == [
        "timing.poll_ns: must be at least 1",
        "timing.retry_bound: must be at least 1",
        "timing.visible_lag_ns: must be less than settle_gap_ns",
        "job: a job's label is not empty and has no slash",
    ]


def test_a_person_needs_no_supervisor() -> None:
    """A command is committed by compare-and-append like everything else: the loser of a race commits nothing."""
    rig = Rig(JobSpec(job="job", shape="slurm"))
    batch = operator.command(rig.state(), "hold", AT)
    assert not isinstance(batch, Refusal)
    assert rig.record.commit(seam.MemCommit(expected=1, batch=batch, mutation_id="p#1")) == seam.Committed(version=2)
    assert rig.record.commit(seam.MemCommit(expected=1, batch=batch, mutation_id="p#2")) == seam.Conflict()
    assert rig.record.commit(seam.MemCommit(expected=1, batch=batch, mutation_id="p#1")) == seam.Committed(version=2)
