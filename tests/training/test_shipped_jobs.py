"""The named schedules of training: twins of one schedule, runs that mean something, and bytes that never change (design, 16)."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from simharness.contracts.assertions import TRAINING_INVARIANTS, TrainProgress, TrainUpdateMatchesReference
from simharness.scenario.emit import emit
from simharness.training.breaking import INVARIANTS
from tests.scenarios.library import FILES, declared, finished, path_of, records, verdicts
from tests.tidy.check import ROOT

JOBS: Final = tuple(name for name in FILES if name.startswith("training/"))
SERVERS: Final = tuple(name for name in JOBS if name.endswith("_ps.toml"))
DIGESTS: Final = Path(__file__).with_name("storm_digests.toml")
NAMED: Final = (
    *("clean_own", "clean_reshard", "one_death", "death_and_rejoin", "death_mid_reduce", "death_after_ready"),
    *("death_at_epoch_end", "straggler", "minority_partition", "hub_isolated", "pair_cut", "hub_crash", "total_loss"),
    *("flapping", "lossy", "paused_worker", "wrong_clocks", "rolling_restart", "storm", "clean_five", "dead_branch"),
)
BACKUP: Final = "training/straggler_backup_ps.toml"
every_job = pytest.mark.parametrize("name", JOBS)


def resolved(name: str) -> dict[str, Any]:
    """A scenario as one table, everything filled in."""
    return tomllib.loads(emit(declared(name)))


def with_table(document: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """The same job under other settings."""
    return document | {"peers": [peer | {"kind_config": peer["kind_config"] | settings} for peer in document["peers"]]}


def test_every_named_schedule_is_there_twice() -> None:
    """Section 16's list, each as ring and as server."""
    assert {f"training/{name}{end}.toml" for name in NAMED for end in ("", "_ps")} <= set(JOBS)


@pytest.mark.parametrize("name", [name for name in SERVERS if name != BACKUP])
def test_twins_differ_in_the_strategy_alone(name: str) -> None:
    """T3: the same network, faults, pace and judgement; the file says so, and the resolved values do."""
    ring = name.replace("_ps.toml", ".toml")
    assert tomllib.loads(path_of(name).read_text("utf-8")) == {
        "base": {"extends": ring.removeprefix("training/")},
        "training": {"strategy": "ps"},
    }
    assert resolved(name) == with_table(resolved(ring), strategy="ps")
    assert {peer["kind_config"]["strategy"] for peer in resolved(ring)["peers"]} == {"ring"}


def test_the_backup_twin_adds_backup_workers() -> None:
    """The one server without a ring of its own: the straggler's schedule with one worker that may be done without."""
    assert resolved(BACKUP) == with_table(resolved("training/straggler_ps.toml"), backup_workers=1)


@every_job
def test_every_job_is_judged_by_everything(name: str) -> None:
    """The six invariants, at least ten steps in which a wrong weighting would show, and steps after the last fault."""
    asserted = declared(name).assertions
    assert [str(type(one).__struct_config__.tag) for one in asserted if isinstance(one, TRAINING_INVARIANTS)] == [
        *INVARIANTS
    ]
    assert [one.min_discriminating for one in asserted if isinstance(one, TrainUpdateMatchesReference)] == [10]
    (progress,) = [one for one in asserted if isinstance(one, TrainProgress)]
    ended_ns = [one.at_ns + getattr(one, "duration_ns", 0) for one in declared(name).mutations]
    assert progress.after_ns >= max(ended_ns, default=0)
    assert progress.min_steps >= 15


@pytest.mark.parametrize("strategy", ["ring", "ps"])
def test_storm_bytes(strategy: str) -> None:
    """§7.6: one digest for forty steps under every kind of fault, weights included."""
    name = "training/storm.toml" if strategy == "ring" else "training/storm_ps.toml"
    run = finished(name)
    applied = records(run, "TrainApply")
    assert {record.event["step"] for record in applied} == set(range(1, 41))
    assert all(record.event["weights"] for record in applied)
    assert {verdict.outcome for verdict in verdicts(name)} == {"Pass"}
    assert run.digest() == tomllib.loads(DIGESTS.read_text("utf-8"))[strategy]


@pytest.mark.parametrize("name", ["storm", "storm_ps"])
def test_hash_seeds_and_replay(name: str, tmp_path: Path) -> None:
    """§7.1: processes with different string hashes write the same bundle, and a replay of it gives its digests."""
    bundles = []
    for seed in ("1", "2"):
        bundle = tmp_path / seed
        _simharness("run", f"scenarios/training/{name}.toml", "--out", str(bundle), seed=seed)
        bundles.append({path.name: path.read_bytes() for path in sorted(bundle.rglob("*")) if path.is_file()})
    assert bundles[0] == bundles[1]
    assert "events.ndjson" in bundles[0]
    _simharness("replay", str(tmp_path / "1"), seed="3")


def _simharness(*arguments: str, seed: str) -> None:
    command = [sys.executable, "-m", "simharness", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
