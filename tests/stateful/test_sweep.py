"""Sweeps: rows that depend on the seed alone, and a row file that survives whatever ends the process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from simharness.cli.main import main
from simharness.core.errors import InputError
from simharness.core.streams import Root
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.stateful import registry
from simharness.stateful.session import KINDS
from simharness.stateful.spaces import Space
from simharness.stateful.sweep import TWICE_EVERY, FileSource, Totals, row_of
from tests.cli.support import BREAKS, HOLDS
from tests.documents import ROOT
from tests.stateful.test_shrink import noisy

SPACE = "demand_served"
"""A quick one."""

BROKEN = "--swim-defect=OWN_PAUSE_COUNTED"


def sweep(*words: str) -> int:
    return main(["sweep", *words])


def rows_in(path: Path) -> list[dict]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def echo_file(path: Path, assertion: str) -> Path:
    """A scenario file in which some seeds fail: how many messages are lost depends on the seed."""
    scenario = replace(noisy(), mutations=(), snapshots=(), assertions=())
    scenario = replace(scenario, default_link=replace(scenario.default_link, loss_prob_ppm=500_000))
    path.write_text(emit(scenario) + "\n" + assertion)
    return path


# --- the scenario of a seed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.SPACES)
def test_a_space_is_a_function_of_the_seed(name: str) -> None:
    """Every space: the same scenario each time, another for another seed, numbers within their ranges, a file that loads."""
    space = registry.space_named(name)
    scenario = space.scenario(5)
    assert scenario == space.scenario(5)
    assert scenario != space.scenario(6)
    assert (scenario.seed, scenario.name) == (5, name)
    assert loads(emit(scenario), KINDS, name=name) == scenario
    assert len(scenario.peers) in space.numbers["peers"]
    assert scenario.assertions or space.laws


def test_numbers_of_a_seed_come_from_its_mutation_stream() -> None:
    """One draw each, in declared order, from the stream ("mutation", 0) under the seed (§7.2); the first worked value is pinned."""
    assert Root(7).mutation(0).u64() == 0x556417CD298B3B71
    taken: list[dict[str, int]] = []

    def build(numbers):
        taken.append(dict(numbers))
        return noisy()

    Space(name="s", numbers={"a": range(10), "b": (3, 5, 8), "c": range(0, 101, 10)}, build=build).scenario(7)
    stream = Root(7).mutation(0)
    assert taken == [{"a": stream.below(10), "b": (3, 5, 8)[stream.below(3)], "c": range(0, 101, 10)[stream.below(11)]}]


def test_unknown_names_are_refused_with_the_choices() -> None:
    """A property, a space: the error names what there is."""
    for call in (registry.property_named, registry.space_named):
        with pytest.raises(InputError, match=r"choose from .*gossip_flap"):
            call("nonesuch")


def test_every_registered_name_exists() -> None:
    """Strings are no import edges, so a test follows them: properties, laws, knob tables."""
    for table in (registry.PROPERTIES, registry.LAWS, registry.KNOBS):
        for target in table.values():
            assert registry.resolve(target) is not None
    assert {name: registry.property_named(name).name for name in registry.PROPERTIES} == {
        n: n for n in registry.PROPERTIES
    }
    assert {name: registry.resolve(target).name for name, target in registry.LAWS.items()} == {
        n: n for n in registry.LAWS
    }
    assert [n for n in registry.PROPERTIES if hasattr(registry.property_named(n), "space")] == list(registry.SPACES)


# --- rows ------------------------------------------------------------------------------------------------------------------


def test_rows_of_a_file_vary_its_seed() -> None:
    """The file's scenario under each seed; verdicts, first evidence and effects are counted."""
    source = FileSource(name="noisy.toml", base=noisy())
    row = row_of(source, 3, KINDS)
    assert (row["space"], row["seed"], row["outcome"]) == ("noisy.toml", 3, "Fail")
    assert row["failed"][0]["kind"] == "event_count"
    assert row["verdicts"] == {"Fail": 2, "Pass": 1}
    assert set(row["faults"]) == {"loss_burst", "partition", "peer_kill", "heal"}
    assert row["events_sha256"] != row_of(source, 4, KINDS)["events_sha256"]


def test_totals_keep_the_first_failing_row_and_silent_faults() -> None:
    """The lowest seed that failed, and fault kinds without any effect."""
    totals = Totals()
    for seed, outcome in enumerate(("Pass", "Fail", "Diverged", "Fail")):
        totals.add(
            {"seed": seed, "outcome": outcome, "verdicts": {outcome: 1}, "faults": {"heal": 0, "partition": seed}}
        )
    assert totals.first_failing == {
        "seed": 1,
        "outcome": "Fail",
        "verdicts": {"Fail": 1},
        "faults": {"heal": 0, "partition": 1},
    }
    assert sorted(totals.failing) == ["Diverged", "Fail"]
    assert totals.silent == ("heal",)
    assert Totals().first_failing is None


def test_lost_determinism_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One seed in twenty runs twice; member order that changes within a process fails the sweep, and the first line says so."""
    assert TWICE_EVERY == 20
    rows = tmp_path / "rows"
    code = sweep(SPACE, "--seeds", "40", "--jobs", "1", "--swim-defect", "UNORDERED_MEMBERS", "--out", str(rows))
    assert code == 1
    assert rows_in(rows)[0]["outcome"] == "Diverged"
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("lost determinism")
    assert "UNORDERED_MEMBERS" in first


# --- the command -------------------------------------------------------------------------------------------------------------


def test_the_same_rows_for_any_number_of_processes(tmp_path: Path) -> None:
    """Bytes of the row file for one process, two and three."""
    files = [tmp_path / str(jobs) for jobs in (1, 2, 3)]
    for file in files:
        assert sweep(SPACE, "--seeds", "10..22", "--jobs", file.name, "--out", str(file)) == 0
    one, *others = (file.read_bytes() for file in files)
    assert [row["seed"] for row in rows_in(files[0])] == list(range(10, 22))
    assert others == [one, one]


@pytest.mark.parametrize("torn", [0, 1, 40, 10**9])
def test_a_torn_file_is_taken_up(tmp_path: Path, torn: int) -> None:
    """Cut in the middle of a line, at a line end, to nothing: the rest is computed, nothing twice, the same bytes."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    sweep(SPACE, "--seeds", "0..5", "--jobs", "1", "--out", str(whole))
    data = whole.read_bytes()
    second_line_end = data.index(b"\n", data.index(b"\n") + 1) + 1
    cut.write_bytes(data[: min(second_line_end + torn, len(data)) if torn < 10**9 else 0])
    assert sweep(SPACE, "--seeds", "0..5", "--jobs", "1", "--out", str(cut)) == 0
    assert cut.read_bytes() == data


def test_a_finished_sweep_computes_nothing_and_may_grow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked again it reports the same; asked for more it goes on; asked for less it counts only that."""
    file = tmp_path / "rows"
    reports = []
    for seeds in ("0..3", "0..3", "0..5", "0..2"):
        sweep(SPACE, "--seeds", seeds, "--jobs", "1", "--out", str(file), "--json")
        reports.append(orjson.loads(capsys.readouterr().out))
    assert [report["seeds"] for report in reports] == [3, 3, 5, 2]
    assert reports[0] == reports[1]
    assert [row["seed"] for row in rows_in(file)] == [0, 1, 2, 3, 4]


def test_killed_and_taken_up(tmp_path: Path) -> None:
    """SIGKILL while rows are being written; the next call completes the file to what an undisturbed sweep writes."""
    calm, hard = tmp_path / "calm", tmp_path / "hard"
    words = [sys.executable, "-m", "simharness", "sweep", SPACE, "--seeds", "0..24", "--jobs", "2", "--out", str(hard)]
    process = subprocess.Popen(words, cwd=ROOT, start_new_session=True)
    while not hard.exists() or hard.read_bytes().count(b"\n") < 3:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    hard.write_bytes(hard.read_bytes() + b'{"space":"dem')
    for file in (calm, hard):
        assert sweep(SPACE, "--seeds", "0..24", "--jobs", "1", "--out", str(file)) in (0, 3)
    assert hard.read_bytes() == calm.read_bytes()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((SPACE, "--seeds", "0..2"), ("pause_excused", "--seeds", "0..2")),
        ((SPACE, "--seeds", "0..2"), (SPACE, "--seeds", "1..3")),
        (("pause_excused", "--seeds", "0..2"), ("pause_excused", "--seeds", "0..4", BROKEN)),
    ],
)
def test_a_foreign_row_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    """Another space, other seeds, other code or options: rows are not mixed; the file stays as it is."""
    file = tmp_path / "rows"
    sweep(*first, "--jobs", "1", "--out", str(file))
    before = file.read_bytes()
    assert sweep(*second, "--jobs", "1", "--out", str(file)) == 2
    assert "is not this sweep's" in capsys.readouterr().err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "line", "why"),
    [
        (
            lambda lines: [lines[0], lines[1].replace(b'"outcome":"', b'"outcome":"X'), lines[2]],
            2,
            "its checksum does not fit",
        ),
        (lambda lines: [lines[0], lines[2]], 2, "its checksum does not fit"),
        (lambda lines: [lines[0], lines[1], lines[2][:-28] + b"}"], 3, "it has no checksum"),
        (lambda lines: [b"words of somebody else"], 1, "it is no row of a sweep"),
    ],
)
def test_a_row_that_was_changed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, line: int, why: str
) -> None:
    """Edited, taken out from between others, without its checksum: the error names the line; the file stays as it is."""
    file = tmp_path / "rows"
    words = (SPACE, "--seeds", "0..3", "--jobs", "1", "--out", str(file))
    sweep(*words)
    file.write_bytes(b"\n".join([*change(file.read_bytes().splitlines()), b'{"space":"t']))
    before = file.read_bytes()
    capsys.readouterr()
    assert sweep(*words) == 2
    assert f"line {line} is not this sweep's: {why}" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_file_without_a_whole_line_is_kept(tmp_path: Path) -> None:
    """What does not begin as a row does is somebody else's, and is not cut away as a torn line."""
    file = tmp_path / "notes"
    file.write_bytes(b"words")
    assert sweep(SPACE, "--seeds", "0..3", "--jobs", "1", "--out", str(file)) == 2
    assert file.read_bytes() == b"words"


def test_a_failing_seed_is_named_written_and_shrunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first failing seed, a line that replays it, and a smaller file on request; both files fail again."""
    monkeypatch.chdir(tmp_path)
    file = echo_file(tmp_path / "lossy.toml", BREAKS)
    assert sweep(str(file.name), "--seeds", "0..3", "--jobs", "1") == 1
    out = capsys.readouterr().out
    assert out.startswith("violation")
    assert "first        seed 0: a0 event_count" in out
    assert "replay       simharness run .simharness/sweeps/lossy-0.toml" in out
    assert sweep(str(file.name), "--seeds", "0..3", "--jobs", "1", "--shrink") == 1
    replay = capsys.readouterr().out.splitlines()[-1].split()[1:]
    assert replay[-1].endswith("lossy-0-shrunk.toml")
    for written in ("lossy-0.toml", "lossy-0-shrunk.toml"):
        assert main(["run", f".simharness/sweeps/{written}"]) == 1
    assert (
        Path(".simharness/sweeps/lossy-0-shrunk.toml").stat().st_size
        < Path(".simharness/sweeps/lossy-0.toml").stat().st_size
    )


def test_a_failure_of_a_law_is_written_and_not_shrunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Laws are judged in a sweep too; the shrinker knows assertions only, and the report says so."""
    monkeypatch.chdir(tmp_path)
    assert sweep("pause_excused", "--seeds", "0..8", "--jobs", "1", "--shrink", BROKEN) == 1
    out = capsys.readouterr().out
    assert "l0 pause_is_excused" in out
    assert "not shrunk" in out
    replay, look = out.splitlines()[-2:]
    words = replay.removeprefix("replay       simharness ").partition("  (")[0].split()
    assert words[:3] == ["sweep", "pause_excused", "--seed"]
    assert main([*words, "--jobs", "1"]) == 1
    assert "l0 pause_is_excused" in capsys.readouterr().out
    assert look.startswith("look at      simharness run .simharness/sweeps/pause_excused-")
    assert look.endswith("(which judges no law)")


@pytest.mark.parametrize(
    "words",
    [
        ("nonesuch", "--seeds", "0..3"),
        ("mesh_under_faults", "--seeds", "0..3"),
        (SPACE, "--seeds", "3..3"),
        (SPACE, "--seeds", "5..3"),
        (SPACE, "--seeds=-1..3"),
        (SPACE, "--seeds", "0..3..5"),
        (SPACE, "--seeds", "x"),
        (SPACE, "--seeds", f"0..{2**64 + 1}"),
        (SPACE, "--seeds", "0..3", "--swim-defect", "NONESUCH"),
        (SPACE, "--seeds", "0..3", "--swim-profile", "nonesuch"),
        ("missing.toml", "--seeds", "0..3"),
    ],
)
def test_bad_input(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one structured error."""
    assert sweep(*words, "--jobs", "1") == 2
    assert capsys.readouterr().err.count("rule: ") == 1


def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 clean, 1 a violation, 3 only Inconclusive left or a fault that never had an effect (architecture, section 5)."""
    monkeypatch.chdir(tmp_path)
    held = echo_file(tmp_path / "held.toml", HOLDS)
    assert sweep(str(held), "--seeds", "0..3", "--jobs", "1") == 0
    idle = echo_file(
        tmp_path / "idle.toml", '[[assertions]]\nkind = "message_size_bounded"\nmessage_kind = "X"\nmax_bytes = 1\n'
    )
    assert sweep(str(idle), "--seeds", "0..3", "--jobs", "1") == 3
    silent = tmp_path / "silent.toml"
    silent.write_text(held.read_text() + '\n[[mutations]]\nkind = "heal"\nat_ns = 1\n')
    assert sweep(str(silent), "--seeds", "0..3", "--jobs", "1") == 3
