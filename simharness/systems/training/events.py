"""What a process of a job puts out: messages, timers, and records of what it did (design, section 11).

Processes are named by their ids; members are [[id, incarnation]], contributions [[id, incarnation, seq, count]], digests hex.
A base is the digest of a state's three digests (`StateDigests.whole`). Vectors are the hex of their little-endian float64 bytes,
`consumed` is the hex of the bitmap of the epoch: bit i % 8 of byte i // 8. No float is recorded. What `record_state = "none"`
leaves out is None.
"""

from typing import Any

import msgspec

from simharness.systems.training.wire import Message


class TrainingAbort(Exception):  # noqa: N818  # it ends a process, like an abort
    """A guard fired: what the process sees cannot be, so it stops loudly rather than train on (design, section 10)."""

    def __init__(self, guard: str, detail: str) -> None:
        super().__init__(f"{guard}: {detail}")
        self.guard, self.detail = guard, detail


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send `message` to the process `to`."""

    to: str
    message: Message


class Timer(msgspec.Struct, frozen=True, gc=False):
    """Call `timer(token)` at `at_ns` of the process's own clock."""

    at_ns: int
    token: int


class _Event(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=str):
    """A record. `record` gives it as one JSON object that starts with `kind`."""

    def record(self) -> dict[str, Any]:
        """Return the record as plain lists, numbers and words."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


class TrainView(_Event, frozen=True, gc=False):
    """By the hub: a view is issued; `step` is the step that its members go on with."""

    generation: int
    view: int
    step: int
    members: list[list[str | int]]
    reason: str


class TrainGradient(_Event, frozen=True, gc=False):
    """By a worker: gradient sum number `seq` of this incarnation is there, of the samples `ids` at the state `base`."""

    incarnation: int
    seq: int
    generation: int
    view: int
    step: int
    base: str
    ids: list[int]
    count: int


class TrainCommit(_Event, frozen=True, gc=False):
    """By the hub: step `step`, from `base` on, is decided. `epoch` is the epoch of the step's samples."""

    generation: int
    view: int
    step: int
    epoch: int
    base: str
    contributions: list[list[str | int]]
    count: int


class TrainApply(_Event, frozen=True, gc=False):
    """By whoever applies a committed step: `step` is the number of the new state, `view` the one that committed.

    `pre` and `post` are [weights, momentum, cursor]; weights, momentum and consumed are those of the new state.
    """

    incarnation: int
    generation: int
    view: int
    step: int
    pre: list[str]
    post: list[str]
    weights: str | None
    momentum: str | None
    consumed: str | None


class TrainInstall(_Event, frozen=True, gc=False, rename={"source": "from"}):
    """By a ring worker: a state came from a donor, or (`from` is itself) from its disk or out of an older generation."""

    incarnation: int
    generation: int
    step: int
    source: str
    digests: list[str]


class TrainAdopt(_Event, frozen=True, gc=False, rename={"source": "from"}):
    """By a worker of a parameter server: it holds the parameters of this step. `digests` is [weights]."""

    incarnation: int
    generation: int
    step: int
    source: str
    digests: list[str]


class TrainCheckpoint(_Event, frozen=True, gc=False):
    """By the owner: the state is on disk, synced. `digest` is a base."""

    generation: int
    step: int
    digest: str


class TrainRollback(_Event, frozen=True, gc=False):
    """By the hub: generation `generation` begins with the state `digest` of step `step`.

    `candidates` is what was to choose from: [id, incarnation, generation, step, digest] of each offer, none for a server.
    """

    generation: int
    step: int
    digest: str
    candidates: list[list[str | int]]


class TrainPause(_Event, frozen=True, gc=False):
    """By the hub: there is no view (`min_workers`, or `no_state`: nobody alive holds the state of this step)."""

    step: int
    peer: str | None
    why: str


class TrainEvict(_Event, frozen=True, gc=False):
    """By the hub: a member that is heard is put out (`suspected` by its successor or a fetcher, or `deaf`)."""

    step: int
    peer: str | None
    why: str


class TrainReject(_Event, frozen=True, gc=False):
    """By whoever refuses a message of `peer`: old_generation, old_view, old_step, old_incarnation, not_member, duplicate, base."""

    step: int
    peer: str | None
    why: str


Event = (
    TrainView
    | TrainGradient
    | TrainCommit
    | TrainApply
    | TrainInstall
    | TrainAdopt
    | TrainCheckpoint
    | TrainRollback
    | TrainPause
    | TrainEvict
    | TrainReject
)
Effect = Send | Timer | Event
