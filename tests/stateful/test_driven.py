"""A run driven step by step, and the file it amounts to."""

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from simharness.contracts.assertions import AllAliveAt, ConvergenceAfter, EventCount
from simharness.contracts.mutations import Partition, PeerKill, kind_of
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_MS, NS_PER_S
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.stateful import ConvergenceAfter as Convergence
from simharness.stateful import NoFlapWhileProbesOk, PeerDetectedDeadWithin, meshes, scenarios, swarm, swim_meshes
from simharness.stateful.driven import DrivenRun
from simharness.stateful.faults import FAULTS
from simharness.stateful.playing import disagreements, first_difference, play, stream
from simharness.stateful.session import KINDS

MS = NS_PER_MS


def base(space=None):
    return find(swim_meshes(peers=3) if space is None else space, lambda _: True)


def again(played):
    """Run the file of a run."""
    return play(loads(emit(played.scenario), KINDS), KINDS)


@settings(max_examples=25)
@given(
    whole=scenarios(meshes(peers=4, tick_ms=100), faults=swarm(*FAULTS), duration_ms=2_000, snapshot_every_ms=300),
    pauses=st.lists(st.sampled_from((1, 50, 333, 1_000)), max_size=4),
)
def test_driving_gives_what_the_file_gives(whole, pauses):
    """The step-by-step law: whenever time stops in between, the records are those of the declared scenario."""
    import msgspec

    start = msgspec.structs.replace(whole, mutations=())
    run = DrivenRun(start, KINDS, ())
    waiting = list(whole.mutations)
    stops = sorted({mutation.at_ns for mutation in waiting} | {sum(pauses[:n]) * MS for n in range(len(pauses))})
    for stop in stops:
        if stop > whole.duration_ns:
            break
        run.advance(max(stop, run.now_ns))
        while waiting and waiting[0].at_ns == stop:
            run.inject(waiting.pop(0))
    run.advance(whole.duration_ns)
    played = run.finish("driven")
    assert first_difference(played.records, again(played).records) is None
    assert played.scenario.mutations == whole.mutations


def test_the_file_lasts_as_long_as_the_run():
    """`duration_ns` is the time reached, at least one tick; open windows end with the run."""
    run = DrivenRun(base(), KINDS, (NoFlapWhileProbesOk.each_peer(from_ms=100),))
    fresh = run.scenario("x")
    assert (fresh.duration_ns, fresh.assertions[0].window_start_ns) == (50 * MS, 50 * MS)
    run.advance(1_234 * MS)
    scenario = run.scenario("x")
    assert scenario.duration_ns == 1_234 * MS
    assert [(item.peer, item.window_start_ns, item.window_end_ns) for item in scenario.assertions] == [
        (peer, 100 * MS, 1_234 * MS) for peer in "abc"
    ]
    assert loads(emit(scenario), KINDS) == scenario


def test_a_deadline_beyond_the_end_extends_the_run():
    """The file reaches the latest deadline, so that the loader takes it; the run goes on to there."""
    run = DrivenRun(
        base(), KINDS, (PeerDetectedDeadWithin.each_kill(within_ms=9_000), AllAliveAt(at_ns=1, peers=("a", "b")))
    )
    run.advance(1_000 * MS)
    run.inject(PeerKill(at_ns=1_000 * MS, peer="c"))
    run.advance(2_000 * MS)
    played = run.finish("x")
    assert played.scenario.duration_ns == played.termination.at_ns == 10_000 * MS
    assert loads(emit(played.scenario), KINDS) == played.scenario
    assert played.scenario.assertions[0].after_ns == 1_000 * MS


def test_snapshots_after_the_end_are_left_out():
    """Declared snapshots beyond the end never happen, and the file does not ask for them."""
    run = DrivenRun(base(swim_meshes(snapshot_every_ms=400)), KINDS, ())
    run.advance(900 * MS)
    run.snapshot(900 * MS)
    played = run.finish("x")
    assert [snapshot.at_ns // MS for snapshot in played.scenario.snapshots] == [400, 800, 900]
    assert first_difference(played.records, again(played).records) is None


def test_the_quiet_phase():
    """Faults end, timed ones are waited for, snapshots come every second, and templates learn when it began."""
    run = DrivenRun(base(), KINDS, (Convergence.in_quiet_phase(within_ms=20_000),))
    assert run.scenario("x").assertions == ()
    run.advance(NS_PER_S)
    run.inject(Partition(at_ns=NS_PER_S, peers_a=("a",), peers_b=("b", "c")))
    run.advance(6 * NS_PER_S)
    run.calm_down(20 * NS_PER_S)
    played = run.finish("x")
    assert [kind_of(mutation) for mutation in played.scenario.mutations] == ["partition", "heal"]
    expected = ConvergenceAfter(after_ns=6 * NS_PER_S, within_ns=20 * NS_PER_S, peers=("a", "b", "c"))
    assert played.scenario.assertions == (expected,)
    assert len(played.scenario.snapshots) == 20
    assert [verdict.outcome for verdict in played.verdicts()] == ["Pass"]
    assert first_difference(played.records, again(played).records) is None


def test_a_base_with_mutations_is_refused():
    """Rules inject faults; a base that brings its own would be in nobody's book."""
    whole = find(scenarios(meshes(), faults=swarm("peer_kill")), lambda drawn: drawn.mutations)
    with pytest.raises(InputError, match="the base has none"):
        DrivenRun(whole, KINDS, ())


def test_a_disagreement_is_seen():
    """Post-run and streaming verdicts are compared by outcome, and by time and record of the evidence."""
    run = DrivenRun(base(meshes(peers=2)), KINDS, (EventCount(event_kind="EchoReceived", max=3),))
    run.advance(NS_PER_S)
    played = run.finish("x")
    late, early = played.verdicts(), stream(played.scenario, played.records, played.termination)
    assert late[0].outcome == "Fail"
    assert disagreements(played.ordered, late, early) == []
    first = next(record for record in played.records if record.event["kind"] == "EchoReceived")
    without = [record for record in played.records if record is not first]
    shorter = stream(played.scenario, without, played.termination)
    assert disagreements(played.ordered, late, shorter) == [(late[0], shorter[0])]


def test_the_first_difference_is_shown():
    """Two runs that differ are shown at the first line that does, or where one of them ends."""
    run = DrivenRun(base(meshes(peers=2)), KINDS, ())
    run.advance(NS_PER_S)
    records = run.finish("x").records
    assert first_difference(records, records) is None
    shown = first_difference(records, records[:-1])
    assert shown is not None
    assert f"events.ndjson:{len(records) - 1}" in shown
    assert "second run: (no such line)" in shown
