"""One seed of the job supervisor's world: its trace, its replay, and the smallest schedule that fails as it does."""

import argparse
from pathlib import Path
from typing import Any, Final

from simharness.bundle.places import check_own, put_file, structured_io
from simharness.cli import show
from simharness.cli.main import FAILED, PASSED
from simharness.cli.supervisor_command import defects_of, say_defects, task_of
from simharness.cli.supervisor_files import is_minimised, replay_line
from simharness.cli.supervisor_options import check_one
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_S
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import load
from simharness.scenario.words import printable
from simharness.supervisor.batch import Task
from simharness.supervisor.direct import Run
from simharness.supervisor.direct import run as run_seed
from simharness.supervisor.minimise import minimise, regression
from simharness.supervisor.params import FIELDS, Shape, table
from simharness.supervisor.schedule import parse
from simharness.supervisor.trace import last_lines

_REGRESSIONS: Final = Path("scenarios", "supervisor", "regressions")


def _one(args: argparse.Namespace) -> tuple[Task, Shape, Run]:
    """Run the one seed of the command line in its one shape, and keep its schedule."""
    check_one(args)
    task = task_of(args)
    (shape,) = task.shapes
    return task, shape, run_seed(task.first, shape, defects=task.switched_off, keep=True)


def trace(args: argparse.Namespace) -> int:
    """Print every step."""
    task, _, found = _one(args)
    if args.json:
        show.print_json({"trace_hash": found.trace_hash, "violated": found.violated, "lines": found.lines})
    else:
        say_defects(args, task.defects)
        for line in found.lines:
            print(line)
        print(f"{'clean' if found.violated is None else 'violation':<12} {found.trace_hash}")
    return PASSED if found.violated is None else FAILED


def minimised(args: argparse.Namespace) -> int:
    """Write the smallest schedule that breaks the same invariant; say how to see it break."""
    if args.out is not None:
        check_own(Path(args.out), is_minimised, by="minimise")
    task, shape, found = _one(args)
    if found.violated is None:
        rule = f"seed {task.first} in the shape {shape} breaks no invariant"
        raise InputError(file="(command line)", field="--seed", rule=rule)
    place = Path(args.out) if args.out is not None else _REGRESSIONS.joinpath(f"{found.violated}-{found.seed}.toml")
    check_own(place, is_minimised, by="minimise")
    say_defects(args, task.defects)
    small = minimise(found, defects=task.switched_off)
    _, text = regression(small, found_with=task.defects)
    with structured_io(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        put_file(place, text.encode())
    report = {
        "invariant": found.violated,
        "before": small.before,
        "size": small.size,
        "runs": small.runs,
        "file": str(place),
        "replay": replay_line(place, task.defects),
    }
    if args.json:
        show.print_json(report)
    else:
        print(f"minimised    invariant {found.violated}: {small.before} -> {small.size} entries, {place}")
        print(f"replay       {report['replay']}")
    return PASSED


def replay(args: argparse.Namespace) -> int:
    """Run one seed twice, and its recorded schedule once; or the schedule of a file twice."""
    if args.source is not None:
        return _replay_file(args)
    task, shape, found = _one(args)
    again = run_seed(task.first, shape, defects=task.switched_off)
    replayed = run_seed(
        task.first, shape, given=table(found.profile), schedule=found.schedule, defects=task.switched_off
    )
    equal = found.trace_hash == again.trace_hash == replayed.trace_hash
    if args.json:
        hashes = [found.trace_hash, again.trace_hash, replayed.trace_hash]
        show.print_json({"equal": equal, "hashes": hashes, "violated": found.violated})
    else:
        say_defects(args, task.defects)
        print(f"{'equal' if equal else 'differs':<12} {found.trace_hash}")
    return PASSED if equal else FAILED


def _replay_file(args: argparse.Namespace) -> int:
    """Run the schedule of a file twice, with the defects of the command line on besides its own; fail if it fails."""
    config, seed = _config(args.source)
    defects = tuple(dict.fromkeys([*config.get("defects", ()), *defects_of(args)]))
    given: dict[str, Any] = {
        "given": {name: value for name, value in config.items() if name in FIELDS},
        "schedule": None if config.get("schedule") is None else [parse(entry) for entry in config["schedule"]],
        "defects": Task(first=seed, last=seed + 1, defects=defects).switched_off,
    }
    found, again = (run_seed(seed, config["shape"], keep=True, **given) for _ in range(2))
    equal = found.trace_hash == again.trace_hash
    if args.json:
        show.print_json({"equal": equal, "hashes": [found.trace_hash, again.trace_hash], "violated": found.violated})
    else:
        say_defects(args, defects)
        print(f"{'differs' if not equal else 'violation' if found.violated else 'clean':<12} {found.trace_hash}")
        if found.violated is not None:
            print(f"invariant {found.violated}: {found.message}")
            print(f"    seed {seed}, {config['shape']}, step {found.steps}, {found.now_ns // NS_PER_S} s")
            print("\n".join(f"    {line}" for line in last_lines(found.lines)))
    return PASSED if equal and found.violated is None else FAILED


def _config(file: str) -> tuple[dict[str, Any], int]:
    """Return the configuration of the supervisor of a scenario file, and the file's seed.

    Raises:
        RefusedError: If it is no scenario, or none of a supervisor whose shape is written down.
    """
    scenario = load(file, Kinds()).scenario
    configs = [dict(peer.kind_config) for peer in scenario.peers if peer.kind == "supervisor"]
    if not configs or "shape" not in configs[0]:
        rule = "must name a scenario with a supervisor whose kind_config has a shape, as `minimise` writes it"
        raise InputError(file=printable(file), field="--from", rule=rule)
    return configs[0], scenario.seed
