"""The closed set of mutations (§5.5). Kinds are snake_case in TOML and in the bundle."""

from typing import Any, Final

import msgspec

from simharness.contracts.links import LinkRef


class _Mutation(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    at_ns: int


class Partition(_Mutation, frozen=True, kw_only=True, tag="partition"):
    """Cut every host pair between the two groups, both ways, relayed routes included (§5.5, rulings N13, N15)."""

    peers_a: tuple[str, ...]
    peers_b: tuple[str, ...]


class Heal(_Mutation, frozen=True, kw_only=True, tag="heal"):
    """Clear the whole active partition set (§5.5)."""


class LatencySpike(_Mutation, frozen=True, kw_only=True, tag="latency_spike"):
    """Multiply latency plus jitter on the named legs by factor_x100 / 100 in [at, at + duration) (§5.5)."""

    links: tuple[LinkRef, ...]
    factor_x100: int
    duration_ns: int


class LossBurst(_Mutation, frozen=True, kw_only=True, tag="loss_burst"):
    """Override the loss probability of the named legs in [at, at + duration) (§5.5)."""

    links: tuple[LinkRef, ...]
    prob_ppm: int
    duration_ns: int


class RelayBuffer(_Mutation, frozen=True, kw_only=True, tag="relay_buffer"):
    """Impose a minimum delivery delay on the named legs in [at, at + duration) (§5.5)."""

    links: tuple[LinkRef, ...]
    floor_ns: int
    duration_ns: int


class PeerKill(_Mutation, frozen=True, kw_only=True, tag="peer_kill"):
    """Kill a peer: its inbox and ticks stop, deliveries in flight to it are invalidated (§5.5)."""

    peer: str


class PeerResurrect(_Mutation, frozen=True, kw_only=True, tag="peer_resurrect"):
    """Restart a peer, with its old instance or with a fresh one (§5.5)."""

    peer: str
    preserve_state: bool = False


class WorkerExit(_Mutation, frozen=True, kw_only=True, tag="worker_exit"):
    """Deliver a `WorkerExit` envelope to a peer, synchronously (§6A.3)."""

    peer: str
    reason: str
    status_code: int | None = None
    signal: int | None = None


class RelayKill(_Mutation, frozen=True, kw_only=True, tag="relay_kill"):
    """Stop a relay; everything still before or in its queues is invalidated (§5.5, ruling R6)."""

    relay: str


class RelayBoot(_Mutation, frozen=True, kw_only=True, tag="relay_boot"):
    """Return a relay to service, cold; on a running relay it only re-arms the cold-start penalty (ruling R8)."""

    relay: str


class RelayCapacityChange(_Mutation, frozen=True, kw_only=True, tag="relay_capacity_change"):
    """Replace any subset of a relay's three policy fields for sends from now on (§5.5, ruling R9)."""

    relay: str
    ingress_capacity_bps: int | None = None
    egress_capacity_bps_per_link: int | None = None
    queue_depth_bytes: int | None = None


class RelayPeerConnDown(
    _Mutation, frozen=True, kw_only=True, tag="relay_peer_conn_down", rename={"source": "from", "target": "to"}
):
    """Refuse sends of one ordered host pair at a relay for `duration_ns`; 0 means for good."""

    relay: str
    source: str
    target: str
    duration_ns: int = 0


class PeerPause(_Mutation, frozen=True, kw_only=True, tag="peer_pause"):
    """Freeze a process in [at, at + duration): it skips its ticks, and what reaches it waits until the end (ruling K2)."""

    peer: str
    duration_ns: int


class PeerSlow(_Mutation, frozen=True, kw_only=True, tag="peer_slow"):
    """Slow a peer's local work down by factor_x100 / 100 in [at, at + duration), as its kind understands it (ruling K2)."""

    peer: str
    factor_x100: int
    duration_ns: int


class ClockOffset(_Mutation, frozen=True, kw_only=True, tag="clock_offset"):
    """Set a peer's clock to virtual time plus `offset_ns`, which may be negative (rulings K2, M3)."""

    peer: str
    offset_ns: int


class ClockDrift(_Mutation, frozen=True, kw_only=True, tag="clock_drift"):
    """Let a peer's clock gain `drift_ppm` on virtual time from now on, or lose if negative; 0 stops it (rulings K2, M3)."""

    peer: str
    drift_ppm: int


class DuplicateBurst(_Mutation, frozen=True, kw_only=True, tag="duplicate_burst"):
    """Deliver a second copy of messages on the named legs, with this probability, in [at, at + duration) (ruling N24)."""

    links: tuple[LinkRef, ...]
    prob_ppm: int
    duration_ns: int


Mutation = (
    Partition
    | Heal
    | LatencySpike
    | LossBurst
    | RelayBuffer
    | PeerKill
    | PeerResurrect
    | WorkerExit
    | RelayKill
    | RelayBoot
    | RelayCapacityChange
    | RelayPeerConnDown
    | PeerPause
    | PeerSlow
    | ClockOffset
    | ClockDrift
    | DuplicateBurst
)

MUTATION_TYPES: Final[tuple[type[Mutation], ...]] = (
    Partition,
    Heal,
    LatencySpike,
    LossBurst,
    RelayBuffer,
    PeerKill,
    PeerResurrect,
    WorkerExit,
    RelayKill,
    RelayBoot,
    RelayCapacityChange,
    RelayPeerConnDown,
    PeerPause,
    PeerSlow,
    ClockOffset,
    ClockDrift,
    DuplicateBurst,
)

AimedMutation = PeerKill | PeerResurrect | WorkerExit | PeerPause | PeerSlow | ClockOffset | ClockDrift
"""A mutation that is aimed at one peer."""

AIMED_KINDS: Final = (
    "peer_kill",
    "peer_resurrect",
    "worker_exit",
    "peer_pause",
    "peer_slow",
    "clock_offset",
    "clock_drift",
)
"""The kinds of `AimedMutation`."""


def kind_of(value: msgspec.Struct) -> str:
    """Return the snake_case kind of a mutation or an assertion."""
    tag = value.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def as_table(value: msgspec.Struct) -> dict[str, Any]:
    """Return a mutation or an assertion as plain data: `at_ns` (if any), `kind`, then its parameters; None is omitted."""
    plain: dict[str, Any] = {key: item for key, item in msgspec.to_builtins(value).items() if item is not None}
    head = {key: plain.pop(key) for key in ("at_ns", "kind") if key in plain}
    return head | plain
