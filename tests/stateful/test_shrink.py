"""Shrinking: the same failure, nothing left to take away, the same answer every time."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simharness.contracts.assertions import EventCount
from simharness.contracts.links import LinkRef
from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    Heal,
    LossBurst,
    Partition,
    PeerKill,
    PeerPause,
    PeerSlow,
)
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario, SnapshotDecl
from simharness.core.errors import EngineAbort, InputError
from simharness.hosts.kinds import Kinds
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from simharness.stateful import smaller
from simharness.stateful.gentler import Gentler
from simharness.stateful.playing import play
from simharness.stateful.shrink import Failure, Shrinker, Shrunk
from tests.engine.scripted import MS, POLICY

FLAP = Path(__file__).parents[2] / "scenarios" / "reproduction" / "gossip_flap.toml"


def shrink(scenario: Scenario, **more: int) -> Shrunk:
    return Shrinker(scenario, Kinds(), **more).run()  # type: ignore[arg-type]


def noisy() -> Scenario:
    """Five echo peers and eleven mutations, of which one partition makes the only failure: messages lost in flight."""
    peers = tuple(
        PeerDecl(id=i, kind="echo", initial_state="ready", kind_config={"targets": [j for j in "abcde" if j != i]})
        for i in "abcde"
    )
    bursts = tuple(
        LossBurst(at_ns=n * 40 * MS, links=(LinkRef(source="d", target="e"),), prob_ppm=0, duration_ns=7 * MS)
        for n in range(8)
    )
    cut = Partition(at_ns=200 * MS, peers_a=("a", "b"), peers_b=("c", "d"))
    scenario = Scenario(
        name="noisy",
        seed=900,
        duration_ns=800 * MS,
        default_tick_period_ns=20 * MS,
        default_link=replace(POLICY, latency_ns=30 * MS, jitter_stddev_ns=MS),
        peers=peers,
        meshes=(MeshDecl(),),
        links=(LinkDecl(source="a", target="b"),),
        mutations=(*bursts, cut, PeerKill(at_ns=400 * MS, peer="e"), Heal(at_ns=600 * MS)),
        snapshots=tuple(SnapshotDecl(at_ns=n * 100 * MS) for n in range(8)),
        assertions=(
            EventCount(event_kind="EchoReceived", min=1),
            EventCount(event_kind="DropOnDelivery", max=0, peer="a"),
            EventCount(event_kind="DropOnDelivery", max=0, peer="b"),
        ),
    )
    return loads(emit(scenario), Kinds())


def test_shrinks_to_what_matters() -> None:
    """Of five peers, eleven mutations, eight snapshots and three assertions, one cut and its end are left."""
    shrunk = shrink(noisy())
    small = shrunk.scenario
    assert shrunk.complete
    assert shrunk.failure == Failure("event_count", "a")  # the first that failed, about the same peer
    assert [type(m) for m in small.mutations] == [Partition, Heal]  # a cut that lasts for ever would be harsher
    assert len(small.peers) == 2
    assert small.peers[0].id == "a"
    assert small.snapshots == ()
    assert len(small.assertions) == 1
    assert small.seed == 900  # another seed is another run
    assert small.mutations[0].at_ns == 200 * MS
    assert small.mutations[1].at_ns == small.duration_ns == 201 * MS
    assert small.default_link.latency_ns < 30 * MS
    assert small.default_link.jitter_stddev_ns == 0


def test_local_minimum() -> None:
    """On the result, no candidate of any pass that is no harsher fails in the same way: checked here by running them all."""
    shrunk = shrink(noisy())
    again = Shrinker(shrunk.scenario, Kinds())
    allows = Gentler(noisy(), Kinds(), by_mutations=True).allows
    tried = 0
    for attempt in smaller.PASSES:
        for candidate in attempt(again.best):
            if allows(candidate):
                tried += 1
                assert again._fails(candidate) is None, emit(candidate)
    assert tried


def test_idempotent_and_repeatable() -> None:
    """Shrinking twice from the start gives one file; shrinking that file gives it back."""
    first, second = shrink(noisy()), shrink(noisy())
    assert emit(first.scenario) == emit(second.scenario)
    assert emit(shrink(first.scenario).scenario) == emit(first.scenario)


def test_the_flap_becomes_small() -> None:
    """The gossip flap needs at most four peers and no mutation, keeps its assertion and peer, and replays from its file."""
    kinds = Kinds()
    shrunk = shrink(load(FLAP, kinds).scenario)
    assert shrunk.failure == Failure("no_flap_while_probes_ok", "orchestrator")
    assert len(shrunk.scenario.peers) <= 4
    assert len(shrunk.scenario.mutations) == 0
    assert shrunk.scenario.duration_ns < 60_000 * MS
    assert loads(emit(shrunk.scenario), kinds) == shrunk.scenario
    replayed = shrink(shrunk.scenario)
    assert (replayed.failure, replayed.failed_at_ns) == (shrunk.failure, shrunk.failed_at_ns)


def test_nothing_to_shrink() -> None:
    """A scenario on which nothing fails is refused."""
    passing = replace(noisy(), assertions=(EventCount(event_kind="EchoReceived", min=1),))
    with pytest.raises(InputError, match="nothing to shrink"):
        shrink(passing)


def test_budget() -> None:
    """When the runs are used up the best so far is returned, and is said not to be a minimum."""
    shrunk = shrink(noisy(), most_runs=6)
    assert not shrunk.complete
    assert shrunk.runs <= 6
    assert len(emit(shrunk.scenario)) <= len(emit(noisy()))


def test_judging_and_judged_stay() -> None:
    """No pass weakens a bound, changes a protocol's configuration, or takes capacity away."""
    scenario = noisy()
    passes = (smaller.shorter, smaller.milder, smaller.without_peers, smaller.without_mutations)
    for candidate in (candidate for attempt in passes for candidate in attempt(scenario)):
        assert candidate.default_link.bandwidth_bps == scenario.default_link.bandwidth_bps
        assert [a.max for a in candidate.assertions] == [a.max for a in scenario.assertions]  # type: ignore[union-attr]
        for peer in candidate.peers:
            (before,) = (p for p in scenario.peers if p.id == peer.id)
            assert set(peer.kind_config["targets"]) <= set(before.kind_config["targets"])


def test_mutations_of_hosts_become_milder() -> None:
    """A wrong clock goes towards the right time from either side, a pause gets shorter, a slow peer faster."""
    clocks = (ClockOffset(at_ns=MS, peer="e", offset_ns=-750), ClockDrift(at_ns=MS, peer="e", drift_ppm=300))
    process = (
        PeerPause(at_ns=MS, peer="e", duration_ns=90),
        PeerSlow(at_ns=MS, peer="e", factor_x100=500, duration_ns=1),
    )
    base = replace(noisy(), mutations=(*clocks, *process))
    changed = [candidate.mutations for candidate in smaller.milder(base) if candidate.mutations != base.mutations]
    assert [mutations[0].offset_ns for mutations in changed if mutations[0] != clocks[0]] == [0, -375, -700]
    assert [mutations[1].drift_ppm for mutations in changed if mutations[1] != clocks[1]] == [0, 150]
    assert [mutations[2].duration_ns for mutations in changed if mutations[2] != process[0]] == [1, 45]
    assert [mutations[3].factor_x100 for mutations in changed if mutations[3] != process[1]] == [100, 250]
    assert () in [candidate.mutations for candidate in smaller.without_peers(base)]  # gone with the peer


def test_a_failure_by_a_mutation_stays_one() -> None:
    """A cut does not shrink to peers that were never linked, though the same assertion fails on them too (ruling K10)."""
    cut = Partition(at_ns=200 * MS, peers_a=("a", "b"), peers_b=("c", "d", "e"))
    few = EventCount(event_kind="EchoReceived", min=400)
    scenario = replace(noisy(), mutations=(Heal(at_ns=100 * MS), cut), assertions=(few,))
    with pytest.raises(InputError, match="nothing to shrink"):
        shrink(replace(scenario, mutations=()))
    small = shrink(scenario).scenario
    assert len(small.mutations) == 1
    assert isinstance(small.mutations[0], Partition)
    with pytest.raises(InputError, match="nothing to shrink"):
        shrink(replace(small, mutations=()))


def test_a_count_that_is_too_high_stays_one() -> None:
    """A count with both bounds keeps the one that it breaks: too many events never shrink to too few, nor the other way round."""
    passing = EventCount(event_kind="EchoReceived", min=1)
    both = EventCount(event_kind="EchoReceived", min=40, max=50)
    small = shrink(replace(noisy(), mutations=(), assertions=(passing, both))).scenario
    assert small.assertions == (EventCount(event_kind="EchoReceived", max=50),)
    few = EventCount(event_kind="EchoReceived", min=100_000, max=200_000)
    kept = shrink(replace(noisy(), assertions=(few,))).scenario
    assert kept.assertions == (EventCount(event_kind="EchoReceived", min=100_000),)
    assert (len(kept.peers), kept.duration_ns, kept.mutations) == (5, 800 * MS, noisy().mutations)


class Fragile:
    """A kind like echo, which breaks at the first message that it gets."""

    kind_tag = "fragile"
    accepts_worker_exit = False

    def __init__(self) -> None:
        found = Kinds().get("echo")
        assert found is not None
        self._echo = found
        self.codec = found.codec

    def validate(self, config: Any, facts: Any) -> Any:
        """Check as echo does."""
        return self._echo.validate(config, facts)

    def new(self, context: Any) -> Any:
        """Build an echo that cannot hear."""
        host = self._echo.new(context)

        def fragile(message: Any, now_ns: int) -> Any:
            raise KeyError(message, now_ns)

        host.recv = fragile
        return host


class WithFragile:
    """The kinds with `fragile`."""

    def names(self) -> tuple[str, ...]:
        """Return every name."""
        return (*Kinds().names(), "fragile")

    def get(self, name: str) -> Any:
        """Return a kind."""
        return Fragile() if name == "fragile" else Kinds().get(name)


def test_an_abort_shrinks() -> None:
    """A run that aborts shrinks to one that aborts by the same rule, with the same exception, at the same kind of host."""
    base = noisy()
    peers = tuple(replace(peer, kind="fragile") if peer.id == "c" else peer for peer in base.peers)
    shrunk = Shrinker(replace(base, peers=peers), WithFragile()).run()
    assert shrunk.failure == Failure("host-raised KeyError", "fragile", aborts=True)
    assert str(shrunk) == "still aborts  host-raised KeyError at c"
    assert str(shrunk.failure) == "abort host-raised KeyError at a host of kind fragile"
    small = shrunk.scenario
    assert (len(small.peers), small.mutations, small.snapshots, small.assertions) == (2, (), (), ())
    assert shrunk.failed_at_ns <= small.duration_ns < 100 * MS
    with pytest.raises(EngineAbort, match="host-raised"):
        play(small, WithFragile())
