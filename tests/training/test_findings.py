"""Findings: each is reproduced with what was wrong and without it, and its file says what it must."""

import re

import pytest

from simharness.cli.training_command import FINDINGS
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds
from simharness.systems.training.config import TrainingDefect
from simharness.training.demonstrations import DEMONSTRATIONS
from simharness.training.findings import findings_from
from simharness.training.known import KNOWN

TEXTS = {path.name: path.read_text("utf-8") for path in sorted(FINDINGS.glob("*.toml"))}


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_a_reproduction(name: str) -> None:
    """The effect shows with what was wrong, and is gone without it."""
    kinds = Kinds()
    assert DEMONSTRATIONS[name](kinds, True).effect
    assert not DEMONSTRATIONS[name](kinds, False).effect


def test_every_finding_has_a_reproduction() -> None:
    """Files and demonstrations have the same names; each file names its own command and its own test."""
    assert sorted(TEXTS) == sorted(f"{name}.toml" for name in DEMONSTRATIONS)
    for name, finding in zip(TEXTS, (findings_from({name: text})[0] for name, text in TEXTS.items()), strict=True):
        stem = name.removesuffix(".toml")
        assert finding.reproduce == f"simharness training findings {stem}"
        assert finding.test == f"tests/training/test_findings.py::test_a_reproduction[{stem}]"


def test_those_that_would_have_misled_come_first() -> None:
    """They are marked, say what would have been concluded, and some are about our own checks and analysis."""
    found = findings_from(TEXTS)
    marks = [finding.confidently_wrong for finding in found]
    assert marks == sorted(marks, reverse=True)
    assert sum(marks) >= 2
    assert all(bool(finding.wrong_conclusion) == finding.confidently_wrong for finding in found)
    assert {"suite", "analysis", "checker", "protocol"} <= {finding.about for finding in found}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("title = ", "Invalid value"),
        ('title = "t"', "missing required field"),
        (TEXTS["state_zero.toml"] + "extra = 1\n", "unknown field"),
        (TEXTS["state_zero.toml"] + "confidently_wrong = true\n", "is given if, and only if"),
        (TEXTS["state_zero.toml"] + 'wrong_conclusion = "x"\n', "is given if, and only if"),
        (TEXTS["state_zero.toml"].replace('"protocol"', '"weather"'), "Invalid enum value"),
    ],
)
def test_a_malformed_finding_is_refused(text: str, rule: str) -> None:
    """One line says what is wrong with which file."""
    with pytest.raises(InputError, match=re.escape(rule)) as refused:
        findings_from({"x.toml": text})
    assert refused.value.problem.file == "x.toml"


def test_known_bugs_name_our_defects() -> None:
    """What was met elsewhere is answered by defects that exist."""
    for _, _, defects in KNOWN:
        assert all(defect in TrainingDefect.__members__ for defect in defects.split())
