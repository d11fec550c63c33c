"""The manifest (§9.4, ruling B6)."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simharness.contracts.records import Termination

TIME_UNIT: Final = "ns"


class SourceFile(msgspec.Struct, frozen=True):
    """A scenario file that the run was made from: its path relative to the scenario tree, and its SHA-256 in hex (ruling B5)."""

    path: str
    sha256: str


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says about a run besides what the writer sees for itself."""

    simulator_version: str
    scenario_path: str
    source: tuple[SourceFile, ...]
    seed: int
    duration_ns: int
    host_architecture: str
    defects: tuple[str, ...] = ()
    """The defects that were switched on (ruling K1)."""
    substitutions: tuple[str, ...] = ()
    """Renderer inputs that the virtual clock stands in for (§9.5)."""
    termination_source: str | None = None
    """`live` for a run over real sockets."""


def manifest(
    facts: RunFacts,
    *,
    scenario_sha256: str,
    termination: Termination,
    finalize_received: bool,
    events_sha256: str,
    snapshot_sha256: Mapping[str, str],
) -> dict[str, Any]:
    """Return the manifest, keys in the order of ruling B6. It says nothing about verdicts."""
    end = msgspec.to_builtins(termination)
    if facts.termination_source is not None:
        end["source"] = facts.termination_source
    head = {
        "simulator_version": facts.simulator_version,
        "scenario_path": facts.scenario_path,
        "scenario_sha256": scenario_sha256,
        "source": msgspec.to_builtins(facts.source),
        "seed": facts.seed,
        "duration_ns": facts.duration_ns,
        "time_unit": TIME_UNIT,
    }
    defects = {"defects": facts.defects} if facts.defects else {}
    tail = {
        "termination": end,
        "finalize_received": finalize_received,
        "substitutions": facts.substitutions,
        "events_ndjson_sha256": events_sha256,
        "snapshot_sha256": snapshot_sha256,
        "host_architecture": facts.host_architecture,
    }
    return head | defects | tail


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()
