"""The names of a run's nodes, each way: host id, 32-byte node id, label."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

from simharness.systems.swim.ids import ID_BYTES, node_id

ENGINE: Final = "engine"
"""Role of the node that holds what belongs to no host: mutations, and whatever else has no host and no relay."""

ENGINE_ID: Final = hashlib.sha256(b".engine").digest()
"""Its id. No host can have it: a host id does not start with a dot (ruling L9)."""

RELAY: Final = "relay"
STAGE: Final = "stage"
SHORT: Final = 8
"""Hex digits of a shortened node id."""

_HEX: Final = re.compile(r"[0-9a-f]{64}")


def is_hex_id(text: Any) -> TypeGuard[str]:
    """Tell whether `text` is a node id in lower-case hex."""
    return isinstance(text, str) and _HEX.fullmatch(text) is not None


class Node(NamedTuple):
    """One node of a run."""

    label: str
    node_id: bytes | None
    """None for a directory that neither the manifest nor a boot record explains."""
    name: str
    """The host id; where none is known, the label. Empty for the engine."""
    identity: dict[str, Any] | None
    """The boot record."""
    role: str | None = None
    stage_index: int | None = None
    synthetic: bool = False
    """No process of the run: the node of a simulated relay, or of the engine. Its records have no host."""
    finalize: Any = None
    finalize_recorded: bool = False
    orphan: bool = False
    """Not named by the manifest."""


class Names:
    """Looks the nodes of a run up. What an id that belongs to none of them is called is derived from the id."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        known = [(node, node.node_id) for node in nodes if node.node_id is not None]
        self._ids = {node.name: [*key] for node, key in known if node.name}
        self._names = {key: node.name for node, key in known}
        self._labels = {key: node.label for node, key in known}

    def id_of(self, name: str) -> list[int] | None:
        """Return the id of a node by its name, or the id that a name in hex spells out; None if neither is known."""
        found = self._ids.get(name)
        if found is None and is_hex_id(name):
            key = bytes.fromhex(name)
            return None if key in self._names else [*key]
        return found

    def name_of(self, node: Sequence[int]) -> str:
        """Return the host id of a node, or its hex if it is unknown."""
        key = bytes(node)
        return self._names.get(key) or key.hex()

    def label_of(self, node: Sequence[int]) -> str:
        """Return the label of a node; an unknown one is called after its first digits."""
        key = bytes(node)
        return self._labels.get(key) or f"node-{key.hex()[:SHORT]}"

    def label_of_hex(self, text: Any) -> str:
        """Return the label of the node with this id in hex; what is no such id stands for itself."""
        return self.label_of(bytes.fromhex(text)) if is_hex_id(text) else str(text)


def host_of(identity: dict[str, Any] | None, key: bytes | None) -> str | None:
    """Return the host id that a boot record proves: the `hostname` whose SHA-256 is the node's id."""
    hostname = None if identity is None else identity.get("hostname")
    return hostname if isinstance(hostname, str) and node_id(hostname) == key else None


def labelled(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Give every node its label as the collector does, and sort by it.

    The label is the role, for a stage with its index; without a boot record the first digits of the id. Where two clash, the digits
    are appended to both.
    """
    wanted = [_label(node) for node in nodes]
    counts = Counter(wanted)
    unique = [
        label if counts[label] == 1 else f"{label}-{_short(node)}" for node, label in zip(nodes, wanted, strict=True)
    ]
    named = [node._replace(label=label) for node, label in zip(nodes, unique, strict=True)]
    return tuple(sorted(named, key=lambda node: node.label))


def _label(node: Node) -> str:
    if node.identity is None or node.role is None:
        return f"node-{_short(node)}"
    if node.role == STAGE and node.stage_index is not None:
        return f"{STAGE}-{node.stage_index}"
    return node.role


def _short(node: Node) -> str:
    assert node.node_id is not None
    assert len(node.node_id) == ID_BYTES
    return node.node_id.hex()[:SHORT]
