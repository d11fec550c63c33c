"""`simharness knobs`: the kill table, every defect switched on in turn (ruling K1)."""

import argparse
import re
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simharness.bundle.places import check_own, check_writable, put_file, structured_io
from simharness.cli import show, supervisor_hunts, training_hunts
from simharness.cli.main import FAILED, PASSED
from simharness.cli.supervisor_files import is_minimised
from simharness.cli.training_inputs import require_numpy
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_S
from simharness.stateful.knobs import Exemption, Hunt, Knob, exemptions_from, hunt, row
from simharness.stateful.registry import KNOBS, choose, resolve

_EXEMPTIONS: Final = Path("properties", "exemptions.toml")
_SEEDED: Final = ("supervisor", "training")
"""The systems whose hunters are seeds and not a property."""
_POOLED: Final = ("supervisor",)
"""The systems whose hunt is spread over processes, and has knobs that break something seldom."""
_FOUND: Final = re.compile(rb"# (Minimal failing example of the property |[A-Z_]+, caught by )")
_COLUMNS: Final = ("defect", "examples", "mutations", "peers", "fired", "seconds", "file")


def run(args: argparse.Namespace) -> int:
    """Hunt every defect, or those named; exit 1 if one survives without an exemption."""
    check_writable(Path(args.out).joinpath("x.toml"))
    exemptions = known_exemptions()
    systems = _systems(args)
    _refuse_idle(args, systems)
    knobs = _chosen(args, systems)
    seeded = supervisor_hunts.chosen(args, exemptions) if "supervisor" in systems else []
    jobs = training_hunts.chosen(args) if "training" in systems else []
    if jobs:
        require_numpy()
    names = dict.fromkeys([one.defect for table in (knobs, seeded, jobs) for one in table])
    for name in names:
        for place in sorted(Path(args.out).glob(f"{name}[-_.]*")):
            check_own(place, _is_ours, by="knobs")
    if not args.json:
        print(f"defects switched on, one at a time: {', '.join(names)}")
    rows: list[dict[str, Any]] = []
    table: list[tuple[str, ...]] = []
    wrong: list[str] = []
    for knob in knobs:
        _tell(f"hunting {knob.defect} with {knob.hunter}")
        started = time.monotonic_ns()
        found = hunt(knob)
        seconds = (time.monotonic_ns() - started + NS_PER_S // 2) // NS_PER_S
        one = row(found, exemptions, seconds=seconds)
        file = _write(Path(args.out), found)
        rows.append(one)
        table.append(_cells(found, exempt=one["exempt"], seconds=seconds, file=file))
        wrong += () if one["exempt"] and not found.killed else found.shortcomings()
    _tell("")
    if table and not args.json:
        _print_table(table)
    supervisor_hunts.run(args, seeded, exemptions, rows, wrong)
    training_hunts.run(args, jobs, exemptions, rows, wrong)
    if args.json:
        show.print_json(rows)
    else:
        for line in wrong:
            print(f"wrong        {line}")
        print(f"killed       {sum(one['killed'] for one in rows)} of {len(rows)}")
    return FAILED if wrong else PASSED


def _is_ours(data: bytes) -> bool:
    """Tell whether a file is what a hunt found."""
    return _FOUND.match(data) is not None or is_minimised(data)


def _systems(args: argparse.Namespace) -> list[str]:
    """Return the systems whose defects are hunted; put the names of defects, which are spelt in any case, as they are.

    Raises:
        InputError: If a system, or a defect of the systems, is unknown.
    """
    system = choose(args.system, (*KNOBS, "all"), what="system", field="--system")
    systems = [name for name in KNOBS if system in (name, "all")]
    known = dict.fromkeys(knob.defect for name in systems for knob in resolve(KNOBS[name]))
    args.defect = [choose(name.upper(), known, what="defect", field="--defect") for name in args.defect]
    return systems


def _refuse_idle(args: argparse.Namespace, systems: Sequence[str]) -> None:
    """Refuse an option that nothing here heeds.

    Raises:
        InputError: If there is one.
    """
    for option, given, heeding in (
        ("--full", args.full, _SEEDED),
        ("--frequent", args.frequent, _POOLED),
        ("--jobs", args.jobs is not None, _POOLED),
    ):
        if given and not any(name in systems for name in heeding):
            rule = f"only the hunt of {' and '.join(heeding)} heeds it; --system is {args.system}"
            raise InputError(file="(command line)", field=option, rule=rule)
    if args.frequent and (args.full or args.defect):
        rule = f"chooses defects; so does {'--full' if args.full else '--defect'}"
        raise InputError(file="(command line)", field="--frequent", rule=rule)


def _chosen(args: argparse.Namespace, systems: Sequence[str]) -> list[Knob]:
    """Return the knobs that a property hunts, or those of them that are named."""
    tables = [resolve(KNOBS[name]) for name in systems if name not in _SEEDED]
    known = {knob.defect: knob for table in tables for knob in table}
    return [known[name] for name in dict.fromkeys(args.defect or known) if name in known]


def known_exemptions() -> tuple[Exemption, ...]:
    """Read the exemptions of the project that we stand in, if it has any."""
    try:
        text = _EXEMPTIONS.read_text("utf-8")
    except FileNotFoundError:
        return ()
    try:
        return exemptions_from(tomllib.loads(text), str(_EXEMPTIONS))
    except tomllib.TOMLDecodeError as error:
        raise InputError(file=str(_EXEMPTIONS), field="(root)", rule=f"not valid TOML: {error}") from None


def _write(folder: Path, found: Hunt) -> str | None:
    """Write the scenario that a kill shrank to."""
    if found.failure is None:
        return None
    place = folder.joinpath(f"{found.knob.defect}.toml")
    with structured_io(place):
        folder.mkdir(parents=True, exist_ok=True)
        put_file(place, found.failure.toml().encode())
    return str(place)


def _cells(found: Hunt, *, exempt: bool, seconds: int, file: str | None) -> tuple[str, ...]:
    if found.failure is None:
        fate = "exempt" if exempt else "SURVIVED"
        return (found.knob.defect, f"{found.budget} of {found.budget}", "-", "-", fate, str(seconds), "-")
    peers = len(found.failure.scenario.peers)
    numbers = (f"{found.tries} of {found.budget}", str(found.size), str(peers), found.failure.kind, str(seconds))
    return (found.knob.defect, *numbers, file or "-")


def _print_table(lines: Sequence[tuple[str, ...]]) -> None:
    table: list[Any] = [_COLUMNS, *lines]
    widths = [max(len(line[column]) for line in table) for column in range(len(_COLUMNS))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _tell(text: str) -> None:
    """Say on a terminal what is going on, in one line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
