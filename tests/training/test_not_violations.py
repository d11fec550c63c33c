"""Deliberately no violations: each entry of the design's list happens, is counted, and all six invariants pass (section 15)."""

import struct
from collections import Counter
from functools import cache
from typing import Any, Final

import pytest

from simharness.assertions.setting import from_scenario
from simharness.assertions.training_oracle.ieee import decode
from simharness.contracts.records import EventRecord
from simharness.hosts.kinds import Kinds
from simharness.stateful.playing import Played, play
from simharness.training.breaking import INVARIANTS
from simharness.training.coverage import covered
from simharness.training.schedules import Case, Mix, scenario_of
from simharness.training.sweep import judged
from tests.scenarios.library import finished, records, verdicts

ULPS: Final = 1 << 12
"""How many last places two orders of addition may be apart after sixty steps; what they are is far less."""


def run_of(name: str) -> Played:
    """A shipped run, all six invariants of which pass."""
    passed = {verdict.kind for verdict in verdicts(f"training/{name}.toml") if verdict.outcome == "Pass"}
    assert {*INVARIANTS} <= passed
    return finished(f"training/{name}.toml")


@cache
def counts(name: str) -> Counter[str]:
    """What a shipped run shows."""
    run = run_of(name)
    facts = from_scenario(run.scenario).training
    assert facts is not None
    return covered(facts, run.ordered.events)


def commits(name: str) -> list[dict[str, Any]]:
    """The committed steps of a shipped run."""
    return [record.event for record in records(run_of(name), "TrainCommit")]


def chunks(name: str) -> list[EventRecord]:
    """The chunks that were delivered."""
    return [record for record in records(run_of(name), "Delivered") if record.event["type_tag"] == "CHUNK"]


both = pytest.mark.parametrize("end", ["", "_ps"])


@both
def test_1_the_batch_shrinks_after_a_death(end: str) -> None:
    """Entry 1: the divisor is what contributed, so a smaller batch is a noisier step and no wrong one."""
    sizes = {commit["step"]: commit["count"] for commit in commits(f"one_death{end}")}
    assert max(sizes[step] for step in range(19)) == 16
    assert max(sizes[step] for step in range(21, 60)) == 12


@both
def test_2_an_aborted_step_is_tried_again(end: str) -> None:
    """Entry 2: before its commit a step has changed nothing but buffers; gradients are used again. Chunks show it (G10)."""
    found = counts(f"death_mid_reduce{end}")
    assert found["gradient reused"] >= 3
    if not end:
        heads = [bytes.fromhex(record.event["head"]) for record in chunks("death_mid_reduce")]
        rounds = {head[18:20] for head in heads if head[4:12] == struct.pack("<II", 1, 18)}  # of step 18 in view 1
        assert found["abort during scatter"] == 1
        assert {phase for _, phase in rounds} == {3}
        assert max(number for number, _ in rounds) >= 1


@both
def test_3_a_contribution_of_the_dead_counts(end: str) -> None:
    """Entry 3: it computed the samples while it was alive, and they had arrived."""
    assert counts(f"death_after_ready{end}")["death after READY or PUSH"] == 1
    (commit,) = [commit for commit in commits(f"death_after_ready{end}") if commit["step"] == 18]
    assert ("w1", 4) in [(each[0], each[3]) for each in commit["contributions"]]


def test_4_a_stale_message_is_refused() -> None:
    """Entry 4: late, doubled, of another step: it is refused and changes nothing."""
    assert counts("lossy")["stale chunk refused"] > 0
    assert counts("lossy_ps")["duplicate push refused"] > 0


@both
def test_5_too_few_stop_and_go_on(end: str) -> None:
    """Entry 5: below `min_workers` there is no view; whoever holds the newest state needs no rollback."""
    found = counts(f"hub_isolated{end}")
    assert (found["pause"], found["rollback"]) == (1, 0)
    assert counts(f"minority_partition{end}")["rollback"] == 0
    assert any(len(record.event["members"]) == 3 for record in records(run_of(f"minority_partition{end}"), "TrainView"))


def test_6_a_healthy_worker_is_put_out() -> None:
    """Entry 6: the edge to its neighbour is cut, so it is suspected, loses its gradient, and fetches the state later."""
    found = counts("pair_cut")
    assert found["eviction by suspicion"] >= 1
    assert found["donor transfer"] >= 1


def test_7_a_commit_is_applied_late() -> None:
    """Entry 7: a worker that wakes applies what was committed while it slept, many steps after the others."""
    assert counts("paused_worker")["commit applied late"] == 1


@both
def test_8_a_dead_branch_is_held_for_a_while(end: str) -> None:
    """Entry 8: who has not heard of a rollback takes a step of the generation before; the lineage is not touched (G14)."""
    found = counts(f"dead_branch{end}")
    assert found["dead branch"] >= 1
    assert found["rollback"] == 1


@both
def test_9_orphans_and_other_owners(end: str) -> None:
    """Entry 9: the samples of an absent owner wait for it, and are orphans if the epoch ends first; shared ones change hands."""
    assert judged(run_of(f"one_death{end}"))["counters"]["orphan"] > 0
    shared = play(scenario_of(Case(1, "ps" if end else "ring", "reshard"), Mix(kinds=("kill",), workers=(3,))), Kinds())
    row = judged(shared)
    assert row["outcome"] == "Pass"
    assert "orphan" not in row["counters"]
    owners: dict[int, set[str]] = {}
    for record in records(shared, "TrainGradient"):
        for sample in record.event["ids"]:
            owners.setdefault(sample, set()).add(str(record.host_id))
    assert any(len(hosts) > 1 for hosts in owners.values())


@pytest.mark.parametrize("name", ["total_loss", "hub_crash_ps", "dead_branch", "dead_branch_ps"])
def test_10_and_11_a_justified_rollback(name: str) -> None:
    """Entries 10 and 11: nobody up holds a later state, so the lineage is cut, and samples of the cut branch come again."""
    found = counts(name)
    assert found["rollback"] == 1
    assert found["trained again"] >= 1
    (record,) = records(run_of(name), "TrainRollback")
    assert record.event["step"] == 15


def test_12_ring_and_server_differ_in_the_last_bits() -> None:
    """Entry 12: the same samples in every step, added in another order."""
    ends = []
    for name in ("clean_own", "clean_own_ps"):
        last = records(run_of(name), "TrainApply")[-1].event
        assert last["step"] == 60
        ends.append(last["weights"])
    one, two = (decode(weights) for weights in ends)
    assert ends[0] != ends[1]
    assert one is not None
    assert two is not None
    bits = max(one.bits, two.bits)
    for a, b in zip(one.values, two.values, strict=True):
        a, b = a << (bits - one.bits), b << (bits - two.bits)  # noqa: PLW2901  # on one denominator
        assert abs(a - b) << 52 <= ULPS * abs(a)


def test_13_a_cut_that_only_a_ring_feels() -> None:
    """Entry 13: two workers that no longer reach each other both reach the server, whose views do not change."""
    assert len(records(run_of("pair_cut_ps"), "TrainView")) == 1
    assert len(records(run_of("pair_cut"), "TrainView")) > 1


def test_14_nothing_to_contribute() -> None:
    """Entry 14: a member without samples, a view of one member, chunks without a number."""
    assert counts("clean_own")["empty contribution"] > 0
    table = {"model": "linear", "features": 1, "min_workers": 1}
    mix = Mix(kinds=("total",), workers=(3,), horizon_ms=800, table=table)
    row = judged(play(scenario_of(Case(6, "ring", "own"), mix), Kinds()))
    assert row["outcome"] == "Pass"
    assert row["counters"]["view of one member"] > 0
    assert row["counters"]["P < N"] > 0


def test_15_a_backup_worker_is_dropped_in_a_row() -> None:
    """Entry 15: the server goes on without the slow one, step after step, and its samples come round again."""
    assert counts("straggler_backup_ps")["backup dropped"] >= 3
    dropped = [
        commit["step"]
        for commit in commits("straggler_backup_ps")
        if 10 <= commit["step"] < 18 and "w2" not in [each[0] for each in commit["contributions"]]
    ]
    assert len(dropped) >= 3
    assert {verdict.outcome for verdict in verdicts("training/straggler_backup_ps.toml")} == {"Pass"}
