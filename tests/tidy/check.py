"""Applies the rules to the tree by the checked-in table, and takes off what the exemptions file names."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.tidy.rules import RULES
from tests.tidy.sets import Sets, agreed
from tests.tidy.source import Finding, Source

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
_NAMED_FILES: Final = {"__main__.py": "main", "__init__.py": "front"}
_ROOMS_WITHIN: Final = ("systems/supervisor",)
"""Packages that have rules of their own inside their room."""


class Exemption(NamedTuple):
    """One written exception: the finding's file, rule and symbol, and why it is right."""

    file: str
    rule: str
    symbol: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Tell whether this is the exemption of `finding`."""
        return (self.file, self.rule, self.symbol) == (finding.file, finding.rule, finding.symbol)


class Table(NamedTuple):
    """Rule -> the rooms it holds in, and every room there is."""

    rooms: tuple[str, ...]
    rules: Mapping[str, tuple[str, ...]]


def load_table() -> Table:
    """Read the checked-in table."""
    raw = tomllib.loads(HERE.joinpath("table.toml").read_text("utf-8"))
    return Table(tuple(raw["rooms"]), {rule: tuple(rooms) for rule, rooms in raw["rules"].items()})


def load_exemptions() -> tuple[Exemption, ...]:
    """Read the checked-in exemptions."""
    raw = tomllib.loads(HERE.joinpath("exemptions.toml").read_text("utf-8"))
    return tuple(Exemption(**entry) for entry in raw.get("exempt", []))


def package_files() -> dict[str, str]:
    """Return every module of the package as path -> text, in path order."""
    paths = sorted(ROOT.joinpath("simharness").rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def room_of(file: str) -> str:
    """Return the room of a module path such as `simharness/core/ids.py`."""
    first, *deeper = file.removeprefix("simharness/").split("/")
    return first if deeper else _NAMED_FILES.get(first, first.removesuffix(".py"))


def row_of(file: str) -> str:
    """Return under which name the table has a module: its room, or the package within it that has rules of its own."""
    return next((within for within in _ROOMS_WITHIN if file.startswith(f"simharness/{within}/")), room_of(file))


def findings(files: Mapping[str, str], table: Table) -> list[Finding]:
    """Return everything that the rules of each module's room find, in file and line order."""
    sources = [Source(file, text) for file, text in files.items()]
    declared = agreed(sources)
    found = []
    for source in sources:
        sets = Sets(source, declared)
        room = row_of(source.file)
        for rule, rooms in table.rules.items():
            for hit in RULES[rule](source, sets) if room in rooms else ():
                line = getattr(hit.node, "lineno", 1)
                symbol = hit.symbol or source.qualname(hit.node)
                found.append(Finding(source.file, line, rule, symbol, hit.message))
    return sorted(found)
