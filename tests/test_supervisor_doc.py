"""docs/supervisor.md: what is typed prints what is shown, the schedule plays as traced, every excerpt stands in its source."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.documents import ROOT, block, blocks, play

DOCUMENT = "docs/supervisor.md"


def test_every_block_is_checked() -> None:
    """No block goes without a marker, and each marker is one that a test below takes up."""
    marks = [(item.kind, item.name) for item in blocks(DOCUMENT)]
    assert [(kind, name) for kind, name in marks if kind != "from"] == [
        ("test", "run"),
        ("test", "approve"),
        ("test", "schedule"),
        ("trace", "plain"),
        ("trace", "RESEND_START"),
        ("test", "knob"),
    ]


@pytest.mark.parametrize("name", ["run", "approve", "knob"])
def test_the_console_blocks(name: str, tmp_path: Path) -> None:
    """Typed line by line, they exit and print as they are shown."""
    tmp_path.joinpath("pyproject.toml").write_text('[project]\nname = "simharness"\n', "utf-8")  # whose docs/ they mean
    play(block(DOCUMENT, "test", name).text, tmp_path)


def test_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    """The schedule prints its trace; with the defect switched on the trace ends as it is shown."""
    module = ModuleType("schedule")
    exec(compile(block(DOCUMENT, "test", "schedule").text, DOCUMENT, "exec"), module.__dict__)  # noqa: S102  # our own text
    assert capsys.readouterr().out == block(DOCUMENT, "trace", "plain").text
    assert module.found.violated is None
    broken = module.play("RESEND_START")
    assert broken.violated == "14"
    shown = block(DOCUMENT, "trace", "RESEND_START").text.splitlines()
    assert list(broken.lines[-len(shown) :]) == shown


@pytest.mark.parametrize("item", [item for item in blocks(DOCUMENT) if item.kind == "from"], ids=lambda item: item.name)
def test_an_excerpt_stands_in_its_source(item: "tuple[str, str, str, str, int]") -> None:
    """Line for line, with its indentation."""
    _, name, _, text, _ = item
    assert text in ROOT.joinpath(name).read_text(encoding="utf-8")
