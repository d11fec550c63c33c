"""The shipped pairs, each run once a session."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from simharness.calibration import corpus
from simharness.calibration.corpus import Reference, Tolerances, read_reference, read_tolerances
from simharness.calibration.pairs import Outcome, calibrate, paired_run
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import load
from tests.tidy.check import ROOT

PLACE: Final = ROOT / "scenarios" / "calibration"
RUNS: Final = tuple(sorted(path.parent.name for path in PLACE.glob("corpus/*/metrics.json")))
PAIRS: Final = tuple(
    sorted(path.stem for path in PLACE.glob("*.toml") if paired_run(path.read_text("utf-8")) is not None)
)
TOLERANCE_FILE: Final = Path(corpus.__file__).with_name(corpus.FILE)
KINDS: Final = Kinds()


@cache
def tolerances() -> Tolerances:
    """The checked-in tolerances."""
    return read_tolerances(TOLERANCE_FILE.read_text("utf-8"), TOLERANCE_FILE.name)


@cache
def reference(run: str) -> Reference:
    """What is published about a captured run."""
    return read_reference(PLACE.joinpath("corpus", run, "metrics.json").read_bytes(), run)


def file_of(pair: str) -> Path:
    """The scenario of a pair."""
    return PLACE / f"{pair}.toml"


@cache
def outcome(pair: str) -> Outcome:
    """A shipped pair, run and compared."""
    run = paired_run(file_of(pair).read_text("utf-8"))
    assert run is not None
    with TemporaryDirectory() as scratch:
        place = Path(scratch) / "bundle"
        return calibrate(load(file_of(pair), KINDS), reference(run), tolerances(), place, KINDS, name=pair)
