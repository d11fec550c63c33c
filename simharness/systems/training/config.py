"""What a training job is. Imports no numpy: `check` must stay fast."""

from enum import StrEnum
from typing import Final

import msgspec

FEATURE_BITS: Final = 10
"""Features are integers over 2**10."""

TARGET_BITS: Final = 16
"""Targets and starting parameters are integers over 2**16."""

TARGET_ONE: Final = 1 << TARGET_BITS

MAX_SAMPLES: Final = 4_096
MAX_FEATURES: Final = 16
MAX_PARAMETERS: Final = 256
"""Largest model of a checked run; the model `payload`, which nobody checks, may have MAX_PAYLOAD."""

MAX_PAYLOAD: Final = 1_000_000
MAX_WORKERS: Final = 64

STRATEGIES: Final = ("ring", "ps")
MODELS: Final = ("linear", "sqhinge", "mlp", "payload")
POLICIES: Final = ("own", "reshard")


class TrainingDefect(StrEnum):
    """A known way to get data-parallel training wrong. Each is an `if` at the place that cites its name (design, section 18)."""

    UNWEIGHTED_MEAN = "UNWEIGHTED_MEAN"
    OLD_DIVISOR = "OLD_DIVISOR"
    PLANNED_DIVISOR = "PLANNED_DIVISOR"
    CHUNK_TAIL_LOST = "CHUNK_TAIL_LOST"
    CACHE_BY_IDS = "CACHE_BY_IDS"
    KEEP_OLD_PARAMS = "KEEP_OLD_PARAMS"
    FLOAT32_WIRE = "FLOAT32_WIRE"
    STALE_CHUNK = "STALE_CHUNK"
    STALE_PUSH = "STALE_PUSH"
    LATE_CARRY = "LATE_CARRY"
    OLD_VIEW_PUSH = "OLD_VIEW_PUSH"
    NO_INCARNATION_CHECK = "NO_INCARNATION_CHECK"
    DOUBLE_APPLY = "DOUBLE_APPLY"
    EARLY_APPLY = "EARLY_APPLY"
    MINORITY_TRAINS = "MINORITY_TRAINS"
    EAGER_ROLLBACK = "EAGER_ROLLBACK"
    OLD_CHECKPOINT = "OLD_CHECKPOINT"
    DUP_PUSH = "DUP_PUSH"
    PAD_SHORT_BATCH = "PAD_SHORT_BATCH"
    REPORT_PLANNED = "REPORT_PLANNED"
    DROP_SHORT_BATCH = "DROP_SHORT_BATCH"
    MARK_ALL_CONSUMED = "MARK_ALL_CONSUMED"
    EPOCH_FROM_START = "EPOCH_FROM_START"
    MOMENTUM_NOT_SENT = "MOMENTUM_NOT_SENT"
    REJOIN_OLD_WEIGHTS = "REJOIN_OLD_WEIGHTS"
    CHECKPOINT_NO_MOMENTUM = "CHECKPOINT_NO_MOMENTUM"
    CHECKPOINT_NO_CURSOR = "CHECKPOINT_NO_CURSOR"
    CURSOR_AHEAD = "CURSOR_AHEAD"
    RECIPROCAL = "RECIPROCAL"
    LOCAL_SCALE = "LOCAL_SCALE"
    STATS_MEAN_OF_MEANS = "STATS_MEAN_OF_MEANS"
    NO_SYNC = "NO_SYNC"
    STATE0_LOST = "STATE0_LOST"


_RING_ONLY: Final = (
    *("CHUNK_TAIL_LOST", "STALE_CHUNK", "DOUBLE_APPLY", "EARLY_APPLY", "MINORITY_TRAINS", "EAGER_ROLLBACK"),
    *("MOMENTUM_NOT_SENT", "REJOIN_OLD_WEIGHTS", "RECIPROCAL", "STATE0_LOST"),
)
_SERVER_ONLY: Final = (
    *("CACHE_BY_IDS", "KEEP_OLD_PARAMS", "STALE_PUSH", "LATE_CARRY", "OLD_VIEW_PUSH", "OLD_CHECKPOINT", "DUP_PUSH"),
    *("REPORT_PLANNED", "MARK_ALL_CONSUMED", "CHECKPOINT_NO_MOMENTUM", "CHECKPOINT_NO_CURSOR", "CURSOR_AHEAD"),
)
STRATEGY_OF: Final = {**dict.fromkeys(_RING_ONLY, "ring"), **dict.fromkeys(_SERVER_ONLY, "ps")}
"""Defect -> the one strategy whose code has it; the others are in what both share."""


class TrainConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One job, the same for every process of it. A worker's index is its place in `workers`."""

    workers: tuple[str, ...]
    """Worker ids in ascending order."""
    hub: str
    tick_period_ns: int
    strategy: str
    model: str
    features: int
    hidden: int
    samples: int
    data_policy: str
    shard_sizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    """Most samples that a worker takes in one step, by index."""
    learning_rate: tuple[int, int]
    momentum: tuple[int, int]
    steps: int
    """Stop after this many steps; 0: never."""
    compute_ns_per_sample: int
    lease_ns: int
    retry_ns: int
    checkpoint_every: int
    min_workers: int
    backup_workers: int
    backup_grace_ns: int
    suspect_after: int
    hold_off_ns: int
    recover_wait_ns: int
    join_max_wait_ns: int
    pace_ns: int
    init: str
    initial_weights: tuple[int, ...] | None
    data: tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None
    """Explicit features and targets on the grid, or None: drawn."""
    loss_scale: int
    track_stats: bool
    record_state: bool
    guards: bool
    defects: frozenset[TrainingDefect]

    @property
    def trained(self) -> int:
        """P: how many parameters have a gradient."""
        return trained_parameters(self.model, self.features, self.hidden)

    @property
    def entries(self) -> int:
        """P': the length of the weight and momentum vectors, running statistics included."""
        return self.trained + (2 * self.features if self.track_stats else 0)


def trained_parameters(model: str, features: int, hidden: int) -> int:
    """Return how many parameters a model has."""
    if model == "payload":
        return features
    return features + 1 if model != "mlp" else hidden * (features + 2) + 1


def runs(count: int, parts: int) -> list[int]:
    """Return the sizes of `parts` consecutive runs of `count` things: they differ by at most one, the longer ones first."""
    short, longer = divmod(count, parts)
    return [short + 1 if index < longer else short for index in range(parts)]
