"""Verdicts: against figures by the declared rule, against sets of runs by the spread of their repeats."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.calibration.compare import LEAST_JUDGED, Comparison, against_figures, against_runs
from simharness.calibration.corpus import Figure, Reference, SetTolerance, Tolerance
from simharness.calibration.distances import distribution
from simharness.calibration.metrics import Metrics


def metrics(
    numbers: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    counts: dict[str, dict[str, int]] | None = None,
    samples: dict[str, list[float]] | None = None,
) -> Metrics:
    spread = {name: distribution(values) for name, values in (samples or {}).items()}
    return Metrics(numbers=numbers or {}, distributions=spread, counts=counts or {}, labels=labels or {}, paths={})


def judged(ours: Any, theirs: Any, rule: str, bound: float, *, role: str = "output", of: str = "") -> str:
    """The verdict of one metric `m`."""
    found = metrics(labels={"m": ours}) if isinstance(ours, str) else metrics({} if ours is None else {"m": ours})
    figure = Figure(value=theirs, role=role, grade="E", sources=("DR",), why="" if theirs is not None else "unknown")
    rows = {"m": Tolerance(rule=rule, bound=bound, reason="r", of=of)}
    run = Reference(run_id="r", date="d", engine_variant="deployed", figures={"m": figure})
    return against_figures("x", found, run, rows).rows[0].verdict


@pytest.mark.parametrize(
    ("ours", "theirs", "rule", "bound", "expected"),
    [
        (50, 100, "ratio", 2, "pass"),
        (49, 100, "ratio", 2, "fail"),
        (200, 100, "ratio", 2, "pass"),
        (201, 100, "ratio", 2, "fail"),
        (0, 100, "ratio", 2, "fail"),
        (0.5, 0.6, "abs", 0.11, "pass"),
        (0.5, 0.6, "abs", 0.09, "fail"),
        (2, 9, "min", 2, "pass"),
        (1.9, 9, "min", 2, "fail"),
        (2, 9, "max", 2, "pass"),
        (2.1, 9, "max", 2, "fail"),
        (0, 0, "equals", 1, "pass"),
        (1, 0, "equals", 1, "fail"),
        ("a", "a", "equals", 1, "pass"),
        ("a", "b", "equals", 1, "fail"),
        (None, 5, "ratio", 2, "fail"),
        (None, "a", "equals", 1, "fail"),
        (7, 5, "report", 1, "report only"),
        (7, None, "ratio", 2, "no figure"),
    ],
)
def test_each_rule_at_its_bounds(ours: Any, theirs: Any, rule: str, bound: float, expected: str) -> None:
    """Bounds belong to the tolerance; what ours lacks fails; a null neither passes nor fails."""
    assert judged(ours, theirs, rule, bound) == expected


def test_an_input_is_never_judged() -> None:
    """However far it is."""
    assert judged(1000, 1, "ratio", 2, role="input") == "input"


def test_another_metric_may_stand_for_the_figure() -> None:
    """`of` names what is judged instead."""
    assert judged(1, 5, "ratio", 2, of="other") == "fail"


def rows_of(*verdicts: bool) -> Comparison:
    """A comparison with one metric for each verdict."""
    names = [f"m{index}" for index in range(len(verdicts))]
    figures = {name: Figure(value=1, role="output", grade="E", sources=("DR",)) for name in names}
    rows = {name: Tolerance(rule="equals", bound=1, reason="r") for name in names}
    ours = metrics({name: 1.0 if ok else 2.0 for name, ok in zip(names, verdicts, strict=True)})
    run = Reference(run_id="r", date="d", engine_variant="deployed", figures=figures)
    return against_figures("x", ours, run, rows, {"m0": "figure: it is wrong"})


def test_the_verdict_of_a_pair() -> None:
    """Ruling R19: one failure fails it; fewer than four judged metrics are inconclusive, never a pass."""
    assert rows_of(*[True] * LEAST_JUDGED).verdict == "pass"
    assert rows_of(*[True] * (LEAST_JUDGED - 1)).verdict == "inconclusive"
    assert rows_of(*[True] * LEAST_JUDGED, False).verdict == "fail"
    assert rows_of().verdict == "inconclusive"


def test_causes_stand_beside_failures_only() -> None:
    """A stated cause excuses nothing, and is not shown where nothing fails."""
    assert [row.cause for row in rows_of(False, True).rows] == ["figure: it is wrong", ""]
    assert [row.cause for row in rows_of(True, False).rows] == ["", ""]


def test_what_was_fitted_is_counted_apart() -> None:
    """A pass that a parameter was chosen for is marked and told in the coverage line; the verdicts are the same."""
    figures = {name: Figure(value=1.0, role="output", grade="E", sources=("DR",)) for name in ("m0", "m1", "m2", "m3")}
    run = Reference(run_id="r", date="d", engine_variant="deployed", figures=figures)
    rows = {name: Tolerance(rule="ratio", bound=2, reason="r") for name in figures}
    ours = metrics({"m0": 1.0, "m1": 1.0, "m2": 9.0, "m3": 1.0})
    found = against_figures("x", ours, run, rows, fitted={"m0": "the tick", "m1": "the tick", "m2": "the tick"})
    assert [row.fitted for row in found.rows] == ["the tick", "the tick", "the tick", ""]
    assert [row.verdict for row in found.rows] == [row.verdict for row in against_figures("x", ours, run, rows).rows]
    assert found.coverage.startswith("3 of 4 judged in tolerance, of which 2 follow from one fitted parameter; ")
    two = against_figures("x", ours, run, rows, fitted={"m0": "the tick", "m1": "the rate"})
    assert "of which 2 follow from 2 fitted parameters; " in two.coverage


def test_a_figure_that_is_not_compared_says_so() -> None:
    """Where another metric is judged by a bound of its own, ours names it and theirs says that it is not compared."""
    figure = Figure(value=1, unit="peers", role="output", grade="E", sources=("DR",))
    run = Reference(run_id="r", date="d", engine_variant="deployed", figures={"dead": figure})
    rows = {"dead": Tolerance(rule="min", bound=0.01, reason="r", of="share")}
    (row,) = against_figures("x", metrics({"share": 0.04}), run, rows).rows
    assert (row.ours, row.theirs, row.allowed) == ("0.04 (share)", "1 peers (not compared)", "at least 0.01")


SETS = SetTolerance(spread=2, ratio=1.25, total_variation=0.1, reason="r")
ONE = metrics(
    {"swim.transitions": 100},
    {"swim.first_dead.reason": "suspicion-timeout"},
    {"swim.transition_reasons": {"gossip": 60, "probe-timeout": 40}},
    {"message.size.Ping": [10, 20, 30]},
)


def test_a_set_is_like_itself() -> None:
    """Every kind of metric is compared, at distance nothing."""
    found = against_runs("x", [ONE], [ONE, ONE], SETS, reference="live")
    assert [row.verdict for row in found.rows] == ["pass"] * 4
    assert found.verdict == "pass"


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ((100, 100), 125, "pass"),
        ((100, 100), 126, "fail"),
        ((80, 100, 125), 156, "pass"),
        ((80, 100, 125), 157, "fail"),
        ((80, 100, 125), 64, "pass"),
        ((80, 100, 125), 63, "fail"),
        ((0, 0), 0, "pass"),
        ((0, 0), 1, "fail"),
    ],
)
def test_numbers_of_sets(theirs: tuple[float, ...], ours: float, expected: str) -> None:
    """Allowed is the largest ratio of a repeat to the median, squared, but at least the floor."""
    reference = [metrics({"swim.transitions": value}) for value in theirs]
    [row] = against_runs("x", [metrics({"swim.transitions": ours})], reference, SETS, reference="live").rows
    assert row.verdict == expected


@pytest.mark.parametrize(("gossip", "expected"), [(60, "pass"), (79, "pass"), (81, "fail")])
def test_categories_of_sets(gossip: int, expected: str) -> None:
    """Two repeats are 0.1 from their sum, so 0.2 is allowed."""
    reference = [metrics(counts={"worker.exit_reasons": {"a": n, "b": 100 - n}}) for n in (50, 70)]
    ours = metrics(counts={"worker.exit_reasons": {"a": gossip, "b": 100 - gossip}})
    assert against_runs("x", [ours], reference, SETS, reference="live").rows[0].verdict == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.2, "pass"), (1.3, "fail")])
def test_distributions_of_sets(factor: float, expected: str) -> None:
    """Repeats that agree leave the floor."""
    reference = [metrics(samples={"dial.duration_ms": [1.0, 2.0, 3.0]}) for _ in range(2)]
    ours = metrics(samples={"dial.duration_ms": [factor * value for value in (1.0, 2.0, 3.0)]})
    assert against_runs("x", [ours], reference, SETS, reference="live").rows[0].verdict == expected


def test_labels_of_sets() -> None:
    """What most of ours show must have been seen in the reference."""
    reference = [metrics(labels={"swim.first_dead.reason": reason}) for reason in ("gossip", "suspicion-timeout")]
    for reason, expected in (("gossip", "pass"), ("other", "fail")):
        ours = [metrics(labels={"swim.first_dead.reason": reason})] * 2
        assert against_runs("x", ours, reference, SETS, reference="live").rows[0].verdict == expected


def test_what_one_side_lacks_is_no_figure() -> None:
    """Neither pass nor fail, whichever side it is, for every kind of metric."""
    for ours, theirs in ((ONE, metrics()), (metrics(), ONE)):
        rows = against_runs("x", [ours], [theirs], SETS, reference="live").rows
        assert {row.verdict for row in rows} == {"no figure"}
        assert len(rows) == 4


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=6), st.integers(0, 5))
def test_a_repeat_of_the_reference_always_passes(values: list[int], pick: int) -> None:
    """No reference rejects one of its own repeats."""
    reference = [metrics({"dial.started": float(value)}) for value in values]
    found = against_runs("x", [reference[pick % len(values)]], reference, SETS, reference="live")
    assert found.rows[0].verdict == "pass"
