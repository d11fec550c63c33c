"""Each benchmark runs at its smallest size; nothing is said here about time."""

import pytest

from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.measuring import Scale


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs(name: str) -> None:
    """It measures something, and says what. The comparison with SimPy needs the extra `bench`."""
    if name == "engine":
        pytest.importorskip("simpy")
    rows = BENCHMARKS[name](Scale(tiny=True))
    assert rows
    assert all(row.what and row.measured for row in rows)
