"""The member list: one opinion a node, merged by the total order (incarnation, state)."""

import hashlib
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from itertools import count
from typing import Final

import msgspec

from simharness.systems.swim.config import MAX_INCARNATION, Defect
from simharness.systems.swim.ids import NodeId

_BUILT: Final = count()
"""Salt of `Defect.UNORDERED_MEMBERS`: the one process-wide state of the package, drawn from only while that defect is on."""


class MemberState(IntEnum):
    """What a node thinks of another; the value is the priority at equal incarnation."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2


STATE_NAMES: Final = ("Alive", "Suspect", "Dead")
"""Wire and diagnostics spelling, by `MemberState`."""


class Member(msgspec.Struct, gc=False):
    """One entry. Kept small: a thousand nodes hold a thousand each."""

    state: MemberState
    incarnation: int


def _salted(salt: int) -> Callable[[NodeId], bytes]:
    prefix = salt.to_bytes(8, "big")
    return lambda node: hashlib.sha256(prefix + node).digest()


class MemberList:
    """Opinions about all other nodes, in the order of their ids, and the node's own incarnation. Never holds self."""

    __slots__ = (
        "_alive",
        "_dead",
        "_defects",
        "_key",
        "_members",
        "_order",
        "alive_count",
        "self_id",
        "self_incarnation",
    )

    def __init__(self, self_id: NodeId, *, incarnation: int = 0, defects: frozenset[Defect] = frozenset()) -> None:
        self.self_id = self_id
        self.self_incarnation = incarnation
        self.alive_count = 0
        self._defects = defects
        self._members: dict[NodeId, Member] = {}
        self._order: list[NodeId] = []
        self._alive: list[NodeId] | None = None
        self._dead: list[NodeId] | None = None
        self._key: Callable[[NodeId], bytes] | None = None
        if Defect.UNORDERED_MEMBERS in defects:  # B9: the order of the deployed hash map changed with every node built
            self._key = _salted(next(_BUILT))

    def preload(self, members: Iterable[tuple[NodeId, int]]) -> None:
        """Hold each (id, incarnation) Alive, as a node does that starts with a known membership. Self is skipped."""
        for node, incarnation in members:
            if node != self.self_id and node not in self._members:
                self._members[node] = Member(MemberState.ALIVE, incarnation)
                self._order.append(node)
                self.alive_count += 1
        self._order.sort(key=self._key)
        self._alive = None

    def get(self, node: NodeId) -> Member | None:
        """Return the entry of `node`, which the caller must not change, or None."""
        return self._members.get(node)

    def __iter__(self) -> Iterator[tuple[NodeId, Member]]:
        return ((node, self._members[node]) for node in self._order)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def cluster_size(self) -> int:
        """Non-Dead members and self."""
        return self.alive_count + 1

    def alive_members(self) -> list[NodeId]:
        """Return every id that is not Dead (Suspects included), in order. The list is shared: do not change it."""
        if self._alive is None:
            members = self._members
            self._alive = [node for node in self._order if members[node].state is not MemberState.DEAD]
        return self._alive

    def dead_members(self) -> list[NodeId]:
        """Return every Dead id, in order. The list is shared: do not change it."""
        if self._dead is None:
            members = self._members
            self._dead = [node for node in self._order if members[node].state is MemberState.DEAD]
        return self._dead

    def apply(self, node: NodeId, state: MemberState, incarnation: int) -> bool:
        """Merge one claim; tell whether it was news. A join over (incarnation, state): commutative, idempotent, monotone."""
        if node == self.self_id:
            return False
        member = self._members.get(node)
        if member is None:
            self._members[node] = Member(state, incarnation)
            insort(self._order, node, key=self._key)
            self.alive_count += state is not MemberState.DEAD
            self._alive = self._dead = None
            return True
        if incarnation < member.incarnation or (incarnation == member.incarnation and state <= member.state):
            return False
        self._move(member, state)
        member.incarnation = incarnation
        return True

    def suspect(self, node: NodeId) -> bool:
        """Turn an Alive entry Suspect at its incarnation, and tell whether it was one.

        An entry at the highest incarnation is left alone: its node could not refute (ruling S3).
        """
        member = self._members.get(node)
        if member is None or member.state is not MemberState.ALIVE or member.incarnation == MAX_INCARNATION:
            return False
        self._move(member, MemberState.SUSPECT)
        return True

    def declare_dead(self, node: NodeId) -> bool:
        """Turn a Suspect entry Dead, and tell whether it was one."""
        member = self._members.get(node)
        if member is None or member.state is not MemberState.SUSPECT:
            return False
        self._move(member, MemberState.DEAD)
        return True

    def refute(self, claim: int) -> bool:
        """Answer a Suspect or Dead claim about self at incarnation `claim`; tell whether the own incarnation rose."""
        own = self.self_incarnation
        if claim < own and Defect.REFUTE_STALE_CLAIM not in self._defects:  # B1: a claim below own is already answered
            return False
        if own == MAX_INCARNATION:  # ruling S3: nothing outbids it, so nothing need be answered
            return False
        # B5: one step needs as many rounds as the claim is ahead, which a restarted node pays in full
        self.self_incarnation = own + 1 if Defect.ONE_STEP_REFUTE in self._defects else max(own, claim) + 1
        return True

    def _move(self, member: Member, state: MemberState) -> None:
        if (member.state is MemberState.DEAD) != (state is MemberState.DEAD):
            self.alive_count += -1 if state is MemberState.DEAD else 1
            self._alive = self._dead = None
        member.state = state
