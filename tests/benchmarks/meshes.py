"""The scenarios that benchmarks run, and ways to run them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simharness.bundle.manifest import RunFacts
from simharness.bundle.writer import BundleWriter
from simharness.contracts.records import Record
from simharness.contracts.scenario import Scenario
from simharness.core.limits import UNLIMITED
from simharness.hosts.kinds import Kinds
from simharness.run import engine_for
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from tests.benchmarks.baselines import BANDWIDTH, LATENCY_NS, LOSS_PPM, PAYLOAD, PERIOD_NS, STDDEV_NS

KINDS = Kinds()
FACTS = RunFacts(
    simulator_version="0", scenario_path="x.toml", source=(), seed=1, duration_ns=1, host_architecture="any"
)


class Dropped:
    """A record sink that keeps nothing."""

    def write_record(self, record: Record) -> None:
        """Drop one record."""


def _link(**fields: int) -> str:
    plain: dict[str, Any] = {
        "latency_ns": LATENCY_NS,
        "jitter_stddev_ns": STDDEV_NS,
        "loss_prob_ppm": LOSS_PPM,
        "reorder_prob_ppm": 0,
        "bandwidth_bps": BANDWIDTH,
        "cold_dial_penalty_ns": 0,
        "cache_warm_after_ns": 0,
        "cache_invalidate_after_idle_ns": 3_600_000_000_000,
    }
    return "".join(f"{name} = {value}\n" for name, value in (plain | fields).items())


def _text(
    peers: int, duration_ns: int, tick_ns: int, link: str, kind: str, state: str, config: str, more: str = ""
) -> str:
    entries = "".join(
        f'[[peers]]\nid = "p{place}"\nkind = "{kind}"\ninitial_state = "{state}"\nkind_config = {{ {config} }}\n'
        for place in range(peers)
    )
    head = f'name = "bench"\nseed = 7\nduration_ns = {duration_ns}\n{more}'
    return f"{head}[default_tick]\nperiod_ns = {tick_ns}\n[default_link]\n{link}{entries}[[meshes]]\n"


def echo_text(peers: int, duration_ns: int, *, records: bool, answers: bool = True, tick_ns: int = PERIOD_NS) -> str:
    """Return the echo mesh of the baselines as a scenario file."""
    config = f"payload_bytes = {PAYLOAD}, records = {str(records).lower()}, answers = {str(answers).lower()}"
    return _text(peers, duration_ns, tick_ns, _link(), "echo", "ready", config)


def swim_text(peers: int, duration_ns: int, *, snapshots: bool = True) -> str:
    """Return a healthy SWIM mesh, as a rule with a snapshot a second: no impairment at all."""
    config = (
        "probe_interval_ns = 1_000_000_000, probe_timeout_ns = 500_000_000, suspicion_timeout_ns = 3_000_000_000, "
        "indirect_probes = 2, max_message_bytes = 1400, retransmit_mult = 4"
    )
    link = _link(latency_ns=20_000_000, jitter_stddev_ns=0, loss_prob_ppm=0, bandwidth_bps=10_000_000_000_000)
    instants = ", ".join(f"{{ at_ns = {at} }}" for at in range(10**9, duration_ns, 10**9) if snapshots)
    return _text(peers, duration_ns, 100_000_000, link, "swim", "alive", config, f"snapshots = [{instants}]\n")


def loaded(text: str) -> Scenario:
    """Load a scenario file's text."""
    return loads(text, KINDS)


def run_dropping(scenario: Scenario) -> int:
    """Run without a bundle; return the number of dispatches."""
    engine = engine_for(scenario, KINDS, Dropped(), limits=UNLIMITED)
    engine.run()
    return engine.dispatches


class Bundles:
    """Runs into bundles, each in a place of its own below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._count = 0

    def run_recording(self, scenario: Scenario) -> int:
        """Run into a bundle, digests included; return the number of dispatches."""
        self._count += 1
        place = self._root.joinpath(str(self._count))
        with BundleWriter(place, scenario_toml=emit(scenario), facts=FACTS) as writer:
            engine = engine_for(scenario, KINDS, writer, limits=UNLIMITED)
            writer.finish(engine.run(), finalize_received=True)
        return engine.dispatches


@contextmanager
def scratch() -> Iterator[Bundles]:
    """Give a place for bundles; throwing them away is no part of what is measured."""
    with tempfile.TemporaryDirectory() as directory:
        yield Bundles(Path(directory))
