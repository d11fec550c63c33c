"""Distances: laws of each, and a summary of a sample against its slow reading."""

import statistics
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.calibration.distances import distribution, median, quantile_ratio, ratio, total_variation

figures = st.floats(min_value=0, max_value=1e9, allow_subnormal=False)
positive = st.floats(min_value=1e-6, max_value=1e9)
samples = st.lists(figures, min_size=1, max_size=60)
counts = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 50))


@given(figures, figures)
def test_a_ratio_is_symmetric_and_1_for_equals(a: float, b: float) -> None:
    """Never below 1; infinite when one of them alone is nothing."""
    assert ratio(a, a) == 1
    assert ratio(a, b) == ratio(b, a) >= 1
    if min(a, b) == 0 or min(a, b) > 1e-200:
        assert (ratio(a, b) == inf) == ((a == 0) != (b == 0))


def test_ratios_that_mean_nothing() -> None:
    """Opposite signs are infinitely far apart, two negative figures are compared by size."""
    assert ratio(-1.0, 1.0) == inf
    assert ratio(-2.0, -1.0) == 2


@given(samples)
def test_percentiles_are_nearest_rank(values: list[float]) -> None:
    """Percentile p is the least value with at least p % of the sample at or below it; 0 and 100 are the extremes."""
    found, ordered = distribution(values), sorted(values)
    assert found.count == len(values)
    assert (found.at(0), found.at(100)) == (ordered[0], ordered[-1])
    for percent in (1, 25, 50, 90, 99):
        expected = next(x for x in ordered if sum(y <= x for y in values) * 100 >= percent * len(values))
        assert found.at(percent) == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=20))
def test_a_weight_is_a_repetition(pairs: list[tuple[int, int]]) -> None:
    """A value of weight n counts like n values."""
    weighted = distribution([float(value) for value, _ in pairs], [float(weight) for _, weight in pairs])
    repeated = distribution([float(value) for value, weight in pairs for _ in range(weight)])
    assert weighted.percentiles == repeated.percentiles


@given(st.lists(positive, min_size=1, max_size=40), st.floats(min_value=1, max_value=50))
def test_scaling_a_sample_is_its_quantile_ratio(values: list[float], factor: float) -> None:
    """A sample and the same one, every value times k, are k apart."""
    a, b = distribution(values), distribution([value * factor for value in values])
    assert quantile_ratio(a, a) == 1
    assert quantile_ratio(a, b) == quantile_ratio(b, a) == pytest.approx(factor)


@given(counts, counts, counts)
def test_total_variation_is_a_metric(a: dict[str, int], b: dict[str, int], c: dict[str, int]) -> None:
    """0 for equal shares, symmetric, at most 1, and no detour is shorter."""
    double = {name: 2 * count for name, count in a.items()}
    assert total_variation(a, double) == pytest.approx(0)
    assert total_variation(a, b) == pytest.approx(total_variation(b, a))
    assert total_variation(a, b) <= 1 + 1e-9
    assert total_variation(a, c) <= total_variation(a, b) + total_variation(b, c) + 1e-9


def test_total_variation_by_hand() -> None:
    """Nothing in common is 1; half in common is one half; nobody is like nobody."""
    assert total_variation({"a": 3}, {"b": 5}) == 1
    assert total_variation({"a": 1, "b": 1}, {"b": 4}) == 0.5
    assert total_variation({}, {}) == 0
    assert total_variation({}, {"a": 1}) == 1


@given(samples)
def test_the_median(values: list[float]) -> None:
    """That of the standard library, which no room may load."""
    assert median(values) == pytest.approx(statistics.median(values))
