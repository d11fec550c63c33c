"""Assertions of a property before the run is known: for each peer, for each kill, in the quiet phase.

Each class is named after the assertion it makes (§10.1). A template is bound twice: to what is known while a run goes on, with
windows that reach for ever, so that a failure shows at once; and to the finished run, whose end closes every open window.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from simharness.contracts import assertions as made
from simharness.contracts.assertions import Assertion
from simharness.contracts.mutations import Mutation, PeerKill, PeerResurrect
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS, U63_MAX

FOREVER_NS: Final = U63_MAX
"""End of the windows of a run that is still going on."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a run when templates are bound."""

    scenario: Scenario
    end_ns: int = FOREVER_NS
    quiet_from_ns: int | None = None
    """When everything had been healed and every timed fault was over; None if there was no quiet phase."""
    mutations: tuple[Mutation, ...] = ()

    def peers(self, kind: str | None) -> tuple[str, ...]:
        """Return the peers, of one host kind if it is named."""
        return tuple(peer.id for peer in self.scenario.peers if kind in (None, peer.kind))


Binder = Callable[[Facts], Iterator[Assertion]]


class Template(msgspec.Struct, frozen=True):
    """Makes assertions out of the facts of a run."""

    bind: Binder

    def __call__(self, facts: Facts) -> Iterator[Assertion]:
        """Yield the assertions."""
        return self.bind(facts)


Declared = Template | Assertion
"""What a property may declare: a template, or an assertion as it would stand in a scenario."""


def bound(declared: tuple[Declared, ...], facts: Facts) -> tuple[Assertion, ...]:
    """Return the assertions that the declarations make of these facts, in declared order."""
    found: list[Assertion] = []
    for item in declared:
        found += item(facts) if isinstance(item, Template) else (item,)
    return tuple(found)


def deadline_ns(assertion: Assertion) -> int:
    """Return the latest instant that the assertion names, 0 if it names none; a run must last that long (§8.2)."""
    given: dict[str, int | None] = msgspec.structs.asdict(assertion)
    after = given.get("after_ns", given.get("from_ns")) or 0
    named = (given.get("at_ns"), given.get("window_start_ns"), given.get("window_end_ns"))
    return max(after + (given.get("within_ns") or 0), *(instant or 0 for instant in named))


def _window(facts: Facts, from_ms: int, until_ms: int | None) -> tuple[int, int]:
    """Return a window in ns; it ends with the run at the latest."""
    end_ns = facts.end_ns if until_ms is None else min(until_ms * NS_PER_MS, facts.end_ns)
    return min(from_ms * NS_PER_MS, end_ns), end_ns


class NoFlapWhileProbesOk:
    """Templates of `no_flap_while_probes_ok`."""

    @staticmethod
    def each_peer(*, kind: str | None = None, from_ms: int = 0, until_ms: int | None = None) -> Template:
        """One for each peer, over a window of the run."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            start, end = _window(facts, from_ms, until_ms)
            for peer in facts.peers(kind):
                yield made.NoFlapWhileProbesOk(peer=peer, window_start_ns=start, window_end_ns=end)

        return Template(bind)


class NoDeadWhenProbesOk:
    """Templates of `no_dead_when_probes_ok`."""

    @staticmethod
    def each_peer(*, kind: str | None = None, from_ms: int = 0, until_ms: int | None = None) -> Template:
        """One for each peer, over a window of the run."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            start, end = _window(facts, from_ms, until_ms)
            for peer in facts.peers(kind):
                yield made.NoDeadWhenProbesOk(peer=peer, window_start_ns=start, window_end_ns=end)

        return Template(bind)


class SelfIncarnationBounded:
    """Templates of `self_incarnation_bounded`."""

    @staticmethod
    def each_peer(*, max_value: int, kind: str | None = None) -> Template:
        """One for each peer."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            for peer in facts.peers(kind):
                yield made.SelfIncarnationBounded(peer=peer, max_value=max_value)

        return Template(bind)


class WorkerAliveThroughout:
    """Templates of `worker_alive_throughout`."""

    @staticmethod
    def each_peer(*, kind: str = "stage", from_ms: int = 0, until_ms: int | None = None) -> Template:
        """One for each stage, over a window of the run."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            start, end = _window(facts, from_ms, until_ms)
            for peer in facts.peers(kind):
                yield made.WorkerAliveThroughout(peer=peer, window_start_ns=start, window_end_ns=end)

        return Template(bind)


class AllAliveThroughout:
    """Templates of `all_alive_throughout`."""

    @staticmethod
    def all_peers(*, kind: str | None = None, from_ms: int = 0, until_ms: int | None = None) -> Template:
        """One over all peers, over a window of the run."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            start, end = _window(facts, from_ms, until_ms)
            yield made.AllAliveThroughout(peers=facts.peers(kind), window_start_ns=start, window_end_ns=end)

        return Template(bind)


class ConvergenceAfter:
    """Templates of `convergence_after`."""

    @staticmethod
    def in_quiet_phase(*, within_ms: int, kind: str | None = None) -> Template:
        """All peers agree within this time of the quiet phase; made only if there is one."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            after_ns = facts.quiet_from_ns
            if after_ns is not None:
                within_ns = within_ms * NS_PER_MS
                yield made.ConvergenceAfter(after_ns=after_ns, within_ns=within_ns, peers=facts.peers(kind))

        return Template(bind)


class PeerDetectedDeadWithin:
    """Templates of `peer_detected_dead_within`."""

    @staticmethod
    def each_kill(*, within_ms: int) -> Template:
        """One for each peer that was killed once and never brought back, from its kill on."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            kills = [mutation for mutation in facts.mutations if isinstance(mutation, PeerKill)]
            back = [mutation.peer for mutation in facts.mutations if isinstance(mutation, PeerResurrect)]
            for kill in kills:
                if kill.peer not in back:
                    within_ns = within_ms * NS_PER_MS
                    yield made.PeerDetectedDeadWithin(peer=kill.peer, after_ns=kill.at_ns, within_ns=within_ns)

        return Template(bind)


class DeadPeerResurrectsWithin:
    """Templates of `dead_peer_resurrects_within`."""

    @staticmethod
    def in_quiet_phase(*, within_ms: int, kind: str | None = None) -> Template:
        """One for each peer, from the beginning of the quiet phase on; made only if there is one."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            after_ns = facts.quiet_from_ns
            for peer in facts.peers(kind) if after_ns is not None else ():
                assert after_ns is not None
                yield made.DeadPeerResurrectsWithin(peer=peer, after_ns=after_ns, within_ns=within_ms * NS_PER_MS)

        return Template(bind)


class RelayQueueDepthBounded:
    """Templates of `relay_queue_depth_bounded`."""

    @staticmethod
    def each_relay(*, max_bytes: int) -> Template:
        """One for each relay, over the whole run."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            for relay in facts.scenario.relays:
                yield made.RelayQueueDepthBounded(relay=relay.id, max_bytes=max_bytes)

        return Template(bind)


class NameResolvesWithin:
    """Templates of `name_resolves_within`."""

    @staticmethod
    def everywhere(*, name: str, within_ms: int, from_ms: int = 0, kind: str | None = None) -> Template:
        """Every peer of the kind shows the name in time."""

        def bind(facts: Facts) -> Iterator[Assertion]:
            yield made.NameResolvesWithin(
                name=name,
                observers=facts.peers(kind),
                within_ns=within_ms * NS_PER_MS,
                from_ns=from_ms * NS_PER_MS,
            )

        return Template(bind)
