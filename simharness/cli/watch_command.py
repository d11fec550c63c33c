"""`simharness watch`: runs a scenario or a property again whenever a source file changes, and says what that did to the verdicts.

Each turn is a process of its own, so it runs the code as it stands on disk.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from watchfiles import Change, DefaultFilter, watch

from simharness.cli.main import PASSED
from simharness.cli.streams import reader_is_gone
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.scenario.words import printable
from simharness.stateful.watch import Verdicts, changes, counted, of_property, of_run

_SETTLE_MS: Final = 50
"""How long to wait for further changes: an editor writes a file in several steps."""

_IDLE_MS: Final = 200
"""How long the watcher waits before it says that nothing has changed."""

_SUFFIXES: Final = (".py", ".toml")


class _Sources(DefaultFilter):
    """Source and scenario files, outside of what runs write themselves."""

    ignore_dirs = (*DefaultFilter.ignore_dirs, ".simharness", ".hypothesis", ".build", "build", "dist")

    def __call__(self, change: Change, path: str) -> bool:
        """Tell whether a change matters."""
        return path.endswith(_SUFFIXES) and super().__call__(change, path)


def run(args: argparse.Namespace) -> int:
    """Run the target now and after every change, until Ctrl-C."""
    file = args.target.partition("::")[0]
    if not Path(file).is_file():
        rule = "watch a scenario file, or a property by its pytest id such as properties/test_flap.py::TestGossipFlap"
        raise InputError(file=args.target, field="TARGET", rule=rule)
    turn = _scenario_turn if file.endswith(".toml") else _property_turn
    tell = _print_json if args.json else _print_text
    known: Verdicts | None = None
    for changed in _changes(_places(file)):
        if not args.json:
            print(f"running      {printable(args.target)}", flush=True)
        found = turn(args.target)
        if reader_is_gone():
            break
        if found.trouble and not found.verdicts:
            tell(Turn(changed, found.verdicts, [], found.trouble))
            continue
        first = [f"{what}: {outcome}" for what, outcome in found.verdicts.items()]
        new = first if known is None else changes(known, found.verdicts)
        tell(Turn(changed, found.verdicts, new, found.trouble))
        if (
            not found.trouble
        ):  # code that cannot run has judged nothing: the next turn is compared with the last that has
            known = found.verdicts
    return PASSED


def _changes(places: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Yield nothing changed, once the watcher is at work, so that what changes during the first turn is seen; then each change."""
    begun = False
    watcher = watch(
        *places,
        watch_filter=_Sources(),
        debounce=_SETTLE_MS,
        step=_SETTLE_MS,
        rust_timeout=_IDLE_MS,
        yield_on_timeout=True,
    )
    for changed in watcher:
        if changed or not begun:
            yield tuple(sorted({_shown(Path(path)) for _, path in changed}))
        begun = True


def _shown(path: Path) -> str:
    """Return a file's place below the working directory, or its name and its folder's: several files have one name."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(Path(path.parent.name, path.name))


class Found(NamedTuple):
    """What one run said, or what kept it from saying anything."""

    verdicts: Verdicts
    trouble: str = ""


class Turn(NamedTuple):
    """One turn of the loop."""

    changed: tuple[str, ...]
    """The files that were changed; none for the first turn."""
    verdicts: Verdicts
    new: list[str]
    trouble: str


def _print_text(turn: Turn) -> None:
    if turn.changed:
        print(f"changed      {', '.join(turn.changed)}")
    for line in turn.new or (() if turn.trouble else ("no verdict changed",)):
        print(f"  {line}")
    if turn.verdicts:
        print(f"verdicts     {counted(turn.verdicts)}")
    if turn.trouble:
        print(turn.trouble)
    sys.stdout.flush()


def _print_json(turn: Turn) -> None:
    print(canonical_json.compact(turn._asdict()).decode(), flush=True)


def _places(file: str) -> tuple[Path, ...]:
    """Return what is watched: the working directory, the target's, and the package's; none inside another."""
    places = {Path.cwd(), Path(file).resolve().parent, Path(__file__).resolve().parents[1]}
    return tuple(sorted(place for place in places if not any(other in place.parents for other in places)))


def _scenario_turn(target: str) -> Found:
    """Run a scenario; return its verdicts, or none and what kept it from running. An abort has its text too, as `run` shows it."""
    with TemporaryDirectory() as scratch:
        bundle = str(Path(scratch, "bundle"))
        done = _python("-m", "simharness", "run", target, "--json", "--out", bundle)
    try:
        report = canonical_json.parse(done.stdout)
    except ValueError:
        return Found({}, done.stderr.decode(errors="replace").strip())
    if "runs" not in report:
        return Found({}, done.stderr.decode(errors="replace").strip())
    run = report["runs"][0]
    return Found(of_run(run), done.stderr.decode(errors="replace").strip() if "error" in run else "")


def _property_turn(target: str) -> Found:
    """Run a property; return its verdicts, or none and what kept it from running."""
    with TemporaryDirectory() as scratch:
        options = ("-q", "--tb=short", "-p", "no:cacheprovider", "--sim-artefacts", scratch)
        done = _python("-m", "pytest", target, *options)
        files = sorted(Path(scratch, "properties").glob("*.ndjson"))
        rows = [canonical_json.parse(line) for file in files for line in file.read_bytes().splitlines()]
    return Found(of_property(rows), "" if rows else done.stdout.decode(errors="replace").strip())


def _python(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run((sys.executable, *words), capture_output=True, check=False)  # noqa: S603  # our own command line
