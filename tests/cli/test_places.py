"""Where output goes when several runs write at once, and when nobody has said where (rulings B19, C1, C3)."""

import subprocess
from pathlib import Path

import pytest

from simharness.bundle.reader import Bundle
from simharness.cli.names import default_name
from simharness.cli.sweep_rows import RowFile
from simharness.core.errors import InputError
from tests.cli.support import BREAKS, HOLDS, Terminal, command, environment
from tests.documents import ROOT


def test_runs_at_once_with_one_place(simharness: Terminal) -> None:
    """Each gives its own verdict and exit code; the bundle that stays is one of theirs, whole, with nothing beside it."""
    files = [simharness.write("holds.toml", HOLDS), simharness.write("breaks.toml", BREAKS)]
    processes = [
        subprocess.Popen(
            command("run", file, "--out", "x"),
            cwd=simharness.directory,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for file in files * 2
    ]
    said = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 1, 0, 1]
    assert [err for _, err in said] == [""] * 4
    assert ["1 Pass" in said[0][0], "1 Fail" in said[1][0], "EchoReceived" in said[3][0]] == [True] * 3
    assert Bundle(simharness.directory / "x").verify() == ()
    assert simharness("replay", "x").code == 0
    assert sorted(path.name for path in simharness.directory.iterdir()) == ["breaks.toml", "holds.toml", "x"]


def test_default_places_differ(simharness: Terminal) -> None:
    """Files of one name in two directories get a place each (ruling C1)."""
    for directory in ("d1", "d2"):
        simharness.directory.joinpath(directory).mkdir()
        simharness.write(f"{directory}/x.toml", HOLDS)
        assert simharness("run", f"{directory}/x.toml").code == 0
    places = sorted(path.name for path in simharness.directory.joinpath(".simharness/runs").iterdir())
    assert places == ["d1-x", "d2-x"]


@pytest.mark.usefixtures("simharness")
def test_default_names() -> None:
    """The path without `scenarios` in front; digits of a hash behind wherever another file could have the name too."""
    assert [default_name(file) for file in ("x.toml", "./x.toml", "scenarios/a/x.toml", "d/x.toml")] == [
        "x",
        "x",
        "a-x",
        "d-x",
    ]
    Path("scenarios").mkdir()
    Path("scenarios/x.toml").touch()
    alike = [
        "x.toml",
        "scenarios/x.toml",
        "a-x.toml",
        "a/x.toml",
        "scenarios/a-x.toml",
        "a\u00e9x.toml",
        "a\u00e8x.toml",
    ]
    alike += ["../x.toml", "/x.toml", "/a/x.toml", "x", ".x.toml", "y/" * 100 + "x.toml", "y/" * 101 + "x.toml"]
    names = [default_name(file) for file in alike]
    assert len(dict.fromkeys(names)) == len(alike)
    assert names[1] == "x"
    assert names[0].startswith("x-")
    assert max(map(len, names)) <= 130
    assert not any(name.startswith(".") or "/" in name for name in names)


def test_two_sweeps_do_not_share_a_row_file(simharness: Terminal) -> None:
    """The second is told so before it runs anything; the file stays the first one's."""
    file = simharness.write("x.toml", HOLDS)
    held = RowFile(Path("rows.ndjson"))
    said = simharness("sweep", file, "--seeds", "0..2", "--jobs", "1", "--out", "rows.ndjson")
    assert (said.code, "another sweep is writing this file" in said.err) == (2, True)
    held.close()
    assert not Path("rows.ndjson").exists()
    assert simharness("sweep", file, "--seeds", "0..2", "--jobs", "1", "--out", "rows.ndjson").code == 0
    with pytest.raises(InputError, match="not a directory"):
        RowFile(Path("rows.ndjson/rows"))


def test_a_sweep_that_is_interrupted_leaves_no_empty_file(
    simharness: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are done stay; a file without any does not, unless it was there before."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    file = simharness.write("x.toml", HOLDS)
    monkeypatch.setattr("simharness.cli.sweep_command.rows", interrupted)
    argv = ("sweep", file, "--seeds", "0..2", "--out", "rows.ndjson")
    assert simharness(*argv).code == 130
    assert not Path("rows.ndjson").exists()
    Path("rows.ndjson").touch()
    assert simharness(*argv).code == 130
    assert Path("rows.ndjson").exists()
    said = simharness("sweep", file, "--seeds", "0..2", "--out", "/dev/null")
    assert (said.code, said.err.splitlines()[2]) == (2, "rule: is no regular file")


@pytest.mark.parametrize(
    ("place", "rule"), [("x.toml/out", "x.toml is not a directory"), ("/proc/out", "No such file or directory")]
)
def test_a_place_that_cannot_be_is_found_before_any_work(simharness: Terminal, place: str, rule: str) -> None:
    """Each command that writes says so at once, and names what its user named, nothing of its own."""
    file = simharness.write("x.toml", HOLDS)
    case = ("--seed", "1", "--strategy", "ps", "--policy", "own")
    for argv in (
        ("run", file),
        ("live", str(ROOT / "scenarios" / "smoke" / "mesh3.toml")),
        ("shrink", file),
        ("knobs",),
        ("calibrate",),
        ("sweep", file, "--seeds", "0..2"),
        ("sweep", "training", *case),
        ("supervisor", "batch", "--seeds", "0..2"),
        ("supervisor", "minimise", "--seed", "1", "--defect", "LOCAL_CHOICE"),
        ("training", "report", "--quick"),
        ("training", "bench"),
        ("training", "crosscheck"),
        ("sweep", "training", *case, "--emit"),
    ):
        said = simharness(*argv, *(() if argv[-1] == "--emit" else ("--out",)), place)
        assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 3), (argv, said)
        assert said.err.startswith(f"file: {place}")
        assert said.err.endswith(f"field: (io)\nrule: {rule}\n")
    assert [path.name for path in simharness.directory.iterdir()] == [file]
