"""Which candidates of a shrink are gentler: harsher ones may fail on code that is correct (ruling K11).

A candidate may harm nobody more than the scenario that it comes from does, at any time (`harm`), and takes nothing from the peers
that stay which they need to reach each other (`reach`). Nor may it take away what the assertion needs: one that is about the
consequences of something, such as a death that must be noticed, also fails where that never happens.
"""

import msgspec

from simharness.contracts.assertions import (
    AllAliveAt,
    AllAliveThroughout,
    Assertion,
    ConvergenceAfter,
    DeadPeerResurrectsWithin,
    EventCount,
    NameResolvesWithin,
    PeerDetectedDeadWithin,
    TrainProgress,
)
from simharness.contracts.host import KindRegistry, accepted
from simharness.contracts.mutations import Mutation
from simharness.contracts.scenario import Scenario
from simharness.stateful.harm import Harm, no_harsher
from simharness.stateful.reach import Reach, no_worse
from simharness.stateful.smaller import mutation_without

_LOOKS_BACK = (AllAliveAt, AllAliveThroughout, DeadPeerResurrectsWithin)
"""What takes the latest snapshot for what holds now, so that it may fail because one is missing."""


class Gentler:
    """Tells which candidates are no harsher than one scenario.

    Args:
        original: What is to be shrunk.
        kinds: The host kinds.
        by_mutations: Whether the failure needs mutations, so that fewer of them cannot be what makes it fail.
    """

    def __init__(self, original: Scenario, kinds: KindRegistry, *, by_mutations: bool) -> None:
        self._original, self._by_mutations = original, by_mutations
        self._halting = tuple([peer.id for peer in original.peers if _may_halt(kinds, peer.kind)])
        self._harm, self._reach = Harm(original, self._halting), Reach(original)

    def allows(self, candidate: Scenario) -> bool:
        """Tell whether a candidate is no harsher."""
        return (
            all(self._leaves_needed(assertion, candidate) for assertion in candidate.assertions)
            and no_harsher(Harm(candidate, self._halting), self._harm)
            and (_same_network(candidate, self._original) or no_worse(Reach(candidate), self._reach))
        )

    def _leaves_needed(self, assertion: Assertion, candidate: Scenario) -> bool:
        """Tell whether a candidate has what an assertion needs to hold."""
        original = self._original
        kept = frozenset([snapshot.at_ns for snapshot in candidate.snapshots])
        for snapshot in original.snapshots:
            if (
                _looks_at(assertion, snapshot.at_ns)
                and snapshot.at_ns <= candidate.duration_ns
                and snapshot.at_ns not in kept
            ):
                return False
        match assertion:
            case PeerDetectedDeadWithin(peer=peer, after_ns=after_ns, within_ns=within_ns):
                return _about(candidate, peer, after_ns + within_ns) == _about(original, peer, after_ns + within_ns)
            case EventCount(min=int()):
                less = original.mutations if not self._by_mutations else candidate.mutations
                changed = {"mutations": less, "snapshots": candidate.snapshots, "assertions": candidate.assertions}
                return msgspec.structs.replace(original, **changed) == candidate
            case TrainProgress():
                return len(candidate.peers) == len(original.peers)
        return True


def _looks_at(assertion: Assertion, at_ns: int) -> bool:
    """Tell whether an assertion may fail because there is no snapshot at an instant."""
    match assertion:
        case (
            ConvergenceAfter(within_ns=within_ns, after_ns=from_ns)
            | PeerDetectedDeadWithin(within_ns=within_ns, after_ns=from_ns)
        ):
            return from_ns < at_ns <= from_ns + within_ns
        case NameResolvesWithin(within_ns=within_ns, from_ns=from_ns):
            return from_ns <= at_ns <= from_ns + within_ns
    return isinstance(assertion, _LOOKS_BACK)


def _same_network(one: Scenario, other: Scenario) -> bool:
    fields = ("peers", "relays", "meshes", "links", "default_link")
    return all(getattr(one, field) == getattr(other, field) for field in fields)


def _about(scenario: Scenario, peer: str, until_ns: int) -> list[Mutation]:
    """Return the mutations up to an instant that name a peer, in their order."""
    in_time = sorted(scenario.mutations, key=lambda mutation: mutation.at_ns)
    return [one for one in in_time if one.at_ns <= until_ns and mutation_without(one, peer) != one]


def _may_halt(kinds: KindRegistry, kind: str) -> bool:
    """Tell whether peers of a kind may halt by themselves: those that have a worker which may exit."""
    found = kinds.get(kind)
    return found is None or "worker_exit" in accepted(found)
