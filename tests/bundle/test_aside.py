"""Hidden names beside a place (ruling B19): writers of one place never meet, killed ones leave nothing for long."""

from pathlib import Path

import pytest

from simharness.bundle.aside import Aside, aside, is_hidden, remove_leftovers
from simharness.bundle.places import put_file
from simharness.bundle.reader import Bundle
from simharness.bundle.writer import BundleWriter
from simharness.contracts.records import Termination
from tests.bundle.support import FACTS, event

END = Termination(reason="duration", at_ns=9)


def _writer(final: Path, events: int) -> BundleWriter:
    writer = BundleWriter(final, scenario_toml="", facts=FACTS, memory_limit=2)
    for number in range(events):
        writer.write_record(event(number, number))
    return writer


@pytest.mark.parametrize("first", [0, 1])
def test_two_writers_of_one_place(tmp_path: Path, first: int) -> None:
    """Both are at work at once, each ends whole, and the one that ends last stays (ruling B19)."""
    final = tmp_path / "out"
    writers = [_writer(final, 3), _writer(final, 7)]
    lines = []
    for writer in (writers[first], writers[1 - first]):
        writer.finish(END, finalize_received=True)
        bundle = Bundle(final)
        assert bundle.verify() == ()
        lines.append(len(list(bundle.events())))
    assert lines == ([3, 7] if first == 0 else [7, 3])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_somebody_is_writing_is_no_leftover(tmp_path: Path) -> None:
    """A later writer takes another name; a sweep of the directory spares both; each goes when its writer lets go of it."""
    final = tmp_path / "out"
    held = Aside(final)
    with aside(final) as other:
        assert (held.path.name, other.name) == (".out.0.partial", ".out.1.partial")
        remove_leftovers(tmp_path)
        assert held.path.is_dir()
        assert other.is_dir()
    assert not other.exists()
    held.close()
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_the_dead_are_removed(tmp_path: Path) -> None:
    """What no lock holds goes, file or directory, if it is of that place and holds nothing foreign."""
    tmp_path.joinpath(".out.7.partial", "snapshots").mkdir(parents=True)
    tmp_path.joinpath(".out.8.partial").write_bytes(b"half")
    tmp_path.joinpath(".other.0.partial").mkdir()
    tmp_path.joinpath(".out.partial").mkdir()
    put_file(tmp_path / "out", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0.partial", ".out.partial", "out"]
    assert [is_hidden(path.name) for path in sorted(tmp_path.iterdir())] == [True, False, False]
    remove_leftovers(tmp_path)
    assert not tmp_path.joinpath(".other.0.partial").exists()


def test_a_file_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    """`put_file` into a place that is a directory is refused by the system, and its hidden file goes."""
    tmp_path.joinpath("out").mkdir()
    with pytest.raises(IsADirectoryError):
        put_file(tmp_path / "out", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_name_that_was_given_on_is_not_removed(tmp_path: Path) -> None:
    """Once a directory stands in its place, letting go of it removes nothing, whoever has its hidden name by then."""
    held = Aside(tmp_path / "out")
    held.put(tmp_path / "out", lambda _: None)
    successor = Aside(tmp_path / "out")
    assert successor.path == held.path
    held.close()
    assert successor.path.is_dir()
    successor.close()
    assert tmp_path.joinpath("out").is_dir()


def test_a_writer_that_gives_up_takes_the_directories_away_that_it_made(tmp_path: Path) -> None:
    """Those above its place that hold nothing else by then, and none that was there before it."""
    tmp_path.joinpath("old").mkdir()
    for place, left in (("old/a/b/x", ["old"]), ("old/x", ["old"]), ("a/x", ["old"])):
        Aside(tmp_path.joinpath(place)).close()
        assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == left
    held = Aside(tmp_path.joinpath("a/b/x"))
    tmp_path.joinpath("a/mine").touch()
    held.close()
    assert sorted(path.name for path in tmp_path.joinpath("a").iterdir()) == ["mine"]
    held = Aside(tmp_path.joinpath("c/x"))
    held.put(tmp_path.joinpath("c/x"), lambda _: None)
    held.close()
    assert tmp_path.joinpath("c/x").is_dir()
