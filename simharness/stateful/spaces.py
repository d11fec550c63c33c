"""Scenario spaces: named numbers with ranges, and how a complete scenario is built from them.

One declaration serves twice: Hypothesis draws the numbers and shrinks them (`drawn`), and a sweep takes them from a seed
(`Space.scenario`). A space's scenario is complete: script of faults, snapshots, duration.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from simharness.contracts.host import PeerFacts
from simharness.contracts.links import LinkPolicy, Occupancy
from simharness.contracts.mutations import Mutation
from simharness.contracts.scenario import MeshDecl, PeerDecl, Scenario, SnapshotDecl
from simharness.core.errors import Problem, ScenarioError
from simharness.core.streams import Root
from simharness.core.units import NS_PER_MS
from simharness.stateful.laws import Law
from simharness.stateful.pools import ints, seeds
from simharness.stateful.swim import with_session_options
from simharness.stateful.templates import Declared, Facts, bound
from simharness.stateful.topologies import peer_ids, use_kind

Numbers = Mapping[str, int]

Range = range | tuple[int, ...]
"""The values of one number: every step of a range, both ends included, or a list, simplest first."""


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario space with what must hold in it."""

    name: str
    numbers: Mapping[str, Range]
    """Drawn in this order."""
    build: Callable[[Numbers], Scenario]
    """Makes a complete scenario of the numbers, without assertions; its seed is put in afterwards."""
    assertions: tuple[Declared, ...] = ()
    laws: tuple[Law, ...] = ()

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of a seed: a pure function of the space and the seed.

        The numbers come from the stream ("mutation", 0) under the seed, one draw each; the scenario's own seed is the same.
        """
        stream = Root(seed).mutation(0)
        drawn = {name: values[stream.below(len(values))] for name, values in self.numbers.items()}
        return self.with_assertions(self.base(drawn, seed))

    def base(self, numbers: Numbers, seed: int) -> Scenario:
        """Return the scenario of these numbers, without assertions."""
        return msgspec.structs.replace(self.build(numbers), name=self.name, seed=seed)

    def with_assertions(self, scenario: Scenario) -> Scenario:
        """Return a complete scenario with the space's assertions bound to it."""
        bare = msgspec.structs.replace(scenario, mutations=())
        facts = Facts(scenario=bare, end_ns=scenario.duration_ns, mutations=scenario.mutations)
        return msgspec.structs.replace(scenario, assertions=bound(self.assertions, facts))


@st.composite
def drawn(draw: st.DrawFn, space: Space) -> Scenario:
    """Scenarios of a space, without assertions, shrinking to the first value of every number and seed 0."""
    seed = draw(seeds())
    return space.base({name: draw(_choice(values)) for name, values in space.numbers.items()}, seed)


def _choice(values: Range) -> st.SearchStrategy[int]:
    if isinstance(values, range):
        return ints(values[0], values[-1], step=values.step)
    return st.sampled_from(values)


def swim_cluster(
    numbers: Numbers,
    *,
    duration_ms: int,
    cold_dial_ms: int = 0,
    occupancy: Occupancy = "arrival",
    tick_ms: int = 50,
    interval_ms: int = 500,
    timeout_ms: int = 600,
    suspicion_ms: int = 2_000,
    config: Mapping[str, Any] | None = None,
    own: Callable[[str], Mapping[str, Any]] | None = None,
    joining: bool = False,
    script: tuple[Mutation, ...] = (),
    snapshots_ms: tuple[int, ...] = (),
) -> Scenario:
    """Return a full mesh of SWIM peers that all know each other, under the session's SWIM options.

    Args:
        numbers: `peers`, how many; `latency_ms`, one way; `jitter_ms`, a standard deviation, and `loss_ppm`, both 0 if not there.
        duration_ms: How long it runs.
        cold_dial_ms: Penalty of a first send, and how long a link takes to warm up.
        occupancy: When a link is free again.
        tick_ms: The tick of every peer.
        interval_ms: Probe interval.
        timeout_ms: Probe timeout.
        suspicion_ms: Suspicion timeout.
        config: Further fields of every `kind_config`.
        own: Fields of one peer's `kind_config`, given its id.
        joining: Whether the peers know only their seeds.
        script: Mutations, in order of time.
        snapshots_ms: When snapshots are taken.
    """
    ids = peer_ids(numbers["peers"])
    timings = {
        "probe_interval_ns": interval_ms * NS_PER_MS,
        "probe_timeout_ns": timeout_ms * NS_PER_MS,
        "suspicion_timeout_ns": suspicion_ms * NS_PER_MS,
    }
    facts = PeerFacts(
        id="", initial_state="joining" if joining else "alive", tick_period_ns=tick_ms * NS_PER_MS, peer_ids=ids
    )
    raws = {peer: {**timings, **(config or {}), **(own(peer) if own is not None else {})} for peer in ids}
    return Scenario(
        name="swim_cluster",
        seed=0,
        duration_ns=duration_ms * NS_PER_MS,
        default_tick_period_ns=tick_ms * NS_PER_MS,
        default_link=LinkPolicy(
            latency_ns=numbers["latency_ms"] * NS_PER_MS,
            jitter_stddev_ns=numbers.get("jitter_ms", 0) * NS_PER_MS,
            loss_prob_ppm=numbers.get("loss_ppm", 0),
            reorder_prob_ppm=0,
            bandwidth_bps=_BANDWIDTH_BPS,
            cold_dial_penalty_ns=cold_dial_ms * NS_PER_MS,
            cache_warm_after_ns=cold_dial_ms * NS_PER_MS,
            cache_invalidate_after_idle_ns=10_000 * NS_PER_MS,
            occupancy=occupancy,
        ),
        peers=tuple(_peer(raw, msgspec.structs.replace(facts, id=peer)) for peer, raw in raws.items()),
        meshes=(MeshDecl(),),
        mutations=script,
        snapshots=tuple(SnapshotDecl(at_ns=at_ms * NS_PER_MS) for at_ms in snapshots_ms),
    )


def _peer(raw: Mapping[str, Any], facts: PeerFacts) -> PeerDecl:
    """Return a peer whose configuration the kind has resolved; a space is wrong if the kind refuses it."""
    kind = use_kind("swim")
    config, complaints = kind.validate(with_session_options("swim", raw), facts)
    if complaints:
        raise ScenarioError(Problem("(space)", f"{facts.id}.{item.field}", item.rule) for item in complaints)
    return PeerDecl(id=facts.id, kind="swim", initial_state=facts.initial_state, kind_config=config)


_BANDWIDTH_BPS: Final = 25_000_000
"""Bytes a second of the reference's links between regions."""
