"""Places that output may take: what cannot be made there is found before any work, and files come whole or not at all."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from simharness.bundle.places import check_folder, check_own, check_replaceable, check_writable, put_files
from simharness.core.errors import InputError

LONG = "a" * 250
CHECKS = {
    "writable": check_writable,
    "replaceable": check_replaceable,
    "own": lambda place: check_own(place, lambda _: True, by="a test"),
    "folder": lambda place: check_folder(place, {"x.json": lambda _: True}),
}


def tree(directory: Path) -> list[str]:
    """Return the names of everything below a directory."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ("/proc/x", "No such file or directory"),
        ("/proc/x/y/z", "No such file or directory"),
        (LONG, "File name too long"),
        (f"new/{LONG}{LONG}/x", "File name too long"),
        (f"new/{LONG}", "File name too long"),
        ("file/x", "file is not a directory"),
        ("file/x/y", "file is not a directory"),
    ],
)
def test_what_the_system_refuses_is_found_at_once(
    check: Any, place: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a command writes, a directory or a file: one error about the place that was named, and nothing is left."""
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("file").touch()
    with pytest.raises(InputError) as refused:
        check(Path(place))
    assert (refused.value.problem.file, refused.value.problem.field) in [(place, "(io)"), (f"{place}/x.json", "(io)")]
    assert refused.value.problem.rule == rule
    assert tree(tmp_path) == ["file"]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("place", ["x", "new/x", "new/deep/x", "new/../x", "there/x", "./there/../y"])
def test_looking_leaves_nothing(check: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that is free is found so, and neither it nor its directories are there afterwards."""
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("there").mkdir()
    check(Path(place))
    assert tree(tmp_path) == ["there"]


def test_a_folder_that_takes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a directory that is there already it is asked whether files can be made in it, not beside it."""
    place = tmp_path / "there"
    place.mkdir()
    make = Path.mkdir

    def refusing(self: Path, *args: Any, **more: Any) -> None:
        if self.parent == place:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
        make(self, *args, **more)

    monkeypatch.setattr(Path, "mkdir", refusing)
    with pytest.raises(InputError, match="Read-only file system"):
        check_folder(place, {"x.json": lambda _: True})


def test_files_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the second cannot be written whole, the first keeps the bytes that it had, and nothing hidden stays."""
    one, two = tmp_path / "one", tmp_path / "two"
    put_files({one: b"old"})
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if data == b"too much":
            write(self, data[:3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        put_files({one: b"new", two: b"too much"})
    assert (one.read_bytes(), tree(tmp_path)) == (b"old", ["one"])
    put_files({one: b"new", two: b"also new"})
    assert (one.read_bytes(), two.read_bytes(), tree(tmp_path)) == (b"new", b"also new", ["one", "two"])
