"""The host kind `supervisor`: what the loader refuses, what a run records, and that no mutation reaches it."""

from typing import Any

import orjson
import pytest

from simharness.core.errors import ScenarioError
from simharness.supervisor.chooser import Draws
from simharness.supervisor.faults import CLASSES, KINDS, call_faults
from simharness.supervisor.params import FIELDS, SHAPES, Profile, complaints, draw, table
from tests.supervisor.scenarios import events_of, played, scenario


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"shape": "pbs"}, "kind_config.shape"),
        ({"supervisors": 4}, "kind_config.supervisors"),
        ({"supervisors": True}, "kind_config.supervisors"),
        ({"class": "storm"}, "kind_config.class"),
        ({"kinds": ["gremlins"]}, "kind_config.kinds[0]"),
        ({"rate_ppm": -1}, "kind_config.rate_ppm"),
        ({"tamper": "flip"}, "kind_config.tamper"),
        ({"colour": 1}, "kind_config.colour"),
        ({"schedule": "0 idle"}, "kind_config.schedule"),
        ({"schedule": ["0 idle", "0 run sup9"]}, "kind_config.schedule[1]"),
        ({"schedule": [3]}, "kind_config.schedule[0]"),
        ({"defects": ["NONE"]}, "kind_config.defects[0]"),
        ({"defects": "NONE"}, "kind_config.defects"),
    ],
)
def test_the_loader_names_the_field(config: dict[str, object], field: str) -> None:
    """Every mistake is one structured error."""
    with pytest.raises(ScenarioError) as caught:
        scenario(0, config)
    assert [problem.field for problem in caught.value.problems] == [f"peers[0].{field}"]


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"shape": "pbs"}, "must be one of slurm, kubeflow"),
        ({"store": "disk"}, "must be one of memory, file"),
        ({"class": "storm"}, "must be one of plain, requeue_storm, hold_storm, early_cancel, launch_storm"),
        ({"kinds": ["sup_crash", "gremlins"]}, f"unknown fault kind 'gremlins'; choose from {', '.join(KINDS)}"),
        ({"schedule": ["0 reply sup9"]}, "'reply' is followed by sup0, sup1 or sup2"),
        ({"schedule": ["0 cut disk"]}, "'cut' is followed by record or checkpoint"),
        ({"schedule": ["0 idle now"]}, "'idle' is followed by nothing"),
    ],
)
def test_a_wrong_word_is_told_the_right_ones(config: dict[str, object], rule: str) -> None:
    """Whoever misspells a shape or an actor need not look for the list."""
    with pytest.raises(ScenarioError) as caught:
        scenario(0, config)
    assert [problem.rule for problem in caught.value.problems] == [rule]


def test_no_mutation_may_be_aimed_at_it() -> None:
    """Kill, pause and the others are part of the world's own schedule."""
    with pytest.raises(ScenarioError) as caught:
        scenario(0, {}, mutations=[{"at_ns": 1, "kind": "peer_kill", "peer": "job"}])
    assert caught.value.problems[0].field.startswith("mutations[0]")


def test_a_violation_is_recorded_and_ends_the_run() -> None:
    """With a defect on, the engine driver writes what was broken and halts: a verdict, never an abort."""
    run = played(0, {"shape": "slurm", "defects": ["UNGATED_START"]})
    (violation,) = events_of(run, "SupervisorViolation")
    assert violation["invariant"] == "4"
    assert run.termination.reason == "duration"
    assert [record.event["kind"] for record in run.records][-1] == "SupervisorViolation"


def test_a_snapshot_shows_the_world() -> None:
    """The fold of the record, objects, parked calls and counters, as one JSON object."""
    from simharness.bundle.memory import MemorySink
    from simharness.run import engine_for
    from tests.supervisor.scenarios import KINDS

    sink = MemorySink()
    engine_for(
        scenario(1, {"shape": "slurm"}, snapshots=[{"at_ns": 39_999_000_000_000_000 // 1000}]), KINDS, sink
    ).run()
    shots = [record.snapshot for record in sink.records if hasattr(record, "snapshot")]
    shown: dict[str, Any] = orjson.loads(shots[0])
    assert shown["record"]["settled"]
    assert shown["objects"]
    assert shown["late"] == []
    assert sorted(shown) == sorted(["step", "world_ns", "quiet", "record", "objects", "parked", "late", "counters"])


def test_profiles_are_drawn_whole_and_fields_are_independent() -> None:
    """Every seed gives a profile that may be given back; fixing one field moves no other."""
    for seed in range(200):
        draws = Draws.of_seed(seed)
        for shape in SHAPES:
            profile = draw(draws, shape)
            assert complaints(table(profile)) == []
            assert draw(draws, None, table(profile)) == profile
            if profile.tamper == "none":
                other = draw(draws, shape, {"supervisors": 3, "store": "memory"})
                same = [name for name in FIELDS if name not in ("supervisors", "store")]
                assert [table(other)[name] for name in same] == [table(profile)[name] for name in same]


def test_shares_of_the_profile() -> None:
    """Over 3000 seeds the shares of §11.2 of the design hold within a few standard deviations."""
    profiles: list[Profile] = [draw(Draws.of_seed(seed), "slurm") for seed in range(3000)]

    def share(count: int) -> int:
        return 100 * count // len(profiles)

    assert 47 <= share(sum(one.store == "file" for one in profiles)) <= 53
    assert 30 <= share(sum(one.seed_class == "plain" for one in profiles)) <= 37
    assert all(
        14 <= share(sum(one.seed_class == name for one in profiles)) <= 19 for name in CLASSES if name != "plain"
    )
    assert 27 <= share(sum(one.abandon == "manual" for one in profiles)) <= 33
    assert 22 <= share(sum(one.node_loss == "hold" for one in profiles)) <= 28
    assert 19 <= share(sum(one.shared for one in profiles)) <= 26
    assert 4 <= share(2 * sum(one.tamper != "none" for one in profiles)) <= 8
    for one in profiles:
        assert set(CLASSES[one.seed_class].forced) <= set(one.kinds) <= set(KINDS)


def test_classes_shape_the_faults_of_a_call() -> None:
    """Storms have their own rates, lateness weighs four times as much, and a launch storm only delays or loses a Start."""
    every = frozenset(KINDS)
    launch = call_faults(every, CLASSES["launch_storm"], 80_000)
    assert (launch["Start"].ppm, set(launch["Start"].modes)) == (850_000, {"late", "reply_lost"})
    storm = call_faults(every, CLASSES["requeue_storm"], 80_000)
    assert (storm["Requeue"].ppm, storm["Requeue"].modes.count("late")) == (650_000, 4)
    assert storm["Open"].ppm == 80_000
    assert call_faults(frozenset(), CLASSES["plain"], 350_000) == {}
