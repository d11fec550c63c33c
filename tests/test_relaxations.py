"""What enforces the spec cannot be loosened in passing (§14): every load-bearing artefact is pinned."""

import ast
import tomllib
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.pin_artefacts import PINS, ROOT, artefacts, differences, load_pins

RULE: Final = (
    "A relaxation needs a commit of its own whose subject names it and whose body justifies it (§14). "
    "A tightening may land in any commit. Either way: python -m tests.pin_artefacts"
)
SWITCHES: Final = ("--ignore", "--deselect", "-k", "collect_ignore", "|| true", "set +e")


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string of a TOML document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_in(item)


def asserted_strings() -> set[str]:
    """Return every string literal of a test module, and every string of a data file beside one; comments do not count."""
    found: set[str] = set()
    for path in sorted(ROOT.joinpath("tests").rglob("*")):
        if path.suffix == ".py":
            nodes = ast.walk(ast.parse(path.read_text("utf-8")))
            found.update(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        elif path.suffix == ".toml" and path != PINS:
            found.update(strings_in(tomllib.loads(path.read_text("utf-8"))))
    return found


def test_no_artefact_changes_in_passing() -> None:
    """Checker, table, exemptions, layers, spec index, digests and tolerances are what was last pinned."""
    assert differences(load_pins().files, artefacts()) == [], RULE


def test_published_values_are_asserted() -> None:
    """A published constant that no test mentions any more is a removed assertion."""
    literals = asserted_strings()
    missing = [name for name, value in load_pins().values.items() if not any(value in text for text in literals)]
    assert missing == [], RULE


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ({"a": "1", "b": "2"}, []),
        ({"a": "1", "b": "3"}, ["b has changed"]),
        ({"a": "1"}, ["b is gone"]),
        ({"a": "1", "b": "2", "c": "4"}, ["c is new"]),
    ],
)
def test_every_kind_of_change_is_noticed(present: dict[str, str], expected: list[str]) -> None:
    """Changed, removed and added files are told apart."""
    assert differences({"a": "1", "b": "2"}, present) == expected


@pytest.mark.parametrize(
    "path",
    [
        "tests/tidy/table.toml",
        "tests/tidy/exemptions.toml",
        "tests/tidy/rules.py",
        "tests/layers.toml",
        "tests/spec_index.toml",
    ],
)
def test_the_checkers_own_data_is_pinned(path: str) -> None:
    """The pins cannot lose what they exist for."""
    assert path in load_pins().files


@pytest.mark.parametrize("path", ["pyproject.toml", "conftest.py", ".ci/run"])
def test_nothing_is_switched_off(path: str) -> None:
    """No configuration leaves tests out or forgives a failing step."""
    text = ROOT.joinpath(path).read_text("utf-8")
    words = f" {' '.join(text.replace(chr(34), ' ').split())} "
    assert [switch for switch in SWITCHES if f" {switch}" in words] == [], RULE


def test_load_bearing_tests_are_never_skipped() -> None:
    """A skip mark on an artefact's own test would silence it. What is still to come is reported by the spec index alone."""
    for path in (path for path in artefacts() if path.startswith("tests/test_")):
        tree = ast.parse(ROOT.joinpath(path).read_text("utf-8"))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert names.isdisjoint({"skip", "skipif", "importorskip"}), path
