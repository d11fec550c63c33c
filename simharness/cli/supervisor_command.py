"""`simharness supervisor`: batches of seeds of the job supervisor's world, and what is done about a seed that fails."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from simharness.cli import show
from simharness.cli.main import FAILED, INCONCLUSIVE, PASSED
from simharness.cli.supervisor_options import refuse_foreign
from simharness.cli.supervisor_pool import tallies
from simharness.cli.supervisor_shards import BatchFile, merged
from simharness.cli.sweep_command import seeds
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_S
from simharness.stateful.registry import choose
from simharness.supervisor.batch import DEFECT_NAMES, Breach, Tally, Task, plain, total
from simharness.supervisor.direct import run as run_seed
from simharness.supervisor.params import SHAPES, Shape
from simharness.supervisor.trace import last_lines

_MOST_SHOWN: Final = 10


def run(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    from simharness.cli import supervisor_seed  # noqa: PLC0415  # it is built on this module

    refuse_foreign(args)
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "batch": supervisor_seed.trace if args.trace and not args.merge else _batch,
        "minimise": supervisor_seed.minimised,
        "replay": supervisor_seed.replay,
        "approve": _approval,
        "status": _approval,
    }
    return actions[args.action](args)


# --- batch -----------------------------------------------------------------------------------------------------------


def _batch(args: argparse.Namespace) -> int:
    if args.merge:
        return _report(args, *merged([Path(name) for name in args.merge]))
    task = task_of(args)
    say_defects(args, task.defects)
    done = ran(args, task, stop_at_first=args.stop_at_first)
    return _report(args, task, total(done.tallies), done)


class Ran(NamedTuple):
    """The tallies of a task's blocks, in order, and how fast those were that the file did not hold already."""

    tallies: list[Tally]
    fresh: int
    """Runs that were made now."""
    seconds: int

    @property
    def runs_per_s(self) -> int:
        """How fast that was; 0 if it was too quick to tell."""
        return self.fresh // self.seconds if self.seconds else 0


def ran(args: argparse.Namespace, task: Task, *, stop_at_first: bool = False) -> Ran:
    """Run the blocks of a task, as many processes at a time as the command line says; go on from its file."""
    started, fresh = time.monotonic_ns(), 0
    with BatchFile.opened(args.out, task) as file:
        blocks = list(task.blocks())
        done = file.taken_up(blocks)
        left = blocks[file.done :]
        with progress(args, len(left), "blocks of seeds") as advance:
            for found in tallies(task, left, jobs_of(args), () if stop_at_first else None):
                file.append(found)
                done.append(found)
                fresh += sum(found.runs.values()) * (2 if task.twice else 1)
                advance()
                if found.breaches and stop_at_first:
                    break
    return Ran(done, fresh, (time.monotonic_ns() - started) // NS_PER_S)


def jobs_of(args: argparse.Namespace) -> int:
    """Return how many processes the command line asks for, or one a core."""
    jobs: int = args.jobs or os.cpu_count() or 1
    return jobs


def _approval(args: argparse.Namespace) -> int:
    from simharness.cli import supervisor_approval  # noqa: PLC0415  # it is built on this module

    return supervisor_approval.run(args)


def task_of(args: argparse.Namespace) -> Task:
    """Return what the command line asks for.

    Raises:
        InputError: If a range, a shape, a shard or a defect is wrong.
    """
    if (args.seeds is None) == (args.seed is None):
        raise InputError(file="(command line)", field="--seeds", rule="give either --seeds A..B or --seed S")
    first, last = seeds(args.seeds) if args.seeds is not None else (args.seed, args.seed + 1)
    index, shards = _shard(args.shard)
    return Task(
        first=first,
        last=last,
        shapes=shapes_of(args.shape),
        twice=args.twice,
        defects=defects_of(args),
        index=index,
        shards=shards,
    )


def shapes_of(shape: str) -> tuple[Shape, ...]:
    """Return the shapes that an option names."""
    choose(shape, (*SHAPES, "both"), what="shape", field="--shape")
    return tuple([one for one in SHAPES if shape in (one, "both")])


def defects_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the defects of the command line, which are spelt in any case."""
    names = [str(name).upper() for name in args.defect]
    return tuple([choose(name, DEFECT_NAMES, what="defect", field="--defect") for name in dict.fromkeys(names)])


def say_defects(args: argparse.Namespace, defects: Sequence[str]) -> None:
    """A run with a defect on says so on its first line (K1)."""
    if defects and not args.json:
        print(f"defects      {', '.join(defects)}")


def _shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 0, 1
    index, slash, shards = text.partition("/")
    if not (slash and index.isdecimal() and shards.isdecimal() and int(index) < int(shards)):
        raise InputError(
            file="(command line)", field="--shard", rule=f"{text!r} is no shard; write i/k with 0 <= i < k"
        )
    return int(index), int(shards)


@contextmanager
def progress(args: argparse.Namespace, size: int, what: str) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal, over so many of something."""
    if args.json or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415  # only a terminal pays for it
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(what, total=size)
        yield lambda: bar.advance(shown)


def _report(args: argparse.Namespace, task: Task, tally: Tally, ran_in: Ran | None = None) -> int:
    """Say what a batch came to; the first line names what is wrong."""
    uncovered = tally.uncovered(common_only=args.common) if args.coverage else {}
    runs = sum(tally.runs.values()) * (2 if task.twice else 1)
    code = FAILED if tally.breaches else INCONCLUSIVE if uncovered else PASSED
    if args.json:
        seconds = 0 if ran_in is None else ran_in.seconds
        show.print_json({"task": msgspec.to_builtins(task), **plain(tally), "uncovered": uncovered, "seconds": seconds})
        return code
    verdict = verdict_of(tally.breaches) or ("uncovered" if uncovered else "clean")
    print(f"{verdict:<12} {show.count(runs, 'run')}, {tally.hexdigest()}")
    for breach in tally.breaches[:_MOST_SHOWN]:
        _show_breach(task, breach)
    if args.coverage:
        _show_coverage(tally, uncovered)
    if ran_in is not None and ran_in.seconds:
        print(f"speed        {ran_in.runs_per_s} runs/s")
    return code


def verdict_of(breaches: Sequence[Breach]) -> str:
    """Return what the first line says of breaches; empty if there are none."""
    kinds = dict.fromkeys([breach.invariant for breach in breaches])
    return "lost determinism" if "determinism" in kinds else "violation" if kinds else ""


def _show_breach(task: Task, breach: Breach) -> None:
    print(f"invariant {breach.invariant}: {breach.message}")
    print(f"    seed {breach.seed}, {breach.shape}, step {breach.step}, {breach.now_ns // NS_PER_S} s")
    found = run_seed(breach.seed, breach.shape, defects=task.switched_off, keep=True)
    for line in last_lines(found.lines):
        print(f"    {line}")
    options = f"--seed {breach.seed} --shape {breach.shape}" + "".join([f" --defect {name}" for name in task.defects])
    print(f"    simharness supervisor batch {options} --trace")
    print(f"    simharness supervisor minimise {options}")


def _show_coverage(tally: Tally, uncovered: dict[str, tuple[str, ...]]) -> None:
    for shape, counts in tally.counters.items():
        print(f"{shape}, {show.count(tally.runs[shape], 'seed')}")
        for name, seen in counts.items():
            print(f"    {name:<34} {seen}")
        for name in uncovered.get(shape, ()):
            print(f"    {name:<34} 0  required")
