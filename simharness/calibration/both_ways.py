"""Scenarios that are run live and simulated, seed by seed, and compared (§11)."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from simharness.bundle.places import check_replaceable, structured_io
from simharness.bundle.production.simulated import Simulated
from simharness.bundle.reader import Bundle
from simharness.calibration.compare import Comparison, Verdict
from simharness.calibration.distances import median
from simharness.calibration.live import LEAST_REPEATS, LiveTolerance, against_live
from simharness.calibration.metrics import Metrics, extract
from simharness.contracts.host import KindRegistry
from simharness.contracts.links import LinkOverrides
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError
from simharness.core.streams import Root
from simharness.core.units import NS_PER_MS
from simharness.live.check import check
from simharness.live.run import run_live
from simharness.run import defects_of, run_to_bundle
from simharness.scenario.loader import Loaded, load

if TYPE_CHECKING:
    from pathlib import Path

_MOST_LEFT_OUT: Final = 3
"""Live runs that may be thrown away, for each that is wanted."""


class BothWays(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that was run live and simulated."""

    name: str
    seeds: tuple[int, ...]
    """Each was run both ways."""
    defects: tuple[str, ...]
    comparison: Comparison
    simulated: tuple[Metrics, ...]
    live: tuple[Metrics, ...]
    late_ns: tuple[int, ...]
    """Of each live run, how late its latest tick was."""
    hop_ns: int
    """What this machine takes to wake a process, in the median; an input: the links of the simulated runs are slower by it."""
    left_out: int
    """Live runs that were thrown away because a tick came a whole period late."""
    bundles: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The comparison's, or inconclusive if this machine was too busy for as many live runs as were asked for."""
        return self.comparison.verdict if self.live else Verdict.INCONCLUSIVE


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that is to be run both ways."""

    name: str
    file: "Path"
    seeds: tuple[int, ...]
    scenario: Scenario


def plan(file: "Path", kinds: KindRegistry, *, repeats: int, seed: int | None = None) -> Plan:
    """Check a scenario; its seeds are the file's, or `seed`, and those that follow it.

    Raises:
        InputError: If it cannot be read, or there are too few repeats to show a spread.
        ScenarioError: If it is malformed, or cannot be run live.
    """
    if repeats < LEAST_REPEATS:
        rule = f"{repeats} repeats show no spread; at least {LEAST_REPEATS}"
        raise InputError(file="(command line)", field="--repeats", rule=rule)
    loaded = load(file, kinds, seed=seed)
    check(loaded.scenario, loaded.scenario_path)
    first = loaded.scenario.seed
    return Plan(name=file.stem, file=file, seeds=tuple(range(first, first + repeats)), scenario=loaded.scenario)


def places(planned: Plan, out: "Path") -> Iterator[tuple[int, "Path", "Path"]]:
    """Yield each seed with the places of its live and its simulated bundle."""
    for seed in planned.seeds:
        yield seed, out.joinpath(f"{planned.name}-{seed}-live"), out.joinpath(f"{planned.name}-{seed}-simulated")


def check_places(planned: Plan, out: "Path") -> None:
    """Refuse, before anything runs, to write over what is no bundle.

    Raises:
        InputError: If a place holds something else.
    """
    with structured_io(out):
        for _, *both in places(planned, out):
            for place in both:
                check_replaceable(place)


def run_both_ways(
    planned: Plan,
    out: "Path",
    kinds: KindRegistry,
    tolerance: LiveTolerance,
    *,
    say: Callable[[str], object] = lambda _: None,
) -> BothWays:
    """Run every seed live and simulated, write the bundles below `out`, and compare.

    A live run in which a tick came a whole period late is not the run that the scenario describes (the protocol counts ticks): it
    is thrown away and done again. When three times as many were thrown away as are wanted, the machine is too busy, and nothing is
    compared.

    Raises:
        InputError: If a bundle cannot be written.
        EngineAbort: If a run cannot go on.
    """
    kept: list[Path] = []
    late, left_out = list[int](), 0
    for seed, live_place, _ in places(planned, out):
        taken = False
        while not taken and left_out < _MOST_LEFT_OUT * len(planned.seeds):
            done = run_live(load(planned.file, kinds, seed=seed), live_place)
            taken = done.believable
            left_out += not taken
            word = "taken" if taken else "left out"
            say(f"{planned.name}  seed {seed}  latest tick {done.late_ns // NS_PER_MS} ms late  {word}")
            if taken:
                kept.append(live_place)
                late.append(done.late_ns)
    whole = kept if len(kept) == len(planned.seeds) else []
    hop_ns = wake_ns(zip(planned.seeds, whole, strict=False), planned.scenario)
    simulated = [
        _measured(run_to_bundle(_slowed(load(planned.file, kinds, seed=seed), hop_ns), place, kinds).bundle)
        for seed, _, place in places(planned, out)
    ]
    live = [_measured(place) for place in whole]
    return BothWays(
        name=planned.name,
        seeds=planned.seeds,
        defects=defects_of(planned.scenario),
        comparison=against_live(planned.name, simulated, live, planned.scenario, tolerance),
        simulated=tuple(simulated),
        live=tuple(live),
        hop_ns=hop_ns,
        late_ns=tuple(late),
        left_out=left_out,
        bundles=tuple(str(place) for _, *both in places(planned, out) for place in both if place.is_dir()),
    )


def wake_ns(runs: Iterable[tuple[int, "Path"]], scenario: Scenario) -> int:
    """Return how late processes wake, in the median: how long after its tick each direct Ping of live runs left.

    A message that is due wakes its receiver as a tick does, so a real hop takes longer than the link by this much. Ticks are on a
    known grid, so nothing is taken from a time that is compared.

    Args:
        runs: Seed and live bundle of each run.
        scenario: What was run.
    """
    periods = {peer.id: scenario.tick_period_ns(peer) for peer in scenario.peers}
    late: list[float] = []
    for seed, place in runs:
        root = Root(seed)
        first = {peer: root.host(peer, "tick_offset").u64() % period for peer, period in periods.items()}
        late += [
            (line.virtual_time_ns - first[line.host_id]) % periods[line.host_id]
            for line in Bundle(place).events()
            if line.host_id in first
            and line.event.get("kind") == "SwimProbeSent"
            and line.event["probe_kind"] == "direct"
        ]
    return int(median(late)) if late else 0


def _slowed(loaded: Loaded, by_ns: int) -> Loaded:
    """Return a scenario in which every leg of every link takes longer."""

    def slower(overrides: LinkOverrides) -> LinkOverrides:
        latency_ns = overrides.latency_ns
        return overrides if latency_ns is None else msgspec.structs.replace(overrides, latency_ns=latency_ns + by_ns)

    scenario, replace = loaded.scenario, msgspec.structs.replace
    return loaded._replace(
        scenario=replace(
            scenario,
            default_link=replace(scenario.default_link, latency_ns=scenario.default_link.latency_ns + by_ns),
            meshes=tuple(replace(mesh, overrides=slower(mesh.overrides)) for mesh in scenario.meshes),
            links=tuple(replace(link, overrides=slower(link.overrides)) for link in scenario.links),
        )
    )


def _measured(bundle: "Path") -> Metrics:
    return extract(Simulated(Bundle(bundle)))
