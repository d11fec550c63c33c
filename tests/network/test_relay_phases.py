"""The relay phases of §12: R1, R2, R4 and R5, each by its verifiable outcome; R3 is shown where the stages are tested."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
import tomli_w

from simharness.bundle.reader import Bundle
from simharness.contracts.assertions import RelayQueueDepthBounded
from simharness.contracts.records import EventRecord
from simharness.core.canonical_json import compact
from simharness.core.units import transmission_ns
from simharness.hosts.kinds import Kinds
from simharness.network.model import LinkNetwork
from simharness.run import run_to_bundle
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from simharness.stateful.playing import play
from tests.network.build import MS, S, arrive, link, relay, scenario
from tests.tidy.check import ROOT

KINDS: Final = Kinds()
CALIBRATION: Final = ROOT / "scenarios" / "calibration"
CANARY: Final = CALIBRATION / "n3_canary_relay_real_worker.toml"
OWN: Final = CALIBRATION / "n3_own_relay_real_worker.toml"


# --- R1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 200, 9_870])
@pytest.mark.parametrize(("ingress", "egress"), [(10**9, 10**8), (10**8, 20_000)])
def test_r1_a_relayed_send_is_later_by_ingress_and_egress(size: int, ingress: int, egress: int) -> None:
    """Phase R1: later than over a direct edge of equal policy by the relay's two serialisation times, and by nothing else.

    The policy stands on the inbound leg; the outbound one costs nothing, so that the path has it once.
    """
    policy: dict[str, Any] = {"latency_ns": 60 * MS, "cold_dial_penalty_ns": 200 * MS, "bandwidth_bps": 25_000_000}
    direct = arrive(LinkNetwork(scenario(links=(link("a", "b", **policy),))).send("a", "b", size, S))
    legs = (link("a", "R", **policy), link("R", "b", bandwidth_bps=10**18))
    vertex = relay(ingress_capacity_bps=ingress, egress_capacity_bps_per_link=egress)
    relayed = arrive(LinkNetwork(scenario(links=legs, relays=(vertex,))).send("a", "b", size, S))
    wait_ns = transmission_ns(size, ingress) + transmission_ns(size, egress)
    assert relayed.at_ns - direct.at_ns == wait_ns
    assert relayed.delay.relay_ingress + relayed.delay.relay_egress == wait_ns


def test_r1_with_two_legs_of_that_policy() -> None:
    """Phase R1 on a `via` link, which has the policy on both legs (ruling R16): the second leg is added, and nothing else."""
    policy: dict[str, Any] = {"latency_ns": 60 * MS, "bandwidth_bps": 10**6}
    direct = arrive(LinkNetwork(scenario(links=(link("a", "b", **policy),))).send("a", "b", 500, 0))
    links = (link("a", "b", via="R", **policy),)
    vertex = relay(ingress_capacity_bps=10**6, egress_capacity_bps_per_link=10**5)
    relayed = arrive(LinkNetwork(scenario(links=links, relays=(vertex,))).send("a", "b", 500, 0))
    assert relayed.at_ns == 2 * direct.at_ns + 500_000 + 5_000_000


# --- R2 ---------------------------------------------------------------------------------------------------------------


def document(*mutations: dict[str, Any]) -> dict[str, Any]:
    """Four echo hosts behind a slow relay: inbound legs that differ, jitter and lose, outbound ones of 20 ms sharp."""
    legs = []
    for place, peer in enumerate("abcd"):
        inbound = {"latency_ns": (10 + 15 * place) * MS, "jitter_stddev_ns": 4 * MS, "loss_prob_ppm": 50_000}
        legs += [{"from": peer, "to": "R", **inbound}, {"from": "R", "to": peer, "bandwidth_bps": 10**18}]
    vertex = {
        "id": "R",
        "ingress_capacity_bps": 10**6,
        "egress_capacity_bps_per_link": 60_000,
        "queue_depth_bytes": 16_000,
    }
    talkative = {"kind": "echo", "initial_state": "ready", "kind_config": {"payload_bytes": 900}}
    return {
        "name": "kill-and-boot",
        "seed": 5,
        "duration_ns": 2 * S,
        "default_tick": {"period_ns": 100 * MS},
        "default_link": {
            "latency_ns": 20 * MS,
            "jitter_stddev_ns": 0,
            "loss_prob_ppm": 0,
            "reorder_prob_ppm": 0,
            "bandwidth_bps": 10**8,
            "cold_dial_penalty_ns": 0,
            "cache_warm_after_ns": 0,
            "cache_invalidate_after_idle_ns": 10 * S,
            "occupancy": "wire",
        },
        "peers": [{"id": peer, **talkative} for peer in "abcd"],
        "relays": [vertex],
        "links": legs,
        "mutations": list(mutations),
    }


class Watched:
    """A `DeliveryObserver` that notes, for each ordered pair, when what arrives was sent, and when it arrives."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Any) -> None:
        """Take one delivery."""
        del tag, delay
        self.seen.setdefault((source, target), []).append((sent_at_ns, at_ns))

    def duplicated(self, source: str, target: str, at_ns: int) -> None:
        raise AssertionError

    def held(self, host_id: str, at_ns: int) -> None:
        """Nobody is paused here."""

    def skewed(self, host_id: str, at_ns: int, shown_ns: int) -> None:
        """Nobody's clock is wrong here."""


class Passed(NamedTuple):
    """One message of the run in which nothing is killed."""

    source: str
    target: str
    sent_ns: int
    left_ns: int
    at_ns: int


def undisturbed() -> list[Passed]:
    """Pair each delivery with its dequeue: messages of one pair keep their order from leg to leg."""
    watch = Watched()
    run = play(loads(tomli_w.dumps(document()), KINDS), KINDS, observer=watch)
    left: dict[tuple[str, str], list[int]] = {}
    for record in run.records:
        if type(record) is EventRecord and record.event["kind"] == "RelayDequeue":
            left.setdefault((record.event["from"], record.event["to"]), []).append(record.virtual_time_ns)
    return [
        Passed(*pair, sent_ns, left_ns, at_ns)
        for pair, seen in watch.seen.items()
        for (sent_ns, at_ns), left_ns in zip(seen, left[pair], strict=False)
    ]


@pytest.mark.parametrize("kill_ns", [420 * MS, 500 * MS, 777_777_777, 1_234_567_890])
def test_r2_kill_then_boot_invalidates_what_is_in_flight_and_no_more(kill_ns: int, tmp_path: Path) -> None:
    """Phase R2, in a bundle: the deliveries that the kill takes are those that had not left the relay; what had goes on.

    Which those are is read from the run in which nothing is killed: sent before that moment, out of the relay after it.
    """
    kill = {"at_ns": kill_ns, "kind": "relay_kill", "relay": "R"}
    boot_ns = kill_ns + 200 * MS
    boot = {"at_ns": boot_ns, "kind": "relay_boot", "relay": "R"}
    file = tmp_path / "kill_and_boot.toml"
    file.write_text(tomli_w.dumps(document(kill, boot)), "utf-8")
    bundle = Bundle(run_to_bundle(load(file, KINDS), tmp_path / "bundle", KINDS).bundle)
    events = [line for line in bundle.events() if line.virtual_time_ns >= kill_ns]
    lost = [line for line in events if line.event["kind"] == "DropOnDelivery"]
    assert {(line.virtual_time_ns, line.event["reason"]) for line in lost} == {(kill_ns, "relay_down")}

    before = [message for message in undisturbed() if message.sent_ns < kill_ns]
    in_flight = [message[:3] for message in before if message.left_ns > kill_ns]
    assert len(in_flight) > 5
    taken = [(line.event["from"], line.event["to"], line.event["sent_at_ns"]) for line in lost]
    assert sorted(taken) == sorted(in_flight)

    past = sum(message.left_ns <= kill_ns < message.at_ns for message in before)
    received = [line for line in events if line.event["kind"] == "EchoReceived"]
    assert sum(line.virtual_time_ns < boot_ns for line in received) == past > 0

    first = next(line for line in events if line.event["kind"] == "RelayEnqueue")
    assert first.virtual_time_ns > boot_ns
    assert first.event["enqueued_bytes"] == first.event["byte_len"]


# --- R4 ---------------------------------------------------------------------------------------------------------------


def depth_under(policy: Path) -> str:
    """The outcome of `relay_queue_depth_bounded` in the first N3 scenario under the relay policy of another file."""
    declared, [other] = load(CANARY, KINDS).scenario, load(policy, KINDS).scenario.relays
    [mine] = declared.relays
    relays = (msgspec.structs.replace(other, id=mine.id),)
    [depth] = [item for item in declared.assertions if isinstance(item, RelayQueueDepthBounded)]
    run = play(msgspec.structs.replace(declared, relays=relays, assertions=(depth,)), KINDS)
    return str(run.verdicts()[0].outcome)


def test_r4_the_relay_policy_decides() -> None:
    """Phase R4: the N3-1 scenario fails `relay_queue_depth_bounded` under the canary's policy and passes under the own relay's."""
    assert (depth_under(CANARY), depth_under(OWN)) == ("Fail", "Pass")


# --- R5 ---------------------------------------------------------------------------------------------------------------

NEW_KINDS: Final[Mapping[str, str]] = {
    "RelayEnqueue": "relay",
    "RelayDequeue": "relay",
    "register_name": "stage",
    "stage_lifecycle": "stage",
    "worker_exited": "stage",
}


@pytest.mark.parametrize("file", sorted(CALIBRATION.glob("n3_*.toml")), ids=lambda file: file.stem)
def test_r5_every_calibration_scenario_parses(file: Path) -> None:
    """Phase R5: each of them loads, and so does what is emitted of it."""
    declared = load(file, KINDS).scenario
    assert loads(emit(declared), KINDS) == declared
    assert declared.relays


def test_r5_new_event_kinds_pass_through_unchanged(tmp_path: Path) -> None:
    """Phase R5: relay and stage records stand in the bundle as they were emitted, and a reader gives them back so."""
    loaded = load(OWN, KINDS)
    bundle = Bundle(run_to_bundle(loaded, tmp_path / "bundle", KINDS).bundle)
    emitted = [
        record
        for record in play(loaded.scenario, KINDS).records
        if type(record) is EventRecord and record.event["kind"] in NEW_KINDS
    ]
    emitted.sort(key=lambda record: (record.virtual_time_ns, record.sequence))
    read = [line for line in bundle.events() if line.event["kind"] in NEW_KINDS]
    assert [compact(line.event) for line in read] == [compact(record.event) for record in emitted]
    assert {line.event["kind"]: line.kind_tag for line in read} == NEW_KINDS
    assert all((line.host_id is None) == (line.kind_tag == "relay") for line in read)
    assert bundle.verify() == ()
