"""The closed catalogue of assertions (§10.1) and the verdict form (§10.2)."""

from typing import Any, Final, Literal

import msgspec


class _Assertion(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One assertion of a scenario."""


class AllAliveAt(_Assertion, frozen=True, kw_only=True, tag="all_alive_at"):
    """At `at_ns` every named peer holds every other named peer Alive."""

    at_ns: int
    peers: tuple[str, ...]


class AllAliveThroughout(_Assertion, frozen=True, kw_only=True, tag="all_alive_throughout"):
    """In the whole window every named peer holds every other named peer Alive."""

    window_start_ns: int
    window_end_ns: int
    peers: tuple[str, ...]


class ConvergenceAfter(_Assertion, frozen=True, kw_only=True, tag="convergence_after"):
    """Within `within_ns` after `after_ns` the named peers agree on the state of everybody (ruling V5)."""

    after_ns: int
    within_ns: int
    peers: tuple[str, ...]


class NoFlapWhileProbesOk(_Assertion, frozen=True, kw_only=True, tag="no_flap_while_probes_ok"):
    """Nobody takes `peer` Suspect, Alive, Suspect while probes succeed both ways (ruling V4)."""

    peer: str
    window_start_ns: int
    window_end_ns: int


class NoDeadWhenProbesOk(_Assertion, frozen=True, kw_only=True, tag="no_dead_when_probes_ok"):
    """Nobody takes `peer` Dead while probes succeed both ways (ruling V4)."""

    peer: str
    window_start_ns: int
    window_end_ns: int


class SelfIncarnationBounded(_Assertion, frozen=True, kw_only=True, tag="self_incarnation_bounded"):
    """The incarnation that `peer` gives itself never exceeds `max_value` (ruling V7)."""

    peer: str
    max_value: int


class MessageSizeBounded(_Assertion, frozen=True, kw_only=True, tag="message_size_bounded"):
    """No sent message of the kind has a payload above `max_bytes`. The kind is a type tag or its last part (ruling B11)."""

    message_kind: str
    max_bytes: int


class DeadPeerResurrectsWithin(_Assertion, frozen=True, kw_only=True, tag="dead_peer_resurrects_within"):
    """Whoever held `peer` Dead up to after + within holds it Alive then."""

    peer: str
    after_ns: int
    within_ns: int


class EventCount(_Assertion, frozen=True, kw_only=True, tag="event_count"):
    """The run holds between `min` and `max` events of the kind (of one peer, if named)."""

    event_kind: str
    min: int | None = None
    max: int | None = None
    peer: str | None = None


class EventRate(_Assertion, frozen=True, kw_only=True, tag="event_rate"):
    """No half-open window of `window_ns` that starts at an event of the kind holds more than `max_per_window`."""

    event_kind: str
    window_ns: int
    max_per_window: int


class RelayQueueDepthBounded(_Assertion, frozen=True, kw_only=True, tag="relay_queue_depth_bounded"):
    """In the window (default: the run) the relay never holds more than `max_bytes`."""

    relay: str
    max_bytes: int
    window_start_ns: int | None = None
    window_end_ns: int | None = None


class WorkerAliveThroughout(_Assertion, frozen=True, kw_only=True, tag="worker_alive_throughout"):
    """The stage `peer` is Running in the whole window, both ends included."""

    peer: str
    window_start_ns: int
    window_end_ns: int


class NameResolvesWithin(_Assertion, frozen=True, kw_only=True, tag="name_resolves_within"):
    """Every observer shows `name` in a snapshot of [from, from + within]."""

    name: str
    observers: tuple[str, ...]
    within_ns: int
    from_ns: int


class PeerDetectedDeadWithin(_Assertion, frozen=True, kw_only=True, tag="peer_detected_dead_within"):
    """At some snapshot instant of (after, after + within] every other live host shows `peer` Dead."""

    peer: str
    after_ns: int
    within_ns: int


class TrainUpdateMatchesReference(_Assertion, frozen=True, kw_only=True, tag="train_update_matches_reference"):
    """Invariant 1: every committed step is the update that one process would have made of the same samples, within tolerance.

    Inconclusive if no step could tell a weighted mean from an unweighted one, or fewer than `min_discriminating` could.
    """

    min_discriminating: int | None = None


class TrainReplicasIdentical(_Assertion, frozen=True, kw_only=True, tag="train_replicas_identical"):
    """Invariant 2: all states reported for one generation and step are the same, byte for byte."""


class TrainSampleAccounting(_Assertion, frozen=True, kw_only=True, tag="train_sample_accounting"):
    """Invariant 3: in each epoch of the lineage every sample of whoever is there contributes exactly once."""


class TrainStepOrder(_Assertion, frozen=True, kw_only=True, tag="train_step_order"):
    """Invariant 4: commits and applies follow each other one by one, and nothing is rolled back without need."""


class TrainWeights(_Assertion, frozen=True, kw_only=True, tag="train_weights"):
    """Invariant 5: a contribution weighs what it holds, and the weights of a step add up to one."""


class TrainProvenance(_Assertion, frozen=True, kw_only=True, tag="train_provenance"):
    """Invariant 6: whatever is in a committed step was computed for it, by a member, and had reached the hub."""


class TrainProgress(_Assertion, frozen=True, kw_only=True, tag="train_progress"):
    """At least `min_steps` steps are committed in (after, after + within], unless the job has done all it has to do."""

    after_ns: int
    within_ns: int
    min_steps: int


class SupervisorInvariantsHold(_Assertion, frozen=True, kw_only=True, tag="supervisor_invariants_hold"):
    """The invariants of the job supervisor, computed anew from the world's trace records (supervisor design, section 12)."""


class SupervisorSettlesWithin(_Assertion, frozen=True, kw_only=True, tag="supervisor_settles_within"):
    """The job comes to its end within `steps` steps of the quiet phase (supervisor design, section 13)."""

    steps: int


Assertion = (
    AllAliveAt
    | AllAliveThroughout
    | ConvergenceAfter
    | NoFlapWhileProbesOk
    | NoDeadWhenProbesOk
    | SelfIncarnationBounded
    | MessageSizeBounded
    | DeadPeerResurrectsWithin
    | EventCount
    | EventRate
    | RelayQueueDepthBounded
    | WorkerAliveThroughout
    | NameResolvesWithin
    | PeerDetectedDeadWithin
    | TrainUpdateMatchesReference
    | TrainReplicasIdentical
    | TrainSampleAccounting
    | TrainStepOrder
    | TrainWeights
    | TrainProvenance
    | TrainProgress
    | SupervisorInvariantsHold
    | SupervisorSettlesWithin
)

TRAINING_INVARIANTS: Final[tuple[type[Assertion], ...]] = (
    TrainUpdateMatchesReference,
    TrainReplicasIdentical,
    TrainSampleAccounting,
    TrainStepOrder,
    TrainWeights,
    TrainProvenance,
)
"""The six invariants of data-parallel training, in their order."""

ASSERTION_TYPES: Final[tuple[type[Assertion], ...]] = (
    AllAliveAt,
    AllAliveThroughout,
    ConvergenceAfter,
    NoFlapWhileProbesOk,
    NoDeadWhenProbesOk,
    SelfIncarnationBounded,
    MessageSizeBounded,
    DeadPeerResurrectsWithin,
    EventCount,
    EventRate,
    RelayQueueDepthBounded,
    WorkerAliveThroughout,
    NameResolvesWithin,
    PeerDetectedDeadWithin,
    *TRAINING_INVARIANTS,
    TrainProgress,
    SupervisorInvariantsHold,
    SupervisorSettlesWithin,
)

Outcome = Literal["Pass", "Fail", "Inconclusive"]


class Evidence(msgspec.Struct, frozen=True):
    """What a verdict rests on: `events.ndjson:<0-based line>` or `snapshots/<host>/<seq>.json`."""

    virtual_time_ns: int
    event_or_snapshot_ref: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one assertion, in the form and key order of §10.2."""

    name: str
    kind: str
    parameters: dict[str, Any]
    outcome: Outcome
    evidence: tuple[Evidence, ...] = ()
    note: str | msgspec.UnsetType = msgspec.UNSET
    """In words, what the records do not say by themselves; absent where there is nothing to add (ruling I1)."""
