"""The progress bar: for people at a terminal only, and never in the bytes of a run."""

import io

import pytest

from simharness.cli import progress
from tests.cli.support import EARLY, HOLDS, Terminal


class _Tty(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Claim it."""
        return True


def _digest(simharness: Terminal, file: str) -> str:
    """Run a file and return its digest."""
    digest: str = simharness("run", file, "--out", "x", "--json").json["runs"][0]["digest"]
    return digest


@pytest.mark.parametrize("head", ["", EARLY])
@pytest.mark.parametrize("patience_ns", [-1, 10**18])
def test_a_bar_changes_no_byte(
    simharness: Terminal, monkeypatch: pytest.MonkeyPatch, head: str, patience_ns: int
) -> None:
    """With a bar from the start, and with one that never comes, the digest is that of a run in a pipe."""
    file = simharness.write("x.toml", HOLDS, head=head, loss_ppm=200_000)
    expected = _digest(simharness, file)
    terminal = _Tty()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_PATIENCE_NS", patience_ns)
    assert _digest(simharness, file) == expected
    assert ("virtual seconds" in terminal.getvalue()) == (patience_ns < 0)


def test_no_bar_in_a_pipe(simharness: Terminal) -> None:
    """Standard error stays empty where it is no terminal."""
    assert simharness("run", simharness.write("x.toml", duration_ns=20_000_000_000), "--out", "x").err == ""
