"""Exact gradient sums over a batch, with a bound on what float64 may make of them (training design, 12.5).

Parameters come as integers over 2**B, sums are integers over 2**(B + 20). Every bound is rounded away from zero, so that whatever
the bound allows, the integer bound allows.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from simharness.assertions.training_oracle.problem import FEATURE_BITS

FINER: Final = 2 * FEATURE_BITS
"""A sum has so many more fractional bits than the parameters."""
ROUNDING_BITS: Final = 53
"""The unit round-off u of float64 is 2**-53."""


class Sums(NamedTuple):
    """Sums over a batch, one entry a trained parameter."""

    gradient: list[int]
    magnitude: list[int]
    """What the relative errors of summing are relative to: the sum of absolute values, errors of the summands included."""
    error: list[int]
    """How far the summands may be off before they are summed."""


class Gradients(Protocol):
    """A model's gradient."""

    least_bits: int
    """The fewest fractional bits that the parameters may come with."""
    operations: int
    """What a model adds to n + N in the number of roundings on the way from sample to mean."""

    def sums(self, parameters: Sequence[int], bits: int, batch: Sequence[int]) -> Sums:
        """Sum over a batch."""


def gamma(operations: int, magnitude: int) -> int:
    """Return an upper bound of gamma_k x magnitude, gamma_k = k u / (1 - k u), for k roundings in a row."""
    return -(-operations * magnitude // ((1 << ROUNDING_BITS) - operations))
