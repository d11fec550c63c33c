"""Whole clusters: joining, message sizes, and a mesh under a swarm of faults."""

from collections.abc import Iterator

from simharness.contracts.assertions import Assertion, ConvergenceAfter, MessageSizeBounded
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful import templates
from simharness.stateful.faults import HEAL, LATENCY_SPIKE, LOSS_BURST, PARTITION, PEER_KILL, PEER_RESURRECT, swarm
from simharness.stateful.machine import SimulationMachine
from simharness.stateful.pools import ints
from simharness.stateful.scripted import SpaceMachine
from simharness.stateful.spaces import Numbers, Space, swim_cluster
from simharness.stateful.swim import swim_meshes
from simharness.stateful.templates import Facts, Template

_JOINED_MS, _END_MS = 10_000, 25_000


def _joining(numbers: Numbers) -> Scenario:
    spread_ms = numbers["spread_ms"]

    def own(peer: str) -> dict[str, object]:
        seed = "b" if peer == "a" else "a"
        return {"seeds": [seed], "join_at_ns": (ord(peer) - ord("a")) * spread_ms * NS_PER_MS}

    return swim_cluster(
        numbers,
        duration_ms=_END_MS,
        joining=True,
        own=own,
        snapshots_ms=tuple(range(_JOINED_MS + 1_000, _END_MS + 1, 1_000)),
    )


def _everybody_in(facts: Facts) -> Iterator[Assertion]:
    within_ns = (_END_MS - _JOINED_MS) * NS_PER_MS
    yield ConvergenceAfter(after_ns=_JOINED_MS * NS_PER_MS, within_ns=within_ns, peers=facts.peers("swim"))


class Convergence(SpaceMachine):
    """Nodes that know nothing but one seed, and join at different times under loss, come to hold each other Alive all at once.

    Agreement is asked at some snapshot of fifteen seconds, since loss may make a peer suspected at any one instant. A
    JoinRequest may be lost and is repeated after ten intervals; what the seed's answer does not tell, gossip does.
    """

    space = Space(
        name="convergence",
        numbers={
            "peers": range(2, 8),
            "latency_ms": range(5, 101, 5),
            "loss_ppm": range(0, 20_001, 5_000),
            "spread_ms": range(0, 501, 50),
        },
        build=_joining,
        assertions=(Template(_everybody_in),),
    )
    budget = 30


MOST_BYTES = 4_096
_TEXT_BYTES = 120


def _talkative(numbers: Numbers) -> Scenario:
    def own(peer: str) -> dict[str, object]:
        return {
            "names": [f"{peer}-{place}-".ljust(_TEXT_BYTES, "x") for place in range(numbers["names"])],
            "metadata": {"relay_url": "https://relay.example/".ljust(_TEXT_BYTES, "x"), "node_name": peer},
        }

    return swim_cluster(
        numbers,
        duration_ms=8_000,
        timeout_ms=200,
        own=own,
    )


class MessageSize(SpaceMachine):
    """No message is longer than 4,096 bytes, however many names and however much metadata the members have.

    Loss keeps suspicions, and so updates, in the queues. Exists for COMBINED_PIGGYBACK: names and metadata rode in every message,
    as arrays of numbers within arrays of numbers, and a Ping of nine kilobytes queued behind its like at the relay (Layer A).
    """

    space = Space(
        name="message_size",
        numbers={
            "peers": range(3, 8),
            "latency_ms": range(20, 151, 10),
            "loss_ppm": range(0, 100_001, 10_000),
            "names": range(1, 9),
        },
        build=_talkative,
        assertions=(
            MessageSizeBounded(message_kind="Ping", max_bytes=MOST_BYTES),
            MessageSizeBounded(message_kind="Ack", max_bytes=MOST_BYTES),
        ),
    )
    budget = 30


class MeshUnderFaults(SimulationMachine):
    """Whatever happens to links and peers, nobody flaps while probes succeed, and when it is over all agree.

    A swarm of partitions, loss, latency and kills; then everything is healed and revived, and twenty seconds pass. A Dead rumour is
    believed at once, so whoever was cut off for longer than a suspicion timeout may bury the living for the others:
    `no_dead_when_probes_ok` is therefore a claim of `MeshUnderShortFaults`. Exists for UNORDERED_MEMBERS too: two runs of one
    example in one process must give the same bytes.
    """

    scenarios = swim_meshes(peers=ints(3, 6), latency_ms=ints(10, 150), loss_ppm=ints(0, 30_000))
    faults = swarm(PARTITION, HEAL, LOSS_BURST, LATENCY_SPIKE, PEER_KILL, PEER_RESURRECT)
    assertions = (
        templates.NoFlapWhileProbesOk.each_peer(),
        templates.ConvergenceAfter.in_quiet_phase(within_ms=20_000),
    )
    quiet_ms = 20_000
    max_duration_ms = 10_000
    max_steps = 15
    budget = 60


class MeshUnderShortFaults(SimulationMachine):
    """Faults of links that pass before a suspicion can run out make nobody flap and bury nobody.

    Bursts of loss and spikes of latency of at most 1.5 seconds, under a suspicion timeout of five.
    """

    scenarios = swim_meshes(
        peers=ints(3, 6), latency_ms=ints(10, 100), loss_ppm=ints(0, 20_000), suspicion_timeout_ms=5_000
    )
    faults = swarm(LOSS_BURST, LATENCY_SPIKE, duration_ms=ints(100, 1_500), factor_x100=ints(150, 600))
    assertions = (templates.NoFlapWhileProbesOk.each_peer(), templates.NoDeadWhenProbesOk.each_peer())
    quiet_ms = 6_000
    max_duration_ms = 8_000
    max_steps = 15
    budget = 60
