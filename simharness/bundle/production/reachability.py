"""What a node knows about reaching each of its peers, folded from the node's own records.

Production keeps this block and writes it into every snapshot. What a simulation cannot tell is null: "could not ask".
"""

from collections import deque
from typing import Any, Final

_RING: Final = 32
_EMPTY: Final[dict[str, Any]] = {
    "last_inbound_packet_at_ms": None,
    "last_inbound_via": None,
    "last_outbound_success_at_ms": None,
    "last_outbound_via": None,
    "last_dial_started_at_ms": None,
    "last_dial_outcome": None,
    "last_dial_duration_ms": None,
    "current_swim_opinion": "Unknown",
    "current_swim_opinion_since_ms": None,
    "swim_transition_history": None,
    "metadata_version_seen": None,
    "metadata_relay_url_seen": None,
}


class Reachability:
    """The block of one node."""

    def __init__(self) -> None:
        self._peers: dict[str, dict[str, Any]] = {}
        self._rings: dict[str, deque[dict[str, Any]]] = {}

    def follow(self, record: dict[str, Any]) -> None:
        """Take one record of the node, in order."""
        peer = record.get("peer")
        if type(peer) is not list:
            return
        at_ms, changed = record["wall_ms"], dict[str, Any]()
        match record["type"]:
            case "MessageReceived":
                changed = {"last_inbound_packet_at_ms": at_ms}
            case "MessageSent":
                changed = {"last_outbound_success_at_ms": at_ms}
            case "DialStarted":
                changed = {"last_dial_started_at_ms": at_ms}
            case "DialOutcome":
                changed = {
                    "last_dial_outcome": outcome_text(record["outcome"]),
                    "last_dial_duration_ms": record["duration_ms"],
                }
            case "SwimMetadataReceived":
                changed = {"metadata_version_seen": record["version"]}
            case "SwimTransition":
                changed = {"current_swim_opinion": record["to"], "current_swim_opinion_since_ms": at_ms}
        if not changed:
            return
        key = bytes(peer).hex()
        self._row(key).update(changed)
        if "current_swim_opinion" in changed:
            step = {"from": record["from"], "to": record["to"], "at_ms": at_ms, "reason": record["reason"]}
            self._rings[key].append(step)

    def rows(self, states: dict[str, str]) -> list[dict[str, Any]]:
        """Return the block, sorted by peer. An opinion in `states`, by peer in hex, is newer than any transition followed here."""
        for key in states:
            self._row(key)
        rows = []
        for key in sorted(self._peers):
            row = {"peer_node_id_hex": key, **self._peers[key], "swim_transition_history": [*self._rings[key]]}
            state = states.get(key, row["current_swim_opinion"])
            if state != row["current_swim_opinion"]:
                row |= {"current_swim_opinion": state, "current_swim_opinion_since_ms": None}
            rows.append(row)
        return rows

    def _row(self, key: str) -> dict[str, Any]:
        row = self._peers.get(key)
        if row is None:
            row = self._peers[key] = dict(_EMPTY)
            self._rings[key] = deque(maxlen=_RING)
        return row


def outcome_text(outcome: Any) -> str:
    """Return the text of a dial's outcome."""
    return f"Error({outcome['Error']})" if isinstance(outcome, dict) else str(outcome)
