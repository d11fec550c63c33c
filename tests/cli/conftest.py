"""Every test of the command line runs in an empty directory of its own."""

from pathlib import Path

import pytest

from tests.cli.support import Terminal


@pytest.fixture
def simharness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """The command line, in a directory that holds nothing."""
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path, capsys)
