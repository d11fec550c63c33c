"""The sweep of training: cases by the seed, rows, totals, and the command (training design, 17)."""

from pathlib import Path
from sys import float_info
from typing import Any, Final

import msgspec
import pytest

from simharness.assertions.catalog.training_update import JudgedStep, TrainUpdateMatchesReferenceFold
from simharness.assertions.training_oracle.quotient import BOUND
from simharness.assertions.training_oracle.reference import Worst
from simharness.cli import training_sweep
from simharness.cli.main import main
from simharness.contracts.assertions import TrainProgress
from simharness.contracts.records import EventRecord
from simharness.contracts.scenario import Scenario
from simharness.core.canonical_json import parse
from simharness.hosts.kinds import Kinds
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from simharness.stateful.playing import evaluate, play
from simharness.training import sweep
from simharness.training.coverage import REQUIRED
from simharness.training.document import MOST_RATIO_PPM, SweepRow
from simharness.training.schedules import KINDS as FAULTS
from simharness.training.schedules import MOST_WORKERS, STRATEGIES, Case, Mix, scenario_of
from simharness.training.steps import step_of
from simharness.training.sweep import LEAST_SEEDS, Row, Space, Totals, judged, report, row_of

KINDS: Final = Kinds()
SMALL: Final = Space(most_workers=2)
CASE: Final = Case(4, "ps", "own")


def plain(case: Case) -> dict[str, Any]:
    """A case's scenario without what its strategy and policy are."""
    scenario = scenario_of(case)
    drop = ("strategy", "data_policy", "backup_workers")
    tables = [{name: value for name, value in peer.kind_config.items() if name not in drop} for peer in scenario.peers]
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(scenario, name="", peers=()))
    return found | {"tables": tables, "peers": [peer.id for peer in scenario.peers]}


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_is_one_job_and_one_schedule(seed: int) -> None:
    """Ruling G11: under both strategies and policies the same network, faults, batches and pace; and the same every time."""
    cases = list(Space().cases(seed))
    assert len(cases) == 4
    assert len({str(plain(case)) for case in cases}) == 1
    assert scenario_of(cases[0]) == scenario_of(cases[0])


def test_the_space() -> None:
    """One to twelve workers, small ones often; every kind of fault; never equal batches; everything over before the quiet phase."""
    scenarios = [scenario_of(Case(seed, "ring", "own")) for seed in range(150)]
    counts = [len(scenario.peers) - 1 for scenario in scenarios]
    assert min(counts) == 1
    assert max(counts) == MOST_WORKERS
    assert sum(count <= 5 for count in counts) > 100
    for scenario in scenarios:
        table = scenario.peers[0].kind_config
        assert len(scenario.peers) == 2 or len({*table["batch_size"]}) > 1
        (progress,) = [one for one in scenario.assertions if isinstance(one, TrainProgress)]
        ends = [mutation.at_ns + getattr(mutation, "duration_ns", 0) for mutation in scenario.mutations]
        assert max(ends) <= progress.after_ns
    kinds = {str(type(mutation).__name__) for scenario in scenarios for mutation in scenario.mutations}
    assert len(FAULTS) == 14
    assert {"PeerKill", "PeerPause", "PeerSlow", "ClockDrift", "DuplicateBurst", "LatencySpike", "LossBurst"} <= kinds
    assert all(loads(emit(scenario), KINDS) == scenario for scenario in scenarios[:20])


def test_at_most_so_many_workers() -> None:
    """A mix may be narrower."""
    assert max(len(scenario_of(Case(seed, "ring", "own"), SMALL.mix).peers) for seed in range(30)) == 3
    assert {len(scenario_of(Case(seed, "ps", "own"), Mix(workers=(7,))).peers) for seed in range(5)} == {8}


def test_a_row_is_its_seeds() -> None:
    """The same row every time, in the form that the report reads; another order of runs changes nothing."""
    row = row_of(CASE, SMALL, KINDS)
    row_of(Case(5, "ring", "reshard"), SMALL, KINDS)
    assert row_of(CASE, SMALL, KINDS) == row
    assert row["outcome"] == "Pass"
    assert row["steps"] > 50
    read = msgspec.convert(row, SweepRow)
    assert (read.seed, read.strategy, read.policy, read.digest) == (4, "ps", "own", row["digest"])
    assert 0 < read.ratio < 1


def test_the_emitted_file_is_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Section 17: `--emit` writes a file whose run has the row's digest; `--trace` shows faults and steps."""
    file = tmp_path / "case.toml"
    named = ["sweep", "training", "--seed", "4", "--strategy", "ps", "--policy", "own", "--max-workers", "2"]
    assert main([*named, "--trace", "--emit", str(file)]) == 0
    out = capsys.readouterr().out
    row = row_of(CASE, SMALL, KINDS)
    assert row["digest"] in out
    assert row["replay"] == f"simharness {' '.join(named)} --trace"
    assert out.count("TrainCommit") >= row["steps"]
    assert "peer_" in out or "clock_" in out or "burst" in out or "spike" in out
    played = play(load(file, KINDS).scenario, KINDS)
    assert played.digest() == row["digest"]


def test_the_command_counts_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of few seeds coverage is not asked (G16); a sweep that was stopped goes on from its rows and ends in the same file."""
    whole, parts = tmp_path / "whole.ndjson", tmp_path / "parts.ndjson"
    common = ["sweep", "training", "--jobs", "1", "--max-workers", "2", "--strategy", "ps", "--policy", "own"]
    assert main([*common, "--seeds", "4..6", "--out", str(whole)]) == 0
    assert "coverage     too few runs to ask for coverage: 2 seeds of the 200 from which on" in capsys.readouterr().out
    assert main([*common, "--seeds", "4..5", "--out", str(parts)]) == 0
    assert main([*common, "--seeds", "4..6", "--out", str(parts), "--json"]) == 0
    assert parts.read_bytes() == whole.read_bytes()
    lines = whole.read_bytes().splitlines()
    assert [parse(line)["seed"] for line in lines] == [4, 5]
    whole.write_bytes(lines[0].replace(b'"digest":"', b'"digest":"0') + b"\n")
    assert main([*common, "--seeds", "4..6", "--out", str(whole)]) == 2


@pytest.mark.parametrize(
    "options",
    [
        ("training",),
        ("training", "--seed", "1", "--seeds", "1..2"),
        ("training", "--seed", "1", "--trace"),
        ("training", "--seed", "1", "--strategy", "star"),
        ("training", "--seed", "1", "--max-workers", "13"),
        ("training", "--seed", "1", "--shrink"),
        ("training", "--seed", "1", "--swim-defect", "ONE_STEP_REFUTE"),
        ("training", "--seed", "1", "--swim-profile", "production"),
        ("training", "--seed", "1", "--strategy", "ps", "--policy", "own", "--trace", "--out", "x"),
        ("training", "--seed", "1", "--strategy", "ps", "--policy", "own", "--trace", "--jobs", "2"),
        ("gossip_flap", "--seed", "1", "--strategy", "ring"),
    ],
)
def test_wrong_options(options: tuple[str, ...]) -> None:
    """What would do nothing, or is no name, is bad input."""
    assert main(["sweep", *options]) == 2


def faked(strategy: str, **fields: Any) -> Row:
    """A row of a good run."""
    return {
        "seed": 1,
        "strategy": strategy,
        "policy": "own",
        "workers": 3,
        "outcome": "Pass",
        "failed": [],
        "notes": [],
        "steps": 10,
        "discriminating": 4,
        "rollbacks": 1,
        "ratio_ppm": 5,
        "counters": dict.fromkeys(REQUIRED, 1),
        **fields,
    }


def test_totals() -> None:
    """Violations, stalls, counters and the share of discriminating runs are each seen."""
    totals = Totals()
    for strategy in STRATEGIES:
        for _ in range(4):
            totals.add(faked(strategy))
    assert (totals.violations, totals.stalls, totals.zero_counters()) == (0, 0, {})
    assert totals.discriminates_enough
    totals.add(faked("ring", discriminating=0))
    assert totals.discriminates_enough
    totals.add(faked("ring", discriminating=0, workers=1))
    assert totals.discriminates_enough
    for _ in range(2):
        totals.add(faked("ps", discriminating=0))
    assert not totals.discriminates_enough
    totals.add(faked("ps", outcome="Fail", failed=["train_progress"]))
    totals.add(faked("ps", outcome="Fail", failed=["train_weights"]))
    totals.add(faked("ring", outcome="Abort", failed=["training-guard-ready"], ratio_ppm=7))
    assert (totals.violations, totals.stalls) == (2, 1)
    found = report(totals)
    assert (found["steps"], found["rollbacks"], found["worst_ratio_ppm"]) == (150, 15, 7)
    lacking = Totals()
    lacking.add(faked("ps", counters={"epoch end": 1}))
    assert "rollback" in lacking.zero_counters()["ps"]


def batch(seeds: int, **fields: Any) -> Totals:
    """So many seeds of good runs of the server, but for some fields."""
    totals = Totals()
    for seed in range(seeds):
        totals.add(faked("ps", seed=seed, **fields))
    return totals


def test_coverage_is_asked_of_enough_seeds() -> None:
    """Ruling G16: from 200 seeds on each required counter is due, and four of five runs discriminate; below, that is said."""
    met = batch(LEAST_SEEDS)
    assert (met.doubts, met.coverage) == ((), "every required counter was met")
    few = batch(LEAST_SEEDS - 1, counters={}, discriminating=0)
    assert few.doubts == ()
    assert few.coverage == "too few runs to ask for coverage: 199 seeds of the 200 from which on every counter is due"
    zero = batch(LEAST_SEEDS, counters=dict.fromkeys(REQUIRED, 1) | {"rollback": 0})
    assert zero.doubts == ("no rollback (ps)",)
    blind = batch(LEAST_SEEDS, discriminating=0)
    assert blind.doubts == ("0 of 200 runs with several workers discriminate, at least 80 % must",)
    assert batch(2, outcome="Inconclusive").doubts == ("2 runs are Inconclusive",)
    assert report(zero)["doubts"] == zero.doubts


@pytest.mark.parametrize(
    ("fields", "code", "headline"),
    [
        ({}, 0, "clean"),
        ({"discriminating": 0}, 3, "inconclusive"),
        ({"discriminating": 0, "outcome": "Fail", "failed": ["train_weights"]}, 1, "violation"),
    ],
)
def test_why_it_is_3(
    fields: dict[str, Any],
    code: int,
    headline: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first word and a line of its own say that a batch is inconclusive, and why."""
    monkeypatch.setattr(
        training_sweep,
        "row_of",
        lambda case, *_: faked(case.strategy, seed=case.seed, policy=case.policy, replay="r", **fields),
    )
    assert main(["sweep", "training", "--seeds", "0..200", "--jobs", "1"]) == code
    out = capsys.readouterr().out
    assert out.startswith(headline)
    assert ("inconclusive since 0 of 800 runs with several workers discriminate" in out) == (code == 3)


def test_an_emitted_case_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command again has the same place; the trace as JSON is one value (foreign files: tests/cli/test_training.py)."""
    file = tmp_path / "new" / "case.toml"
    monkeypatch.setattr(training_sweep, "row_of", lambda case, *_: faked(case.strategy, digest="d"))
    for _ in range(2):
        named = ["sweep", "training", "--seed", "4", "--strategy", "ps", "--policy", "own", "--max-workers", "2"]
        assert main([*named, "--emit", str(file)]) == 0
    assert file.read_text("utf-8").startswith("# A case of the sweep of training, ps, own, seed 4.\n")


def test_a_gross_bug_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong weighting is off by more millionths than 64 bits hold: the row says at least so many; the sweep goes on from it."""
    wrong = Mix(workers=(2,), horizon_ms=1_000, table={"defects": ["UNWEIGHTED_MEAN"], "guards": False})
    monkeypatch.setattr(Space, "mix", wrong)
    ratios = [step.worst.ratio_ppm for step in update_steps(scenario_of(Case(3, "ps", "own"), wrong))]
    assert max(ratios) > 2**64
    file = tmp_path / "rows.ndjson"
    words = ["sweep", "training", "--jobs", "1", "--strategy", "ps", "--policy", "own", "--seed", "3"]
    assert main([*words, "--out", str(file)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("violation")
    assert "worst at least 9223372036854.775 of the tolerance" in out
    written = file.read_bytes()
    row = parse(written)
    assert (row["outcome"], row["failed"][0], row["ratio_ppm"]) == (
        "Fail",
        "train_update_matches_reference",
        MOST_RATIO_PPM,
    )
    assert msgspec.convert({**row}, SweepRow).ratio_words == "at least 9.22e+12"
    assert main([*words, "--out", str(file), "--json"]) == 1
    assert parse(capsys.readouterr().out)["worst_ratio_ppm"] == MOST_RATIO_PPM == 2**63 - 1
    assert file.read_bytes() == written


def update_steps(scenario: Scenario) -> tuple[JudgedStep, ...]:
    """The steps of a run as invariant 1 judged them."""
    played = play(scenario, KINDS)
    folds = evaluate(scenario, played.ordered, played.termination).folds
    (fold,) = [one for one in folds if isinstance(one, TrainUpdateMatchesReferenceFold)]
    return fold.steps


def test_a_tolerance_below_the_normal_range_makes_a_ratio_all_the_same() -> None:
    """Where the right step is no step, a wrong one is more tolerances off than a float holds: the report shows the largest."""
    (first, *_) = update_steps(scenario_of(CASE, SMALL.mix))
    far = first._replace(worst=Worst("weights", 0, 2**1100, 1))
    assert step_of(far, 0.0).ratio == float_info.max
    assert step_of(first, 0.0).ratio == first.worst.ratio_ppm / 1_000_000


INFINITE, NO_NUMBER, WHOLE = "000000000000f07f", "000000000000f87f", "000000000000f03f"


@pytest.mark.parametrize("vector", [INFINITE, NO_NUMBER, "", "00", WHOLE * 99], ids=lambda text: text[-16:])
def test_vectors_that_are_no_state_are_a_row(vector: str) -> None:
    """Infinite, no numbers, too few or too many: invariant 1 says so, and there is nothing to compare with a quotient."""
    played = play(scenario_of(CASE, SMALL.mix), KINDS)
    for record in played.ordered.events:
        if isinstance(record, EventRecord) and record.event["kind"] == "TrainApply":
            count = len(record.event["weights"]) // 16 if vector in (INFINITE, NO_NUMBER) else 1
            record.event["weights"] = vector * count
    row = judged(played)
    assert (row["outcome"], row["failed"][0]) == ("Fail", "train_update_matches_reference")
    assert "reference" not in row["failed"]


def test_the_reference_is_held_against_a_quotient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that is another fails the row, whatever the invariants say."""
    played = play(scenario_of(CASE, SMALL.mix), KINDS)
    assert judged(played)["failed"] == []
    monkeypatch.setattr(sweep, "largest_difference", lambda *_: 2 * BOUND)
    row = judged(played)
    assert (row["outcome"], row["failed"]) == ("Fail", ["reference"])
