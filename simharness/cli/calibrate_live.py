"""`simharness calibrate --live`: scenarios that are run live and simulated, seed by seed."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from simharness.bundle.places import put_files, structured_io
from simharness.calibration import live, report
from simharness.calibration.both_ways import BothWays, check_places, plan, run_both_ways
from simharness.calibration.compare import JUDGED, Comparison, Verdict
from simharness.cli import show
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_MS
from simharness.hosts.kinds import Kinds
from simharness.scenario.words import printable

LIVE_TITLE: Final = "Live and simulated"
_TOLERANCES: Final = Path(live.__file__).with_name(live.FILE)
_REPEATS: Final = 8
_PATTERN: Final = "live_*.toml"


def run_pairs(args: argparse.Namespace, scenarios: Path, out: Path) -> tuple[list[BothWays], dict[str, Any]]:
    """Run every scenario both ways, print what is in tolerance, write `calibration.json`, `report.html` and the bundles.

    Raises:
        InputError: If a scenario cannot be read or run live, two share a name, or a place is taken.
        EngineAbort: If a run cannot go on.
    """
    kinds, repeats = Kinds(), _REPEATS if args.repeats is None else args.repeats
    with structured_io(_TOLERANCES):
        tolerance = live.read_live_tolerance(_TOLERANCES.read_text(encoding="utf-8"), live.FILE)
    plans = [plan(file, kinds, repeats=repeats, seed=args.seed) for file in _files(args.pairs, scenarios)]
    for index, planned in enumerate(plans):
        if planned.name in [earlier.name for earlier in plans[:index]]:
            rule = f"two scenarios would share the bundle directories {planned.name}-..."
            raise InputError(file=printable(planned.name), field="PAIR", rule=rule)
        check_places(planned, out)
    done: list[BothWays] = []
    for planned in plans:
        done.append(run_both_ways(planned, out, kinds, tolerance, say=_say))
        if not args.json:
            _print(done[-1])
    files = _write(out, done, html=not args.no_html)
    return done, {"files": files, "pairs": [_plain(pair) for pair in done]}


def _files(words: list[str], scenarios: Path) -> list[Path]:
    """Return the named files, a bare name standing for a file of the default place, or all there that are meant for it."""
    named = [Path(word) for word in words]
    files = [
        file if file.suffix == ".toml" or len(file.parts) > 1 else scenarios.joinpath(f"{file}.toml") for file in named
    ]
    found = files or sorted(scenarios.glob(_PATTERN))
    if not found:
        rule = f"{scenarios} holds no {_PATTERN}; name a file"
        raise InputError(file="(command line)", field="PAIR", rule=rule)
    return found


def _say(line: str) -> None:
    """Tell how far it is: live runs take their time."""
    print(line, file=sys.stderr, flush=True)


def _print(pair: BothWays) -> None:
    show.print_defects(pair.defects)
    print(
        f"pair         {pair.name}, simulated (ours) against live (theirs)  seeds {pair.seeds[0]} to {pair.seeds[-1]}"
    )
    print("\n".join(report.table(_short(pair.comparison))[:-1]))
    print(f"coverage     {pair.comparison.coverage}")
    print(f"live runs    {_facts(pair)}")
    print(f"verdict      {pair.verdict}\n")


def _short(comparison: Comparison) -> Comparison:
    """Leave out the rows of every node's events, which are many, unless they fail."""
    rows = [
        row
        for row in comparison.rows
        if row.verdict in JUDGED and not (row.verdict is Verdict.PASS and row.metric.startswith("events."))
    ]
    return msgspec.structs.replace(comparison, rows=tuple(rows))


def _facts(pair: BothWays) -> str:
    late = ", ".join(f"{late_ns // NS_PER_MS} ms" for late_ns in pair.late_ns)
    return (
        f"a hop takes {pair.hop_ns} ns longer than its link; latest ticks {late or '-'} late; "
        f"{pair.left_out} left out, in which a tick came a whole period late"
    )


def _plain(pair: BothWays) -> dict[str, Any]:
    told = {
        "seeds": pair.seeds,
        "defects": pair.defects,
        "hop_ns": pair.hop_ns,
        "late_ns": pair.late_ns,
        "left_out": pair.left_out,
    }
    return told | report.plain(pair.comparison) | {"verdict": pair.verdict}


def _write(out: Path, done: list[BothWays], *, html: bool) -> list[str]:
    """Write the JSON, with every metric of every run, and the page. Returns what was written, bundles included."""
    full = [
        _plain(pair) | {"metrics": {"simulated": show.plain(pair.simulated), "live": show.plain(pair.live)}}
        for pair in done
    ]
    parts = [
        report.Part(
            comparison=pair.comparison,
            ours=pair.simulated,
            theirs=pair.live,
            facts=(
                f"ours: simulated; theirs: live; seeds {pair.seeds[0]} to {pair.seeds[-1]}",
                f"defects switched on: {', '.join(pair.defects) or 'none'}",
                _facts(pair),
            ),
        )
        for pair in done
    ]
    files = {out.joinpath("calibration.json"): canonical_json.pretty({"pairs": full}) + b"\n"}
    if html:
        files[out.joinpath("report.html")] = report.page(LIVE_TITLE, parts).encode()
    with structured_io(out):
        put_files(files)
    return [printable(str(file)) for file in files] + [printable(place) for pair in done for place in pair.bundles]
