"""The models that are linear in a sample: least squares, and the squared hinge for labels of one either way.

Least squares goes by the Gram form, (X^T X) w - X^T y over integers, where production computes residuals: another association,
another number system, another order. The squared hinge has no such form and goes sample by sample.

    A_j = sum over i of |x_ij| (sum over l of |x_il| |w_l| + |y_i|)

bounds every intermediate value of coordinate j, and the mean is reached from the samples in at most d + n + N + 5 roundings: d + 2
for the residual, one for the product with x_ij, n - 1 for the sums of rows, N - 1 over ring or server, one for the division, and
room to spare. The hinge's max(0, .) moves no two values further apart, so the same bound holds with 1 for |y|.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from simharness.assertions.training_oracle.problem import FEATURE_BITS, TARGET_BITS, Problem
from simharness.assertions.training_oracle.sums import Sums

_ONE: Final = 1 << FEATURE_BITS
_TARGET_SHIFT: Final = TARGET_BITS - FEATURE_BITS


class LinearGradients:
    """Of 1/2 (x w + b - y)**2."""

    least_bits = _TARGET_SHIFT

    def __init__(self, problem: Problem) -> None:
        self.operations = problem.features + 5
        self._problem = problem
        self._size = problem.features + 1
        self._products: dict[int, tuple[int, ...]] = {}

    def sums(self, parameters: Sequence[int], bits: int, batch: Sequence[int]) -> Sums:
        """Multiply the batch's Gram matrix with the parameters, and the matrix of absolute values with theirs."""
        size = self._size
        rows = [self._products.get(sample) or self._multiply(sample) for sample in batch]
        totals = [sum(column) for column in zip(*rows, strict=True)] or [0] * (2 * size * (size + 1))
        width = size + 1
        factors, weights = [*parameters, -1 << bits - _TARGET_SHIFT], [*map(abs, parameters), 1 << bits - _TARGET_SHIFT]
        half = size * width
        return Sums(
            [
                sum([a * b for a, b in zip(totals[at : at + width], factors, strict=True)])
                for at in range(0, half, width)
            ],
            [
                sum([a * b for a, b in zip(totals[at : at + width], weights, strict=True)])
                for at in range(half, 2 * half, width)
            ],
            [0] * size,
        )

    def _multiply(self, sample: int) -> tuple[int, ...]:
        """Return [x, 1] times [x, 1, y] row by row, then the same of absolute values."""
        left = (*self._problem.rows[sample], _ONE)
        right = (*left, self._problem.targets[sample])
        signed = [a * b for a in left for b in right]
        products = self._products[sample] = tuple(chain(signed, map(abs, signed)))
        return products


class HingeGradients:
    """Of 1/2 max(0, 1 - y (x w + b))**2."""

    least_bits = _TARGET_SHIFT

    def __init__(self, problem: Problem) -> None:
        self.operations = problem.features + 5
        self._problem = problem

    def sums(self, parameters: Sequence[int], bits: int, batch: Sequence[int]) -> Sums:
        """Add up sample by sample."""
        size = len(parameters)
        gradient, magnitude = [0] * size, [0] * size
        one = 1 << bits + FEATURE_BITS
        weights = [*map(abs, parameters)]
        for sample in batch:
            row = (*self._problem.rows[sample], _ONE)
            label = 1 if self._problem.targets[sample] > 0 else -1
            margin = one - label * sum([a * b for a, b in zip(row, parameters, strict=True)])
            reach = one + sum([abs(a) * b for a, b in zip(row, weights, strict=True)])
            for at, feature in enumerate(row):
                magnitude[at] += abs(feature) * reach
                if margin > 0:
                    gradient[at] -= label * margin * feature
        return Sums(gradient, magnitude, [0] * size)
