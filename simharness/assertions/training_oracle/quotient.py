"""The reference checked: an exact difference quotient of the loss, which shares only the problem with the gradients (12.4)."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from simharness.assertions.training_oracle.ieee import Vector
from simharness.assertions.training_oracle.problem import FEATURE_BITS, TARGET_BITS, Problem

STEP: Final = Fraction(1, 1 << 90)
BOUND: Final = Fraction(1, 1 << 160)
"""The quotient of the layered model is off by the third derivative times 2**-180; those of the others not at all."""


def loss(problem: Problem, parameters: Sequence[Fraction], batch: Sequence[int]) -> Fraction:
    """Return the summed loss of a batch."""
    d, h = problem.features, problem.hidden
    total = Fraction(0)
    for sample in batch:
        x = [Fraction(feature, 1 << FEATURE_BITS) for feature in problem.rows[sample]]
        y = Fraction(problem.targets[sample], 1 << TARGET_BITS)
        if problem.model == "mlp":
            out = parameters[-1]
            for unit in range(h):
                z = sum((parameters[unit * d + at] * x[at] for at in range(d)), parameters[h * d + unit])
                out += parameters[h * d + h + unit] * z * _inverse(1 + abs(z))
        else:
            out = sum((a * b for a, b in zip(parameters, x, strict=False)), parameters[d])
        off = max(Fraction(0), 1 - y * out) if problem.model == "sqhinge" else out - y
        total += off * off * Fraction(1, 2)
    return total


def _inverse(value: Fraction) -> Fraction:
    return Fraction(value.denominator, value.numerator)


def difference_quotient(problem: Problem, parameters: Sequence[Fraction], batch: Sequence[int], at: int) -> Fraction:
    """Return the central quotient of the summed loss in one coordinate, at a step of 2**-90 both ways."""
    ends = []
    for step in (STEP, -STEP):
        moved = list(parameters)
        moved[at] += step
        ends.append(loss(problem, moved, batch))
    return (ends[0] - ends[1]) * _inverse(2 * STEP)


def largest_difference(problem: Problem, weights: Vector, batch: Sequence[int], gradient: Vector) -> Fraction:
    """Return how far a batch's gradient sum at these weights is from the quotient, in the coordinate where that is most."""
    parameters = [Fraction(value, 1 << weights.bits) for value in weights.values]
    return max(
        abs(difference_quotient(problem, parameters, batch, at) - Fraction(value, 1 << gradient.bits))
        for at, value in enumerate(gradient.values)
    )
