"""The ids of a scenario: one namespace for peers and relays (§5A, §8.2, ruling L9)."""

from collections.abc import Iterable
from typing import Any, Final

from simharness.contracts.links import LinkRef
from simharness.core.ids import ID_RULE, is_valid_id
from simharness.scenario.document import Document
from simharness.scenario.schema import Complain
from simharness.scenario.words import shown

_PEER_LISTS: Final = ("peers", "peers_a", "peers_b", "observers")
_PEER_NAMES: Final = {"peer": "peer", "source": "from", "target": "to"}


class Names:
    """Every declared id, malformed ones included, so that a bad id is one mistake and not one for each use."""

    def __init__(self, document: Document) -> None:
        self.peers: dict[str, int] = {}
        """Peer id to its place; the first wins."""
        self.relays: dict[str, int] = {}
        self.complete = not {"peers", "relays"} & document.doubtful.keys()
        """Whether every entry has an id; if not, an unknown name may be that one and is not reported."""
        folded: dict[str, tuple[str, int]] = {}
        for key, into in (("peers", self.peers), ("relays", self.relays)):
            for index, entry in enumerate(document.entries(key)):
                name = entry.get("id") if isinstance(entry, dict) else None
                if not isinstance(name, str):
                    self.complete = False
                    continue
                into.setdefault(name, index)
                if not is_valid_id(name):
                    document.at_entry(key, index, "id", ID_RULE)
                    continue
                first = folded.setdefault(name.lower(), (key, index))
                if first != (key, index):
                    _complain_twice(document, name, first, (key, index))

    def check_peer(self, name: str, field: str, complain: Complain) -> bool:
        """Report a name that is no declared peer."""
        if name in self.peers:
            return True
        if name in self.relays:
            complain(field, f"{shown(name)} is a relay, not a peer")
        elif self.complete:
            complain(field, f"undeclared peer {shown(name)}")
        return False

    def check_relay(self, name: str, field: str, complain: Complain) -> bool:
        """Report a name that is no declared relay."""
        if name in self.relays:
            return True
        if name in self.peers:
            complain(field, f"{shown(name)} is a peer, not a relay")
        elif self.complete:
            complain(field, f"undeclared relay {shown(name)}")
        return False

    def check_vertex(self, name: str, field: str, complain: Complain) -> bool:
        """Report a name that is neither."""
        if name in self.peers or name in self.relays:
            return True
        if self.complete:
            complain(field, f"undeclared peer or relay {shown(name)}")
        return False

    def check_references(self, values: dict[str, Any], complain: Complain) -> bool:
        """Check every id that a mutation, an assertion or a mesh names."""
        sound = True
        for attr, field in _PEER_NAMES.items():
            if attr in values and values[attr] is not None:
                sound &= self.check_peer(values[attr], field, complain)
        for attr in _PEER_LISTS:
            for place, name in enumerate(values.get(attr) or ()):
                sound &= self.check_peer(name, f"{attr}[{place}]", complain)
        if "relay" in values:
            sound &= self.check_relay(values["relay"], "relay", complain)
        return sound & self._check_links(values.get("links", ()), complain)

    def _check_links(self, links: Iterable[LinkRef], complain: Complain) -> bool:
        sound = True
        for place, ref in enumerate(links):
            sound &= self.check_vertex(ref.source, f"links[{place}].from", complain)
            sound &= self.check_vertex(ref.target, f"links[{place}].to", complain)
        return sound


def _complain_twice(document: Document, name: str, first: tuple[str, int], second: tuple[str, int]) -> None:
    earlier = document.entries(first[0])[first[1]]["id"]
    where = document.place_from(*first, reader=second)
    if earlier == name:
        rule = f"duplicate id {shown(name)}; first declared at {where}"
    else:
        rule = f"id {shown(name)} differs only in case from {shown(earlier)} at {where}"
    document.at_entry(*second, "id", rule)
