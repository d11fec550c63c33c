"""The reference of training: exact, checked by a difference quotient, and its tolerance sharp to the unit."""

import ast
import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.assertions import training_oracle
from simharness.assertions.training_oracle.ieee import Vector, decode, encode
from simharness.assertions.training_oracle.problem import Problem, permutation, problem_of, shards
from simharness.assertions.training_oracle.quotient import BOUND, largest_difference
from simharness.assertions.training_oracle.reference import Oracle, State, Worst
from simharness.assertions.training_oracle.sums import FINER
from tests.assertions.floats import hexed, numbers, state, step

MODELS = ("linear", "sqhinge", "mlp")
SAMPLES = 40


def problem(model: str, seed: int = 1, features: int = 3, **more: object) -> Problem:
    config = {
        "model": model,
        "features": features,
        "hidden": 3 if model == "mlp" else 0,
        "samples": SAMPLES,
        "learning_rate": [1, 16],
        "momentum": [29, 32],
    }
    return problem_of(config | more, seed)


def drawn_from(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  # nothing secret


def walked(oracle: Oracle, draw: random.Random, steps: int = 3) -> tuple[list[float], list[float]]:
    """Weights and momentum after a few steps: numbers with full mantissas."""
    weights, momentum = map(numbers, oracle.start())
    for _ in range(steps):
        weights, momentum = step(oracle.problem, weights, momentum, partition(draw))
    return weights, momentum


def partition(draw: random.Random) -> list[list[int]]:
    """Some samples, dealt to one to five workers of which some may get none."""
    ids = draw.sample(range(SAMPLES), draw.randint(1, 20))
    batches: list[list[int]] = [[] for _ in range(draw.randint(1, 5))]
    for sample in ids:
        draw.choice(batches).append(sample)
    return batches


# --- IEEE 754 ------------------------------------------------------------------------------------------------------


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4))
def test_decoding_is_exact(values: list[float]) -> None:
    """Bit fields give the very number, subnormals and signed zeros included."""
    vector = decode(hexed(values))
    assert vector is not None
    assert [Fraction(value, 1 << vector.bits) for value in vector.values] == [Fraction(value) for value in values]


@pytest.mark.parametrize("text", ["7ff0" + "0" * 12, "7ff8" + "0" * 12, "fff0" + "0" * 12])
def test_no_number_is_no_vector(text: str) -> None:
    """Infinities and NaNs are refused, as is what is no vector at all."""
    assert decode(bytes.fromhex(text)[::-1].hex()) is None
    assert decode("abc") is None
    assert decode("ab" * 7) is None


@given(values=st.lists(st.integers(-(2**53), 2**53), max_size=4), bits=st.integers(0, 60))
def test_encoding_is_its_inverse(values: list[int], bits: int) -> None:
    """What is written is what float64 would hold."""
    assert encode(values, bits).hex() == hexed([value / 2**bits for value in values])


# --- gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_gradient_is_the_difference_quotient(model: str, seed: int) -> None:
    """An exact difference quotient of the loss agrees: to the bit for the quadratics, to 2**-160 for the layered model."""
    draw = drawn_from(seed)
    posed = problem(model, seed)
    oracle = Oracle(posed)
    weights = state(*walked(oracle, draw)).weights
    batch = draw.sample(range(SAMPLES), 2)
    off = largest_difference(posed, weights, batch, oracle.gradient_sum(weights, batch))
    assert off == 0 if model != "mlp" else off < BOUND


def test_cutting_costs_next_to_nothing() -> None:
    """What fixed point cuts off stays below 2**-230 a sample for parameters up to 2**8 and 16 hidden units."""
    posed = problem("mlp", hidden=16)
    bits = 236
    gradients = Oracle(posed)._gradients
    assert gradients._cut([255 << bits] * posed.trained, bits) < 1 << bits + FINER - 230


# --- the tolerance -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("track_stats", [False, True])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_the_edge_of_the_tolerance(model: str, track_stats: bool, seed: int) -> None:
    """Each coordinate, either way: off by the tolerance passes, off by one unit of the integer scale more fails."""
    draw = drawn_from(seed)
    oracle = Oracle(problem(model, seed, track_stats=track_stats))
    batches = partition(draw)
    reference = oracle.reference(state(*walked(oracle, draw)), batches)
    exact = {"weights": reference.weights, "momentum": reference.momentum}
    allowed = {"weights": reference.weights_tolerance, "momentum": reference.momentum_tolerance}
    assert reference.compare(**exact) == Worst("weights", 0, 0, 1)
    for vector, tolerances in allowed.items():
        for at, tolerance in enumerate(tolerances):
            for sign in (-1, 1):
                moved = {name: list(values) for name, values in exact.items()}
                moved[vector][at] += sign * tolerance
                edge = reference.compare(**moved)
                assert edge.within
                assert (edge.vector, edge.coordinate, edge.shown) == (vector, at, "1.000")
                moved[vector][at] += sign
                assert not reference.compare(**moved).within


@pytest.mark.parametrize("model", MODELS)
def test_the_tolerance_is_no_wider_than_its_formula(model: str) -> None:
    """Rounding up adds whole units of a scale that is 2**-20 of the last place at most: the bound of 12.5 in rationals."""
    draw = drawn_from(3)
    oracle = Oracle(problem(model, 3))
    before = state(*walked(oracle, draw))
    batches = [[1, 2, 3], [4]]
    reference = oracle.reference(before, batches)
    unit = Fraction(1, reference.multiple << reference.bits)
    u = Fraction(1, 2**53)
    n, contributors = 4, 2
    bits = reference.bits - FINER
    sums = oracle._gradients.sums(before.weights.over(bits), bits, [1, 2, 3, 4])
    mu, eta = Fraction(29, 32), Fraction(1, 16)
    for at in range(oracle.problem.trained):
        k = n + contributors + (2 if model == "mlp" else oracle.problem.features + 5)
        magnitude, error, g = (
            Fraction(part[at], 1 << reference.bits) for part in (sums.magnitude, sums.error, sums[0])
        )
        e_g = (error + k * u / (1 - k * u) * magnitude) / n
        v, w = (Fraction(part.values[at], 1 << part.bits) for part in (before.momentum, before.weights))
        e_v = e_g * (1 + 4 * u) + u * abs(mu * v) + u * (abs(mu * v) + abs(g / n) + e_g)
        reach = abs(mu * v + g / n) + e_v
        e_w = eta * e_v * (1 + 4 * u) + u * eta * reach + u * (abs(w) + eta * reach)
        wider = max(e_v, e_w) * Fraction(1, 10**6)
        assert 0 <= reference.momentum_tolerance[at] * unit - e_v <= wider
        assert 0 <= reference.weights_tolerance[at] * unit - e_w <= wider


@pytest.mark.parametrize("model", MODELS)
def test_partitions_of_a_batch(model: str) -> None:
    """700 partitions a model: float64 stays within tolerance, and unweighted is off by 1000 unless all counts are equal."""
    draw = drawn_from(7)
    worst = apart = 0
    for trial in range(700):
        if trial % 50 == 0:
            oracle = Oracle(problem(model, trial, track_stats=trial % 100 == 0))
            weights, momentum = map(numbers, oracle.start())
        batches = partition(draw)
        new = step(oracle.problem, weights, momentum, batches)
        judged = oracle.judge(state(weights, momentum), state(*new), batches)
        assert judged.worst.within
        worst = max(worst, judged.worst.ratio_ppm)
        sizes = {len(batch) for batch in batches if batch}
        if model != "sqhinge":  # a hinge may be satisfied by all
            assert judged.discriminates == (len(sizes) > 1)
        wrong = step(oracle.problem, weights, momentum, batches, weighted=False)
        if judged.discriminates:
            apart += 1
            assert oracle.judge(state(weights, momentum), state(*wrong), batches).worst.ratio_ppm > 1000 * 10**6
        weights, momentum = new
    assert worst > 300_000, "a bound that nothing comes near proves nothing"
    assert apart > 300


def test_a_small_relative_error_is_seen() -> None:
    """A mean that is off by 1e-13 of itself is beyond the tolerance of a small batch."""
    oracle = Oracle(problem("linear", initial_weights=[70_000, -3_000, 12_345, 0]))
    weights, momentum = map(numbers, oracle.start())
    new_weights, new_momentum = step(oracle.problem, weights, momentum, [[1, 2], [3]])
    off = [value * (1 + 1e-13) for value in new_momentum]
    assert not oracle.judge(state(weights, momentum), state(new_weights, off), [[1, 2], [3]]).worst.within


def test_momentum_decays_below_the_normal_numbers() -> None:
    """Where float64 underflows its errors are absolute; such a step is within tolerance too."""
    oracle = Oracle(problem("sqhinge", data={"features": [[1024]], "targets": [1 << 16]}, features=1))
    weights, momentum = [5.0, 0.0], [2.0**-1060, -(2.0**-1073)]
    after = step(oracle.problem, weights, momentum, [[0]])
    assert oracle.judge(state(weights, momentum), state(*after), [[0]]).worst.within


# --- known answers -------------------------------------------------------------------------------------------------


def bias_problem(targets: list[int], **more: object) -> Problem:
    """One feature that is always 0: the bias is the scalar w, and a sample's gradient is w - y."""
    data = {"features": [[0]] * len(targets), "targets": [target << 16 for target in targets]}
    return problem_of(
        {"model": "linear", "features": 1, "learning_rate": [0, 1], "momentum": [0, 1], "data": data} | more, 1
    )


def mean(posed: Problem, batches: list[list[int]]) -> Fraction:
    """The mean gradient of the bias at the start: the momentum after one step without momentum."""
    oracle = Oracle(posed)
    reference = oracle.reference(State(Vector(posed.start, 16), Vector((0, 0), 0)), batches)
    return Fraction(reference.momentum[1], reference.multiple << reference.bits)


def test_c01_means_are_weighted() -> None:
    """Case C01: 36/9 and 20/11, not 8 and 5/2."""
    posed = bias_problem([-1] * 4 + [-3] * 4 + [-20])
    assert mean(posed, [[0, 1, 2, 3], [4, 5, 6, 7], [8]]) == 4
    posed = bias_problem([-1] * 8 + [-4] * 3)
    assert mean(posed, [[*range(8)], [8, 9, 10]]) == Fraction(20, 11)


def test_c03_the_divisor_is_who_is_there() -> None:
    """Case C03: four of six survive."""
    assert mean(bias_problem([-1, -2, -3, -6]), [[0], [1], [2], [3]]) == 3
    assert mean(bias_problem([-1, -1, -2, -2, -3, -3, -6]), [[0, 1], [2, 3], [4, 5], [6]]) == Fraction(18, 7)


@pytest.mark.parametrize(
    ("rate", "together", "first", "second"),
    [((1, 8), Fraction(37, 4), 9, Fraction(69, 8)), ((1, 10), Fraction(94, 10), Fraction(92, 10), Fraction(888, 100))],
)
def test_c05_a_late_gradient_is_taken_anew(
    rate: tuple[int, int], together: Fraction, first: Fraction, second: Fraction
) -> None:
    """Case C05: both at once, or one after the other at the moved weights; the rate may be any rational."""
    posed = bias_problem([2, 6], learning_rate=rate, initial_weights=[0, 10 << 16])

    def stepped(start: Fraction, batches: list[list[int]]) -> Fraction:
        scale = start.denominator
        moved = posed._replace(start=(0, start.numerator), targets=tuple(t * scale for t in posed.targets))
        oracle = Oracle(moved)
        reference = oracle.reference(State(Vector(moved.start, 0), Vector((0, 0), 0)), batches)
        return Fraction(reference.weights[1], reference.multiple << reference.bits) / scale

    assert stepped(Fraction(10), [[0], [1]]) == together
    assert stepped(Fraction(10), [[0]]) == first
    assert stepped(first, [[1]]) == second


# --- what it is made of --------------------------------------------------------------------------------------------


def test_shards_and_permutations() -> None:
    """Consecutive runs of the given sizes; an order for each epoch and owner, the same for all who ask."""
    assert shards([2, 1, 3]) == (range(2), range(2, 3), range(3, 6))
    orders = [permutation(5, epoch, owner, range(9)) for epoch in (0, 1) for owner in ("w1", "w2", "*")]
    assert all(sorted(order) == [*range(9)] for order in orders)
    assert len({tuple(order) for order in orders}) == len(orders)
    assert permutation(5, 0, "w1", range(9)) == orders[0]


def test_it_shares_nothing_with_production() -> None:
    """Ruling K7: no float, no `/`, no module but streams, fractions and itself; production cannot import it (test_layers)."""
    allowed = {"simharness.core.streams", "collections.abc", "typing", "itertools", "fractions"}
    for path in Path(training_oracle.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(node, ast.Div)
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
            assert not (isinstance(node, ast.Name) and node.id == "float")
            assert not isinstance(node, ast.Import)
            if isinstance(node, ast.ImportFrom):
                assert node.module in allowed or node.module.startswith("simharness.assertions.training_oracle.")
