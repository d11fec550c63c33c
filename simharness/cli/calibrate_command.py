"""`simharness calibrate`: scenarios against the captured runs that they stand for, or against live runs of themselves."""

import argparse
from pathlib import Path
from typing import Any, Final, NamedTuple

from simharness.bundle.places import check_folder, check_replaceable, put_files, structured_io
from simharness.calibration import report
from simharness.calibration.across import RELATIONS, across
from simharness.calibration.compare import Comparison, Verdict
from simharness.calibration.corpus import (
    FILE,
    Reference,
    Tolerance,
    Tolerances,
    read_reference,
    read_tolerances,
    tolerances_for,
)
from simharness.calibration.pairs import Outcome, calibrate, paired_run, worst
from simharness.cli import progress, show
from simharness.cli.calibrate_live import LIVE_TITLE, run_pairs
from simharness.cli.main import FAILED, INCONCLUSIVE, PASSED
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds
from simharness.pages import plotting
from simharness.scenario.loader import Loaded, load
from simharness.scenario.words import printable

_SCENARIOS: Final = Path("scenarios", "calibration")
_OUT: Final = Path(".simharness", "calibration")
_TITLE: Final = "Calibration"
_HEAD: Final = 1_000
"""Bytes of a page in which its title stands."""

_TOLERANCES: Final = Path(report.__file__).with_name(FILE)
_CODES: Final = {Verdict.PASS: PASSED, Verdict.FAIL: FAILED, Verdict.INCONCLUSIVE: INCONCLUSIVE}


class _Pair(NamedTuple):
    """One pair, loaded and checked."""

    name: str
    loaded: Loaded
    reference: Reference
    tolerances: dict[str, Tolerance]


def run(args: argparse.Namespace) -> int:
    """Run every pair, print what is in tolerance, write `calibration.json`, `report.html` and the bundles."""
    if args.repeats is not None and not args.live:
        raise InputError(file="(command line)", field="--repeats", rule="only live runs are repeated; add --live")
    if not args.no_html:
        plotting.require_plotly()
    out = _OUT if args.out is None else Path(args.out)
    with structured_io(out):
        check_folder(out, {"calibration.json": _is_calibration, "report.html": _is_report})
    verdict, document = _run_live(args, out) if args.live else _run_captured(args, out)
    if args.json:
        show.print_json({"verdict": verdict} | document)
    else:
        print("\n".join(f"written      {file}" for file in document["files"]))
    return _CODES[verdict]


def _is_calibration(data: bytes) -> bool:
    try:
        found = canonical_json.parse(data)
    except ValueError:
        return False
    return isinstance(found, dict) and "pairs" in found


def _is_report(data: bytes) -> bool:
    return any(f"<title>{title}</title>".encode() in data[:_HEAD] for title in (_TITLE, LIVE_TITLE))


def _run_live(args: argparse.Namespace, out: Path) -> tuple[Verdict, dict[str, Any]]:
    """Run scenarios live and simulated."""
    done, document = run_pairs(args, _SCENARIOS, out)
    return worst([pair.verdict for pair in done]), document


def _run_captured(args: argparse.Namespace, out: Path) -> tuple[Verdict, dict[str, Any]]:
    """Run scenarios and compare them with published figures."""
    kinds = Kinds()
    tolerances, relations = read_tolerances(_text(_TOLERANCES), FILE), _relations()
    pairs = [_pair(word, args.seed, tolerances, kinds) for word in args.pairs or _all_pairs()]
    for index, pair in enumerate(pairs):
        if pair.name in [earlier.name for earlier in pairs[:index]]:
            rule = f"two pairs would share the bundle directory {pair.name}"
            raise InputError(file=printable(pair.name), field="PAIR", rule=rule)
        with structured_io(out):
            check_replaceable(out.joinpath(pair.name))
    outcomes: list[Outcome] = []
    for pair in pairs:
        place = out.joinpath(pair.name)
        done = calibrate(pair.loaded, pair.reference, tolerances, place, kinds, name=pair.name, drive=progress.finish)
        outcomes.append(done)
        if not args.json:
            _print(done)
    runs = {done.comparison.reference: done.metrics for done in outcomes}
    between = None if relations is None else across(relations, runs, tolerances)
    if between is not None and not args.json:
        _print_comparison(between, f"relations    between the runs of {len(runs)} pairs")
    files = _write(out, pairs, outcomes, between, html=not args.no_html)
    verdict = worst([one.verdict for one in (*[done.comparison for done in outcomes], between) if one is not None])
    return verdict, {
        "files": files,
        "pairs": [_plain(done) for done in outcomes],
        "across": None if between is None else report.plain(between),
    }


def _all_pairs() -> list[str]:
    """Return every scenario of the default place that names a captured run.

    Raises:
        InputError: If there is none.
    """
    found = [path for path in sorted(_SCENARIOS.glob("*.toml")) if paired_run(_text(path)) is not None]
    if not found:
        rule = f"{_SCENARIOS} holds no scenario with a line `# pairs with: RUN`; name a file"
        raise InputError(file="(command line)", field="PAIR", rule=rule)
    return [str(path) for path in found]


def _pair(word: str, seed: int | None, tolerances: Tolerances, kinds: Kinds) -> _Pair:
    """Read `SCENARIO` or `SCENARIO=FIGURES`; a bare name stands for a file of the default place."""
    scenario, _, figures = word.partition("=")
    file = Path(scenario)
    if file.suffix != ".toml" and len(file.parts) == 1:
        file = _SCENARIOS.joinpath(f"{scenario}.toml")
    loaded = load(file, kinds, seed=seed)
    reference = _reference(Path(figures) if figures else _figures_of(file))
    return _Pair(file.stem, loaded, reference, tolerances_for(reference, tolerances))


def _relations() -> Reference | None:
    """Read the relations between runs, if the default place has any."""
    file = _SCENARIOS.joinpath("corpus", RELATIONS)
    return _reference(file) if file.exists() else None


def _reference(place: Path) -> Reference:
    with structured_io(place):
        data = place.read_bytes()
    return read_reference(data, printable(str(place)))


def _figures_of(file: Path) -> Path:
    captured = paired_run(_text(file))
    if captured is None:
        rule = "the opening comment has no line `# pairs with: RUN`; add it, or write SCENARIO=FIGURES"
        raise InputError(file=printable(str(file)), field="# pairs with", rule=rule)
    return file.parent.joinpath("corpus", captured, "metrics.json")


def _text(path: Path) -> str:
    with structured_io(path):
        return path.read_text(encoding="utf-8")


def _print(done: Outcome) -> None:
    comparison = done.comparison
    show.print_defects(done.defects)
    _print_comparison(comparison, f"pair         {comparison.name} against {comparison.reference}  seed {done.seed}")


def _print_comparison(comparison: Comparison, head: str) -> None:
    print(head)
    print("\n".join(report.table(comparison)))
    print(f"verdict      {comparison.verdict}\n")


def _plain(done: Outcome) -> dict[str, Any]:
    return {"seed": done.seed, "defects": done.defects, **report.plain(done.comparison)}


def _write(
    out: Path, pairs: list[_Pair], outcomes: list[Outcome], between: Comparison | None, *, html: bool
) -> list[str]:
    """Write the JSON, with every metric of ours, and the page. Returns what was written, bundles included."""
    plain = None if between is None else report.plain(between)
    full = [_plain(done) | {"metrics": show.plain(done.metrics)} for done in outcomes]
    parts = [
        report.Part(
            comparison=done.comparison,
            ours=(done.metrics,),
            reference=pair.reference,
            tolerances=pair.tolerances,
            facts=(f"seed {done.seed}; defects switched on: {', '.join(done.defects) or 'none'}",),
        )
        for pair, done in zip(pairs, outcomes, strict=True)
    ]
    if between is not None:
        parts.append(report.Part(comparison=between, ours=()))
    files = {out.joinpath("calibration.json"): canonical_json.pretty({"pairs": full, "across": plain}) + b"\n"}
    if html:
        files[out.joinpath("report.html")] = report.page(_TITLE, parts).encode()
    with structured_io(out):
        put_files(files)
    return [printable(str(file)) for file in (*files, *(out.joinpath(pair.name) for pair in pairs))]
