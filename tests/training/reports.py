"""A small report of real runs with made-up figures beside them, and scenario files by name. Each file is run once a session."""

from functools import cache
from pathlib import Path

import msgspec

from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import load
from simharness.training.document import (
    Bench,
    Cell,
    Crossover,
    Disagreement,
    Finding,
    Kill,
    Pair,
    Report,
    Run,
    SweepRow,
)
from simharness.training.runner import File, defective, invisible, run_file
from tests.documents import ROOT

KINDS = Kinds()
SCENARIOS = ROOT / "scenarios" / "training"


def file(name: str) -> File:
    path = SCENARIOS / f"{name}.toml"
    return File(
        name, path.read_text("utf-8"), lambda reconfigure: load(path, KINDS, reconfigure=reconfigure), str(path)
    )


@cache
def run(name: str, *defects: str) -> Run:
    return run_file(file(name), KINDS, defective(*defects) if defects else None)


def pair(name: str, *defects: str, ring: str = "") -> Pair:
    return Pair(name=name, ring=run(ring or name, *defects), ps=run(f"{name}_ps", *defects))


@cache
def bench() -> Bench:
    whats = ("ring", "server, private links", "server behind one NIC")
    cells = [
        Cell(tag=tag, what=what, workers=n, parameters=p, value=4 + n * k, unit="ms")
        for tag, k in (("assumed", 0.1), ("simulated", 0.12))
        for what in whats
        for p in (1_000, 100_000)
        for n in (1, 2, 4)
    ]
    pace = [
        Cell(tag="measured", what="ring: simulator", workers=n, parameters=5, value=2_000 / n, unit="steps/s")
        for n in (1, 2, 4)
    ]
    speedups = [
        Cell(tag=tag, what="ring", workers=n, parameters=100_000, value=0.8 * n, unit="x")
        for tag in ("assumed", "simulated")
        for n in (1, 2, 4)
    ]
    about = {"workers": 4, "parameters": 100_000}
    disagreements = [
        Disagreement(
            what="ring",
            one=4.4,
            one_tag="assumed",
            other=4.48,
            other_tag="simulated",
            unit="ms",
            explanation="a commit",
            **about,
        ),
    ]
    crossovers = [Crossover(workers=n, textbook=10.0 * n, assumed=100.0 * n, simulated=101.0 * n) for n in (2, 4)]
    return Bench(
        assumptions="<little> & known",
        cells=(*cells, *pace),
        speedups=tuple(speedups),
        disagreements=tuple(disagreements),
        crossovers=tuple(crossovers),
    )


@cache
def small() -> Report:
    """Clean, with a death, and with a wrong weighting."""
    rows = [
        SweepRow(
            seed=400 * seed,
            workers=1 + seed % 3,
            strategy=strategy,
            policy="own",
            outcome="Fail" if seed == 3 else "Pass",
            steps=100,
            discriminating=40,
            rollbacks=1,
            ratio_ppm=500_000,
            digest="d",
            replay=f"simharness sweep training --seed {400 * seed} --strategy {strategy} --policy own --trace",
            failed=("train_weights",) if seed == 3 else (),
            counters={},
        )
        for seed in range(5)
        for strategy in ("ring", "ps")
    ]
    finding = Finding(
        title="One & <all>",
        about="cost_model",
        found="f",
        effect="e",
        fix="x",
        reproduce="simharness training findings one",
        test="tests/x.py",
    )
    misleading = msgspec.structs.replace(finding, title="Two", confidently_wrong=True, wrong_conclusion="w")
    return Report(
        version="0.0",
        quick=True,
        pairs=(
            pair("clean_own"),
            pair("one_death"),
            Pair(name="wrong", ring=run("clean_own", "UNWEIGHTED_MEAN"), ps=run("clean_own_ps", "UNWEIGHTED_MEAN")),
        ),
        invisible=(invisible(file("clean_own"), "linear", KINDS, others=1),),
        sweep=tuple(rows),
        kills=(Kill(defect="DUP_PUSH", killed=True, by="train_weights", tries=1, size=0),),
        bench=bench(),
        findings=(misleading, finding),
    )


def without_a_step(report: Report) -> Report:
    """The same, but for one step of the first run."""
    first, *others = report.pairs
    ring = msgspec.structs.replace(first.ring, steps=first.ring.steps[:-1])
    return msgspec.structs.replace(report, pairs=(msgspec.structs.replace(first, ring=ring), *others))


def index(report: Report, place: Path) -> Path:
    """Write the page, and return where."""
    from simharness.training.page import page

    target = place / "index.html"
    target.write_text(page(report), "utf-8")
    return target
