"""The plugin in a user's own project: no conftest of ours, sessions run in processes of their own."""

import json
import re
import shutil
import signal
import subprocess
import time
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import find

from simharness.stateful import meshes, plugin
from simharness.stateful.everything import import_everything
from simharness.stateful.failures import Failure, folder, look_lines, replay_lines
from simharness.stateful.session import Ledger, Options, Session
from tests.stateful.running import REPO, STREAM_PROPERTY, project, pytest_command, run_pytest

HEADER = "# x\n#\n# reproduces: nothing\n# expected: {}\n# extends: none\n\n"
SCENARIO = """
name = "two"
seed = 1
duration_ns = 1_000_000_000
assertions = [{{ kind = "event_count", event_kind = "EchoReceived", max = {} }}]
[default_tick]
period_ns = 100_000_000
[default_link]
latency_ns = 1_000_000
jitter_stddev_ns = 0
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 1_000_000_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 1_000_000_000
[[peers]]
id = "a"
kind = "echo"
initial_state = "ready"
[[peers]]
id = "b"
kind = "echo"
initial_state = "ready"
[[meshes]]
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A project whose property fails, and what its session printed."""
    place = project(tmp_path_factory.mktemp("failing"), test_gap=STREAM_PROPERTY)
    return place, run_pytest(place, "-q", "--hypothesis-seed=5")


@pytest.mark.spec("§10.5", "Property failures replay exactly")
def test_the_text_alone_replays_a_failure(failing):
    """Scenario path, one `simharness run` line, one pytest line: the folder is there, and the pytest line fails the same way."""
    place, session = failing
    assert session.returncode == 1, session.stdout + session.stderr
    folder = re.search(r"scenario: (\S+)/scenario\.toml", session.stdout).group(1)
    assert sorted(path.name for path in (place / folder).iterdir()) == ["bundle", "report.md", "scenario.toml"]
    assert f"simharness run {folder}/scenario.toml" in session.stdout
    line = re.search(r"replay: +pytest (.*)", session.stdout).group(1)
    assert line == "test_gap.py::TestNoGap::runTest --hypothesis-seed=5 --sim-profile=dev"
    before = (place / folder / "scenario.toml").read_bytes()
    again = run_pytest(place, "-q", *line.split())
    assert again.returncode == 1
    assert (place / folder / "scenario.toml").read_bytes() == before
    assert "library properties" in session.stdout
    assert re.search(r"no_gap +\d+ +\d+ +\d+ +\d+ +0 +.*loss_burst \d+", session.stdout)
    rows = (place / ".simharness/properties/no_gap.ndjson").read_text().splitlines()
    assert {json.loads(row)["outcome"] for row in rows} == {"Pass", "Fail"}


LAW = """
from simharness.stateful import SimulationMachine, meshes
from simharness.stateful.laws import Finding, Law

def nothing_heard(story):
    \"\"\"Nobody
    hears anything.

    More.
    \"\"\"
    return Finding(1, [line for line in story.lines if line.kind == "EchoReceived"])

class Quiet(SimulationMachine):
    scenarios = meshes("echo", peers=2)
    laws = (Law(name="nothing_heard", check=nothing_heard),)
    max_duration_ms, max_steps, budget = 3_000, 8, 5

TestQuiet = Quiet.TestCase
"""


def test_a_failure_of_a_law_says_so(tmp_path):
    """What the law says, when it broke first, the line that judges it again without the example database, the file as a look."""
    place = project(tmp_path, test_quiet=LAW)
    session = run_pytest(place, "-q", "--hypothesis-seed=5")
    (folder,) = place.glob(".simharness/failures/*")
    report = folder.joinpath("report.md").read_text()
    name = folder.relative_to(place)
    for text in (report, session.stdout):
        assert "nothing_heard is a law of the property, which no scenario file holds" in text
        assert "it says: Nobody hears anything." in text
    lines = [json.loads(line) for line in folder.joinpath("bundle/events.ndjson").read_text().splitlines()]
    broken = [line["virtual_time_ns"] for line in lines if line["event"]["kind"] == "EchoReceived"]
    at_ms, rest = divmod(min(broken), 1_000_000)
    assert f"nothing_heard() is Fail at {at_ms}{f'.{rest:06d}' if rest else ''} ms in quiet" in report
    assert len(set(broken)) > 1
    line = "pytest test_quiet.py::TestQuiet::runTest --hypothesis-seed=5 --sim-profile=dev"
    _, _, after = report.partition("## Replay\n\n")
    assert after.startswith(f"    {line}\n\n## What happened\n\n    simharness run {name}/scenario.toml\n")
    assert re.search(r"(\w+( \w+)?): +(pytest|simharness run)", session.stdout).group(1) == "replay"
    before = folder.joinpath("scenario.toml").read_bytes()
    shutil.rmtree(place / ".hypothesis", ignore_errors=True)
    shutil.rmtree(folder)
    assert run_pytest(place, *line.split()[1:]).returncode == 1
    assert folder.joinpath("scenario.toml").read_bytes() == before
    own = run_pytest(place, "-q", f"{name}/scenario.toml")
    assert (own.returncode, "1 passed" in own.stdout) == (0, True)  # which holds no claim, so it is expected to pass


def test_what_a_run_does_not_show_is_no_replay_line():
    """Two runs that differ: the search finds it again, with every option that it had; the file is run, and run again."""
    scenario = find(meshes("echo", peers=2), lambda _: True)
    failure = Failure(
        property_name="p", kind="nondeterminism", headline="h", scenario=scenario, test_id="t.py::T::runTest"
    )
    session = Session(Options(seed=1, twice=True))
    assert replay_lines(failure, session) == (
        "pytest t.py::T::runTest --hypothesis-seed=1 --sim-profile=dev --sim-twice",
    )
    run, again = look_lines(failure, session)
    assert run == f"simharness run {folder(failure, session)}/scenario.toml --out {folder(failure, session)}/bundle"
    assert again == f"simharness replay {folder(failure, session)}/bundle"
    assert "# expected: pass-now" in failure.toml()
    shown = msgspec.structs.replace(failure, kind="event_count")
    assert look_lines(shown, session) == ()
    assert replay_lines(shown, session)[0].startswith("simharness run ")


def test_the_file_is_a_test_of_its_own(failing):
    """The written scenario says of itself that it fails, so running it as a test passes until the bug is fixed."""
    place, session = failing
    folder = re.search(r"scenario: (\S+)/scenario\.toml", session.stdout).group(1)
    place.joinpath("conftest.py").write_text(
        "from simharness.stateful.topologies import use_kind\nfrom tests.stateful.toy import StreamKind\nuse_kind(StreamKind())\n"
    )
    done = run_pytest(place, "-q", f"{folder}/scenario.toml")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    place.joinpath("conftest.py").unlink()


def test_scenario_files_are_judged_by_their_header(tmp_path):
    """`pytest scenarios/`: each expectation met and missed, a missing header refused with file and line; other TOML ignored."""
    folder = project(tmp_path, test_none="").joinpath("scenarios")
    folder.mkdir()
    tmp_path.joinpath("other.toml").write_text("x = 1\n")
    files = {
        "passes": HEADER.format("pass-now") + SCENARIO.format(100),
        "fails": HEADER.format("pass-now") + SCENARIO.format(1),
        "known": HEADER.format("fail-until-fix") + SCENARIO.format(1),
        "fixed": HEADER.format("fail-until-fix") + SCENARIO.format(100),
        "study": HEADER.format("sensitivity-study\n# counter: event:EchoReceived") + SCENARIO.format(100),
        "vain": HEADER.format("sensitivity-study\n# counter: drop:lossy") + SCENARIO.format(100),
        "headless": SCENARIO.format(100),
        "broken": HEADER.format("pass-now") + SCENARIO.format(-1),
    }
    for name, text in files.items():
        folder.joinpath(f"{name}.toml").write_text(text)
    done = run_pytest(tmp_path, "-q", "-rA", "--continue-on-collection-errors", ".")
    named = {
        name: word
        for word, name in re.findall(r"^(PASSED|FAILED|ERROR) scenarios/(\w+)\.toml", done.stdout, re.MULTILINE)
    }
    assert named == {
        "passes": "PASSED",
        "known": "PASSED",
        "study": "PASSED",
        "fails": "FAILED",
        "fixed": "FAILED",
        "vain": "FAILED",
        "broken": "FAILED",
        "headless": "ERROR",
    }, done.stdout
    assert (
        "field: line 1\nrule: the comment block that opens a scenario lacks its line `# reproduces: ...`" in done.stdout
    )
    assert "expected: pass-now; 1 of 1 verdicts are no Pass" in done.stdout
    assert "the header should say pass-now" in done.stdout
    assert "counter drop:lossy is zero: the study shows nothing" in done.stdout
    assert "field: assertions[0].max" in done.stdout
    assert "Traceback" not in done.stdout
    assert "simharness run .simharness/failures/" in done.stdout


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--sim-profile=quick", "'quick' is unknown; choose from fix, dev, ci, nightly"),
        ("--swim-profile=old", "'old' is unknown; choose from current, deployed"),
        ("--swim-defect=B1", "'B1' is unknown; choose from REFUTE_STALE_CLAIM, "),
    ],
)
def test_an_unknown_name_is_one_clear_error(option, expected):
    """Bad input: the choices are named."""
    name, _, value = option.removeprefix("--").partition("=")
    given = {"swim_defect": [], name.replace("-", "_"): [value] if name == "swim-defect" else value}
    config = SimpleNamespace(getoption=lambda asked, default=None: given.get(asked, default))
    with pytest.raises(pytest.UsageError, match=re.escape(f"--{name}: {expected}")):
        plugin._options(config)


def test_an_unknown_name_ends_the_session_before_anything_runs(tmp_path):
    """Bad input: exit code of a usage error, one line, no traceback."""
    done = run_pytest(project(tmp_path), "--swim-defect=B1")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip().splitlines()[-1].startswith("ERROR: --swim-defect: 'B1' is unknown")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_machine_that_cannot_be_run_is_refused_where_it_stands(tmp_path, workers):
    """No assertion, no peers, an unknown counter: collection errors with file and line, under workers too."""
    text = STREAM_PROPERTY + (
        "class NoClaim(NoGap):\n    assertions = ()\n\n\n"
        "class NoPeers(SimulationMachine):\n    assertions = NoGap.assertions\n\n\n"
        "class NoCounter(NoGap):\n    requires = ('lossburst',)\n\n\n"
        "TestNoClaim, TestNoPeers, TestNoCounter = NoClaim.TestCase, NoPeers.TestCase, NoCounter.TestCase\n"
    )
    place = project(tmp_path, test_bad=text)
    done = run_pytest(place, "-q", "-n", workers)
    assert done.returncode != 0
    for line, words in (
        (17, "NoClaim has no assertion: set"),
        (21, "NoPeers has no peers: set `scenarios`"),
    ):
        assert re.search(rf"test_bad\.py:{line}: {words}", done.stdout), done.stdout
    assert "unknown counter 'lossburst'; choose from partition" in done.stdout


VACUOUS = """
from simharness.contracts.assertions import EventCount, MessageSizeBounded
from simharness.stateful import LOSS_BURST, SimulationMachine, meshes, swarm

class Silent(SimulationMachine):
    scenarios = meshes(peers=2, config={"targets": []})
    faults = swarm(LOSS_BURST)
    assertions = (EventCount(event_kind="EchoReceived", max=0),)
    max_duration_ms, max_steps, budget = 1_000, 5, 5

class Unsure(Silent):
    assertions = (MessageSizeBounded(message_kind="Ping", max_bytes=1),)

TestSilent, TestUnsure = Silent.TestCase, Unsure.TestCase
"""


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_vacuous_properties_fail(tmp_path, workers):
    """More than a tenth Inconclusive fails the property; a required counter that stayed zero is named with its rule."""
    place = project(tmp_path, test_vacuous=VACUOUS, test_same_names=VACUOUS)
    done = run_pytest(place, "-q", "-n", workers, "--sim-coverage")
    assert "2 failed, 2 passed" in done.stdout
    assert "unsure: 5 of 5 verdicts are Inconclusive: the property says too little" in done.stdout
    assert "silent: counter loss_burst is zero; no rule `loss_burst` had an effect that could be seen" in done.stdout


@pytest.mark.slow
def test_properties_of_one_name_share_no_file(tmp_path):
    """pytest-randomly#327: two modules define a property of one name; each has its own verdicts, and one row in the table."""
    place = project(tmp_path, test_vacuous=VACUOUS, test_same_names=VACUOUS)
    done = run_pytest(place, "-q", "-k", "TestSilent")
    files = sorted(path.name for path in (place / ".simharness/properties").iterdir())
    assert len(files) == 2
    assert all(re.fullmatch(r"silent-[0-9a-f]{6}\.ndjson", name) for name in files)
    assert re.search(r"^ +silent +10 ", done.stdout, re.MULTILINE)


def test_a_shrink_that_was_cut_short_says_so():
    """Law 2 is claimed for shrinks that ended by themselves; one that met a limit of Hypothesis is marked."""
    item = SimpleNamespace(hypothesis_statistics="x\n  - Stopped because shrunk test case 500 times\n")
    ledger = Ledger()
    assert list(plugin._cut_short(item, ledger)) == []
    ledger.failures["event_count"] = object()
    shown = [("simharness", "shrinking did not end by itself: shrunk test case 500 times")]
    assert list(plugin._cut_short(item, ledger)) == shown
    item.hypothesis_statistics = "  - Stopped because nothing left to do"
    assert list(plugin._cut_short(item, ledger)) == []


@pytest.mark.slow
def test_a_silent_counter_fails_only_when_coverage_is_asked_for(tmp_path):
    """`--sim-coverage` turns a batch that passed into a failed one; without it the batch passes."""
    place = project(tmp_path, test_vacuous=VACUOUS)
    assert run_pytest(place, "-q", "-k", "TestSilent").returncode == 0
    done = run_pytest(place, "-q", "-k", "TestSilent", "--sim-coverage")
    assert "1 passed" in done.stdout
    assert done.returncode == 1


def test_the_fixture_runs_a_scenario(tmp_path):
    """`scenario(path)` loads, runs in memory, and gives records, verdicts and digest; `--swim-*` options reach it."""
    body = (
        "def test_it(scenario):\n    played = scenario('s.toml')\n"
        "    assert [v.outcome for v in played.verdicts()] == ['Pass']\n    assert played.records and len(played.digest()) == 64\n"
    )
    place = project(tmp_path, test_fixture=body)
    place.joinpath("s.toml").write_text(SCENARIO.format(100))
    done = run_pytest(place, "-q")
    assert "1 passed" in done.stdout, done.stdout


def test_everything_can_be_imported():
    """Every module of the package loads; only rooms whose extra is missing may be left out, and none is here."""
    assert import_everything() == ()


SLOW = """
import time
from simharness.stateful import session, artefacts
{property}

class Slow(NoGap):
    pass

TestSlow = Slow.TestCase
real = artefacts.put_folder

def slowly(root, name, files, fill=None):
    def held(folder):
        fill(folder)
        if "Slow" in name:
            print("writing", flush=True)
            time.sleep(60)
    real(root, name, files, held)

artefacts.put_folder = slowly
"""


@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_an_interrupted_session_leaves_nothing_half_written(tmp_path, how):
    """Ctrl-C and SIGTERM: the folder that was finished stays whole, the one being written is gone, no temporary file is left."""
    place = project(tmp_path, test_slow=SLOW.format(property=STREAM_PROPERTY))
    process = subprocess.Popen(
        pytest_command("-s", "-q"),
        cwd=place,
        env={"PYTHONPATH": str(REPO), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in process.stdout:
        if "writing" in line:
            break
    time.sleep(0.1)
    process.send_signal(how)
    process.communicate(timeout=60)
    left = sorted(path.relative_to(place).as_posix() for path in (place / ".simharness").rglob("*"))
    names = [path for path in left if re.fullmatch(r"\.simharness/failures/[^/]+", path)]
    assert len(names) == 1
    assert "NoGap" in names[0]
    assert f"{names[0]}/bundle/verdicts.json" in left
    assert not [path for path in left if "partial" in path or path.endswith(".fresh")]


ABSENT = """
from simharness.stateful import EventCount, EventRate, SimulationMachine, meshes
from tests.stateful.toy import StreamKind


class Echoes(SimulationMachine):
    scenarios = meshes("echo", peers=2)
    assertions = (
        EventCount(event_kind="EchoRecieved", max=3),
        EventRate(event_kind="Spread", window_ns=100, max_per_window=3),
        EventCount(event_kind="EchoFailed", max=0),
        EventCount(event_kind="DropOnSend", max=0),
    )
    max_duration_ms = 1_000
    budget = 2


class Streams(Echoes):
    scenarios = meshes(StreamKind(), peers=2)
    assertions = (EventCount(event_kind="Gap", max=0), EventCount(event_kind="Got", max=900), EventCount(event_kind="Gop", max=0))


TestEchoes, TestStreams = Echoes.TestCase, Streams.TestCase
"""


def test_a_pass_by_absence_says_so_once(tmp_path):
    """Ruling C10: below the table, once a property, for a kind that nobody records or that no host says it does; else nothing."""
    done = run_pytest(project(tmp_path, test_absent=ABSENT), "-q", "-n", "0", "test_absent.py")
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if "occurred at all" in line]
    assert said == [
        "simharness: echoes: no EchoRecieved occurred at all: was EchoReceived meant?",
        "simharness: echoes: no Spread occurred at all, and no host of this scenario records such a thing",
        "simharness: streams: no Gap occurred at all: is that how it is spelt?",
        "simharness: streams: no Gop occurred at all: was Got meant?",
    ]
