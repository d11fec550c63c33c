"""Every defect of the table is found by the property that exists for it (ruling K1). Outside the default run: marker `knobs`."""

import tomllib
from pathlib import Path

import pytest

from simharness.stateful.knobs import SWIM, Knob, exemptions_from, hunt
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
