"""Bad input: exit code 2, file, field and rule, no traceback, nothing written (§8.4 "Errors are structured")."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import HOLDS, SWIM, Terminal

Make = Callable[[Path], object]

FILES: dict[str, tuple[Make, str, str]] = {
    "missing": (lambda path: None, "(io)", "No such file"),
    "directory": (lambda path: path.mkdir(), "(io)", "not a regular file"),
    "fifo": (os.mkfifo, "(io)", "not a regular file"),
    "dangling-link": (lambda path: path.symlink_to("nowhere"), "(io)", "No such file"),
    "not-toml": (lambda path: path.write_text("name = \n"), "(root)", "not TOML"),
    "utf-16": (lambda path: path.write_text("name", encoding="utf-16"), "(root)", "UTF-16"),
    "binary": (lambda path: path.write_bytes(b"\x80\x81"), "(root)", "not UTF-8"),
    "empty": (lambda path: path.write_bytes(b""), "(root)", "holds no key"),
    "deep": (lambda path: path.write_text("a = " + "[" * 20_000), "(root)", "nested too deeply"),
    "long-integer": (lambda path: path.write_text("seed = " + "9" * 5_000), "(root)", "integer is too long"),
}


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_no_scenario(simharness: Terminal, command: str, what: str) -> None:
    """The file is named with what is wrong with it; opening a FIFO never blocks."""
    make, field, rule = FILES[what]
    make(simharness.directory.joinpath("x.toml"))
    before = sorted(simharness.directory.rglob("*"))
    said = simharness(command, "x.toml")
    lines = said.err.splitlines()
    assert said.code == 2
    assert said.out == ""
    assert lines[:2] == ["file: x.toml", f"field: {field}"]
    assert len(lines) == 3
    assert rule in lines[2]
    assert sorted(simharness.directory.rglob("*")) == before


@pytest.mark.parametrize("command", ["run", "check"])
def test_every_mistake_of_every_file_at_once(simharness: Terminal, command: str) -> None:
    """Several files with several mistakes give one report, and no file is run, the good one included (ruling L17)."""
    files = [
        simharness.write("one.toml", '[[peers]]\nid = "a"\nkind = "echo"\ninitial_state = "ready"\n'),
        simharness.write("good.toml", HOLDS),
        simharness.write("two.toml", '[[mutations]]\nat_ns = 5_000_000_000\nkind = "heel"\n', duration_ns=-1),
        "gone.toml",
    ]
    before = simharness.tree()
    said = simharness(command, *files)
    assert said.code == 2
    found = [tuple(line.partition(": ")[2] for line in problem.splitlines()[:2]) for problem in said.err.split("\n\n")]
    assert found == [
        ("one.toml", "peers[2].id"),
        ("two.toml", "duration_ns"),
        ("two.toml", "mutations[0].kind"),
        ("gone.toml", "(io)"),
    ]
    assert "write heal" in said.err
    assert simharness.tree() == before
    assert said.out == ("" if command == "run" else said.out)


def test_json_carries_the_same_problems(simharness: Terminal) -> None:
    """With `--json` the problems stand on standard output as well, part by part."""
    said = simharness("check", "gone.toml", "--json")
    assert said.code == 2
    (problem,) = said.json["problems"]
    assert said.err == "file: {file}\nfield: {field}\nrule: {rule}\n".format(**problem)


@pytest.mark.parametrize("what", ["foreign-directory", "bundle-with-notes", "file", "link"])
def test_out_never_destroys_what_is_no_bundle(simharness: Terminal, what: str) -> None:
    """`--out` that holds anything but a bundle is refused before the run, and stays as it is."""
    place = simharness.directory.joinpath("place")
    if what == "foreign-directory":
        place.mkdir()
        place.joinpath("thesis.tex").write_text("years of work")
    elif what == "bundle-with-notes":
        simharness.bundle("place", HOLDS)
        place.joinpath("notes.txt").write_text("mine")
    elif what == "file":
        place.write_text("mine")
    else:
        simharness.bundle("real", HOLDS)
        place.symlink_to("real")
    file = simharness.write("x.toml", HOLDS)
    before = simharness.tree()
    said = simharness("run", file, "--out", "place")
    assert said.code == 2
    assert said.err.startswith("file: place\nfield: out\nrule: ")
    assert said.out == ""
    assert simharness.tree() == before


def test_out_is_checked_for_every_file_before_any_runs(simharness: Terminal) -> None:
    """The second place being taken stops the first run too (ruling C3)."""
    files = [simharness.write("one.toml"), simharness.write("two.toml")]
    simharness.directory.joinpath("out", "two").mkdir(parents=True)
    simharness.directory.joinpath("out", "two", "mine.txt").write_text("mine")
    before = simharness.tree()
    said = simharness("run", *files, "--out", "out")
    assert said.code == 2
    assert said.err.startswith("file: out/two\nfield: out\n")
    assert simharness.tree() == before


def test_an_empty_directory_is_free(simharness: Terminal) -> None:
    """`--out` may be an empty directory."""
    simharness.directory.joinpath("x").mkdir()
    assert simharness("run", simharness.write("x.toml"), "--out", "x").code == 0
    assert simharness.directory.joinpath("x", "manifest.json").is_file()


@pytest.mark.parametrize("place", ["x.toml/bundle", "/dev/null/bundle", "/proc/bundle"])
def test_a_place_that_cannot_be_written(simharness: Terminal, place: str) -> None:
    """What the operating system refuses is a structured error about the place."""
    file = simharness.write("x.toml")
    before = simharness.tree()
    said = simharness("run", file, "--out", place)
    assert said.code == 2
    assert said.err.startswith(f"file: {place}\nfield: (io)\nrule: ")
    assert len(said.err.splitlines()) == 3
    assert simharness.tree() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_directory(simharness: Terminal) -> None:
    """Permissions are named, and nothing is left behind."""
    file = simharness.write("x.toml")
    closed = simharness.directory.joinpath("closed")
    closed.mkdir(mode=0o500)
    said = simharness("run", file, "--out", "closed/x")
    assert said.code == 2
    assert "Permission denied" in said.err
    assert list(closed.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("--swim-profile", "deploid", ("current", "deployed")),
        ("--swim-defect", "ONE_STEP", ("ONE_STEP_REFUTE", "REFUTE_STALE_CLAIM", "UNORDERED_MEMBERS")),
    ],
)
def test_an_unknown_profile_or_defect_is_named_with_the_choice(
    simharness: Terminal, option: str, value: str, choices: tuple[str, ...]
) -> None:
    """One problem on the option, however many peers there are, with every name that would do (ruling C4)."""
    said = simharness("run", simharness.write("x.toml", SWIM, SWIM.replace('"s"', '"t"')), option, value)
    lines = said.err.splitlines()
    assert said.code == 2
    assert lines[:2] == ["file: (command line)", f"field: {option}"]
    assert len(lines) == 3
    assert all(choice in lines[2] for choice in choices)


def test_an_option_that_nothing_takes_is_refused(simharness: Terminal) -> None:
    """A SWIM option on files without a swim peer would be ignored without a word (ruling C4)."""
    said = simharness("run", simharness.write("x.toml"), "--swim-profile", "deployed", "--out", "x")
    assert said.code == 2
    assert "field: --swim-profile\nrule: no scenario file here has a swim peer" in said.err
    assert simharness.tree().keys() == {"x.toml"}


def test_two_files_with_one_place_are_refused(simharness: Terminal) -> None:
    """The same file twice would write one bundle over the other (ruling C3)."""
    file = simharness.write("x.toml")
    said = simharness("run", file, file, "--out", "out")
    assert said.code == 2
    assert "rule: this file and x.toml would share the bundle directory x" in said.err
    assert simharness.tree().keys() == {"x.toml"}


def test_names_of_any_bytes(simharness: Terminal) -> None:
    """A file name that is no UTF-8 is escaped in text, in JSON and in the manifest; it stops nothing (rulings C3, C5)."""
    strange = simharness.directory.joinpath(os.fsdecode(b"x\xff\n.toml"))
    strange.write_text(simharness.directory.joinpath(simharness.write("x.toml")).read_text())
    said = simharness("run", strange.name, "--json")
    assert said.code == 0
    assert said.json["runs"][0]["file"] == r"x\udcff\n.toml"
    assert simharness("check", strange.name).out.startswith(r"ok  x\udcff\n.toml ")
    assert simharness("replay", said.json["runs"][0]["bundle"]).code == 0
