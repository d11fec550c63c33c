"""The model with one hidden layer of softsign units, s(z) = z / (1 + |z|), in fixed point of at least 256 fractional bits.

The derivative is taken as (1 - |s|)**2, not as 1 / (1 + |z|)**2 like production's. Bounds are running errors: each value carries
how far float64 may be off. With upper bounds of the magnitudes, u = 2**-53 and gamma_k for k roundings,

    e_z = gamma_{d+2} a_z              a_z = sum |W| |x| + |b|
    e_s = 2 e_z + 3 u                  softsign is 1-Lipschitz, its denominator is at least 1
    e_D = e_z + u D                    D = 1 + |z|
    e_r = gamma_{h+2} (a_o + |y|) + sum e_s |w2|     a_o = sum |w2| (|s| + e_s) + |b2|
    e_c = e_r q + c (2 e_D / D + 4 u)  q = |w2| / D**2, c = (|r| + e_r) q

then products with x and with s, and at most n + N + 2 roundings from those factors to the mean. Products and quotients are cut down
to whole units, errors are rounded up; what cutting costs the gradient itself is `_cut`, counted in units and added to the error.
"""

from collections.abc import Sequence
from typing import Final

from simharness.assertions.training_oracle.problem import FEATURE_BITS, TARGET_BITS, Problem
from simharness.assertions.training_oracle.sums import FINER, ROUNDING_BITS, Sums, gamma

_FRACTION_BITS: Final = 256
_ONE: Final = 1 << FEATURE_BITS


class LayeredGradients:
    """Of 1/2 (w2 s(W x + b) + b2 - y)**2; parameters in the order W (unit by unit), b, w2, b2."""

    least_bits = _FRACTION_BITS - FINER
    operations = 2

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def sums(self, parameters: Sequence[int], bits: int, batch: Sequence[int]) -> Sums:
        """Add up sample by sample."""
        size = len(parameters)
        gradient, magnitude, error = [0] * size, [0] * size, [0] * size
        network = _Network(self._problem, parameters, bits)
        for sample in batch:
            network.add(self._problem.rows[sample], self._problem.targets[sample], gradient, magnitude, error)
        cut = len(batch) * self._cut(parameters, bits)
        return Sums(gradient, magnitude, [entry + cut for entry in error])

    def _cut(self, parameters: Sequence[int], bits: int) -> int:
        """Return how many units one sample's entries may be off by cutting, if no parameter and no target exceeds `most`.

        s: 1 unit. s': 3. Output and residual: hidden x (most + 1). Their product with w2 and s': residual x most + 3 x |r| most
        + 3, where |r| <= (hidden + 2) most. The last product: 1 more, or |r| + residual + 1 for the one with s.
        """
        hidden = self._problem.hidden
        largest = max(map(abs, parameters))
        most = max(largest >> bits, max(map(abs, self._problem.targets)) >> TARGET_BITS) + 1
        residual, reach = hidden * (most + 1), (hidden + 2) * most
        return residual * most + 3 * reach * most + 3 + residual + reach + 1


class _Network:
    """The parameters of one step, and what a sample adds to the sums."""

    def __init__(self, problem: Problem, parameters: Sequence[int], bits: int) -> None:
        d, h = problem.features, problem.hidden
        self._d, self._h, self._bits = d, h, bits + FINER
        self._units = [(*parameters[at * d : at * d + d], parameters[d * h + at]) for at in range(h)]
        self._out = [value << FINER for value in parameters[d * h + h : d * h + 2 * h]]
        self._bias = parameters[-1] << FINER

    def add(
        self, features: Sequence[int], target: int, gradient: list[int], magnitude: list[int], error: list[int]
    ) -> None:
        """Add one sample's gradient row, its magnitudes and its errors."""
        bits, h, d = self._bits, self._h, self._d
        one = 1 << bits
        u = 1 << bits - ROUNDING_BITS
        row = (*features, _ONE)
        shift = FINER - FEATURE_BITS  # a product of parameter and feature has 10 bits more than the parameter
        out, out_reach, out_error = self._bias, abs(self._bias), 0
        units: list[tuple[int, int, int, int, int]] = []
        for weights, w2 in zip(self._units, self._out, strict=True):
            z = sum([a * b for a, b in zip(weights, row, strict=True)]) << shift
            z_error = gamma(d + 2, sum([abs(a * b) for a, b in zip(weights, row, strict=True)]) << shift)
            size = abs(z)
            s = (size << bits) // (one + size)
            near = one - s  # 1 / D, rounded up
            s_error = 2 * z_error + 3 * u
            slope_error = (2 * (z_error + (one + size >> ROUNDING_BITS) + 1) * near >> bits) + 4 * u + 1
            out += (w2 * s if z >= 0 else -w2 * s) >> bits
            w2_size = abs(w2)
            out_reach += (w2_size * (s + 1 + s_error) >> bits) + 1
            out_error += (w2_size * s_error >> bits) + 1
            units.append((s if z >= 0 else -s, s_error, near * near >> bits, slope_error, w2))
        goal = target << bits - TARGET_BITS
        r = out - goal
        r_error = out_error + gamma(h + 2, out_reach + abs(goal))
        r_reach = abs(r) + r_error + 1
        at, bias_at, out_at = 0, d * h, d * h + h
        for s, s_error, slope, slope_error, w2 in units:
            c = (r * w2 >> bits) * slope >> bits
            q = (abs(w2) * (slope + 3) >> bits) + 1
            c_error = (r_error * q >> bits) + (((r_reach * q >> bits) + 1) * slope_error >> bits) + 2
            for feature in features:
                _put(
                    at,
                    c * feature >> FEATURE_BITS,
                    (c_error * abs(feature) >> FEATURE_BITS) + 1,
                    gradient,
                    magnitude,
                    error,
                )
                at += 1
            _put(bias_at, c, c_error, gradient, magnitude, error)
            s_reach = abs(s) + s_error + 1
            product_error = (r_error * s_reach >> bits) + (r_reach * s_error >> bits) + 2
            _put(out_at, r * s >> bits, product_error, gradient, magnitude, error)
            bias_at += 1
            out_at += 1
        _put(out_at, r, r_error, gradient, magnitude, error)


def _put(at: int, value: int, off: int, gradient: list[int], magnitude: list[int], error: list[int]) -> None:
    gradient[at] += value
    error[at] += off
    magnitude[at] += abs(value) + off + 1
