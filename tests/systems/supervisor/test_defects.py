"""The knobs (K1): closed, off by default, and each read where a comment names it."""

import inspect
import re
from pathlib import Path

import pytest

import simharness.systems.supervisor as package
from simharness.systems.supervisor import checkpoint, fold, operator, process
from simharness.systems.supervisor.backend import Adapter
from simharness.systems.supervisor.config import NO_DEFECTS, SupervisorDefect
from simharness.systems.supervisor.decide import next_step
from simharness.systems.supervisor.store.files import FileStore
from simharness.systems.supervisor.store.memory import MemoryRecord

SOURCES = {path.name: path.read_text("utf-8") for path in sorted(Path(package.__path__[0]).rglob("*.py"))}
CODE = "".join(text for name, text in SOURCES.items() if name != "config.py")


@pytest.mark.parametrize("defect", list(SupervisorDefect))
def test_each_is_read_and_named(defect: SupervisorDefect) -> None:
    """Each knob is asked for in the code, and a comment beside it says which it is and which rule it reverts."""
    assert defect.value == defect.name
    assert re.search(rf"SupervisorDefect\.{defect.name}\b", CODE)
    comment = re.search(rf"# knob {defect.name}\b[^\n]*\(R\d+", CODE)
    assert comment, f"no comment names {defect.name} and its rule"


@pytest.mark.parametrize(
    "reader",
    [
        *(fold.apply, fold.extend, fold.fold, next_step, process.supervisor, operator.command, operator.answer),
        *(checkpoint.resolve, FileStore, MemoryRecord, Adapter),
    ],
)
def test_off_by_default(reader: object) -> None:
    """Everything that can revert a rule takes the set of defects explicitly, and it is empty unless given."""
    assert callable(reader)
    assert inspect.signature(reader).parameters["defects"].default == NO_DEFECTS == frozenset()
