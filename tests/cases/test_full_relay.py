"""Case A25, through engine and folds: a full relay refuses, says so, and is judged (n0-computer/iroh#1977, #3008)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from simharness.bundle.memory import MemorySink
from simharness.contracts.assertions import RelayQueueDepthBounded
from simharness.contracts.host import Action, Send
from simharness.contracts.links import LinkOverrides, RelayDecl
from simharness.contracts.records import EventRecord
from simharness.contracts.scenario import LinkDecl, Scenario
from simharness.engine.engine import Engine
from simharness.network.model import LinkNetwork
from simharness.stateful.playing import Played
from tests.engine.scripted import MS, POLICY, ScriptedHost, ScriptedKind, disks_of, scenario


class Bare(ScriptedKind):
    """Messages without framing: a payload is what the link carries."""

    def frame_overhead(self, tag: str) -> int:
        del tag
        return 0


def burst(host: ScriptedHost, now_ns: int) -> Sequence[Action]:
    """Send 9,800, 200 and 1 byte to b at the first tick of a."""
    del now_ns
    return [Send("b", b"x" * size) for size in (9_800, 200, 1)] if host.id == "a" and host.ticks == 1 else ()


def a25() -> Scenario:
    """The case's relay and legs; ticks that come once."""
    legs = tuple(LinkDecl(source=source, target=target, via="R") for source, target in ("ab", "ac"))
    relay = RelayDecl(id="R", ingress_capacity_bps=10**7, egress_capacity_bps_per_link=10**5, queue_depth_bytes=10_000)
    drawn = scenario("a", "b", "c", duration_ns=10**9, period_ns=10**9, relays=(relay,), links=legs)
    policy = LinkOverrides(latency_ns=10 * MS, bandwidth_bps=10**13).over(POLICY)
    bounds = tuple(RelayQueueDepthBounded(relay="R", max_bytes=bytes_) for bytes_ in (10_000, 9_999))
    return msgspec.structs.replace(drawn, default_link=policy, assertions=bounds)


@pytest.fixture(scope="module")
def played() -> Any:
    """The run of the case."""
    declared, sink = a25(), MemorySink()
    network, kinds = LinkNetwork(declared), {"scripted": Bare(burst)}
    engine = Engine(declared, network=network, kinds=kinds, disks=disks_of(declared), sink=sink)
    return Played(declared, sink, engine.run())


def events(played: Played, *kinds: str) -> list[tuple[int, dict[str, Any]]]:
    """(time, event) of these kinds, in order of emission."""
    told = [record for record in played.records if isinstance(record, EventRecord)]
    return [(record.virtual_time_ns, record.event) for record in told if record.event["kind"] in kinds]


def sent_ns(played: Played) -> int:
    """When a's only tick was: its refused send is written then."""
    [(at_ns, _)] = events(played, "DropOnSend")
    return at_ns


def test_the_third_message_is_refused_where_it_arrives(played: Played) -> None:
    """9,800 and 200 bytes fill the queue exactly, 10 and 20 ms after the sends; one more byte, at 30 ms, is one RelayDrop."""
    start = sent_ns(played)
    enqueued = [(at_ns - start, event["enqueued_bytes"]) for at_ns, event in events(played, "RelayEnqueue")]
    assert enqueued == [(10 * MS, 9_800), (20 * MS, 10_000)]
    [(dropped_ns, drop)] = events(played, "RelayDrop")
    assert (dropped_ns - start, drop["byte_len"], drop["reason"]) == (30 * MS, 1, "queue_full")
    dequeued = [(at_ns - start, event["enqueued_bytes"]) for at_ns, event in events(played, "RelayDequeue")]
    assert dequeued == [(108_980_000, 200), (110_980_000, 0)]


def test_the_sender_is_told(played: Played) -> None:
    """One `SendFailed` with the reason; the two messages that fitted are received, and nothing else."""
    [(_, drop)] = events(played, "DropOnSend")
    assert drop["reason"] == "relay_queue_full"
    heard = [event["what"][:6] for _, event in events(played, "heard")]
    assert sorted(heard) == ["app xx", "app xx", "failed"]


def test_the_bounds_are_judged_to_the_byte(played: Played) -> None:
    """10,000 is Pass; 9,999 is Fail, with the second enqueue as evidence."""
    exact, below = played.verdicts()
    assert (exact.outcome, below.outcome) == ("Pass", "Fail")
    [shown] = below.evidence
    assert shown.virtual_time_ns - sent_ns(played) == 20 * MS
