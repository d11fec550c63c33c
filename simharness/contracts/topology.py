"""What the declared meshes, links and relays mean: legs and routes (§5.1, §5A, rulings R12, N17).

Meshes are never expanded in memory: a thousand-peer full mesh costs one entry.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from simharness.contracts.links import LinkPolicy, LinkRef
from simharness.contracts.scenario import MeshDecl, Scenario


class Direct(NamedTuple):
    """A route of one leg."""

    policy: LinkPolicy


class Relayed(NamedTuple):
    """A route of two legs, `source -> relay` and `relay -> target`."""

    relay: str
    inbound: LinkPolicy
    outbound: LinkPolicy


Route = Direct | Relayed


class _Mesh:
    """Membership test for one mesh entry."""

    __slots__ = ("_place", "_shape", "_size", "policy")

    def __init__(self, mesh: MeshDecl, peers: tuple[str, ...], default: LinkPolicy) -> None:
        members = peers if mesh.peers is None else mesh.peers
        self._place = {peer: place for place, peer in enumerate(members)}
        self._size = len(members)
        self._shape = mesh.shape
        self.policy = mesh.overrides.over(default)

    def holds(self, source: str, target: str) -> bool:
        """Tell whether the mesh has a link from `source` to `target`."""
        a, b = self._place.get(source), self._place.get(target)
        if a is None or b is None or a == b:
            return False
        match self._shape:
            case "full":
                return True
            case "star":
                return a == 0 or b == 0
            case "chain":
                return abs(a - b) == 1
            case "ring":
                return abs(a - b) in (1, self._size - 1)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every ordered pair of the mesh, in member order; cost is that of the answer."""
        members = tuple(self._place)
        for a, source in enumerate(members):
            match self._shape:
                case "full":
                    places: Iterator[int] | list[int] = iter(range(self._size))
                case "star":
                    places = iter(range(self._size)) if a == 0 else [0]
                case "chain":
                    places = [a - 1, a + 1]
                case "ring":
                    places = sorted({(a - 1) % self._size, (a + 1) % self._size})
            for b in places:
                if 0 <= b < self._size and b != a:
                    yield source, members[b]


LegKind = Literal["direct", "relay"]


class Topology:
    """Resolves legs and routes of a scenario on demand.

    Precedence of a direct pair's policy: `[default_link]`, then the last mesh that holds the pair, then its `[[links]]` entry.
    Legs made by `via` serve only the pairs that name them (ruling R12); legs declared towards and from a relay join every
    host pair for which both exist.
    """

    def __init__(self, scenario: Scenario) -> None:
        peers = tuple(peer.id for peer in scenario.peers)
        relays = frozenset(relay.id for relay in scenario.relays)
        self._meshes = tuple(_Mesh(mesh, peers, scenario.default_link) for mesh in scenario.meshes)
        self._direct: dict[tuple[str, str], LinkPolicy] = {}
        self._relay_legs: dict[tuple[str, str], LinkPolicy] = {}
        self._via: dict[tuple[str, str], str] = {}
        self._via_legs: dict[tuple[str, str], LinkPolicy] = {}
        self._into: dict[str, list[str]] = {}
        for link in scenario.links:
            pair = (link.source, link.target)
            if link.via is not None:
                policy = link.overrides.over(scenario.default_link)
                self._via[pair] = link.via
                self._via_legs[link.source, link.via] = policy
                self._via_legs[link.via, link.target] = policy
            elif link.source in relays or link.target in relays:
                self._relay_legs[pair] = link.overrides.over(scenario.default_link)
                if link.target in relays:
                    self._into.setdefault(link.source, []).append(link.target)
            else:
                self._direct[pair] = link.overrides.over(self._mesh_policy(*pair) or scenario.default_link)

    def _mesh_policy(self, source: str, target: str) -> LinkPolicy | None:
        for mesh in reversed(self._meshes):
            if mesh.holds(source, target):
                return mesh.policy
        return None

    def direct(self, source: str, target: str) -> LinkPolicy | None:
        """Return the policy of the direct edge between two hosts, or None."""
        return self._direct.get((source, target)) or self._mesh_policy(source, target)

    def relays_joining(self, source: str, target: str) -> list[str]:
        """Return every relay that gives this host pair a route, sorted; the loader refuses more than one (ruling R13)."""
        via = self._via.get((source, target))
        found = {relay for relay in self._into.get(source, ()) if (relay, target) in self._relay_legs}
        return sorted(found if via is None else found | {via})

    def leg(self, source: str, target: str) -> LinkPolicy | None:
        """Return the policy of a leg (host to host, host to relay or relay to host), or None if it is not there."""
        pair = (source, target)
        return self._relay_legs.get(pair) or self._via_legs.get(pair) or self.direct(source, target)

    def route(self, source: str, target: str) -> Route | None:
        """Return the one route of an ordered host pair, or None. The loader has ruled out ambiguity."""
        policy = self.direct(source, target)
        if policy is not None:
            return Direct(policy)
        relays = self.relays_joining(source, target)
        if not relays or source == target:
            return None
        relay = relays[0]
        inbound, outbound = self.leg(source, relay), self.leg(relay, target)
        assert inbound is not None
        assert outbound is not None
        return Relayed(relay, inbound, outbound)

    def legs_named(self, ref: LinkRef) -> tuple[tuple[str, str], ...]:
        """Return the legs that a mutation's link reference means: the leg itself, or both legs of a relayed pair (N17)."""
        if self.leg(ref.source, ref.target) is not None:
            return ((ref.source, ref.target),)
        route = self.route(ref.source, ref.target)
        if isinstance(route, Relayed):
            return ((ref.source, route.relay), (route.relay, ref.target))
        return ()

    def mesh_pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every ordered pair of every mesh, mesh by mesh; a pair of two meshes comes twice."""
        for mesh in self._meshes:
            yield from mesh.pairs()
