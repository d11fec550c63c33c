"""What one turn of `watch` says: that it has begun, and all that `run` would say of an abort."""

from pathlib import Path

import orjson
import pytest

from simharness.cli import watch_command
from tests.cli.support import HOLDS, Terminal
from tests.documents import ROOT

_BOOM = """
from simharness.hosts.echo import KIND as ECHO

class Kind:
    kind_tag, accepts_worker_exit, codec = "boom", False, ECHO.codec
    def validate(self, config, facts):
        return ECHO.validate({"targets": []}, facts)
    def new(self, context):
        raise ValueError("the third wheel")

KIND = Kind()
"""


@pytest.fixture
def one_turn(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the watcher see no change; a kind `boom` is installed for the processes that it starts."""
    root = simharness.directory
    root.joinpath("boom.py").write_text(_BOOM, encoding="utf-8")
    metadata = root.joinpath("boom-1.dist-info")
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: boom\nVersion: 1\n", encoding="utf-8")
    metadata.joinpath("entry_points.txt").write_text("[simharness.kinds]\nboom = boom:KIND\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{root}")
    monkeypatch.setattr(watch_command, "_changes", lambda _: iter([()]))
    return root


@pytest.mark.usefixtures("one_turn")
def test_a_turn_says_that_it_runs_and_why_it_broke_off(simharness: Terminal) -> None:
    """In text and in JSON the exception's own text is there, not only the rule that it broke."""
    simharness.write("x.toml", '[[peers]]\nid = "c"\nkind = "boom"\ninitial_state = "ready"\n')
    said = simharness("watch", "x.toml")
    assert said.code == 0
    assert said.out.startswith("running      x.toml\n")
    assert "1 aborted: host-raised" in said.out
    assert "ValueError: the third wheel (boom.py, line 9)" in said.out
    turn = orjson.loads(simharness("watch", "x.toml", "--json").out)
    assert turn["verdicts"] == {"engine": "aborted: host-raised"}
    assert "the third wheel" in turn["trouble"]


def test_a_change_is_named_with_its_folder(simharness: Terminal) -> None:
    """Every package has an `__init__.py`: below the working directory the whole way is shown, elsewhere the folder."""
    here = simharness.directory
    assert watch_command._shown(here / "systems" / "swim" / "__init__.py") == "systems/swim/__init__.py"
    assert watch_command._shown(Path("/elsewhere/systems/swim/__init__.py")) == "swim/__init__.py"


@pytest.mark.usefixtures("one_turn")
def test_code_that_cannot_be_loaded_is_told_once(simharness: Terminal) -> None:
    """Three peers of a kind whose code somebody is writing are one mistake, in a file that its package tells from others."""
    simharness.directory.joinpath("boom.py").unlink()
    package = simharness.directory.joinpath("boom")
    package.mkdir()
    package.joinpath("__init__.py").write_text("x = 1\ndef f(:\n", encoding="utf-8")
    peers = "".join(f'[[peers]]\nid = "{peer}"\nkind = "boom"\ninitial_state = "ready"\n' for peer in "cde")
    said = simharness("watch", simharness.write("x.toml", peers))
    assert said.out.count("SyntaxError") == 1
    assert "(boom/__init__.py, line 2)" in said.out


@pytest.mark.usefixtures("one_turn")
def test_a_turn_that_goes_well(simharness: Terminal) -> None:
    """Verdicts, and no trouble."""
    turn = orjson.loads(simharness("watch", simharness.write("y.toml", HOLDS), "--json").out)
    assert (list(turn["verdicts"].values()), turn["trouble"]) == (["Pass"], "")
