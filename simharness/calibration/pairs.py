"""A scenario and the captured run it stands for (§11.1): run the one, compare it with what is published about the other (§11.2)."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from simharness.bundle.production.simulated import Simulated
from simharness.bundle.reader import Bundle
from simharness.calibration.compare import Comparison, Verdict, against_figures
from simharness.calibration.corpus import Reference, Tolerances, tolerances_for
from simharness.calibration.delays import DelayParts
from simharness.calibration.metrics import Metrics, extract
from simharness.contracts.host import KindRegistry
from simharness.core.errors import InputError
from simharness.engine.engine import Engine
from simharness.run import Drive, defects_of, run_to_bundle
from simharness.scenario.loader import Loaded
from simharness.systems.swim.config import PROFILES

if TYPE_CHECKING:
    from pathlib import Path

_PAIRED: Final = re.compile(r"^# pairs with: (\S+)$", re.MULTILINE)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A pair that was run."""

    name: str
    seed: int
    defects: tuple[str, ...]
    comparison: Comparison
    metrics: Metrics


def paired_run(text: str) -> str | None:
    """Return the captured run that a scenario file names in its opening comment (`# pairs with: ...`), or None."""
    found = _PAIRED.search(text.partition("\n\n")[0])
    return None if found is None else found[1]


def calibrate(
    loaded: Loaded,
    reference: Reference,
    tolerances: Tolerances,
    out: "Path",
    kinds: KindRegistry,
    *,
    name: str,
    drive: Drive = Engine.finish,
) -> Outcome:
    """Run a scenario, write its bundle at `out`, and compare it with published figures.

    Raises:
        InputError: If a figure has no tolerance, or the scenario's defects are not those of the profile that the reference names
            (ruling K1).
        EngineAbort: If the run cannot go on.
    """
    defects = _checked_defects(loaded, reference)
    rows, causes = tolerances_for(reference, tolerances), tolerances.known.get(reference.run_id)
    fitted = tolerances.fitted.get(reference.run_id)
    parts = DelayParts()
    done = run_to_bundle(loaded, out, kinds, drive=drive, observer=parts)
    metrics = extract(Simulated(Bundle(done.bundle)), parts.parts)
    return Outcome(
        name=name,
        seed=loaded.scenario.seed,
        defects=defects,
        comparison=against_figures(name, metrics, reference, rows, causes, fitted),
        metrics=metrics,
    )


def _checked_defects(loaded: Loaded, reference: Reference) -> tuple[str, ...]:
    profile = PROFILES.get(reference.engine_variant)
    if profile is None:
        rule = f"{reference.engine_variant!r} is no profile; choose from {', '.join(PROFILES)}"
        raise InputError(file=reference.run_id, field="engine_variant", rule=rule)
    defects = defects_of(loaded.scenario)
    if defects != tuple(sorted(profile.defects)):
        rule = (
            f"{reference.run_id} ran the profile {reference.engine_variant}; this scenario switches on "
            f"{', '.join(defects) or 'no defect'}, which is another"
        )
        raise InputError(file=loaded.scenario_path, field="kind_config.profile", rule=rule)
    return defects


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of several pairs: fail before inconclusive before pass."""
    return next((verdict for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE) if verdict in verdicts), Verdict.PASS)
