"""Runs and archives for the tests of the production form."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from simharness.bundle.manifest import RunFacts
from simharness.bundle.production.capture import Capture
from simharness.bundle.production.export import export
from simharness.bundle.production.opening import open_bundle, open_capture
from simharness.bundle.writer import BundleWriter
from simharness.contracts.records import Record, Termination
from simharness.hosts.kinds import Kinds
from simharness.run import run_to_bundle
from simharness.scenario.loader import load
from tests.bundle.support import FACTS

MS: Final = 10**6
GOLDEN: Final = Path(__file__).with_name("golden")

PARTS: Final = """
name = "parts"
[[peers]]
id = "a"
kind = "swim"
[[peers]]
id = "stage-1"
kind = "stage"
[[peers]]
id = "stage-0"
kind = "stage"
[[relays]]
id = "r"
"""
"""As much of a scenario as the export looks at."""

_RELAYED: Final = """
name = "relayed"
seed = 3
duration_ns = 30_000_000_000
snapshots = [ { at_ns = 900_000_000 }, { at_ns = 12_000_000_000 }, { at_ns = 29_000_000_000 } ]
links = [
    { from = "o", to = "stage-0", via = "relay" }, { from = "stage-0", to = "o", via = "relay" },
    { from = "o", to = "stage-1", via = "relay" }, { from = "stage-1", to = "o", via = "relay" },
    { from = "stage-0", to = "stage-1" }, { from = "stage-1", to = "stage-0" },
]
[default_tick]
period_ns = 200_000_000
[default_link]
latency_ns = 20_000_000
jitter_stddev_ns = 1_000_000
loss_prob_ppm = 20_000
reorder_prob_ppm = 0
bandwidth_bps = 10_000_000
cold_dial_penalty_ns = 50_000_000
cache_warm_after_ns = 100_000_000
cache_invalidate_after_idle_ns = 3_000_000_000
[[relays]]
id = "relay"
ingress_capacity_bps = 1_000_000
egress_capacity_bps_per_link = 1_000_000
queue_depth_bytes = 65_536
[[peers]]
id = "o"
kind = "swim"
initial_state = "alive"
kind_config = { probe_interval_ns = 1_000_000_000, suspicion_timeout_ns = 3_000_000_000 }
[[peers]]
id = "stage-0"
kind = "stage"
initial_state = "cold"
[peers.kind_config]
name = "pp-stage-0"
address = "10.0.0.10:7700"
node = { probe_interval_ns = 1_000_000_000, suspicion_timeout_ns = 3_000_000_000 }
[[peers]]
id = "stage-1"
kind = "stage"
initial_state = "cold"
[peers.kind_config]
name = "pp-stage-1"
address = "10.0.0.11:7700"
node = { probe_interval_ns = 1_000_000_000, suspicion_timeout_ns = 3_000_000_000 }
subprocess = { ready_after_ns = 1_000_000_000 }
[[mutations]]
at_ns = 10_000_000_000
kind = "worker_exit"
peer = "stage-1"
reason = "out of memory"
signal = 9
[[mutations]]
at_ns = 20_000_000_000
kind = "peer_kill"
peer = "stage-0"
"""


def run_relayed(directory: Path) -> Path:
    """Run three hosts and a relay: a worker exits, a host is killed, links are lossy and go cold; return the bundle."""
    file = directory.joinpath("relayed.toml")
    file.write_text(_RELAYED, encoding="utf-8")
    kinds = Kinds()
    return run_to_bundle(load(file, kinds), directory.joinpath("relayed"), kinds).bundle


def write_bundle(final: Path, records: Iterable[Record], scenario: str = PARTS, facts: RunFacts = FACTS) -> Path:
    """Write a bundle of these records, 100 ms long."""
    with BundleWriter(final, scenario_toml=scenario, facts=facts) as writer:
        for record in records:
            writer.write_record(record)
        return writer.finish(Termination(reason="duration", at_ns=100 * MS), finalize_received=True)


def exported(bundle: Path) -> Capture:
    """Export a bundle beside itself and read the archive back."""
    archive = bundle.with_suffix(".tar.gz")
    export(open_bundle(bundle), archive)
    return open_capture(archive)


def members(archive: Path) -> dict[str, Any]:
    """Return the files of an archive by path, parsed."""
    with tarfile.open(archive) as tar:
        found = {}
        for member in tar.getmembers():
            content = tar.extractfile(member)
            if content is not None:
                found[member.name] = json.loads(content.read())
    return found


def pack(archive: Path, files: Mapping[str, Any], extra: Iterable[tarfile.TarInfo] = ()) -> Path:
    """Write an archive: bytes as they are, anything else as JSON; then members without content."""
    with tarfile.open(archive, "w:gz") as tar:
        for name, value in files.items():
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info)
    return archive


def gzipped(archive: Path, data: bytes) -> Path:
    """Write any bytes as a gzip file."""
    archive.write_bytes(gzip.compress(data))
    return archive


def unpack(directory: Path, files: Mapping[str, Any]) -> Path:
    """Write the same files into a directory."""
    for name, value in files.items():
        path = directory.joinpath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
    return directory
