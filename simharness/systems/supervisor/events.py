"""The events of a job's record (§4.2 of the design): constructors, schemas and the one canonical encoding.

An event is a JSON object whose field `event` names its kind; the bytes of a batch are fixed: sorted keys, no spaces. `obj` is
an object's identity within the job, `n/a/id`; instants and durations are whole nanoseconds.
"""

import re
from typing import Any, Final, Literal, cast

import msgspec

from simharness.systems.supervisor.config import Abandon, Policy, Shape, Timing

CallKind = Literal["hold", "release", "requeue"]
OutcomeState = Literal["completed", "failed", "cancelled", "gave_up"]
EscalationKind = Literal["start_unresolved", "held", "launch_exhausted", "stop_stuck", "object_missing"]
Answer = Literal[
    "abandon", "moot", "release", "resubmit", "give_up", "node_confirmed_dead", "checked", "confirmed_gone"
]


def _kind(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class _Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="event", tag=_kind):
    """Shared settings: immutable, strict, tagged with its name in snake case."""


class JobDeclared(_Event, frozen=True, kw_only=True):
    """The job, and what every reader of its record goes by."""

    job: str
    shape: Shape
    policy: Policy
    shared: bool
    abandon: Abandon
    timing: Timing


class SubmissionAuthorised(_Event, frozen=True, kw_only=True):
    """Try number `n` at running the job, from checkpoint step `resume`."""

    n: int
    resume: int
    why: str
    at: int


class AttemptAuthorised(_Event, frozen=True, kw_only=True):
    """Incarnation `by`, and nobody else, may send the Start of attempt `a`, once."""

    n: int
    a: int
    by: str
    deadline: int


class ObjectSeen(_Event, frozen=True, kw_only=True):
    """The scheduler has an object with these labels."""

    job: str
    n: int
    a: int
    obj: str


class AttemptFailed(_Event, frozen=True, kw_only=True):
    """The Start was refused: it has no effect, ever."""

    n: int
    a: int


class AttemptAbandoned(_Event, frozen=True, kw_only=True):
    """Nobody waits for this Start any more."""

    n: int
    a: int
    by: Literal["policy", "person"]


class LaunchExhausted(_Event, frozen=True, kw_only=True):
    """Every attempt of `n` is used up."""

    n: int
    at: int


class ObjectChosen(_Event, frozen=True, kw_only=True):
    """The canonical object of `n`, for ever."""

    n: int
    obj: str


class ObjectRetired(_Event, frozen=True, kw_only=True):
    """An object that will never be opened and may be stopped."""

    obj: str
    at: int


class OpenAuthorised(_Event, frozen=True, kw_only=True):
    """The canonical object of `n` may run."""

    n: int
    obj: str


class FenceAuthorised(_Event, frozen=True, kw_only=True):
    """`n` is given up because its node is lost; its canonical may be stopped."""

    n: int
    obj: str
    at: int


class SubmissionEnded(_Event, frozen=True, kw_only=True):
    """The canonical of `n` was seen ended, for this cause."""

    n: int
    cause: str
    at: int


class CallAuthorised(_Event, frozen=True, kw_only=True):
    """A bounded call that may be sent until `deadline` and has no effect after `deadline` + the call bound."""

    cid: str
    kind: CallKind
    obj: str
    by: str
    deadline: int


class CallClosed(_Event, frozen=True, kw_only=True):
    """The call has had all the effect it will ever have."""

    cid: str
    how: Literal["ok", "refused", "fenced"]


class StopVerified(_Event, frozen=True, kw_only=True):
    """The object ended for good."""

    obj: str
    at: int


class ObjectGone(_Event, frozen=True, kw_only=True):
    """The person found that the object no longer exists."""

    obj: str
    by: Literal["person"] = "person"
    at: int


class Hold(_Event, frozen=True, kw_only=True):
    """Nothing is to be launched until a release."""

    by: Literal["person", "policy"]
    why: str
    at: int


class Release(_Event, frozen=True, kw_only=True):
    """The hold ends."""

    by: Literal["person", "cessation"]
    at: int


class RequeueRequested(_Event, frozen=True, kw_only=True):
    """The person wants the running object back in the queue."""

    at: int


class ResubmitRequested(_Event, frozen=True, kw_only=True):
    """The person wants a further submission after one that is over."""

    at: int


class CancelRequested(_Event, frozen=True, kw_only=True):
    """The person wants the job gone."""

    at: int


class GiveUp(_Event, frozen=True, kw_only=True):
    """The person wants no further try. Outcome `gave_up`."""

    at: int


class OutcomeDecided(_Event, frozen=True, kw_only=True):
    """How the job ended."""

    state: OutcomeState
    cause: str
    at: int


class CleanupCompleted(_Event, frozen=True, kw_only=True):
    """What the canceller waits for: nothing of the job is pending or running."""

    at: int


class Settled(_Event, frozen=True, kw_only=True):
    """The record is closed."""

    at: int


class EscalationRaised(_Event, frozen=True, kw_only=True):
    """A question to the person about `subject`."""

    id: str
    kind: EscalationKind
    subject: str
    at: int


class EscalationAnswered(_Event, frozen=True, kw_only=True):
    """The person's answer."""

    id: str
    answer: Answer
    at: int


Event = (
    JobDeclared
    | SubmissionAuthorised
    | AttemptAuthorised
    | ObjectSeen
    | AttemptFailed
    | AttemptAbandoned
    | LaunchExhausted
    | ObjectChosen
    | ObjectRetired
    | OpenAuthorised
    | FenceAuthorised
    | SubmissionEnded
    | CallAuthorised
    | CallClosed
    | StopVerified
    | ObjectGone
    | Hold
    | Release
    | RequeueRequested
    | ResubmitRequested
    | CancelRequested
    | GiveUp
    | OutcomeDecided
    | CleanupCompleted
    | Settled
    | EscalationRaised
    | EscalationAnswered
)
Batch = tuple[Event, ...]

_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DECODER: Final = msgspec.json.Decoder(Batch)


def kind_of(event: Event) -> str:
    """Return the kind that the record spells, such as `object_seen`."""
    return cast("str", type(event).__struct_config__.tag)


def encode_batch(batch: Batch) -> bytes:
    """Return the canonical bytes of a batch: a JSON array of objects with sorted keys."""
    return _ENCODER.encode(batch)


def decode_batch(data: bytes) -> Batch:
    """Return the batch of its JSON form.

    Raises:
        msgspec.DecodeError: If `data` is no JSON, or no array of events to the letter of the schema.
    """
    return _DECODER.decode(data)


def raw(batch: Batch) -> list[dict[str, Any]]:
    """Return a batch as plain JSON values, for readers that know nothing of these classes."""
    return cast("list[dict[str, Any]]", msgspec.to_builtins(batch))
