"""Relay schedules at random: occupancy as the records tell it, and what a kill invalidates, against slow oracles.

Inbound legs differ in latency and jitter, so messages reach the relay in another order than they were sent in; it is killed,
booted and resized while they are on their way.
"""

from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import Any, Final

import msgspec
import pytest

from simharness.bundle.memory import MemorySink
from simharness.contracts.host import PeerFacts
from simharness.contracts.mutations import (
    Mutation,
    RelayBoot,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
)
from simharness.contracts.network import Arrive, MutationEffect, SendOutcome
from simharness.contracts.records import EventRecord, MutationRecord
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.engine.engine import Engine
from simharness.hosts.echo import EchoKind
from simharness.network.model import LinkNetwork
from tests.engine.scripted import disks_of
from tests.network import generate
from tests.network.generate import RATES, RELAYED, Step, play, seeded
from tests.network.oracle import SlowMessage, SlowNetwork

SCHEDULES: Final = 2_000
BATCHES: Final = 8
RUNS: Final = 120
DURATION_NS: Final = 1_500
ECHO: Final = EchoKind()


def fault(rng: Random) -> Mutation:
    """Draw what happens to a relay; kills and boots are the more frequent."""
    pair = rng.choice(["ab", "ba", "dc"])
    kinds: list[Mutation] = [
        RelayKill(at_ns=0, relay="R"),
        RelayKill(at_ns=0, relay="R"),
        RelayBoot(at_ns=0, relay="R"),
        RelayBoot(at_ns=0, relay="R"),
        RelayBoot(at_ns=0, relay="R"),
        RelayPeerConnDown(at_ns=0, relay="R", source=pair[0], target=pair[1], duration_ns=rng.choice([5, 30])),
        RelayCapacityChange(
            at_ns=0,
            relay="R",
            ingress_capacity_bps=rng.choice([None, *RATES]),
            egress_capacity_bps_per_link=rng.choice([None, *RATES]),
            queue_depth_bytes=rng.choice([None, 20, 60, 10**6]),
        ),
    ]
    return rng.choice(kinds)


# --- what a kill takes ------------------------------------------------------------------------------------------------


def schedule(rng: Random) -> list[Step]:
    """Draw sends through the relay and faults of it, ending with a kill."""
    calls: list[Step] = []
    for _ in range(rng.randint(4, 20)):
        call: tuple[str, int] | Mutation = (rng.choice(RELAYED), rng.choice([1, 4, 11, 25]))
        if rng.random() < 0.15:
            call = fault(rng)
        calls.append((rng.choice([0, 1, 2, 7, 30, 90]), call))
    return [*calls, (rng.choice([0, 3, 20, 60]), RelayKill(at_ns=0, relay="R"))]


@pytest.mark.spec("§5A.5", "Mutation invalidation is exact")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_kill_invalidates_exactly_the_oracles_set(batch: int) -> None:
    """Ruling R6 over 2,000 schedules: deliveries, cancelled relay records and every other answer equal the oracle's."""
    taken = spared = ahead = 0
    for number in range(batch, SCHEDULES, BATCHES):
        rng = seeded(number)
        drawn, calls = generate.scenario(rng), schedule(rng)
        fast, slow = play(LinkNetwork(drawn), calls), play(SlowNetwork(drawn), calls)
        assert fast == slow, number
        end_ns, effect = fast[-1]
        lost = {delivery.message_id for delivery in effect.invalidated}
        in_flight = {answer.message_id for _, answer in fast if isinstance(answer, Arrive) and answer.at_ns >= end_ns}
        taken, spared = taken + len(lost), spared + len(in_flight - lost)
        ahead += sum(later < earlier for earlier, later in pairs_at_relay(fast))
    assert taken > 200, "kills that take nothing show nothing"
    assert spared > 100
    assert ahead > 200, "arrivals rise with the sends: nothing overtakes"


def pairs_at_relay(answers: Iterable[tuple[int, Any]]) -> Iterable[tuple[int, int]]:
    """When messages in a row, by time of sending, reach the relay."""
    arrivals = [
        notice.at_ns
        for _, answer in answers
        if not isinstance(answer, MutationEffect)
        for notice in answer.notices
        if notice.relay_delta > 0
    ]
    return pairwise(arrivals)


# --- occupancy, in whole runs -----------------------------------------------------------------------------------------


def declared(rng: Random) -> Scenario:
    """Draw a run: echo hosts that talk through the relay on every tick, and a timeline of relay faults."""
    drawn = generate.scenario(rng)
    targets = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"]}
    peers = []
    for peer, size in zip("abcd", (10, 14, 19, 25), strict=True):
        facts = PeerFacts(id=peer, initial_state="ready", tick_period_ns=40, peer_ids=tuple("abcd"))
        config = {"targets": targets[peer], "payload_bytes": size, "answers": rng.random() < 0.5}
        resolved, complaints = ECHO.validate(config, facts)
        assert not complaints
        peers.append(PeerDecl(id=peer, kind="echo", initial_state="ready", kind_config=resolved))
    times = sorted(rng.randrange(DURATION_NS) for _ in range(rng.randint(2, 9)))
    return msgspec.structs.replace(
        drawn,
        duration_ns=DURATION_NS,
        default_tick_period_ns=40,
        peers=tuple(peers),
        mutations=tuple(msgspec.structs.replace(fault(rng), at_ns=at_ns) for at_ns in times),
    )


class Mirrored:
    """A network that also asks the oracle, and keeps what the oracle's relay has ever held."""

    def __init__(self, scenario: Scenario) -> None:
        self._fast, self._slow = LinkNetwork(scenario), SlowNetwork(scenario)
        self._former: list[tuple[SlowMessage, int]] = []
        self.depth_at_send: dict[int, int] = {}

    def send(self, source: str, target: str, byte_len: int, sent_at_ns: int) -> SendOutcome:
        """Ask both; note the depth that the message was judged by."""
        answer = self._fast.send(source, target, byte_len, sent_at_ns)
        assert answer == self._slow.send(source, target, byte_len, sent_at_ns)
        self.depth_at_send[answer.message_id] = self._slow.relays["R"].depth
        return answer

    def apply_mutation(self, mutation: Mutation, at_ns: int) -> MutationEffect:
        """Tell both; a kill ends the residence of all that is held."""
        if isinstance(mutation, RelayKill):
            self._former += [(message, at_ns) for message in self._slow.relays["R"].messages]
        effect = self._fast.apply_mutation(mutation, at_ns)
        assert effect == self._slow.apply_mutation(mutation, at_ns)
        return effect

    def held(self, at_ns: int) -> list[SlowMessage]:
        """What the relay holds at the end of an instant; of the instant of a kill, just before it."""
        messages = [(message, 1 << 64) for message in self._slow.relays["R"].messages]
        return [
            message
            for message, until_ns in self._former + messages
            if message.arrival < until_ns and message.arrival <= at_ns < message.egress_end and at_ns <= until_ns
        ]


def recorded(scenario: Scenario, network: Any) -> list[EventRecord | MutationRecord]:
    """Run it; return relay records and mutations in file order."""
    sink = MemorySink()
    Engine(scenario, network=network, kinds={"echo": ECHO}, disks=disks_of(scenario), sink=sink).run()
    told = [record for record in sink.records if isinstance(record, EventRecord | MutationRecord)]
    kept = [record for record in told if record.event["kind"] in ("Mutation", "RelayEnqueue", "RelayDequeue")]
    return sorted(kept, key=lambda record: (record.virtual_time_ns, record.sequence))


def replayed(scenario: Scenario, told: list[EventRecord | MutationRecord]) -> int:
    """Check occupancy from the records alone; return how often the relay was killed with something in it.

    What is recorded is the sum of what went in and came out since the last kill, and never above the greatest depth so far.
    """
    held = kills = 0
    deepest = scenario.relays[0].queue_depth_bytes
    for record in told:
        event = record.event
        if event["kind"] == "Mutation":
            deepest = max(deepest, event["mutation"].get("queue_depth_bytes", 0))
            if event["mutation"]["kind"] == "relay_kill":
                kills += held > 0
                held = 0
            continue
        held += event["byte_len"] if event["kind"] == "RelayEnqueue" else -event["byte_len"]
        assert event["enqueued_bytes"] == held
        assert 0 <= held <= deepest
    return kills


def test_occupancy_is_a_replayable_invariant() -> None:
    """Ruling R2 over whole runs: the recorded total equals the records' own sum and the oracle's, and keeps to the depth.

    Exactly: whatever is held never exceeds the depth that the latest sent of its messages was judged by (ruling R9).
    """
    kills = compared = 0
    for number in range(RUNS):
        scenario = declared(seeded(number))
        network = Mirrored(scenario)
        told = recorded(scenario, network)
        kills += replayed(scenario, told)
        events = [record for record in told if record.event["kind"] != "Mutation"]
        at_last = {record.virtual_time_ns: record.event["enqueued_bytes"] for record in events}
        for at_ns, total in at_last.items():
            held = network.held(at_ns)
            assert total == sum(message.size for message in held), (number, at_ns)
            assert not held or total <= network.depth_at_send[max(message.message_id for message in held)]
        compared += len(at_last)
    assert kills > RUNS // 4
    assert compared > 20 * RUNS
