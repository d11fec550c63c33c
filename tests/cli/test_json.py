"""`--json`: each command prints one JSON value, shaped as the samples of docs/command_line.md."""

import argparse
from collections.abc import Iterator
from typing import Any

import orjson

from simharness.cli.main import parser
from simharness.cli.watch_command import Turn
from simharness.stateful.knobs import SWIM as SWIM_KNOBS
from simharness.stateful.knobs import Hunt, row
from tests.cli.support import BREAKS, HOLDS, SWIM, Terminal
from tests.documents import ROOT, block, blocks

DOCUMENT = "docs/command_line.md"


FREE = ("parameters", "outcomes", "faults")
"""Objects whose keys are not ours."""


def shape(value: Any) -> Any:
    """Return the keys and types of a JSON value; a list has the shape of its first element, a count by name is free."""
    if isinstance(value, dict):
        counts = bool(value) and {"Pass", "Fail", "Inconclusive"}.issuperset(value)
        return "counts" if counts else {key: "free" if key in FREE else shape(item) for key, item in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value).__name__


def documented(name: str) -> Any:
    """Return the shape of the sample that is marked with this name."""
    return shape(orjson.loads(block(DOCUMENT, "json", name).text))


def actions_of(sub: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """What a command can be told, and the commands below it."""
    for action in sub._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions_of(inner)


def test_every_command_is_documented() -> None:
    """Each command stands in the document, each of its options beside it, and each has a JSON sample."""
    text = ROOT.joinpath(DOCUMENT).read_text(encoding="utf-8")
    (commands,) = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    samples = [item.name for item in blocks(DOCUMENT) if item.kind == "json"]
    for name, sub in commands.choices.items():
        lines = [line for line in text.splitlines() if line.startswith((f"| `{name} ", f"| `{name}` |"))]
        assert lines, f"{name}: a row, or one for each of its forms"
        options = [option for action in actions_of(sub) for option in action.option_strings if option.startswith("--")]
        assert [
            option for option in options if option not in ("--help", "--json") and option not in " ".join(lines)
        ] == []
        assert name in samples


def test_every_sample_is_checked() -> None:
    """No JSON block goes without a marker, and no other block stands in the document."""
    assert {(item.kind, item.language) for item in blocks(DOCUMENT)} == {("json", "json")}


def test_run_and_eval(simharness: Terminal) -> None:
    """A run and its second judgement."""
    file = simharness.write("x.toml", BREAKS, SWIM)
    said = simharness("run", file, "--out", "x", "--swim-defect", "ONE_STEP_REFUTE", "--json")
    assert said.code == 1
    assert shape(said.json) == documented("run")
    said = simharness("eval", "x", "--json")
    assert said.code == 1
    assert shape(said.json) == documented("eval")
    said = simharness("replay", "x", "--json")
    assert said.code == 0
    assert said.json["divergence"] is None
    assert said.json["recorded"] == said.json["replayed"]


def test_an_aborted_run(simharness: Terminal) -> None:
    """An abort is a value too."""
    argv = ("--max-dispatches", "5", "--swim-defect", "ONE_STEP_REFUTE", "--json")
    said = simharness("run", simharness.write("x.toml", SWIM), *argv)
    assert said.code == 4
    assert shape(said.json) == documented("aborted")


def test_check(simharness: Terminal) -> None:
    """One entry a file."""
    said = simharness("check", simharness.write("x.toml", HOLDS), "--json")
    assert said.code == 0
    assert shape(said.json) == documented("check")


def test_a_refusal(simharness: Terminal) -> None:
    """Every command prints its problems in one form."""
    for argv in (("run", "x"), ("check", "x"), ("eval", "x"), ("replay", "x"), ("diff", "x", "x"), ("shrink", "x")):
        said = simharness(*argv, "--json")
        assert said.code == 2
        assert shape(said.json) == documented("refused")


def test_diff_and_replay_of_a_difference(simharness: Terminal) -> None:
    """A divergence has a place, what both share before it, and what each side has."""
    one, two = simharness.bundle("one", HOLDS), simharness.bundle("two", BREAKS)
    said = simharness("diff", one, two, "--json")
    assert said.code == 1
    assert shape(said.json) == documented("diff")
    simharness("eval", one)
    verdicts = simharness.directory.joinpath(one, "verdicts.json")
    verdicts.write_bytes(verdicts.read_bytes().replace(b'"Pass"', b'"Fail"'))
    said = simharness("replay", one, "--json")
    assert said.code == 1
    assert shape(said.json) == documented("replay")
    assert simharness("diff", one, one, "--json").json == {"equal": True, "divergence": None}


def test_shrink(simharness: Terminal) -> None:
    """What failed, and how much of it is left."""
    said = simharness("shrink", simharness.write("x.toml", HOLDS, BREAKS), "--json")
    assert said.code == 0
    assert shape(said.json) == documented("shrink")


def test_sweep(simharness: Terminal) -> None:
    """Totals, and the first failing row with the line that replays it."""
    bounded = '[[assertions]]\nkind = "event_count"\nevent_kind = "EchoReceived"\nmax = 5\npeer = "a"\n'
    file = simharness.write("x.toml", bounded, SWIM, '[[mutations]]\nat_ns = 5\nkind = "heal"\n')
    argv = ("--seeds", "0..2", "--jobs", "1", "--swim-defect", "ONE_STEP_REFUTE", "--json")
    said = simharness("sweep", file, *argv)
    assert said.code == 1
    assert shape(said.json) == documented("sweep")


def test_knobs_and_watch() -> None:
    """A kill-table row and a turn of the watch loop, made without hunting and watching."""
    found = Hunt(knob=SWIM_KNOBS[0], budget=1, tries=1)
    assert [*row(found, (), seconds=0)] == [*documented("knobs")[0]]
    assert [*Turn((), {}, [], "")._asdict()] == [*documented("watch")]
