"""Numbers for scenario spaces: explicit pools of at most `POOL` values, simplest first.

A pool's index is what Hypothesis draws and shrinks. Indices below 100 are never replaced by constants that Hypothesis finds in
imported modules, so no import can steer a draw.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

POOL: Final = 64
"""Most values that one draw chooses from."""

Number = int | st.SearchStrategy[int]
"""A fixed number or a strategy of numbers."""


def ints(low: int, high: int, *, step: int = 1) -> st.SearchStrategy[int]:
    """Return integers from `low` to `high`, both included, that shrink to `low` and then to round numbers.

    Args:
        low: Smallest value, and the simplest.
        high: Largest value.
        step: Distance between values, counted from `low`; the largest value is the last one not above `high`.

    Raises:
        ValueError: If the range is empty or the step is not positive.
    """
    if step < 1 or low > high:
        raise ValueError(f"ints({low}, {high}, step={step}) holds no value")
    return st.sampled_from(pool(low, high, step=step))


def pool(low: int, high: int, *, step: int = 1) -> tuple[int, ...]:
    """Return what `ints` draws from: `low`, the round numbers by roundness, and the other boundary values."""
    values = range(low, high + 1, step)
    edges = [value for value in (values[-1], low + step, values[-1] - step) if value in values]
    inner = _roundest(values) if values[POOL:] else values
    return tuple(dict.fromkeys((low, *sorted(inner, key=_complexity), *edges)))


def _complexity(value: int) -> tuple[int, int]:
    """Order numbers by significant decimal digits, then by size."""
    return len(str(abs(value)).rstrip("0")), abs(value)


def _roundest(values: range) -> list[int]:
    """Return the roundest of many values, evenly spread, and leave room in the pool for the edges."""
    room = POOL - 4
    unit = 10 ** len(str(values[-1] - values[0]))
    found: list[int] = []
    while len(found) < room:
        finer = [value for value in _near_multiples(values, unit) if value not in found]
        thin = -(-len(finer) // (room - len(found)))
        found += finer[:: max(1, thin)]
        unit = max(1, unit // 10)
    return found


def _near_multiples(values: range, unit: int) -> list[int]:
    """Return, for every multiple of `unit` in the range, the value at or just below it; at most a few times the pool."""
    first = -(-values[0] // unit) * unit
    multiples = range(first, values[-1] + 1, unit)
    stride = max(1, len(multiples) // (4 * POOL))
    return list(dict.fromkeys(values[(value - values[0]) // values.step] for value in multiples[::stride]))


def value_of(draw: st.DrawFn, number: Number) -> int:
    """Draw a number, or return it if it is fixed."""
    return number if isinstance(number, int) else draw(number)


def pick(items: Sequence[T]) -> st.SearchStrategy[T]:
    """Return one of `items`, shrinking to the first; a long sequence is drawn in two steps."""
    if len(items) <= POOL:
        return st.sampled_from(items)
    blocks = [items[start : start + POOL] for start in range(0, len(items), POOL)]
    return pick(blocks).flatmap(pick)


def seeds() -> st.SearchStrategy[int]:
    """Return scenario seeds: 0 first, then small ones. Two draws of a base-64 digit each."""
    digit = st.sampled_from(range(POOL))
    return st.builds(lambda high, low: high * POOL + low, digit, digit)
