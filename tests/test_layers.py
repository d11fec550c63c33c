"""Imports point one way: a checked-in table of rooms, no cycle, and nothing loaded that a command does not need."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.tidy.check import ROOT, package_files, room_of
from tests.tidy.source import Source

_RAW: Final = tomllib.loads(Path(__file__).with_name("layers.toml").read_text("utf-8"))
MAY_IMPORT: Final[Mapping[str, list[str]]] = _RAW["rooms"]
THIRD_PARTY: Final[Mapping[str, list[str]]] = _RAW["third_party"]


class Edge(NamedTuple):
    """An import: the file and line it stands in, and the dotted name it takes."""

    file: str
    line: int
    target: str


def edges(files: Mapping[str, str]) -> Iterator[Edge]:
    """Yield every import of every file, deferred and type-checking ones too; relative ones are made absolute."""
    for file, text in files.items():
        package = file.removesuffix(".py").split("/")[:-1]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Edge(file, node.lineno, alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                stem = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield Edge(file, node.lineno, f"{stem}.{alias.name}")


def broken(files: Mapping[str, str]) -> list[str]:
    """Return every import that the table does not allow, one line each."""
    return [
        f"{edge.file}:{edge.line}: {room_of(edge.file)} may not import {edge.target}"
        for edge in edges(files)
        if not allowed(edge)
    ]


def allowed(edge: Edge) -> bool:
    """Tell whether the table lets this import stand. The front door may be entered by nobody inside."""
    room = room_of(edge.file)
    first, *rest = edge.target.split(".")
    if first != "simharness":
        return first in sys.stdlib_module_names or first in THIRD_PARTY.get(room, ())
    if room not in MAY_IMPORT or not rest:
        return False
    if room == rest[0] == "systems":
        return edge.file.split("/")[2:3] == rest[1:2]
    return rest[0] == room or rest[0] in MAY_IMPORT[room]


def module_graph(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return module -> modules it imports when it is loaded: what stands in a function or is for types only is left out."""
    modules = {file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for file in files}
    graph: dict[str, list[str]] = {}
    for module, file in modules.items():
        source = Source(file, files[file])
        graph[module] = []
        for node, stem in source.imports():
            if source.qualname(node) == "<module>":
                taken = [f"{stem}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else [stem]
                graph[module] += [name if name in modules else stem for name in taken if stem.startswith("simharness")]
    return graph


def loaded_by(module: str) -> list[str]:
    """Return what a fresh interpreter holds after importing `module`, sorted."""
    code = f"import sys, {module}; print('\\n'.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_import_is_in_the_table() -> None:
    """No room knows a room, or a distribution, that the table does not give it. There is no exemption list."""
    assert broken(package_files()) == []


def test_the_table_has_no_cycle_and_closes_over_what_it_names() -> None:
    """The rooms have an order, and both halves of the table name the same rooms."""
    order = list(TopologicalSorter(MAY_IMPORT).static_order())
    assert sorted(order) == sorted(MAY_IMPORT) == sorted(THIRD_PARTY)


def test_no_module_imports_itself_through_others() -> None:
    """Not even within a room is there an import cycle."""
    assert list(TopologicalSorter(module_graph(package_files())).static_order())


@pytest.mark.parametrize(
    ("file", "line", "good"),
    [
        ("core/ids.py", "from simharness.core.units import U64_MAX", True),
        ("core/ids.py", "import orjson", True),
        ("core/ids.py", "import msgspec", False),
        ("core/ids.py", "from simharness.contracts import host", False),
        ("contracts/host.py", "from simharness.core.streams import HostRng", True),
        ("contracts/host.py", "def f():\n    from simharness.engine import queue", False),
        ("engine/queue.py", "from simharness.contracts.network import Drop", True),
        ("engine/queue.py", "from simharness.network.model import LinkNetwork", False),
        ("engine/queue.py", "from simharness import network", False),
        ("engine/queue.py", "from ..network import model", False),
        ("engine/queue.py", "from .slots import Slot", True),
        ("engine/queue.py", "import simharness", False),
        ("engine/queue.py", "from simharness import run", False),
        ("engine/queue.py", "import hypothesis.strategies", False),
        ("systems/swim/node.py", "from simharness.systems.swim.wire import encode", True),
        ("systems/swim/node.py", "from simharness.systems.stage import lifecycle", False),
        ("systems/swim/node.py", "from simharness.core.units import PPM", False),
        ("systems/swim/node.py", "import hypothesis", False),
        ("hosts/swim/kind.py", "from simharness.systems.swim.config import resolve", True),
        ("hosts/swim/kind.py", "from simharness.engine.engine import Engine", False),
        ("scenario/loader.py", "from simharness.hosts.kinds import Kinds", False),
        ("run.py", "from simharness.engine.engine import Engine", True),
        ("run.py", "from simharness.cli import main", False),
        ("__main__.py", "from simharness.cli import main", True),
        ("novel/x.py", "from simharness.core.units import PPM", False),
    ],
)
def test_the_check_sees(file: str, line: str, *, good: bool) -> None:
    """Planted imports: each is judged as the table says, in every spelling; an unknown room may import nothing of ours."""
    assert (broken({f"simharness/{file}": line}) == []) is good


def test_a_cycle_is_seen() -> None:
    """Two modules that load each other are a cycle; deferring one import breaks it."""
    one, two = "simharness/core/one.py", "simharness/core/two.py"
    pair = {one: "from simharness.core import two", two: "from simharness.core.one import x"}
    with pytest.raises(CycleError):
        list(TopologicalSorter(module_graph(pair)).static_order())
    deferred = {**pair, two: "def f():\n    from simharness.core.one import x"}
    assert list(TopologicalSorter(module_graph(deferred)).static_order())


def test_every_room_of_the_package_is_in_the_table() -> None:
    """A new room needs a row before it may import anything."""
    assert sorted({room_of(file) for file in package_files()} - set(MAY_IMPORT)) == []


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        (
            "simharness.scenario.loader",
            ["hypothesis", "pytest", "rich", "numpy", "tomli_w", "simharness.engine", "simharness.network"],
        ),
        (
            "simharness.systems.swim.node",
            ["hypothesis", "simharness.core", "simharness.contracts", "simharness.engine"],
        ),
        ("simharness.engine.engine", ["hypothesis", "simharness.hosts", "simharness.systems", "simharness.network"]),
        ("simharness.hosts.kinds", ["simharness.systems", "simharness.hosts.swim", "importlib.metadata"]),
    ],
)
def test_a_module_loads_nothing_it_does_not_need(module: str, unwanted: list[str]) -> None:
    """In a fresh interpreter: `simharness check` starts fast, and a system runs without the simulator."""
    loaded = loaded_by(module)
    assert module in loaded
    assert [name for name in unwanted if name in loaded] == []
