"""`simharness knobs --system supervisor`: the seed batch hunts every defect of the job supervisor (K1)."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simharness.bundle.places import put_file, structured_io
from simharness.cli.supervisor_pool import tallies
from simharness.core.units import NS_PER_S
from simharness.stateful.knobs import Exemption
from simharness.supervisor.knobs import (
    FREQUENT,
    SUPERVISOR,
    Kill,
    SupervisorKnob,
    hunt,
    shortcomings,
    smallest,
    task_of,
)
from simharness.supervisor.minimise import regression


def chosen(args: argparse.Namespace, exemptions: Sequence[Exemption]) -> list[SupervisorKnob]:
    """Return the defects to hunt: those named, with `--full` all, else those that are not exempt, `--frequent` or all of them."""
    if args.defect:
        return [knob for knob in SUPERVISOR if knob.defect in args.defect]
    if args.full:
        return list(SUPERVISOR)
    exempt = _exempt(exemptions)
    required = [knob for knob in SUPERVISOR if knob.defect not in exempt]
    return [knob for knob in required if knob.hits >= FREQUENT] if args.frequent else required


def run(
    args: argparse.Namespace,
    knobs: Sequence[SupervisorKnob],
    exemptions: Sequence[Exemption],
    rows: list[dict[str, Any]],
    wrong: list[str],
) -> None:
    """Hunt the defects; add a row for each hunt, and what is not as it should be."""
    exempt = _exempt(exemptions)
    for knob in knobs:
        for alone in (False, True) if args.full and "X1" in knob.caught_by else (False,):
            row, kill = _hunted(args, knob, alone=alone, exempt=knob.defect in exempt)
            rows.append(row)
            wrong += shortcomings(kill, exempt=knob.defect in exempt)
            if not args.json:
                print(_line(row, kill), flush=True)


def _exempt(exemptions: Sequence[Exemption]) -> list[str]:
    return [one.defect for one in exemptions if one.system == "supervisor"]


def _hunted(
    args: argparse.Namespace, knob: SupervisorKnob, *, alone: bool, exempt: bool
) -> tuple[dict[str, Any], Kill]:
    """Hunt one defect, shrink what was found, write it down."""
    if sys.stderr.isatty():
        print(f"\r\x1b[Khunting {knob.defect}", end="", file=sys.stderr, flush=True)
    started = time.monotonic_ns()
    task = task_of(knob, alone=alone)
    found = tallies(task, task.blocks(), args.jobs or os.cpu_count() or 1, knob.caught_by)
    kill = hunt(knob, found, alone=alone)
    size = 0
    if kill.killed:
        small = smallest(kill)
        size = small.size
        name, text = regression(small, found_with=(knob.defect,))
        place = Path(args.out).joinpath(f"{knob.defect}-{name}")
        with structured_io(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            put_file(place, text.encode())
    seconds = (time.monotonic_ns() - started + NS_PER_S // 2) // NS_PER_S
    by = None if kill.breach is None else kill.breach.invariant
    return {
        "system": "supervisor",
        "defect": knob.defect,
        "killed": kill.killed,
        "exempt": exempt,
        "by": by,
        "tries": kill.tries,
        "size": size,
        "seconds": seconds,
    }, kill


def _line(row: dict[str, Any], kill: Kill) -> str:
    others = ", ".join([f"{count} x {name}" for name, count in sorted(kill.others.items())])
    fate = "exempt" if row["exempt"] and not kill.killed else "SURVIVED"
    if kill.breach is not None:
        breach = kill.breach
        fate = f"invariant {breach.invariant}, seed {breach.seed} {breach.shape}, step {breach.step}, {row['size']} entries"
    without = " (X1 left out)" if kill.alone else ""
    uncounted = f"; not counted: {others}" if others else ""
    return f"{kill.knob.defect + without:<44} {kill.tries:>6} runs {row['seconds']:>5} s  {fate}{uncounted}"
