"""Snapshots: the tier-2 state of §9.3 without what our bundles add to it, and back."""

from typing import Any, Final

from simharness.bundle.production.names import Names, is_hex_id

_TIER2: Final[tuple[str, ...]] = (
    *("config", "self_node_id_hex", "self_incarnation", "metadata_local_version", "peers", "recent_messages"),
    "scraped_at_ms",
)
"""Production's fields, in its order."""


def tier2(snapshot: dict[str, Any]) -> dict[str, Any] | None:
    """Return the tier-2 state in a host's snapshot, exactly production's fields; None if the host runs no SWIM node.

    Raises:
        ValueError: If there is one and it is malformed.
    """
    if "self_node_id_hex" not in snapshot:
        return None
    state: dict[str, Any] = {field: snapshot[field] for field in _TIER2 if field in snapshot}
    if not is_hex_id(state["self_node_id_hex"]):
        raise ValueError("self_node_id_hex: must be 64 hexadecimal digits")
    for field in ("peers", "recent_messages"):
        if field in state:
            state[field] = [_without_twin(entry) for entry in _entries(state, field)]
    return state


def opinions(state: dict[str, Any] | None) -> dict[str, str]:
    """Return the state that a tier-2 state holds of each peer, by the peer's hex."""
    peers = [] if state is None else state.get("peers", [])
    return {peer["peer_node_id_hex"]: str(peer.get("state")) for peer in peers}


def from_body(body: dict[str, Any], names: Names) -> dict[str, Any]:
    """Return our form of a snapshot's body: the tier-2 state with host ids beside the hex, and the names that are registered.

    Raises:
        ValueError: If a block is malformed.
    """
    snapshot: dict[str, Any] = {}
    swim = body.get("swim")
    if swim is not None:
        if not isinstance(swim, dict) or not is_hex_id(swim.get("self_node_id_hex")):
            raise ValueError("body.swim.self_node_id_hex: must be 64 hexadecimal digits")
        for field, value in swim.items():
            if field in ("peers", "recent_messages"):
                snapshot[field] = [_with_twin(entry, names) for entry in _entries(swim, field)]
            else:
                snapshot[field] = value
            if field == "self_node_id_hex":
                snapshot["self_id"] = _name(value, names)
    registry = body.get("registry")
    if isinstance(registry, dict) and isinstance(registry.get("entries"), list):
        live = [entry for entry in registry["entries"] if isinstance(entry, dict) and not entry.get("is_tombstone")]
        snapshot["name_registry"] = {
            str(entry.get("name")): _name(entry.get("owner_node_id_hex"), names) for entry in live
        }
    return snapshot


def _entries(state: dict[str, Any], field: str) -> list[dict[str, Any]]:
    entries = state[field]
    if not isinstance(entries, list):
        raise ValueError(f"{field}: must be an array")  # noqa: TRY004  # malformed input is a ValueError here
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not is_hex_id(entry.get("peer_node_id_hex")):
            raise ValueError(f"{field}[{index}].peer_node_id_hex: must be 64 hexadecimal digits")
    return entries


def _without_twin(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "peer"}


def _with_twin(entry: dict[str, Any], names: Names) -> dict[str, Any]:
    twin: dict[str, Any] = {}
    for name, value in entry.items():
        twin[name] = value
        if name == "peer_node_id_hex":
            twin["peer"] = _name(value, names)
    return twin


def _name(key: Any, names: Names) -> str:
    return names.name_of(bytes.fromhex(key)) if is_hex_id(key) else str(key)
