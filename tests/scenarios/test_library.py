"""The shipped scenarios are well-formed, say what they are for, and their runs show what they say (§8.3)."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from simharness.contracts.mutations import kind_of
from simharness.contracts.scenario import Scenario
from simharness.hosts.kinds import Kinds
from simharness.run import run_to_bundle
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from simharness.stateful.coverage import DelayEffects, count
from simharness.stateful.playing import play
from tests.scenarios.library import FILES, KINDS, declared, finished, header, path_of, records

every_file = pytest.mark.parametrize("name", FILES)

BATTERY: Final = tuple(name for name in FILES if name.startswith("battery/"))
STUDIES: Final = tuple(name for name in FILES if header(name).expected == "sensitivity-study")


def test_the_library_is_there() -> None:
    """§8.3: smoke (mesh, ring, chain, star), reproductions of every known failure, topologies; the battery has six families."""
    smoke = {f"smoke/{name}.toml" for name in ("mesh3", "ring8", "chain", "star")}
    topology = {f"topology/{name}.toml" for name in ("partition_heal", "rolling_restart", "churn")}
    layers = {f"reproduction/{name}.toml" for name in ("relay_hol", "gossip_flap", "stage_death")}
    families = {name.split("/")[1][:2] for name in BATTERY if name.count("/") == 2}
    assert smoke | topology | layers <= set(FILES)
    assert families == {f"{letter}_" for letter in "abcdef"}


@pytest.mark.spec("§8.4", "Examples are well-formed")
@every_file
def test_every_shipped_scenario_loads(name: str) -> None:
    """§8.4: it parses and satisfies every rule; what is emitted of it is the same scenario."""
    assert loads(emit(declared(name)), KINDS) == declared(name)


@every_file
def test_every_header_is_complete(name: str) -> None:
    """§8.3: it opens with prose, says what it reproduces and what it is expected to show, and names its base or `none`."""
    text = path_of(name).read_text("utf-8")
    assert text.startswith("# ")
    assert header(name).extends == tomllib.loads(text).get("base", {}).get("extends", "none")


@every_file
def test_every_run_meets_its_header(name: str, tmp_path: Path) -> None:
    """§8.3, ruling V3: pass-now passes whole, fail-until-fix fails somewhere, and Inconclusive meets nothing."""
    registry = Kinds()
    done = run_to_bundle(load(path_of(name), registry), tmp_path / "bundle", registry)
    assert done.termination.reason in ("duration", "early")
    outcomes = [verdict.outcome for verdict in done.verdicts]
    judged = {verdict.name: (verdict.kind, verdict.outcome) for verdict in done.verdicts}
    assert outcomes or name.startswith("parity/"), "it declares nothing to judge"
    assert "Inconclusive" not in outcomes, judged
    match header(name).expected:
        case "pass-now":
            assert "Fail" not in outcomes, judged
        case "fail-until-fix":
            assert "Fail" in outcomes, judged


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_counts_something(name: str) -> None:
    """Ruling V3: a sensitivity study names the counter that its run must raise."""
    scenario, observer = declared(name), DelayEffects()
    for mutation in scenario.mutations:
        observer.follow(mutation)
    run = play(scenario, KINDS, observer=observer)
    counter = header(name).counter
    assert counter is not None
    assert count(run.records, scenario.mutations, run.verdicts(), observer)[counter] > 0


def defects(scenario: Scenario) -> bool:
    tables = [table for peer in scenario.peers for table in (peer.kind_config, peer.kind_config.get("node") or {})]
    return any(table.get("defects") for table in tables)


@every_file
def test_only_expected_failures_name_a_profile_with_defects(name: str) -> None:
    """Ruling K1: a scenario that is expected to pass runs the source as it is."""
    assert not defects(declared(name)) or header(name).expected == "fail-until-fix"


# --- twins --------------------------------------------------------------------------------------------------------------

SWITCHES: Final = ("defects", "profile", "max_message_bytes", "max_piggyback", "subprocess")
"""Fields of a `kind_config` that a fault may consist in."""

NO_TWIN: Final[Mapping[str, str]] = {
    "reproduction/relay_hol_wide.toml": "is itself a remedy of relay_hol.toml",
    "calibration/n3_canary_relay_real_worker.toml": "stands beside a captured run, with the own-relay files as its other half",
    "calibration/n3_own_relay_real_worker.toml": "stands beside a captured run, with the stub file as its other half",
    "calibration/n3_1779733878.toml": "stands beside a captured run, as the others do, and is the stub file with other numbers",
    "calibration/n3_own_relay_stub.toml": "stands beside a captured run, with n3_1779733878_repro.toml on the fixed source",
    "calibration/live_loss_kill8.toml": "stands beside live runs of itself, in which the survivors are well",
    "calibration/live_relay4.toml": "stands beside live runs of itself, in which the survivors are well",
    "parity/own_form.toml": "is pinned byte by byte and judges nothing",
    "training/straggler_backup_ps.toml": "is straggler_ps.toml with a remedy, and clean_own_ps.toml is the twin of that",
}


def is_fault(name: str) -> bool:
    """Whether something goes wrong in a scenario: a mutation, a defect, a worker that fails."""
    return bool(declared(name).mutations) or header(name).expected == "fail-until-fix"


def shape(name: str) -> Any:
    """What a scenario and its twin have in common: seed, links, relays, and peers but for what a fault may switch."""

    def plain(table: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in table.items() if key not in SWITCHES}
        return kept | ({"node": plain(table["node"])} if "node" in table else {})

    scenario = declared(name)
    peers = [msgspec.structs.replace(peer, kind_config=plain(peer.kind_config)) for peer in scenario.peers]
    links = (scenario.default_tick_period_ns, scenario.default_link, scenario.relays, scenario.meshes, scenario.links)
    return scenario.seed, peers, links


@pytest.mark.parametrize("name", [name for name in FILES if is_fault(name) and name not in NO_TWIN])
def test_every_fault_has_a_healthy_twin(name: str) -> None:
    """The same seed, peers and links without the fault, in the same folder, and expected to pass."""
    folder = path_of(name).parent
    beside = [other for other in FILES if path_of(other).parent == folder and not is_fault(other)]
    twins = [other for other in beside if shape(other) == shape(name)]
    assert twins
    assert {header(twin).expected for twin in twins} == {"pass-now"}


def test_exceptions_are_no_more_than_needed() -> None:
    """Each exception from the twin rule is a shipped fault scenario."""
    assert all(is_fault(name) for name in NO_TWIN)


# --- the battery's common shape -----------------------------------------------------------------------------------------


def instants(name: str) -> set[int]:
    """When a fault begins or ends: mutations, ends of timed ones, exits of scripted workers."""
    scenario = declared(name)
    found = {mutation.at_ns for mutation in scenario.mutations}
    found |= {mutation.at_ns + getattr(mutation, "duration_ns", 0) for mutation in scenario.mutations}
    if any("subprocess" in peer.kind_config for peer in scenario.peers):
        found |= {record.virtual_time_ns for record in records(finished(name), "SubprocessExited")}
    return {at_ns for at_ns in found if at_ns < scenario.duration_ns}


@pytest.mark.parametrize("name", [*BATTERY, "reproduction/stage_death.toml"])
def test_boundary_snapshots(name: str) -> None:
    """A snapshot one nanosecond before and after each fault begins or ends."""
    taken = {snapshot.at_ns for snapshot in declared(name).snapshots}
    wanted = {at_ns + step for at_ns in instants(name) for step in (-1, 1)} - {-1}
    assert wanted <= taken


@pytest.mark.parametrize("name", BATTERY)
def test_every_family_member_names_its_fault(name: str) -> None:
    """What a file of the battery does is what its name and header say: it aims at the family's own mutations."""
    allowed = {
        "a": {"relay_peer_conn_down", "partition", "heal"},
        "b": set(),
        "c": {"partition", "relay_peer_conn_down"},
        "d": {"loss_burst", "clock_offset", "clock_drift"},
        "e": {"peer_kill", "relay_kill", "partition", "heal"},
        "f": {"partition", "heal", "relay_peer_conn_down"},
    }
    family = name.split("/")[1][0] if name.count("/") == 2 else "b"
    assert {kind_of(mutation) for mutation in declared(name).mutations} <= allowed[family]
