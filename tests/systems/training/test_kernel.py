"""The kernel against plain loops, bit by bit; and what must not be in the package at all."""

import ast
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simharness.systems.training
from simharness.systems.training import kernel
from simharness.systems.training.data import draw_data, draw_start
from simharness.systems.training.kernel import Kernel, add, add_rows, divide, rounded, vector, zeros
from tests.systems.training import plain
from tests.systems.training.jobs import job, streams

HERE = Path(next(iter(simharness.systems.training.__path__)))
SHAPES = [
    (n, width)
    for n in (1, 2, 3, 5, 7, 8, 9, 16, 31, 64, 127, 129, 300, 1000)
    for width in (2, 3, 4, 5, 8, 9, 17, 33, 129, 257)
]
MODELS = [
    {"model": "linear"},
    {"model": "sqhinge"},
    {"model": "mlp", "hidden": 3},
    {"model": "linear", "track_stats": True},
]


def floats(data: bytes) -> list[float]:
    """Read a vector."""
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def packed(values: list[float]) -> bytes:
    """Write a vector."""
    return struct.pack(f"<{len(values)}d", *values)


def test_rows_are_added_in_order() -> None:
    """Over 140 shapes, the library's sum over rows is the written-out loop to the bit."""
    assert len(SHAPES) == 140
    for n, width in SHAPES:
        rows = np.random.default_rng(n * 1000 + width).standard_normal((n, width)) * 10.0 ** (np.arange(width) % 7)
        total = rows[0].copy()
        for row in rows[1:]:
            total = total + row
        assert add_rows(rows).tobytes() == total.tobytes(), (n, width)


@pytest.mark.parametrize("fields", MODELS, ids=str)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 4), features=st.integers(1, 6))
def test_training_equals_plain_loops(fields: dict[str, object], seed: int, steps: int, features: int) -> None:
    """Gradient sums and updates are those of plain Python floats, to the bit, for several steps on."""
    config = job(3, features=features, **fields)
    data = draw_data(streams(seed)("data"), config)
    code = Kernel(config, data)
    weights, momentum = vector(draw_start(streams(seed)("init"), config), 16), zeros(config.entries)
    for step in range(steps):
        ids = [(7 * step + 3 * at) % config.samples for at in range(1 + (seed + step) % 9)]
        sums = code.gradient_sum(weights, ids, scale=1)
        expected = plain.batch_sum(config, data, floats(weights), ids)
        assert sums == packed(expected)
        mean = code.mean(sums, scale=1, divisor=len(ids), stats_divisor=len(ids))
        assert mean == packed([value / len(ids) for value in expected])
        following = plain.update(config, floats(weights), floats(momentum), floats(mean))
        weights, momentum = code.update(weights, momentum, mean)
        assert (weights, momentum) == (packed(following[0]), packed(following[1]))


@pytest.mark.parametrize("fields", MODELS, ids=str)
@given(seed=st.integers(0, 2**32), power=st.integers(0, 40))
def test_loss_scale_changes_no_bit(fields: dict[str, object], seed: int, power: int) -> None:
    """Sums scaled by a power of two and divided by it again are the same sums."""
    config = job(3, **fields)
    code = Kernel(config, draw_data(streams(seed)("data"), config))
    weights = vector(draw_start(streams(seed)("init"), config), 16)
    means = [
        code.mean(code.gradient_sum(weights, (0, 5, 2), scale=scale), scale=scale, divisor=3, stats_divisor=3)
        for scale in (1, 1 << power)
    ]
    assert means[0] == means[1]


def test_small_operations() -> None:
    """Sums, quotients, float32 rounding and grid numbers by value; an empty batch has the sum zero."""
    assert floats(add(packed([1.0, 2.0]), packed([0.5, -2.0]))) == [1.5, 0.0]
    assert floats(divide(packed([3.0, 1.0]), 2)) == [1.5, 0.5]
    assert floats(rounded(packed([1.0 + 2**-30, 0.5]))) == [1.0, 0.5]
    assert floats(vector([-3, 65536], 16)) == [-3 / 65536, 1.0]
    config = job(2)
    assert Kernel(config, draw_data(streams(1)("data"), config)).gradient_sum(
        zeros(config.entries), (), scale=1
    ) == zeros(5)


@given(data=st.data(), entries=st.integers(0, 40))
def test_sums_do_not_depend_on_the_length(data: st.DataObject, entries: int) -> None:
    """A few numbers are added one by one, many in an array: to the bit the same, infinities and denormals included."""
    numbers = st.lists(st.floats(width=64), min_size=entries, max_size=entries)
    left, right = data.draw(numbers), data.draw(numbers)
    both = add(packed(left * 20), packed(right * 20))
    assert [*map(str, floats(add(packed(left), packed(right))))] * 20 == [*map(str, floats(both))]
    for one, other, total in zip(left, right, floats(both), strict=False):
        assert str(total) == str(one + other)


def test_payload_trains_nothing() -> None:
    """The model of the benchmarks has gradients of zero and keeps its parameters, at any size."""
    config = job(2, model="payload", features=100_000, record_state="none")
    code = Kernel(config, draw_data(streams(1)("data"), config))
    sums = code.gradient_sum(zeros(100_000), (0, 1), scale=1)
    assert sums == zeros(100_000)
    assert code.update(zeros(100_000), zeros(100_000), sums) == (zeros(100_000), zeros(100_000))


def test_statistics_have_their_own_divisor() -> None:
    """Only with a defect does the divisor of the statistics differ; then it reaches their entries alone."""
    config = job(2, features=1, track_stats=True)
    code = Kernel(config, draw_data(streams(1)("data"), config))
    mean = code.mean(packed([8.0, 8.0, 8.0, 8.0]), scale=1, divisor=4, stats_divisor=2)
    assert floats(mean) == [2.0, 2.0, 4.0, 4.0]


def test_reciprocal_rounds_twice() -> None:
    """Multiplying by 1/n is not dividing by n."""
    config = job(2, features=1)
    code = Kernel(config, draw_data(streams(1)("data"), config))
    sums = packed([float(value) for value in (5, 7)])
    exact = code.mean(sums, scale=1, divisor=49, stats_divisor=49)
    assert exact != code.mean(sums, scale=1, divisor=49, stats_divisor=49, reciprocal=True)


def test_no_library_chooses_an_order() -> None:
    """No matrix product, no numpy sum and no transcendental function in the whole package."""
    banned = ("dot", "einsum", "matmul", "inner", "vdot", "tensordot", "exp", "log", "tanh", "mean", "power", "linalg")
    for path in sorted(HERE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not isinstance(getattr(node, "op", None), ast.MatMult), path
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("np", "numpy")
            ):
                assert node.attr not in (*banned, "sum"), f"{path}:{node.lineno}"
            if isinstance(node, ast.Attribute) and node.attr == "sum":
                pytest.fail(f"{path}:{node.lineno}")


def test_only_the_kernel_knows_numpy() -> None:
    """Elsewhere a vector is bytes (T6)."""
    for path in sorted(HERE.rglob("*.py")):
        names = [
            alias.name
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Import)
            for alias in node.names
        ]
        assert ("numpy" in names) == (path == Path(kernel.__file__)), path
