"""The phase tables are complete: every pair of phase and input is decided, once (style, section 3)."""

from itertools import product

import pytest

from simharness.systems.training.paramserver import (
    SERVED,
    SERVED_IGNORED,
    ServedAct,
    ServedInput,
    ServedPhase,
    ServedWorker,
)
from simharness.systems.training.phases import IGNORED, TABLE, Act, Input, Phase
from simharness.systems.training.ring import RingWorker
from tests.systems.training.jobs import job
from tests.systems.training.world import World


@pytest.mark.parametrize(("phase", "what"), list(product(Phase, Input)))
def test_every_pair_of_the_ring_is_decided(phase: Phase, what: Input) -> None:
    """A pair is a transition or is listed as ignored: never both, never neither."""
    assert ((phase, what) in TABLE) != ((phase, what) in IGNORED)


@pytest.mark.parametrize(("phase", "what"), list(product(ServedPhase, ServedInput)))
def test_every_pair_of_the_server_is_decided(phase: ServedPhase, what: ServedInput) -> None:
    """The same for the worker of a parameter server."""
    assert ((phase, what) in SERVED) != ((phase, what) in SERVED_IGNORED)


def test_every_effect_has_a_method_and_a_row() -> None:
    """No act is without a method, and none is unused."""
    world = World(job(2)), World(job(2, strategy="ps"))
    ring, served = (each.processes["w00"] for each in world)
    assert isinstance(ring, RingWorker)
    assert isinstance(served, ServedWorker)
    assert set(Act) == {act for _, act in TABLE.values()}
    assert set(ServedAct) == {act for _, act in SERVED.values()}
    assert len({act for _, act in ring._rows.values()}) == len(Act)
    assert len({act for _, act in served._rows.values()}) == len(ServedAct)
