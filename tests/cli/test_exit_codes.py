"""Exit codes and the text that goes with them, command by command."""

import re

import pytest

from simharness.core.version import VERSION
from simharness.systems.swim.config import PROFILES
from tests.cli.support import BREAKS, EARLY, HOLDS, IDLE, SWIM, Terminal


@pytest.mark.parametrize(
    ("assertions", "code"),
    [
        ((), 0),
        ((HOLDS,), 0),
        ((HOLDS, BREAKS), 1),
        ((HOLDS, IDLE), 3),
        ((IDLE, BREAKS), 1),
    ],
)
def test_run_and_eval_exit_with_the_worst_outcome(simharness: Terminal, assertions: tuple[str, ...], code: int) -> None:
    """0 for all Pass, 1 for a Fail, 3 for nothing worse than Inconclusive, which is never a pass (ruling V3)."""
    file = simharness.write("x.toml", *assertions)
    assert simharness("run", file, "--out", "x").code == code
    assert simharness("eval", "x").code == code


def test_run_names_the_evidence_of_a_fail(simharness: Terminal) -> None:
    """A Fail shows when it happened, which line of the event stream broke it, and what that line says."""
    said = simharness("run", simharness.write("x.toml", HOLDS, BREAKS), "--out", "x")
    lines = said.out.splitlines()
    failed = next(number for number, line in enumerate(lines) if line.startswith("Fail"))
    evidence = lines[failed + 1]
    reference = next(word for word in evidence.split() if word.startswith("events.ndjson:"))
    line = simharness.tree()["x/events.ndjson"].split(b"\n")[int(reference.partition(":")[2])]  # type: ignore[union-attr]
    assert b'"EchoReceived"' in line
    assert "EchoReceived" in evidence
    assert "verdict      1 Fail, 1 Pass" in lines
    assert said.err == ""


def test_an_abort_exits_with_4_and_leaves_nothing(simharness: Terminal) -> None:
    """The engine's abort is one line without a traceback; nothing stands at the bundle's place (ruling B9)."""
    file = simharness.write("x.toml")
    before = simharness.tree()
    said = simharness("run", file, "--out", "x", "--max-dispatches", "5")
    assert said.code == 4
    assert said.err.startswith("EngineAbort::dispatch-budget:")
    assert said.err.count("\n") == 1
    assert simharness.tree() == before


def test_keep_partial_keeps_what_an_aborted_run_wrote(simharness: Terminal) -> None:
    """With `--keep-partial` the bundle stands, marked as aborted, and can be compared with a whole one (ruling B9)."""
    file = simharness.write("x.toml", BREAKS.replace("max = 5", "max = 5_000"))
    said = simharness("run", file, "--out", "part", "--max-dispatches", "50", "--keep-partial", "--json")
    assert said.code == 4
    (run,) = said.json["runs"]
    assert run["bundle"] == "part"
    assert run["error"]["rule"] == "dispatch-budget"
    assert b'"reason": "aborted"' in (simharness.tree()["part/manifest.json"] or b"")
    assert simharness("run", file, "--out", "whole").code == 0
    said = simharness("diff", "part", "whole")
    assert said.code == 1
    assert "(ends here)" in said.out
    assert simharness("eval", "part").code == 3, "what holds for a whole run is not shown by a part of one (ruling V2)"


def test_several_files_exit_with_the_worst_code(simharness: Terminal) -> None:
    """One abort among several runs is the exit code, and the others still run to their verdicts."""
    files = [simharness.write("good.toml", HOLDS), simharness.write("bad.toml", BREAKS)]
    said = simharness("run", *files, "--out", "out")
    assert said.code == 1
    assert {"out/good/verdicts.json", "out/bad/verdicts.json"} <= simharness.tree().keys()
    long = simharness.write("long.toml", HOLDS, duration_ns=10_000_000_000)
    said = simharness("run", long, *files, "--out", "out", "--max-dispatches", "150")
    assert said.code == 4
    assert said.out.count("\nbundle ") == 2


def test_without_out_a_bundle_goes_below_the_runs_directory(simharness: Terminal) -> None:
    """The default place is named after the file's place in its scenario tree."""
    simharness.directory.joinpath("scenarios", "mine").mkdir(parents=True)
    file = simharness.write("scenarios/mine/x.toml", HOLDS)
    assert simharness("run", file).code == 0
    assert simharness.directory.joinpath(".simharness", "runs", "mine-x", "manifest.json").is_file()


def test_a_run_replaces_its_own_earlier_bundle(simharness: Terminal) -> None:
    """Running twice to one place leaves one whole bundle, the later one, and nothing beside it."""
    simharness.bundle("x", HOLDS)
    first = simharness.tree()
    assert simharness("run", "x.toml", "--out", "x").code == 0
    assert simharness.tree() == first
    assert simharness("run", "x.toml", "--out", "x", "--seed", "2").code == 0
    assert simharness.tree().keys() == first.keys()
    assert simharness.tree() != first


@pytest.mark.parametrize("seed", ["0", "18446744073709551615", "0xFFFF_FFFF_FFFF_FFFF"])
def test_seed_replaces_the_seed_of_the_file(simharness: Terminal, seed: str) -> None:
    """`--seed` takes every u64 and stands in the manifest and in the bundle's scenario."""
    said = simharness("run", simharness.write("x.toml"), "--out", "x", "--seed", seed, "--json")
    assert said.code == 0
    assert said.json["runs"][0]["seed"] == int(seed, 0)
    assert f"seed = {int(seed, 0)}\n".encode() in (simharness.tree()["x/scenario.toml"] or b"")


def test_early_termination_says_so(simharness: Terminal) -> None:
    """A run that ends early names the virtual time and why; a full one does not."""
    said = simharness("run", simharness.write("x.toml", HOLDS, head=EARLY), "--out", "x", "--json")
    (run,) = said.json["runs"]
    assert run["termination"]["reason"] == "early"
    said = simharness("run", "x.toml", "--out", "x")
    assert "ended early " in said.out
    assert "every assertion had its final verdict" in said.out
    assert "ended early" not in simharness("run", simharness.write("y.toml", HOLDS), "--out", "y").out


def test_defects_come_first(simharness: Terminal) -> None:
    """A run with a defect on says so on its first output line and in the manifest; so does its replay (ruling K1)."""
    file = simharness.write("x.toml", SWIM)
    said = simharness("run", file, "--out", "x", "--swim-defect", "ONE_STEP_REFUTE")
    assert said.out.splitlines()[0] == "defects switched on: ONE_STEP_REFUTE"
    assert b'"ONE_STEP_REFUTE"' in (simharness.tree()["x/manifest.json"] or b"")
    assert simharness("replay", "x").out.splitlines()[0] == "defects switched on: ONE_STEP_REFUTE"
    said = simharness("run", file, "--out", "clean")
    assert "defects" not in said.out
    assert b'"defects"' not in (simharness.tree()["clean/manifest.json"] or b"")


def test_a_profile_sets_its_defects_and_defaults(simharness: Terminal) -> None:
    """`--swim-profile deployed` switches on the whole set; what the file says itself stays."""
    said = simharness("run", simharness.write("x.toml", SWIM), "--out", "x", "--swim-profile", "deployed", "--json")
    assert said.json["runs"][0]["defects"] == sorted(PROFILES["deployed"].defects)
    emitted = (simharness.tree()["x/scenario.toml"] or b"").decode()
    assert "probe_interval_ns = 1000000000" in emitted
    assert 'profile = "deployed"' in emitted


def test_check_counts_what_a_file_declares(simharness: Terminal) -> None:
    """One line a file, exit code 0, nothing written."""
    files = [simharness.write("x.toml", HOLDS), simharness.write("y.toml", HOLDS, BREAKS)]
    before = simharness.tree()
    said = simharness("check", *files)
    assert said.code == 0
    assert [line.split()[:2] for line in said.out.splitlines()] == [["ok", "x.toml"], ["ok", "y.toml"]]
    assert "2 assertions" in said.out.splitlines()[1]
    assert simharness.tree() == before


@pytest.mark.parametrize(
    "argv", [(), ("run",), ("check",), ("replay",), ("diff", "a"), ("nonsense",), ("run", "x", "--no")]
)
def test_a_wrong_command_line_exits_with_2(simharness: Terminal, argv: tuple[str, ...]) -> None:
    """Usage goes to standard error; what is wrong is named in the three-line form where there is something to name."""
    said = simharness(*argv)
    assert said.code == 2
    assert said.out == ""
    assert "usage: simharness" in said.err
    field = "COMMAND" if argv == ("nonsense",) else "(arguments)"
    assert not argv or said.err.startswith(f"file: (command line)\nfield: {field}\nrule: ")


@pytest.mark.parametrize("value", ["-1", "18446744073709551616", "1.0", "x", ""])
def test_a_seed_out_of_range_is_refused(simharness: Terminal, value: str) -> None:
    """`--seed` names itself and its range."""
    said = simharness("run", simharness.write("x.toml"), f"--seed={value}")
    assert said.code == 2
    assert said.err.splitlines()[1:3] == [
        "field: --seed",
        f"rule: must be an integer from 0 to 2**64-1, not {value!r}",
    ]


@pytest.mark.parametrize(
    ("argv", "field"),
    [
        (("sweep", "x", "--jobs", "0"), "--jobs"),
        (("sweep", "training", "--max-workers", "0"), "--max-workers"),
        (("diff", "a", "b", "--context"), "--context"),
        (("supervisor", "nonsense"), "action"),
        (("export", "x", "--out", "y", "--to", "nonsense"), "--to"),
    ],
)
def test_the_option_is_the_field(simharness: Terminal, argv: tuple[str, ...], field: str) -> None:
    """Whoever refuses it, the parser or the command."""
    said = simharness(*argv, "--json")
    (problem,) = said.json["problems"]
    assert (said.code, problem["file"], problem["field"]) == (2, "(command line)", field)


def test_version_and_help(simharness: Terminal) -> None:
    """`--version` and `--help` answer on standard output and exit with 0."""
    assert simharness("--version") == (0, f"simharness {VERSION}\n", "")
    said = simharness("--help")
    assert (said.code, said.err) == (0, "")


def test_help_names_the_codes_that_can_happen(simharness: Terminal) -> None:
    """Every command says how it may end, and none names a code that it never gives."""
    said = simharness("--help").out
    commands = re.findall(r"^    ([a-z]+) ", said, re.MULTILINE)
    assert {"run", "live", "export", "watch"} <= set(commands)
    codes = {}
    for command in commands:
        said = simharness(command, "--help")
        assert said.code == 0
        codes[command] = " ".join(said.out.split()).partition("exit codes: ")[2]
        assert " 2 bad input" in f" {codes[command]}"
    assert codes["run"] == "0 all Pass, 1 a Fail, 2 bad input, 3 nothing worse than Inconclusive, 4 engine abort"
    assert codes["export"] == codes["render"] == "0 written, 2 bad input"
    assert {command for command, text in codes.items() if "Inconclusive" in text} == {
        *("run", "live", "eval", "sweep", "training")
    }
    assert [
        text for command, text in codes.items() if command in ("check", "diff", "eval", "export") and "4 " in text
    ] == []
