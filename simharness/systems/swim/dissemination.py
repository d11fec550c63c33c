"""The gossip queue: which membership updates ride on the next message, and how often (reference: lambda log2 n)."""

from typing import Final

import msgspec

from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.wire import nested_cost, update_json

UNBOUNDED: Final = 1 << 62
"""Room of a message without a byte cap."""


def transmit_budget(multiplier: int, cluster_size: int) -> int:
    """Return how many messages carry one update: multiplier x max(1, ceil(log2 n)), n >= 2."""
    return multiplier * (max(cluster_size, 2) - 1).bit_length()


class _Entry(msgspec.Struct, gc=False):
    node: NodeId
    state: MemberState
    incarnation: int
    remaining: int
    text: bytes
    cost: int


def _priority(entry: _Entry) -> int:
    return -entry.state


class GossipQueue:
    """At most one update a node; Dead before Suspect before Alive, older first among equals."""

    __slots__ = ("_entries", "_multiplier", "_order")

    def __init__(self, multiplier: int) -> None:
        self._multiplier = multiplier
        self._entries: dict[NodeId, _Entry] = {}
        self._order: list[_Entry] = []

    def __len__(self) -> int:
        return len(self._order)

    def enqueue(self, node: NodeId, state: MemberState, incarnation: int, cluster_size: int) -> None:
        """Queue an update. One that strictly dominates the queued one takes its place with a full budget, else nothing."""
        entry = self._entries.get(node)
        if entry is not None and (incarnation, state) <= (entry.incarnation, entry.state):
            return
        text = update_json(node, state, incarnation)
        budget, cost = transmit_budget(self._multiplier, cluster_size), nested_cost(text)
        if entry is None:
            self._entries[node] = entry = _Entry(node, state, incarnation, budget, text, cost)
            self._order.append(entry)
            return
        entry.state, entry.incarnation, entry.remaining, entry.text, entry.cost = state, incarnation, budget, text, cost

    def take(self, limit: int, room: int = UNBOUNDED, first: tuple[NodeId, ...] = ()) -> list[bytes]:
        """Return up to `limit` updates as JSON texts whose wire cost fits `room`, and charge each one message.

        What is queued about the nodes of `first` goes before everything else, in their order.
        """
        order = self._order
        if len(order) > 1:
            order.sort(key=_priority)  # stable, and it persists
        ranked = [self._entries[node] for node in first if node in self._entries]
        ranked = [*ranked, *(entry for entry in order if entry.node not in first)] if ranked else order
        taken: list[bytes] = []
        spent = False
        for entry in ranked[:limit]:
            room -= entry.cost
            if room < 0:
                break
            taken.append(entry.text)
            entry.remaining -= 1
            spent = spent or entry.remaining == 0
        if spent:
            for entry in ranked[: len(taken)]:
                if entry.remaining == 0:
                    del self._entries[entry.node]
            self._order = [entry for entry in order if entry.remaining]
        return taken
