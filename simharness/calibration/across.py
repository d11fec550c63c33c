"""Relations between runs: what one captured run has to another, against what our runs of both have (§11.2).

They say more than single counts, since an error that all runs share cancels. `corpus/cross_run.json` holds them as figures whose
names say how they are made: `ratio METRIC RUN RUN` (the first run's over the second's), `order METRIC RUN...` (the runs by rising
value), `spread METRIC RUN...` (the largest value over the least).
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NoReturn

import msgspec

from simharness.calibration.compare import Comparison, against_figures, value_of
from simharness.calibration.corpus import Reference, Tolerances, tolerances_for
from simharness.calibration.metrics import Metrics, family_of
from simharness.core.errors import InputError

RELATIONS: Final = "cross_run.json"
NAME: Final = "across runs"
_LEAST_RUNS: Final = 2
_FORMS: Final = ("ratio", "order", "spread")


def across(reference: Reference, runs: Mapping[str, Metrics], tolerances: Tolerances) -> Comparison | None:
    """Compare every relation whose runs are all there; None if there is none.

    Args:
        reference: All relations.
        runs: Our runs by the name of the captured run that each stands for.
        tolerances: The tolerance file.

    Raises:
        InputError: If the name of a figure is of no such form, or a figure has no tolerance.
    """
    rows, causes = tolerances_for(reference, tolerances), tolerances.known.get(reference.run_id)
    kept = _between(reference, runs)
    if not kept.figures:
        return None
    found = against_figures(NAME, relations(kept, runs), kept, rows, causes)
    families = [msgspec.structs.replace(row, family=family_of(_parts(row.metric)[1])) for row in found.rows]
    return msgspec.structs.replace(found, rows=tuple(families))


def _between(reference: Reference, runs: Mapping[str, Metrics]) -> Reference:
    named = {figure: _parts(figure)[2] for figure in reference.figures}
    kept = {name: figure for name, figure in reference.figures.items() if set(named[name]) <= set(runs)}
    return msgspec.structs.replace(reference, figures=kept)


def relations(reference: Reference, runs: Mapping[str, Metrics]) -> Metrics:
    """Return the same relations between our runs: ratios and spreads as numbers, orders as labels.

    One of a value that a run does not have, or of a zero that would have to divide, is left out; as a figure it then fails.
    """
    numbers: dict[str, float] = {}
    labels: dict[str, str] = {}
    for name in reference.figures:
        form, metric, captured = _parts(name)
        values = {run: value_of(runs[run], metric) for run in captured}
        known = {run: float(value) for run, value in values.items() if isinstance(value, int | float)}
        if len(known) < len(captured):
            continue
        if form == "order":
            labels[name] = _order(known)
            continue
        most, least = [*known.values()] if form == "ratio" else (max(known.values()), min(known.values()))
        if least:
            numbers[name] = most / least
    return Metrics(numbers=numbers, distributions={}, counts={}, labels=labels, paths={})


def _order(values: Mapping[str, float]) -> str:
    """Return the runs by rising value; those of one value stand with an equals sign between them."""
    rising = sorted(values, key=lambda run: values[run])
    signs = [" = " if values[one] == values[other] else " < " for one, other in pairwise(rising)]
    return "".join(run + sign for run, sign in zip(rising, [*signs, ""], strict=True))


def _parts(name: str) -> tuple[str, str, tuple[str, ...]]:
    form, _, rest = name.partition(" ")
    metric, *captured = rest.split(" ")
    if form not in _FORMS or len(captured) < _LEAST_RUNS or (form == "ratio" and len(captured) > _LEAST_RUNS):
        _refuse(name)
    return form, metric, tuple(captured)


def _refuse(name: str) -> NoReturn:
    rule = "must be named `ratio METRIC RUN RUN`, `order METRIC RUN...` or `spread METRIC RUN...`"
    raise InputError(file=RELATIONS, field=f"figures.{name}", rule=rule)
