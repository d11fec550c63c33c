"""Pools of numbers: what is in them, how they shrink, and that no import steers them."""

import importlib
import sys
from itertools import pairwise

import pytest
from hypothesis import find, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from simharness.stateful.pools import POOL, ints, pick, pool, seeds
from simharness.stateful.swim import swim_meshes

_RANGES = st.tuples(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 1_000)).map(
    lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
)


@given(_RANGES)
def test_a_pool_holds_its_edges_and_stays_small(drawn):
    """Every value lies on the grid; the edges are in; the low end comes first; 64 values are the most."""
    low, high, step = drawn
    values = pool(low, high, step=step)
    last = low + (high - low) // step * step
    assert values[0] == low
    assert len(values) == len(dict.fromkeys(values)) <= POOL
    assert all(low <= value <= last and (value - low) % step == 0 for value in values)
    for edge in (last, low + step, last - step):
        assert edge in values or not low <= edge <= last


@given(st.integers(-500, 500), st.integers(0, POOL - 1))
def test_a_short_range_is_complete(low, length):
    """Up to 64 values nothing is left out."""
    assert sorted(pool(low, low + length)) == list(range(low, low + length + 1))


def test_a_long_range_is_spread_evenly():
    """Between two neighbours of a long pool lies no more than a twentieth of the range."""
    values = sorted(pool(0, 1_000_000))
    assert max(b - a for a, b in pairwise(values)) <= 50_000


@pytest.mark.parametrize(
    ("low", "high", "enough", "expected"),
    [(120, 150, 127, 130), (0, 1_000_000, 340_000, 400_000), (4, 6, 5, 5), (50, 5_000, 60, 100), (7, 7, 0, 7)],
)
def test_shrinks_to_the_low_end_then_to_round_numbers(low, high, enough, expected):
    """The simplest value that is large enough is the roundest one, then the smallest."""
    assert find(ints(low, high), lambda value: value >= enough) == expected
    assert find(ints(low, high), lambda _: True) == low


@pytest.mark.parametrize(("low", "high", "step"), [(2, 1, 1), (0, 5, 0), (0, 5, -1)])
def test_an_empty_range_is_refused(low, high, step):
    """A range without a value, or a step that leads nowhere, is an error where it is written."""
    with pytest.raises(ValueError, match="holds no value"):
        ints(low, high, step=step)


def test_pick_reaches_every_item_of_a_long_sequence():
    """A thousand items are drawn in two steps, first item first."""
    items = [f"p{place:03d}" for place in range(1_000)]
    assert find(pick(items), lambda _: True) == "p000"
    assert find(pick(items), lambda item: item == "p999") == "p999"


def test_seeds_shrink_to_zero():
    """Seed 0 is the simplest; more than four thousand can be drawn."""
    assert find(seeds(), lambda _: True) == 0
    assert find(seeds(), lambda value: value > 4_000) > 4_000


def _stream(strategy, count=60):
    """Return the first examples that one seed gives."""
    drawn = []

    @with_seed(7)
    @settings(max_examples=count, database=None)
    @given(strategy)
    def collect(value):
        drawn.append(value)

    collect()
    return drawn


def test_an_imported_module_steers_no_draw(tmp_path, monkeypatch):
    """Law 2: constants of a freshly imported local module leave the example stream as it is; plain integers they would change."""
    space = swim_meshes(peers=ints(3, 6), latency_ms=ints(1, 5_000), loss_ppm=ints(0, 1_000_000), tick_ms=50)
    name = "module_with_constants"
    _forget_local_modules(name, monkeypatch)  # whatever other tests of this process have imported
    ours, plain = _stream(space), _stream(st.integers(0, 10**9))
    lines = [f"C{value} = {value}" for value in (*range(100, 300), *range(10_000, 900_000, 5_000))]
    tmp_path.joinpath(f"{name}.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    _forget_local_modules(name, monkeypatch)
    monkeypatch.setitem(sys.modules, name, importlib.import_module(name))  # undone after the test
    assert _stream(space) == ours
    assert _stream(st.integers(0, 10**9)) != plain, "the module must have been noticed, or this test shows nothing"


def _forget_local_modules(name, monkeypatch):
    """Let Hypothesis start anew, with the one named module as the project's own; it skips what lies in temporary directories."""
    from hypothesis.internal import constants_ast
    from hypothesis.internal.conjecture import providers

    monkeypatch.setattr(providers, "is_local_module_file", lambda file: name in file)
    monkeypatch.setattr(providers, "_seen_modules", set())
    monkeypatch.setattr(providers, "_sys_modules_len", None)
    monkeypatch.setattr(providers, "_local_constants", constants_ast.Constants(**_sorted_sets()))
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", type(providers.CONSTANTS_CACHE)(1024))


def _sorted_sets():
    from sortedcontainers import SortedSet

    return {kind: SortedSet() for kind in ("integers", "floats", "bytes", "strings")}
