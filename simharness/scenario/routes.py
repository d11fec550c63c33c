"""Rules about links, meshes and relayed routes (§5A, §8.2, rulings R12-R14, L14, L15, L18, N17).

What a declaration means is asked of `contracts.topology`; here only what may not be declared together.
"""

from typing import Any, Final

import msgspec

from simharness.contracts.links import LINK_FIELDS, LinkPolicy, LinkRef, RelayDecl
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario
from simharness.contracts.topology import Topology
from simharness.scenario.document import Document
from simharness.scenario.names import Names
from simharness.scenario.schema import Complain
from simharness.scenario.words import shown

Pair = tuple[str, str]
_NO_POLICY: Final = msgspec.convert(dict.fromkeys(LINK_FIELDS, 0), LinkPolicy)


def mesh_size(shape: object, members: int) -> int:
    """Return how many links a mesh of `members` peers stands for."""
    if shape == "full":
        return members * (members - 1)
    pairs = members if shape == "ring" and members > 2 else members - 1  # noqa: PLR2004  # two form one pair, not two
    return 2 * max(pairs, 0)


class Routes:
    """Collects links and meshes one by one, then judges them together."""

    def __init__(self, document: Document, names: Names, default_link: LinkPolicy | None) -> None:
        self._document = document
        self._names = names
        self._default_link = default_link
        self.links: list[LinkDecl] = []
        self.meshes: list[MeshDecl] = []
        self._link_place: dict[Pair, int] = {}
        self._blamed: dict[int, bool] = {}
        self._topology: Topology | None = None

    # --- one entry at a time -----------------------------------------------------------------------------------------

    def check_ends(self, values: dict[str, Any], index: int) -> bool:
        """Check both ends and the relay of one `[[links]]` entry, and that its pair is new."""
        source, target, via = values.get("source"), values.get("target"), values.get("via")
        if not isinstance(source, str) or not isinstance(target, str):
            return False
        complain = self._document.entry_complaints("links", index)
        if source == target:
            complain("to", f"a link joins two different ids; both are {shown(source)}")
            return False
        names = self._names
        ends = names.check_vertex(source, "from", complain) & names.check_vertex(target, "to", complain)
        if isinstance(via, str):
            return self._check_via(source, target, via, complain) and ends and self._check_new(source, target, index)
        if source in names.relays and target in names.relays:
            complain("to", "joins relay to relay; a route passes exactly one relay")
            return False
        return ends and self._check_new(source, target, index)

    def _check_via(self, source: str, target: str, via: str, complain: Complain) -> bool:
        for end in (source, target):
            if end in self._names.relays:
                complain("via", f"a link with via joins two peers; {shown(end)} is a relay")
                return False
        return self._names.check_relay(via, "via", complain)

    def _check_new(self, source: str, target: str, index: int) -> bool:
        first = self._link_place.setdefault((source, target), index)
        if first == index:
            return True
        entries = self._document.entries("links")
        old, new = entries[first].get("via"), entries[index].get("via")
        where = self._document.place_from("links", first, reader=("links", index))
        if old == new:
            rule = f"duplicate link; {source} -> {target} is declared at {where}"
        elif old is None or new is None:
            rule = f"{source} -> {target} has both a direct link and a relayed route, see {where}"
        else:
            rule = f"{source} -> {target} is routed through two relays, see {where}"
        self._document.at_entry("links", index, "from", rule)
        return False

    def add_link(self, link: LinkDecl) -> None:
        """Take in a sound link."""
        self.links.append(link)

    def add_mesh(self, mesh: MeshDecl, index: int) -> None:
        """Take in a mesh whose peers are declared."""
        complain = self._document.entry_complaints("meshes", index)
        members = mesh.peers
        if members is not None:
            if len(members) == 1:
                complain("peers", "a mesh joins at least two peers")
                return
            seen: dict[str, int] = {}
            for place, name in enumerate(members):
                if seen.setdefault(name, place) != place:
                    complain(f"peers[{place}]", f"duplicate peer {shown(name)}; see peers[{seen[name]}]")
        self.meshes.append(mesh)

    # --- all together ------------------------------------------------------------------------------------------------

    def _complete(self) -> bool:
        """Tell whether every entry was sound; if not, a leg that seems to be missing may be in the others."""
        doubtful = not self._names.complete or not {"links", "meshes"}.isdisjoint(self._document.doubtful)
        entries = self._document.entries
        return not doubtful and (len(self.links), len(self.meshes)) == (len(entries("links")), len(entries("meshes")))

    def topology(self) -> Topology:
        """Return what the sound links and meshes mean; built once, after all of them were taken in."""
        if self._topology is None:
            self._topology = self._topology_of(tuple(self.meshes), tuple(self.links))
        return self._topology

    def _topology_of(self, meshes: tuple[MeshDecl, ...], links: tuple[LinkDecl, ...]) -> Topology:
        names = self._names
        return Topology(
            Scenario(
                name="",
                seed=0,
                duration_ns=0,
                default_tick_period_ns=1,
                default_link=self._default_link or _NO_POLICY,
                peers=tuple(PeerDecl(id=name, kind="", initial_state="", kind_config={}) for name in names.peers),
                relays=tuple(
                    RelayDecl(id=name, ingress_capacity_bps=1, egress_capacity_bps_per_link=1, queue_depth_bytes=0)
                    for name in names.relays
                ),
                meshes=meshes,
                links=links,
            )
        )

    def check_together(self) -> None:
        """Report every host pair with two routes, and leg policies that differ."""
        if not self._names.relays:
            return
        hosts, legs = self._names.peers, self._relay_legs()
        for link in self.links:
            if link.via is not None or (legs and link.source in hosts and link.target in hosts):
                self._check_pair(link)
        if legs:
            for place, mesh in enumerate(self.meshes):
                self._check_mesh(place, mesh)
        self._check_two_relays(legs)
        if self._default_link is not None:
            self._check_leg_policies(self._default_link)

    def _relay_legs(self) -> dict[str, list[str]]:
        """Return the relays that each host has a declared leg to."""
        into: dict[str, list[str]] = {}
        for link in self.links:
            if link.target in self._names.relays:
                into.setdefault(link.source, []).append(link.target)
        return into

    def _blame(self, rule: str, *legs: Pair) -> None:
        """Report at the link that was declared last, for it completed the mistake; once for each such link."""
        place = max(self._link_place[leg] for leg in legs if leg in self._link_place)
        if place not in self._blamed:
            self._blamed[place] = True
            self._document.at_entry("links", place, "from", rule)

    def _check_pair(self, link: LinkDecl) -> None:
        source, target = pair = link.source, link.target
        topology = self.topology()
        if link.via is not None and topology.direct(source, target) is not None:
            self._blame(_both(source, target, link.via), pair)
            return
        others = [relay for relay in topology.relays_joining(source, target) if relay != link.via]
        if others:
            relay = others[0]
            two = _both(source, target, relay) if link.via is None else _two(source, target, link.via, relay)
            self._blame(two, pair, (source, relay), (relay, target))

    def _check_mesh(self, place: int, mesh: MeshDecl) -> None:
        """Report the first pair of a mesh that declared legs join as well; `via` pairs were reported link by link."""
        topology = self.topology()
        for source, target in self._topology_of((mesh,), ()).mesh_pairs():
            for relay in topology.relays_joining(source, target):
                legs = (source, relay), (relay, target)
                if all(leg in self._link_place for leg in legs):
                    self._blame(f"{_both(source, target, relay)} (meshes[{place}])", *legs)
                    return

    def _check_two_relays(self, into: dict[str, list[str]]) -> None:
        """Report host pairs that declared legs join through two relays.

        Sources with the same relays share one search, and of their ambiguous pairs each source and each target is reported
        once: the cost stays linear in the legs.
        """
        out: dict[str, list[str]] = {}
        for link in self.links:
            if link.source in self._names.relays:
                out.setdefault(link.source, []).append(link.target)
        groups: dict[tuple[str, ...], list[str]] = {}
        for source, relays in into.items():
            if len(relays) > 1:
                groups.setdefault(tuple(sorted(relays)), []).append(source)
        for key, sources in groups.items():
            reached = _reached_twice(key, out)
            for source in sources:
                self._blame_two(next(((source, *one) for one in reached if one[0] != source), None))
            for one in reached:
                self._blame_two(next(((source, *one) for source in sources if source != one[0]), None))

    def _blame_two(self, found: tuple[str, str, str, str] | None) -> None:
        if found is not None:
            source, target, one, other = found
            legs = (source, one), (one, target), (source, other), (other, target)
            self._blame(_two(source, target, one, other), *legs)

    def _check_leg_policies(self, default: LinkPolicy) -> None:
        """Legs through one relay that `via` makes agree with each other and with a declared leg of the same name (R14)."""
        first: dict[str, tuple[int, LinkPolicy]] = {}
        declared = {
            (link.source, link.target): link.overrides.over(default)
            for link in self.links
            if link.via is None and (link.source in self._names.relays or link.target in self._names.relays)
        }
        for link in self.links:
            if link.via is None:
                continue
            place, policy = self._link_place[link.source, link.target], link.overrides.over(default)
            seen_at, seen = first.setdefault(link.via, (place, policy))
            if seen != policy:
                self._complain_policy(place, seen_at, link.via, _first_difference(seen, policy))
            for leg in (link.source, link.via), (link.via, link.target):
                if leg in declared and declared[leg] != policy:
                    early, late = sorted((place, self._link_place[leg]))
                    self._complain_policy(late, early, link.via, _first_difference(declared[leg], policy))

    def _complain_policy(self, place: int, other: int, relay: str, field: str) -> None:
        where = self._document.place_from("links", other, reader=("links", place))
        self._document.at_entry("links", place, field, f"legs made by via through {relay} must agree with {where}")

    # --- mutations ---------------------------------------------------------------------------------------------------

    def check_named(self, refs: tuple[LinkRef, ...], complain: Complain) -> None:
        """Report a reference to a leg or relayed pair that is not there (ruling N17)."""
        if not self._complete():
            return
        for place, ref in enumerate(refs):
            if not self.topology().legs_named(ref):
                complain(f"links[{place}]", f"no link or relayed route {ref.source} -> {ref.target}")

    def check_through(self, relay: str, source: str, target: str, complain: Complain) -> None:
        """Report a host pair that is not routed through the relay (ruling L14)."""
        if self._complete() and relay not in self.topology().relays_joining(source, target):
            complain("relay", f"{source} -> {target} is not routed through {relay}")


def _both(source: str, target: str, relay: str) -> str:
    return f"{source} -> {target} has both a direct link and a relayed route through {relay}"


def _two(source: str, target: str, one: str, other: str) -> str:
    return f"{source} -> {target} is routed through two relays, {one} and {other}"


def _first_difference(one: LinkPolicy, other: LinkPolicy) -> str:
    return next(name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name))


def _reached_twice(relays: tuple[str, ...], out: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    """Return (target, relay, other relay) for each target that two of the relays lead to."""
    first: dict[str, str] = {}
    twice: list[tuple[str, str, str]] = []
    for relay in relays:
        for target in out.get(relay, ()):
            one = first.setdefault(target, relay)
            if one != relay:
                twice.append((target, one, relay))
    return twice
