"""`export` and `render`: the archive of a run, what is made of it, and what is refused."""

import hashlib

import orjson
import pytest

from tests.bundle import fixture_run
from tests.bundle.production_support import pack
from tests.bundle.support import tree
from tests.cli.support import HOLDS, SWIM, Terminal, run_process
from tests.cli.test_json import documented, shape


def test_export_and_render(simharness: Terminal) -> None:
    """A bundle becomes an archive that says what stands in for what, and both render alike (§9.5)."""
    bundle = simharness.bundle("x", HOLDS, SWIM)
    said = simharness("export", "--to", "production", bundle, "--out", "x.tar.gz")
    assert said.code == 0
    archive = simharness.directory.joinpath("x.tar.gz").read_bytes()
    assert f"sha256       {hashlib.sha256(archive).hexdigest()}\n" in said.out
    assert "substitutes  wall_ms is virtual time divided by 10**6\n" in said.out
    for source, out in ((bundle, "one"), ("x.tar.gz", "two")):
        said = simharness("render", source, "--out", out)
        assert said.code == 0
        assert said.out == f"rendered     {out}  8 files\n"
    assert tree(simharness.directory / "one") == tree(simharness.directory / "two")


def test_json(simharness: Terminal) -> None:
    """Both print what the document shows."""
    bundle = simharness.bundle("x", HOLDS)
    said = simharness("export", "--to", "production", bundle, "--out", "x.tar.gz", "--json")
    assert said.code == 0
    assert shape(said.json) == documented("export")
    assert said.json["typed"] + said.json["custom"] == len(
        simharness.directory.joinpath("x/events.ndjson").read_bytes().splitlines()
    )
    said = simharness("render", "x.tar.gz", "--out", "out", "--json")
    assert said.code == 0
    assert shape(said.json) == documented("render")
    assert said.json["files"] == sorted(path.name for path in simharness.directory.joinpath("out").iterdir())


def test_unknown_types_are_reported_by_name_with_their_count(simharness: Terminal) -> None:
    """On the terminal and as JSON; the rendering is made all the same."""
    files = fixture_run.files()
    record = {"node_id": [0x10] * 32, "monotonic_seq": 99, "wall_ms": 9000, "type": "Novel"}
    files["fixture-run-1/orchestrator/events/events-000002.json"] = [record, record]
    pack(simharness.directory / "x.tar.gz", files)
    said = simharness("render", "x.tar.gz", "--out", "out")
    assert said.code == 0
    assert said.out.splitlines()[1] == "unknown      Novel x 2: not a type of production's schema, passed through"
    assert simharness("render", "x.tar.gz", "--out", "out", "--json").json["unknown"] == {"Novel": 2}


def test_timelines_of_named_nodes(simharness: Terminal) -> None:
    """`--node`, repeated, picks the pairs; an unknown label is refused with those there are."""
    pack(simharness.directory / "x.tar.gz", fixture_run.files())
    said = simharness("render", "x.tar.gz", "--out", "out", "--node", "stage-0", "--node", "stage-1", "--json")
    assert len(said.json["files"]) == 4
    said = simharness("render", "x.tar.gz", "--out", "out", "--node", "nobody")
    assert said.code == 2
    assert (
        "file: (command line)\nfield: --node\nrule: no node is called nobody: orchestrator, stage-0, stage-1\n"
        in said.err
    )


@pytest.mark.parametrize("source", ["none", "empty", "text", "cut", "damaged", "traversal"])
def test_bad_input(simharness: Terminal, source: str) -> None:
    """Three lines, exit code 2, and nothing was written."""
    place = simharness.directory.joinpath("x")
    match source:
        case "empty":
            place.mkdir()
        case "text":
            place.write_text("no archive")
        case "cut":
            archive = pack(place, fixture_run.files()).read_bytes()
            place.write_bytes(archive[: len(archive) // 2])
        case "damaged":
            simharness.bundle("x", HOLDS)
            place.joinpath("events.ndjson").write_bytes(b"")
        case "traversal":
            pack(place, {**fixture_run.files(), "fixture-run-1/../../evil": {}})
        case _:
            pass
    before = simharness.tree()
    commands = [("render", "x", "--out", "out")]
    if source in ("none", "empty", "damaged"):
        commands.append(("export", "--to", "production", "x", "--out", "out"))
    for argv in commands:
        said = simharness(*argv)
        assert said.code == 2
        assert said.out == ""
        assert [line.partition(": ")[0] for line in said.err.splitlines()] == ["file", "field", "rule"]
        assert simharness(*argv, "--json").json["problems"]
    assert simharness.tree() == before


def test_an_archive_is_no_bundle(simharness: Terminal) -> None:
    """Only a bundle is exported."""
    pack(simharness.directory / "x.tar.gz", fixture_run.files())
    said = simharness("export", "--to", "production", "x.tar.gz", "--out", "y.tar.gz")
    assert said.code == 2
    assert "a bundle is a directory" in said.err


def test_an_unknown_form_is_a_wrong_command_line(simharness: Terminal) -> None:
    """`--to` names the form and has no default."""
    for argv in (("export", "x", "--out", "y"), ("export", "--to", "csv", "x", "--out", "y"), ("render", "x")):
        said = simharness(*argv)
        assert said.code == 2
        assert "Traceback" not in said.err


def test_a_fresh_process_writes_the_same(simharness: Terminal) -> None:
    """The archive of another process is the same file."""
    bundle = simharness.bundle("x", HOLDS, SWIM)
    simharness("export", "--to", "production", bundle, "--out", "one.tar.gz")
    done = run_process(simharness.directory, "export", "--to", "production", bundle, "--out", "two.tar.gz", "--json")
    assert done.returncode == 0
    assert orjson.loads(done.stdout)["archive"] == "two.tar.gz"
    one, two = (simharness.directory.joinpath(name).read_bytes() for name in ("one.tar.gz", "two.tar.gz"))
    assert one == two
