"""Runs machines and pytest sessions for the tests of this room."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from hypothesis import seed as with_seed

from simharness.stateful import session
from simharness.stateful.failures import PropertyFailedError
from simharness.stateful.profiles import DEV
from simharness.stateful.session import Ledger, Options

REPO = Path(__file__).parents[2]


def explore(machine, *, profile=DEV, **options) -> tuple[Ledger, PropertyFailedError | None]:
    """Run a machine to the end of its budget under a session of its own."""
    chosen = Options(profile=profile, **{"seed": 0, **options})
    with session.using(chosen) as own:
        with_seed(chosen.seed)(machine)
        try:
            machine.TestCase("runTest").runTest()
        except PropertyFailedError as error:
            return own.ledger(machine.name), error
        return own.ledger(machine.name), None


def pytest_command(*args: str) -> list[str]:
    """Return the command line of a pytest session with the plugin, which an installed package brings by itself."""
    installed = bool(entry_points(group="pytest11", name="simharness"))
    named = () if installed else ("-p", "simharness.stateful.plugin")
    return [sys.executable, "-m", "pytest", *named, "-p", "no:cacheprovider", *args]


def run_pytest(project: Path, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project that knows the package and nothing of this repository's conftest."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "HYPOTHESIS"))}
    return subprocess.run(
        pytest_command(*args),
        cwd=project,
        env={**clean, "PYTHONPATH": str(REPO), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def project(path: Path, **files: str) -> Path:
    """Write a user's project: an empty configuration and the given modules."""
    path.mkdir(parents=True, exist_ok=True)
    path.joinpath("pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        path.joinpath(f"{name}.py").write_text(text)
    return path


STREAM_PROPERTY = """
from simharness.contracts.assertions import EventCount
from simharness.stateful import LATENCY_SPIKE, LOSS_BURST, SimulationMachine, ints, meshes, swarm
from tests.stateful.toy import StreamKind


class NoGap(SimulationMachine):
    scenarios = meshes(kind=StreamKind(), peers=ints(2, 5))
    faults = swarm(LOSS_BURST, LATENCY_SPIKE)
    assertions = (EventCount(event_kind="Gap", max=0),)
    max_duration_ms = 5_000
    max_steps = 12
    budget = 40


TestNoGap = NoGap.TestCase
"""
