"""What the trace records of a job's world add up to: the acknowledged record, ground truth, and what was sent (ruling K7).

Fields are read by name from plain JSON; nothing of the system under test or of its world is imported, and what is malformed
reads as a value that fits nothing. Everything is kept for the whole run: what holds is asked of all of it, record after record.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from simharness.assertions.fold import Payload, integer

EVENT: Final = "event"
"""The field of a record event that names what happened."""

_OF_JOB: Final = (
    *("job_declared", "hold", "release", "resubmit_requested", "cancel_requested"),
    *("outcome_decided", "give_up", "cleanup_completed", "settled"),
)


def word(event: Payload, field: str) -> str:
    """Return a field of text; empty if it is none."""
    value = event.get(field)
    return value if type(value) is str else ""


def flag(event: Payload, field: str) -> bool:
    """Tell whether a field is true."""
    return event.get(field) is True


def words(event: Payload, field: str) -> tuple[str, ...]:
    """Return a list of texts."""
    return tuple([item for item in _list(event.get(field)) if type(item) is str])


def integers(event: Payload, field: str) -> tuple[int, ...]:
    """Return a list of integers."""
    return tuple([item for item in _list(event.get(field)) if type(item) is int])


def events_of(record: Payload) -> list[Payload]:
    """Return the events of a batch."""
    return [event for event in _list(record.get("batch")) if type(event) is dict]


def _list(value: Any) -> Sequence[Any]:
    return value if type(value) is list else ()


class Object:
    """An object of the job as it is in truth."""

    __slots__ = ("bit", "gated", "held", "name", "opened", "revived", "state")

    def __init__(self, name: str, *, gated: bool) -> None:
        self.name, self.gated, self.opened = name, gated, not gated
        self.held = self.bit = self.revived = False
        self.state = "pending"

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.state != "ended"

    @property
    def loose(self) -> bool:
        """Whether it runs, or would if the scheduler gave it nodes."""
        return self.alive and (self.opened or not self.gated)

    @property
    def submission(self) -> int:
        """The submission it was started for; 0 if its name does not say."""
        head = self.name.partition("/")[0]
        return int(head) if head.isdecimal() else 0


class Basis(NamedTuple):
    """A batch that was proposed, and what its proposer knew: the newest Find, the checkpoint that its newest resolve must find."""

    batch: list[Payload]
    listed: tuple[str, ...]
    durable: int
    newest: int
    """The greatest checkpoint that was durable when it was proposed: whoever acts on the batch has looked later."""


class Said:
    """What the acknowledged record says."""

    def __init__(self) -> None:
        self.versions = 0
        self.retry_bound = 0
        self.manual = self.abandoned = False
        """Whether only a person may give up a Start, and whether any Start was given up."""
        self.submission = 0
        self.attempts: dict[tuple[int, int], int] = {}
        self.known: dict[str, int] = {}
        self.canonical: dict[int, str] = {}
        self.retired: dict[str, int] = {}
        self.verified: dict[str, int] = {}
        self.left: dict[int, str] = {}
        """Submissions that are fenced or over, and which."""
        self.ceased: dict[int, int] = {}
        self.held = False
        self.cancelled: int | None = None
        self.outcome: tuple[str, int] | None = None
        self.cleaned: int | None = None
        self.settled: int | None = None

    def take(self, event: Payload, version: int) -> None:
        """Follow one event of the batch at `version`."""
        kind = word(event, EVENT)
        if kind in _OF_JOB:
            self._take_of_job(kind, event, version)
        else:
            self._take_of_object(kind, event, version)

    def _take_of_object(self, kind: str, event: Payload, version: int) -> None:
        n, obj = integer(event, "n"), word(event, "obj")
        match kind:
            case "submission_authorised":
                self.submission = n
            case "attempt_authorised":
                self.attempts[n, integer(event, "a")] = version
            case "attempt_abandoned":
                self.abandoned = True
            case "object_seen":
                self.known[obj] = version
            case "object_chosen":
                self.canonical.setdefault(n, obj)
            case "object_retired":
                self.retired[obj] = version
            case "fence_authorised" | "submission_ended" | "launch_exhausted":
                self.left[n] = kind
            case "stop_verified" | "object_gone":
                self.verified[obj] = version

    def _take_of_job(self, kind: str, event: Payload, version: int) -> None:
        match kind:
            case "job_declared":
                timing = event.get("timing")
                self.retry_bound = integer(timing, "retry_bound") if type(timing) is dict else 0
                self.manual = word(event, "abandon") == "manual"
            case "hold" | "release" | "resubmit_requested":
                self.held = kind == "hold"
                if kind == "release" and word(event, "by") == "cessation":
                    self.ceased[self.submission] = version
            case "cancel_requested":
                self.cancelled = version if self.cancelled is None else self.cancelled
            case "outcome_decided" | "give_up":
                self.outcome = self.outcome or (outcome_of(event), version)
            case "cleanup_completed":
                self.cleaned = version
            case "settled":
                self.settled = version

    def running_canonical(self) -> str | None:
        """Return the one object that nobody may stop: the canonical of the running submission."""
        if self.cancelled is not None or self.outcome is not None or self.submission in self.left:
            return None
        return self.canonical.get(self.submission)


def outcome_of(event: Payload) -> str:
    """Return the outcome that an event decides."""
    return "gave_up" if event.get(EVENT) == "give_up" else word(event, "state")


class History:
    """All of it, as far as the records go."""

    def __init__(self) -> None:
        self.said = Said()
        self.objects: dict[str, Object] = {}
        self.trainers: dict[str, int] = {}
        self.durable: dict[int, None] = {0: None}
        self.starts: dict[str, int] = {}
        self.opens: dict[str, int] = {}
        self.calls = 0
        self._listed: dict[str, tuple[str, ...]] = {}
        self._resolving: dict[str, int] = {}
        self._proposals: dict[int, list[Basis]] = {}

    @property
    def newest(self) -> int:
        """The greatest checkpoint that is durable."""
        return max(self.durable)

    def find(self, record: Payload) -> None:
        """Follow the reply of a Find."""
        self._listed[word(record, "incarnation")] = words(record, "objs")

    def resolve(self, record: Payload) -> None:
        """Follow the start of a resolve."""
        self._resolving[word(record, "incarnation")] = self.newest

    def propose(self, record: Payload) -> None:
        """Follow a batch on its way into the record."""
        who = word(record, "incarnation")
        basis = Basis(events_of(record), self._listed.get(who, ()), self._resolving.get(who, 0), self.newest)
        self._proposals.setdefault(integer(record, "version"), []).append(basis)

    def bases(self, version: int, batch: list[Payload]) -> list[Basis]:
        """Return what a batch may rest on: two can propose the same at one instant."""
        return [basis for basis in self._proposals.get(version, ()) if basis.batch == batch]
