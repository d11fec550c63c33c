"""Short histories of one job, each the one before with an event more: what the tests of the record start from."""

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.config import NO_DEFECTS, Abandon, Defects, JobSpec, Policy, Shape
from simharness.systems.supervisor.events import Event
from simharness.systems.supervisor.fold import fold
from simharness.systems.supervisor.operator import declare
from simharness.systems.supervisor.state import State

History = tuple[Event, ...]


def declared(
    shape: Shape = "slurm", *, shared: bool = False, abandon: Abandon = "auto", policy: Policy | None = None
) -> History:
    """A job that was declared."""
    return declare(JobSpec(job="job", shape=shape, shared=shared, abandon=abandon, policy=policy or Policy()))


def submission(n: int, resume: int = 0, at: int = 0) -> Event:
    """Submission `n`."""
    return ev.SubmissionAuthorised(n=n, resume=resume, why="test", at=at)


def attempt(n: int, a: int, by: str = "sup0.0", deadline: int = 45) -> Event:
    """Attempt (n, a)."""
    return ev.AttemptAuthorised(n=n, a=a, by=by, deadline=deadline)


def seen(n: int, a: int, number: int) -> Event:
    """An object of attempt (n, a)."""
    return ev.ObjectSeen(job="job", n=n, a=a, obj=f"{n}/{a}/{number}")


def chosen(obj: str) -> Event:
    """The canonical object of its submission."""
    return ev.ObjectChosen(n=int(obj[0]), obj=obj)


def retired(obj: str) -> Event:
    """An object condemned."""
    return ev.ObjectRetired(obj=obj, at=0)


def opened(obj: str) -> Event:
    """An object that may be opened."""
    return ev.OpenAuthorised(n=int(obj[0]), obj=obj)


def fenced(obj: str) -> Event:
    """An object given up with its node."""
    return ev.FenceAuthorised(n=int(obj[0]), obj=obj, at=0)


def ended(n: int, cause: str = "preempted", at: int = 0) -> Event:
    """The end of submission `n`."""
    return ev.SubmissionEnded(n=n, cause=cause, at=at)


def call(kind: ev.CallKind, obj: str = "1/1/1", cid: str = "c1", deadline: int = 20, by: str = "sup0.0") -> Event:
    """A bounded call."""
    return ev.CallAuthorised(cid=cid, kind=kind, obj=obj, by=by, deadline=deadline)


def closed(cid: str = "c1", how: str = "ok") -> Event:
    """The end of a bounded call."""
    return ev.CallClosed(cid=cid, how=how)  # type: ignore[arg-type]


def verified(obj: str) -> Event:
    """An object that ended for good."""
    return ev.StopVerified(obj=obj, at=0)


def outcome(state: ev.OutcomeState = "completed") -> Event:
    """How the job ended."""
    return ev.OutcomeDecided(state=state, cause="test", at=0)


def abandoned(n: int, a: int) -> Event:
    """An attempt nobody waits for."""
    return ev.AttemptAbandoned(n=n, a=a, by="policy")


HOLD = ev.Hold(by="person", why="person", at=0)
RELEASE = ev.Release(by="person", at=0)
CANCEL = ev.CancelRequested(at=0)
REQUEUE = ev.RequeueRequested(at=0)
RESUBMIT = ev.ResubmitRequested(at=0)
GIVE_UP = ev.GiveUp(at=0)
CLEANED = ev.CleanupCompleted(at=0)
SETTLED = ev.Settled(at=0)
EXHAUSTED = ev.LaunchExhausted(n=1, at=0)
ASKED = ev.EscalationRaised(id="held/0/1", kind="held", subject="0", at=0)
ANSWERED = ev.EscalationAnswered(id="held/0/1", answer="moot", at=0)

OBJ = "1/1/1"
D: History = declared()
DK: History = declared("kubeflow")
S1 = (*D, submission(1))
A1 = (*S1, attempt(1, 1))
O1 = (*A1, seen(1, 1, 1))
C1 = (*O1, chosen(OBJ))
P1 = (*C1, opened(OBJ))
E1 = (*P1, ended(1))
V1 = (*E1, verified(OBJ))
PK = (*DK, *P1[1:])
EXHAUSTED_1 = (*S1, *(event for a in (1, 2, 3) for event in (attempt(1, a), abandoned(1, a))), EXHAUSTED)
TWO_SEEN = (*A1, abandoned(1, 1), attempt(1, 2), seen(1, 1, 1), seen(1, 2, 2))
OVER_2 = (*V1, submission(2), attempt(2, 1), seen(2, 1, 2), chosen("2/1/2"))


def state(*events: Event, defects: Defects = NO_DEFECTS) -> State:
    """Fold a history, one event a batch."""
    return fold(((event,) for event in events), defects)
