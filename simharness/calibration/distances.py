"""How far two measurements are apart. Every distance is symmetric and 0 or 1 (as its docstring says) between equals."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import msgspec

PERCENTILES: Final = (50, 90, 99)
"""The percentiles that §11.3 names."""


class Distribution(msgspec.Struct, frozen=True):
    """A weighted sample, kept as its percentiles 0 to 100 (nearest rank: the least value with that much weight at or below it)."""

    count: int
    percentiles: tuple[float, ...]

    def at(self, percent: int) -> float:
        """Return a percentile, from 0 (least) to 100 (greatest)."""
        return self.percentiles[percent]


def distribution(values: Sequence[float], weights: Sequence[float] | None = None) -> Distribution:
    """Summarise a sample that is not empty; without weights every value counts alike."""
    pairs = sorted(zip(values, [1.0] * len(values) if weights is None else weights, strict=True))
    total = sum(weight for _, weight in pairs)
    found: list[float] = []
    reached, index = pairs[0][1], 0
    for percent in range(100):
        while reached < total * percent / 100 and index < len(pairs) - 1:
            index += 1
            reached += pairs[index][1]
        found.append(pairs[index][0])
    found.append(pairs[-1][0])
    return Distribution(len(pairs), tuple(found))


def median(values: Sequence[float]) -> float:
    """Return the middle of a sample that is not empty, the mean of both middles if there are two."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ratio(a: float, b: float) -> float:
    """Return the larger over the smaller of two figures: 1 if equal, infinite if one of them alone is 0 or the signs differ."""
    if a == b:
        return 1.0
    if a == 0 or b == 0 or (a < 0) != (b < 0):
        return inf
    return max(abs(a), abs(b)) / min(abs(a), abs(b))


def quantile_ratio(a: Distribution, b: Distribution) -> float:
    """Return the largest `ratio` between the two at p50, p90 and p99; 1 if all three agree."""
    return max(ratio(a.at(percent), b.at(percent)) for percent in PERCENTILES)


def total_variation(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """Return half the sum of |share in a - share in b| over all categories: 0 if alike, 1 if nothing is common or one is empty."""
    total_a, total_b = sum(a.values()), sum(b.values())
    if not total_a or not total_b:
        return float(total_a != total_b)
    names = sorted({**a, **b})
    return sum(abs(a.get(name, 0) / total_a - b.get(name, 0) / total_b) for name in names) / 2
