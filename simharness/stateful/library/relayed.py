"""Clusters behind one relay: head-of-line blocking (Layer A), and the battery's families of a relay that fails one host."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from simharness.contracts.assertions import (
    Assertion,
    ConvergenceAfter,
    EventCount,
    MessageSizeBounded,
    NoDeadWhenProbesOk,
    NoFlapWhileProbesOk,
    RelayQueueDepthBounded,
)
from simharness.contracts.links import LinkRef, RelayDecl
from simharness.contracts.mutations import Heal, LossBurst, Mutation, Partition, RelayPeerConnDown
from simharness.contracts.scenario import LinkDecl, Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful.scripted import SpaceMachine
from simharness.stateful.spaces import Numbers, Space, swim_cluster
from simharness.stateful.templates import Facts, Template

RELAY: Final = "R"
OWN_RELAY: Final = RelayDecl(
    id=RELAY, ingress_capacity_bps=1_000_000_000, egress_capacity_bps_per_link=100_000_000, queue_depth_bytes=65_536
)
"""The relay of the later N3 runs: it never queues."""


def behind(relay: RelayDecl, scenario: Scenario) -> Scenario:
    """Route every pair of a scenario through one relay instead of its meshes; each leg has the default policy."""
    ids = [peer.id for peer in scenario.peers]
    legs = [LinkDecl(source=peer, target=relay.id) for peer in ids]
    legs += [LinkDecl(source=relay.id, target=peer) for peer in ids]
    return msgspec.structs.replace(scenario, relays=(relay,), meshes=(), links=tuple(legs))


# --- Layer A ------------------------------------------------------------------------------------------------------------

MOST_BYTES: Final = 4_096
DEEPEST_BYTES: Final = 65_536


def _talkative(numbers: Numbers) -> Scenario:
    def own(peer: str) -> Mapping[str, Any]:
        return {
            "names": [f"pp-stage-{peer}"],
            "metadata": {"relay_url": "https://use1-1.relay.example.org./", "node_name": f"stage-{peer}"},
        }

    cluster = swim_cluster(numbers, duration_ms=15_000, timeout_ms=500, suspicion_ms=3_000, occupancy="wire", own=own)
    relay = RelayDecl(
        id=RELAY,
        ingress_capacity_bps=100_000_000,
        egress_capacity_bps_per_link=numbers["egress_each_bps"] * numbers["peers"],
        queue_depth_bytes=524_288,
    )
    return behind(relay, cluster)


class RelayHol(SpaceMachine):
    """No probe is late at a relay of bounded egress, whose queue stays short, since no message is longer than 4,096 bytes.

    Four to six peers tell each other their names and metadata through a relay that serves 7 to 9 kB a second and peer towards
    each; with less the names alone, told once, make a probe late. The round trip is at most a third of the direct timeout, so only
    the queue could. Exists for COMBINED_PIGGYBACK (Layer A): seven kilobytes a message delay each other's probes, a late probe
    makes more of them, and the queue never drains.
    """

    space = Space(
        name="relay_hol",
        numbers={
            "peers": range(4, 7),
            "latency_ms": range(10, 41, 10),
            "jitter_ms": range(0, 6, 5),
            "egress_each_bps": range(7_000, 9_001, 500),
        },
        build=_talkative,
        assertions=(
            MessageSizeBounded(message_kind="Ping", max_bytes=MOST_BYTES),
            MessageSizeBounded(message_kind="Ack", max_bytes=MOST_BYTES),
            RelayQueueDepthBounded(relay=RELAY, max_bytes=DEEPEST_BYTES),
            EventCount(event_kind="SwimProbeTimedOut", max=0),
            EventCount(event_kind="SwimTransition", max=0),
        ),
    )
    budget = 20


# --- battery A ----------------------------------------------------------------------------------------------------------

_CUT_END_MS: Final = 60_000
_SETTLED_MS: Final = 5_000
"""A probe that began in a cut is over by then, helper included."""

_DIRECTIONS: Final = (("a", "c"),), (("c", "a"),), (("a", "c"), ("c", "a"))


def _cut_off(numbers: Numbers) -> Scenario:
    start_ms, length_ms = numbers["cut_ms"], numbers["length_ms"]
    script: list[Mutation] = []
    if numbers["in_heal"]:
        script += [
            Partition(at_ns=500 * NS_PER_MS, peers_a=("a",), peers_b=("c",)),
            Heal(at_ns=start_ms * NS_PER_MS),
        ]
    script += [
        RelayPeerConnDown(
            at_ns=start_ms * NS_PER_MS, relay=RELAY, source=source, target=target, duration_ns=length_ms * NS_PER_MS
        )
        for source, target in _DIRECTIONS[numbers["direction"]]
    ]
    end_ms = start_ms + length_ms + 20_000
    cluster = swim_cluster(
        numbers,
        duration_ms=end_ms,
        cold_dial_ms=200,
        timeout_ms=1_200,
        suspicion_ms=3_750,
        occupancy="wire",
        script=tuple(script),
        snapshots_ms=tuple(range(end_ms - 20_000, end_ms + 1, 1_000)),
    )
    return behind(OWN_RELAY, cluster)


def _calm_outside_the_cut(facts: Facts) -> Iterator[Assertion]:
    """Ask for no flap and no death before the first fault and after the last, and for agreement in the end."""
    cuts = [mutation for mutation in facts.mutations if isinstance(mutation, RelayPeerConnDown)]
    if not cuts:
        return
    last_ns = max(cut.at_ns + cut.duration_ns for cut in cuts)
    windows = [(last_ns + _SETTLED_MS * NS_PER_MS, facts.end_ns)]
    first_ns = facts.mutations[0].at_ns
    if first_ns > _SETTLED_MS * NS_PER_MS:
        windows.append((0, first_ns))
    for peer in facts.peers("swim"):
        for start_ns, end_ns in windows:
            yield NoFlapWhileProbesOk(peer=peer, window_start_ns=start_ns, window_end_ns=end_ns)
            yield NoDeadWhenProbesOk(peer=peer, window_start_ns=start_ns, window_end_ns=end_ns)
    yield ConvergenceAfter(after_ns=last_ns, within_ns=20_000 * NS_PER_MS, peers=facts.peers("swim"))


class RelayConnDrop(SpaceMachine):
    """A connection through the relay that dies and returns makes nobody flap or die, whenever and for however long it was away.

    Battery, family A: one ordered pair or both, from 100 ms to 30 s, at any time, by itself or in the instant in which a partition
    heals. A helper is left all the time, so nobody even changes state.
    """

    space = Space(
        name="relay_conn_drop",
        numbers={
            "peers": (3,),
            "latency_ms": (60,),
            "jitter_ms": (15,),
            "cut_ms": range(1_000, 30_001, 250),
            "length_ms": (100, 500, 1_000, 5_000, 10_000, 30_000),
            "direction": (0, 1, 2),
            "in_heal": (0, 1),
        },
        build=_cut_off,
        assertions=(Template(_calm_outside_the_cut), EventCount(event_kind="SwimTransition", max=0)),
    )
    budget = 30


# --- battery D ----------------------------------------------------------------------------------------------------------


_LOSS_PPM_MS: Final = 14_400_000_000
"""Loss times length of a burst, so that one that loses little lasts long: 8 % for three minutes, 40 % for 36 seconds."""


def _flaky(numbers: Numbers) -> Scenario:
    leg = LinkRef(source="c", target=RELAY)
    length_ms = _LOSS_PPM_MS // numbers["prob_ppm"]
    burst = LossBurst(
        at_ns=2_000 * NS_PER_MS, links=(leg,), prob_ppm=numbers["prob_ppm"], duration_ns=length_ms * NS_PER_MS
    )
    cluster = swim_cluster(
        numbers,
        duration_ms=length_ms + 5_000,
        cold_dial_ms=200,
        timeout_ms=1_200,
        suspicion_ms=3_750,
        occupancy="wire",
        script=(burst,),
    )
    return behind(OWN_RELAY, cluster)


class AsymmetricLoss(SpaceMachine):
    """What one flaky host loses shows at that host and at no other, and its own probes are the ones that time out.

    Battery, family D: the leg from one host to the relay loses between 8 % for three minutes and 40 % for 36 seconds. Two probes a
    second make 360 to 72 in that time, of which one is lost but for one run in 10^13; nothing that anybody else sends ever is.
    """

    space = Space(
        name="asymmetric_loss",
        numbers={
            "peers": (3, 4),
            "latency_ms": range(20, 61, 20),
            "jitter_ms": (0, 15),
            "prob_ppm": range(80_000, 400_001, 40_000),
        },
        build=_flaky,
        assertions=(
            EventCount(event_kind="DropOnSend", peer="c", min=1),
            EventCount(event_kind="DropOnSend", peer="a", max=0),
            EventCount(event_kind="DropOnSend", peer="b", max=0),
            EventCount(event_kind="SwimProbeTimedOut", peer="c", min=1),
        ),
    )
    budget = 20
