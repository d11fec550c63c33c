"""The loss that a curve shows: the mean over all samples, from recorded weights. In floats: nothing is decided on it.

A loss beyond the range of float64, of a job that diverged, is shown as the largest number there is: JSON has none beyond.
"""

from math import isfinite
from sys import float_info
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simharness.assertions.training_oracle.problem import FEATURE_BITS, TARGET_BITS, Problem

_HALF: Final = 0.5


class Losses:
    """The loss of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._x = np.array(problem.rows, dtype=np.float64) / float(1 << FEATURE_BITS)
        self._y = np.array(problem.targets, dtype=np.float64) / float(1 << TARGET_BITS)

    def at(self, weights: bytes) -> float:
        """Return the loss at parameters in their recorded form."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self._loss(np.frombuffer(weights, "<f8"))
        return loss if isfinite(loss) else float_info.max

    def _loss(self, w: NDArray[np.float64]) -> float:
        out = self._layered(w) if self._problem.model == "mlp" else self._straight(w)
        if self._problem.model == "sqhinge":
            return float(np.mean(_HALF * np.maximum(0.0, 1.0 - self._y * out) ** 2))
        return float(np.mean(_HALF * (out - self._y) ** 2))

    def _straight(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        d = self._problem.features
        out: NDArray[np.float64] = (self._x * w[:d]).sum(axis=1) + w[d]
        return out

    def _layered(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        d, h = self._problem.features, self._problem.hidden
        z = (self._x[:, None, :] * w[: d * h].reshape(h, d)).sum(axis=2) + w[d * h : d * h + h]
        s = z / (1.0 + np.abs(z))
        out: NDArray[np.float64] = (s * w[d * h + h : d * h + 2 * h]).sum(axis=1) + w[d * h + 2 * h]
        return out
