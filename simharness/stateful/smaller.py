"""Ways to make a scenario smaller: each pass yields candidates, most ambitious first.

No pass touches what judges or what is judged: an assertion's bound stays, a peer's `kind_config` stays (but for ids that are gone),
capacities and the seed stay, and nothing starts at another time. What faults, peers, links, snapshots and spans of time are left
away, and which impairments become milder, is proposed here; whether that would make anything harsher is for `gentler` to say.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from simharness.contracts.assertions import Assertion
from simharness.contracts.links import LinkRef
from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    Heal,
    Mutation,
    PeerResurrect,
    RelayBoot,
    RelayCapacityChange,
)
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario
from simharness.core.units import NS_PER_MS, NS_PER_S

Pass = Callable[[Scenario], Iterator[Scenario]]
_Item = TypeVar("_Item")

_TIMES: Final = ("at_ns", "after_ns", "from_ns", "window_start_ns")
_ENDS: Final = (Heal, PeerResurrect, RelayBoot, RelayCapacityChange, ClockOffset, ClockDrift)
"""What may end a fault of before."""
_IMPAIRMENTS: Final = {
    "latency_ns": 0,
    "jitter_stddev_ns": 0,
    "loss_prob_ppm": 0,
    "reorder_prob_ppm": 0,
    "cold_dial_penalty_ns": 0,
    "cold_start_penalty_ns": 0,
    "prob_ppm": 0,
    "floor_ns": 0,
    "factor_x100": 100,
    "duration_ns": 1,
    "offset_ns": 0,
    "drift_ppm": 0,
}
"""What a link, a relay or a mutation inflicts, with the value that inflicts nothing (or lasts for nothing)."""


def without_mutations(scenario: Scenario) -> Iterator[Scenario]:
    """Leave out runs of mutations: all, halves, quarters, down to single ones."""
    for kept in _sublists(scenario.mutations):
        yield replace(scenario, mutations=kept)


def without_peers(scenario: Scenario) -> Iterator[Scenario]:
    """Leave out one peer, the last first, with everything that names it."""
    for peer in reversed(scenario.peers):
        smaller = _drop_vertex(scenario, peer.id)
        if smaller is not None and len(smaller.peers) > 1:
            yield smaller


def without_links(scenario: Scenario) -> Iterator[Scenario]:
    """Leave out a relay with its routes, a mesh, runs of links."""
    for relay in reversed(scenario.relays):
        smaller = _drop_vertex(scenario, relay.id)
        if smaller is not None:
            yield smaller
    for index in reversed(range(len(scenario.meshes))):
        yield replace(scenario, meshes=scenario.meshes[:index] + scenario.meshes[index + 1 :])
    for kept in _sublists(scenario.links):
        yield replace(scenario, links=kept)


def without_snapshots(scenario: Scenario) -> Iterator[Scenario]:
    """Leave out runs of snapshots."""
    for kept in _sublists(scenario.snapshots):
        yield replace(scenario, snapshots=kept)


def shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Halve the run, cutting off its end."""
    yield from cut_at(scenario, scenario.duration_ns // 2)


def cut_at(scenario: Scenario, end_ns: int) -> Iterator[Scenario]:
    """Yield the scenario ended at `end_ns`, if its assertions can still be judged by then.

    First without the mutations after that; then with what ends a fault brought forward to the end, so that no fault lasts for ever.
    """
    if not 0 < end_ns < scenario.duration_ns:
        return
    clipped = [_clip(assertion, end_ns) for assertion in scenario.assertions]
    assertions = tuple(assertion for assertion in clipped if assertion is not None)
    if len(assertions) < len(clipped):
        return
    in_time = sorted(scenario.mutations, key=lambda mutation: mutation.at_ns)
    before = tuple(item for item in in_time if item.at_ns <= end_ns)
    ends = tuple(replace(item, at_ns=end_ns) for item in in_time if item.at_ns > end_ns and isinstance(item, _ENDS))
    for mutations in (before, (*before, *ends)) if ends else (before,):
        yield replace(
            scenario,
            duration_ns=end_ns,
            mutations=mutations,
            snapshots=tuple(item for item in scenario.snapshots if item.at_ns <= end_ns),
            assertions=assertions,
        )


def ends_to_try(failed_at_ns: int) -> Iterator[int]:
    """Yield ends just after the failure, on whole seconds, then tenths, then milliseconds."""
    for unit in (NS_PER_S, 100 * NS_PER_MS, NS_PER_MS):
        yield (failed_at_ns // unit + 1) * unit


def milder(scenario: Scenario) -> Iterator[Scenario]:
    """Take every impairment to nothing, or else halve it, or else round it down to one digit."""
    for default_link in _milder(scenario.default_link):
        yield replace(scenario, default_link=default_link)
    for index, relay in enumerate(scenario.relays):
        for item in _milder(relay):
            yield replace(scenario, relays=_swap(scenario.relays, index, item))
    for index, mesh in enumerate(scenario.meshes):
        for overrides in _milder(mesh.overrides):
            yield replace(scenario, meshes=_swap(scenario.meshes, index, replace(mesh, overrides=overrides)))
    for index, link in enumerate(scenario.links):
        for overrides in _milder(link.overrides):
            yield replace(scenario, links=_swap(scenario.links, index, replace(link, overrides=overrides)))
    for index, mutation in enumerate(scenario.mutations):
        for milder_mutation in _milder(mutation):
            yield replace(scenario, mutations=_swap(scenario.mutations, index, milder_mutation))


PASSES: Final[tuple[Pass, ...]] = (
    without_mutations,
    without_peers,
    without_links,
    without_snapshots,
    shorter,
    milder,
)
"""Every pass, in the order in which they are tried."""


# --- helpers -------------------------------------------------------------------------------------------------------


def _sublists(items: tuple[_Item, ...]) -> Iterator[tuple[_Item, ...]]:
    """Yield `items` without runs of its members: everything first, then ever smaller runs, the last ones first."""
    size = len(items)
    while size:
        for end in range(len(items), 0, -size):
            yield items[: max(0, end - size)] + items[end:]
        size //= 2


def _swap(items: Sequence[_Item], index: int, item: _Item) -> tuple[_Item, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _clip(assertion: Assertion, end_ns: int) -> Assertion | None:
    """Return the assertion for a run that ends at `end_ns`, or None if it needs more time. A narrower window asks for less."""
    start = getattr(assertion, "window_start_ns", None)
    if start is not None and start > end_ns:
        return None
    if getattr(assertion, "window_end_ns", None) is not None:
        return replace(assertion, window_end_ns=min(end_ns, assertion.window_end_ns))  # type: ignore[union-attr, type-var]
    begin = next((value for name in _TIMES if (value := getattr(assertion, name, None)) is not None), 0)
    return assertion if begin + getattr(assertion, "within_ns", 0) <= end_ns else None


def _milder(item: Any) -> Iterator[Any]:
    for name, nothing in _IMPAIRMENTS.items():
        value = getattr(item, name, None)
        if value is None or abs(value) <= nothing:
            continue
        sign, size = (-1, -value) if value < 0 else (1, value)
        digits = 10 ** (len(str(size)) - 1)
        for smaller in dict.fromkeys((nothing, max(nothing, size // 2), max(nothing, size // digits * digits))):
            if smaller < size:
                yield replace(item, **{name: sign * smaller})


def _drop_vertex(scenario: Scenario, gone: str) -> Scenario | None:
    """Remove a peer or a relay with everything that names it, or return None if an assertion is about it."""
    assertions = []
    for assertion in scenario.assertions:
        if gone in (getattr(assertion, "peer", None), getattr(assertion, "relay", None)):
            return None
        kept = _without_names(assertion, gone)
        if kept is None:
            return None
        assertions.append(kept)
    mutations = (mutation_without(mutation, gone) for mutation in scenario.mutations)
    meshes = (_mesh_without(mesh, gone) for mesh in scenario.meshes)
    return replace(
        scenario,
        peers=tuple(_peer_without(peer, gone) for peer in scenario.peers if peer.id != gone),
        relays=tuple(relay for relay in scenario.relays if relay.id != gone),
        meshes=tuple(mesh for mesh in meshes if mesh is not None),
        links=tuple(link for link in scenario.links if not _touches(link, gone)),
        mutations=tuple(mutation for mutation in mutations if mutation is not None),
        assertions=tuple(assertions),
    )


def _without_names(assertion: Assertion, gone: str) -> Assertion | None:
    """Drop an id from the peers or observers of an assertion; None if nobody would be left."""
    for name in ("peers", "observers"):
        listed = getattr(assertion, name, None)
        if listed is not None and gone in listed:
            kept = tuple(item for item in listed if item != gone)
            return replace(assertion, **{name: kept}) if kept else None
    return assertion


def mutation_without(mutation: Mutation, gone: str) -> Mutation | None:
    """Drop an id from a mutation; None if nothing would be left of it."""
    changed: dict[str, tuple[Any, ...]] = {}
    for name in mutation.__struct_fields__:
        value = getattr(mutation, name)
        if name in ("peer", "relay", "source", "target") and value == gone:
            return None
        if isinstance(value, tuple):
            kept = tuple(item for item in value if item != gone and not _touches(item, gone))
            if not kept:
                return None
            changed[name] = kept
    return replace(mutation, **changed)


def _touches(item: LinkDecl | LinkRef | str, gone: str) -> bool:
    return not isinstance(item, str) and gone in (item.source, item.target, getattr(item, "via", None))


def _mesh_without(mesh: MeshDecl, gone: str) -> MeshDecl | None:
    if mesh.peers is None or gone not in mesh.peers:
        return mesh
    kept = tuple(peer for peer in mesh.peers if peer != gone)
    return replace(mesh, peers=kept) if len(kept) > 1 else None


def _peer_without(peer: PeerDecl, gone: str) -> PeerDecl:
    """Drop an id from every list of strings in a `kind_config` that holds it, such as seeds and targets."""
    config = {
        name: [item for item in value if item != gone] if isinstance(value, list) else value
        for name, value in peer.kind_config.items()
    }
    return replace(peer, kind_config=config)
