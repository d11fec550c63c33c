"""All floating-point arithmetic of training. Outside this file a vector is bytes (little-endian float64): cargo, never a decision.

The order of evaluation is part of the definition (design, section 3), so that every machine gets the same bits: only + - * / and
abs, max on float64, element by element; a scalar product is a Python loop over columns; rows are added from the first to the last.
No function here sums in an order of its library's choice.

Parameters: `linear`, `sqhinge`: d weights, bias. `mlp`: h rows of d input weights, h input biases, h output weights, output bias.
Then, with `track_stats`, d running means of x and d of x*x.
"""

import operator
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simharness.systems.training.config import FEATURE_BITS, TARGET_BITS, TrainConfig
from simharness.systems.training.data import Data

Vector = NDArray[np.float64]

FLOAT: Final = np.dtype("<f8")
BYTES: Final = 8
"""Bytes of one number."""
_FEW: Final = 16 * BYTES

_QUIET: Final = np.errstate(all="ignore")
"""A training that diverges ends in infinities and in what is no number; that is for the invariants to say, not for a warning."""


def vector(values: Sequence[int], bits: int) -> bytes:
    """Return the numbers `values[j] / 2**bits`; exact for integers of at most 53 bits."""
    return (np.array(values, dtype=FLOAT) / float(1 << bits)).tobytes()


def zeros(count: int) -> bytes:
    """Return `count` zeros."""
    return bytes(BYTES * count)


def add(left: bytes, right: bytes) -> bytes:
    """Return left + right, element by element. A few numbers are added one by one: the same sums, without an array for each."""
    if len(left) > _FEW:
        return _add(left, right)
    form = f"<{len(left) // BYTES}d"
    return struct.pack(form, *map(operator.add, struct.unpack(form, left), struct.unpack(form, right)))


@_QUIET
def _add(left: bytes, right: bytes) -> bytes:
    return (np.frombuffer(left, FLOAT) + np.frombuffer(right, FLOAT)).tobytes()


def divide(values: bytes, count: int) -> bytes:
    """Return values / count."""
    return (np.frombuffer(values, FLOAT) / float(count)).tobytes()


@_QUIET
def rounded(values: bytes) -> bytes:
    """Return the values as float32 would carry them."""
    return np.frombuffer(values, FLOAT).astype(np.float32).astype(FLOAT).tobytes()


def add_rows(rows: Vector) -> Vector:
    """Add rows from the first to the last. Rows have at least two entries: for one, the library chooses another order."""
    assert rows.shape[1] > 1
    total: Vector = np.add.reduce(rows, axis=0)
    return total


class Kernel:
    """Gradient sums and updates of one job. Holds the samples as floats and no other state."""

    def __init__(self, config: TrainConfig, data: Data) -> None:
        self._model = config.model
        self._d, self._h = config.features, config.hidden
        self._trained, self._entries = config.trained, config.entries
        self._rate = float(config.learning_rate[0]) / float(config.learning_rate[1])
        self._momentum = float(config.momentum[0]) / float(config.momentum[1])
        self._x: Vector = np.array(data.features, dtype=FLOAT) / float(1 << FEATURE_BITS)
        self._y: Vector = np.array(data.targets, dtype=FLOAT) / float(1 << TARGET_BITS)

    @_QUIET
    def gradient_sum(self, weights: bytes, ids: Sequence[int], *, scale: int) -> bytes:
        """Return the sum of the gradients of the named samples times `scale`; behind it, with statistics, of x and x*x."""
        if not ids or self._model == "payload":
            return zeros(self._entries)
        w = np.frombuffer(weights, FLOAT)
        x, y = self._x[list(ids)], self._y[list(ids)]
        rows = np.empty((len(ids), self._entries))
        if self._model == "mlp":
            self._layered(w, x, y, rows)
        else:
            self._straight(w, x, y, rows)
        if self._entries > self._trained:
            rows[:, self._trained : self._trained + self._d] = x
            rows[:, self._trained + self._d :] = x * x
        # + 0.0: a sum of negative zeros is zero, whatever the library begins its sums with
        return (add_rows(rows) * float(scale) + 0.0).tobytes()

    def _straight(self, w: Vector, x: Vector, y: Vector, rows: Vector) -> None:
        d = self._d
        products = x * w[:d]
        f = np.zeros(len(y))
        for j in range(d):
            f = f + products[:, j]
        f = f + w[d]
        slope = f - y if self._model == "linear" else -(y * np.maximum(0.0, 1.0 - y * f))
        rows[:, :d] = slope[:, np.newaxis] * x
        rows[:, d] = slope

    def _layered(self, w: Vector, x: Vector, y: Vector, rows: Vector) -> None:
        d, h = self._d, self._h
        inner, biases, outer = w[: d * h].reshape(h, d), w[d * h : d * h + h], w[d * h + h : d * h + 2 * h]
        z = np.zeros((len(y), h))
        for j in range(d):
            z = z + x[:, j, np.newaxis] * inner[:, j]
        z = z + biases
        spread = 1.0 + np.abs(z)
        s = z / spread
        out = np.zeros(len(y))
        for k in range(h):
            out = out + s[:, k] * outer[k]
        residual = (out + w[d * h + 2 * h]) - y
        back = residual[:, np.newaxis] * (outer / (spread * spread))
        for k in range(h):
            rows[:, k * d : k * d + d] = back[:, k, np.newaxis] * x
        rows[:, d * h : d * h + h] = back
        rows[:, d * h + h : d * h + 2 * h] = residual[:, np.newaxis] * s
        rows[:, d * h + 2 * h] = residual

    @_QUIET
    def mean(self, sums: bytes, *, scale: int, divisor: int, stats_divisor: int, reciprocal: bool = False) -> bytes:
        """Return sums / scale / divisor; the statistics behind the gradient have a divisor of their own.

        With `reciprocal` the sums are multiplied by 1 / divisor instead, which rounds twice.
        """
        unscaled = np.frombuffer(sums, FLOAT) / float(scale)
        if reciprocal:
            return (unscaled * (1.0 / float(divisor))).tobytes()
        mean = unscaled / float(divisor)
        if stats_divisor != divisor:
            mean[self._trained :] = unscaled[self._trained :] / float(stats_divisor)
        return mean.tobytes()

    @_QUIET
    def update(self, weights: bytes, momentum: bytes, mean: bytes) -> tuple[bytes, bytes]:
        """Return the next weights and momentum: v' = mu v + g, w' = w - eta v', where g of a statistic is w - mean."""
        if self._model == "payload":
            return weights, momentum
        w, g = np.frombuffer(weights, FLOAT), np.frombuffer(mean, FLOAT)
        if self._entries > self._trained:
            g = g.copy()
            g[self._trained :] = w[self._trained :] - g[self._trained :]
        v = self._momentum * np.frombuffer(momentum, FLOAT) + g
        return (w - self._rate * v).tobytes(), v.tobytes()
