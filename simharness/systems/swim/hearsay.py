"""Verify before believing: third-party suspicion of a peer that answered lately is checked first."""

from collections.abc import Mapping

from simharness.systems.swim.config import Defect
from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.members import MemberList, MemberState


class Hearsay:
    """Claims that are held back: peer -> highest claimed incarnation. Ages are in ticks."""

    __slots__ = ("_acked", "_age_limit", "_claims", "_defects", "_members")

    def __init__(self, members: MemberList, suspicion_timeout: int, defects: frozenset[Defect]) -> None:
        self._members = members
        self._age_limit = suspicion_timeout
        self._defects = defects
        self._claims: dict[NodeId, int] = {}
        self._acked: dict[NodeId, int] = {}

    @property
    def claims(self) -> Mapping[NodeId, int]:
        """What is held back now."""
        return self._claims

    def acked(self, peer: NodeId, tick: int) -> None:
        """Note an answer of `peer`: it is evidence, and settles what was said of it."""
        self._acked[peer] = tick
        # CLAIM_SURVIVES_ACK: what was answered is believed all the same, once the next answer is late
        if Defect.CLAIM_SURVIVES_ACK not in self._defects:
            self._claims.pop(peer, None)

    def holds(self, peer: NodeId, incarnation: int, tick: int) -> bool:
        """Take a Suspect claim into custody if the evidence speaks against it; tell whether it was taken.

        It is taken if it would be believed, its peer is Alive here, and an ack of that peer is younger than the
        suspicion timeout.
        """
        member = self._members.get(peer)
        if member is None or member.state is not MemberState.ALIVE or incarnation < member.incarnation:
            return False
        acked = self._acked.get(peer)
        if acked is None or tick - acked >= self._age_limit:
            return False
        self._claims[peer] = max(incarnation, self._claims.get(peer, 0))
        return True

    def release(self, peer: NodeId) -> int | None:
        """Return the claim about `peer`, no longer held, or None."""
        return self._claims.pop(peer, None)

    def overtaken(self, peer: NodeId, state: MemberState, incarnation: int) -> None:
        """Drop the claim about `peer` if the opinion of it has moved to or past it."""
        claim = self._claims.get(peer)
        if claim is not None and (incarnation, state) >= (claim, MemberState.SUSPECT):
            del self._claims[peer]

    def expired(self, tick: int) -> list[NodeId]:
        """Return the peers whose last ack has reached the age limit."""
        return [peer for peer in self._claims if tick - self._acked[peer] >= self._age_limit]

    def due(self) -> int | None:
        """Return the tick of the next expiry, or None."""
        return min([self._acked[peer] for peer in self._claims]) + self._age_limit if self._claims else None
