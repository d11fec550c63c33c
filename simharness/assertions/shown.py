"""What one snapshot shows, read once for all assertions that look at it."""

from functools import cached_property
from typing import Any, Final

ALIVE: Final = "Alive"
SUSPECT: Final = "Suspect"
DEAD: Final = "Dead"
MISSING: Final = "Unknown"
"""The state of a peer that the observer has no entry for; SWIM's own word for one it has heard nothing of."""


class Shown:
    """A host's snapshot. Kinds that keep no membership or no names show none."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body

    @cached_property
    def states(self) -> dict[str, str]:
        """The states of the peers that the host has an entry for."""
        peers = self.body.get("peers")
        entries = peers if isinstance(peers, list) else []
        return {
            entry["peer"]: str(entry.get("state", MISSING))
            for entry in entries
            if isinstance(entry, dict) and type(entry.get("peer")) is str
        }

    def state(self, peer: str) -> str:
        """Return the state of one peer."""
        return self.states.get(peer, MISSING)

    def names(self, name: str) -> bool:
        """Tell whether the host's name registry holds `name`."""
        registry = self.body.get("name_registry")
        return isinstance(registry, dict) and name in registry
