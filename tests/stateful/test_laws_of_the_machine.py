"""The four laws of the machine itself, and the reported cases about seeds, workers and slow machines."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import strategies as st

from simharness.contracts.assertions import EventCount
from simharness.stateful import LOSS_BURST, SimulationMachine, chains, ints, links, meshes, relayed, rings, stars, swarm
from simharness.stateful.faults import FAULTS
from simharness.stateful.topologies import relays
from tests.stateful.running import REPO, STREAM_PROPERTY, explore, project, run_pytest
from tests.stateful.toy import StreamHost, StreamKind

LINK = links(latency_ms=ints(1, 200), jitter_ms=ints(0, 50), loss_ppm=ints(0, 200_000), reorder_ppm=ints(0, 300_000))


class EverythingAtOnce(SimulationMachine):
    """Every topology, every fault, snapshots, a quiet phase; its assertion holds always."""

    scenarios = st.one_of(
        meshes(peers=ints(2, 4), tick_ms=200, link=LINK),
        relayed(peers=ints(2, 4), tick_ms=200, link=LINK, via=relays(egress_bps=ints(500, 50_000), cold_start_ms=40)),
        rings(peers=ints(3, 5), tick_ms=200, link=LINK, snapshot_every_ms=700),
        stars(peers=ints(3, 4), tick_ms=200, link=LINK),
        chains(peers=ints(2, 4), tick_ms=200, link=LINK),
        meshes(kind=StreamKind(), peers=ints(2, 3), tick_ms=200, link=LINK),
        meshes(kind="stage", peers=2, initial_state="cold", config={"name": "s", "address": "x:1"}, tick_ms=200),
    )
    faults = swarm(*FAULTS)
    assertions = (EventCount(event_kind="Nothing", max=0),)
    max_duration_ms = 2_000
    max_steps = 14
    quiet_ms = 500
    budget = 520


def test_law_1_the_file_and_the_machine_have_one_digest():
    """Over at least 500 random examples, each fault kind with an effect, the emitted file gives the machine's own digest."""
    ledger, error = explore(EverythingAtOnce, twice=True)
    assert error is None, error
    assert ledger.reruns == ledger.examples >= 500
    assert [kind for kind in FAULTS if not ledger.counters[kind]] == []
    assert dict(ledger.outcomes) == {"Pass": ledger.examples}


def test_law_1_sees_a_difference(monkeypatch):
    """A file that leaves out one fault is found out: the law is no tautology."""
    import msgspec

    from simharness.stateful import concluding

    real = concluding.emit
    monkeypatch.setattr(concluding, "emit", lambda scenario: real(msgspec.structs.replace(scenario, mutations=())))
    _, error = explore(EverythingAtOnce, twice=True)
    assert error.failure.kind == "nondeterminism"


class NoGap(SimulationMachine):
    scenarios = meshes(kind=StreamKind(), peers=ints(2, 3))
    faults = swarm(LOSS_BURST)
    assertions = (EventCount(event_kind="Gap", max=0),)
    max_duration_ms = 2_000
    max_steps = 6
    budget = 40


def test_law_4_an_earlier_run_changes_nothing():
    """The same seed gives the same minimal file, whatever ran before in the process."""
    first = explore(NoGap, seed=11)[1].failure.toml()
    explore(EverythingAtOnce, profile=_few())
    assert explore(NoGap, seed=11)[1].failure.toml() == first


def _few():
    import msgspec

    from simharness.stateful.profiles import DEV

    return msgspec.structs.replace(DEV, most=10)


def test_case_b07_a_slow_machine_finds_the_same(monkeypatch):
    """HypothesisWorks/hypothesis#892: every call of a host takes a while, and nothing that is found changes."""
    fast_ledger, fast = explore(NoGap, seed=4)
    real = StreamHost.tick

    def slow_tick(self, now_ns):
        time.sleep(0.000_5)
        return real(self, now_ns)

    monkeypatch.setattr(StreamHost, "tick", slow_tick)
    slow_ledger, slow = explore(NoGap, seed=4)
    assert slow.failure == fast.failure
    assert (slow_ledger.examples, slow_ledger.rows) == (fast_ledger.examples, fast_ledger.rows)


# --- sessions of their own -----------------------------------------------------------------------------------------

OTHERS = """

class Never(NoGap):
    assertions = (EventCount(event_kind="Got", max=3),)


class Fine(NoGap):
    faults = swarm(LATENCY_SPIKE)
    budget = 10


TestNever, TestFine = Never.TestCase, Fine.TestCase
"""
SMALL = STREAM_PROPERTY.replace("5_000", "2_000").replace("max_steps = 12", "max_steps = 8").replace("(2, 5)", "(2, 3)")
SMALL = SMALL.replace("budget = 40", "budget = 80").replace("(LOSS_BURST, LATENCY_SPIKE)", "(LOSS_BURST)")


def files(place: Path) -> dict[str, bytes]:
    """Return every minimal scenario that a session has written, by test."""
    return {path.parent.name: path.read_bytes() for path in sorted(place.glob(".simharness/failures/*/scenario.toml"))}


def session(place: Path, *args: str, env: dict[str, str] | None = None, seed: int | None = 9):
    """Run the project's properties and return the failing tests and the minimal scenarios."""
    place = project(place, test_one=SMALL, test_two=SMALL.replace("NoGap", "Again") + OTHERS.replace("NoGap", "Again"))
    chosen = () if seed is None else (f"--hypothesis-seed={seed}",)
    done = run_pytest(place, "-q", *chosen, *args, env=env)
    assert "Different tests were collected" not in done.stdout
    failed = sorted(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE))
    return failed, files(place)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process finds."""
    found = session(tmp_path_factory.mktemp("alone"), "-n", "0")
    assert len(found[0]) == len(found[1]) == 3
    return found


def test_case_b05_and_law_2_two_workers_find_the_same(alone, tmp_path):
    """pytest-randomly#327: same failing tests, same minimal scenario bytes, no shared path, with two workers."""
    assert session(tmp_path, "-n", "2") == alone


def test_law_4_the_surroundings_change_nothing(alone, tmp_path):
    """Hash seed, locale, time zone and working directory are no inputs."""
    env = {"PYTHONHASHSEED": "4242", "LC_ALL": "C", "TZ": "Asia/Kathmandu", "LANG": "tr_TR.UTF-8"}
    assert session(tmp_path / "else" / "where", "-n", "0", env=env) == alone


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [("-n", "1"), ("-n", "8"), ("-n", "2", "--dist", "loadscope"), ("-n", "8", "--dist", "loadscope")]
)
def test_case_b05_any_number_of_workers(alone, tmp_path, args):
    """pytest-random-order#48: whatever the number of workers and the distribution, the findings are those of one process."""
    assert session(tmp_path, *args) == alone


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_law_4_hash_seeds(alone, tmp_path, hash_seed):
    """Set and dictionary order of the interpreter is no input."""
    assert session(tmp_path, "-n", "0", env={"PYTHONHASHSEED": hash_seed}) == alone


@pytest.mark.slow
def test_law_2_an_example_database_changes_nothing(alone, tmp_path):
    """A database full of other seeds' failures lies there; a session with a seed does not look at it."""
    session(tmp_path, "-n", "0", seed=None)
    session(tmp_path, "-n", "0", seed=3)
    assert (tmp_path / ".hypothesis").exists()
    assert session(tmp_path, "-n", "0") == alone


@pytest.mark.slow
def test_law_2_and_case_b07_busy_processors(alone, tmp_path):
    """Eight busy processes beside the session: same failing tests, same minimal scenarios."""
    spin = "while True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spin], cwd=REPO, env=dict(os.environ)) for _ in range(8)]
    try:
        assert session(tmp_path, "-n", "2") == alone
    finally:
        for process in busy:
            process.kill()
            process.wait()
