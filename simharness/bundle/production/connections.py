"""Production's records of its connection cache, derived from sends, dials and cache changes of a simulation.

Production writes one a send, the simulator one a change of state; both stand in an export, so that counts compare.
"""

from collections import Counter
from typing import Any

from simharness.bundle.production.names import Names
from simharness.bundle.reader import EventLine

_COOLED = ("idle_cooled", "invalidated")


class Connections:
    """Follows the connections of a run.

    Args:
        hops: The relay between two hosts, where there is one; else they talk directly.
        names: How nodes are called.
    """

    def __init__(self, hops: dict[tuple[str, str], str], names: Names) -> None:
        self._hops, self._names = hops, names
        self._dials = Counter[tuple[str, str]]()

    def before(
        self, emitter: str, line: EventLine, payload: dict[str, Any], following: EventLine | None
    ) -> dict[str, Any] | None:
        """Return the record that production would have written before this one, or None.

        Before a send: `ConnectionCacheMiss` if it dials (the next line says so), nothing if the network refused it on sight, else
        `ConnectionCacheHit`. Before a change to cold: `ConnectionCacheInvalidated`. The generation of a connection is the number of
        dials that were made on its edge.
        """
        event = line.event
        if payload["type"] == "MessageSent":
            return self._send(emitter, event["peer"], payload["peer"], _next_of(line, following))
        if payload["type"] == "DialStarted":
            self._dials[emitter, event["to"]] += 1
        elif event.get("kind") == "CacheStateChange" and event.get("transition") in _COOLED:
            to = event.get("to")
            peer = self._names.id_of(to) if type(to) is str and event.get("from") == emitter else None
            if type(to) is str and peer is not None:
                lost = {"type": "ConnectionCacheInvalidated", "peer": peer}
                return lost | {"generation": self._generation(emitter, to), "reason": "connection-closed"}
        return None

    def _send(self, emitter: str, to: str, peer: list[int], following: dict[str, Any]) -> dict[str, Any] | None:
        if following.get("kind") == "DialStart":
            return {"type": "ConnectionCacheMiss", "peer": peer}
        if following.get("kind") == "DropOnSend" and following.get("reason") != "lossy":
            return None
        generation = self._generation(emitter, self._hops.get((emitter, to), to))
        return {"type": "ConnectionCacheHit", "peer": peer, "generation": generation}

    def _generation(self, emitter: str, hop: str) -> int:
        return max(1, self._dials[emitter, hop])  # a connection was dialled once, if only out of sight


def _next_of(line: EventLine, following: EventLine | None) -> dict[str, Any]:
    """Return the event of the next line if the same host wrote it at the same instant."""
    if following is None or (following.virtual_time_ns, following.host_id) != (line.virtual_time_ns, line.host_id):
        return {}
    return following.event
