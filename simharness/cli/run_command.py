"""`simharness run`: load, run, write the bundle, judge."""

import argparse
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from simharness.bundle.places import check_replaceable, structured_io
from simharness.cli import progress, show
from simharness.cli.main import ABORTED, FAILED, INCONCLUSIVE, PASSED, abort_report
from simharness.cli.names import default_name, place_name
from simharness.cli.streams import complain
from simharness.cli.swim_options import SwimOptions
from simharness.core.errors import EngineAbort, InputError, Problem, ScenarioError
from simharness.core.limits import Limits
from simharness.hosts.kinds import Kinds
from simharness.run import Result, defects_of, run_to_bundle
from simharness.scenario.loader import Loaded, load
from simharness.scenario.words import printable

_RUNS: Final = Path(".simharness", "runs")
_WORST_FIRST: Final = (ABORTED, FAILED, INCONCLUSIVE, PASSED)


def run(args: argparse.Namespace) -> int:
    """Run every file, unless one of them is refused: then nothing is run and nothing is written."""
    kinds = Kinds()
    loaded = _load_all(args, kinds)
    places = _places(args, loaded)
    codes, reports = [], []
    for file, scenario, place in zip(args.files, loaded, places, strict=True):
        code, report = _run_one(args, printable(file), scenario, place, kinds)
        codes.append(code)
        reports.append(report)
    if args.json:
        show.print_json({"runs": reports})
    return next(code for code in _WORST_FIRST if code in codes)


def _load_all(args: argparse.Namespace, kinds: Kinds) -> list[Loaded]:
    """Load every file; report the mistakes of all of them together."""
    options = SwimOptions(args, kinds)
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    for file in args.files:
        try:
            loaded.append(load(file, kinds, seed=args.seed, reconfigure=options.reconfigure if options.given else None))
        except ScenarioError as error:
            problems += error.problems
    if problems:
        raise ScenarioError(problems)
    options.refuse_if_idle()
    return loaded


def _places(args: argparse.Namespace, loaded: list[Loaded]) -> list[Path]:
    """Return where each bundle goes: `--out` itself for one file, else a directory named after the file's place.

    Raises:
        InputError: If two bundles would share a place, or one is taken by something that is no bundle.
    """
    if args.out is not None and len(loaded) == 1:
        places = [Path(args.out)]
    else:
        root = _RUNS if args.out is None else Path(args.out)
        if args.out is None:
            names = [default_name(file) for file in args.files]
        else:
            names = [place_name(PurePosixPath(item.scenario_path).parts) for item in loaded]
        for index, name in enumerate(names):
            if name in names[:index]:
                earlier = printable(args.files[names.index(name)])
                rule = f"this file and {earlier} would share the bundle directory {name}"
                raise InputError(file=printable(args.files[index]), field="(arguments)", rule=rule)
        places = [root.joinpath(name) for name in names]
    for place in places:
        with structured_io(place):
            check_replaceable(place)
    return places


def _run_one(
    args: argparse.Namespace, file: str, loaded: Loaded, place: Path, kinds: Kinds
) -> tuple[int, dict[str, Any]]:
    """Run one scenario; an abort is reported and leaves the other files their turn."""
    scenario = loaded.scenario
    defects = defects_of(scenario)
    report: dict[str, Any] = {"file": file, "seed": scenario.seed, "defects": defects}
    if not args.json:
        show.print_defects(defects)
        print(f"scenario     {file}  seed {scenario.seed}  {show.seconds(scenario.duration_ns)} virtual")
    quotes: dict[str, str] = {}
    try:
        result = run_to_bundle(
            loaded,
            place,
            kinds,
            drive=progress.finish,
            inspect=lambda bundle, verdicts: quotes.update(show.quotes(verdicts, bundle)),
            keep_partial=args.keep_partial,
            limits=Limits(args.max_dispatches, args.max_pending),
        )
    except EngineAbort as abort:
        complain(abort)
        kept = printable(str(place)) if args.keep_partial else None
        if kept is not None and not args.json:
            print(f"bundle       {kept} (partial)")
        return ABORTED, report | {"bundle": kept, "error": abort_report(abort)}
    if not args.json:
        _print_result(result, quotes)
    return show.exit_code(result.verdicts), report | {
        "bundle": printable(str(result.bundle)),
        "digest": result.digest,
        "termination": show.plain(result.termination),
        "verdicts": show.plain(result.verdicts),
    }


def _print_result(result: Result, quotes: Mapping[str, str]) -> None:
    if result.termination.reason == "early":
        print(f"ended early  {show.seconds(result.termination.at_ns)}: every assertion had its final verdict")
    show.print_verdicts(result.verdicts, quotes)
    print(f"bundle       {printable(str(result.bundle))}")
    print(f"digest       {result.digest}")
