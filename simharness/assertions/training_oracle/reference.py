"""The update that one process would have made of a committed step, how far float64 may be from it, and the verdict (12.1-12.5).

    v' = mu v + g,  w' = w - eta v',  g = G / n the mean gradient over the union of the contributions

Everything is an integer over D = n x (denominator of mu) x (denominator of eta) x 2**T, T fine enough for every number at hand: the
reference is exact (mlp: up to the bound on cutting), and so is a recorded float64. The tolerance of coordinate j is

    E_g = (errors of the summands + gamma_k M_j) / n     k = n + N and what the model adds, M_j the magnitude of the sum
    E_v = E_g (1 + 4u) + u |mu v| + u (|mu v| + |g| + E_g)
    E_w = eta E_v (1 + 4u) + u eta (|v'| + E_v) + u (|w| + eta (|v'| + E_v))

for n samples of N contributors, each rounded up to a whole unit of 1 / D, so that an honest result is never beyond it; the verdict
is |actual - reference| <= tolerance between integers. It holds for any order of additions, so for ring and server alike. Below the
normal range of float64 errors are absolute: at most 2**-1074 for each of the P + n + 16 operations or so that make an entry.

A step discriminates if the mean of the workers' means, unweighted, differs from the right update by more than 1000 tolerances.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from simharness.assertions.training_oracle.ieee import Vector, encode
from simharness.assertions.training_oracle.layered import LayeredGradients
from simharness.assertions.training_oracle.lines import HingeGradients, LinearGradients
from simharness.assertions.training_oracle.problem import FEATURE_BITS, TARGET_BITS, Problem
from simharness.assertions.training_oracle.sums import FINER, ROUNDING_BITS, Gradients, Sums, gamma

DISCRIMINATION: Final = 1000
_LONGEST: Final = 3
_SMALLEST_BITS: Final = 1074
"""The smallest positive float64 is 2**-1074."""
_MODELS: Final[dict[str, Callable[[Problem], Gradients]]] = {
    "linear": LinearGradients,
    "sqhinge": HingeGradients,
    "mlp": LayeredGradients,
}

VectorName = Literal["weights", "momentum"]


class State(NamedTuple):
    """The two vectors of a training state, decoded."""

    weights: Vector
    momentum: Vector


class Worst(NamedTuple):
    """The coordinate that is furthest off, measured in its own tolerance."""

    vector: VectorName
    coordinate: int
    deviation: int
    tolerance: int

    @property
    def within(self) -> bool:
        """Whether every coordinate is within its tolerance."""
        return self.deviation <= self.tolerance

    @property
    def ratio_ppm(self) -> int:
        """Deviation over tolerance in millionths, rounded up."""
        return -(-1_000_000 * self.deviation // self.tolerance)

    @property
    def shown(self) -> str:
        """The ratio in decimals."""
        digits = str(self.deviation // self.tolerance)
        if len(digits) > _LONGEST:
            return f"{digits[0]}.{digits[1]}e{len(digits) - 1}"
        thousandths = -(-1000 * self.deviation // self.tolerance)
        return f"{thousandths // 1000}.{thousandths % 1000:03}"


class Reference(NamedTuple):
    """An exact update; all numbers are integers over the common denominator D."""

    bits: int
    """T; D is `multiple` x 2**T."""
    multiple: int
    weights: tuple[int, ...]
    momentum: tuple[int, ...]
    weights_tolerance: tuple[int, ...]
    momentum_tolerance: tuple[int, ...]
    discriminates: bool

    def judge(self, actual: State) -> Worst:
        """Compare with what was computed. The vectors have the reference's length and no more than T fractional bits."""
        return self.compare(
            [value * self.multiple for value in actual.weights.over(self.bits)],
            [value * self.multiple for value in actual.momentum.over(self.bits)],
        )

    def compare(self, weights: Sequence[int], momentum: Sequence[int]) -> Worst:
        """Compare with numbers over D; ties go to the first coordinate, weights before momentum."""
        worst = Worst("weights", 0, 0, 1)
        sides: tuple[tuple[VectorName, Sequence[int], Sequence[int], Sequence[int]], ...] = (
            ("weights", weights, self.weights, self.weights_tolerance),
            ("momentum", momentum, self.momentum, self.momentum_tolerance),
        )
        for vector, actual, exact, tolerances in sides:
            for at, (a, b, tolerance) in enumerate(zip(actual, exact, tolerances, strict=True)):
                off = abs(a - b)
                if off * worst.tolerance > worst.deviation * tolerance:
                    worst = Worst(vector, at, off, tolerance)
        return worst


class Judgement(NamedTuple):
    """What came of one step."""

    worst: Worst
    discriminates: bool


class Oracle:
    """The reference of one problem. Keeps products of the data, nothing of a run."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.length = len(problem.start)
        self._gradients: Gradients = _MODELS[problem.model](problem)

    def start(self) -> tuple[bytes, bytes]:
        """Return weights and momentum of state 0 as recorded bytes."""
        return encode(self.problem.start, TARGET_BITS), bytes(8 * self.length)

    def fits(self, state: State) -> bool:
        """Tell whether the vectors have the problem's length."""
        return len(state.weights.values) == len(state.momentum.values) == self.length

    def judge(self, before: State, after: State, batches: Sequence[Sequence[int]]) -> Judgement:
        """Judge one update, given each contributor's samples; there is at least one sample."""
        bits = max(after.weights.bits, after.momentum.bits)
        reference = self.reference(before, batches, bits)
        return Judgement(reference.judge(after), reference.discriminates)

    def reach(self, before: State, batches: Sequence[Sequence[int]]) -> int:
        """Return how many bits the largest number of a state, or of its exact update, has before the point."""
        exact = self.reference(before, batches)
        unit = exact.bits + exact.multiple.bit_length()
        after = max(abs(value) for value in (*exact.weights, *exact.momentum)).bit_length() - unit
        sides = (before.weights, before.momentum)
        return max(after, *(abs(value).bit_length() - side.bits for side in sides for value in side.values))

    def gradient_sum(self, weights: Vector, batch: Sequence[int]) -> Vector:
        """Return the exact gradient sum of a batch, of the trained parameters; `quotient` checks it."""
        bits = max(weights.bits, self._gradients.least_bits)
        sums = self._gradients.sums(weights.over(bits)[: self.problem.trained], bits, batch)
        return Vector(tuple(sums.gradient), bits + FINER)

    def reference(self, before: State, batches: Sequence[Sequence[int]], fine: int = 0) -> Reference:
        """Return the exact update of a state; T is at least `fine`."""
        bits = max(before.weights.bits, before.momentum.bits, self._gradients.least_bits, fine)
        weights = before.weights.over(bits)
        parts = [self._gradients.sums(weights[: self.problem.trained], bits, batch) for batch in batches]
        total = Sums(*([sum(column) for column in zip(*lists, strict=True)] for lists in zip(*parts, strict=True)))
        samples = [sample for batch in batches for sample in batch]
        roundings = len(samples) + len(batches)
        errors = [
            error + gamma(roundings + self._gradients.operations, magnitude)
            for error, magnitude in zip(total.error, total.magnitude, strict=True)
        ]
        gradient = total.gradient
        if self.problem.track_stats:
            more, more_errors = self._statistics(weights, bits, samples, roundings)
            gradient, errors = gradient + more, errors + more_errors
        scale = _Scale(self.problem, bits + FINER, len(samples))
        updated = [
            scale.update(w << FINER, v << FINER, g, e)
            for w, v, g, e in zip(weights, before.momentum.over(bits), gradient, errors, strict=True)
        ]
        new_weights, new_momentum, w_tolerance, v_tolerance = zip(*updated, strict=True)
        return Reference(
            bits=scale.bits,
            multiple=scale.multiple,
            weights=new_weights,
            momentum=new_momentum,
            weights_tolerance=w_tolerance,
            momentum_tolerance=v_tolerance,
            discriminates=scale.discriminates(batches, parts, w_tolerance, v_tolerance),
        )

    def _statistics(
        self, weights: Sequence[int], bits: int, samples: Sequence[int], roundings: int
    ) -> tuple[list[int], list[int]]:
        """Return n x (entry - batch mean) for the running means of x and of x**2, and the errors, like gradient sums.

        The magnitude is A_j = n |w_j| + sum |x_ij|, x squared likewise.
        """
        d, n = self.problem.features, len(samples)
        columns = list(zip(*[self.problem.rows[sample] for sample in samples], strict=True))
        entries = weights[self.problem.trained :]
        shifts = (bits + FINER - FEATURE_BITS, bits + FINER - 2 * FEATURE_BITS)
        sums, errors = [], []
        for power, shift in enumerate(shifts):
            for entry, column in zip(entries[power * d :], columns, strict=False):
                terms = column if power == 0 else [value * value for value in column]
                own = n * entry << FINER
                sums.append(own - (sum(terms) << shift))
                errors.append(gamma(d + roundings + 5, abs(own) + (sum(map(abs, terms)) << shift)))
        return sums, errors


class _Scale:
    """The common denominator of one step, and the update over it."""

    def __init__(self, problem: Problem, bits: int, samples: int) -> None:
        (self._a, self._b), (self._c, self._e) = problem.momentum, problem.learning_rate
        self.bits, self._n = bits, samples
        self.multiple = samples * self._b * self._e
        operations = len(problem.start) + samples + 16
        self._absolute = (operations * self.multiple << bits >> _SMALLEST_BITS) + 1

    def update(self, w: int, v: int, g: int, error: int) -> tuple[int, int, int, int]:
        """Return w', v' and their tolerances over D. Takes w and v over 2**T, the gradient sum and its error likewise."""
        a, b, c, e = self._a, self._b, self._c, self._e
        kept = e * self._n * a * v  # mu v
        mean = b * e * g
        new_v = kept + mean
        down = c * new_v  # eta v', over e x D
        new_w = w * self.multiple - -(-down // e)
        e_g = b * e * error
        e_v = e_g + _u(5 * e_g + 2 * abs(kept) + abs(mean)) + self._absolute
        reach = abs(new_v) + e_v
        e_w = -(-c * e_v // e) + _u(-(-c * (4 * e_v + 2 * reach) // e) + abs(w) * self.multiple) + self._absolute
        return new_w, new_v, e_w, e_v

    def discriminates(
        self,
        batches: Sequence[Sequence[int]],
        parts: Sequence[Sums],
        w_tolerance: Sequence[int],
        v_tolerance: Sequence[int],
    ) -> bool:
        """Tell whether the unweighted mean of the means would be beyond 1000 tolerances, in any trained coordinate."""
        sized = [(len(batch), part.gradient) for batch, part in zip(batches, parts, strict=True) if batch]
        if len(sized) < 2:  # noqa: PLR2004  # one mean is the mean
            return False
        product = 1
        for size, _ in sized:
            product *= size
        share = len(sized) * product
        for at in range(len(sized[0][1])):
            sums = [(size, gradient[at]) for size, gradient in sized]
            apart = self._n * sum([g * (product // size) for size, g in sums]) - share * sum([g for _, g in sums])
            off = abs(apart) * self._b
            if off * self._e > DISCRIMINATION * share * v_tolerance[at]:
                return True
            if off * self._c > DISCRIMINATION * share * w_tolerance[at]:
                return True
        return False


def _u(value: int) -> int:
    """Return an upper bound of u x value."""
    return (value >> ROUNDING_BITS) + 1
