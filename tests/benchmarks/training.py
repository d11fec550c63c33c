"""Training: the simulator beside one process that does the same arithmetic, and what judging, recording and length cost."""

import sys
from pathlib import Path
from statistics import median

import msgspec

from simharness.assertions import training_reach
from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts.records import EventRecord
from simharness.core.units import NS_PER_S
from simharness.stateful.playing import Played, play
from simharness.training import walls
from simharness.training.knobs import TRAINING
from simharness.training.schedules import POLICIES, STRATEGIES, Case, scenario_of
from simharness.training.sweep import Space, row_of
from tests.benchmarks.measuring import Row, Scale, Spread, child, processor_s, ratio, rounds
from tests.benchmarks.meshes import KINDS, run_dropping, scratch

_WORKERS = 8
_NAMES = {"ring": "ring", "ps": "server"}
_SHARE = {"ring": 1 / 100, "ps": 1 / 25}
"""Of the plain loop, at least: eight workers, the six invariants on the running events, no bundle."""
_JUDGED = {"ring": 1.5, "ps": 3.0}
"""Times the bare run, at most."""
_STEADY = (2, 4, 8)


def training(scale: Scale) -> list[Row]:
    """Steps and events a second of eight workers, beside the plain loop and the echo mesh, all in the same rounds."""
    virtual_ns = scale.of(NS_PER_S, NS_PER_S // 20)
    echo = walls.echo_mesh(KINDS, virtual_ns=scale.of(NS_PER_S, NS_PER_S // 20))
    echoed = run_dropping(echo)
    rows: list[Row] = []
    for strategy in STRATEGIES:
        bare = walls.job_of(strategy, _WORKERS, KINDS, virtual_ns, judged=False)
        judged = walls.job_of(strategy, _WORKERS, KINDS, virtual_ns, judged=True)
        steps, dispatches, _ = walls.run(bare, KINDS, None)
        with scratch() as bundles:
            times = rounds(
                {
                    "plain": lambda bare=bare, steps=steps: walls.plain_loop(bare, steps),
                    "bare": lambda bare=bare: run_dropping(bare),
                    "judged": lambda judged=judged: walls.run(judged, KINDS, StreamingEvaluator(judged)),
                    "dropped": lambda judged=judged: run_dropping(judged),
                    "written": lambda judged=judged, bundles=bundles: bundles.run_recording(judged),
                    "echo": lambda: run_dropping(echo),
                },
                scale.of(7, 1),
            )
        name = f"{_NAMES[strategy]} of {_WORKERS}"
        events = {"run": [dispatches / taken for taken in times["bare"]], "echo": [echoed / t for t in times["echo"]]}
        judging = ratio(times["judged"], times["plain"])
        rows += [
            Row(f"{name}: simulator / plain loop, steps a second", _share(ratio(times["bare"], times["plain"]))),
            Row(
                f"{name}: with six invariants / plain loop",
                _share(judging),
                f"at least 1/{1 / _SHARE[strategy]:.0f}",
                1 / judging.middle >= _SHARE[strategy],
            ),
            Row.at_most(
                f"{name}: time with six invariants / without", ratio(times["judged"], times["bare"]), _JUDGED[strategy]
            ),
            Row.at_least(f"{name}: events a second / echo mesh", ratio(events["run"], events["echo"]), 0.4),
            Row.at_most(f"{name}: bundle written / records dropped", ratio(times["written"], times["dropped"]), 2.0),
            Row(f"{name}: steps a second", Spread.over([steps / taken for taken in times["bare"]]).shown("")),
        ]
    cost = walls.oracle_cost("mlp", rounds=scale.of(9, 1))
    spread = Spread(*[cost.over_production] * 3)
    return [*rows, Row.at_most("reference of mlp, 32 samples / production gradient", spread, 60)]


def _share(spread: Spread) -> str:
    """Show times as a share of the rate: 1/n."""
    return f"1/{spread.middle:.1f} (1/{spread.high:.1f} to 1/{spread.low:.1f})"


def training_growth(scale: Scale) -> list[Row]:
    """Processor time a step with six invariants, and peak memory, as a run grows; each size in a process of its own."""
    sizes = [10, 20] if scale.tiny else [100, 1_000, 10_000]
    rows = []
    for strategy in STRATEGIES:
        costs = []
        for size in sizes:
            again = 1 if scale.tiny or size > 1_000 else 5
            spent = [child(["-m", "tests.benchmarks.training", strategy, str(size)], Path.cwd()) for _ in range(again)]
            assert all(one.code == 0 for one in spent), spent[0].output
            costs.append(median([float(one.output) for one in spent]))
            memory = max(one.memory_mib for one in spent)
            rows.append(
                Row(
                    f"{_NAMES[strategy]} of {_WORKERS}, {size:,} steps",
                    f"{costs[-1] * 1e3:.2f} ms a step, {memory:,.0f} MiB at most",
                )
            )
        worst = max(costs) / min(costs)
        what = f"{_NAMES[strategy]}: dearest / cheapest step from {sizes[0]:,} to {sizes[-1]:,}"
        rows.append(Row(what, f"{worst:.2f}x", "at most 1.3x", worst <= 1.3))
    return rows


def training_sweep(scale: Scale) -> list[Row]:
    """Runs of the sweep a second and core, each judged: every strategy and policy of some seeds."""
    space = Space()
    rates = []
    for first in range(0, scale.of(50, 1), 10):
        cases = [case for seed in range(first + 1, first + scale.of(11, 2)) for case in space.cases(seed)]
        taken = processor_s(lambda cases=cases: [row_of(case, space, KINDS) for case in cases])
        rates.append(len(cases) / taken)
    return [Row.at_least("runs of the sweep", Spread.over(rates), 3.0, unit=" a second")]


def training_steady(scale: Scale) -> list[Row]:
    """What invariant 4 says of honest and of eager rollbacks with `steady` at half its ticks, at its ticks, and at twice."""
    (knob,) = [knob for knob in TRAINING if knob.defect == "EAGER_ROLLBACK"]
    seeds = range(scale.of(60, 2))
    honest = [play(scenario_of(Case(seed, "ring", POLICIES[seed % 2]), knob.mix), KINDS) for seed in seeds]
    wrong = msgspec.structs.replace(knob.mix, table={**knob.mix.table, "defects": [knob.defect], "guards": False})
    eager = [play(scenario_of(Case(seed, "ring", POLICIES[seed % 2]), wrong), KINDS) for seed in seeds]
    usual = training_reach.STEADY_TICKS
    rows = []
    try:
        for ticks in _STEADY:
            training_reach.STEADY_TICKS = ticks  # type: ignore[misc]  # what if it were another
            accused, caught = (sum(map(_accused, runs)) for runs in (honest, eager))
            rolled = sum(bool(_rollbacks(played)) for played in eager)
            all_honest = sum(map(_rollbacks, honest))
            what = f"{ticks} ticks{' (as shipped)' if ticks == usual else ''}"
            rows += [
                Row(f"{what}: honest runs accused", f"{accused} ({all_honest} rollbacks)", "0", accused == 0),
                Row(f"{what}: runs of an eager hub caught", f"{caught} of {rolled} that rolled back"),
            ]
    finally:
        training_reach.STEADY_TICKS = usual  # type: ignore[misc]
    return rows


def _rollbacks(played: Played) -> int:
    return sum(isinstance(one, EventRecord) and one.event["kind"] == "TrainRollback" for one in played.records)


def _accused(played: Played) -> bool:
    return any(one.kind == "train_step_order" and one.outcome == "Fail" for one in played.verdicts())


if __name__ == "__main__":
    of, wanted = sys.argv[1], int(sys.argv[2])
    in_a_tenth, _, _ = walls.run(walls.job_of(of, _WORKERS, KINDS, NS_PER_S // 10, judged=False), KINDS, None)
    job = walls.job_of(of, _WORKERS, KINDS, NS_PER_S * wanted // (10 * in_a_tenth), judged=True)
    made, _, seconds = walls.run(job, KINDS, StreamingEvaluator(job))
    sys.stdout.write(f"{seconds / made}\n")
