"""Lifeguard (Dadgar, Phillips, Currey 2018): a node that may itself be unwell takes more time before it blames others.

Each part is there whether Lifeguard is on or not; off, the multiplier stays 1, the suspicion timeout stays as configured, and
nobody is accused by name. Times are in ticks.
"""

from collections.abc import Sequence
from typing import Final

from simharness.systems.swim.config import Lifeguard
from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.members import MemberList

_FRACTION_BITS: Final = 24


def log2_fixed(value: int) -> int:
    """Return log2 of a value of at least 1 in units of 2**-24, rounded down: no float decides anything here."""
    whole = value.bit_length() - 1
    scale = 64
    mantissa = (value << scale) >> whole  # in [1, 2)
    result = whole
    for _ in range(_FRACTION_BITS):
        mantissa = (mantissa * mantissa) >> scale
        carry = mantissa >> (scale + 1)
        mantissa >>= carry
        result = 2 * result + carry
    return result


class Health:
    """The Local Health Multiplier: what the node's own experience says about the node itself."""

    __slots__ = ("_most", "score")

    def __init__(self, lifeguard: Lifeguard | None) -> None:
        self._most = 0 if lifeguard is None else lifeguard.max_health_score
        self.score = 0
        """0 is well. One down for every answered probe, one up for every refutation and for every nack that a failed probe
        misses; relays that all send theirs show that the node is not to blame. One up for a failed probe without relays.
        """

    @property
    def multiplier(self) -> int:
        """What probe interval and probe timeout are multiplied with: score + 1."""
        return self.score + 1

    def better(self) -> None:
        """Note an answered probe."""
        self.score = max(0, self.score - 1)

    def worse(self, by: int = 1) -> None:
        """Note a refutation, or what a failed probe says about the node."""
        self.score = min(self._most, self.score + by)


class Accusations:
    """Who suspects whom by a failed probe of their own. The more there are, the sooner a suspicion becomes a death."""

    __slots__ = ("_accusers", "_base", "_incarnations", "_lifeguard", "_members")

    def __init__(self, lifeguard: Lifeguard | None, members: MemberList, base: int) -> None:
        self._lifeguard = lifeguard
        self._members = members
        self._base = base
        self._incarnations: dict[NodeId, int] = {}
        self._accusers: dict[NodeId, list[NodeId]] = {}

    def accuse(self, peer: NodeId, incarnation: int, accuser: NodeId | None) -> bool:
        """Take an accusation at an incarnation; tell whether it is news that others should hear.

        It is not if it is older than the opinion held or than another accusation, if it was heard before, or if there are enough.
        """
        if self._lifeguard is None or accuser is None:
            return False
        member = self._members.get(peer)
        known = self._incarnations.get(peer, 0)
        if member is None or incarnation < max(member.incarnation, known):
            return False
        if incarnation > known:
            self._accusers[peer] = []
        accusers = self._accusers.setdefault(peer, [])
        if accuser in accusers or len(accusers) > self._lifeguard.confirmations:
            return False
        self._incarnations[peer] = incarnation
        accusers.append(accuser)
        return True

    def of(self, peer: NodeId) -> Sequence[NodeId | None]:
        """Return the accusers of `peer` at its incarnation, in the order in which they were heard; (None,) if none is known."""
        member = self._members.get(peer)
        current = member is not None and peer in self._accusers and member.incarnation == self._incarnations[peer]
        return self._accusers[peer] if current else (None,)

    def cleared(self, peer: NodeId, incarnation: int) -> None:
        """Forget what was said of `peer` before it reached this incarnation, alive or dead."""
        if incarnation >= self._incarnations.get(peer, 0):
            self._incarnations.pop(peer, None)
            self._accusers.pop(peer, None)

    def timeout(self, peer: NodeId) -> int:
        """Return how long the own suspicion of `peer` lasts.

        highest - (highest - base) x log(C + 1) / log(K + 1), where C of K others have confirmed it; the base if too few others
        are left to confirm anything.
        """
        lifeguard, base = self._lifeguard, self._base
        if lifeguard is None:
            return base
        wanted = min(lifeguard.confirmations, self._members.cluster_size - 2)
        if wanted < 1:
            return base
        others = len([accuser for accuser in self.of(peer) if accuser not in (None, self._members.self_id)])
        slack = (lifeguard.max_suspicion_factor - 1) * base
        gone = slack * log2_fixed(min(others, wanted) + 1) // log2_fixed(wanted + 1)
        return base + slack - gone
