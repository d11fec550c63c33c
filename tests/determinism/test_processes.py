"""One scenario and one seed give the same bytes in any process (§7.5, case B01)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.tidy.check import ROOT

LIBRARY: Final = ROOT / "scenarios"


class Surroundings(NamedTuple):
    """What a process may not be influenced by."""

    hash_seed: str = "0"
    time_zone: str = "UTC"
    language: str = "C"
    options: tuple[str, ...] = ()
    away: bool = False
    """Whether it starts in another directory, names the file by another path, and has another place for scratch files."""


HERE: Final = Surroundings()
OTHERS: Final = {
    "hash seed 1": Surroundings(hash_seed="1"),
    "hash seed 4242": Surroundings(hash_seed="4242"),
    "random hash seed": Surroundings(hash_seed="random"),
    "time zone and language": Surroundings(time_zone="Asia/Kathmandu", language="tr_TR.UTF-8"),
    "directory": Surroundings(away=True),
    "optimised": Surroundings(options=("-O",)),
    "all of them": Surroundings("random", "Pacific/Chatham", "de_DE.ISO-8859-1", ("-O", "-X", "dev"), away=True),
}


def bundle(scenario: str, surroundings: Surroundings, place: Path, python: str = sys.executable) -> dict[str, bytes]:
    """Run the command line in a fresh process and return the whole bundle, path to bytes."""
    place.mkdir()
    file = LIBRARY / scenario
    cwd = place if surroundings.away else ROOT
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": surroundings.hash_seed,
        "TZ": surroundings.time_zone,
        "LANG": surroundings.language,
        "LC_ALL": surroundings.language,
        "HOSTNAME": surroundings.time_zone.lower(),
        "TMPDIR": str(place if surroundings.away else place.parent),
    }
    shown = os.path.relpath(file, cwd) if surroundings.away else str(file)
    out = place / "bundle"
    command = [python, *surroundings.options, "-m", "simharness", "run", shown, "--out", str(out)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module", params=["smoke/ring8.toml", "reproduction/gossip_flap.toml"])
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, bytes]]:
    """The bundle of a scenario in ordinary surroundings."""
    scenario: str = request.param
    return scenario, bundle(scenario, HERE, tmp_path_factory.mktemp("reference") / "run")


def test_the_reference_is_worth_comparing(reference: tuple[str, dict[str, bytes]]) -> None:
    """B01: events, snapshots of every peer, verdicts and the manifest are there."""
    scenario, files = reference
    assert files["events.ndjson"].count(b"\n") > 3_000
    assert {"manifest.json", "scenario.toml", "verdicts.json"} <= files.keys()
    peers = {path.split("/")[1] for path in files if path.startswith("snapshots/")}
    assert len(peers) == (8 if "ring8" in scenario else 4)


@pytest.mark.parametrize("surroundings", OTHERS.values(), ids=OTHERS.keys())
def test_no_surroundings_reach_the_bundle(
    reference: tuple[str, dict[str, bytes]], surroundings: Surroundings, tmp_path: Path
) -> None:
    """B01: events, every snapshot, verdicts and the manifest are byte-equal, wherever and however the process runs."""
    scenario, files = reference
    other = bundle(scenario, surroundings, tmp_path / "run")
    assert [path for path in files.keys() | other.keys() if files.get(path) != other.get(path)] == []


def usable(python: str) -> bool:
    """Tell whether an interpreter is there and has what the package needs."""
    needed = "import msgspec, orjson, siphash24, tomli_w, rich"
    try:
        return subprocess.run([python, "-c", needed], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_python_gives_the_same_bytes(
    reference: tuple[str, dict[str, bytes]], version: str, tmp_path: Path
) -> None:
    """§7.5: the bundle does not depend on the version of the interpreter."""
    python = shutil.which(f"python{version}")
    if python is None or not usable(python):
        pytest.skip(f"no Python {version} with the package's dependencies on the path")
    scenario, files = reference
    assert bundle(scenario, HERE, tmp_path / "run", python) == files


def test_the_manifest_names_the_scenario_by_its_place_in_the_library(reference: tuple[str, dict[str, bytes]]) -> None:
    """B01: no directory of this machine is in any file of the bundle."""
    _, files = reference
    assert [path for path, content in files.items() if str(ROOT).encode() in content] == []
