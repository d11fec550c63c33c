"""The shipped scenarios are well-formed, say what they are for, and their runs show what they say (§8.3)."""

import tomllib
from pathlib import Path
from typing import Final

import pytest

from simharness.hosts.kinds import Kinds
from simharness.run import run_to_bundle
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from tests.tidy.check import ROOT

LIBRARY: Final = ROOT / "scenarios"
FILES: Final = sorted(LIBRARY.rglob("*.toml"))
NAMES: Final = [file.relative_to(LIBRARY).as_posix() for file in FILES]
EXPECTATIONS: Final = ("pass-now", "fail-until-fix", "sensitivity-study")

every_file = pytest.mark.parametrize("file", FILES, ids=NAMES)


def header(file: Path) -> dict[str, str]:
    """Return the `# field: value` lines of the comment block that opens the file."""
    found: dict[str, str] = {}
    for line in file.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        field, colon, value = line.removeprefix("#").partition(":")
        if colon and field.strip() in ("reproduces", "expected", "extends", "counter"):
            assert field.strip() not in found, f"{field.strip()} stands there twice"
            found[field.strip()] = value.strip()
    return found


def test_the_library_is_there() -> None:
    """§8.3: smoke (mesh, ring, chain, star), reproductions and topologies; whatever lies there is checked below."""
    smoke = {f"smoke/{name}.toml" for name in ("mesh3", "ring8", "chain", "star")}
    topology = {f"topology/{name}.toml" for name in ("partition_heal", "rolling_restart", "churn")}
    assert smoke | topology | {"reproduction/gossip_flap.toml"} <= set(NAMES)


@pytest.mark.spec("§8.4", "Examples are well-formed")
@every_file
def test_every_shipped_scenario_loads(file: Path) -> None:
    """§8.4: it parses and satisfies every rule; what is emitted of it is the same scenario."""
    scenario = load(file, Kinds()).scenario
    assert loads(emit(scenario), Kinds()) == scenario


@every_file
def test_every_header_is_complete(file: Path) -> None:
    """§8.3: it opens with prose, says what it reproduces and what it is expected to show, and names its base or `none`."""
    assert file.read_text("utf-8").startswith("# ")
    found = header(file)
    assert found["reproduces"]
    assert found["expected"] in EXPECTATIONS
    base = tomllib.loads(file.read_text("utf-8")).get("base", {})
    assert found["extends"] == base.get("extends", "none")
    assert ("counter" in found) == (found["expected"] == "sensitivity-study")


@every_file
def test_every_run_meets_its_header(file: Path, tmp_path: Path) -> None:
    """§8.3, ruling V3: pass-now passes whole, fail-until-fix fails somewhere, and Inconclusive meets neither."""
    registry = Kinds()
    done = run_to_bundle(load(file, registry), tmp_path / "bundle", registry)
    assert done.termination.reason in ("duration", "early")
    outcomes = [verdict.outcome for verdict in done.verdicts]
    judged = {verdict.name: (verdict.kind, verdict.outcome) for verdict in done.verdicts}
    expected = header(file)["expected"]
    assert outcomes or file.parent.name == "parity", "it declares nothing to judge"
    if expected == "pass-now":
        assert set(outcomes) <= {"Pass"}, judged
    elif expected == "fail-until-fix":
        assert "Fail" in outcomes, judged
        assert "Inconclusive" not in outcomes, judged


@every_file
def test_only_expected_failures_name_a_profile_with_defects(file: Path) -> None:
    """Ruling K1: a scenario that is expected to pass runs the source as it is."""
    peers = load(file, Kinds()).scenario.peers
    tables = [table for peer in peers for table in (peer.kind_config, peer.kind_config.get("node") or {})]
    assert not any(table.get("defects") for table in tables) or header(file)["expected"] == "fail-until-fix"
