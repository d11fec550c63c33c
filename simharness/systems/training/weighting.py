"""The weighting by samples: what a worker sends for its batch, and what the sum of all is divided by.

Workers exchange sums and counts, never means: a mean cannot be re-weighted later (design, T1).
"""

from collections.abc import Sequence

from simharness.systems.training.config import TrainConfig, TrainingDefect
from simharness.systems.training.kernel import BYTES, divide, rounded
from simharness.systems.training.plan import Member
from simharness.systems.training.wire import Contribution


class Weighting:
    """Of one process. It remembers the first divisor, which only OLD_DIVISOR uses again."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._first: int | None = None

    def outgoing(self, sums: bytes, count: int) -> bytes:
        """Return what travels for a gradient sum of `count` samples: the sum."""
        defects = self._config.defects
        if not defects or not count:
            return sums
        if TrainingDefect.UNWEIGHTED_MEAN in defects:  # a mean travels; `divisors` makes a mean of means of it
            sums = divide(sums, count)
        if TrainingDefect.STATS_MEAN_OF_MEANS in defects:  # the same for the running statistics alone
            cut = BYTES * self._config.trained
            sums = sums[:cut] + divide(sums[cut:], count)
        if TrainingDefect.FLOAT32_WIRE in defects:  # compressed without telling
            sums = rounded(sums)
        return sums

    def divisors(self, contributions: Sequence[Contribution], members: Sequence[Member]) -> tuple[int, int]:
        """Return the divisor of the gradient and that of the statistics: how many samples contributed, for both."""
        defects = self._config.defects
        count = sum([each.samples for each in contributions]) or 1  # only a defect leads to an empty step
        if not defects:
            return count, count
        gradient = stats = count
        means = max(1, sum(1 for each in contributions if each.samples))
        if TrainingDefect.UNWEIGHTED_MEAN in defects:  # see `outgoing`
            gradient = stats = means
        if TrainingDefect.STATS_MEAN_OF_MEANS in defects:  # see `outgoing`
            stats = means
        if TrainingDefect.PLANNED_DIVISOR in defects:  # a full window, whatever came
            gradient = stats = sum([self._config.batch_sizes[member.worker] for member in members])
        if self._first is None:
            self._first = gradient
        if TrainingDefect.OLD_DIVISOR in defects:  # fixed at the first step
            gradient = stats = self._first
        return gradient, stats
