"""What is trained on what: the problem as a scenario states it, with the samples, the start and the order that its streams draw.

The draws follow the description of the stream `shared("training", ...)` alone (training design, sections 3 and 4), not production's
code; a test compares the two. Features are integers over 2**10, targets and starting parameters integers over 2**16.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple

from simharness.core.streams import Root, Stream

ModelName = Literal["linear", "sqhinge", "mlp"]

FEATURE_BITS: Final = 10
TARGET_BITS: Final = 16
_LIMIT: Final = 1 << FEATURE_BITS
_NOISE: Final = 3000
SYSTEM: Final = "training"


class Problem(NamedTuple):
    """Model, optimiser and data. Rates are (numerator, denominator)."""

    model: ModelName
    features: int
    hidden: int
    learning_rate: tuple[int, int]
    momentum: tuple[int, int]
    track_stats: bool
    rows: tuple[tuple[int, ...], ...]
    """Features of each sample, over 2**10."""
    targets: tuple[int, ...]
    """Target of each sample, over 2**16."""
    start: tuple[int, ...]
    """Parameters of state 0, statistics included, over 2**16."""

    @property
    def trained(self) -> int:
        """How many entries of the parameter vector have a gradient: all but the running statistics."""
        return trained(self.model, self.features, self.hidden)


def trained(model: str, features: int, hidden: int) -> int:
    """Return P, the number of trained parameters."""
    return features + 1 if model != "mlp" else hidden * (features + 2) + 1


def problem_of(config: Mapping[str, Any], seed: int) -> Problem:
    """Return the problem that a worker's resolved `kind_config` states, under the scenario's seed."""
    model, features, hidden = config["model"], config["features"], config.get("hidden", 0)
    root = Root(seed)
    data = config.get("data")
    if data:
        rows, targets = tuple(map(tuple, data["features"])), tuple(data["targets"])
    else:
        rows, targets = _draw(root.system(SYSTEM, "data"), model, features, config["samples"])
    track = bool(config.get("track_stats", False))
    start = _start(config, root, model, trained(model, features, hidden))
    return Problem(
        model=model,
        features=features,
        hidden=hidden,
        learning_rate=tuple(config["learning_rate"]),
        momentum=tuple(config["momentum"]),
        track_stats=track,
        rows=rows,
        targets=targets,
        start=start + (0,) * (2 * features if track else 0),
    )


def _grid(stream: Stream) -> int:
    return stream.below(2 * _LIMIT + 1) - _LIMIT


def _draw(
    stream: Stream, model: str, features: int, samples: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Draw the teacher, then each sample's features and its noise."""
    teacher = [_grid(stream) for _ in range(features + 1)]
    rows, targets = [], []
    for _ in range(samples):
        row = tuple([_grid(stream) for _ in range(features)])
        exact = sum(a * b for a, b in zip(teacher, (*row, _LIMIT), strict=True))
        target = (exact >> 2 * FEATURE_BITS - TARGET_BITS) + stream.below(2 * _NOISE + 1) - _NOISE
        rows.append(row)
        targets.append(target if model != "sqhinge" else 1 << TARGET_BITS if target >= 0 else -1 << TARGET_BITS)
    return tuple(rows), tuple(targets)


def _start(config: Mapping[str, Any], root: Root, model: str, count: int) -> tuple[int, ...]:
    given: Sequence[int] | None = config.get("initial_weights")
    if given:
        return tuple(given)
    if config.get("init", "zeros" if model != "mlp" else "grid") == "zeros":
        return (0,) * count
    stream = root.system(SYSTEM, "init")
    return tuple([_grid(stream) << TARGET_BITS - FEATURE_BITS for _ in range(count)])


def shards(sizes: Sequence[int]) -> tuple[range, ...]:
    """Return the samples of each worker, in order of worker ids: consecutive runs of the given sizes."""
    ends = list(accumulate(sizes))
    return tuple(range(end - size, end) for size, end in zip(sizes, ends, strict=True))


def permutation(seed: int, epoch: int, owner: str, samples: Sequence[int]) -> list[int]:
    """Return the order of an epoch: Fisher-Yates over the shard of `owner`, or over all samples for `*` (policy `reshard`)."""
    order = list(samples)
    stream = Root(seed).system(SYSTEM, f"perm/{epoch}/{owner}")
    for last in range(len(order) - 1, 0, -1):
        chosen = stream.below(last + 1)
        order[last], order[chosen] = order[chosen], order[last]
    return order
