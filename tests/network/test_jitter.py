"""The jitter table (§5.2, §7.4)."""

import hashlib
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.network.jitter import TABLE, sample_ns
from simharness.network.model import LinkNetwork
from tests.network.build import MS, S, arrive, scenario


def test_table_is_the_normal_quantile() -> None:
    """Every entry is derived again: 1024 times the quantile of (i + 1/2) / 256, rounded."""
    derived = tuple(round(1024 * NormalDist().inv_cdf((place + 0.5) / 256)) for place in range(256))
    assert derived == TABLE


def test_table_is_the_published_one() -> None:
    """The digest of the table's decimals, joined by commas."""
    digest = hashlib.sha256(",".join(map(str, TABLE)).encode()).hexdigest()
    assert digest == "e632eb7dba38bf20afce80561e1cb49f64698987835174a6f2f2ec7284fb5a78"


@pytest.mark.spec("§5.7", "Jitter is symmetric and integer-valued")
@given(index=st.integers(0, 255), stddev=st.integers(0, 2**40))
def test_samples_mirror_each_other(index: int, stddev: int) -> None:
    """Entry i and entry 255 - i cancel exactly for every deviation, samples are integers, and none exceeds 2.886 deviations."""
    sample = sample_ns(index, stddev)
    assert type(sample) is int
    assert sample == -sample_ns(255 - index, stddev)
    assert abs(sample) * 1000 <= 2886 * stddev + 1000
    assert abs(1024 * sample - TABLE[index] * stddev) <= 512


@pytest.mark.parametrize(
    ("index", "stddev", "sample"), [(0, 1024, -2955), (255, 1000, 2886), (127, 1024, -5), (128, 103, 1)]
)
def test_sample_values(index: int, stddev: int, sample: int) -> None:
    """Computed values, the last one rounded up from 515 / 1024."""
    assert sample_ns(index, stddev) == sample


def test_arrivals_carry_the_streams_jitter() -> None:
    """The second of a send's three draws picks the entry: seed 1, leg a to b gives 73, then 69 (ruling N8)."""
    network = LinkNetwork(scenario(latency_ns=10 * MS, jitter_stddev_ns=1024))
    jitters = [arrive(network.send("a", "b", 0, at_ns)).delay.jitter for at_ns in (0, S)]
    assert jitters == [TABLE[73], TABLE[69]] == [-575, -623]
