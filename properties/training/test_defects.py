"""Every defect of training is caught by an invariant that its table names (ruling K1). Outside the default run: marker `knobs`."""

import tomllib
from pathlib import Path
from typing import Final

import pytest

from simharness.hosts.kinds import Kinds
from simharness.stateful.knobs import exemptions_from
from simharness.systems.training.config import TrainingDefect
from simharness.training.breaking import INVARIANTS
from simharness.training.directed import DIRECTED
from simharness.training.knobs import ABORT, TRAINING, TrainingKnob, fired_in, hunt, shortcomings, smallest

KINDS: Final = Kinds()
EXEMPTIONS_FILE: Final = Path(__file__).parent.with_name("exemptions.toml")
EXEMPT: Final = [
    one.defect
    for one in exemptions_from(tomllib.loads(EXEMPTIONS_FILE.read_text("utf-8")), str(EXEMPTIONS_FILE))
    if one.system == "training"
]
ALONE: Final = {
    "train_update_matches_reference": ("UNWEIGHTED_MEAN", "ps"),
    "train_replicas_identical": ("RECIPROCAL", "ring"),
    "train_sample_accounting": ("MARK_ALL_CONSUMED", "ps"),
    "train_step_order": ("OLD_CHECKPOINT", "ps"),
    "train_weights": ("REPORT_PLANNED", "ps"),
    "train_provenance": ("OLD_VIEW_PUSH", "ps"),
}
"""Invariant -> a defect, under a strategy, that only it catches."""


def named(knob: TrainingKnob) -> str:
    """A knob as a test id."""
    return f"{knob.defect}-{knob.strategy}"


@pytest.mark.knobs
@pytest.mark.parametrize("knob", TRAINING, ids=named)
def test_an_invariant_catches_it(knob: TrainingKnob) -> None:
    """Guards off: within 200 runs, by an invariant that may."""
    assert shortcomings(hunt(knob, KINDS), exempt=knob.defect in EXEMPT) == ()


@pytest.mark.knobs
@pytest.mark.parametrize("knob", TRAINING, ids=named)
def test_guards_or_invariants_catch_it(knob: TrainingKnob) -> None:
    """Guards on: production aborts, or some invariant fires."""
    assert shortcomings(hunt(knob, KINDS, guards=True), exempt=knob.defect in EXEMPT) == ()


def test_every_defect_has_a_knob() -> None:
    """The closed enum and the table name the same defects, each strategy that has it (G13); nothing is exempt."""
    assert {knob.defect for knob in TRAINING} == {*TrainingDefect}
    assert len({(knob.defect, knob.strategy) for knob in TRAINING}) == len(TRAINING)
    assert EXEMPT == []


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_each_invariant_has_a_defect_of_its_own(invariant: str) -> None:
    """Section 18: a defect that this invariant catches and the other five do not, in the run that kills it."""
    defect, strategy = ALONE[invariant]
    (knob,) = [knob for knob in TRAINING if (knob.defect, knob.strategy) == (defect, strategy)]
    kill = hunt(knob, KINDS, budget=10)
    assert kill.by == invariant
    assert [kind for kind in kill.fired if kind in INVARIANTS] == [invariant]


@pytest.mark.parametrize("defect", DIRECTED)
def test_made_for_one_defect(defect: str) -> None:
    """The first try kills it; the same schedule with the guards on aborts or fires, and without the defect it passes."""
    (knob,) = [knob for knob in TRAINING if knob.defect == defect]
    assert hunt(knob, KINDS, budget=1).killed
    assert hunt(knob, KINDS, guards=True, budget=1).killed
    assert fired_in(DIRECTED[defect]({}), KINDS) == ()


def test_what_is_left_of_a_kill() -> None:
    """The shrunk scenario fails by the same invariant alone, and needs no fault where the defect needs none."""
    (knob,) = [knob for knob in TRAINING if (knob.defect, knob.strategy) == ("PAD_SHORT_BATCH", "ps")]
    kill = hunt(knob, KINDS, budget=5)
    small = smallest(kill, KINDS)
    assert small.mutations == ()
    assert fired_in(small, KINDS) == ("train_weights",)
    assert kill.by != ABORT
