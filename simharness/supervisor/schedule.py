"""The written form of a schedule: one string an entry, "<dt_ns> <actor>[ <op>]"."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """One step: move the clock by `dt_ns`, then let `verb` happen to `target`."""

    dt_ns: int
    verb: str
    target: str = ""
    arg: str = ""

    def __str__(self) -> str:
        """Return the written form."""
        return " ".join([str(self.dt_ns), self.verb, *[part for part in (self.target, self.arg) if part]])


MODES: Final = (*("ok", "refused", "dropped", "reply_lost", "late", "crash", "fails", "reply_late"),)
"""Fault modes of a call; what a call has no use for counts as `ok`."""

ENV: Final = ("place", "complete", "fail", "preempt", "lose", "revive", "purge")
"""What the environment does to an object."""

PERSON: Final = ("cancel", "hold", "release", "requeue", "resubmit", "give_up", "answer")
"""The person's commands; `answer` takes the id of an escalation."""

DISKS: Final = ("record", "checkpoint")

_SUPERVISOR: Final = r"sup[0-2]"
_OBJECT: Final = r"[0-9]+/[0-9]+/[^ /]+"
_PROCESS: Final = rf"({_SUPERVISOR}|env|person|chaos|sweeper|pruner|trainer:{_OBJECT}:[0-9]+)"
_NUMBER: Final = r"(0|[1-9][0-9]{0,18})"


def _any(words: Iterable[str]) -> str:
    return f"({'|'.join(words)})"


_FORMS: Final[Mapping[str, str]] = {
    "run": rf"{_PROCESS}( {_any(MODES)})?",
    "late": r"[^ ]+ (land|lose)",
    "reply": _SUPERVISOR,
    "env": rf"{_OBJECT} {_any(ENV)}",
    "person": rf"({_any(PERSON[:-1])}|answer [^ ]+)",
    "crash": _SUPERVISOR,
    "drain": _SUPERVISOR,
    "revoke": _SUPERVISOR,
    "thaw": _SUPERVISOR,
    "freeze": rf"{_SUPERVISOR} {_NUMBER}",
    "cut": _any(DISKS),
    "idle": "",
}
_ONE: Final = "sup0, sup1 or sup2"
_SAID: Final[Mapping[str, str]] = {
    "run": "a process (sup0 to sup2, env, person, chaos, sweeper, pruner, trainer:OBJECT:NUMBER), if need be how its call ends "
    f"({', '.join(MODES)})",
    "late": "the name of a call and land or lose",
    "reply": _ONE,
    "env": f"an object, such as 1/1/101, and one of {', '.join(ENV)}",
    "person": f"one of {', '.join(PERSON[:-1])}, or answer and a question",
    "crash": _ONE,
    "drain": _ONE,
    "revoke": _ONE,
    "thaw": _ONE,
    "freeze": f"{_ONE} and nanoseconds",
    "cut": " or ".join(DISKS),
    "idle": "nothing",
}
_GRAMMAR: Final = {verb: re.compile(rest) for verb, rest in _FORMS.items()}
_LINE: Final = re.compile(rf"{_NUMBER} ([a-z]+)( (.+))?")
OWN_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "env": ("env",),
    "person": ("person",),
    "chaos": ("crash", "drain", "revoke", "thaw", "freeze", "cut"),
}
"""Process -> the verbs that stand in for it: a schedule that uses one of them has no such process."""


def parse(text: str) -> Entry:
    """Read one entry.

    Raises:
        ValueError: If it names nothing known; the message says what was expected.
    """
    line = _LINE.fullmatch(text)
    if line is None or line[2] not in _GRAMMAR:
        raise ValueError(f"must be '<dt_ns> <actor>[ <op>]' with an actor of {', '.join(_FORMS)}")
    verb, rest = line[2], line[4] or ""
    if _GRAMMAR[verb].fullmatch(rest) is None:
        raise ValueError(f"'{verb}' is followed by {_SAID[verb]}")
    target, _, arg = rest.partition(" ")
    return Entry(int(line[1]), verb, target, arg)


def written(entries: Iterable[Entry]) -> list[str]:
    """Return the written form of a schedule."""
    return [str(entry) for entry in entries]


def stands_in_for(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the processes whose own forms the schedule uses."""
    verbs = {entry.verb for entry in entries}
    return tuple([process for process, forms in OWN_FORMS.items() if not verbs.isdisjoint(forms)])
