"""Layer C: `reproduction/stage_death.toml` and its healthy twin."""

from collections.abc import Mapping
from functools import cache
from typing import Final

import pytest

from simharness.contracts.mutations import kind_of
from simharness.contracts.scenario import Scenario
from simharness.scenario.loader import load
from tests.hosts.stage_runs import KINDS, LIFE, START, Run, S
from tests.tidy.check import ROOT

LIFETIMES_S: Final[Mapping[str, int]] = {"stage-2": 51, "stage-0": 75, "stage-1": 191}


@cache
def declared(name: str) -> Scenario:
    return load(ROOT.joinpath("scenarios", "reproduction", f"{name}.toml"), KINDS).scenario


@cache
def finished(name: str) -> Run:
    return Run(declared(name))


def judged(name: str) -> list[tuple[str, str]]:
    """(kind, outcome) of every assertion, in order."""
    kinds = [kind_of(assertion) for assertion in declared(name).assertions]
    return list(zip(kinds, finished(name).verdicts, strict=True))


def test_lifetimes_count_from_each_stages_own_start() -> None:
    """The second N3 run: 51 s, 75 s and 191 s, to the nanosecond, from the first tick of each stage."""
    run = finished("stage_death")
    for peer, lifetime_s in LIFETIMES_S.items():
        start, *_, end = [t for t, _, _ in run.events("stage_lifecycle", host=peer)]
        assert run.moves(peer) == LIFE
        assert end - start == lifetime_s * S


def test_verdicts_are_definite() -> None:
    """Dead workers fail, are detected by those still up (ruling W3), and do not resolve; nothing is inconclusive."""
    assert judged("stage_death") == [
        *[("worker_alive_throughout", "Fail")] * 3,
        ("all_alive_throughout", "Fail"),
        *[("name_resolves_within", "Pass")] * 3,
        ("self_incarnation_bounded", "Pass"),
        ("relay_queue_depth_bounded", "Pass"),
        *[("peer_detected_dead_within", "Pass")] * 3,
        *[("name_resolves_within", "Fail")] * 3,
    ]


def test_healthy_twin_passes() -> None:
    """The same cluster without the three exits: everything passes, and SWIM sees nothing."""
    assert {outcome for _, outcome in judged("stage_death_healthy")} == {"Pass"}
    run = finished("stage_death_healthy")
    assert run.events("SwimTransition", "SwimProbeTimedOut", "worker_exited") == []
    assert [run.moves(peer) for peer in sorted(LIFETIMES_S)] == [START] * 3


@pytest.mark.parametrize("peer", LIFETIMES_S)
def test_boundary_snapshots(peer: str) -> None:
    """One nanosecond before its exit a stage runs; one after, it is halted and says why."""
    states = finished("stage_death").snapshots(peer)
    [exit_ns] = [
        mutation.at_ns for mutation in declared("stage_death").mutations if getattr(mutation, "peer", "") == peer
    ]
    assert states[exit_ns - 1]["state"] == "Running"
    assert states[exit_ns + 1]["state"] == "Halted"
    assert states[exit_ns + 1]["last_exit_reason"] == "worker process exited with code 1"


def test_twin_differs_by_the_exits_alone() -> None:
    """The fault file adds mutations, boundary snapshots and assertions; peers and network are those of the twin."""
    fault, twin = declared("stage_death"), declared("stage_death_healthy")
    assert (fault.peers, fault.relays, fault.links, fault.seed) == (twin.peers, twin.relays, twin.links, twin.seed)
    assert twin.mutations == ()
    assert fault.assertions[: len(twin.assertions)] == twin.assertions
