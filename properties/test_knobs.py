"""Every defect of the table is found by the property that exists for it (ruling K1). Outside the default run: marker `knobs`."""

import os
import tomllib
from pathlib import Path

import pytest

from simharness.cli.supervisor_pool import tallies
from simharness.stateful.knobs import SWIM, Knob, exemptions_from, hunt
from simharness.supervisor.knobs import SUPERVISOR, SupervisorKnob, shortcomings, task_of
from simharness.supervisor.knobs import hunt as hunt_seeds
from simharness.systems.supervisor.config import SupervisorDefect
from simharness.systems.swim.config import Defect

EXEMPTIONS_FILE = Path(__file__).with_name("exemptions.toml")
EXEMPTIONS = exemptions_from(tomllib.loads(EXEMPTIONS_FILE.read_text("utf-8")), str(EXEMPTIONS_FILE))
EXEMPT = [(one.system, one.defect) for one in EXEMPTIONS]


@pytest.mark.knobs
@pytest.mark.parametrize("knob", SWIM, ids=lambda knob: knob.defect)
def test_defect_is_found(knob: Knob) -> None:
    """Within the property's budget, by the assertion or law that is named, shrunk to what is allowed, with a file that replays."""
    if (knob.system, knob.defect) in EXEMPT:
        pytest.skip("exempt: see exemptions.toml")
    assert hunt(knob).shortcomings() == ()


@pytest.mark.knobs
def test_exempt_defects_pass_clean() -> None:
    """A written exemption stands only as long as the full budget of its property finds nothing."""
    found = [hunt(knob) for knob in SWIM if (knob.system, knob.defect) in EXEMPT]
    assert [one.knob.defect for one in found if one.killed] == []


def test_every_defect_has_a_knob() -> None:
    """The closed enum and the table name the same defects, each once (ruling K1)."""
    assert sorted(knob.defect for knob in SWIM) == sorted(Defect)


@pytest.mark.knobs
@pytest.mark.parametrize("knob", SUPERVISOR, ids=lambda knob: knob.defect)
def test_the_seed_batch_finds_a_defect_of_the_supervisor(knob: SupervisorKnob) -> None:
    """Within its budget of seeds, by an invariant that may; one that is exempt runs its whole budget clean."""
    task = task_of(knob)
    kill = hunt_seeds(knob, tallies(task, task.blocks(), os.cpu_count() or 1, knob.caught_by))
    assert shortcomings(kill, exempt=("supervisor", knob.defect) in EXEMPT) == ()


def test_every_defect_of_the_supervisor_has_a_knob() -> None:
    """The closed enum and the table name the same defects, each once; nothing but an exempt one is caught by nothing."""
    assert sorted(knob.defect for knob in SUPERVISOR) == sorted(SupervisorDefect)
    assert [("supervisor", knob.defect) for knob in SUPERVISOR if not knob.caught_by] == EXEMPT
