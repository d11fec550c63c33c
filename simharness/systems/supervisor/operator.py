"""What a person may ask of a job (§6.2 of the design): each command and each answer as the batch it commits, or why not. Pure.

A refused command commits nothing. Whether it is refused is what `apply` says of its batch, so that there is one table of rules.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.config import NO_DEFECTS, Defects, JobSpec, complaints
from simharness.systems.supervisor.events import Answer, Batch, EscalationKind, Event
from simharness.systems.supervisor.fold import Illegal, apply
from simharness.systems.supervisor.state import Escalation, State

Command = Literal["cancel", "hold", "release", "requeue", "resubmit", "give_up"]
COMMANDS: Final[tuple[Command, ...]] = ("cancel", "hold", "release", "requeue", "resubmit", "give_up")


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a command or an answer was refused, in one line."""

    asked: str
    rule: str

    def __str__(self) -> str:
        return f"{self.asked} refused: {self.rule}"


def declare(spec: JobSpec) -> Batch:
    """Return the first batch of a record.

    Raises:
        ValueError: If the declaration is wrong; one line a mistake.
    """
    mistakes = complaints(spec)
    if mistakes:
        raise ValueError("\n".join(f"{field}: {rule}" for field, rule in mistakes))
    return (
        ev.JobDeclared(
            job=spec.job,
            shape=spec.shape,
            policy=spec.policy,
            shared=spec.shared,
            abandon=spec.abandon,
            timing=spec.timing,
        ),
    )


def command(s: State, asked: Command, now: int, defects: Defects = NO_DEFECTS) -> Batch | Refusal:
    """Return what a command commits at the version of `s`, or why it is refused."""
    return _checked(s, asked, _COMMANDS[asked](s, now), defects)


def answers(kind: EscalationKind) -> tuple[Answer, ...]:
    """Return the answers that a question of this kind takes."""
    return tuple(_ANSWERS[kind])


def answer(s: State, escalation_id: str, given: Answer, now: int, defects: Defects = NO_DEFECTS) -> Batch | Refusal:
    """Return what an answer commits at the version of `s`, or why it is refused."""
    question = s.escalations.get(escalation_id)
    asked = f"answer {given} to {escalation_id}"
    if question is None:
        return Refusal(asked=asked, rule="no such question")
    consequence = _ANSWERS[question.kind].get(given)
    if consequence is None:
        return Refusal(
            asked=asked, rule=f"a question of kind {question.kind} takes {', '.join(_ANSWERS[question.kind])}"
        )
    answered = ev.EscalationAnswered(id=escalation_id, answer=given, at=now)
    return _checked(s, asked, (answered, *consequence(s, question, now)), defects)


def _checked(s: State, asked: str, batch: Batch, defects: Defects) -> Batch | Refusal:
    for event in batch:
        try:
            s = apply(s, event, defects)
        except Illegal as illegal:
            return Refusal(asked=asked, rule=illegal.rule)
    return batch


def _give_up(s: State, now: int) -> Batch:
    unresolved = (ev.AttemptAbandoned(n=attempt.n, a=attempt.a, by="person") for attempt in s.unresolved())
    return (*unresolved, ev.GiveUp(at=now))


_COMMANDS: Final[Mapping[Command, Callable[[State, int], Batch]]] = {
    "cancel": lambda _s, now: (ev.CancelRequested(at=now),),
    "hold": lambda _s, now: (ev.Hold(by="person", why="person", at=now),),
    "release": lambda _s, now: (ev.Release(by="person", at=now),),
    "requeue": lambda _s, now: (ev.RequeueRequested(at=now),),
    "resubmit": lambda _s, now: (ev.ResubmitRequested(at=now),),
    "give_up": _give_up,
}


def _nothing(_s: State, _question: Escalation, _now: int) -> Batch:
    return ()


def _abandon(_s: State, question: Escalation, _now: int) -> Batch:
    n, a = question.subject.split("/")
    return (ev.AttemptAbandoned(n=int(n), a=int(a), by="person"),)


def _gone(_s: State, question: Escalation, now: int) -> Batch:
    return (ev.ObjectGone(obj=question.subject, at=now),)


def _one(event: Callable[[int], Event]) -> Callable[[State, Escalation, int], Batch]:
    return lambda _s, _question, now: (event(now),)


_ANSWERS: Final[Mapping[EscalationKind, Mapping[Answer, Callable[[State, Escalation, int], Batch]]]] = {
    "start_unresolved": {"abandon": _abandon, "moot": _nothing},
    "held": {"release": _one(lambda now: ev.Release(by="person", at=now)), "moot": _nothing},
    "launch_exhausted": {
        "resubmit": _one(lambda now: ev.ResubmitRequested(at=now)),
        "give_up": lambda s, _question, now: _give_up(s, now),
        "moot": _nothing,
    },
    "stop_stuck": {"node_confirmed_dead": _nothing, "checked": _nothing, "moot": _nothing},
    "object_missing": {"confirmed_gone": _gone, "checked": _nothing, "moot": _nothing},
}
