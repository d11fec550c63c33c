"""Simulated runs against live runs of the same scenario: what is allowed follows from the spread of the live repeats."""

import tomllib
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

import msgspec

from simharness.calibration.compare import Comparison, Row, Verdict, against_runs
from simharness.calibration.corpus import SetTolerance
from simharness.calibration.distances import PERCENTILES, Distribution, median
from simharness.calibration.metrics import Metrics, family_of
from simharness.contracts.mutations import PeerKill
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_S

FILE: Final = "live_tolerances.toml"
"""The checked-in tolerances of live pairs, beside this module."""

LIVE: Final = "live"
LEAST_REPEATS: Final = 3
"""Less shows no spread."""

_HOPS: Final = {"probe.rtt_ms": 2}
"""How many hops a time in milliseconds consists of; anything else is one."""

_COUNTS: Final = ("message.count.", "probe.timed_out.", "gossip.receipts.", "events.total.")
"""Counts of what may not happen at all; a run that has no such figure has none of them."""


_LAST_WORDS: Final = (
    "Of the instant in which it is killed, a simulated peer has events of its links; a process that is killed has none."
)


class Floors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is allowed even if all live repeats agree."""

    seconds_in_ticks: float
    milliseconds: float
    bytes: float
    messages: float


class LiveTolerance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tolerance file of live pairs."""

    spread: float
    floors: Floors
    report: dict[str, str]
    """Prefix of a metric that is not judged -> why."""


class Band(NamedTuple):
    """What is allowed of one figure."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


def read_live_tolerance(text: str, file: str) -> LiveTolerance:
    """Read a tolerance file of live pairs.

    Raises:
        InputError: If it is malformed.
    """
    try:
        return msgspec.convert(tomllib.loads(text), LiveTolerance)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(file=file, field="(root)", rule=str(error)) from None


def band(repeats: Sequence[float], spread: float, floor: float) -> Band:
    """Return the range of the repeats, wider on both sides by `spread` times itself and by the floor."""
    low, high = min(repeats), max(repeats)
    margin = spread * (high - low) + floor
    return Band(low - margin, high + margin)


def against_live(
    name: str, ours: Sequence[Metrics], theirs: Sequence[Metrics], scenario: Scenario, tolerance: LiveTolerance
) -> Comparison:
    """Compare simulated runs with live ones by every metric that either side has.

    numbers: the median of ours must lie in the `band` of the live repeats.
    distributions: so must the median of each percentile of §11.3; of sizes, where its rank may be off by the floor of messages.
    counts: `total_variation` between the sums, at most `1 + spread` times the largest distance of a live repeat from their sum.
    labels: what most runs of ours show must be among what live repeats show.
    A metric that ours never have, or fewer than three live repeats, is "no figure", unless it is a count, which then is 0.
    """
    floor_of = _Floor(scenario, tolerance.floors)
    rows = [
        _number_row(key, ours, theirs, tolerance.spread, floor_of(key)) for key in _keys("numbers", [*ours, *theirs])
    ]
    rows += [
        _distribution_row(key, ours, theirs, tolerance.spread, floor_of)
        for key in _keys("distributions", [*ours, *theirs])
    ]
    shares = SetTolerance(spread=1 + tolerance.spread, ratio=1, total_variation=0, reason="")
    rows += against_runs(name, [*map(_rest, ours)], [*map(_rest, theirs)], shares, reference=LIVE).rows
    report = tolerance.report | {
        f"events.{what}.{mutation.peer}": _LAST_WORDS
        for mutation in scenario.mutations
        if isinstance(mutation, PeerKill)
        for what in ("times_s", "total")
    }
    return Comparison(name=name, reference=LIVE, rows=tuple(_judged(row, report) for row in rows))


class _Floor:
    """What is allowed of a metric even if all live repeats agree, by its unit."""

    def __init__(self, scenario: Scenario, floors: Floors) -> None:
        ticks_ns = [scenario.tick_period_ns(peer) for peer in scenario.peers]
        self._tick_s = floors.seconds_in_ticks * max(ticks_ns) / NS_PER_S
        self._share = self._tick_s * NS_PER_S / scenario.duration_ns
        self._messages = floors.messages * len(scenario.peers)
        self._floors = floors

    def __call__(self, metric: str) -> float:
        if metric.startswith(("events.times_s.", "swim.detection")) or metric.endswith("_s"):
            return self._tick_s
        if metric.endswith("_ms"):
            return self._floors.milliseconds * _HOPS.get(metric, 1)
        if metric.startswith(("message.size", "relay.queue_depth.")):
            return self._floors.bytes
        if metric.startswith(("message.", "cache.hit", "events.total.")):
            return self._messages
        return self._share if metric.startswith(("swim.alive_fraction.", "swim.dead_share.")) else 0.0

    def ranks(self, metric: str, count: int) -> int:
        """Return by how many percent of the sample the rank of a percentile is unknown."""
        return ceil(100 * self._messages / count) if metric.startswith("message.size.") else 0


def _keys(field: str, runs: Sequence[Metrics]) -> list[str]:
    return sorted({key: None for metrics in runs for key in getattr(metrics, field)})


def _rest(metrics: Metrics) -> Metrics:
    return msgspec.structs.replace(metrics, numbers={}, distributions={}, paths={})


def _judged(row: Row, report: Mapping[str, str]) -> Row:
    """Take a row out of the judgement if its metric is only shown."""
    why = next((reason for prefix, reason in report.items() if row.metric.startswith(prefix)), None)
    return row if why is None else msgspec.structs.replace(row, verdict=Verdict.REPORT_ONLY, allowed="", note=why)


def _row(key: str, ours: str, theirs: str, judged: Sequence[tuple[float, Band]]) -> Row:
    """Return a row of which every value must lie in its band; without any there is no figure."""
    inside = all(value in allowed for value, allowed in judged)
    verdict = (Verdict.PASS if inside else Verdict.FAIL) if judged else Verdict.NO_FIGURE
    return Row(
        metric=key,
        family=family_of(key),
        ours=ours,
        theirs=theirs,
        allowed=" / ".join(f"{_text(allowed.low)} to {_text(allowed.high)}" for _, allowed in judged),
        verdict=verdict,
        note="the range of the live repeats, widened by itself and a floor"
        if judged
        else "one side never has it, or too few live repeats to show a spread",
    )


def _number_row(key: str, ours: Sequence[Metrics], theirs: Sequence[Metrics], spread: float, floor: float) -> Row:
    counted = key.startswith(_COUNTS)
    mine, live = (
        [metrics.numbers.get(key, 0) for metrics in side if counted or key in metrics.numbers]
        for side in (ours, theirs)
    )
    judged = [(median(mine), band(live, spread, floor))] if mine and len(live) >= LEAST_REPEATS else []
    return _row(key, _range(mine), _range(live), judged)


def _distribution_row(
    key: str, ours: Sequence[Metrics], theirs: Sequence[Metrics], spread: float, floor_of: _Floor
) -> Row:
    mine, live = (
        [metrics.distributions[key] for metrics in side if key in metrics.distributions] for side in (ours, theirs)
    )
    judged = [
        (_middle(mine, percent), _band_at(live, percent, spread, floor_of, key))
        for percent in (PERCENTILES if mine and len(live) >= LEAST_REPEATS else ())
    ]
    return _row(key, _percentiles(mine), _percentiles(live), judged)


def _band_at(live: Sequence[Distribution], percent: int, spread: float, floor_of: _Floor, key: str) -> Band:
    """Return the band of one percentile, from the least rank that it may have to the greatest."""
    low, high = (
        band([_at(item, percent + sign * floor_of.ranks(key, item.count)) for item in live], spread, floor_of(key))
        for sign in (-1, 1)
    )
    return Band(low.low, high.high)


def _at(item: Distribution, percent: int) -> float:
    return item.at(min(max(0, percent), 100))


def _middle(side: Sequence[Distribution], percent: int) -> float:
    return median([item.at(percent) for item in side])


def _percentiles(side: Sequence[Distribution]) -> str:
    return " / ".join(_text(_middle(side, percent)) for percent in PERCENTILES) if side else "-"


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    low, high = min(values), max(values)
    return _text(low) if low == high else f"{_text(median(values))} ({_text(low)} to {_text(high)})"


def _text(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"  # noqa: PLR2004  # four digits either way
