"""`simharness shrink`: the smallest scenario that still fails in the same way."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from simharness.bundle.places import check_own, put_file, structured_io
from simharness.cli import show
from simharness.cli.main import INCONCLUSIVE, PASSED
from simharness.cli.names import default_name
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds
from simharness.scenario.emit import emit
from simharness.scenario.loader import load
from simharness.scenario.words import printable
from simharness.stateful.shrink import Shrinker, Shrunk

_SHRUNK: Final = Path(".simharness", "shrunk")
_MARK: Final = "# Shrunk from "


def run(args: argparse.Namespace) -> int:
    """Shrink one file; exit 0 at a local minimum, 3 if the runs were used up before."""
    kinds = Kinds()
    scenario = load(args.file, kinds, seed=args.seed).scenario
    place = Path(args.out) if args.out is not None else _SHRUNK.joinpath(f"{default_name(args.file)}.toml")
    check_own(place, lambda data: data.startswith(_MARK.encode()), by="shrink")
    try:
        with _bar(args) as progress:
            shrunk = Shrinker(scenario, kinds, most_runs=args.most_runs, progress=progress).run()
    except InputError as error:  # which knows the scenario by its name only
        raise InputError(file=printable(args.file), field=error.problem.field, rule=error.problem.rule) from None
    with structured_io(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        put_file(place, (_header(args.file, shrunk) + emit(shrunk.scenario)).encode())
    before, after = _sizes(scenario), _sizes(shrunk.scenario)
    if args.json:
        report = {
            "file": printable(str(place)),
            "failure": shrunk.failure._asdict(),
            "failed_at_ns": shrunk.failed_at_ns,
        }
        counts = {"before": before, "after": after, "runs": shrunk.runs, "complete": shrunk.complete}
        show.print_json(report | counts)
    else:
        print(f"{shrunk}, at {show.seconds(shrunk.failed_at_ns)}")
        for what, count in before.items():
            print(f"{what:<12} {count} -> {after[what]}")
        print(f"{'minimum' if shrunk.complete else 'stopped'}      after {show.count(shrunk.runs, 'run')}")
        print(f"replay       simharness run {printable(str(place))}")
    return PASSED if shrunk.complete else INCONCLUSIVE


def _header(file: str, shrunk: Shrunk) -> str:
    name = printable(Path(file).name)
    return f"{_MARK}{name}.\n#\n# reproduces: {shrunk.failure}\n# expected: fail-until-fix\n# extends: none\n\n"


def _sizes(scenario: Scenario) -> dict[str, int]:
    return {
        "peers": len(scenario.peers),
        "relays": len(scenario.relays),
        "links": len(scenario.links) + len(scenario.meshes),
        "mutations": len(scenario.mutations),
        "snapshots": len(scenario.snapshots),
        "assertions": len(scenario.assertions),
        "duration_ns": scenario.duration_ns,
        "seed": scenario.seed,
    }


@contextmanager
def _bar(args: argparse.Namespace) -> Iterator[Callable[[int, Scenario], None] | None]:
    """Show how the search goes, on a terminal only. Nobody knows how many runs it takes, so the bar has no end."""
    if args.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  # only a terminal pays for it
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("shrinking", total=None)

        def update(runs: int, best: Scenario) -> None:
            size = f"{len(best.peers)} peers, {len(best.mutations)} mutations, {show.seconds(best.duration_ns)}"
            progress.update(task, description=f"shrinking: {runs} runs, {size}")

        yield update
