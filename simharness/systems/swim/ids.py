"""Node identities: 32 opaque bytes, ordered bytewise, and their host names at the boundary."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType

import orjson

NodeId = NewType("NodeId", bytes)
"""32 opaque bytes. Members are kept and iterated in the order of these bytes."""

ID_BYTES: Final = 32


@lru_cache(maxsize=65_536)
def node_id(host_id: str) -> NodeId:
    """Return the identity of a named host: SHA-256 of the name's UTF-8 bytes."""
    return NodeId(hashlib.sha256(host_id.encode()).digest())


@lru_cache(maxsize=65_536)
def id_json(node: NodeId) -> bytes:
    """Return the wire form of an id, an array of 32 decimal bytes. Cached: it is part of every message."""
    return orjson.dumps(list(node))


class Directory:
    """Host names of the known ids. One instance may serve every node of a process: what it answers never changes."""

    __slots__ = ("_names", "_twins", "ids")

    def __init__(self, host_ids: Iterable[str]) -> None:
        self.ids = {host_id: node_id(host_id) for host_id in host_ids}
        self._names = {node: host_id for host_id, node in self.ids.items()}
        self._twins: dict[NodeId, bytes] = {}

    def host(self, node: NodeId) -> str | None:
        """Return the host name of `node`, or None if it is unknown."""
        return self._names.get(node)

    def name(self, node: NodeId) -> str:
        """Return the host name of `node`, or its lower-case hex if it is unknown."""
        return self._names.get(node) or node.hex()

    def twin(self, node: NodeId) -> bytes:
        """Return two JSON fields that name `node`: its hex, and beside it its host name."""
        found = self._twins.get(node)
        if found is None:
            found = b'"peer_node_id_hex":"%b","peer":%b' % (node.hex().encode(), orjson.dumps(self.name(node)))
            if node in self._names:  # what the network invents must not grow a shared table
                self._twins[node] = found
        return found
