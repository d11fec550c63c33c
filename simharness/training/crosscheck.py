"""Our arithmetic against real DistributedDataParallel, case by case (training design, section 21).

What a case must give is computed exactly, by the reference route; what PyTorch gave and what our kernel gives must both lie within
the derived tolerance of it (12.5), so within twice the tolerance of each other. A defect is right where PyTorch has it too.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from simharness.assertions.training_oracle.ieee import Vector, decode
from simharness.assertions.training_oracle.problem import FEATURE_BITS, TARGET_BITS, Problem, problem_of
from simharness.assertions.training_oracle.reference import Oracle, State
from simharness.core.errors import InputError
from simharness.systems.training.config import TrainConfig, TrainingDefect
from simharness.systems.training.data import Data
from simharness.systems.training.kernel import Kernel, add, zeros
from simharness.systems.training.plan import Member
from simharness.systems.training.table import config_from, resolve
from simharness.systems.training.weighting import Weighting
from simharness.systems.training.wire import Contribution
from simharness.training.ddp import CASES, WORLD, Inputs, Seen, hexed, numbers

COMMAND: Final = "simharness training crosscheck --out tests/training/data/ddp.json"
_SEED: Final = 21
_FEATURES: Final = 5
_RATE: Final = (1, 16)
FIRST: Final = (tuple(range(8)), tuple(range(8, 11)))
_SECOND: Final = (tuple(range(11, 16)), ())
_SAMPLES: Final = 16
FINE: Final = 128
"""Bits behind the point: bounds are rounded up to whole units, which must be small beside them. The weights alone have 16."""

_U: Final = Fraction(1, 1 << 53)
_ROUNDINGS: Final = 4
"""By which a route may round more often than 12.5 counts: times world, over n, over world, plus world means."""

_DEFECTS: Final[dict[str, tuple[TrainingDefect, ...]]] = {
    "mean": (TrainingDefect.UNWEIGHTED_MEAN,),
    "sum": (),
    "join_initial": (TrainingDefect.UNWEIGHTED_MEAN, TrainingDefect.OLD_DIVISOR),
    "join_active": (TrainingDefect.UNWEIGHTED_MEAN,),
}
"""Which of our defects computes what PyTorch computes. With one rank left, the mean of the means is the mean again."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A run of PyTorch as it is checked in."""

    torch: str
    command: str
    inputs: Inputs
    outputs: tuple[Seen, ...]


class Check(NamedTuple):
    """One step of one case."""

    case: str
    step: int
    ours: str
    """The defects that our kernel had switched on."""
    same_bits: bool
    """Whether all ranks that took part held the same bits."""
    difference: float
    """Largest, between PyTorch and our kernel."""
    tolerance: float
    """Smallest, of a coordinate."""
    within: bool
    """Whether both lie within the tolerance of the exact result, in every coordinate."""
    from_right: float
    """Largest distance of PyTorch's result from the mean over the union."""

    @property
    def holds(self) -> bool:
        """Whether the case came out as it must."""
        return self.same_bits and self.within


def inputs() -> Inputs:
    """Return what both sides compute on."""
    problem = _problem()
    features, targets = float(1 << FEATURE_BITS), float(1 << TARGET_BITS)
    joined = (FIRST, _SECOND)
    return Inputs(
        rows=tuple([hexed([value / features for value in row]) for row in problem.rows]),
        targets=hexed([value / targets for value in problem.targets]),
        weights=hexed([value / targets for value in problem.start]),
        learning_rate=hexed([_RATE[0] / _RATE[1]]),
        batches={case: joined if case.startswith("join") else (FIRST,) for case in CASES},
    )


def checks(recorded: Recorded) -> tuple[Check, ...]:
    """Compare a run of PyTorch with our kernel and with the exact result.

    Raises:
        InputError: If it is a run on other inputs, or a rank's vectors are none.
    """
    if recorded.inputs != inputs():
        raise InputError(file="(recorded)", field="inputs", rule="are not those of this version; record them again")
    _check_outputs(recorded)
    outputs: dict[tuple[str, int], list[Seen]] = {}
    for each in recorded.outputs:
        outputs.setdefault((each.case, each.step), []).append(each)
    found = []
    for case, steps in recorded.inputs.batches.items():
        weights, weighting = recorded.inputs.weights, Weighting(_config(_DEFECTS[case]))
        for step, batches in enumerate(steps):
            ranks = outputs[case, step]
            found.append(_check(case, step, weights, batches, ranks, weighting))
            weights = ranks[0].weights
    return tuple(found)


def _check_outputs(recorded: Recorded) -> None:
    """Check that every step is there, and that every vector is as many numbers as the weights.

    Raises:
        InputError: If one is not.
    """
    length = len(recorded.inputs.weights)
    for place, each in enumerate(recorded.outputs):
        for name, text in (("gradient", each.gradient), ("weights", each.weights)):
            if len(text) != length or decode(text) is None:
                rule = f"is not the hex of {length // 16} finite numbers of 64 bits"
                raise InputError(file="(recorded)", field=f"outputs[{place}].{name}", rule=rule)
    there = [(each.case, each.step) for each in recorded.outputs]
    for case, steps in recorded.inputs.batches.items():
        for step in range(len(steps)):
            if (case, step) not in there:
                raise InputError(file="(recorded)", field="outputs", rule=f"lack step {step} of the case {case}")


def _check(
    case: str,
    step: int,
    weights: str,
    batches: Sequence[Sequence[int]],
    ranks: Sequence[Seen],
    weighting: Weighting,
) -> Check:
    theirs, ours = numbers(ranks[0].gradient), numbers(_ours(weights, batches, weighting).hex())
    exact, tolerance = exact_of(case, weights, batches)
    right, _ = exact_of("sum", weights, batches)
    sides = [[Fraction(value) for value in side] for side in (theirs, ours)]
    return Check(
        case=case,
        step=step,
        ours=" ".join(_DEFECTS[case]) or "clean",
        same_bits=len({(each.gradient, each.weights) for each in ranks}) == 1 and len(ranks) == sum(map(bool, batches)),
        difference=max(abs(a - b) for a, b in zip(theirs, ours, strict=True)),
        tolerance=float(min(tolerance)),
        within=all(abs(a - b) <= bound for side in sides for a, b, bound in zip(side, exact, tolerance, strict=True)),
        from_right=float(max(abs(a - b) for a, b in zip(sides[0], right, strict=True))),
    )


def exact_of(
    case: str, weights: str, batches: Sequence[Sequence[int]], *, fine: int = FINE
) -> tuple[list[Fraction], list[Fraction]]:
    """Return the gradient that a case must give, and each coordinate's tolerance, rounded up to units of 2**-`fine` at most."""
    if case == "sum":
        return _mean_of(weights, batches, fine)
    means = [_mean_of(weights, (batch,), fine) for batch in batches if batch]
    divisor = WORLD if case == "join_initial" else len(means)
    exact = [sum(column, Fraction()) / divisor for column in zip(*(mean for mean, _ in means), strict=True)]
    sums = [sum(map(abs, column), Fraction()) for column in zip(*(mean for mean, _ in means), strict=True)]
    errors = [sum(column, Fraction()) / divisor for column in zip(*(bound for _, bound in means), strict=True)]
    return exact, [bound + _ROUNDINGS * _U * size for bound, size in zip(errors, sums, strict=True)]


def _mean_of(weights: str, batches: Sequence[Sequence[int]], fine: int) -> tuple[list[Fraction], list[Fraction]]:
    """Return the exact mean gradient of the union, and the tolerance of 12.5. Without momentum v' is the gradient."""
    start = decode(weights)
    assert start is not None, "our own inputs, or what a run of PyTorch gave"
    still = Vector((0,) * len(start.values), 0)
    reference = Oracle(_problem()).reference(State(start, still), [batch for batch in batches if batch], fine)
    unit = reference.multiple << reference.bits
    exact = [Fraction(value, unit) for value in reference.momentum]
    bounds = [Fraction(value, unit) for value in reference.momentum_tolerance]
    return exact, [bound + _ROUNDINGS * _U * abs(value) for bound, value in zip(bounds, exact, strict=True)]


def _ours(weights: str, batches: Sequence[Sequence[int]], weighting: Weighting) -> bytes:
    """Return what our kernel makes of the step, weighted as the case's defects have it."""
    config, problem = _config(()), _problem()
    kernel = Kernel(config, Data(problem.rows, problem.targets))
    total = zeros(config.entries)
    for batch in batches:
        sums = kernel.gradient_sum(bytes.fromhex(weights), batch, scale=1)
        total = add(total, weighting.outgoing(sums, len(batch)))
    contributions = [Contribution(rank, 1, 1, len(batch)) for rank, batch in enumerate(batches)]
    divisor, stats = weighting.divisors(contributions, [Member(rank, 1) for rank in range(WORLD)])
    return kernel.mean(total, scale=1, divisor=divisor, stats_divisor=stats)


def _table(defects: Sequence[str]) -> dict[str, object]:
    return {
        "strategy": "ring",
        "model": "linear",
        "features": _FEATURES,
        "samples": _SAMPLES,
        "shard_sizes": [11, 5],
        "batch_size": 8,
        "learning_rate": list(_RATE),
        "momentum": [0, 1],
        "init": "grid",
        "defects": list(defects),
    }


def _problem() -> Problem:
    return problem_of(_table(()), _SEED)


def _config(defects: Sequence[TrainingDefect]) -> TrainConfig:
    table, wrong = resolve(_table(defects), tick_period_ns=10_000_000, workers=WORLD)
    assert not wrong, wrong
    return config_from(table, workers=("w0", "w1"), hub="hub", tick_period_ns=10_000_000)
