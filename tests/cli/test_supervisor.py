"""`simharness supervisor`: batches that add up and go on, failures that replay and shrink, exit codes."""

import re
from pathlib import Path

import pytest

from simharness.supervisor.batch import Tally, Task, run_block, total
from tests.cli.support import Terminal

ONE_JOB = ("--jobs", "1")


def test_a_clean_batch_exits_with_0_and_an_uncovered_one_with_3(simharness: Terminal) -> None:
    """Four seeds are clean, and far too few to have seen everything."""
    argv = ("supervisor", "batch", "--seeds", "0..4", "--shape", "slurm", "--json", *ONE_JOB)
    said = simharness(*argv)
    assert (said.code, said.json["runs"], said.json["breaches"]) == (0, {"slurm": 4}, [])
    said = simharness(*argv, "--coverage")
    assert said.code == 3
    assert "outcome_lost" in said.json["uncovered"]["slurm"]
    assert [*said.json] == ["task", *Tally.__struct_fields__, "uncovered", "seconds"]


def test_a_violation_says_so_first_and_names_its_replay(simharness: Terminal) -> None:
    """The defects come first, then the verdict, then invariant, place, last steps and both commands."""
    said = simharness("supervisor", "batch", "--seed", "0", "--shape", "slurm", "--defect", "ungated_start", *ONE_JOB)
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[0].split() == ["defects", "UNGATED_START"]
    assert lines[1].startswith("violation")
    assert lines[2].startswith("invariant 4: ")
    assert "    simharness supervisor minimise --seed 0 --shape slurm --defect UNGATED_START" in lines
    traced = simharness(
        "supervisor", "batch", "--seed", "0", "--shape", "slurm", "--trace", "--defect", "UNGATED_START"
    )
    assert traced.code == 1
    assert "VIOLATION" in traced.out


def test_a_failing_seed_shrinks_to_a_file(simharness: Terminal, tmp_path: Path) -> None:
    """The minimised schedule is short, and the file has no defect in it; its header names the one that found it."""
    out = str(tmp_path / "small.toml")
    argv = ("--seed", "0", "--shape", "slurm", "--defect", "UNGATED_START", "--out", out, "--json")
    said = simharness("supervisor", "minimise", *argv)
    assert said.code == 0
    assert 0 < said.json["size"] <= 12 < said.json["before"]
    text = Path(out).read_text("utf-8")
    assert "# expected: pass-now" in text
    assert "invariant 4 at seed 0 in the shape slurm, found with UNGATED_START, minimised" in text
    assert "defects" not in text


def test_the_line_that_minimise_prints_shows_the_failure(simharness: Terminal) -> None:
    """Parents are made; the printed command fails with the same invariant, without the defect it passes; once more is no harm."""
    argv = (
        "supervisor",
        "minimise",
        "--seed",
        "0",
        "--shape",
        "slurm",
        "--defect",
        "ungated_start",
        "--out",
        "a/b.toml",
    )
    said = simharness(*argv)
    assert said.code == 0
    (line,) = [line.split()[2:] for line in said.out.splitlines() if line.startswith("replay ")]
    assert line == ["supervisor", "replay", "--from", "a/b.toml", "--defect", "UNGATED_START"]
    said = simharness(*line)
    assert (said.code, said.out.splitlines()[0].split()) == (1, ["defects", "UNGATED_START"])
    assert said.out.splitlines()[2].startswith("invariant 4: ")
    assert simharness(*line, "--json").json["violated"] == "4"
    said = simharness(*line[:4])
    assert (said.code, said.out.split()[0]) == (0, "clean")
    assert simharness(*argv).code == 0


@pytest.mark.parametrize("out", ["notes", "link", "folder", "notes/x.toml", "/dev/full"])
def test_minimise_destroys_nothing(simharness: Terminal, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    """A file of somebody else, a link to it, a directory, a device: refused before anything is run, and left as they are."""
    monkeypatch.setattr("simharness.cli.supervisor_seed.run_seed", None)
    Path("notes").write_text("mine", "utf-8")
    Path("link").symlink_to("notes")
    Path("folder").mkdir()
    before = simharness.tree()
    argv = ("--seed", "0", "--shape", "slurm", "--defect", "ungated_start", "--out", out)
    said = simharness("supervisor", "minimise", *argv)
    assert (said.code, said.err.splitlines()[0]) == (2, f"file: {out}")
    assert (simharness.tree(), Path("link").is_symlink()) == (before, True)


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("supervisor", "UNGATED_START-mine.toml"),
        ("training", "UNWEIGHTED_MEAN_ring.toml"),
        ("swim", "OWN_PAUSE_COUNTED.toml"),
    ],
)
def test_knobs_destroys_nothing(simharness: Terminal, system: str, name: str) -> None:
    """A file where a hunt may write, and that no hunt wrote, is refused before the hunt; one that a hunt wrote is not."""
    Path("d").mkdir()
    Path("d", name).write_text("mine", "utf-8")
    said = simharness("knobs", "--system", system, "--defect", re.split("[-.]|_ring", name)[0], "--out", "d")
    assert (said.code, said.err.splitlines()[0], "was not written by knobs" in said.err) == (2, f"file: d/{name}", True)
    assert Path("d", name).read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (("replay", "--seed", "1", "--shape", "slurm", "--twice"), "--twice"),
        (("replay", "--seed", "1", "--shape", "slurm", "--coverage"), "--coverage"),
        (("replay", "--seed", "1", "--shape", "slurm", "--out", "x"), "--out"),
        (("replay", "--seeds", "1..2", "--shape", "slurm"), "--seeds"),
        (("replay", "--from", "x", "--seed", "1"), "--seed"),
        (("replay",), "--seed"),
        (("replay", "--seed", "1"), "--shape"),
        (("minimise", "--seed", "1", "--shape", "slurm", "--jobs", "2"), "--jobs"),
        (("minimise", "--shape", "slurm"), "--seed"),
        (("batch", "--seed", "1", "--common"), "--common"),
        (("batch", "--seed", "1", "--from", "x"), "--from"),
        (("batch", "--merge", "x", "--twice"), "--twice"),
        (("batch", "--seed", "1", "--trace", "--twice"), "--twice"),
        (("approve", "--coverage"), "--coverage"),
        (("status", "--jobs", "2"), "--jobs"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(simharness: Terminal, argv: tuple[str, ...], field: str) -> None:
    """So is one that is missing: the field is its name."""
    said = simharness("supervisor", *argv)
    assert (said.code, said.err.splitlines()[1]) == (2, f"field: {field}")
    assert simharness.tree() == {}


def test_a_hunt_says_what_it_found_a_scenario_with(simharness: Terminal, tmp_path: Path) -> None:
    """The file that a hunted knob leaves names the knob in its header."""
    argv = ("--system", "supervisor", "--defect", "UNGATED_START", "--out", str(tmp_path), *ONE_JOB)
    assert simharness("knobs", *argv).code == 0
    (file,) = tmp_path.iterdir()
    assert simharness("knobs", *argv).code == 0
    assert file.name.startswith("UNGATED_START-4-")
    assert ", found with UNGATED_START, minimised\n" in file.read_text("utf-8")


def test_a_seed_replays(simharness: Terminal) -> None:
    """Twice, and from its recorded schedule."""
    said = simharness("supervisor", "replay", "--seed", "1", "--shape", "kubeflow", "--json")
    assert (said.code, said.json["equal"], len(set(said.json["hashes"]))) == (0, True, 1)


def test_shards_add_up_and_a_stopped_batch_goes_on(simharness: Terminal, tmp_path: Path) -> None:
    """Two shards merge to the batch; a file that was cut off in a line is taken up where it is whole."""
    argv = ("supervisor", "batch", "--seeds", "0..7", "--shape", "slurm", "--json", *ONE_JOB)
    whole = simharness(*argv).json
    files = []
    for shard in ("0/2", "1/2"):
        files.append(str(tmp_path / shard[0]))
        assert simharness(*argv, "--shard", shard, "--out", files[-1]).code == 0
    both = simharness("supervisor", "batch", "--merge", *files, "--json").json
    assert [both[key] for key in ("runs", "counters", "digest", "steps")] == [
        whole[key] for key in ("runs", "counters", "digest", "steps")
    ]
    path = Path(files[0])
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    assert simharness(*argv, "--shard", "0/2", "--out", files[0]).code == 0
    assert path.read_bytes() == data
    path.write_bytes(data.replace(b'"steps":', b'"steps":1'))
    for words in ((*argv, "--shard", "0/2", "--out", files[0]), ("supervisor", "batch", "--merge", *files)):
        said = simharness(*words)
        assert (said.code, "line 2" in said.err, "its checksum does not fit" in said.err) == (2, True, True)
    path.write_bytes(b"words")
    assert (simharness(*argv, "--out", files[0]).code, path.read_bytes()) == (2, b"words")
    path.write_bytes(data)
    assert simharness(*argv, "--out", files[0]).code == 2
    assert simharness("supervisor", "batch", "--merge", files[0]).code == 2


@pytest.mark.parametrize(
    "argv",
    [
        ("batch",),
        ("batch", "--seed", "1", "--seeds", "0..2"),
        ("batch", "--seeds", "2..1"),
        ("batch", "--seed", "1", "--shape", "pbs"),
        ("batch", "--seed", "1", "--defect", "nothing"),
        ("batch", "--seed", "1", "--shard", "2/2"),
        ("minimise", "--seed", "1"),
        ("minimise", "--seed", "1", "--shape", "slurm"),
        ("replay", "--seeds", "0..2", "--shape", "slurm"),
    ],
)
def test_bad_input_exits_with_2(simharness: Terminal, argv: tuple[str, ...]) -> None:
    """Each is one structured error; nothing runs."""
    said = simharness("supervisor", *argv)
    assert said.code == 2
    assert "rule: " in said.err


def test_blocks_of_any_cut_add_up() -> None:
    """Digest and counters do not depend on how seeds were dealt out."""
    whole = Task(first=3, last=9, shapes=("kubeflow",))
    parts = [Task(first=3, last=9, shapes=("kubeflow",), index=i, shards=3) for i in range(3)]
    dealt = total(run_block(part, block) for part in parts for block in part.blocks())
    assert dealt == total(run_block(whole, block) for block in whole.blocks())
    assert sorted(seed for part in parts for block in part.blocks() for seed in part.seeds(block)) == [*range(3, 9)]
