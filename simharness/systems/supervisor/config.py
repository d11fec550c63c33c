"""What a job is declared with, and the closed list of the supervisor's defects. Integers only; durations in nanoseconds."""

from enum import StrEnum
from typing import Final, Literal

import msgspec

Shape = Literal["slurm", "kubeflow"]
Abandon = Literal["auto", "manual"]
Recovery = Literal["resubmit", "hold"]

SECOND: Final = 10**9


class SupervisorDefect(StrEnum):
    """A rule of the protocol, switched off (K1). Each is one `if` where the rule is kept, and one in `apply` if it has a row."""

    STALE_FIND_EVIDENCE = "STALE_FIND_EVIDENCE"
    OPEN_DURING_REQUEUE = "OPEN_DURING_REQUEUE"
    SETTLE_BEFORE_FENCE = "SETTLE_BEFORE_FENCE"
    DEADLINE_AFTER_SEND = "DEADLINE_AFTER_SEND"
    LATE_CLIENT_DEADLINE = "LATE_CLIENT_DEADLINE"
    HOLD_DURING_RELEASE = "HOLD_DURING_RELEASE"
    IGNORE_REQUEUE_BIT = "IGNORE_REQUEUE_BIT"
    RETIRE_CANONICAL = "RETIRE_CANONICAL"
    RECHOOSE_CANONICAL = "RECHOOSE_CANONICAL"
    LOCAL_CHOICE = "LOCAL_CHOICE"
    UNGATED_START = "UNGATED_START"
    RESEND_START = "RESEND_START"
    UNBOUNDED_ATTEMPTS = "UNBOUNDED_ATTEMPTS"
    OPEN_IGNORES_CANCEL = "OPEN_IGNORES_CANCEL"
    BLIND_APPEND = "BLIND_APPEND"
    ABSENT_MEANS_ENDED = "ABSENT_MEANS_ENDED"
    STOP_BEFORE_FENCE = "STOP_BEFORE_FENCE"
    FENCE_WITHOUT_VERIFY = "FENCE_WITHOUT_VERIFY"
    SETTLE_UNRESOLVED = "SETTLE_UNRESOLVED"
    READ_WITHOUT_BARRIER = "READ_WITHOUT_BARRIER"
    COMMIT_WITHOUT_DIR_SYNC = "COMMIT_WITHOUT_DIR_SYNC"
    SKIP_CHAIN_CHECK = "SKIP_CHAIN_CHECK"
    TOMBSTONE_IGNORED = "TOMBSTONE_IGNORED"
    TRUST_LATEST_POINTER = "TRUST_LATEST_POINTER"
    RESOLVE_WITHOUT_SYNC = "RESOLVE_WITHOUT_SYNC"
    CESSATION_BEFORE_FENCE = "CESSATION_BEFORE_FENCE"
    SILENT_WAIT = "SILENT_WAIT"
    UNKNOWN_MEANS_REFUSED = "UNKNOWN_MEANS_REFUSED"
    ABANDONED_IS_CONDEMNED = "ABANDONED_IS_CONDEMNED"
    NAME_WITHOUT_INCARNATION = "NAME_WITHOUT_INCARNATION"
    RESUME_REMEMBERED = "RESUME_REMEMBERED"
    OPEN_WHILE_HELD = "OPEN_WHILE_HELD"
    SINGLE_CANCEL_SWEEP = "SINGLE_CANCEL_SWEEP"
    VERIFIED_STOPPED_AS_EVIDENCE = "VERIFIED_STOPPED_AS_EVIDENCE"


Defects = frozenset[SupervisorDefect]
NO_DEFECTS: Final[Defects] = frozenset()


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Periods and bounds of one job. Part of its declaration, so every reader of a record uses the same ones."""

    poll_ns: int = 5 * SECOND
    """Age at which a Find is repeated."""
    call_window_ns: int = 20 * SECOND
    """Deadline of a bounded call = the instant of its decision plus this."""
    call_bound_ns: int = 15 * SECOND
    """A bounded call has no effect later than its deadline plus this."""
    start_wait_ns: int = 45 * SECOND
    stop_retry_ns: int = 6 * SECOND
    open_retry_ns: int = 6 * SECOND
    bit_retry_ns: int = 6 * SECOND
    settle_gap_ns: int = 30 * SECOND
    """Least distance of the two clean Finds after a cancel."""
    visible_lag_ns: int = 25 * SECOND
    """Longest that a new object may be missing from a Find. Less than `settle_gap_ns`."""
    esc_age_ns: int = 180 * SECOND
    retry_bound: int = 3
    """Attempts of one submission."""
    max_submissions: int = 4
    prune_after_ns: int = 240 * SECOND


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do after a submission was lost without fault of the job."""

    preempted: Recovery = "resubmit"
    node_lost: Recovery = "resubmit"


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job. `shared`: its checkpoints have other readers, so that every recovery waits as a hold."""

    job: str
    shape: Shape
    policy: Policy = Policy()
    shared: bool = False
    abandon: Abandon = "auto"
    timing: Timing = Timing()


_PERIODS: Final = tuple(name for name in Timing.__struct_fields__ if name.endswith("_ns"))


def complaints(spec: JobSpec) -> list[tuple[str, str]]:
    """Return every mistake of a declaration as (field, one-line rule); none means that it may be declared."""
    timing = spec.timing
    found = [(f"timing.{name}", "must be at least 1") for name in _PERIODS if getattr(timing, name) < 1]
    found += [
        (f"timing.{name}", "must be at least 1")
        for name in ("retry_bound", "max_submissions")
        if getattr(timing, name) < 1
    ]
    if timing.visible_lag_ns >= timing.settle_gap_ns:
        found.append(("timing.visible_lag_ns", "must be less than settle_gap_ns"))
    if not spec.job or "/" in spec.job:
        found.append(("job", "a job's label is not empty and has no slash"))
    return found
