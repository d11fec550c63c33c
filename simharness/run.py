"""The composition root: wires a scenario to kinds, network, engine, evaluator and bundle. Nothing else knows them all."""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from simharness.assertions.post_run import write_verdicts
from simharness.assertions.streaming import StreamingEvaluator
from simharness.bundle.digest import bundle_digest
from simharness.bundle.manifest import RunFacts, SourceFile
from simharness.bundle.reader import Bundle
from simharness.bundle.writer import BundleWriter
from simharness.contracts.assertions import Verdict
from simharness.contracts.host import HostKind, KindRegistry
from simharness.contracts.ports import DeliveryObserver, LiveEvaluator, RecordSink
from simharness.contracts.records import Termination
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError
from simharness.core.limits import RUNAWAY, Limits
from simharness.core.version import VERSION
from simharness.disk.crash import CrashDisk
from simharness.engine.engine import Engine
from simharness.network.model import LinkNetwork
from simharness.scenario.emit import emit
from simharness.scenario.loader import Loaded

_COMMIT: Final = Path(__file__).with_name("_commit.txt")

Drive = Callable[[Engine, int], Termination]
"""Takes an engine to the end of its run at the given time; the default is `Engine.finish`."""


def engine_for(
    scenario: Scenario,
    kinds: KindRegistry,
    sink: RecordSink,
    *,
    evaluator: LiveEvaluator | None = None,
    observer: DeliveryObserver | None = None,
    limits: Limits = RUNAWAY,
) -> Engine:
    """Wire a scenario to its hosts and its network. The streaming evaluator is added if the scenario may end early.

    Raises:
        InputError: If a peer's kind is not known to `kinds`.
    """
    if evaluator is None and scenario.early_terminate_on_all_assertions_resolved:
        evaluator = StreamingEvaluator(scenario)
    return Engine(
        scenario,
        network=LinkNetwork(scenario),
        kinds=kinds_of(scenario, kinds),
        disks={peer.id: CrashDisk() for peer in scenario.peers},
        sink=sink,
        evaluator=evaluator,
        observer=observer,
        max_dispatches=limits.dispatches,
        max_pending=limits.pending,
    )


def kinds_of(scenario: Scenario, kinds: KindRegistry) -> dict[str, HostKind]:
    """Return the host kinds that a scenario names.

    Raises:
        InputError: If one of them is not known to `kinds`.
    """
    found: dict[str, HostKind] = {}
    for index, peer in enumerate(scenario.peers):
        kind = kinds.get(peer.kind)
        if kind is None:
            rule = f"unknown host kind {peer.kind!r}; choose from {', '.join(kinds.names())}"
            raise InputError(file=scenario.name, field=f"peers[{index}].kind", rule=rule)
        found[peer.kind] = kind
    return found


def defects_of(scenario: Scenario) -> tuple[str, ...]:
    """Return the defects that any peer has switched on, sorted (ruling K1)."""
    tables: list[dict[str, Any]] = [peer.kind_config for peer in scenario.peers]
    tables += [table["node"] for table in tables if isinstance(table.get("node"), dict)]
    return tuple(sorted({defect for table in tables for defect in table.get("defects", ())}))


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: where its bundle stands and what it says."""

    bundle: Path
    verdicts: tuple[Verdict, ...]
    termination: Termination
    digest: str
    """SHA-256 over events, snapshots and verdicts."""
    dispatches: int


def run_to_bundle(
    loaded: Loaded,
    out: Path,
    kinds: KindRegistry,
    *,
    drive: Drive = Engine.finish,
    keep_partial: bool = False,
    observer: DeliveryObserver | None = None,
    limits: Limits = RUNAWAY,
    inspect: Callable[[Bundle, Sequence[Verdict]], object] | None = None,
) -> Result:
    """Run a loaded scenario, write its bundle at `out`, judge it.

    `inspect` sees the bundle when it is whole and judged, but not yet in place: another run may take that place at any time.

    Raises:
        EngineAbort: If the run cannot go on; the bundle is then kept only with `keep_partial` (ruling B9).
        InputError: If `out` holds something that is not a bundle, or cannot be written.
    """
    scenario = loaded.scenario
    facts = facts_of(loaded)
    verdicts: list[Verdict] = []
    digests: list[str] = []

    def judge(bundle: Bundle) -> None:
        verdicts.extend(write_verdicts(bundle))
        digests.append(bundle_digest(bundle.root))
        if inspect is not None:
            inspect(bundle, verdicts)

    with BundleWriter(out, scenario_toml=emit(scenario), facts=facts, keep_partial=keep_partial) as writer:
        engine = engine_for(scenario, kinds, writer, observer=observer, limits=limits)
        termination = drive(engine, scenario.duration_ns)
        writer.finish(termination, finalize_received=not engine.dead_peers(), judge=judge)
    return Result(
        bundle=out,
        verdicts=tuple(verdicts),
        termination=termination,
        digest=digests[0],
        dispatches=engine.dispatches,
    )


def facts_of(loaded: Loaded) -> RunFacts:
    """Return what the manifest says about a run of this scenario (ruling B6)."""
    scenario = loaded.scenario
    return RunFacts(
        simulator_version=simulator_version(),
        scenario_path=loaded.scenario_path,
        source=tuple(SourceFile(source.path, source.sha256) for source in loaded.sources),
        seed=scenario.seed,
        duration_ns=scenario.duration_ns,
        host_architecture=platform.machine(),
        defects=defects_of(scenario),
        substitutions=("wall_ms is virtual time divided by 10**6",),
    )


def simulator_version() -> str:
    """Return the package version, with the commit it was built from where the build knew it (ruling B6)."""
    try:
        commit = _COMMIT.read_text(encoding="ascii").strip()
    except OSError:
        return VERSION
    return f"{VERSION}+g{commit}"
