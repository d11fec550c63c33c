"""`simharness sweep`: the scenarios of many seeds, at full engine speed on every core, without Hypothesis."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from simharness.bundle.places import check_writable, put_file, structured_io
from simharness.cli import show
from simharness.cli.main import ABORTED, FAILED, INCONCLUSIVE, PASSED
from simharness.cli.names import default_name
from simharness.cli.sweep_pool import Task, rows
from simharness.cli.sweep_rows import RowFile
from simharness.core.errors import InputError
from simharness.scenario.emit import emit
from simharness.stateful.registry import SPACES
from simharness.stateful.shrink import Shrinker
from simharness.stateful.sweep import Row, Totals, row_of

TRAINING: Final = "training"
_SWEEPS: Final = Path(".simharness", "sweeps")


def run(args: argparse.Namespace) -> int:
    """Run every seed that the row file does not hold yet; report over all of them."""
    if (args.seeds is None) == (args.seed is None):
        raise InputError(file="(command line)", field="--seeds", rule="give either --seeds A..B or --seed S")
    first, last = seeds(args.seeds) if args.seeds is not None else (args.seed, args.seed + 1)
    if args.target == TRAINING:
        from simharness.cli import training_sweep  # noqa: PLC0415  # a SWIM sweep never loads numpy

        return training_sweep.run(args, first, last)
    _refuse_training_options(args)
    task = Task(args.target, args.swim_profile, tuple(dict.fromkeys(args.swim_defect)))
    task.check()
    totals = Totals()
    check_writable(_SWEEPS.joinpath("x.toml"))
    with _row_file(args) as file:
        if file is not None:
            _take_up(file, task, first, last, totals)
        start = first + totals.seeds
        with _progress(args, last - first, totals) as seen:
            for row in rows(task, start, last, args.jobs or os.cpu_count() or 1):
                if file is not None:
                    file.append(row)
                totals.add(row)
                seen()
    _report(args, task, totals)
    return _code(totals)


def _refuse_training_options(args: argparse.Namespace) -> None:
    """Refuse what would do nothing.

    Raises:
        InputError: If an option of the sweep of training is given with another space.
    """
    given = {"--strategy": args.strategy, "--policy": args.policy, "--max-workers": args.max_workers}
    given |= {"--twice": args.twice, "--trace": args.trace, "--emit": args.emit}
    for option, value in given.items():
        if value:
            raise InputError(file="(command line)", field=option, rule=f"is for the space {TRAINING!r} only")


@contextmanager
def _row_file(args: argparse.Namespace) -> Iterator[RowFile | None]:
    if args.out is None:
        yield None
        return
    file = RowFile(Path(args.out))
    try:
        yield file
    finally:
        file.close()


def seeds(text: str) -> tuple[int, int]:
    """Read `A..B`, half-open, or `A` for one seed.

    Raises:
        InputError: If it is neither, or empty.
    """
    low, dots, high = text.partition("..")
    try:
        first = int(low, 0)
        last = int(high, 0) if dots else first + 1
    except ValueError:
        first, last = 0, 0
    if not 0 <= first < last <= 1 << 64:
        rule = f"{text!r} is no range of seeds; write A..B with 0 <= A < B <= 2**64, B excluded, or one seed"
        raise InputError(file="(command line)", field="--seeds", rule=rule)
    return first, last


def _take_up(file: RowFile, task: Task, first: int, last: int, totals: Totals) -> None:
    """Count what the row file holds already.

    Raises:
        InputError: If it is another sweep's, or other code made it: the last row is computed again and must be the same.
    """
    latest: Row | None = None
    for place, row in enumerate(file.read()):
        if row.get("space") != task.name or row.get("seed") != first + place:
            raise file.foreign(place, f"it does not hold seed {first + place} of {task.name}")
        if first + place < last:
            totals.add(row)
        latest = row
    if latest is not None and row_of(task.source(), latest["seed"], task.kinds) != latest:
        raise file.foreign(
            latest["seed"] - first, "running its seed again gives another row: the code or the options have changed"
        )


@contextmanager
def _progress(args: argparse.Namespace, total: int, totals: Totals) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal; count what has failed."""
    if args.json or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415  # only a terminal pays for it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        shown = progress.add_task("sweeping", total=total, completed=totals.seeds)

        def seen() -> None:
            first = totals.first_failing
            failing = "" if first is None else f", seed {first['seed']} is {first['outcome']}"
            progress.update(shown, completed=totals.seeds, description=f"sweeping{failing}")

        yield seen


def _report(args: argparse.Namespace, task: Task, totals: Totals) -> None:
    """Say what it came to; the first line names what is wrong, and the defects that were on."""
    first = totals.first_failing
    replay = ("", "") if first is None else _write_failing(args, task, first)
    report: dict[str, Any] = {
        "space": task.name,
        "defects": task.defects,
        "profile": task.profile,
        "seeds": totals.seeds,
        "outcomes": dict(sorted(totals.outcomes.items())),
        "verdicts": dict(sorted(totals.verdicts.items())),
        "faults": dict(sorted(totals.faults.items())),
        "silent": totals.silent,
        "first_failing": None if first is None else first | {"replay": replay[0]},
    }
    if args.json:
        show.print_json(report)
        return
    print(f"{_headline(totals):<12} {task.name}, {show.count(totals.seeds, 'seed')}{_switched_on(task)}")
    print(f"outcomes     {_counts(totals.outcomes)}")
    print(f"verdicts     {_counts(totals.verdicts)}")
    if totals.faults:
        print(f"effects      {_counts(totals.faults)}")
    for kind in totals.silent:
        print(f"silent       {kind} was injected and never had an effect")
    if first is not None:
        print(f"first        seed {first['seed']}: {_what_failed(first)}")
        print("\n".join(_replay_lines(first, *replay)))


def _what_failed(row: Row) -> str:
    """Return the first verdict that is Fail, or what became of the run."""
    failed = row.get("failed", ())
    if not failed:
        return str(row.get("error", {}).get("rule", "two runs of it differ"))
    about = "" if failed[0]["peer"] is None else f" about {failed[0]['peer']}"
    return f"{failed[0]['name']} {failed[0]['kind']}{about}"


def _headline(totals: Totals) -> str:
    names = {"Diverged": "lost determinism", "Fail": "violation", "Abort": "abort"}
    return next((text for outcome, text in names.items() if outcome in totals.failing), "clean")


def _switched_on(task: Task) -> str:
    profile = "" if task.profile is None else f", swim profile {task.profile}"
    return profile + (f", defects switched on: {', '.join(task.defects)}" if task.defects else "")


def _counts(counts: Any) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def _write_failing(args: argparse.Namespace, task: Task, row: Row) -> tuple[str, str]:
    """Write the scenario of the first failing seed, shrunk if asked for; return the line that replays the failure, and the file."""
    scenario = task.source().scenario(row["seed"])
    stem = f"{task.name if task.name in SPACES else default_name(task.name)}-{row['seed']}"
    shown_by_file = _shown_by_file(row)
    if args.shrink and shown_by_file:
        scenario, stem = Shrinker(scenario, task.kinds).run().scenario, f"{stem}-shrunk"
    place = _SWEEPS.joinpath(f"{stem}.toml")
    about = f"# Seed {row['seed']} of {task.name}.\n#\n# reproduces: {_what_failed(row)}\n"
    expected = "fail-until-fix" if shown_by_file else "pass-now"
    header = f"{about}# expected: {expected}\n# extends: none\n\n"
    with structured_io(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        put_file(place, (header + emit(scenario)).encode())
    if shown_by_file:
        return shlex.join(["simharness", "run", str(place)]), str(place)
    words = ["simharness", "sweep", task.target, "--seed", str(row["seed"])]
    words += [] if task.profile is None else ["--swim-profile", task.profile]
    words += [word for defect in task.defects for word in ("--swim-defect", defect)]
    return shlex.join(words) + ("  (not shrunk: no assertion of the file shows it)" if args.shrink else ""), str(place)


def _shown_by_file(row: Row) -> bool:
    """Tell whether a run of the scenario file shows the failure: an abort, or an assertion; a law and two runs need the sweep."""
    by_assertion = any(one["name"].startswith("a") for one in row.get("failed", ()))
    return row["outcome"] == "Abort" or (row["outcome"] == "Fail" and by_assertion)


def _replay_lines(row: Row, replay: str, file: str) -> Iterator[str]:
    """Yield the line that shows the failure again and, where that is not a run of the file, those that show what happened."""
    yield f"replay       {replay}"
    if _shown_by_file(row):
        return
    bundle = str(Path(file).with_suffix(""))
    run, again = ["simharness", "run", file, "--out", bundle], ["simharness", "replay", bundle]
    if row["outcome"] == "Diverged":
        yield f"look at      {shlex.join(run)}; {shlex.join(again)}  (which shows the first difference)"
    else:
        yield f"look at      {shlex.join(run)}  (which judges no law)"


def _code(totals: Totals) -> int:
    """Return the exit code of a batch (architecture, section 5)."""
    if "Fail" in totals.failing or "Diverged" in totals.failing:
        return FAILED
    if "Abort" in totals.failing:
        return ABORTED
    return INCONCLUSIVE if totals.silent or totals.verdicts["Inconclusive"] else PASSED
