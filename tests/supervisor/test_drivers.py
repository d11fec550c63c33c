"""One world, three ways to drive it: the same seed gives the same trace everywhere and every time."""

import subprocess
import sys

import pytest

from simharness.supervisor.direct import run
from simharness.supervisor.params import SHAPES, Shape, table
from simharness.supervisor.schedule import parse, written
from tests.supervisor.scenarios import events_of, played

QUIET = {"kinds": [], "class": "plain", "tamper": "none"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("store", ["memory", "file"])
def test_a_seed_without_faults_settles(shape: Shape, store: str) -> None:
    """Seed 0, no fault kind: the job ends and everybody leaves."""
    found = run(0, shape, given={**QUIET, "store": store})
    assert (found.violated, found.refused) == (None, False)
    assert {"tombstoned"} & found.seen == ({"tombstoned"} if store == "file" else set())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_seed_is_clean_and_gives_one_hash(shape: Shape) -> None:
    """Forty seeds, each twice: no violation, the same trace hash, and no two seeds alike."""
    hashes = []
    for seed in range(40):
        first, second = run(seed, shape), run(seed, shape)
        assert (seed, first.violated, first.message) == (seed, None, "")
        assert first.trace_hash == second.trace_hash
        hashes.append(first.trace_hash)
    assert len(set(hashes)) == len(hashes)


def test_the_order_of_hashes_does_not_matter() -> None:
    """Fresh interpreters with different hash seeds agree on every trace."""
    code = "from simharness.supervisor.direct import run; print(*[run(s, 'slurm').trace_hash for s in range(8)])"
    found = set()
    for hash_seed in ("1", "20020"):
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_the_engine_drives_to_the_same_hash(shape: Shape) -> None:
    """The engine driver records what the direct driver hashes (§2.2 of the design)."""
    for seed in range(4):
        (settled,) = events_of(played(seed, {"shape": shape}), "SupervisorSettled")
        assert settled["trace_hash"] == run(seed, shape).trace_hash


@pytest.mark.parametrize("shape", SHAPES)
def test_a_written_schedule_replays_exactly(shape: Shape) -> None:
    """What the direct driver has recorded, written and read again, gives the same hash by both drivers."""
    for seed in range(6):
        drawn = run(seed, shape, keep=True)
        lines = written(drawn.schedule)
        fields = table(drawn.profile)
        again = run(seed, shape, given=fields, schedule=[parse(line) for line in lines])
        assert again.trace_hash == drawn.trace_hash
    (settled,) = events_of(played(5, {**fields, "schedule": lines}), "SupervisorSettled")
    assert settled["trace_hash"] == drawn.trace_hash


def test_fixing_a_field_at_what_was_drawn_changes_nothing() -> None:
    """Each parameter is a keyed draw of its own."""
    drawn = run(3, "slurm")
    assert run(3, "slurm", given=table(drawn.profile)).trace_hash == drawn.trace_hash


def test_a_step_taken_out_leaves_other_keyed_values_alone() -> None:
    """A keyed draw depends on what it decides and on nothing else: without one idle step every object has the same lag."""
    from simharness.supervisor.chooser import Draws

    one, other = Draws.of_seed(7), Draws.of_seed(7)
    other.below(10, "mode/sup0.0/3")
    assert [one.key(f"lag/1/1/{i}") for i in range(20)] == [other.key(f"lag/1/1/{i}") for i in range(20)]
    drawn = run(2, "slurm", keep=True)
    place = next(i for i, entry in enumerate(drawn.schedule) if i > 30 and entry.target == "sweeper")
    shorter = [*drawn.schedule[:place], *drawn.schedule[place + 1 :]]
    again = run(2, "slurm", given=table(drawn.profile), schedule=shorter, keep=True)
    assert again.lines[:place] == drawn.lines[:place]
    assert again.violated is None
