"""What one incarnation has seen, sent and learnt (§5.1 of the design). It dies with the incarnation: the record does not."""

from collections.abc import Mapping
from typing import NamedTuple

from simharness.systems.supervisor.events import AttemptFailed, CallClosed, Event, ObjectSeen
from simharness.systems.supervisor.seam import (
    BackendCall,
    BackendReply,
    BoundedCall,
    Ceased,
    Created,
    Find,
    Found,
    Ok,
    Refused,
    Start,
    View,
)
from simharness.systems.supervisor.state import State


class Evidence(NamedTuple):
    """A Find: the instant before it was sent, the version read before that, and what it showed, by object."""

    start: int
    version: int
    views: Mapping[str, View]


class CessationAnswer(NamedTuple):
    """What was answered about an object, and the version at which it was asked."""

    version: int
    obj: str
    ceased: bool


class ResolvedCheckpoint(NamedTuple):
    """The greatest checkpoint, and the version at which it was looked for."""

    version: int
    step: int


class CleanSweep(NamedTuple):
    """The first clean Find at a version, after a cancel (R14)."""

    version: int
    start: int


class Obs:
    """Memory of one incarnation."""

    __slots__ = ("cess", "ckpt", "facts", "find", "last", "missing", "sent", "sweep1")

    def __init__(self) -> None:
        self.find: Evidence | None = None
        self.sent: set[tuple[int, int] | str] = set()
        """Attempts (n, a) and call ids that this incarnation has sent."""
        self.facts: list[Event] = []
        """What replies say that the record does not know yet."""
        self.last: dict[tuple[str, str], int] = {}
        """(operation, object) -> when it was sent last."""
        self.cess: CessationAnswer | None = None
        self.ckpt: ResolvedCheckpoint | None = None
        self.sweep1: CleanSweep | None = None
        self.missing: dict[str, int] = {}
        """Known, unverified object -> start of the first Find of an unbroken row that did not list it. Only times a question."""

    def sending(self, call: BackendCall, now: int) -> None:
        """Note that a call goes out now: before it does, so that a reply is not needed to know it was sent (R2)."""
        match call:
            case Start(n=n, a=a):
                self.sent.add((n, a))
                self.last["start", f"{n}/{a}"] = now
            case BoundedCall(cid=cid):
                self.sent.add(cid)
            case Find():
                pass
            case _:
                self.last[type(call).__name__.lower(), call.obj] = now

    def learn(self, call: BackendCall, reply: BackendReply, s: State, sent_at: int) -> None:
        """Keep what a reply says. An unknown one says nothing."""
        match call, reply:
            case Start(n=n, a=a), Created(obj=obj):
                self.facts.append(ObjectSeen(job=s.declared.job, n=n, a=a, obj=obj))
            case Start(n=n, a=a), Refused():
                self.facts.append(AttemptFailed(n=n, a=a))
            case BoundedCall(cid=cid), Ok():
                self.facts.append(CallClosed(cid=cid, how="ok"))
            case BoundedCall(cid=cid), Refused():
                self.facts.append(CallClosed(cid=cid, how="refused"))
            case Find(), Found(views=views):
                self._saw(s, Evidence(sent_at, s.version, {view.obj: view for view in views}))
            case _, Ceased(ceased=ceased) if not isinstance(call, Start | Find):
                self.cess = CessationAnswer(s.version, call.obj, ceased)

    def drop_old_news(self, s: State) -> None:
        """Forget the facts that the record knows by now."""
        self.facts = [fact for fact in self.facts if is_news(s, fact)]

    def _saw(self, s: State, evidence: Evidence) -> None:
        self.find = evidence
        for o in s.objs.values():
            if o.verified or o.obj in evidence.views:
                self.missing.pop(o.obj, None)
            else:
                self.missing.setdefault(o.obj, evidence.start)


def is_news(s: State, fact: Event) -> bool:
    """Tell whether the record does not know a fact yet and can still take it."""
    match fact:
        case ObjectSeen(obj=obj):
            return obj not in s.objs
        case AttemptFailed(n=n, a=a):
            return s.sub(n).attempts[a - 1].status == "authorised"
        case CallClosed(cid=cid):
            return cid in s.calls and s.calls[cid].closed is None
    return False
