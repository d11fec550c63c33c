"""`simharness knobs --system training`: a schedule made for the defect, then the seeds of its mix (K1)."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simharness.bundle.places import put_file, structured_io
from simharness.cli import progress, show
from simharness.core.units import NS_PER_S
from simharness.scenario.emit import emit
from simharness.stateful.knobs import Exemption
from simharness.stateful.session import KINDS
from simharness.training.knobs import ABORT, TRAINING, Kill, TrainingKnob, hunt, shortcomings, smallest


def chosen(args: argparse.Namespace) -> list[TrainingKnob]:
    """Return the defects to hunt, once for each strategy: those named, or all."""
    return [knob for knob in TRAINING if not args.defect or knob.defect in args.defect]


def run(
    args: argparse.Namespace,
    knobs: Sequence[TrainingKnob],
    exemptions: Sequence[Exemption],
    rows: list[dict[str, Any]],
    wrong: list[str],
) -> None:
    """Hunt the defects, with `--full` once more with the guards of production on; add a row for each hunt, and what is wrong."""
    exempt = [one.defect for one in exemptions if one.system == "training"]
    for knob in knobs:
        for guards in (False, True) if args.full else (False,):
            row, kill = _hunted(args, knob, guards=guards, exempt=knob.defect in exempt)
            rows.append(row)
            wrong += shortcomings(kill, exempt=row["exempt"])
            if not args.json:
                print(_line(row, kill), flush=True)


def _hunted(args: argparse.Namespace, knob: TrainingKnob, *, guards: bool, exempt: bool) -> tuple[dict[str, Any], Kill]:
    """Hunt one defect; shrink what was found without guards, and write it down."""
    progress.step(f"hunting {knob.defect} ({knob.strategy})")
    started = time.monotonic_ns()
    kill = hunt(knob, KINDS, guards=guards)
    size: int | None = None
    if kill.killed and kill.by != ABORT and not guards:
        small = smallest(kill, KINDS)
        size = len(small.mutations)
        place = Path(args.out).joinpath(f"{knob.defect}_{knob.strategy}.toml")
        about = f"# {knob.defect}, caught by {kill.by}.\n#\n# reproduces: {knob.defect}\n"
        header = f"{about}# expected: fail-until-fix\n# extends: none\n\n"
        with structured_io(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            put_file(place, (header + emit(small)).encode())
    progress.step("")
    return {
        "system": "training",
        "defect": knob.defect,
        "strategy": knob.strategy,
        "guards": guards,
        "killed": kill.killed,
        "exempt": exempt,
        "by": kill.by,
        "tries": kill.tries,
        "size": size,
        "seconds": (time.monotonic_ns() - started + NS_PER_S // 2) // NS_PER_S,
    }, kill


def _line(row: dict[str, Any], kill: Kill) -> str:
    fate = "exempt" if row["exempt"] and not kill.killed else "SURVIVED"
    if kill.killed:
        others = ", ".join([kind for kind in kill.fired if kind != kill.by])
        left = "" if row["size"] is None else f", {show.count(row['size'], 'mutation')}"
        fate = f"{kill.by}{left}{f'; also {others}' if others else ''}"
    what = f"{kill.knob.defect} ({kill.knob.strategy}{', guards on' if kill.guards else ''})"
    return f"{what:<44} {kill.tries:>6} runs {row['seconds']:>5} s  {fate}"
