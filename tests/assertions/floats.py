"""A float64 trainer of few lines, in the order of operations that the training design lays down; it knows nothing of the oracle."""

import struct
from collections.abc import Sequence

from simharness.assertions.training_oracle.ieee import decode
from simharness.assertions.training_oracle.problem import Problem
from simharness.assertions.training_oracle.reference import State

Numbers = list[float]


def hexed(numbers: Sequence[float]) -> str:
    return struct.pack(f"<{len(numbers)}d", *numbers).hex()


def numbers(data: bytes) -> Numbers:
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def state(weights: Sequence[float], momentum: Sequence[float]) -> State:
    decoded = decode(hexed(weights)), decode(hexed(momentum))
    assert decoded[0] is not None
    assert decoded[1] is not None
    return State(*decoded)


def gradient(problem: Problem, weights: Numbers, sample: int) -> Numbers:
    d, h = problem.features, problem.hidden
    x = [feature / 1024 for feature in problem.rows[sample]]
    y = problem.targets[sample] / 65536
    if problem.model != "mlp":
        r = 0.0
        for a, b in zip(x, weights, strict=False):
            r += a * b
        r += weights[d]
        c = r - y if problem.model == "linear" else -y * max(0.0, 1.0 - y * r)
        return [*(c * a for a in x), c]
    out, units = 0.0, []
    for unit in range(h):
        z = 0.0
        for at in range(d):
            z += x[at] * weights[unit * d + at]
        z += weights[d * h + unit]
        base = 1.0 + abs(z)
        out += z / base * weights[d * h + h + unit]
        units.append((base, z / base))
    r = out + weights[-1] - y
    inner: Numbers = []
    biases: Numbers = []
    for unit, (base, _) in enumerate(units):
        c = r * (weights[d * h + h + unit] / (base * base))
        inner += [c * a for a in x]
        biases.append(c)
    return [*inner, *biases, *(r * s for _, s in units), r]


def batch_sum(problem: Problem, weights: Numbers, batch: Sequence[int]) -> Numbers:
    """The gradient sum of one worker, with the sums of x and x squared if statistics are tracked."""
    d = problem.features
    total = [0.0] * len(problem.start)
    for sample in batch:
        row = gradient(problem, weights[: problem.trained], sample)
        if problem.track_stats:
            x = [feature / 1024 for feature in problem.rows[sample]]
            row += [*x, *(a * a for a in x)]
        total = [a + b for a, b in zip(total, row, strict=True)]
    assert len(total) == problem.trained + 2 * d * problem.track_stats
    return total


def step(
    problem: Problem, weights: Numbers, momentum: Numbers, batches: Sequence[Sequence[int]], *, weighted: bool = True
) -> tuple[Numbers, Numbers]:
    """One update; `weighted = False` takes the mean of the workers' means."""
    sums = [batch_sum(problem, weights, batch) for batch in batches]
    if not weighted:
        filled = [(len(batch), part) for batch, part in zip(batches, sums, strict=True) if batch]
        sums = [[a / size for a in part] for size, part in filled]
        count = len(filled)
    else:
        count = sum(map(len, batches))
    total = [0.0] * len(weights)
    for part in sums:
        total = [a + b for a, b in zip(total, part, strict=True)]
    mean = [a / count for a in total]
    for at in range(problem.trained, len(weights)):
        mean[at] = weights[at] - mean[at]
    mu, eta = (top / bottom for top, bottom in (problem.momentum, problem.learning_rate))
    after = [mu * v + g for v, g in zip(momentum, mean, strict=True)]
    return [w - eta * v for w, v in zip(weights, after, strict=True)], after
