"""Who reaches whom in a scenario, how well, and who knows of whom at the start: what a shrink may not take from those that stay."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from simharness.contracts.links import LinkPolicy
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.contracts.topology import Direct, Relayed, Route, Topology

_LESS_IS_GENTLER: Final = (
    "latency_ns",
    "jitter_stddev_ns",
    "loss_prob_ppm",
    "reorder_prob_ppm",
    "cold_dial_penalty_ns",
)
_SAME: Final = ("cache_warm_after_ns", "cache_invalidate_after_idle_ns", "occupancy")

Ways = Mapping[str, Mapping[str, Route]]


class Reach:
    """The routes of a scenario's peers, and the ids that stand in their `kind_config`. Made when first asked for."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.peers = tuple([peer.id for peer in scenario.peers])

    @cached_property
    def ways(self) -> Ways:
        """The route of every ordered pair that has one."""
        topology = Topology(self._scenario)
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
        return {peer.id: _lists_of_ids(peer, known) for peer in self._scenario.peers}

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
    stay = frozenset(new.peers)
    for peer in new.peers:
        before = old.ways[peer]
        for target in [target for target in before if target in stay]:
            route = new.ways[peer].get(target)
            if route is None or not _route_no_worse(route, before[target]):
                return False
        if not old.reached[peer] & stay <= new.reached[peer]:
            return False
        if not new.named[peer].keys() >= old.named[peer].keys():
            return False  # a list of seeds is empty now
        if not old.acquainted[peer] & stay <= new.acquainted[peer]:
            return False
    return True


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
