"""Runs scenarios for a report: each file once, in memory, twins `X` and `X_ps` beside each other (training design, 16)."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec

from simharness.assertions.setting import from_scenario
from simharness.assertions.training_facts import TrainingFacts
from simharness.contracts.assertions import Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError
from simharness.run import defects_of
from simharness.scenario.build import Reconfigure
from simharness.scenario.loader import Loaded
from simharness.stateful.headers import Header, header_of
from simharness.stateful.playing import attempt
from simharness.systems.training.config import STRATEGY_OF, TrainingDefect
from simharness.training.breaking import decisive, ended, first_break
from simharness.training.document import Curve, Invisible, Judged, Pair, Run
from simharness.training.steps import seen

SERVER: Final = "_ps"
KINDS: Final = ("train_worker", "train_hub")
DEFECTS: Final = tuple(TrainingDefect.__members__)
_SEEDS: Final = 1 << 64
_WEIGHTING: Final = "UNWEIGHTED_MEAN"


class File(NamedTuple):
    """A scenario file of training: its bare name, its text, how to load it with other settings, and what errors call it."""

    name: str
    text: str
    load: Callable[[Reconfigure | None], Loaded]
    shown: str


def with_settings(settings: Mapping[str, Any]) -> Reconfigure:
    """Return what puts settings into the tables of all training peers; defects are added to those that are there."""

    def changed(kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        if kind not in KINDS:
            return raw
        named = list(dict.fromkeys([*raw.get("defects", []), *settings.get("defects", [])]))
        return {**raw, **settings, **({"defects": named} if named else {})}

    return changed


def defective(*defects: str) -> dict[str, Any]:
    """Return the settings that switch defects on and guards off: what is wrong is then for an invariant to see."""
    return {"defects": list(defects), "guards": False}


def foreign_to(strategy: str, defects: Sequence[str]) -> list[str]:
    """Return the defects that a strategy has no code for."""
    return [name for name in defects if STRATEGY_OF.get(name, strategy) != strategy]


def run_file(file: File, kinds: KindRegistry, settings: Mapping[str, Any] | None = None, *, later_seed: int = 0) -> Run:
    """Run a scenario file as far as it goes, under its own seed or one so much later.

    Raises:
        InputError: If it is no training job.
    """
    loaded = file.load(with_settings(settings) if settings else None)
    scenario = msgspec.structs.replace(loaded.scenario, seed=(loaded.scenario.seed + later_seed) % _SEEDS)
    facts = job_of(file, scenario)
    header = _header(file)
    played = attempt(scenario, kinds)
    digest, abort = ended(played)
    verdicts = played.verdicts()
    found = seen(scenario, played.ordered.events)
    return Run(
        file=loaded.scenario_path,
        name=file.name,
        reproduces="" if header is None else header.reproduces,
        expected="" if header is None else header.expected,
        strategy=facts.config["strategy"],
        model=facts.config["model"],
        workers=len(facts.workers),
        seed=scenario.seed,
        defects=defects_of(scenario),
        digest=digest,
        verdicts=tuple(map(_judged, verdicts)),
        steps=found.steps,
        marks=found.marks,
        windows=found.windows,
        counters=found.counters | _accounted(verdicts),
        last_weights=found.last_weights,
        broken=first_break(verdicts, played.ordered.events),
        aborted=abort,
    )


def job_of(file: File, scenario: Scenario) -> TrainingFacts:
    """Return what a scenario's training job is.

    Raises:
        InputError: If it is none.
    """
    facts = from_scenario(scenario).training
    if facts is None or not facts.checked:
        raise InputError(file=file.shown, field="peers", rule="is no training job of a model with a reference")
    return facts


def _header(file: File) -> Header | None:
    """Return the lines that a shipped file opens with. Others need none (docs/scenario.md)."""
    try:
        return header_of(file.text, file=file.shown)
    except InputError:
        return None


_ORPHANS: Final = re.compile(r", (\d+) orphans in ")


def _accounted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return how many orphans the accounting of samples found, which its own words tell."""
    for verdict in verdicts:
        if verdict.kind == "train_sample_accounting" and (found := _ORPHANS.search(verdict.note or "")):
            return {"orphan": int(found[1])} if int(found[1]) else {}
    return {}


def _judged(verdict: Verdict) -> Judged:
    evidence = decisive(verdict)
    return Judged(
        kind=verdict.kind,
        outcome=verdict.outcome,
        note=verdict.note or "",
        at_ns=None if evidence is None else evidence.virtual_time_ns,
        reference=None if evidence is None else evidence.event_or_snapshot_ref,
    )


def pair_names(files: Mapping[str, File]) -> list[tuple[str, str, str]]:
    """Return (name, ring file, server file) of each schedule, given the files by their bare names.

    A server file without a twin of its own name is set beside the ring of the file that it extends.

    Raises:
        InputError: If a file has no counterpart.
    """
    pairs = []
    for name, file in files.items():
        if not name.endswith(SERVER):
            if name + SERVER not in files:
                raise InputError(file=file.shown, field="(name)", rule=f"{name}{SERVER}.toml, its twin, is missing")
            continue
        ring = _ring_of(name, file, files)
        pairs.append((name.removesuffix(SERVER), ring, name))
    return pairs


def _ring_of(name: str, file: File, files: Mapping[str, File]) -> str:
    own = name.removesuffix(SERVER)
    if own in files:
        return own
    header = _header(file)
    if header is None:
        raise InputError(file=file.shown, field="(name)", rule=f"{own}.toml, its twin, is missing")
    base = PurePosixPath(header.extends).stem.removesuffix(SERVER)
    if base not in files:
        raise InputError(file=file.shown, field="# extends", rule=f"{base}.toml is no scenario at hand")
    return base


def run_pairs(files: Mapping[str, File], kinds: KindRegistry, *, told: Callable[[str], object]) -> tuple[Pair, ...]:
    """Run every schedule under both strategies, each file once. `told` is called with the name of what runs next."""
    done: dict[str, Run] = {}
    pairs = []
    for name, *both in sorted(pair_names(files)):
        for each in both:
            if each not in done:
                told(each)
                done[each] = run_file(files[each], kinds)
        ring, ps = both
        pairs.append(Pair(name=name, ring=done[ring], ps=done[ps]))
    return tuple(pairs)


def invisible(file: File, model: str, kinds: KindRegistry, *, others: int) -> Invisible:
    """Run a schedule with a model, again with the mean of the workers' means, unweighted, and clean under so many other seeds."""
    settings = {"model": model, "hidden": 4}
    clean = run_file(file, kinds, settings)
    wrong = run_file(file, kinds, {**settings, **defective(_WEIGHTING)})
    found = [run_file(file, kinds, settings, later_seed=number) for number in range(1, others + 1)]
    difference, at_step = _apart(clean, wrong)
    return Invisible(
        model=model,
        clean=clean,
        wrong=wrong,
        largest_difference=difference,
        at_step=at_step,
        others=tuple([Curve(seed=run.seed, losses=tuple([step.loss for step in run.steps])) for run in found]),
        largest_noise=max([_apart(clean, run)[0] for run in found], default=0.0),
    )


def _apart(clean: Run, other: Run) -> tuple[float, int]:
    """Return the largest difference of two losses at one step, relative to the clean one, and the step."""
    return max(
        [
            (abs(one.loss - two.loss) / one.loss, one.step)
            for one, two in zip(clean.steps, other.steps, strict=False)
            if one.loss
        ],
        default=(0.0, 0),
    )
