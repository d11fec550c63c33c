"""The streaming side (§10.4): it agrees with the bundle, and it resolves as early as it can."""

from collections.abc import Iterator
from itertools import permutations
from typing import Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts import assertions as kinds
from simharness.contracts.assertions import Assertion
from simharness.contracts.records import Record, SnapshotRecord, Termination
from simharness.contracts.scenario import PeerDecl
from simharness.core.errors import EngineAbort
from tests.assertions.literal import Reading
from tests.assertions.strategies import ASSERTIONS, CAST, LAST_NS, OF_KIND, runs
from tests.assertions.support import Run, afterwards, cited, live, scenario

END: Final = Termination(reason="duration", at_ns=LAST_NS + 20)
CUT: Final = Termination(reason="early", at_ns=LAST_NS)


@pytest.mark.spec("§10.5", "Streaming agrees with post-run")
@settings(max_examples=80)
@given(run=runs(), assertions=st.lists(ASSERTIONS, min_size=1, max_size=5), peers=CAST, cut=st.booleans())
def test_streaming_agrees_with_post_run(
    run: Run, assertions: list[Assertion], peers: tuple[PeerDecl, ...], cut: bool
) -> None:
    """Emission order and file order give the same outcome, times and records, back-dated records included (ruling V6)."""
    made, end = scenario(assertions, peers), CUT if cut else END
    assert live(made, run.records, end) == afterwards(made, run.records, end)


@pytest.mark.spec("§10.5", "Streaming agrees with post-run")
@settings(max_examples=60)
@given(run=runs(), assertions=st.lists(ASSERTIONS, min_size=1, max_size=4), peers=CAST, data=st.data())
def test_a_final_verdict_is_that_of_the_prefix_and_of_the_whole(
    run: Run, assertions: list[Assertion], peers: tuple[PeerDecl, ...], data: st.DataObject
) -> None:
    """Early termination changes no verdict: what is final at any point is what a bundle ending there says, and what it stays."""
    made = scenario(assertions, peers)
    evaluator = StreamingEvaluator(made)
    stop = data.draw(st.integers(0, len(run.records)))
    now_ns = 0
    for record in run.records[:stop]:
        evaluator.observe(record)
        now_ns = max(now_ns, record.virtual_time_ns)
        evaluator.all_final(now_ns)
    prefix = run.records[:stop]
    final = {place: cited(v, prefix) for place, v in enumerate(evaluator.verdicts()) if v is not None}
    ended_here = afterwards(made, prefix, Termination(reason="early", at_ns=now_ns))
    whole = afterwards(made, run.records, END)
    for place, judgement in final.items():
        assert ended_here[place] == judgement
        assert whole[place].outcome == judgement.outcome
        if not (isinstance(assertions[place], kinds.EventCount) or now_ns == record.virtual_time_ns):
            assert whole[place] == judgement


def spoilers(assertion: Assertion, now_ns: int, peers: tuple[PeerDecl, ...]) -> Iterator[Run]:
    """What may still happen from `now_ns` on: nothing, and whatever could decide the assertion one way or the other."""
    yield Run()
    names = [peer.id for peer in peers]
    match assertion:
        case kinds.AllAliveAt(at_ns=at_ns) | kinds.AllAliveThroughout(window_end_ns=at_ns):
            start_ns = at_ns if isinstance(assertion, kinds.AllAliveAt) else assertion.window_start_ns
            for state in ("Alive", "Suspect"):
                yield Run().turn(max(now_ns, start_ns), assertion.peers[0], assertion.peers[1], "Alive", state)
            revived = Run()
            for peer in names:
                revived.resurrect(now_ns, peer)
            for one, other in permutations(names, 2):
                revived.turn(max(now_ns, start_ns), one, other, "Alive", "Alive")
            yield revived.snaps(at_ns, *names)
        case kinds.ConvergenceAfter() | kinds.PeerDetectedDeadWithin():
            peer = assertion.peer if isinstance(assertion, kinds.PeerDetectedDeadWithin) else names[0]
            at_ns = assertion.after_ns + assertion.within_ns
            yield Run().snaps(at_ns, *names)
            yield Run().snaps(at_ns, *names, **{peer: "Dead"})
            revived = Run()
            for name in names:
                revived.resurrect(now_ns, name)
            yield revived.snaps(at_ns, *names, **{peer: "Dead"})
            yield Run().snaps(now_ns, *names)
            mixed = Run().snaps(now_ns, *names)
            yield mixed.snap(now_ns, names[0], dict.fromkeys(names[1:], "Suspect"))
            mixed = Run().snaps(at_ns, *names)
            yield mixed.snap(at_ns, names[0], dict.fromkeys(names[1:], "Suspect"))
        case kinds.NoFlapWhileProbesOk() | kinds.NoDeadWhenProbesOk():
            at_ns = max(now_ns, assertion.window_start_ns)
            other = next(p for p in names if p not in (assertion.peer, "s"))
            yield Run().acked(at_ns, other, assertion.peer)
            fresh = Run().kill(at_ns, other).resurrect(at_ns, other)
            fresh.acked(at_ns, other, assertion.peer).acked(at_ns, assertion.peer, other)
            yield fresh.turn(at_ns, other, assertion.peer, "Alive", "Dead")
            fresh = Run().kill(at_ns, other).resurrect(at_ns, other)
            fresh.turn(at_ns, other, assertion.peer, "Alive", "Suspect")
            fresh.acked(at_ns, other, assertion.peer).acked(at_ns, assertion.peer, other)
            fresh.turn(at_ns, other, assertion.peer, "Suspect", "Alive")
            yield fresh.turn(at_ns, other, assertion.peer, "Alive", "Suspect")
        case kinds.SelfIncarnationBounded():
            yield Run().event(now_ns, assertion.peer, "SwimIncarnationBumped", from_=0, to=99)
        case kinds.MessageSizeBounded():
            yield Run().sent(now_ns, "a", assertion.message_kind, 99)
        case kinds.DeadPeerResurrectsWithin():
            other = next(p for p in names if p != assertion.peer)
            at_ns = assertion.after_ns + assertion.within_ns
            for state in ("Dead", "Alive"):
                yield Run().resurrect(at_ns, other).turn(at_ns, other, assertion.peer, "Dead", state)
            alive = Run().resurrect(at_ns, other)
            for name in names:
                if name != assertion.peer:
                    alive.turn(at_ns, name, assertion.peer, "Dead", "Alive")
            yield alive
        case kinds.EventCount() | kinds.EventRate():
            peer = (assertion.peer if isinstance(assertion, kinds.EventCount) else None) or "a"
            for count in range(1, 8):
                burst = Run()
                for _ in range(count):
                    burst.event(now_ns, peer, assertion.event_kind, peer="b", target="b", mutation={})
                yield burst
        case kinds.TrainProgress():
            at_ns = max(now_ns, assertion.after_ns + 1)
            burst = Run()
            for _ in range(assertion.min_steps):
                burst.event(at_ns, "a", "TrainCommit", step=1)
            yield burst
        case kinds.RelayQueueDepthBounded():
            yield Run().relay(max(now_ns, assertion.window_start_ns or 0), "RelayEnqueue", 99)
        case kinds.WorkerAliveThroughout():
            at_ns = max(now_ns, assertion.window_start_ns)
            yield Run().lifecycle(at_ns, "s", "Registering", "Running")
            yield Run().lifecycle(at_ns, "s", "Running", "Halted")
        case kinds.NameResolvesWithin():
            at_ns = assertion.from_ns + assertion.within_ns
            names_shown, without = Run(), Run()
            for observer in assertion.observers:
                names_shown.snap(at_ns, observer, names=(assertion.name,))
                without.snap(at_ns, observer)
            yield names_shown
            yield without


def joined(prefix: list[Record], tail: Run) -> list[Record]:
    """The records of the prefix, then those of the tail in order of time."""
    ordered = sorted(tail.records, key=lambda record: record.virtual_time_ns)
    more = Run(prefix)
    for record in ordered:
        if isinstance(record, SnapshotRecord):
            more.records.append(
                SnapshotRecord(
                    record.virtual_time_ns, len(more.records), record.host_id, record.kind_tag, record.snapshot
                )
            )
        elif record.kind_tag == "mutation":
            more.mutate(record.mutation)  # type: ignore[union-attr]
        else:
            kind, *_ = record.event.values()
            fields = {name: value for name, value in record.event.items() if name != "kind"}
            more.event(record.virtual_time_ns, record.host_id, kind, record.kind_tag, **fields)
    return more.records


@pytest.mark.spec("§10.5", "Streaming resolves as early as possible")
@pytest.mark.parametrize("kind", OF_KIND, ids=lambda kind: kind.__struct_config__.tag)
@settings(max_examples=10)
@given(run=runs(max_instants=6), data=st.data(), peers=CAST)
def test_resolves_as_early_as_possible(
    kind: type[Assertion], run: Run, data: st.DataObject, peers: tuple[PeerDecl, ...]
) -> None:
    """After every prefix: while it is open some two futures differ in outcome; once final none changes it (ruling V1)."""
    assertion = data.draw(OF_KIND[kind])
    if isinstance(assertion, kinds.EventRate) and assertion.event_kind == "CacheStateChange":
        return  # decided at close (ruling V6)
    assume(getattr(assertion, "within_ns", 1) > 0)  # (t, t] is empty: there is nothing to resolve
    if isinstance(assertion, kinds.PeerDetectedDeadWithin):
        assume(len({peer.kind for peer in peers if "node" not in peer.kind_config}) == 1 or assertion.peer != "s")
    made = scenario((assertion,), peers)
    evaluator = StreamingEvaluator(made)
    now_ns = 0
    for count, record in enumerate(run.records, 1):
        evaluator.observe(record)
        now_ns = max(now_ns, record.virtual_time_ns)
        evaluator.all_final(now_ns)
        verdict = evaluator.verdict(0)
        futures = [
            Reading(made, joined(run.records[:count], tail), END.at_ns, cut=False).judge(assertion)[0]
            for tail in spoilers(assertion, now_ns, peers)
            if all(later.virtual_time_ns >= now_ns for later in tail.records)
        ]
        if verdict is None:
            assert len(set(futures)) > 1
        else:
            assert set(futures) == {verdict.outcome}
            return


def test_a_bound_is_passed_when_the_clock_is_beyond_it() -> None:
    """Ruling V1: while the clock shows the bound itself, more may happen in that instant."""
    evaluator = StreamingEvaluator(scenario((kinds.AllAliveAt(at_ns=5, peers=("a", "b")),)))
    for record in Run().snaps(3, "a", "b").records:
        evaluator.observe(record)
    assert not evaluator.all_final(5)
    assert evaluator.verdict(0) is None
    assert evaluator.all_final(6)
    verdict = evaluator.verdict(0)
    assert verdict is not None
    assert verdict.outcome == "Pass"


def test_newly_final_reports_each_place_once() -> None:
    """Per-step invariants ask what became final since they last asked."""
    assertions = (
        kinds.EventCount(event_kind="tick", max=1),
        kinds.EventCount(event_kind="tick", min=1),
        kinds.EventCount(event_kind="tick", max=9),
    )
    evaluator = StreamingEvaluator(scenario(assertions))
    run = Run().event(1, "a", "tick").event(2, "a", "tick").event(3, "a", "tick")
    seen = []
    for record in run.records:
        evaluator.observe(record)
        seen.append(evaluator.newly_final())
    assert seen == [(1,), (0,), ()]
    assert [verdict and verdict.outcome for verdict in evaluator.verdicts()] == ["Fail", "Pass", None]
    assert [verdict.outcome for verdict in evaluator.close(10)] == ["Fail", "Pass", "Pass"]
    assert evaluator.newly_final() == (2,)


def test_a_record_reaches_only_the_folds_that_asked() -> None:
    """The cost of a step is that of its own events: two hundred assertions about others are not touched."""
    assertions = [kinds.NoFlapWhileProbesOk(peer=f"p{n}", window_start_ns=0, window_end_ns=9) for n in range(200)]
    evaluator = StreamingEvaluator(scenario(assertions))
    touched = []
    for place, fold in enumerate(evaluator._evaluation._folds):
        fold.on_probe_out = lambda *_, place=place: touched.append(place)  # type: ignore[attr-defined]
    evaluator._feed._route()
    for record in Run().acked(1, "a", "p7").acked(1, "a", "p9").sent(1, "a", "x", 1).event(2, "a", "tick").records:
        evaluator.observe(record)
    assert touched == [7, 9]


def test_without_assertions_everything_is_final() -> None:
    """Ruling L19 keeps such a scenario from asking for early termination."""
    evaluator = StreamingEvaluator(scenario(()))
    assert evaluator.all_final(0)
    assert evaluator.close(1) == ()


@pytest.mark.parametrize("bad", [b"{", b"[]"])
def test_a_snapshot_that_is_no_object_aborts(bad: bytes) -> None:
    """Ruling B4: the run is aborted by name, not by a traceback."""
    evaluator = StreamingEvaluator(scenario((kinds.SelfIncarnationBounded(peer="a", max_value=1),)))
    with pytest.raises(EngineAbort, match="unwritable-snapshot"):
        evaluator.observe(SnapshotRecord(1, 1, "a", "swim", bad))
