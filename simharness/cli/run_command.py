"""`simharness run`: load, run, write the bundle, judge."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from simharness.cli import progress, show
from simharness.cli.main import ABORTED, FAILED, INCONCLUSIVE, PASSED
from simharness.core.errors import EngineAbort, InputError, Problem, ScenarioError
from simharness.hosts.kinds import Kinds
from simharness.run import Result, defects_of, run_to_bundle
from simharness.scenario.loader import Loaded, load

_RUNS: Final = Path(".simharness", "runs")
_WORST_FIRST: Final = (ABORTED, FAILED, INCONCLUSIVE, PASSED)


def run(args: argparse.Namespace) -> int:
    """Run every file, unless one of them is refused: then nothing is run and nothing is written."""
    kinds = Kinds()
    loaded = _load_all(args, kinds)
    places = _places(args, loaded)
    codes, reports = [], []
    for file, scenario, place in zip(args.files, loaded, places, strict=True):
        code, report = _run_one(args, file, scenario, place, kinds)
        codes.append(code)
        reports.append(report)
    if args.json:
        show.print_json({"runs": reports})
    return next(code for code in _WORST_FIRST if code in codes)


def _load_all(args: argparse.Namespace, kinds: Kinds) -> list[Loaded]:
    """Load every file; report the mistakes of all of them together."""
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    for file in args.files:
        try:
            loaded.append(load(file, kinds, seed=args.seed, reconfigure=_reconfigure(args)))
        except ScenarioError as error:
            problems += error.problems
    if problems:
        raise ScenarioError(problems)
    return loaded


def _reconfigure(args: argparse.Namespace) -> Any:
    """Return the function that puts the command line's SWIM options into the tables of swim peers (ruling K1)."""
    if args.swim_profile is None and not args.swim_defect:
        return None

    def reconfigure(kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(raw.get("node"), dict):
            return {**raw, "node": reconfigure("swim", raw["node"])}
        if kind != "swim":
            return raw
        profile = {} if args.swim_profile is None else {"profile": args.swim_profile}
        named = raw.get("defects", [])
        added = (
            [*named, *(name for name in args.swim_defect if name not in named)] if isinstance(named, list) else named
        )
        return {**raw, **profile, **({"defects": added} if args.swim_defect else {})}

    return reconfigure


def _places(args: argparse.Namespace, loaded: list[Loaded]) -> list[Path]:
    """Return where each bundle goes: `--out` itself for one file, else a directory named after the file's place."""
    if args.out is not None and len(loaded) == 1:
        return [Path(args.out)]
    root = _RUNS if args.out is None else Path(args.out)
    names = ["-".join(PurePosixPath(item.scenario_path).with_suffix("").parts) for item in loaded]
    for index, name in enumerate(names):
        if name in names[:index]:
            rule = f"this file and {args.files[names.index(name)]} would share the bundle directory {name}"
            raise InputError(file=args.files[index], field="(arguments)", rule=rule)
    return [root.joinpath(name) for name in names]


def _run_one(
    args: argparse.Namespace, file: str, loaded: Loaded, place: Path, kinds: Kinds
) -> tuple[int, dict[str, Any]]:
    """Run one scenario; an abort is reported and leaves the other files their turn."""
    scenario = loaded.scenario
    defects = defects_of(scenario)
    if not args.json:
        if defects:
            print(f"defects switched on: {', '.join(defects)}")
        print(f"scenario     {file}  seed {scenario.seed}  {show.seconds(scenario.duration_ns)} virtual")
    try:
        result = run_to_bundle(
            loaded,
            place,
            kinds,
            drive=progress.finish,
            keep_partial=args.keep_partial,
            max_dispatches=args.max_dispatches,
        )
    except EngineAbort as abort:
        print(abort, file=sys.stderr)
        return ABORTED, {"file": file, "aborted": str(abort), "rule": abort.rule, "at_ns": abort.at_ns}
    if not args.json:
        _print_result(result)
    report = {
        "file": file,
        "seed": scenario.seed,
        "defects": defects,
        "bundle": str(result.bundle),
        "digest": result.digest,
        "termination": show.plain(result.termination),
        "verdicts": show.plain(result.verdicts),
    }
    return show.exit_code(result.verdicts), report


def _print_result(result: Result) -> None:
    show.print_verdicts(result.verdicts)
    if result.termination.reason == "early":
        print(f"ended early  {show.seconds(result.termination.at_ns)}: every assertion had its final verdict")
    if not result.verdicts:
        print("no assertion declared: nothing was judged")
    print(f"bundle       {result.bundle}")
    print(f"digest       {result.digest}")
