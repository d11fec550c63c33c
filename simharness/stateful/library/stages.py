"""Stages that die from inside (Layer C)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simharness.contracts.assertions import (
    Assertion,
    ConvergenceAfter,
    EventCount,
    NameResolvesWithin,
    PeerDetectedDeadWithin,
    WorkerAliveThroughout,
)
from simharness.contracts.host import PeerFacts
from simharness.contracts.links import LinkPolicy
from simharness.contracts.mutations import WorkerExit
from simharness.contracts.scenario import MeshDecl, PeerDecl, Scenario, SnapshotDecl
from simharness.core.errors import Problem, ScenarioError
from simharness.core.units import NS_PER_MS
from simharness.stateful.library.relayed import OWN_RELAY, behind
from simharness.stateful.scripted import SpaceMachine
from simharness.stateful.spaces import Numbers, Space
from simharness.stateful.swim import with_session_options
from simharness.stateful.templates import Facts, Template
from simharness.stateful.topologies import use_kind

_TICK_MS, _INTERVAL_MS, _TIMEOUT_MS, _SUSPICION_MS = 100, 1_000, 1_200, 4_000
_ORCHESTRATOR: Final = "orchestrator"
_NAMED_MS: Final = 10_000
"""By then every name is known everywhere."""

_SWIM: Final = {
    "probe_interval_ns": _INTERVAL_MS * NS_PER_MS,
    "probe_timeout_ns": _TIMEOUT_MS * NS_PER_MS,
    "suspicion_timeout_ns": _SUSPICION_MS * NS_PER_MS,
}


def dead_everywhere_ms(peers: int) -> int:
    """Return how long after an exit every observer holds the stage Dead: a round for each peer, and two suspicion timeouts."""
    return peers * max(_INTERVAL_MS, 2 * _TIMEOUT_MS) + 2 * _SUSPICION_MS


def _peer(kind: str, peer_id: str, raw: Mapping[str, Any], ids: tuple[str, ...]) -> PeerDecl:
    """Return a peer whose configuration the kind has resolved, under the session's SWIM options."""
    initial_state = "alive" if kind == "swim" else "cold"
    facts = PeerFacts(id=peer_id, initial_state=initial_state, tick_period_ns=_TICK_MS * NS_PER_MS, peer_ids=ids)
    config, complaints = use_kind(kind).validate(with_session_options(kind, raw), facts)
    if complaints:
        raise ScenarioError(Problem("(space)", f"{peer_id}.{item.field}", item.rule) for item in complaints)
    return PeerDecl(id=peer_id, kind=kind, initial_state=initial_state, kind_config=config)


def _dying(numbers: Numbers) -> Scenario:
    stages = tuple(f"stage-{place}" for place in range(numbers["peers"] - 1))
    ids = (_ORCHESTRATOR, *stages)
    exit_ms = numbers["exit_ms"]
    end_ms = max(exit_ms, _NAMED_MS) + dead_everywhere_ms(len(ids))
    policy = LinkPolicy(
        latency_ns=numbers["latency_ms"] * NS_PER_MS,
        jitter_stddev_ns=numbers["jitter_ms"] * NS_PER_MS,
        loss_prob_ppm=0,
        reorder_prob_ppm=0,
        bandwidth_bps=25_000_000,
        cold_dial_penalty_ns=200 * NS_PER_MS,
        cache_warm_after_ns=200 * NS_PER_MS,
        cache_invalidate_after_idle_ns=30_000 * NS_PER_MS,
        occupancy="wire",
    )
    peers = [_peer("swim", _ORCHESTRATOR, _SWIM, ids)]
    for stage in stages:
        raw = {"name": f"pp-{stage}", "address": f"{stage}:7700", "node": _SWIM}
        peers.append(_peer("stage", stage, raw, ids))
    victim = stages[numbers["victim"] % len(stages)]
    fault = WorkerExit(
        at_ns=exit_ms * NS_PER_MS, peer=victim, reason="worker process exited", status_code=numbers["code"]
    )
    cluster = Scenario(
        name="dying",
        seed=0,
        duration_ns=end_ms * NS_PER_MS,
        default_tick_period_ns=_TICK_MS * NS_PER_MS,
        default_link=policy,
        peers=tuple(peers),
        meshes=(MeshDecl(),),
        mutations=(fault,),
        snapshots=tuple(SnapshotDecl(at_ns=at_ms * NS_PER_MS) for at_ms in range(1_000, end_ms + 1, 1_000)),
    )
    return behind(OWN_RELAY, cluster)


def _observed(facts: Facts) -> Iterator[Assertion]:
    """Ask that the death is on record, noticed by all, and nobody else's."""
    for fault in facts.mutations:
        if not isinstance(fault, WorkerExit):
            continue
        ids = facts.peers(None)
        others = tuple(peer for peer in ids if peer != fault.peer)
        within_ns = dead_everywhere_ms(len(ids)) * NS_PER_MS
        yield PeerDetectedDeadWithin(peer=fault.peer, after_ns=fault.at_ns, within_ns=within_ns)
        yield ConvergenceAfter(after_ns=fault.at_ns, within_ns=within_ns, peers=others)
        yield EventCount(event_kind="worker_exited", peer=fault.peer, min=1, max=1)
        for stage in facts.peers("stage"):
            yield EventCount(event_kind="register_name", peer=stage, min=1, max=1)
            if stage != fault.peer:
                yield EventCount(event_kind="worker_exited", peer=stage, max=0)
                yield WorkerAliveThroughout(
                    peer=stage, window_start_ns=_TICK_MS * NS_PER_MS, window_end_ns=facts.end_ns
                )
                yield NameResolvesWithin(
                    name=f"pp-{stage}", observers=others, from_ns=0, within_ns=_NAMED_MS * NS_PER_MS
                )


class StageDeath(SpaceMachine):
    """A stage whose worker exits says so once, halts, and is found Dead by all others in time; theirs go on, with their names.

    Layer C: two to four stages and their orchestrator behind their own relay, the exit at any time from the first second on, before
    and after convergence. The bound is that of a killed peer: a round for each peer and two suspicion timeouts.
    """

    space = Space(
        name="stage_death",
        numbers={
            "peers": range(3, 6),
            "latency_ms": range(20, 101, 20),
            "jitter_ms": range(0, 16, 5),
            "exit_ms": range(1_000, 20_001, 500),
            "victim": range(4),
            "code": range(3),
        },
        build=_dying,
        assertions=(Template(_observed),),
    )
    budget = 25
