"""Where two bundles part."""

from pathlib import Path

from simharness.bundle.diff import Divergence, first_divergence
from simharness.bundle.reader import Bundle
from tests.bundle.support import event, snapshot, write


def test_equal_bundles(tmp_path: Path) -> None:
    """The same records have no divergence."""
    records = [event(1, 1), snapshot(2, 2)]
    assert first_divergence(Bundle(write(tmp_path / "a", records)), Bundle(write(tmp_path / "b", records))) is None


def test_first_differing_line_with_context(tmp_path: Path) -> None:
    """The place, what both had before it, and how each goes on."""
    left = Bundle(write(tmp_path / "a", [event(n, n, said=n) for n in range(8)]))
    right = Bundle(write(tmp_path / "b", [event(n, n, said=n + 10 * (n == 5)) for n in range(7)]))
    found = first_divergence(left, right, context=2)
    assert found is not None
    lines = [line.decode().rstrip("\n") for line in left.lines()]
    assert found.place == "events.ndjson:5"
    assert found.before == tuple(lines[3:5])
    assert found.left == tuple(lines[5:8])
    assert found.right == (lines[5].replace(":5}", ":15}"), lines[6])


def test_one_side_ends(tmp_path: Path) -> None:
    """A prefix parts from the longer stream where it ends."""
    left = Bundle(write(tmp_path / "a", [event(1, 1)]))
    right = Bundle(write(tmp_path / "b", [event(1, 1), event(2, 2)]))
    found = first_divergence(left, right)
    assert isinstance(found, Divergence)
    assert (found.place, found.left, len(found.right)) == ("events.ndjson:1", (), 1)


def test_snapshots_and_verdicts_are_compared_too(tmp_path: Path) -> None:
    """Equal events: then the first differing snapshot in path order, then the verdicts."""
    left = Bundle(write(tmp_path / "a", [event(1, 1), snapshot(2, 2, x=1), snapshot(3, 3, "b")]))
    right = Bundle(write(tmp_path / "b", [event(1, 1), snapshot(2, 2, x=2), snapshot(3, 3, "c")]))
    found = first_divergence(left, right)
    assert found is not None
    assert found.place == "snapshots/a/0.json:5"
    assert (found.left[0], found.right[0]) == ('    "x": 1', '    "x": 2')
    other = Bundle(write(tmp_path / "c", [event(1, 1), snapshot(2, 2, x=1)]))
    found = first_divergence(left, other)
    assert found is not None
    assert (found.place, found.right) == ("snapshots/b/0.json:0", ())
    same = Bundle(write(tmp_path / "d", [event(1, 1), snapshot(2, 2, x=1), snapshot(3, 3, "b")]))
    same.put_verdicts(b"[]")
    found = first_divergence(left, same)
    assert found is not None
    assert found.place == "verdicts.json:0"
