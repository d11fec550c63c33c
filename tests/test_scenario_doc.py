"""docs/scenario.md: every example loads, every key and kind of the format is in it."""

import re
import tomllib
from pathlib import Path

import pytest

from simharness.contracts.assertions import ASSERTION_TYPES
from simharness.contracts.links import LinkPolicy, RelayDecl
from simharness.contracts.mutations import MUTATION_TYPES, kind_of
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, SnapshotDecl
from simharness.hosts.kinds import BUILT_IN, Kinds
from simharness.scenario.document import ARRAYS, SCALARS, TABLES
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from simharness.scenario.schema import spec_of
from simharness.systems.swim.config import ALIASES, FIELDS, Defect
from simharness.systems.training import table as training
from simharness.systems.training.config import TrainingDefect
from tests.documents import ROOT, Block, blocks

DOCUMENT = "docs/scenario.md"
BLOCKS = blocks(DOCUMENT)
EXAMPLES = [block for block in BLOCKS if block.language == "toml"]
TABLE_TYPES = (PeerDecl, RelayDecl, MeshDecl, LinkDecl, SnapshotDecl, LinkPolicy, *MUTATION_TYPES, *ASSERTION_TYPES)


def words() -> set[str]:
    """Return every word that the document's prose and tables put between backticks, alone or in a longer code span."""
    prose = re.sub(
        r"^```.*?^```$", "", ROOT.joinpath(DOCUMENT).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return {word for span in re.findall(r"`([^`\n]+)`", prose) for word in re.findall(r"\w+", span)}


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: f"line{block.line}")
def test_every_example_loads(block: Block, tmp_path: Path) -> None:
    """A block marked `file` is a whole scenario; one marked `over` extends the file it names. Both survive emission."""
    kinds = Kinds()
    files = {name.name.removeprefix("file "): name.text for name in EXAMPLES if name.name.startswith("file ")}
    for name, text in files.items():
        tmp_path.joinpath(name).write_text(text, encoding="utf-8")
    how, base = block.name.split()
    if how == "over":
        assert base in files, f"line {block.line} extends {base}, which no block is marked as"
        tmp_path.joinpath("child.toml").write_text(f'{block.text}\n[base]\nextends = "{base}"\n', encoding="utf-8")
        base = "child.toml"
    scenario = load(tmp_path.joinpath(base), kinds).scenario
    assert loads(emit(scenario), kinds) == scenario


def test_every_block_is_marked() -> None:
    """A TOML block without a marker would not be tested."""
    assert all(block.kind == "toml" for block in EXAMPLES)
    assert {block.language for block in BLOCKS} == {"toml", "text"}


def test_every_key_is_described() -> None:
    """Every key of every table stands in the document, spelt as in TOML."""
    keys = {key for kind in TABLE_TYPES for key in spec_of(kind).fields}
    missing = {*keys, *SCALARS, *TABLES, *ARRAYS, "extends", "period_ns"} - words()
    assert not missing


def test_every_kind_is_described() -> None:
    """Every kind of mutation and of assertion stands in the document and in one of its examples at least."""
    kinds = {kind_of(kind) for kind in (*MUTATION_TYPES, *ASSERTION_TYPES)}
    assert not kinds - words()
    shown = {
        entry["kind"]
        for block in EXAMPLES
        for key in ("mutations", "assertions")
        for entry in tomllib.loads(block.text).get(key, ())
    }
    assert shown == kinds


def test_every_host_kind_is_described() -> None:
    """Every built-in host kind, every field of a `swim` or `[training]` table and every defect stands in the document.

    For the other kinds: every field that a resolved table of the examples has.
    """
    kinds = Kinds()
    examples = [loads(example.text, kinds) for example in EXAMPLES if example.name.startswith("file ")]
    resolved = {field for scenario in examples for peer in scenario.peers for field in peer.kind_config}
    fields = {*resolved, *FIELDS, *ALIASES, *training.FIELDS}
    assert not {*fields, *BUILT_IN, *Defect.__members__, *TrainingDefect.__members__} - words()
