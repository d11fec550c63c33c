"""Coverage counters show effects, not faults: each is zero when its effect is taken off the record (ruling K8)."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import pytest

from simharness.assertions.setting import from_scenario
from simharness.contracts.records import EventRecord, MutationRecord, Record
from simharness.contracts.scenario import Scenario
from simharness.hosts.kinds import Kinds
from simharness.stateful.playing import Played, play
from simharness.training.coverage import FURTHER, REQUIRED, covered, missing
from simharness.training.schedules import Case, Mix, Strategy, scenario_of
from simharness.training.sweep import judged
from tests.scenarios.library import finished

KINDS: Final = Kinds()
Effect = Callable[[dict[str, Any]], bool]


def drawn(strategy: Strategy, kind: str, seed: int) -> Scenario:
    """A short schedule of one kind of fault."""
    return scenario_of(Case(seed, strategy, "own"), Mix(kinds=(kind,), workers=(2, 3), horizon_ms=800))


@cache
def seen(name: str) -> Played:
    """A run: of a shipped schedule, or of one drawn by `strategy/kind/seed`."""
    if "/" not in name:
        return finished(f"training/{name}.toml")
    strategy, kind, seed = name.split("/")
    return play(drawn("ring" if strategy == "ring" else "ps", kind, int(seed)), KINDS)


def counters(run: Played, records: list[Record]) -> Counter[str]:
    """What a run's records show."""
    facts = from_scenario(run.scenario).training
    assert facts is not None
    return covered(facts, records)


def kind(*kinds: str, **fields: Any) -> Effect:
    """Events of a kind, with these fields."""
    return lambda event: event["kind"] in kinds and all(event.get(name) == value for name, value in fields.items())


def shrunk_view(event: dict[str, Any]) -> bool:
    """A view of one member."""
    return event["kind"] == "TrainView" and len(event["members"]) == 1


class Shown(NamedTuple):
    """A run that raises a counter, and the records that are its effect."""

    run: str
    effect: Effect


EFFECTS: Final = {
    "uneven step": Shown("clean_own", kind("TrainCommit")),
    "epoch end": Shown("clean_own", kind("TrainCommit")),
    "abort during scatter": Shown("death_mid_reduce", kind("TrainView", reason="member_lost")),
    "abort during gather": Shown("hub_crash", kind("Delivered", type_tag="CHUNK")),
    "death after READY or PUSH": Shown("death_after_ready", kind("TrainCommit", step=18)),
    "commit learnt from VIEW": Shown("hub_isolated", kind("Delivered", type_tag="VIEW")),
    "donor transfer": Shown("death_and_rejoin", kind("TrainInstall")),
    "transfer with donor death": Shown("ring/flap/4", kind("TrainInstall")),
    "eviction by suspicion": Shown("pair_cut", kind("TrainEvict")),
    "stale chunk refused": Shown("lossy", kind("TrainReject")),
    "stale push refused": Shown("paused_worker_ps", kind("TrainReject")),
    "duplicate push refused": Shown("lossy_ps", kind("TrainReject", why="duplicate")),
    "old incarnation refused": Shown("ring/flap/0", kind("TrainReject", why="old_incarnation")),
    "backup dropped": Shown("straggler_backup_ps", kind("TrainCommit")),
    "backup starvation rule used": Shown("straggler_backup_ps", kind("TrainCommit")),
    "pause": Shown("hub_isolated", kind("TrainPause")),
    "wake from peer_pause": Shown(
        "paused_worker", kind("TrainGradient", "TrainApply", "TrainInstall", "TrainReject", "TrainCheckpoint")
    ),
    "compute deadline taken by a tick": Shown("ring/preserved/1", kind("TrainGradient")),
    "computation slowed": Shown("straggler", kind("TrainGradient")),
    "clock shifted across a lease": Shown("wrong_clocks", kind("TrainPause")),
    "hub restart": Shown("hub_crash", kind("TrainView", reason="start")),
    "rollback": Shown("total_loss", kind("TrainRollback")),
    "rollback over an epoch end": Shown("hub_crash_ps", kind("TrainRollback")),
    "view of one member": Shown("ring/total/6", shrunk_view),
    "P < N": Shown("ring/kill/0", kind("TrainCommit")),
    "gradient reused": Shown("death_mid_reduce", kind("TrainGradient")),
    "empty contribution": Shown("clean_own", kind("TrainCommit")),
    "commit applied late": Shown("paused_worker", kind("TrainApply")),
    "dead branch": Shown("dead_branch", kind("TrainApply")),
    "trained again": Shown("total_loss", kind("TrainRollback")),
}
JUDGED: Final = ("discriminating step", "orphan")
"""What an invariant counts."""


def test_every_counter_has_a_suppression() -> None:
    """None is left out."""
    assert {*EFFECTS, *JUDGED} == {*REQUIRED, *FURTHER}


@pytest.mark.parametrize("name", EFFECTS)
def test_no_effect_no_count(name: str) -> None:
    """Rulings K8 and G12: the run raises the counter; the same records without its effect do not, though all faults are there."""
    shown = EFFECTS[name]
    run = tiny() if shown.run == "ring/kill/0" else seen(shown.run)
    events: list[Record] = list(run.ordered.events)
    assert counters(run, events)[name] > 0
    left = [record for record in events if isinstance(record, MutationRecord) or not shown.effect(event_of(record))]
    assert len(left) < len(events)
    assert counters(run, left)[name] == 0


def event_of(record: Record) -> dict[str, Any]:
    """The event of a record."""
    assert isinstance(record, EventRecord)
    return record.event


@cache
def tiny() -> Played:
    """Three workers and two parameters."""
    mix = Mix(kinds=("kill",), workers=(3,), horizon_ms=300, table={"model": "linear", "features": 1})
    return play(scenario_of(Case(0, "ring", "own"), mix), KINDS)


def test_faults_alone_count_nothing() -> None:
    """The storm's mutations without what they did raise no counter."""
    for name in ("storm", "storm_ps"):
        run = seen(name)
        faults: list[Record] = [record for record in run.ordered.events if isinstance(record, MutationRecord)]
        assert faults
        assert not counters(run, faults)


def test_what_invariants_count() -> None:
    """Discriminating steps need several contributors with different counts; orphans need somebody's absence."""
    assert judged(seen("clean_own"))["counters"].get("orphan", 0) == 0
    row = judged(seen("one_death"))
    assert row["counters"]["orphan"] > 0
    assert row["counters"]["discriminating step"] == row["discriminating"] > 10
    alone = scenario_of(Case(0, "ps", "own"), Mix(kinds=("slow",), workers=(1,), horizon_ms=300))
    row = judged(play(alone, KINDS))
    assert (row["outcome"], row["discriminating"]) == ("Pass", 0)


def test_missing_names_what_a_strategy_lacks() -> None:
    """A batch with a zero names the counter, of its own strategy only."""
    full = dict.fromkeys(REQUIRED, 1)
    assert missing(full, "ring") == missing(full, "ps") == ()
    assert missing(full | {"donor transfer": 0, "backup dropped": 0}, "ring") == ("donor transfer",)
    assert missing(full | {"donor transfer": 0, "backup dropped": 0}, "ps") == ("backup dropped",)
