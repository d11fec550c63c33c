"""Who reaches whom in a scenario, how well, and who knows of whom at the start: what a shrink may not take from those that stay."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from simharness.contracts.links import LINK_FIELDS, LinkOverrides, LinkPolicy
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario
from simharness.contracts.topology import Direct, Relayed, Route, Topology

_LESS_IS_GENTLER: Final = (
    "latency_ns",
    "jitter_stddev_ns",
    "loss_prob_ppm",
    "reorder_prob_ppm",
    "cold_dial_penalty_ns",
)
_SAME: Final = ("cache_warm_after_ns", "cache_invalidate_after_idle_ns", "occupancy")

_ANY: Final = msgspec.convert(dict.fromkeys(LINK_FIELDS, 0), LinkPolicy)
_MOST_PEERS: Final = 500
"""Above that routes are not compared pair by pair, which takes time and memory that grow with the square of the peers."""

Ways = Mapping[str, Mapping[str, Route]]


class Reach:
    """The routes of a scenario's peers, and the ids that stand in their `kind_config`. Made when first asked for."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.peers = tuple([peer.id for peer in scenario.peers])

    @cached_property
    def ways(self) -> Ways:
        """The route of every ordered pair that has one."""
        topology = Topology(self.scenario)
        found: dict[str, dict[str, Route]] = {}
        for source in self.peers:
            routes = {target: topology.route(source, target) for target in self.peers if target != source}
            found[source] = {target: route for target, route in routes.items() if route is not None}
        return found

    @cached_property
    def reached(self) -> Mapping[str, frozenset[str]]:
        """Whom each peer reaches, over others too."""
        return {peer: _closure(peer, self.ways) for peer in self.peers}

    @cached_property
    def named(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """The ids in each list of each peer's `kind_config`; only lists that have one."""
        known = frozenset(self.peers)
        return {peer.id: _lists_of_ids(peer, known) for peer in self.scenario.peers}

    @cached_property
    def acquainted(self) -> Mapping[str, frozenset[str]]:
        """Whom each peer is tied to by who names whom, in either direction and over others too."""
        ties: dict[str, dict[str, None]] = {peer: {} for peer in self.peers}
        for peer, lists in self.named.items():
            for other in sorted({name for names in lists.values() for name in names}):
                ties[peer][other] = ties[other][peer] = None
        return {peer: _closure(peer, ties) for peer in self.peers}


def no_worse(new: Reach, old: Reach) -> bool:
    """Tell whether the peers that stay keep their routes, as good, still reach whom they reached, and still know of each other."""
    return _keeps_routes(new, old) and all(_keeps_acquaintances(peer, new, old) for peer in new.peers)


def _keeps_routes(new: Reach, old: Reach) -> bool:
    if _declares_no_worse(new.scenario, old.scenario) and (new.peers == old.peers or _joins_everybody(new.scenario)):
        return True
    if len(old.peers) > _MOST_PEERS:
        return False
    stay = frozenset(new.peers)
    for peer in new.peers:
        before = old.ways[peer]
        for target in [target for target in before if target in stay]:
            route = new.ways[peer].get(target)
            if route is None or not _route_no_worse(route, before[target]):
                return False
        if not old.reached[peer] & stay <= new.reached[peer]:
            return False
    return True


def _keeps_acquaintances(peer: str, new: Reach, old: Reach) -> bool:
    if not new.named[peer].keys() >= old.named[peer].keys():
        return False  # a list of seeds is empty now
    return old.acquainted[peer] & frozenset(new.peers) <= new.acquainted[peer]


def _declares_no_worse(new: Scenario, old: Scenario) -> bool:
    """Tell whether two scenarios declare the same relays, meshes and links, and no policy is worse."""
    if [relay.id for relay in new.relays] != [relay.id for relay in old.relays]:
        return False
    mine: list[LinkDecl | MeshDecl] = [*new.meshes, *new.links]
    before: list[LinkDecl | MeshDecl] = [*old.meshes, *old.links]
    if [_bare(entry) for entry in mine] != [_bare(entry) for entry in before]:
        return False
    given = zip([entry.overrides for entry in mine], [entry.overrides for entry in before], strict=True)
    return _policy_no_worse(new.default_link, old.default_link) and all(
        one.given().keys() == two.given().keys() and _policy_no_worse(one.over(_ANY), two.over(_ANY))
        for one, two in given
    )


def _bare(entry: LinkDecl | MeshDecl) -> LinkDecl | MeshDecl:
    return replace(entry, overrides=LinkOverrides())


def _joins_everybody(scenario: Scenario) -> bool:
    return any(mesh.peers is None and mesh.shape == "full" for mesh in scenario.meshes)


def _route_no_worse(new: Route, old: Route) -> bool:
    if isinstance(new, Relayed) and isinstance(old, Relayed):
        legs = ((new.inbound, old.inbound), (new.outbound, old.outbound))
        return new.relay == old.relay and all(_policy_no_worse(mine, before) for mine, before in legs)
    return isinstance(new, Direct) and isinstance(old, Direct) and _policy_no_worse(new.policy, old.policy)


def _policy_no_worse(new: LinkPolicy, old: LinkPolicy) -> bool:
    less = all(getattr(new, field) <= getattr(old, field) for field in _LESS_IS_GENTLER)
    same = all(getattr(new, field) == getattr(old, field) for field in _SAME)
    return less and same and new.bandwidth_bps >= old.bandwidth_bps


def _closure(start: str, ties: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Return everybody that can be reached from a peer, itself included."""
    unseen = dict.fromkeys(ties)
    del unseen[start]
    seen = [start]
    for peer in seen:  # which grows meanwhile
        for other in [other for other in ties[peer] if other in unseen] if unseen else ():
            del unseen[other]
            seen.append(other)
    return frozenset(seen)


def _lists_of_ids(peer: PeerDecl, known: frozenset[str]) -> dict[str, frozenset[str]]:
    found = {}
    for field, value in peer.kind_config.items():
        names = known.intersection(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
        if names:
            found[field] = frozenset(names)
    return found
