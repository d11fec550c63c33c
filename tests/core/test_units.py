"""Units: transmission time is exact integer arithmetic (§5.4 step 4, §7.4)."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.core.units import transmission_ns


@pytest.mark.parametrize(
    ("byte_len", "bandwidth_bps", "expected"),
    [(24, 10**9, 24), (24, 10**8, 240), (0, 1, 0), (1, 3, 333_333_333), (9_800, 1_250_000, 7_840_000), (1, 10**10, 0)],
)
def test_worked_values(byte_len: int, bandwidth_bps: int, expected: int) -> None:
    """Bytes times 10**9 over bytes a second, rounded down; the first two are those of the parity scenario."""
    assert transmission_ns(byte_len, bandwidth_bps) == expected


@given(byte_len=st.integers(0, 2**40), bandwidth_bps=st.integers(1, 2**64 - 1))
def test_rounded_down_from_the_exact_quotient(byte_len: int, bandwidth_bps: int) -> None:
    """Exact at every size: no float in between."""
    assert transmission_ns(byte_len, bandwidth_bps) == floor(Fraction(byte_len * 10**9, bandwidth_bps))


def test_no_bandwidth_is_no_link() -> None:
    """The loader refuses it; here it divides by zero."""
    with pytest.raises(ZeroDivisionError):
        transmission_ns(1, 0)
