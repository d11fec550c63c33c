"""Fault kinds, seed classes, and which fault modes a call may meet.

Each seed includes a random subset of the kinds: turning everything on at once drowns each fault in the others.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

BACKEND: Final = (
    *("start_refused", "start_dropped", "start_reply_lost", "start_late"),
    *("open_dropped", "open_reply_lost", "open_late", "stop_dropped", "stop_reply_lost", "stop_late"),
    *("call_refused", "call_reply_lost", "call_late", "call_past_deadline", "requeue_crash"),
    *("find_fails", "find_reply_late", "find_omits", "object_purged", "id_reused"),
)
RECORD: Final = ("commit_fails", "commit_reply_lost")
PROCESS: Final = ("sup_crash", "sup_drain", "sup_freeze", "revoke", "ckpt_power_cut", "machine_crash")
TARGETED: Final = (
    *("freeze_before_settle", "crash_at_call_commit", "freeze_mid_commit", "stall_call", "slow_publish"),
    "ckpt_cut_at_resolve",
)
KINDS: Final = (*BACKEND, *RECORD, *PROCESS, *TARGETED)

_MODES: Final[Mapping[str, Mapping[str, str]]] = {
    "Start": {
        "start_refused": "refused",
        "start_dropped": "dropped",
        "start_reply_lost": "reply_lost",
        "start_late": "late",
    },
    "Open": {"open_dropped": "dropped", "open_reply_lost": "reply_lost", "open_late": "late"},
    "Stop": {"stop_dropped": "dropped", "stop_reply_lost": "reply_lost", "stop_late": "late"},
    "Hold": {"call_refused": "refused", "call_reply_lost": "reply_lost", "call_late": "late"},
    "Release": {"call_refused": "refused", "call_reply_lost": "reply_lost", "call_late": "late"},
    "Requeue": {
        "call_refused": "refused",
        "call_reply_lost": "reply_lost",
        "call_late": "late",
        "requeue_crash": "crash",
    },
    "Find": {"find_fails": "fails", "find_reply_late": "reply_late"},
    "MemCommit": {"commit_fails": "fails", "commit_reply_lost": "reply_lost"},
    "FileCommit": {"commit_reply_lost": "reply_lost"},
}
"""Call -> fault kind -> mode. `FileCommit` is the last file operation of a commit."""

POSSIBLE: Final[Mapping[str, frozenset[str]]] = {call: frozenset(modes.values()) for call, modes in _MODES.items()}
"""Call -> the modes it has a use for."""


class SeedClass(NamedTuple):
    """What a class of seeds aims at."""

    forced: tuple[str, ...] = ()
    """Kinds that every seed of the class has."""
    start_ppm: int | None = None
    """Rate of faults at a Start, if it is the class's own."""
    call_ppm: int | None = None
    """Rate of faults at a bounded call."""
    late_weight: int = 1
    """How much likelier a bounded call's lateness is than another fault of it."""
    start_modes: tuple[str, ...] = ()
    """The only modes of a Start, if the class narrows them."""
    weights: tuple[tuple[str, int], ...] = ()
    """The person's commands; doing nothing weighs 120."""
    give_up: int = 6
    short_waits: bool = False
    """START_WAIT is 10 s as often as 45 s."""
    storm: bool = False
    """The person acts every 2 to 15 s instead of 5 to 60."""


def _person(cancel: int, hold: int, release: int, requeue: int) -> tuple[tuple[str, int], ...]:
    return ("cancel", cancel), ("hold", hold), ("release", release), ("requeue", requeue)


CLASSES: Final[Mapping[str, SeedClass]] = {
    "plain": SeedClass(weights=_person(8, 25, 65, 40)),
    "requeue_storm": SeedClass(
        forced=("call_late", "call_reply_lost", "call_past_deadline", "crash_at_call_commit", "requeue_crash"),
        call_ppm=650_000,
        late_weight=4,
        weights=_person(4, 8, 48, 300),
        give_up=1,
        storm=True,
    ),
    "hold_storm": SeedClass(
        forced=("call_late", "call_past_deadline"),
        call_ppm=650_000,
        late_weight=4,
        weights=_person(4, 200, 240, 40),
        storm=True,
    ),
    "early_cancel": SeedClass(
        forced=("start_late", "start_reply_lost", "open_late"),
        start_ppm=650_000,
        weights=_person(400, 25, 65, 40),
        short_waits=True,
    ),
    "launch_storm": SeedClass(
        forced=("start_late", "start_reply_lost", "find_omits", "stall_call"),
        start_ppm=850_000,
        start_modes=("late", "reply_lost"),
        weights=_person(4, 25, 65, 40),
        short_waits=True,
        storm=True,
    ),
}

CLASS_SHARES: Final = (
    ("plain", 2),
    ("requeue_storm", 1),
    ("hold_storm", 1),
    ("early_cancel", 1),
    ("launch_storm", 1),
)


class CallFaults(NamedTuple):
    """The faults of one kind of call: how often one fires, and which."""

    ppm: int
    modes: tuple[str, ...]


def call_faults(kinds: frozenset[str], seed_class: SeedClass, rate_ppm: int) -> dict[str, CallFaults]:
    """Return the faults of each call under a seed's parameters; a call that meets none is left out."""
    table: dict[str, CallFaults] = {}
    for call, modes in _MODES.items():
        bounded = call in ("Hold", "Release", "Requeue")
        found: list[str] = []
        for kind, mode in modes.items():
            allowed = call != "Start" or not seed_class.start_modes or mode in seed_class.start_modes
            if kind in kinds and allowed:
                found += [mode] * (seed_class.late_weight if bounded and mode == "late" else 1)
        own = seed_class.start_ppm if call == "Start" else seed_class.call_ppm if bounded else None
        if found:
            table[call] = CallFaults(rate_ppm if own is None else own, tuple(found))
    return table


STYLES_BOUNDED: Final = ("any", "window", "window", "edge", "edge", "end")
STYLES_UNBOUNDED: Final = ("any", "any", "slow", "outcome", "settled")
"""Hold-back styles of a late call: without them a late call lands within seconds, and the interesting moments are missed."""
