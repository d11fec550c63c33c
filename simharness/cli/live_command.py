"""`simharness live`: run a scenario in real time, over real sockets on loopback; write the bundle, judge."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from simharness.bundle.reader import Bundle
from simharness.cli import show
from simharness.cli.main import ABORTED, INCONCLUSIVE, PASSED, abort_report
from simharness.cli.names import default_name
from simharness.cli.streams import complain
from simharness.cli.swim_options import SwimOptions
from simharness.core.errors import EngineAbort
from simharness.core.units import NS_PER_MS, NS_PER_S
from simharness.hosts.kinds import Kinds
from simharness.live.run import LiveResult, refuse, run_live
from simharness.run import defects_of
from simharness.scenario.loader import load
from simharness.scenario.words import printable

_RUNS: Final = Path(".simharness", "live")
_UNBELIEVED: Final = (
    "Inconclusive a tick came a whole period late: this machine was too busy, the run is not to be believed"
)


def run(args: argparse.Namespace) -> int:
    """Run one file. An abort is reported like one of the simulator's."""
    kinds = Kinds()
    options = SwimOptions(args, kinds)
    loaded = load(args.file, kinds, seed=args.seed, reconfigure=options.reconfigure if options.given else None)
    options.refuse_if_idle()
    file, scenario = printable(args.file), loaded.scenario
    defects = defects_of(scenario)
    report: dict[str, Any] = {"file": file, "seed": scenario.seed, "defects": defects}
    place = _place(args)
    refuse(loaded, place, args.address, file=file)
    if not args.json:
        show.print_defects(defects)
        processes = show.count(len(scenario.peers) + len(scenario.relays), "process", "processes")
        head = f"{file}  seed {scenario.seed}  {show.seconds(scenario.duration_ns)} real  {processes}"
        print(f"scenario     {head}", flush=True)
    try:
        with _bar(scenario.duration_ns) as watch:
            result = run_live(loaded, place, address=args.address, keep_partial=args.keep_partial, watch=watch)
    except EngineAbort as abort:
        complain(abort)
        kept = printable(str(place)) if args.keep_partial else None
        if args.json:
            show.print_json(report | {"bundle": kept, "error": abort_report(abort)})
        elif kept is not None:
            print(f"bundle       {kept} (partial)")
        return ABORTED
    if args.json:
        show.print_json(report | _result(result))
    else:
        show.print_verdicts(result.verdicts, show.quotes(result.verdicts, Bundle(result.bundle)))
        print(f"bundle       {printable(str(result.bundle))}")
        print(f"latest tick  {_ms(result.late_ns)} late, of a period of {_ms(result.tick_period_ns)}")
        if not result.believable:
            print(_UNBELIEVED)
    return _exit_code(result)


def _exit_code(result: LiveResult) -> int:
    """Return the code of the verdicts; a run that is not to be believed passes nothing."""
    code = show.exit_code(result.verdicts)
    return INCONCLUSIVE if code == PASSED and not result.believable else code


def _ms(time_ns: int) -> str:
    return f"{time_ns // NS_PER_MS} ms"


def _place(args: argparse.Namespace) -> Path:
    """Return where the bundle goes: `--out`, or a directory named after the file's place."""
    if args.out is not None:
        return Path(args.out)
    return _RUNS.joinpath(default_name(args.file))


def _result(result: LiveResult) -> dict[str, Any]:
    return {
        "bundle": printable(str(result.bundle)),
        "digest": result.digest,
        "termination": show.plain(result.termination),
        "late_ns": result.late_ns,
        "tick_period_ns": result.tick_period_ns,
        "believable": result.believable,
        "verdicts": show.plain(result.verdicts),
    }


@contextmanager
def _bar(end_ns: int) -> Iterator[Callable[[int], object]]:
    """Show on a terminal how far the run is."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  # slow to import, and nobody sees it in a pipe
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (TextColumn("live"), BarColumn(), TextColumn("{task.fields[reached]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("live", total=end_ns, reached="starting")

        def watch(now_ns: int) -> None:
            reached = f"{now_ns // NS_PER_S} of {end_ns // NS_PER_S} seconds"
            progress.update(task, completed=now_ns, reached=reached)

        yield watch
