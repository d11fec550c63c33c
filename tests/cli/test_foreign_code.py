"""Kinds of other people whose code is wrong: a structured refusal or an abort, in text and in JSON (rulings C2, C8, C9)."""

import sys
from collections.abc import Iterator
from importlib import metadata

import pytest

from simharness.cli import sweep_pool
from simharness.hosts.kinds import Kinds
from tests.cli.support import HOLDS, Terminal

_KIND = """
from simharness.contracts.host import RecordEvent, Send, Validated, Wire
{head}
class Host:
    kind_tag = "foreign"
    def __init__(self, context):
        self.id = context.host_id
    def tick(self, now_ns):
        {tick}
    def recv(self, message, now_ns):
        return ()
    def snapshot(self):
        return b"{{}}"

class Kind:
    kind_tag, accepts_worker_exit = "foreign", False
    {codec}
    def encode(self, message):
        return Wire("x", message)
    def decode(self, wire):
        return wire.payload
    def frame_overhead(self, tag):
        return {overhead}
    def validate(self, config, facts):
        {validate}
    def new(self, context):
        {new}

KIND = Kind()
"""
_SOUND = {
    "head": "",
    "tick": 'return [Send("a", b"x")]',
    "codec": "codec = property(lambda self: self)",
    "overhead": "0",
    "validate": "return Validated(dict(config))",
    "new": "return Host(context)",
}
_PEER = '[[peers]]\nid = "f"\nkind = "foreign"\ninitial_state = "any"\n'
_REFUSED = {
    "syntax": ({"head": "def"}, "SyntaxError: "),
    "import": ({"head": "raise RuntimeError('boom')"}, "RuntimeError: boom (foreign_x.py, line 3)"),
    "exit": ({"head": "raise SystemExit(0)"}, "SystemExit: 0"),
    "nothing": ({"head": "import no_such_module"}, "ModuleNotFoundError: No module named 'no_such_module'"),
    "no-codec": ({"codec": "codec = None"}, "it has no codec.encode, codec.decode, codec.frame_overhead"),
    "validate-raises": ({"validate": "return config['x']"}, "foreign's validate raised KeyError: 'x' "),
    "validate-none": ({"validate": "return None"}, "foreign's validate returned None, not Validated"),
    "validate-odd": ({"validate": "return Validated({'x': None})"}, "foreign's validate put in None"),
}
_ABORTED = {
    "new": ({"new": "raise ValueError('no host')"}, "host-raised", "ValueError: no host (foreign_x.py, line "),
    "exit": ({"tick": "raise SystemExit(0)"}, "host-raised", "SystemExit: 0 (foreign_x.py, line 9)"),
    "new-none": ({"new": "return None"}, "kind-contract", "kind foreign: `new` returned None, which has no tick, recv"),
    "new-class": ({"new": "return Host"}, "kind-contract", "Host'>, which is a class; it has to return an instance"),
    "none": ({"tick": "return None"}, "kind-contract", "'NoneType' object is not iterable"),
    "overhead": ({"overhead": "-1"}, "kind-contract", "kind foreign: frame_overhead('x') is -1"),
    "object": ({"tick": "return [object()]"}, "unknown-action", "<object> is not an action"),
    "set": (
        {"tick": "return [RecordEvent({'kind': 'x', 'of': {'b', 'a', 'c'}})]"},
        "unwritable-event",
        "{'a', 'b', 'c'}",
    ),
}


@pytest.fixture
def scenario(simharness: Terminal, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A scenario with a peer of an installed kind; the test's parameter says what is wrong with its module."""
    wrong: dict[str, str] = request.param
    simharness.directory.joinpath("foreign_x.py").write_text(_KIND.format(**(_SOUND | wrong)), encoding="utf-8")
    monkeypatch.syspath_prepend(simharness.directory)
    monkeypatch.delitem(sys.modules, "foreign_x", raising=False)
    point = metadata.EntryPoint("foreign", "foreign_x:KIND", "simharness.kinds")
    monkeypatch.setattr(metadata, "entry_points", lambda group: (point,))
    return simharness.write("x.toml", _PEER, HOLDS)


@pytest.mark.parametrize(
    ("scenario", "rule"),
    _REFUSED.values(),
    ids=_REFUSED,
    indirect=["scenario"],
)
def test_a_kind_that_cannot_be_used_is_bad_input(simharness: Terminal, scenario: str, rule: str) -> None:
    """Exit code 2, at the peer, in words and in JSON; `check` says the same as `run`, and nothing is written."""
    for command in ("check", "run"):
        said = simharness(command, scenario, "--json")
        assert said.code == 2
        (problem,) = said.json["problems"]
        assert (problem["file"], problem["field"].partition("[2].")[0]) == ("x.toml", "peers")
        assert rule in problem["rule"]
        assert said.err == f"file: x.toml\nfield: {problem['field']}\nrule: {problem['rule']}\n"
    assert not simharness.directory.joinpath(".simharness").exists()


@pytest.mark.parametrize(("scenario", "rule", "detail"), _ABORTED.values(), ids=_ABORTED, indirect=["scenario"])
def test_a_host_that_breaks_off_is_an_abort(simharness: Terminal, scenario: str, rule: str, detail: str) -> None:
    """Exit code 4 and no verdict, whatever it does: `run`, and `sweep` besides."""
    said = simharness("run", scenario, "--json")
    assert said.code == 4
    error = said.json["runs"][0]["error"]
    assert (error["rule"], error["host"], detail in error["detail"]) == (rule, "f", True)
    assert said.err.count("\n") == 1
    assert simharness("sweep", scenario, "--seeds", "0..1", "--jobs", "1").code == 4


@pytest.mark.parametrize(
    "scenario",
    [
        {
            "head": "print('at import')",
            "validate": "print('at load'); return Validated({})",
            "tick": "print('tick'); return ()",
        }
    ],
    indirect=True,
)
def test_what_a_host_prints_goes_to_standard_error(simharness: Terminal, scenario: str) -> None:
    """`--json` stays one JSON value (ruling C9)."""
    said = simharness("run", scenario, "--json")
    assert said.code == 0
    assert said.json["runs"][0]["verdicts"][0]["outcome"] == "Pass"
    assert said.err.startswith("at import\nat load\ntick\n")


def test_code_of_ours_that_cannot_be_loaded(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody edits a system, a command that imports it names file and line (ruling C8)."""
    simharness.directory.joinpath("half_written.py").write_text("x = 1\ndef f(:\n", encoding="utf-8")
    monkeypatch.syspath_prepend(simharness.directory)
    monkeypatch.setattr("simharness.cli.main.import_module", lambda _: __import__("half_written"))
    said = simharness("knobs", "--json")
    (problem,) = said.json["problems"]
    assert said.code == 2
    assert (problem["file"].endswith("half_written.py"), problem["field"]) == (True, "line 2")
    assert problem["rule"].startswith("cannot be loaded: SyntaxError: ")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sweeps of this process know no kind and no file of before."""
    monkeypatch.setattr(sweep_pool, "KINDS", Kinds())
    sweep_pool._source.cache_clear()
    yield
    sweep_pool._source.cache_clear()


_BREAKS_OFF = "if now_ns > 300_000_000: raise ValueError('no more')\n        return []"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("scenario", [{"tick": _BREAKS_OFF}], indirect=True)
def test_an_abort_shrinks(simharness: Terminal, scenario: str) -> None:
    """`shrink` and `sweep --shrink` keep the rule, the exception and the kind of the host; the file aborts."""
    said = simharness("shrink", scenario, "--out", "small.toml")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("still aborts  host-raised ValueError at f, at 0.3")
    assert "assertions   1 -> 0" in lines
    said = simharness("run", "small.toml", "--json")
    assert (said.code, said.json["runs"][0]["error"]["rule"]) == (4, "host-raised")
    said = simharness("shrink", scenario, "--out", "small.toml", "--json")
    assert said.json["failure"] == {"kind": "host-raised ValueError", "subject": "foreign", "aborts": True}
    assert said.json["after"]["duration_ns"] < said.json["before"]["duration_ns"]
    said = simharness("sweep", scenario, "--seeds", "0..2", "--jobs", "1", "--shrink")
    assert said.code == 4
    replay = said.out.splitlines()[-1].split()
    assert replay == ["replay", "simharness", "run", ".simharness/sweeps/x-0-shrunk.toml"]
    assert simharness(*replay[2:]).code == 4


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    "scenario",
    [{"head": "import random", "tick": "return [RecordEvent({'kind': 'x', 'of': random.getrandbits(64)})]"}],
    indirect=True,
)
def test_the_lines_of_lost_determinism_show_it(simharness: Terminal, scenario: str) -> None:
    """A sweep that saw two runs differ names the line that runs both again, and those that show the first difference."""
    said = simharness("sweep", scenario, "--seeds", "0..2", "--jobs", "1", "--shrink")
    assert said.code == 1
    first, replay, look = said.out.splitlines()[-3:]
    assert first == "first        seed 0: two runs of it differ"
    again, note = replay.removeprefix("replay       simharness ").split("  ")
    assert note == "(not shrunk: no assertion of the file shows it)"
    assert simharness(*again.split()).out.startswith("lost determinism")
    run, compare = look.removeprefix("look at      ").partition("  (")[0].split("; ")
    assert simharness(*run.split()[1:]).code == 0
    compared = simharness(*compare.split()[1:])
    assert compared.code == 1
    assert '"kind":"x"' in compared.out
