"""The extractor, on runs small enough to count by hand, and on one that a second reader recounts."""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simharness.bundle.production.export import export
from simharness.bundle.production.opening import open_bundle, open_capture
from simharness.bundle.reader import Bundle, EventLine, SnapshotFile
from simharness.calibration.delays import TERMS, DelayParts, Part, terms_ns
from simharness.calibration.metrics import Metrics, extract, family_of
from simharness.contracts.network import Delay
from simharness.run import run_to_bundle
from simharness.scenario.loader import load
from tests.calibration.shipped import KINDS, PAIRS, outcome
from tests.tidy.check import ROOT

S = 10**9


class Fixture:
    """A run by hand: (seconds, host, event), and (seconds, host, snapshot)."""

    def __init__(
        self,
        events: Iterable[tuple[float, str | None, dict[str, Any]]],
        snapshots: Iterable[tuple[float, str, dict[str, Any]]] = (),
    ) -> None:
        self._events, self._snapshots = list(events), list(snapshots)

    def event_lines(self) -> Iterable[EventLine]:
        for number, (at_s, host, event) in enumerate(self._events):
            yield EventLine(number, int(at_s * S), host, "x", event)

    def snapshot_files(self) -> Iterable[SnapshotFile]:
        for number, (at_s, host, snapshot) in enumerate(self._snapshots):
            yield SnapshotFile(int(at_s * S), host, number, "x", snapshot)


def sent(kind: str, peer: str, size: int) -> dict[str, Any]:
    return {"kind": "MessageSent", "peer": peer, "message_kind": f"swactor_dist::{kind}", "size": size}


def turned(peer: str, before: str, after: str, reason: str) -> dict[str, Any]:
    return {"kind": "SwimTransition", "peer": peer, "from": before, "to": after, "reason": reason}


def measured(
    *events: tuple[float, str | None, dict[str, Any]], snapshots: Iterable[tuple[float, str, dict[str, Any]]] = ()
) -> Metrics:
    return extract(Fixture(events, snapshots))


def test_sends_hits_and_misses() -> None:
    """A send that dials is a miss, one that was refused on sight is no send, one that was lost on the way is."""
    found = measured(
        (1, "a", sent("Ping", "b", 100)),
        (1, "a", {"kind": "DialStart", "from": "a", "to": "b"}),
        (2, "a", {"kind": "DialOutcome", "from": "a", "to": "b", "warm": True}),
        (3, "a", sent("Ping", "b", 200)),
        (4, "a", sent("Ack", "b", 50)),
        (4, "a", {"kind": "DropOnSend", "from": "a", "to": "b", "reason": "lossy"}),
        (5, "a", sent("Ack", "b", 999)),
        (5, "a", {"kind": "DropOnSend", "from": "a", "to": "b", "reason": "relay_queue_full"}),
    )
    numbers = found.numbers
    assert [numbers[key] for key in ("message.sent", "cache.hit", "cache.miss", "dial.started", "dial.failed")] == [
        3,
        2,
        1,
        1,
        0,
    ]
    assert numbers["cache.hit_ratio"] == pytest.approx(2 / 3)
    assert (numbers["message.size_max.Ping"], numbers["message.size_max.Ack"]) == (200, 50)
    assert found.counts["message.count_by_kind_pair"] == {"Ack a -> b": 1, "Ping a -> b": 2}
    assert found.distributions["dial.duration_ms"].at(50) == pytest.approx(1000)


def test_what_production_says_of_its_cache_counts() -> None:
    """A run that has records of hits and misses is believed; failed dials are told by their outcome."""
    found = measured(
        (1, "a", {"kind": "ConnectionCacheMiss", "peer": "b"}),
        (1, "a", {"kind": "DialStart", "from": "a", "to": "b"}),
        (2, "a", {"kind": "DialOutcome", "from": "a", "to": "b", "warm": False}),
    )
    assert [found.numbers[key] for key in ("cache.hit", "cache.miss", "dial.failed")] == [0, 1, 1]


def test_opinions_in_time() -> None:
    """Ruling R22 needs the shares. Of ten seconds a holds b Suspect for two, Dead for three; c, which says nothing of it, Alive."""
    found = measured(
        (2, "a", turned("b", "Alive", "Suspect", "probe-timeout")),
        (4, "a", turned("b", "Suspect", "Dead", "suspicion-timeout")),
        (7, "a", turned("b", "Dead", "Alive", "gossip")),
        (9, "c", turned("a", "Alive", "Alive", "gossip")),
        (10, "a", {"kind": "Error", "component": "x", "message": "", "peer": None}),
    )
    assert found.numbers["swim.alive_fraction.b"] == pytest.approx((0.5 + 1) / 2)
    assert found.numbers["swim.dead_share.a"] == pytest.approx(0.3)
    assert found.distributions["swim.dead_peers.a"].at(100) == 1
    assert found.distributions["swim.dead_peers.a"].at(69) == 0
    assert found.counts["swim.transition_reasons"] == {"gossip": 2, "probe-timeout": 1, "suspicion-timeout": 1}
    assert found.labels == {
        "swim.first_dead.observer": "a",
        "swim.first_dead.peer": "b",
        "swim.first_dead.reason": "suspicion-timeout",
    }


def test_probes_at_a_suspicion() -> None:
    """Ruling R21: both directions must have succeeded before: what completes in the instant of the transition does not count."""
    acked = {"kind": "SwimProbeAcked", "sequence": 1, "probe_kind": "direct"}
    failed = {"kind": "SwimProbeTimedOut", "sequence": 1, "probe_kind": "indirect", "budget_ticks": 1}
    history = [(1, "a", acked | {"target": "b"}), (2, "b", acked | {"target": "a"})]
    suspicion = turned("b", "Alive", "Suspect", "gossip")
    for extra, share in (
        ([], 1),
        ([(3, "b", failed | {"target": "a"})], 0),
        ([(4, "a", failed | {"target": "b"})], 1),
        ([(3, "a", failed | {"target": "b", "probe_kind": "direct"})], 1),
    ):
        assert measured(*history, *extra, (4, "a", suspicion)).numbers["swim.probe_ok_at_suspect"] == share
    assert measured((4, "a", suspicion)).numbers["swim.probe_ok_at_suspect"] == 0


def test_round_trips_of_probes() -> None:
    """From a direct Ping to its Ack; what a helper brings tells nothing of it, and every phase that expires counts."""
    probe = {"target": "b", "probe_kind": "direct"}
    found = measured(
        (1, "a", {"kind": "SwimProbeSent", "sequence": 1} | probe),
        (1.25, "a", {"kind": "SwimProbeAcked", "sequence": 1} | probe),
        (2, "a", {"kind": "SwimProbeSent", "sequence": 2} | probe),
        (3, "a", {"kind": "SwimProbeTimedOut", "sequence": 2, "budget_ticks": 1} | probe),
        (3, "a", {"kind": "SwimProbeSent", "sequence": 2} | probe | {"probe_kind": "indirect"}),
        (4, "a", {"kind": "SwimProbeAcked", "sequence": 2} | probe | {"probe_kind": "indirect"}),
    )
    assert (found.distributions["probe.rtt_ms"].count, found.distributions["probe.rtt_ms"].at(50)) == (1, 250)
    assert found.numbers["probe.timed_out.direct"] == 1
    assert "probe.timed_out.indirect" not in found.numbers


def test_detection_counts_from_the_kill() -> None:
    """Each survivor's first word counts; a death before the kill, or after a return, is false."""
    found = measured(
        (1, "a", turned("b", "Suspect", "Dead", "gossip")),
        (2, None, {"kind": "Mutation", "index": 0, "mutation": {"kind": "peer_kill", "peer": "b"}}),
        (5, "a", turned("b", "Suspect", "Dead", "suspicion-timeout")),
        (6, "c", turned("b", "Alive", "Dead", "gossip")),
        (7, "a", turned("b", "Suspect", "Dead", "gossip")),
        (8, None, {"kind": "Mutation", "index": 1, "mutation": {"kind": "peer_resurrect", "peer": "b"}}),
        (9, "a", turned("b", "Suspect", "Dead", "gossip")),
    )
    assert (found.numbers["swim.detection_first_s"], found.numbers["swim.detection_last_s"]) == (3, 4)
    assert found.distributions["swim.detection_s"].count == 2
    assert found.numbers["swim.false_deaths"] == 2


def test_incarnations_and_names_from_snapshots() -> None:
    """Without records of bumps the snapshots tell; a name resolves where another than its owner shows it."""
    names = {"name_registry": {"n": "a"}}
    found = measured(
        (1, "a", {"kind": "register_name", "name": "n", "address": "x", "peer_node_id": "a"}),
        (2, "b", {"kind": "SwimIncarnationBumped", "from": 0, "to": 4}),
        snapshots=[
            (1, "a", {"self_incarnation": 1} | names),
            (3, "b", {"self_incarnation": 9}),
            (4, "b", {"self_incarnation": 9} | names),
            (5, "a", {"self_incarnation": 2} | names),
        ],
    )
    assert found.numbers["name.resolution_s.n"] == 3
    assert found.paths["swim.self_incarnation.a"] == ((0, 0), (1, 1), (5, 2))
    assert found.numbers["swim.self_incarnation_final.b"] == 4


def test_the_relay_queue_by_time() -> None:
    """One second at 10 bytes and three at 30 of eight: nothing for half of the time."""
    queue = [(2, "RelayEnqueue", 10), (3, "RelayEnqueue", 30), (6, "RelayDequeue", 0), (8, "RelayDequeue", 0)]
    found = measured(*((at, None, {"kind": kind, "relay": "r", "enqueued_bytes": held}) for at, kind, held in queue))
    depth = found.distributions["relay.queue_depth.r"]
    assert [depth.at(percent) for percent in (50, 60, 63, 100)] == [0, 10, 30, 30]


def test_a_stall_and_its_burst() -> None:
    """The longest delivery, and the Pings to the same target that were waiting when it ended and came within a second."""
    parts = [
        Part("a", "b", "swactor_dist::Ack", 0, 100 * S, Delay()),
        Part("c", "b", "swactor_dist::Ping", 50 * S, 100 * S + 1, Delay()),
        Part("a", "b", "swactor_dist::Ping", 99 * S, 101 * S, Delay()),
        Part("a", "c", "swactor_dist::Ping", 99 * S, 100 * S + 2, Delay()),
        Part("c", "b", "swactor_dist::Ping", 100 * S, 100 * S + 3, Delay()),
    ]
    numbers = extract(Fixture([]), parts).numbers
    assert (numbers["relay.max_sojourn_s"], numbers["relay.burst_after_stall"]) == (100, 1)


def test_an_empty_run_has_counts_of_nothing() -> None:
    """No share of nothing is invented."""
    assert measured().numbers == {
        "message.sent": 0,
        "cache.hit": 0,
        "cache.miss": 0,
        "dial.started": 0,
        "dial.failed": 0,
        "swim.transitions": 0,
        "swim.false_deaths": 0,
    }


def test_the_terms_sum_to_the_delay(tmp_path: Path) -> None:
    """§11.3, ruling R20: what a delivery took is attributed whole. The totals are those of a second reading, of an archive too."""
    loaded, parts = load(ROOT / "scenarios/reproduction/gossip_flap.toml", KINDS), DelayParts()
    done = run_to_bundle(loaded, tmp_path / "bundle", KINDS, observer=parts)
    assert len(parts.parts) > 100
    for part in parts.parts:
        assert sum(terms_ns(part.delay)) == part.at_ns - part.sent_ns
    found = extract(open_capture(done.bundle), parts.parts)
    recounted = recount(Bundle(done.bundle))
    assert {key: found.numbers[key] for key in recounted} == recounted
    export(open_bundle(done.bundle), tmp_path / "run.tar.gz")
    archived = extract(open_capture(tmp_path / "run.tar.gz"))
    assert {key: archived.numbers[key] for key in recounted} == recounted
    pairs = {f"{part.source} -> {part.target}" for part in parts.parts}
    assert {f"relay.hol.{pair}.{term}_ms" for pair in pairs for term in TERMS} <= set(found.numbers)


def recount(bundle: Bundle) -> dict[str, float]:
    """A slow second reading of the totals, from the lines alone."""
    lines = list(bundle.events())
    kinds = [line.event["kind"] for line in lines]
    dialled = sum(
        a.event["kind"] == "MessageSent" and b.event["kind"] == "DialStart" and a.host_id == b.host_id
        for a, b in pairwise(lines)
    )
    reasons = [line.event["reason"] for line in lines if line.event["kind"] == "SwimTransition"]
    return {
        "message.sent": kinds.count("MessageSent"),
        "cache.miss": dialled,
        "cache.hit": kinds.count("MessageSent") - dialled,
        "dial.started": kinds.count("DialStart"),
        "swim.transitions": len(reasons),
        "swim.transition_reasons.gossip_share": reasons.count("gossip") / len(reasons),
    }


@pytest.mark.parametrize("pair", PAIRS)
def test_every_metric_has_a_family(pair: str) -> None:
    """Nothing that is measured falls outside the families that coverage counts."""
    found = outcome(pair).metrics
    names = [*found.numbers, *found.distributions, *found.counts, *found.labels, *found.paths]
    assert [name for name in names if family_of(name) == "other"] == []
