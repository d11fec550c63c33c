"""What a batch of seeds must have seen. A counter counts the seeds that saw it at least once (ruling K8).

A clean run only means something if the faults fired. A counter is raised where the effect shows in ground truth or in the record,
never where the fault is drawn.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from simharness.supervisor.params import Shape


class Expected(NamedTuple):
    """A required counter: how many of 50,000 seeds of a shape saw it in the prototype; None where it had no such thing."""

    slurm: int | None
    kubeflow: int | None
    file_only: bool = False
    """Whether it is counted over the seeds that ran the file store."""

    def of(self, shape: Shape) -> int | None:
        """Return the prototype's number."""
        return self.slurm if shape == "slurm" else self.kubeflow


_BOTH: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "start_refused": (2197, 2055),
    "start_dropped": (2305, 2076),
    "start_reply_lost": (9745, 9164),
    "late_start": (9068, 8320),
    "late_open": (2828, 2601),
    "late_stop": (1047, 3247),
    "open_after_cancel": (939, 963),
    "create_after_cancel": (2517, 2336),
    "create_after_settlement": (1722, 1560),
    "find_omitted": (16469, 16080),
    "find_reply_late": (14443, 14414),
    "find_failed": (14090, 14374),
    "attempt_abandoned": (10379, 9488),
    "object_retired": (7713, 7067),
    "swept_after_settlement": (2045, 1861),
    "hold_by_person": (24568, 26442),
    "hold_by_policy": (5504, 4745),
    "resubmitted": (6520, 4734),
    "gave_up": (5813, 4775),
    "outcome_completed": (19963, 20102),
    "outcome_failed": (4614, 3679),
    "outcome_cancelled": (19089, 20849),
    "manual_settled_without_abandon": (None, None),
    "object_purged": (None, None),
    "settled_after_purge": (None, None),
    "id_reused": (None, None),
    "outcome_lost": (None, None),
    "esc_held": (3985, 5418),
    "esc_start_unresolved": (1623, 1386),
    "esc_stop_stuck": (652, 8075),
    "esc_launch_exhausted": (176, 156),
    "esc_object_missing": (None, None),
    "crash": (18716, 15161),
    "crash_mid_commit": (12041, 8159),
    "drain": (14644, 14878),
    "freeze": (14925, 14837),
    "freeze_before_settle": (13536, 13228),
    "freeze_mid_commit": (10835, 9989),
    "stall_call": (10306, 11219),
    "revoke": (13934, 14115),
    "revoked_owner_commit": (4518, 3988),
    "commit_reply_lost": (12904, 12800),
    "commit_failed": (6593, 6434),
    "old_trainer_publish": (15060, 14372),
    "power_cut_lost_unsynced": (1717, 2596),
}
_SLURM: Final[Mapping[str, int]] = {
    "requeue_after_outcome": 393,
    "call_in_deadline_window": 3283,
    "call_past_deadline": 3494,
    "bit_restored": 682,
    "cessation_resume": 2712,
    "requeue_running": 5548,
    "requeue_revived": 2413,
    "requeue_crashed": 700,
    "auto_revived": 425,
    "call_refused": 565,
    "late_hold": 1471,
    "late_release": 634,
    "late_requeue": 2391,
    "crash_at_call_commit": 5154,
}
_KUBEFLOW: Final[Mapping[str, int]] = {
    "node_lost": 12696,
    "stop_on_lost_node": 12138,
    "node_fenced": 11393,
    "node_confirmed_dead": 7141,
}
_FILE: Final[Mapping[str, tuple[int, int]]] = {
    "lost_commit_retried": (6700, 6700),
    "machine_crash": (7778, 7697),
    "machine_cut_lost_unsynced": (4382, 3878),
    "corrupt_refused": (1257, 1303),
    "tombstoned": (23367, 23463),
    "tombstone_refused_commit": (206, 184),
}

COUNTERS: Final[Mapping[str, Expected]] = {
    **{name: Expected(*both) for name, both in _BOTH.items()},
    **{name: Expected(count, None) for name, count in _SLURM.items()},
    **{name: Expected(None, count) for name, count in _KUBEFLOW.items()},
    **{name: Expected(*both, file_only=True) for name, both in _FILE.items()},
}
OF_SEEDS: Final = 50_000
COMMON: Final = 1_000
"""A merge request's batch asks for the counters that at least so many of 50,000 seeds saw."""


def required(shape: Shape, *, common_only: bool = False) -> tuple[str, ...]:
    """Return the counters that a batch in this shape must have seen; `common_only` as for a merge request."""
    absent = _KUBEFLOW if shape == "slurm" else _SLURM
    return tuple(
        [
            name
            for name, expected in COUNTERS.items()
            if name not in absent and (not common_only or (expected.of(shape) or 0) >= COMMON)
        ]
    )


def missing(counts: Mapping[str, int], shape: Shape, *, common_only: bool = False) -> tuple[str, ...]:
    """Return the required counters that no seed of the batch saw."""
    return tuple([name for name in required(shape, common_only=common_only) if not counts.get(name)])


def count(into: dict[str, int], seen: Iterable[str]) -> None:
    """Add one seed to the counts."""
    for name in sorted(seen):
        into[name] = into.get(name, 0) + 1
