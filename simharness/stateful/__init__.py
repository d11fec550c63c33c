"""Hypothesis over the engine: properties as state machines, scenario spaces, the host-kind conformance suite.

A property is a subclass of `SimulationMachine`; its `TestCase` is what pytest collects. Everything a property is made of can be
imported from here.
"""

from simharness.contracts.assertions import EventCount, EventRate, MessageSizeBounded
from simharness.stateful.conformance import HostKindConformance
from simharness.stateful.faults import (
    CLOCK_DRIFT,
    CLOCK_OFFSET,
    DUPLICATE_BURST,
    HEAL,
    LATENCY_SPIKE,
    LOSS_BURST,
    PARTITION,
    PEER_KILL,
    PEER_PAUSE,
    PEER_RESURRECT,
    PEER_SLOW,
    RELAY_BOOT,
    RELAY_BUFFER,
    RELAY_CAPACITY_CHANGE,
    RELAY_KILL,
    RELAY_PEER_CONN_DOWN,
    WORKER_EXIT,
    swarm,
)
from simharness.stateful.laws import Finding, Law, Line, Story
from simharness.stateful.machine import SimulationMachine
from simharness.stateful.pools import ints
from simharness.stateful.scenarios import fault_timelines, scenarios
from simharness.stateful.swim import swim_meshes
from simharness.stateful.templates import (
    AllAliveThroughout,
    ConvergenceAfter,
    DeadPeerResurrectsWithin,
    NameResolvesWithin,
    NoDeadWhenProbesOk,
    NoFlapWhileProbesOk,
    PeerDetectedDeadWithin,
    RelayQueueDepthBounded,
    SelfIncarnationBounded,
    WorkerAliveThroughout,
)
from simharness.stateful.topologies import chains, links, meshes, relayed, relays, rings, stars

__all__ = [
    "CLOCK_DRIFT",
    "CLOCK_OFFSET",
    "DUPLICATE_BURST",
    "HEAL",
    "LATENCY_SPIKE",
    "LOSS_BURST",
    "PARTITION",
    "PEER_KILL",
    "PEER_PAUSE",
    "PEER_RESURRECT",
    "PEER_SLOW",
    "RELAY_BOOT",
    "RELAY_BUFFER",
    "RELAY_CAPACITY_CHANGE",
    "RELAY_KILL",
    "RELAY_PEER_CONN_DOWN",
    "WORKER_EXIT",
    "AllAliveThroughout",
    "ConvergenceAfter",
    "DeadPeerResurrectsWithin",
    "EventCount",
    "EventRate",
    "Finding",
    "HostKindConformance",
    "Law",
    "Line",
    "MessageSizeBounded",
    "NameResolvesWithin",
    "NoDeadWhenProbesOk",
    "NoFlapWhileProbesOk",
    "PeerDetectedDeadWithin",
    "RelayQueueDepthBounded",
    "SelfIncarnationBounded",
    "SimulationMachine",
    "Story",
    "WorkerAliveThroughout",
    "chains",
    "fault_timelines",
    "ints",
    "links",
    "meshes",
    "relayed",
    "relays",
    "rings",
    "scenarios",
    "stars",
    "swarm",
    "swim_meshes",
]
