"""Reads the code blocks of a Markdown document with the marker that stands before each; types what a console block shows."""

import os
import re
import subprocess
import sys
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


class Typed(NamedTuple):
    """One line of a console block: what is typed, how it exits, what it prints (`...` stands for anything)."""

    command: str
    code: int
    output: tuple[str, ...]


def typed(text: str) -> list[Typed]:
    """Return the commands of a console block. `# exits with N` at the end of a line is a comment to the shell too."""
    found: list[Typed] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            code = re.search(r" # exits with (\d+)$", line)
            found.append(Typed(line.removeprefix("$ "), int(code[1]) if code else 0, ()))
        else:
            found[-1] = found[-1]._replace(output=(*found[-1].output, line))
    return found


def pattern(lines: tuple[str, ...]) -> str:
    """Return the regular expression of a printed output; a line of `...` alone stands for any number of lines."""
    parts = [".*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n" for line in lines]
    return "".join(parts) + ".*"


def play(text: str, place: Path) -> None:
    """Type the lines of a console block in `place`: they exit and print as they are shown, and nothing goes to standard error."""
    bin_directory = place.joinpath("bin")
    bin_directory.mkdir(exist_ok=True)
    script = bin_directory.joinpath("simharness")
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m simharness "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    environment = {"PATH": f"{bin_directory}{os.pathsep}/usr/bin{os.pathsep}/bin", "PYTHONPATH": str(ROOT)}
    lines = typed(text)
    assert lines
    for line in lines:
        outcome = subprocess.run(
            ["sh", "-c", line.command], cwd=place, env=environment, check=False, capture_output=True, text=True
        )
        assert (outcome.returncode, outcome.stderr) == (line.code, ""), line.command
        assert re.fullmatch(pattern(line.output), outcome.stdout, re.DOTALL), outcome.stdout
