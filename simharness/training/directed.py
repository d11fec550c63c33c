"""Schedules made for one defect each: those that a random schedule meets seldom (training design, 18 and 26).

A run without the defect passes; each says what it arranges.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from simharness.contracts.assertions import TrainProgress
from simharness.contracts.links import LinkRef
from simharness.contracts.mutations import Mutation, PeerKill, PeerResurrect, PeerSlow, RelayBuffer
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful.training import HUB, SIX_INVARIANTS, training_job

_PACE_MS: Final = 40
_SETTLED_MS: Final = 500
_END_MS: Final = 1_000


def _scenario(strategy: str, mutations: Sequence[Mutation], table: Mapping[str, Any], *, workers: int = 4) -> Scenario:
    job = training_job(
        {"strategy": strategy, "model": "linear", "pace_ns": _PACE_MS * NS_PER_MS, **table},
        workers=workers,
        duration_ns=_END_MS * NS_PER_MS,
    )
    within_ns = (_END_MS - _SETTLED_MS) * NS_PER_MS
    return msgspec.structs.replace(
        job,
        name="training_directed",
        mutations=tuple(mutations),
        assertions=(
            *SIX_INVARIANTS,
            TrainProgress(after_ns=_SETTLED_MS * NS_PER_MS, within_ns=within_ns, min_steps=8),
        ),
    )


def _towards(source: str, target: str, at_ms: int, floor_ms: int, lasting_ms: int) -> RelayBuffer:
    links = (LinkRef(source=source, target=target),)
    return RelayBuffer(
        at_ns=at_ms * NS_PER_MS, links=links, floor_ns=floor_ms * NS_PER_MS, duration_ns=lasting_ms * NS_PER_MS
    )


def chunk_tail_lost(table: Mapping[str, Any]) -> Scenario:
    """Five parameters on four workers: chunks of the size rounded down leave one parameter that nobody reduces."""
    return _scenario("ring", (), {"features": 4, **table})


def old_view_push(table: Mapping[str, Any]) -> Scenario:
    """A push under way while the view changes, and its batch and base still fit.

    w1 dies before step 6 opens at 240 ms, so the step waits for its lease. What w0 says to the hub from then on takes 62 ms, less
    than a lease: its push for the old view arrives behind the new view, before the one for the new view does.
    """
    faults: list[Mutation] = [
        PeerKill(at_ns=215 * NS_PER_MS, peer="w1"),
        _towards("w0", HUB, 240, 62, 100),
        PeerResurrect(at_ns=400 * NS_PER_MS, peer="w1"),
    ]
    return _scenario("ps", faults, table)


def stale_chunk(table: Mapping[str, Any]) -> Scenario:
    """A chunk of an older view comes into the same round of the new one, of the same size and place.

    w3 dies before step 6, so the ring waits for its lease. The chunk that w1 sends w2 takes 57 ms and arrives behind the new view;
    in `reshard` the smaller view gives w1 other samples. It is the only stale one, since w0 is slow and has sent nothing yet. With
    two parameters a chunk has one number in a ring of four as in one of three.
    """
    faults: list[Mutation] = [
        PeerKill(at_ns=215 * NS_PER_MS, peer="w3"),
        PeerSlow(at_ns=235 * NS_PER_MS, peer="w0", factor_x100=1_500, duration_ns=20 * NS_PER_MS),
        _towards("w1", "w2", 244, 57, 3),
        PeerResurrect(at_ns=400 * NS_PER_MS, peer="w3"),
    ]
    return _scenario("ring", faults, {"features": 1, "data_policy": "reshard", **table})


DIRECTED: Final[Mapping[str, Callable[[Mapping[str, Any]], Scenario]]] = {
    "CHUNK_TAIL_LOST": chunk_tail_lost,
    "OLD_VIEW_PUSH": old_view_push,
    "STALE_CHUNK": stale_chunk,
}
"""Defect -> what builds the scenario made for it, given further fields of the job's table."""
