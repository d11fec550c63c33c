"""The gossip queue: which membership updates ride on the next message, and how often (reference: lambda log2 n)."""

from typing import Final

import msgspec

from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.sizes import nested_cost
from simharness.systems.swim.wire import update_json

UNBOUNDED: Final = 1 << 62
"""Room of a message without a byte cap."""


def transmit_budget(multiplier: int, cluster_size: int) -> int:
    """Return how many messages carry one update: multiplier x max(1, ceil(log2 n)), n >= 2."""
    return multiplier * (max(cluster_size, 2) - 1).bit_length()


class _Entry(msgspec.Struct, gc=False):
    node: NodeId
    state: MemberState
    incarnation: int
    accuser: NodeId | None
    remaining: int
    text: bytes
    cost: int


def _priority(entry: _Entry) -> int:
    return -entry.state


class GossipQueue:
    """At most one update a node and accuser; Dead before Suspect before Alive, older first among equals."""

    __slots__ = ("_entries", "_multiplier", "_order", "_seconds")

    def __init__(self, multiplier: int) -> None:
        self._multiplier = multiplier
        self._entries: dict[NodeId, _Entry] = {}
        self._seconds: dict[tuple[NodeId, NodeId | None], _Entry] = {}  # further accusations of what an entry says
        self._order: list[_Entry] = []

    def __len__(self) -> int:
        return len(self._order)

    def enqueue(
        self,
        node: NodeId,
        state: MemberState,
        incarnation: int,
        cluster_size: int,
        accuser: NodeId | None = None,
    ) -> None:
        """Queue an update. One that strictly dominates the queued one takes its place with a full budget, else nothing.

        An accusation that is queued already by another accuser's name goes beside that one (Lifeguard).
        """
        entry, claim = self._entries.get(node), (incarnation, state)
        held = (-1, state) if entry is None else (entry.incarnation, entry.state)
        beside = False
        if entry is not None and claim <= held:
            beside = claim == held and accuser not in (None, entry.accuser) and (node, accuser) not in self._seconds
            if not beside:
                return
        text = update_json(node, state, incarnation, accuser)
        budget, cost = transmit_budget(self._multiplier, cluster_size), nested_cost(text)
        if entry is not None and not beside:
            entry.state, entry.incarnation, entry.accuser = state, incarnation, accuser
            entry.remaining, entry.text, entry.cost = budget, text, cost
            if self._seconds:
                self._forget_seconds(node, entry)
            return
        added = _Entry(node, state, incarnation, accuser, budget, text, cost)
        self._order.append(added)
        if beside:
            self._seconds[node, accuser] = added
        else:
            self._entries[node] = added

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
                    self._drop(entry)
            self._order = [entry for entry in order if entry.remaining]
        return taken

    def _drop(self, entry: _Entry) -> None:
        """Take an entry that is spent out of the tables; a further accusation takes the place of a first one."""
        node = entry.node
        if self._entries[node] is not entry:
            del self._seconds[node, entry.accuser]
            return
        further = next((key for key in self._seconds if key[0] == node), None)
        if further is None:
            del self._entries[node]
        else:
            self._entries[node] = self._seconds.pop(further)

    def _forget_seconds(self, node: NodeId, kept: _Entry) -> None:
        self._order = [entry for entry in self._order if entry.node != node or entry is kept]
        self._seconds = {key: entry for key, entry in self._seconds.items() if key[0] != node}
