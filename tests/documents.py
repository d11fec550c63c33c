"""Reads the code blocks of a Markdown document with the marker that stands before each."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"^```(?P<language>\S*)$")
_MARKER = re.compile(r"^<!-- (?P<kind>[a-z]+): (?P<name>.+) -->$")


class Block(NamedTuple):
    """One fenced block. `kind` and `name` come from the marker on the line before, both empty if there is none."""

    kind: str
    name: str
    language: str
    text: str
    line: int


def blocks(document: str) -> list[Block]:
    """Return every fenced block of a document of this repository, in order; `line` counts from 1 and is that of the fence."""
    lines = ROOT.joinpath(document).read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    start: int | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if start is not None:
            if line == "```":
                before = _MARKER.match(lines[start - 1]) if start else None
                kind, name = (before["kind"], before["name"]) if before else ("", "")
                opening = _FENCE.match(lines[start])
                assert opening is not None
                text = "".join(f"{inner}\n" for inner in lines[start + 1 : number])
                found.append(Block(kind, name, opening["language"], text, start + 1))
                start = None
        elif fence is not None:
            start = number
    assert start is None, f"{document}: the block at line {start} never ends"
    return found


def block(document: str, kind: str, name: str) -> Block:
    """Return the one block with this marker."""
    (found,) = [item for item in blocks(document) if (item.kind, item.name) == (kind, name)]
    return found
