"""`simharness sweep training`: seeds of jobs and schedules, under both strategies and both data policies (training design, 17)."""

import argparse
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from simharness.bundle.places import check_own, put_file, structured_io
from simharness.cli import progress, show
from simharness.cli.main import ABORTED, FAILED, INCONCLUSIVE, PASSED
from simharness.cli.sweep_rows import RowFile
from simharness.cli.training_inputs import require_numpy
from simharness.cli.workers import ordered
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError
from simharness.scenario.emit import emit
from simharness.stateful.playing import attempt
from simharness.stateful.registry import choose
from simharness.stateful.session import KINDS
from simharness.training.breaking import way_on
from simharness.training.document import MOST_RATIO_PPM
from simharness.training.schedules import MOST_WORKERS, POLICIES, STRATEGIES, Case, scenario_of
from simharness.training.sweep import Row, Space, Totals, report, row_of
from simharness.training.tracing import timeline

_SHOWN: Final = 20
_MARK: Final = "# A case of the sweep of training"


def run(args: argparse.Namespace, first: int, last: int) -> int:
    """Run every case that the row file does not hold yet; or show or write the one that is named."""
    require_numpy()
    _refuse_what_would_do_nothing(args)
    space = _space(args)
    if args.trace or args.emit is not None:
        return _one(args, space, first, last)
    totals, pulse = Totals(), progress.Pulse()
    file = None if args.out is None else RowFile(Path(args.out), begins="seed")
    try:
        done = 0 if file is None else _take_up(file, space, first, last, totals)
        cases = islice(_cases(space, first, last), done, None)
        total = (last - first) * space.runs_a_seed
        for place, row in enumerate(_rows(space, cases, args.jobs or os.cpu_count() or 1), done + 1):
            if file is not None:
                file.append(row)
            totals.add(row)
            pulse.tell(f"sweeping: {place} of {total}, {len(totals.failing)} failing")
        progress.tell("")
    finally:
        if file is not None:
            file.close()
    _report(args, totals)
    return _code(totals)


def _refuse_what_would_do_nothing(args: argparse.Namespace) -> None:
    """Refuse options of other sweeps, and what one case has no use for.

    Raises:
        InputError: If there is any.
    """
    foreign = {"--swim-profile": args.swim_profile, "--swim-defect": args.swim_defect}
    if args.shrink:
        rule = "is for a space of a library property or a scenario file; of training, write the case with --emit and shrink that"
        raise InputError(file="(command line)", field="--shrink", rule=rule)
    for option, value in foreign.items():
        if value:
            raise InputError(file="(command line)", field=option, rule="training has no swim peers")
    if args.trace or args.emit is not None:
        for option, value in {"--out": args.out, "--jobs": args.jobs}.items():
            if value is not None:
                rule = "is for a sweep; --trace and --emit are about one run"
                raise InputError(file="(command line)", field=option, rule=rule)


def _space(args: argparse.Namespace) -> Space:
    """Return what is swept.

    Raises:
        InputError: If a name or a number is none.
    """
    strategies = [choose(name, STRATEGIES, what="strategy", field="--strategy") for name in args.strategy]
    policies = [choose(name, POLICIES, what="policy", field="--policy") for name in args.policy]
    most = args.max_workers or MOST_WORKERS
    if most > MOST_WORKERS:
        raise InputError(file="(command line)", field="--max-workers", rule=f"from 1 to {MOST_WORKERS}")
    return Space(
        strategies=tuple([name for name in STRATEGIES if name in (strategies or STRATEGIES)]),
        policies=tuple([name for name in POLICIES if name in (policies or POLICIES)]),
        most_workers=most,
        twice=args.twice,
    )


def _cases(space: Space, first: int, last: int) -> Iterator[Case]:
    for seed in range(first, last):
        yield from space.cases(seed)


def _one(args: argparse.Namespace, space: Space, first: int, last: int) -> int:
    """Show the timeline of one case, write its scenario, or both.

    Raises:
        InputError: If the options name more than one.
    """
    cases = list(_cases(space, first, min(last, first + 2)))
    if len(cases) != 1:
        rule = "wants one run: --seed S --strategy NAME --policy NAME"
        raise InputError(file="(command line)", field="--trace" if args.trace else "--emit", rule=rule)
    (case,) = cases
    scenario = scenario_of(case, space.mix)
    if args.emit is not None:
        _write(Path(args.emit), case, scenario)
    row = row_of(case, space, KINDS)
    traced = list(timeline(attempt(scenario, KINDS))) if args.trace else []
    if args.json:
        show.print_json(row | ({"timeline": traced} if args.trace else {}))
    else:
        for line in traced:
            print(line)
        steps = show.count(row["steps"], "step")
        print(f"{row['outcome']:<12} {steps}, {row['discriminating']} discriminating, digest {row['digest']}")
        for place, note in enumerate(row["notes"]):
            print(f"{'' if row['outcome'] == 'Abort' and not place else 'failed':<12} {note}")
        _print_way_on([row])
    totals = Totals()
    totals.add(row)
    return _code(totals)


def _print_way_on(rows: list[Row]) -> None:
    """Say how to go on from a run that a guard of production has stopped."""
    said = way_on([rule for row in rows if row["outcome"] == "Abort" for rule in row["failed"]])
    if said:
        print(f"to go on     {said}")


def _write(place: Path, case: Case, scenario: Scenario) -> None:
    """Write the scenario of a case, in the place of nothing but another such file."""
    check_own(place, lambda data: data.startswith(_MARK.encode()), by="sweep training --emit", field="--emit")
    about = f"{_MARK}, {case.strategy}, {case.policy}, seed {case.seed}.\n#\n"
    header = "# reproduces: a run of the sweep, with the same events digest\n# expected: pass-now\n# extends: none\n\n"
    with structured_io(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        put_file(place, (about + header + emit(scenario)).encode())


def _take_up(file: RowFile, space: Space, first: int, last: int, totals: Totals) -> int:
    """Count what the row file holds already; return how many rows that are.

    Raises:
        InputError: If it is another sweep's, or other code made it: the last row is computed again and must be the same.
    """
    held: list[Row] = []
    due = list(_cases(space, first, last))
    for row, case in zip(file.read(), due, strict=False):
        if (row.get("seed"), row.get("strategy"), row.get("policy")) != tuple(case):
            raise file.foreign(len(held), f"it does not hold seed {case.seed}, {case.strategy}, {case.policy}")
        totals.add(row)
        held.append(row)
    if held and row_of(due[len(held) - 1], space, KINDS) != held[-1]:
        rule = "running its seed again gives another row: the code or the options have changed"
        raise file.foreign(len(held) - 1, rule)
    return len(held)


def _rows(space: Space, cases: Iterator[Case], jobs: int) -> Iterator[Row]:
    """Yield the rows of the cases in their order, on `jobs` processes."""
    if jobs == 1:
        for case in cases:
            yield row_of(case, space, KINDS)
        return
    items = ((case, space) for case in cases)
    yield from ordered(_row, items, jobs)


def _row(item: tuple[Case, Space]) -> Row:
    case, space = item
    return row_of(case, space, KINDS)


def _report(args: argparse.Namespace, totals: Totals) -> None:
    """Say what it came to; the first line says what is wrong."""
    found = dict(report(totals))
    if args.json:
        show.print_json(found)
        return
    runs = ", ".join([f"{count} {name}" for name, count in found["runs"].items()])
    wrong = f"{show.count(found['violations'], 'violation')}, {show.count(found['stalls'], 'stall')}"
    print(f"{_headline(totals):<12} {runs}: {wrong}")
    rolled = show.count(found["rollbacks"], "rollback")
    print(f"steps        {found['steps']}, {rolled}, worst {_ratio(totals)} of the tolerance")
    print(f"discriminate {totals.discriminating} of {totals.several} runs with several workers")
    for strategy, counts in found["counters"].items():
        print(f"{strategy:<12} {', '.join([f'{count} {name}' for name, count in counts.items()])}")
    print(f"coverage     {totals.coverage}")
    for doubt in totals.doubts if _code(totals) == INCONCLUSIVE else ():
        print(f"inconclusive since {doubt}")
    for row in totals.failing[:_SHOWN]:
        print(f"{row['outcome']:<12} {row['replay']}  {(row['notes'] or [row['outcome']])[0]}")
    _print_way_on(totals.failing)


def _ratio(totals: Totals) -> str:
    whole, rest = divmod(totals.ratio_ppm, 1_000_000)
    return f"{'at least' if totals.ratio_ppm >= MOST_RATIO_PPM else 'at'} {whole}.{rest // 1_000:03d}"


def _headline(totals: Totals) -> str:
    names = {"Diverged": "lost determinism", "Fail": "violation", "Abort": "abort"}
    wrong = next((text for outcome, text in names.items() if totals.outcomes[outcome]), "")
    return wrong or ("inconclusive" if totals.doubts else "clean")


def _code(totals: Totals) -> int:
    """Return the exit code (architecture, section 5)."""
    if totals.outcomes["Fail"] or totals.outcomes["Diverged"]:
        return FAILED
    if totals.outcomes["Abort"]:
        return ABORTED
    return INCONCLUSIVE if totals.doubts else PASSED
