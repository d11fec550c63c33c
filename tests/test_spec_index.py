"""Every behavioural paragraph of the spec names at least one test, and no test names a paragraph that is not there."""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.tidy.check import ROOT

_RAW: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("spec_index.toml").read_text("utf-8"))
SECTIONS: Final = ("§4.10", "§5.7", "§5A.5", "§6.4", "§6A.6", "§8.4", "§9.6", "§10.5")

Paragraph = tuple[str, str]


class Claim(NamedTuple):
    """One `spec` marker on a test: the paragraph it names and where it stands."""

    paragraph: Paragraph
    where: str


def indexed(part: str) -> frozenset[Paragraph]:
    """Return the paragraphs of `now` or `later`."""
    return frozenset((section, name) for section, row in _RAW[part].items() for name in row["paragraphs"])


def claims(files: Mapping[str, str]) -> Iterator[Claim]:
    """Yield every `spec` marker of a collected test: a decorator of a test function or class, or in `pytestmark`."""
    for file, text in files.items():
        tree = ast.parse(text)
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name, decorator_list=markers) if name.startswith("test"):
                    pass
                case ast.ClassDef(name=name, decorator_list=markers) if name.startswith("Test"):
                    pass
                case ast.Assign(targets=[ast.Name(id="pytestmark")], value=ast.List(elts=markers)):
                    pass
                case ast.Assign(targets=[ast.Name(id="pytestmark")], value=marker):
                    markers = [marker]
                case _:
                    continue
            for call in markers:
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.spec":
                    yield Claim(_literal(call), f"{file}:{call.lineno}")


def _literal(call: ast.Call) -> Paragraph:
    match call.args:
        case [ast.Constant(value=str(section)), ast.Constant(value=str(name))] if not call.keywords:
            return section, name
    return "not two literal strings", ast.unparse(call)


def faults(found: list[Claim], now: frozenset[Paragraph], later: frozenset[Paragraph]) -> list[str]:
    """Return what is wrong between the index and the markers, one line each."""
    tested = {claim.paragraph for claim in found}
    untested = [f"{section} {name!r} names no test" for section, name in sorted(now - tested)]
    early = [f"{section} {name!r} is tested: move it out of `later`" for section, name in sorted(later & tested)]
    unknown = [f"{one.where}: the spec has no {one.paragraph}" for one in found if one.paragraph not in now | later]
    return untested + early + unknown


def collected_modules() -> dict[str, str]:
    """Return every module of tests/ and properties/ as path -> text."""
    paths = [path for folder in ("tests", "properties") for path in sorted(ROOT.joinpath(folder).rglob("test_*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def test_every_paragraph_names_a_test() -> None:
    """§4.10, §5.7, §5A.5, §6.4, §6A.6, §8.4, §9.6 and §10.5, paragraph by paragraph."""
    assert faults(list(claims(collected_modules())), indexed("now"), indexed("later")) == []


def test_the_index_covers_every_behavioural_section() -> None:
    """A section cannot leave the index, and none is in both halves."""
    assert sorted([*_RAW["now"], *_RAW["later"]]) == sorted(SECTIONS)
    assert all(row["paragraphs"] for part in _RAW.values() for row in part.values())


def test_paragraphs_still_to_come() -> None:
    """What the spec asks of capabilities that are not there yet: reported with the reason, never silently passed."""
    rows = [f"{section} ({len(row['paragraphs'])}): {row['reason']}" for section, row in _RAW["later"].items()]
    if rows:
        pytest.xfail("; ".join(rows))


MARKED = """
import pytest

@pytest.mark.spec("§1", "One")
def test_one(): ...

@pytest.mark.spec("§1", "Two")
class TestTwo: ...

class TestThree:
    pytestmark = [pytest.mark.slow, pytest.mark.spec("§1", "Three")]

@pytest.mark.spec("§1", "Four")
def helper(): ...
"""


def test_a_marker_counts_on_a_test_only() -> None:
    """Functions, classes and `pytestmark`; a marker on a helper that pytest never collects proves nothing."""
    assert [claim.paragraph[1] for claim in claims({"tests/test_x.py": MARKED})] == ["One", "Two", "Three"]


@pytest.mark.parametrize("missing", ["One", "Two", "Three"])
def test_a_missing_test_is_noticed(missing: str) -> None:
    """Take one marker away and the check names exactly that paragraph."""
    now = frozenset({("§1", "One"), ("§1", "Two"), ("§1", "Three")})
    assert faults(list(claims({"tests/test_x.py": MARKED})), now, frozenset()) == []
    without = MARKED.replace(f'pytest.mark.spec("§1", "{missing}")', "pytest.mark.slow")
    assert faults(list(claims({"tests/test_x.py": without})), now, frozenset()) == [f"§1 {missing!r} names no test"]


@pytest.mark.parametrize(
    ("marker", "fault"),
    [
        ('"§1", "One."', "tests/test_x.py:1: the spec has no ('§1', 'One.')"),
        ('"§2", "One"', "tests/test_x.py:1: the spec has no ('§2', 'One')"),
        ("*ROW", "tests/test_x.py:1: the spec has no ('not two literal strings', 'pytest.mark.spec(*ROW)')"),
        ('"§1", "Later"', "§1 'Later' is tested: move it out of `later`"),
    ],
)
def test_a_wrong_marker_is_noticed(marker: str, fault: str) -> None:
    """A marker names a paragraph of the index, letter by letter, and one that is due."""
    found = list(claims({"tests/test_x.py": f"@pytest.mark.spec({marker})\ndef test_x(): ..."}))
    now = frozenset({("§1", "One")})
    assert fault in faults(found, now, frozenset({("§1", "Later")}))


def test_real_rows_are_missed_one_by_one() -> None:
    """On the real tree: whichever paragraph loses its tests, the check says so."""
    found = list(claims(collected_modules()))
    now = indexed("now")
    for paragraph in sorted(now):
        rest = [claim for claim in found if claim.paragraph != paragraph]
        section, name = paragraph
        assert f"{section} {name!r} names no test" in faults(rest, now, indexed("later"))
