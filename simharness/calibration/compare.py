"""Metric by metric: a run against published figures (§11.2), or a set of runs against another set."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from simharness.calibration.corpus import Figure, Reference, SetTolerance, Tolerance
from simharness.calibration.distances import PERCENTILES, Distribution, median, quantile_ratio, ratio, total_variation
from simharness.calibration.metrics import FAMILIES, Metrics, family_of


class Verdict(StrEnum):
    """What becomes of one metric, or of a whole pair."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NO_FIGURE = "no figure"
    INPUT = "input"
    REPORT_ONLY = "report only"


JUDGED: Final = (Verdict.PASS, Verdict.FAIL)
LEAST_JUDGED: Final = 4
"""A pair of which less is judged passes nothing: it is inconclusive."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. `ours` and `theirs` are as shown; `allowed` says what would pass."""

    metric: str
    family: str
    ours: str
    theirs: str
    allowed: str
    verdict: Verdict
    note: str
    """Why it is judged so: the tolerance's reason, or why there is no figure, or where an input comes from."""
    cause: str = ""
    """Why it fails, as far as somebody has found out: in the simulator, the scenario or the figure."""
    fitted: str = ""
    """Which parameter was chosen by this figure, so that a pass says nothing of its own."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All metrics of one pair, in the order of the reference."""

    name: str
    reference: str
    rows: tuple[Row, ...]

    @property
    def judged(self) -> int:
        """How many metrics pass or fail."""
        return sum(row.verdict in JUDGED for row in self.rows)

    @property
    def passed(self) -> int:
        """How many metrics pass."""
        return sum(row.verdict is Verdict.PASS for row in self.rows)

    @property
    def verdict(self) -> Verdict:
        """Fail if any metric fails; pass if all judged ones pass and they are enough to mean something."""
        if self.passed < self.judged:
            return Verdict.FAIL
        return Verdict.PASS if self.judged >= LEAST_JUDGED else Verdict.INCONCLUSIVE

    @property
    def coverage(self) -> str:
        """One line: how much of what §11.3 asks for could be compared at all."""
        told = {row.family: None for row in self.rows if row.verdict in JUDGED}
        families = dict.fromkeys(family for _, family in FAMILIES)
        others = (Verdict.NO_FIGURE, Verdict.INPUT, Verdict.REPORT_ONLY)
        counts = {name.value: sum(row.verdict is name for row in self.rows) for name in others}
        left = ", ".join(f"{count} {name}" for name, count in counts.items())
        rest = f"{left}; {len(told)} of {len(families)} families judged"
        return f"{self.passed} of {self.judged} judged in tolerance{self._fitted}; {rest}"

    @property
    def _fitted(self) -> str:
        """Say how many of the passes are owed to a choice."""
        owed = [row.fitted for row in self.rows if row.fitted and row.verdict is Verdict.PASS]
        number = len(dict.fromkeys(owed))
        parameters = "one fitted parameter" if number == 1 else f"{number} fitted parameters"
        return f", of which {len(owed)} follow from {parameters}" if owed else ""


def against_figures(
    name: str,
    ours: Metrics,
    reference: Reference,
    tolerances: Mapping[str, Tolerance],
    causes: Mapping[str, str] | None = None,
    fitted: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare one run with published figures. Inputs are shown and never judged; a null is no figure.

    `causes` says why a metric fails, `fitted` by which figures a parameter was chosen.
    """
    rows = [_row(metric, ours, figure, tolerances.get(metric)) for metric, figure in reference.figures.items()]
    known, chosen = causes or {}, fitted or {}
    rows = [
        msgspec.structs.replace(
            row,
            cause=known.get(row.metric, "") if row.verdict is Verdict.FAIL else "",
            fitted=chosen.get(row.metric, "") if row.verdict in JUDGED else "",
        )
        for row in rows
    ]
    return Comparison(name=name, reference=reference.run_id, rows=tuple(rows))


def _row(metric: str, ours: Metrics, figure: Figure, tolerance: Tolerance | None) -> Row:
    judged = metric if tolerance is None or not tolerance.of else tolerance.of
    value = value_of(ours, judged)
    shown = "-" if value is None else (f"{_text(value)} ({judged})" if judged != metric else _text(value))
    mark = {"gt": "> ", "lt": "< "}.get(figure.censored, "")
    theirs = "-" if figure.value is None else mark + _text(figure.value)
    allowed, note = "", figure.why
    if figure.role == "input":
        verdict, note = Verdict.INPUT, figure.why or figure.scope
    elif figure.value is None:
        verdict = Verdict.NO_FIGURE
    else:
        assert tolerance is not None, "every output with a value has one"
        note, allowed = tolerance.reason, _allowed(tolerance, figure.value)
        theirs += f" {figure.unit} (not compared)" if tolerance.of else ""
        verdict = _verdict(tolerance, value, figure.value)
    return Row(
        metric=metric, family=family_of(metric), ours=shown, theirs=theirs, allowed=allowed, verdict=verdict, note=note
    )


def value_of(metrics: Metrics, metric: str) -> float | str | None:
    """Return a number or label by its name; None if the run has no such thing."""
    return metrics.numbers.get(metric, metrics.labels.get(metric))


def _verdict(tolerance: Tolerance, ours: float | str | None, theirs: Any) -> Verdict:
    if tolerance.rule == "report":
        return Verdict.REPORT_ONLY
    return Verdict.PASS if _holds(tolerance, ours, theirs) else Verdict.FAIL


def _holds(tolerance: Tolerance, ours: float | str | None, theirs: Any) -> bool:
    """Judge. What the run does not have fails: the figure says that it exists."""
    if ours is None:
        return False
    match tolerance.rule:
        case "equals":
            return bool(ours == theirs)
        case "ratio":
            return ratio(float(ours), float(theirs)) <= tolerance.bound
        case "abs":
            return abs(float(ours) - float(theirs)) <= tolerance.bound
        case "min":
            return float(ours) >= tolerance.bound
        case _:
            return float(ours) <= tolerance.bound


def _allowed(tolerance: Tolerance, theirs: Any) -> str:
    bound = tolerance.bound
    match tolerance.rule:
        case "ratio":
            return f"{_text(theirs / bound)} to {_text(theirs * bound)}"
        case "abs":
            return f"{_text(theirs - bound)} to {_text(theirs + bound)}"
        case "min":
            return f"at least {_text(bound)}"
        case "max":
            return f"at most {_text(bound)}"
        case "equals":
            return "equal"
        case _:
            return ""


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " to ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"  # noqa: PLR2004  # four digits either way
    return "-" if value is None else str(value)


# --- sets of runs ---------------------------------------------------------------------------------------------------------


def against_runs(
    name: str, ours: Sequence[Metrics], theirs: Sequence[Metrics], tolerance: SetTolerance, *, reference: str
) -> Comparison:
    """Compare two sets of runs, such as simulations of several seeds with live repeats, by every metric that either side has.

    numbers: the medians, as a ratio; allowed is the ratio of the reference's most distant repeat to its median, to the power
        `spread`, but at least `ratio`.
    distributions: `quantile_ratio` of the medians of each percentile; allowed likewise, from the repeats' own `quantile_ratio`.
    counts: `total_variation` between the sums; allowed is `spread` times the largest distance of a repeat from the sum of all, but
        at least `total_variation`.
    labels: the category that most repeats of ours show must be among those that repeats of the reference show.
    A metric that only one side has is "no figure".
    """
    rows = [_number_row(key, ours, theirs, tolerance) for key in _keys("numbers", ours, theirs)]
    rows += [_distribution_row(key, ours, theirs, tolerance) for key in _keys("distributions", ours, theirs)]
    rows += [_counts_row(key, ours, theirs, tolerance) for key in _keys("counts", ours, theirs)]
    rows += [_label_row(key, ours, theirs) for key in _keys("labels", ours, theirs)]
    return Comparison(name=name, reference=reference, rows=tuple(rows))


def _keys(field: str, *sides: Sequence[Metrics]) -> list[str]:
    return sorted({key: None for side in sides for metrics in side for key in getattr(metrics, field)})


def _taken(field: str, key: str, side: Sequence[Metrics]) -> list[Any]:
    return [getattr(metrics, field)[key] for metrics in side if key in getattr(metrics, field)]


def _set_row(key: str, ours: str, theirs: str, distance: float | None, allowed: float, what: str) -> Row:
    passes = Verdict.PASS if distance is not None and distance <= allowed else Verdict.FAIL
    verdict = Verdict.NO_FIGURE if distance is None else passes
    note = "one side has no such metric" if distance is None else f"{what} {distance:.3g}"
    bound = "" if distance is None else f"{what} at most {allowed:.3g}"
    return Row(metric=key, family=family_of(key), ours=ours, theirs=theirs, allowed=bound, verdict=verdict, note=note)


def _number_row(key: str, ours: Sequence[Metrics], theirs: Sequence[Metrics], tolerance: SetTolerance) -> Row:
    mine, reference = _taken("numbers", key, ours), _taken("numbers", key, theirs)
    if not mine or not reference:
        return _set_row(key, _range(mine), _range(reference), None, 0, "")
    centre = median(reference)
    allowed = max(tolerance.ratio, max(ratio(value, centre) for value in reference) ** tolerance.spread)
    return _set_row(key, _range(mine), _range(reference), ratio(median(mine), centre), allowed, "ratio")


def _distribution_row(key: str, ours: Sequence[Metrics], theirs: Sequence[Metrics], tolerance: SetTolerance) -> Row:
    mine, reference = _taken("distributions", key, ours), _taken("distributions", key, theirs)
    if not mine or not reference:
        return _set_row(key, _spread(mine), _spread(reference), None, 0, "")
    a, b = _centre(mine), _centre(reference)
    allowed = max(tolerance.ratio, max(quantile_ratio(item, b) for item in reference) ** tolerance.spread)
    return _set_row(key, _spread(mine), _spread(reference), quantile_ratio(a, b), allowed, "quantile ratio")


def _counts_row(key: str, ours: Sequence[Metrics], theirs: Sequence[Metrics], tolerance: SetTolerance) -> Row:
    mine, reference = _taken("counts", key, ours), _taken("counts", key, theirs)
    a, b = _sum(mine), _sum(reference)
    if not a or not b:
        return _set_row(key, _text(a), _text(b), None, 0, "")
    own = max(total_variation(item, b) for item in reference)
    allowed = max(tolerance.total_variation, tolerance.spread * own)
    return _set_row(key, _text(a), _text(b), total_variation(a, b), allowed, "total variation")


def _label_row(key: str, ours: Sequence[Metrics], theirs: Sequence[Metrics]) -> Row:
    mine, reference = _taken("labels", key, ours), _taken("labels", key, theirs)
    if not mine or not reference:
        return _set_row(key, ", ".join(mine), ", ".join(reference), None, 0, "")
    common = max(sorted(mine), key=mine.count)
    distance = 0.0 if common in reference else 1.0
    return _set_row(key, ", ".join(mine), ", ".join(reference), distance, 0.0, "mismatch")


def _centre(side: Sequence[Distribution]) -> Distribution:
    """Return the medians of each percentile."""
    percentiles = tuple(median(column) for column in zip(*(item.percentiles for item in side), strict=True))
    return Distribution(sum(item.count for item in side), percentiles)


def _sum(side: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in side:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return total


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    low, high = min(values), max(values)
    return (
        _text(float(low))
        if low == high
        else f"{_text(float(median(values)))} ({_text(float(low))} to {_text(float(high))})"
    )


def _spread(side: Sequence[Distribution]) -> str:
    return "-" if not side else " / ".join(_text(float(_centre(side).at(percent))) for percent in PERCENTILES)
