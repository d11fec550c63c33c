"""`simharness supervisor approve` and `status`: the bar, its record under docs/, and whether it still holds."""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from simharness.bundle.places import check_writable, put_file, structured_io
from simharness.cli import show
from simharness.cli.knobs_command import known_exemptions
from simharness.cli.main import FAILED, INCONCLUSIVE, PASSED
from simharness.cli.supervisor_command import jobs_of, progress, ran, task_of, verdict_of
from simharness.cli.supervisor_hunt_file import HuntFile
from simharness.cli.supervisor_pool import tallies
from simharness.cli.supervisor_sources import source_digest
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.supervisor.agreement import Apart, apart
from simharness.supervisor.approve import (
    SAMPLE,
    SEEDS,
    Approval,
    Hunted,
    Status,
    approval,
    from_plain,
    hunted,
    hunts_of,
    page,
    rate_task,
    status,
    to_plain,
)
from simharness.supervisor.batch import DEFECT_NAMES, Tally, Task, total
from simharness.supervisor.coverage import COUNTERS
from simharness.supervisor.knobs import SUPERVISOR, SupervisorKnob, hunt
from simharness.supervisor.knobs import task_of as seeds_of
from simharness.supervisor.params import SHAPES

RECORD: Final = Path("docs", "approval.json")
PAGE: Final = Path("docs", "APPROVAL.md")
_PROJECT: Final = Path("pyproject.toml")
_EXPLANATIONS: Final = Path("properties", "explanations.toml")
_LEAST_WORDS: Final = 20

_MOST_SHOWN: Final = 10
_UNTOUCHED: Final = {
    "shape": "both",
    "defect": [],
    "stop_at_first": False,
    "trace": False,
    "shard": None,
    "merge": None,
}
"""Options that would make less of an approval, and what they are when nobody gives them."""
_OF_A_BATCH: Final = {"seeds": None, "seed": None, "twice": False, "coverage": False, "common": False, "out": None}


def run(args: argparse.Namespace) -> int:
    """Run the sub-command.

    Raises:
        InputError: If an option would do nothing, or we do not stand in the project, whose docs/ hold the record.
    """
    _check_project()
    if args.action == "status":
        return _status(args)
    return approve(args)


def _check_project() -> None:
    with structured_io(_PROJECT):
        text = _PROJECT.read_text("utf-8") if _PROJECT.exists() else ""
    try:
        name = tomllib.loads(text).get("project", {}).get("name")
    except (tomllib.TOMLDecodeError, AttributeError):
        name = None
    if name != "simharness":
        rule = f"must be that of simharness, in whose docs/ the record stands; {Path.cwd()} is no clone of it"
        raise InputError(file=str(_PROJECT), field="project.name", rule=rule)


def approve(args: argparse.Namespace, knobs: Sequence[SupervisorKnob] = SUPERVISOR) -> int:
    """Run whatever of the bar fits the seeds that are asked for; record what it came to.

    Raises:
        InputError: If an option makes less of it, the record may not be replaced, or somebody edits the sources meanwhile.
    """
    _refuse(args, _UNTOUCHED, "an approval runs every rule of the protocol, every seed, in both shapes")
    if args.seeds is None and args.seed is None:
        args.seeds = f"0..{SEEDS}"
    task = msgspec.structs.replace(task_of(args), twice=True)
    sources, jobs, explained = source_digest(), jobs_of(args), _explanations()
    _check_record(task, sources)
    exempt = [one.defect for one in known_exemptions() if one.system == "supervisor"]
    with HuntFile.opened(args.out, sources, exempt) as file:
        done = file.taken_up()
        batch = ran(args, task)
        clean = not any(tally.breaches for tally in batch.tallies)
        hunts = _hunts(args, task, knobs, _Before(file, done, exempt)) if clean else ()
    sample = min(SAMPLE, task.last - task.first) if clean else 0
    found = approval(
        task,
        batch.tallies,
        hunts,
        sources=sources,
        python=".".join(map(str, sys.version_info[:3])),
        sample=sample,
        apart=_apart(args, range(task.first, task.first + sample)),
        explained=explained,
        jobs=jobs,
        runs_per_s=batch.runs_per_s,
    )
    if source_digest() != sources:
        raise InputError(file="simharness", field="(sources)", rule="they changed meanwhile; nothing is recorded")
    _record(found)
    _report(args, found)
    return {"approved": PASSED, "partial": INCONCLUSIVE, "failed": FAILED}[found.verdict]


def _refuse(args: argparse.Namespace, untouched: dict[str, Any], rule: str) -> None:
    for name, usual in untouched.items():
        if getattr(args, name) != usual:
            raise InputError(file="(command line)", field=f"--{name.replace('_', '-')}", rule=rule)


def _check_record(task: Task, sources: str) -> None:
    """Check that both files can be written, and that a smaller run takes no approval away."""
    for path in (RECORD, PAGE):
        check_writable(path)
    if task.last - task.first < SEEDS and status(_recorded(), sources) == "approved":
        rule = f"these sources are approved; so few seeds do not replace that (--seeds 0..{SEEDS} does)"
        raise InputError(file=str(RECORD), field="--seeds", rule=rule)


def _recorded() -> Approval | None:
    """Read the record, if there is one.

    Raises:
        InputError: If it is something else.
    """
    with structured_io(RECORD):
        data = RECORD.read_bytes() if RECORD.exists() else None
    if data is None:
        return None
    try:
        return from_plain(canonical_json.parse(data))
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(file=str(RECORD), field="(root)", rule=f"it is no record of an approval: {error}") from None


class _Before(NamedTuple):
    """What a stopped approval had hunted, the file that takes what is hunted now, and which defects are exempt."""

    file: HuntFile
    done: dict[tuple[str, bool], Hunted]
    exempt: Sequence[str]


def _hunts(
    args: argparse.Namespace, task: Task, knobs: Sequence[SupervisorKnob], before: _Before
) -> tuple[Hunted, ...]:
    """Hunt every defect that so many seeds can decide about, but for those whose hunt was finished before a stop."""
    found = []
    plan = hunts_of(task.last - task.first, knobs)
    with progress(args, len(plan), "hunts") as advance:
        for knob, alone in plan:
            one = before.done.get((knob.defect, alone))
            if one is None:
                seeds = seeds_of(knob, alone=alone)
                blocks = tallies(seeds, seeds.blocks(), jobs_of(args), knob.caught_by)
                kill = hunt(knob, blocks, alone=alone)
                one = hunted(kill, before.exempt, Tally() if alone else _rate(knob, task, jobs_of(args)))
                before.file.append(one)
            found.append(one)
            advance()
    return tuple(found)


def _rate(knob: SupervisorKnob, task: Task, jobs: int) -> Tally:
    """Run the seeds from which a hit rate is taken, unless the whole run is shorter."""
    wanted = rate_task(knob)
    if wanted is None or wanted.last > task.last - task.first:
        return Tally()
    return total(tallies(wanted, wanted.blocks(), jobs))


def _explanations() -> dict[str, str]:
    """Read why shares and rates may be far from the prototype's, if the project that we stand in says so.

    Raises:
        InputError: If one is of no counter and no defect, or says too little.
    """
    file = str(_EXPLANATIONS)
    with structured_io(_EXPLANATIONS):
        text = _EXPLANATIONS.read_text("utf-8") if _EXPLANATIONS.exists() else ""
    try:
        found = msgspec.convert(tomllib.loads(text).get("supervisor", {}), dict[str, str])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(
            file=file, field="(root)", rule=f"must hold one table [supervisor] of texts: {error}"
        ) from None
    known = {*DEFECT_NAMES, *[f"{shape} {name}" for shape in SHAPES for name in COUNTERS]}
    for name, why in found.items():
        if name not in known:
            raise InputError(file=file, field=f"supervisor.{name}", rule="must be a defect, or a shape and a counter")
        if len(why.split()) < _LEAST_WORDS:
            raise InputError(file=file, field=f"supervisor.{name}", rule=f"must have at least {_LEAST_WORDS} words")
    return found


def _apart(args: argparse.Namespace, seeds: range) -> tuple[Apart, ...]:
    found: list[Apart] = []
    with progress(args, len(seeds) * len(SHAPES), "seeds, judged in every way") as advance:
        for shape in SHAPES:
            for seed in seeds:
                found += apart([seed], [shape])
                advance()
    return tuple(found)


def _record(found: Approval) -> None:
    """Write both forms, each in one step; the one that `status` reads last."""
    with structured_io(RECORD):
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        put_file(PAGE, page(found).encode())
        put_file(RECORD, canonical_json.pretty(to_plain(found)) + b"\n")


def _report(args: argparse.Namespace, found: Approval) -> None:
    if args.json:
        show.print_json({**to_plain(found), "files": [str(RECORD), str(PAGE)]})
        return
    print(f"{verdict_of(found.breaches) or found.verdict:<12} {2 * sum(found.runs.values())} runs, {found.digest}")
    caught = sum(one.breach is not None for one in found.hunts)
    exempt = sum(one.exempt for one in found.hunts)
    print(f"{'hunts':<12} {len(found.hunts)}: {caught} caught, {exempt} exempt")
    for word, lines in (("wrong", found.faults()), ("missing", found.gaps())):
        for text in lines[:_MOST_SHOWN]:
            print(f"{word:<12} {text}")
        if len(lines) > _MOST_SHOWN:
            print(f"{word:<12} {len(lines) - _MOST_SHOWN} more: see {PAGE}")
    if found.runs_per_s:
        print(f"{'speed':<12} {found.runs_per_s} runs/s")
    print(f"{'recorded':<12} {RECORD}, {PAGE}")


def _status(args: argparse.Namespace) -> int:
    _refuse(args, _UNTOUCHED | _OF_A_BATCH, "it belongs to a batch; the status is that of the record and these sources")
    found, sources = _recorded(), source_digest()
    word = status(found, sources)
    if args.json:
        show.print_json({"status": word, "sources": sources, "recorded": None if found is None else found.sources})
    else:
        print(f"{word:<12} {_words(word, found)}")
    return {"approved": PASSED, "failed": FAILED}.get(word, INCONCLUSIVE)


def _words(word: Status, found: Approval | None) -> str:
    """Return what stands behind a status."""
    if found is None:
        return f"there is no {RECORD}"
    if word == "stale":
        return f"{RECORD} is about other sources; {found.verdict} were those of {found.sources[:16]}"
    return f"seeds {found.task.first}..{found.task.last} in each shape, Python {found.python}, digest {found.digest}"
