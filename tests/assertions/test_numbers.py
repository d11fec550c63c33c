"""Counts, rates and bounds."""

from typing import Any

import pytest

from simharness.contracts.assertions import (
    EventCount,
    EventRate,
    MessageSizeBounded,
    RelayQueueDepthBounded,
    SelfIncarnationBounded,
)
from tests.assertions.support import Run, failed_at, judge, outcome, swim


def ticks(*times: int, host: str = "a") -> Run:
    run = Run()
    for at_ns in times:
        run.event(at_ns, host, "tick")
    return run


@pytest.mark.parametrize(
    ("bounds", "count", "expected"),
    [
        ({"max": 2}, 0, "Pass"),
        ({"max": 2}, 2, "Pass"),
        ({"max": 2}, 3, "Fail"),
        ({"max": 0}, 1, "Fail"),
        ({"min": 2}, 0, "Fail"),
        ({"min": 2}, 1, "Fail"),
        ({"min": 2}, 2, "Pass"),
        ({"min": 0}, 0, "Pass"),
        ({"min": 1, "max": 2}, 0, "Fail"),
        ({"min": 1, "max": 2}, 1, "Pass"),
        ({"min": 1, "max": 2}, 3, "Fail"),
    ],
)
def test_event_count(bounds: dict[str, Any], count: int, expected: str) -> None:
    """Between `min` and `max` events of the kind in the run."""
    assert outcome(EventCount(event_kind="tick", **bounds), ticks(*range(count)).event(50, "a", "other")) == expected


def test_event_count_evidence() -> None:
    """The first event too many; for too few, the whole stream."""
    assert failed_at(EventCount(event_kind="tick", max=1), ticks(1, 2, 3)) == (1,)
    assert failed_at(EventCount(event_kind="tick", min=4), ticks(1, 2, 3)) == (-1,)


def test_event_count_of_one_peer() -> None:
    """`peer` is the envelope's host; mutation records count under their kind."""
    run = ticks(1, 2).event(3, "b", "tick").kill(4, "a")
    assert outcome(EventCount(event_kind="tick", max=1, peer="b"), run) == "Pass"
    assert outcome(EventCount(event_kind="tick", max=1, peer="a"), run) == "Fail"
    assert outcome(EventCount(event_kind="Mutation", min=1), run) == "Pass"


def test_event_count_of_a_run_that_was_cut() -> None:
    """Ruling V2: what holds for the whole run is not shown by a part of it; what is violated stays so."""
    cut = {"end_ns": 60, "reason": "aborted"}
    assert outcome(EventCount(event_kind="tick", max=3), ticks(1), **cut) == "Inconclusive"
    assert outcome(EventCount(event_kind="tick", min=3), ticks(1), **cut) == "Inconclusive"
    assert outcome(EventCount(event_kind="tick", min=1), ticks(1), **cut) == "Pass"
    assert outcome(EventCount(event_kind="tick", max=0), ticks(1), **cut) == "Fail"


def cache(*times: int) -> Run:
    """Cache changes in this order of emission, whatever their stamps."""
    run = Run()
    for at_ns in times:
        run.event(at_ns, "a", "CacheStateChange", "engine", from_="a", to="b", transition="warmed")
    return run


def test_event_count_of_back_dated_records() -> None:
    """Ruling V6: the event too many is the one in file order, also if it was emitted before others."""
    assert failed_at(EventCount(event_kind="CacheStateChange", max=1), cache(5, 9, 7)) == (2,)
    assert failed_at(EventCount(event_kind="CacheStateChange", max=0), cache(5, 9, 3)) == (2,)
    assert outcome(EventCount(event_kind="CacheStateChange", min=3, max=3), cache(5, 9, 7)) == "Pass"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((), "Pass"),
        ((0, 50), "Pass"),
        ((0, 50, 99), "Fail"),
        ((0, 50, 100), "Pass"),  # half-open
        ((5, 5, 5), "Fail"),
        ((0, 90, 180, 189), "Fail"),
    ],
)
def test_event_rate(times: tuple[int, ...], expected: str) -> None:
    """At most two in [t, t + 100) from every event."""
    assert outcome(EventRate(event_kind="tick", window_ns=100, max_per_window=2), ticks(*times), end_ns=200) == expected


def test_event_rate_evidence_cut_and_zero() -> None:
    """The window's first event and the one too many; no bound at all on events is one event too many."""
    rate = EventRate(event_kind="tick", window_ns=10, max_per_window=1)
    assert failed_at(rate, ticks(0, 20, 29, 30)) == (1, 2)
    assert outcome(rate, ticks(0), end_ns=50, reason="aborted") == "Inconclusive"
    assert failed_at(EventRate(event_kind="tick", window_ns=10, max_per_window=0), ticks(4)) == (0,)


def test_event_rate_of_back_dated_records() -> None:
    """Ruling V6: decided at close, on file order."""
    rate = EventRate(event_kind="CacheStateChange", window_ns=10, max_per_window=1)
    assert failed_at(rate, cache(30, 50, 25)) == (2, 0)
    assert outcome(rate, cache(30, 50, 20)) == "Pass"


def bump(run: Run, at_ns: int, host: str, before: int, after: int) -> Run:
    return run.event(
        at_ns, host, "SwimIncarnationBumped", from_=before, to=after, claim_state="Suspect", claimed_by="c"
    )


BOUND = SelfIncarnationBounded(peer="a", max_value=2)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (ticks(1, host="b"), "Inconclusive"),
        (Run().event(1, "a", "DialStart", "engine"), "Inconclusive"),  # the engine's record about a is no sign of life
        (ticks(1), "Pass"),  # no bump means 0 (ruling V7)
        (Run().snap(1, "a"), "Pass"),
        (bump(Run(), 1, "a", 1, 2), "Pass"),
        (bump(Run(), 1, "a", 2, 3), "Fail"),
        (bump(Run(), 1, "a", 3, 4), "Fail"),
        (bump(Run(), 1, "b", 2, 3), "Inconclusive"),
        (Run().snap(1, "a", incarnation=3), "Fail"),
        (Run().snap(1, "b", incarnation=3), "Inconclusive"),
    ],
)
def test_self_incarnation_bounded(run: Run, expected: str) -> None:
    """No bump and no snapshot of the peer above the bound; some sign of life is the precondition."""
    assert outcome(BOUND, run) == expected


def test_self_incarnation_that_starts_above() -> None:
    """A first incarnation above the bound is a violation at the first sign of life, whichever of its instant the file names."""
    peers = (swim("a", initial_incarnation=7),)
    assert failed_at(BOUND, Run().snap(3, "a").event(3, "a", "tick").event(5, "a", "tick"), peers=peers) == (1,)
    assert outcome(BOUND, Run(), peers=peers) == "Inconclusive"
    assert outcome(BOUND, ticks(1), end_ns=9, reason="aborted") == "Inconclusive"


@pytest.mark.parametrize(
    ("kind", "size", "expected"),
    [
        ("swactor_dist::Ping", 10, "Pass"),
        ("swactor_dist::Ping", 11, "Fail"),
        ("Ping", 11, "Fail"),
        ("Pin", 11, "Inconclusive"),
        ("dist::Ping", 11, "Inconclusive"),
        ("Ack", 11, "Inconclusive"),
    ],
)
def test_message_size_bounded(kind: str, size: int, expected: str) -> None:
    """Ruling B11: the kind is a type tag or its last part."""
    assertion = MessageSizeBounded(message_kind=kind, max_bytes=10)
    run = Run().sent(1, "a", "swactor_dist::PingReq", 99).sent(2, "a", "swactor_dist::Ping", size)
    assert outcome(assertion, run) == expected
    assert outcome(assertion, Run(), end_ns=9, reason="early") == "Inconclusive"


DEPTH = RelayQueueDepthBounded(relay="R", max_bytes=10)


def queue(*steps: tuple[int, int]) -> Run:
    """Enqueues (positive) and dequeues (negative) at the relay."""
    run = Run()
    for at_ns, size in steps:
        run.relay(at_ns, "RelayEnqueue" if size > 0 else "RelayDequeue", abs(size))
    return run


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(), "Inconclusive"),
        (Run().relay(1, "RelayEnqueue", 99, "Q"), "Inconclusive"),
        (Run().relay(1, "RelayDrop", 99), "Pass"),
        (queue((1, 6), (2, 4)), "Pass"),
        (queue((1, 6), (2, 5)), "Fail"),
        (queue((1, 6), (2, -6), (3, 9)), "Pass"),
        (queue((1, 6), (2, -6), (2, 9)), "Pass"),  # a dequeue of the same instant comes first (ruling E3)
        (queue((1, 9)).relay_kill(2).relay(3, "RelayEnqueue", 9), "Pass"),  # a kill empties the relay
        (queue((1, 9)).relay_kill(2, "Q").relay(3, "RelayEnqueue", 9), "Fail"),
    ],
)
def test_relay_queue_depth_bounded(run: Run, expected: str) -> None:
    """Ruling K7: the depth is added up from `byte_len`; the records' own `enqueued_bytes` (0 here) is not believed."""
    assert outcome(DEPTH, run) == expected


def test_relay_queue_depth_windows() -> None:
    """Enqueues in the window, both ends included, and what the window begins with."""
    window = RelayQueueDepthBounded(relay="R", max_bytes=10, window_start_ns=10, window_end_ns=20)
    assert failed_at(window, queue((5, 8), (10, 8))) == (1,)
    assert failed_at(window, queue((5, 8), (20, 8))) == (1,)
    assert outcome(window, queue((5, 8), (21, 8))) == "Pass"
    assert failed_at(window, queue((4, 8), (5, 8), (6, 8), (11, -24))) == (1,)
    assert outcome(window, queue((4, 8), (5, 8), (10, -8), (11, 1))) == "Pass"
    assert outcome(window, queue((5, 8)), end_ns=19, reason="aborted") == "Inconclusive"
    assert outcome(DEPTH, queue((5, 8)), end_ns=19, reason="aborted") == "Inconclusive"
    late = RelayQueueDepthBounded(relay="R", max_bytes=10, window_start_ns=200)
    assert outcome(late, queue((5, 8))) == "Inconclusive"


def test_relay_case_a25() -> None:
    """Case A25: 9,800 and 200 bytes fill 10,000 exactly; the bound 9,999 fails at the second enqueue."""
    run = queue((10_000_000, 9_800), (20_000_000, 200)).relay(30_000_000, "RelayDrop", 1)
    run.relay(108_980_000, "RelayDequeue", 9_800)
    full = RelayQueueDepthBounded(relay="R", max_bytes=10_000)
    below = RelayQueueDepthBounded(relay="R", max_bytes=9_999)
    assert outcome(full, run, end_ns=200_000_000) == "Pass"
    assert judge(below, run, end_ns=200_000_000).evidence == (1,)
