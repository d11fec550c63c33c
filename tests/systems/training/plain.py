"""Training written out in plain Python floats, loop by loop in the order that the design lays down: what the kernel must equal."""

from collections.abc import Iterable, Sequence

from simharness.systems.training.config import TrainConfig
from simharness.systems.training.data import Data

Numbers = list[float]


def gradient(config: TrainConfig, weights: Sequence[float], row: Sequence[float], target: float) -> Numbers:
    """Return the gradient of one sample; with statistics, x and x*x behind it."""
    d, h = config.features, config.hidden
    if config.model == "mlp":
        found = _layered(d, h, weights, row, target)
    else:
        f = 0.0
        for j in range(d):
            f = f + row[j] * weights[j]
        f = f + weights[d]
        slope = f - target if config.model == "linear" else -(target * max(0.0, 1.0 - target * f))
        found = [*(slope * x for x in row), slope]
    return found + ([*row, *(x * x for x in row)] if config.track_stats else [])


def _layered(d: int, h: int, weights: Sequence[float], row: Sequence[float], target: float) -> Numbers:
    inner, biases, outer = weights[: d * h], weights[d * h : d * h + h], weights[d * h + h : d * h + 2 * h]
    spreads, activities = [], []
    for k in range(h):
        z = 0.0
        for j in range(d):
            z = z + row[j] * inner[k * d + j]
        z = z + biases[k]
        spreads.append(1.0 + abs(z))
        activities.append(z / spreads[k])
    out = 0.0
    for k in range(h):
        out = out + activities[k] * outer[k]
    residual = (out + weights[d * h + 2 * h]) - target
    back = [residual * (outer[k] / (spreads[k] * spreads[k])) for k in range(h)]
    return [*(c * x for c in back for x in row), *back, *(residual * s for s in activities), residual]


def add_up(rows: Iterable[Sequence[float]], width: int) -> Numbers:
    """Add rows from the first to the last; a sum of negative zeros is zero."""
    total = None
    for row in rows:
        total = list(row) if total is None else [a + b for a, b in zip(total, row, strict=True)]
    return [0.0] * width if total is None else [value + 0.0 for value in total]


def sample(data: Data, index: int) -> tuple[Numbers, float]:
    """Return one sample as floats."""
    return [x / 1024 for x in data.features[index]], data.targets[index] / 65536


def batch_sum(config: TrainConfig, data: Data, weights: Sequence[float], ids: Sequence[int]) -> Numbers:
    """Return the sum of the gradients of a batch."""
    return add_up([gradient(config, weights, *sample(data, index)) for index in ids], config.entries)


def update(
    config: TrainConfig, weights: Sequence[float], momentum: Sequence[float], mean: Sequence[float]
) -> tuple[Numbers, Numbers]:
    """Return the next weights and momentum."""
    rate = config.learning_rate[0] / config.learning_rate[1]
    keep = config.momentum[0] / config.momentum[1]
    g = [value if j < config.trained else w - value for j, (w, value) in enumerate(zip(weights, mean, strict=True))]
    v = [keep * old + new for old, new in zip(momentum, g, strict=True)]
    return [w - rate * step for w, step in zip(weights, v, strict=True)], v
