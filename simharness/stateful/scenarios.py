"""Whole scenarios drawn at once: a base, a timeline of faults, snapshots, assertions. For tests that need no machine."""

import msgspec
from hypothesis import strategies as st

from simharness.contracts.mutations import Mutation
from simharness.contracts.scenario import Scenario, SnapshotDecl
from simharness.core.units import NS_PER_MS
from simharness.run import kinds_of
from simharness.stateful.aims import draws
from simharness.stateful.faults import Swarm, swarm
from simharness.stateful.pools import Number, ints, pick, value_of
from simharness.stateful.session import KINDS
from simharness.stateful.situation import Situation
from simharness.stateful.templates import Declared, Facts, bound, deadline_ns


@st.composite
def fault_timelines(
    draw: st.DrawFn, base: Scenario, *, faults: Swarm, duration_ms: int = 20_000, most: int = 6
) -> tuple[Mutation, ...]:
    """Timelines of faults in order of time: the kinds are chosen first, then only those are drawn (swarm testing).

    Args:
        draw: Given by Hypothesis.
        base: Whom the faults are aimed at.
        faults: What may happen; see `swarm`.
        duration_ms: When the last one may happen.
        most: How many there are at most.
    """
    situation = Situation(base, kinds_of(base, KINDS))
    enabled = draw(faults.subsets())
    times = draw(st.lists(ints(0, duration_ms), max_size=most if enabled else 0))
    timeline: list[Mutation] = []
    for at_ms in sorted(times):
        kind = draw(pick(enabled))
        if situation.allows(kind):
            mutation = draw(draws(kind, faults, situation, at_ms * NS_PER_MS))
            situation.apply(mutation)
            timeline.append(mutation)
    return tuple(timeline)


_NO_FAULTS = swarm()


@st.composite
def scenarios(
    draw: st.DrawFn,
    base: st.SearchStrategy[Scenario],
    *,
    faults: Swarm = _NO_FAULTS,
    duration_ms: Number = 20_000,
    snapshot_every_ms: int | None = None,
    assertions: tuple[Declared, ...] = (),
    name: str = "drawn",
) -> Scenario:
    """Complete scenarios: what the loader would give for a file of them. See `fault_timelines` and `meshes`."""
    start = draw(base)
    end_ms = value_of(draw, duration_ms)
    mutations = draw(fault_timelines(start, faults=faults, duration_ms=end_ms))
    end_ns = end_ms * NS_PER_MS
    last_ns = max(end_ns, *map(deadline_ns, bound(assertions, _facts(start, end_ns, mutations))), 0)
    every = range(snapshot_every_ms, end_ms + 1, snapshot_every_ms) if snapshot_every_ms else ()
    taken = tuple(snapshot for snapshot in start.snapshots if snapshot.at_ns <= last_ns)
    return msgspec.structs.replace(
        start,
        name=name,
        duration_ns=last_ns,
        mutations=mutations,
        snapshots=(*taken, *(SnapshotDecl(at_ns=at_ms * NS_PER_MS) for at_ms in every)),
        assertions=bound(assertions, _facts(start, last_ns, mutations)),
    )


def _facts(base: Scenario, end_ns: int, mutations: tuple[Mutation, ...]) -> Facts:
    return Facts(scenario=base, end_ns=end_ns, mutations=mutations)
