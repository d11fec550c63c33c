"""The samples: integers on a dyadic grid, drawn from a stream that is handed in, or written in the configuration.

Draws, in order: the teacher's features + 1 numbers (bias last), then for each sample its features, then its noise. A number of the
grid is `below(2049) - 1024` over 2**10; the noise is `below(6001) - 3000` over 2**16.
"""

from itertools import accumulate
from typing import Final, NamedTuple, Protocol

from simharness.systems.training.config import FEATURE_BITS, TARGET_BITS, TARGET_ONE, TrainConfig

_ONE: Final = 1 << FEATURE_BITS
_NOISE: Final = 3_000


class Draws(Protocol):
    """A stream of random integers."""

    def below(self, bound: int) -> int:
        """Draw an unbiased integer in [0, bound)."""


class Data(NamedTuple):
    """One row of features over 2**10 and one target over 2**16 a sample."""

    features: tuple[tuple[int, ...], ...]
    targets: tuple[int, ...]


def _grid(draws: Draws) -> int:
    return draws.below(2 * _ONE + 1) - _ONE


def draw_data(draws: Draws, config: TrainConfig) -> Data:
    """Return the samples of a job: a linear teacher's answers with noise, or their signs for `sqhinge`."""
    if config.data is not None:
        return Data(*config.data)
    if config.model == "payload":
        return Data(((),) * config.samples, (0,) * config.samples)
    *slope, bias = [_grid(draws) for _ in range(config.features + 1)]
    features, targets = [], []
    for _ in range(config.samples):
        row = tuple([_grid(draws) for _ in range(config.features)])
        answer = sum([a * b for a, b in zip(slope, row, strict=True)], bias * _ONE)
        target = (answer >> 2 * FEATURE_BITS - TARGET_BITS) + draws.below(2 * _NOISE + 1) - _NOISE
        if config.model == "sqhinge":
            target = TARGET_ONE if target >= 0 else -TARGET_ONE
        features.append(row)
        targets.append(target)
    return Data(tuple(features), tuple(targets))


def draw_start(draws: Draws, config: TrainConfig) -> tuple[int, ...]:
    """Return the parameters of state 0 over 2**16, running statistics (0) included."""
    rest = (0,) * (config.entries - config.trained)
    if config.initial_weights is not None:
        return config.initial_weights + rest
    if config.init == "zeros":
        return (0,) * config.entries
    return tuple([_grid(draws) << TARGET_BITS - FEATURE_BITS for _ in range(config.trained)]) + rest


def shards(sizes: tuple[int, ...]) -> tuple[range, ...]:
    """Return the samples of every worker, by index: consecutive runs of the given sizes."""
    return tuple([range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)])


def shuffled(samples: range, draws: Draws) -> tuple[int, ...]:
    """Return a permutation (Fisher-Yates, from the end)."""
    order = list(samples)
    for last in range(len(order) - 1, 0, -1):
        chosen = draws.below(last + 1)
        order[last], order[chosen] = order[chosen], order[last]
    return tuple(order)
