"""Any seed of the job supervisor's world is clean. A seed does not shrink, since it only feeds hashes; its schedule does."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.bundle.places import put_file
from simharness.stateful import session
from simharness.supervisor.direct import run
from simharness.supervisor.minimise import minimise, regression
from simharness.supervisor.params import SHAPES, Shape

BUDGET = 60


def test_any_seed_is_clean() -> None:
    """No invariant breaks, and the job comes to its end; a failing seed is minimised and written down with its replay command."""

    @settings(**session.current().options.profile.options(BUDGET))
    @given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from(SHAPES))
    def holds(seed: int, shape: Shape) -> None:
        found = run(seed, shape)
        if found.violated is not None:
            raise AssertionError(_report(seed, shape))

    holds()


def _report(seed: int, shape: Shape) -> str:
    """Write the regression file of a failing seed; return what to say about it."""
    options = session.current().options
    found = run(seed, shape, keep=True)
    small = minimise(found)
    name, text = regression(small)
    place = Path(options.directory, options.artefacts, "supervisor", name)
    place.parent.mkdir(parents=True, exist_ok=True)
    put_file(place, text.encode())
    return (
        f"invariant {found.violated}: {found.message}\n{small.before} entries, minimised to {small.size}: {place}\n"
        f"simharness supervisor batch --seed {seed} --shape {shape} --trace"
    )
