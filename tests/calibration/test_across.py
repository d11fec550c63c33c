"""Relations between runs: how they are made, which of them are judged, and what the shipped runs come to (reference 6)."""

import re

import msgspec
import pytest

from simharness.calibration.across import RELATIONS, across, relations
from simharness.calibration.corpus import Figure, Reference, read_reference
from simharness.calibration.metrics import Metrics
from simharness.core.errors import InputError
from tests.calibration.shipped import PAIRS, PLACE, RUNS, outcome, reference, tolerances

PASSES = {
    "order dial.started vastai-N3-2 vastai-N3-1",
    "spread swim.transitions_per_message vastai-N3-1 vastai-N3-2 vastai-N3-stub",
}
"""What is in tolerance. Taking a relation out is a relaxation (§14)."""


def shipped() -> Reference:
    """The relations of the corpus."""
    return read_reference(PLACE.joinpath("corpus", RELATIONS).read_bytes(), RELATIONS)


def numbers(**values: float) -> Metrics:
    """A run that has these numbers alone."""
    return Metrics(numbers=values, distributions={}, counts={}, labels={}, paths={})


def named(*names: str) -> Reference:
    """Relations of these names."""
    figures = {name: Figure(value=1, role="output", grade="D") for name in names}
    return msgspec.structs.replace(shipped(), figures=figures)


def test_ratios_orders_and_spreads() -> None:
    """First over second; by rising value, equals where they are; largest over least."""
    runs = {"a": numbers(x=6, y=1), "b": numbers(x=2, y=1), "c": numbers(x=3, y=0.5)}
    found = relations(named("ratio x a b", "ratio x b a", "order x a b c", "order y a b c", "spread x a b c"), runs)
    assert found.numbers == {"ratio x a b": 3.0, "ratio x b a": 1 / 3, "spread x a b c": 3.0}
    assert found.labels == {"order x a b c": "b < c < a", "order y a b c": "c < a = b"}


def test_what_a_run_does_not_have_has_no_relation() -> None:
    """Nor has a zero that would divide; a zero that is divided has."""
    runs = {"a": numbers(x=6), "b": numbers(x=0)}
    found = relations(named("ratio x a b", "ratio x b a", "order z a b", "spread x a b"), runs)
    assert (found.numbers, found.labels) == ({"ratio x b a": 0.0}, {})


def test_only_relations_whose_runs_are_there_are_judged() -> None:
    """One pair has none; two have those between them; a value that is missing fails."""
    runs = {run: numbers(**{"dial.started": count}) for run, count in (("vastai-N3-1", 67), ("vastai-N3-2", 43))}
    assert across(shipped(), {"vastai-N3-1": runs["vastai-N3-1"]}, tolerances()) is None
    found = across(shipped(), runs, tolerances())
    assert found is not None
    assert {row.metric: (row.verdict.value, row.family) for row in found.rows} == {
        "order dial.started vastai-N3-2 vastai-N3-1": ("pass", "dials"),
        "order cache.miss vastai-N3-2 vastai-N3-1": ("fail", "connection cache"),
    }


@pytest.mark.parametrize("name", ["mean x a b", "ratio x a", "ratio x a b c", "order x a", "ratio"])
def test_a_name_of_no_form_is_refused(name: str) -> None:
    """File, figure and rule."""
    figures = dict(shipped().figures) | {name: Figure(value=1, role="input", grade="D")}
    with pytest.raises(InputError) as caught:
        across(msgspec.structs.replace(shipped(), figures=figures), {}, tolerances())
    problem = caught.value.problem
    assert (problem.file, problem.field) == (RELATIONS, f"figures.{name}")


def test_the_published_relations_follow_from_the_published_figures() -> None:
    """Each is that of the runs' own files, to the digits that it is written with."""
    runs = {run: numbers(**_values(reference(run))) for run in RUNS}
    found = relations(shipped(), runs)
    for name, figure in shipped().figures.items():
        if name in found.labels:
            assert found.labels[name] == figure.value
        else:
            assert found.numbers[name] == pytest.approx(figure.value, rel=2e-3), name


def _values(published: Reference) -> dict[str, float]:
    figures = published.figures.items()
    return {name: figure.value for name, figure in figures if isinstance(figure.value, int | float)}


def test_the_shipped_runs() -> None:
    """What was in tolerance still is; what fails has a cause."""
    done = {outcome(pair).comparison.reference: outcome(pair).metrics for pair in PAIRS}
    found = across(shipped(), done, tolerances())
    assert found is not None
    assert {row.metric for row in found.rows if row.verdict == "pass"} == PASSES
    assert {row.metric for row in found.rows if row.verdict == "fail"} == set(tolerances().known["cross_run"])
    assert all(re.match("simulator: ", row.cause) for row in found.rows if row.verdict == "fail")
