"""README.md: every block is run, or compared with what it describes."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from simharness.contracts.host import HostKind
from simharness.core.limits import Limits
from simharness.hosts.kinds import Kinds
from simharness.run import run_to_bundle
from simharness.scenario.loader import load
from simharness.stateful.conformance import HostKindConformance
from tests.documents import ROOT, block, blocks, play

README = "README.md"
TESTED = {"activate", "flap", "loop", "scenario", "host", "conformance", "entry", "bundle", "supervisor"}

RUMOUR_SCENARIO = """
name = "rumour"
seed = 1
duration_ns = 1_000_000_000
early_terminate_on_all_assertions_resolved = true

[default_tick]
period_ns = 100_000_000

[default_link]
latency_ns = 1_000_000
jitter_stddev_ns = 0
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 1_000_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 1_000_000_000

[[peers]]
id = "a"
kind = "rumour"
initial_state = "any"

[[peers]]
id = "b"
kind = "rumour"
initial_state = "any"

[[peers]]
id = "c"
kind = "rumour"
initial_state = "any"

[[meshes]]

[[assertions]]
kind = "event_count"
event_kind = "Spread"
max = 3
"""


@pytest.fixture(scope="module")
def scenario_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the README's own scenario."""
    root = tmp_path_factory.mktemp("readme")
    root.joinpath("mine.toml").write_text(block(README, "test", "scenario").text, encoding="utf-8")
    kinds = Kinds()
    result = run_to_bundle(load(root.joinpath("mine.toml"), kinds), root.joinpath("bundle"), kinds)
    assert [verdict.outcome for verdict in result.verdicts] == ["Pass"]
    return result.bundle


def test_every_block_has_a_marker() -> None:
    """A block that nothing runs would rot: each is marked, and each mark is one of a test or of continuous integration."""
    marks = [(item.kind, item.name) for item in blocks(README)]
    assert sorted(marks) == sorted([("ci", "main"), ("ci", "test"), *(("test", name) for name in TESTED)])


def test_the_setup_commands() -> None:
    """Each is one line that makes its own environment, installs into it and runs pytest from it; CI runs them for real."""
    form = re.compile(
        r"python3 -m venv (?P<venv>\S+) && (?P=venv)/bin/pip install -q -e \S+ && (?P=venv)/bin/pytest -n auto (?P<what>\S+)/\n"
    )
    found = {name: form.fullmatch(block(README, "ci", name).text) for name in ("main", "test")}
    assert all(found.values())
    assert {name: match["what"] for name, match in found.items() if match} == {"main": "properties", "test": "tests"}
    assert len({match["venv"] for match in found.values() if match}) == 2
    assert ".venv*/" in ROOT.joinpath(".gitignore").read_text(encoding="utf-8").splitlines()
    assert all(match["venv"].startswith(".venv") for match in found.values() if match)


def test_how_simharness_is_called() -> None:
    """The later commands find it: what is activated, before any of them, is the environment that the first one makes."""
    made = re.match(r"python3 -m venv (\S+) ", block(README, "ci", "main").text)
    assert made is not None
    assert block(README, "test", "activate").text == f". {made[1]}/bin/activate\n"
    text = ROOT.joinpath(README).read_text(encoding="utf-8")
    assert text.index("<!-- test: activate -->") < text.index("$ simharness")
    assert f"`{made[1]}/bin/simharness`" in text
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "simharness" in project["scripts"]


@pytest.mark.parametrize("name", ["flap", "loop", "supervisor"])
def test_the_console_blocks(name: str, tmp_path: Path) -> None:
    """Typed line by line beside the scenarios of this repository, they exit and print as they are shown."""
    shutil.copytree(ROOT.joinpath("scenarios"), tmp_path.joinpath("scenarios"))
    play(block(README, "test", name).text, tmp_path)


def test_the_scenario(scenario_bundle: Path) -> None:
    """It loads, runs and passes; what it replays from is in its bundle."""
    assert 'name = "three-peers-and-a-cut"' in scenario_bundle.joinpath("scenario.toml").read_text(encoding="utf-8")


def test_the_bundle_listing(scenario_bundle: Path) -> None:
    """Every file of a bundle is listed, and everything that is listed is there."""
    listed = [line.split("  ")[0] for line in block(README, "test", "bundle").text.splitlines()]
    forms = [re.compile(re.sub(r"<(host|n)>", r"[A-Za-z0-9._-]+", re.escape(name))) for name in listed]
    files = [str(path.relative_to(scenario_bundle)) for path in sorted(scenario_bundle.rglob("*")) if path.is_file()]
    matches = [[form.pattern for form in forms if form.fullmatch(file)] for file in files]
    assert [file for file, found in zip(files, matches, strict=True) if len(found) != 1] == []
    assert {found[0] for found in matches} == {form.pattern for form in forms}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds the README's own project, installed as far as an interpreter can tell."""
    root = tmp_path_factory.mktemp("project")
    root.joinpath("my_project").mkdir()
    root.joinpath("my_project", "rumour.py").write_text(block(README, "test", "host").text, encoding="utf-8")
    (points,) = tomllib.loads(block(README, "test", "entry").text)["project"]["entry-points"].items()
    group, names = points
    metadata = root.joinpath("my_project-1.dist-info")
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: my_project\nVersion: 1\n", encoding="utf-8")
    entries = "".join(f"{name} = {target}\n" for name, target in names.items())
    metadata.joinpath("entry_points.txt").write_text(f"[{group}]\n{entries}", encoding="utf-8")
    root.joinpath("rumour.toml").write_text(RUMOUR_SCENARIO, encoding="utf-8")
    return root


def test_an_installed_kind_is_found_by_name(project: Path) -> None:
    """With the entry point installed a scenario file names the kind, and an assertion finds the bug that it is said to have."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join((str(ROOT), str(project)))}
    outcome = subprocess.run(
        [sys.executable, "-m", "simharness", "run", "rumour.toml"],
        cwd=project,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (outcome.returncode, outcome.stderr) == (1, "")
    assert "Spread times=2" in outcome.stdout


def test_the_host_ends_at_any_duration(project: Path) -> None:
    """Its bug is planted, not a bomb: at 40 s and 20 ms latency it makes a few dozen messages."""
    kinds = Kinds()
    kinds.register(_rumour_kind())
    text = RUMOUR_SCENARIO.replace("early_terminate_on_all_assertions_resolved = true\n", "")
    text = text.replace("duration_ns = 1_000_000_000", "duration_ns = 40_000_000_000").replace(
        "latency_ns = 1_", "latency_ns = 20_"
    )
    project.joinpath("long.toml").write_text(text, encoding="utf-8")
    result = run_to_bundle(load(project / "long.toml", kinds), project / "long", kinds, limits=Limits(2_000, None))
    assert [verdict.outcome for verdict in result.verdicts] == ["Fail"]


def _rumour_kind() -> HostKind:
    """Execute the README's host as a module."""
    module = ModuleType("my_project.rumour")
    exec(compile(block(README, "test", "host").text, "README.md", "exec"), module.__dict__)  # noqa: S102  # our own text
    kind: HostKind = module.__dict__["KIND"]
    return kind


def _rumour_suite() -> type[HostKindConformance]:
    """Execute the README's test module beside its host."""
    module, beside = ModuleType("rumour_suite"), ModuleType("my_project.rumour")
    beside.__dict__["KIND"] = _rumour_kind()
    names = {"my_project": ModuleType("my_project"), "my_project.rumour": beside, "rumour_suite": module}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setitem(sys.modules, name, value)
        exec(compile(block(README, "test", "conformance").text, "README.md", "exec"), module.__dict__)  # noqa: S102  # our own text
    suite: type[HostKindConformance] = module.__dict__["TestRumour"]
    return suite


TestRumour = _rumour_suite()
"""The README's host runs the suite that every kind runs, as the README says how."""


def test_every_link_leads_somewhere() -> None:
    """Relative links of the README and of docs/ name files of this repository, and anchors name their headings."""
    for document in (README, "CONTRIBUTING.md", *(f"docs/{path.name}" for path in ROOT.joinpath("docs").glob("*.md"))):
        text = ROOT.joinpath(document).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            file = ROOT.joinpath(document).parent.joinpath(path) if path else ROOT.joinpath(document)
            assert file.exists(), f"{document} links to {target}"
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
            slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert not anchor or anchor in slugs, f"{document} links to {target}"
