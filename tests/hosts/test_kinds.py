"""The registry of host kinds: names, resolved on first use (§6.3)."""

import ast
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from simharness.contracts.records import ENGINE_EVENTS
from simharness.hosts.echo import KIND as ECHO
from simharness.hosts.kinds import BUILT_IN, GROUP, Kinds
from simharness.hosts.parity_stub import KIND as PARITY_STUB
from simharness.hosts.stage.adapter import _KINDS as STAGE_RECORDS
from simharness.hosts.stage.kind import KIND as STAGE
from simharness.hosts.swim.kind import KIND as SWIM

ROOT = Path(__file__).parent.parent.parent


def installed(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """Let other distributions register kinds."""

    def entry_points(*, group: str) -> tuple[metadata.EntryPoint, ...]:
        assert group == GROUP == "simharness.kinds"
        return tuple(metadata.EntryPoint(name, value, group) for name, value in points.items())

    monkeypatch.setattr(metadata, "entry_points", entry_points)


def test_an_installed_kind_is_found_and_a_built_in_one_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Architecture 1: built-ins stand in a literal table, others come from the entry-point group."""
    installed(monkeypatch, foreign="simharness.hosts.parity_stub:KIND", swim="no.such.module:KIND")
    kinds = Kinds()
    assert kinds.get("foreign") is PARITY_STUB
    swim = kinds.get("swim")
    assert swim is not None
    assert swim.kind_tag == "swim"
    assert kinds.names() == tuple(sorted([*BUILT_IN, "foreign"]))


def test_checking_a_swim_file_imports_no_other_system() -> None:
    """Architecture 1: a name is no import edge, so neither numpy nor another system's room is loaded."""
    code = (
        "import sys; from simharness.hosts.kinds import Kinds; from simharness.scenario.loader import load;"
        "load('scenarios/smoke/mesh3.toml', Kinds());"
        "print([name for name in sys.modules if name.startswith(('simharness.systems.', 'simharness.hosts.', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = [name.strip("[]' ") for name in done.stdout.strip().split(",")]
    assert "simharness.systems.swim.config" in loaded
    strange = [name for name in loaded if not name.startswith(("simharness.systems.swim", "simharness.hosts.swim"))]
    assert sorted(strange) == ["simharness.hosts.kinds"]


def recorded(*files: str) -> set[str]:
    """Every kind of event that code makes: the value of each literal `{"kind": "...", ...}`."""
    trees = [ast.parse(ROOT.joinpath("simharness", file).read_text("utf-8")) for file in files]
    made = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Dict) and node.keys]
    first = [(node.keys[0], node.values[0]) for node in made]
    return {
        value.value
        for key, value in first
        if isinstance(key, ast.Constant)
        and key.value == "kind"
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    }


def test_what_a_kind_says_it_records_is_what_its_code_makes() -> None:
    """Ruling C10: a list that lacked one would call a right name a wrong one."""
    assert set(ECHO.event_kinds) == recorded("hosts/echo.py")
    assert set(PARITY_STUB.event_kinds) | {"ping"} == recorded("hosts/parity_stub.py")  # which is a message
    assert set(SWIM.event_kinds) == recorded("hosts/swim/adapter.py")
    own = recorded("hosts/stage/adapter.py") | set(STAGE_RECORDS.values())
    assert set(STAGE.event_kinds) == own | set(SWIM.event_kinds)


def test_what_the_engine_records_is_listed_too() -> None:
    """Ruling C10: engine, network and mutations."""
    assert set(ENGINE_EVENTS) == recorded("engine/calls.py", "network/notices.py", "contracts/records.py")
