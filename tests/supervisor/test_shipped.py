"""The shipped scenarios of the job supervisor replay the case that each of them names, and nothing in them is idle by mistake."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import tomli_w

from simharness.cli.main import main
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import loads
from simharness.stateful.headers import header_of
from simharness.stateful.playing import play
from simharness.supervisor.direct import Run, run
from simharness.supervisor.knobs import SUPERVISOR
from simharness.supervisor.schedule import parse
from tests.supervisor.test_agreement import WORLD_ONLY
from tests.tidy.check import ROOT

PLACE: Final = ROOT / "scenarios" / "supervisor"
REGRESSIONS: Final = sorted(path.stem for path in PLACE.glob("regressions/*.toml"))
FOUND_WITH: Final = re.compile(
    r"^# reproduces: invariant (\w+) at seed (\d+) in the shape (\w+), found with (\w+), minimised$"
)

STORIES: Final[dict[str, tuple[str, ...]]] = {
    "smoke_slurm": ("outcome_completed",),
    "smoke_kubeflow": ("outcome_completed", "tombstoned"),
    "lost_start": ("start_reply_lost", "find_omitted", "crash", "outcome_completed"),
    "late_start_after_settle": ("late_start", "create_after_settlement", "swept_after_settlement", "outcome_cancelled"),
    "open_after_cancel": ("late_open", "open_after_cancel", "outcome_cancelled"),
    "requeue_after_outcome": ("late_requeue", "requeue_after_outcome", "requeue_revived", "outcome_completed"),
    "hold_release_race": ("hold_by_person", "late_hold", "late_release", "call_in_deadline_window"),
    "stuck_requeue_bit": ("requeue_crashed", "auto_revived", "bit_restored", "outcome_completed"),
    "lost_node_fence": ("node_lost", "node_fenced", "stop_on_lost_node", "esc_stop_stuck", "node_confirmed_dead"),
    "two_owners": ("outcome_cancelled",),
    "tampered_record": ("corrupt_refused",),
    "shared_checkpoint_cessation": ("hold_by_policy", "cessation_resume", "outcome_completed"),
}
"""Name -> the counters of what must have happened."""
REFUSED: Final = {"hold_release_race": 1}
"""Name -> how many entries are there to be refused."""

NOTICED: Final = (
    ("two_owners", "BLIND_APPEND", "9"),
    ("open_after_cancel", "OPEN_IGNORES_CANCEL", "13"),
    ("lost_start", "RESEND_START", "14"),
    ("requeue_after_outcome", "SETTLE_BEFORE_FENCE", "X1"),
    ("requeue_after_outcome", "OPEN_DURING_REQUEUE", "X1"),
    ("hold_release_race", "HOLD_DURING_RELEASE", "15"),
    ("stuck_requeue_bit", "IGNORE_REQUEUE_BIT", "X1"),
    ("lost_node_fence", "STOP_BEFORE_FENCE", "5"),
    ("lost_node_fence", "FENCE_WITHOUT_VERIFY", "X1"),
    ("lost_node_fence", "SILENT_WAIT", "L"),
    ("tampered_record", "SKIP_CHAIN_CHECK", "8"),
    ("smoke_slurm", "UNGATED_START", "4"),
)
"""Scenario, a rule that is switched off, and the invariant that then breaks."""


def config_of(name: str) -> tuple[int, dict[str, Any]]:
    """Return seed and `kind_config` of a scenario."""
    document = tomllib.loads(PLACE.joinpath(f"{name}.toml").read_text("utf-8"))
    (peer,) = document["peers"]
    return document["seed"], peer["kind_config"]


def replayed(name: str) -> Run:
    """Replay it by the direct driver."""
    seed, config = config_of(name)
    schedule = [parse(entry) for entry in config.pop("schedule")]
    return run(seed, config["shape"], given=config, schedule=schedule, keep=True)


def lines(found: Run, *words: str) -> list[str]:
    """Return the steps whose line holds all of these words."""
    return [line for line in found.lines if all(word in line for word in words)]


def test_every_story_is_told() -> None:
    """The twelve of the design and no other, each with a schedule of its own, a case that it names and both assertions."""
    assert sorted(STORIES) == sorted(path.stem for path in PLACE.glob("*.toml"))
    for name in STORIES:
        text = PLACE.joinpath(f"{name}.toml").read_text("utf-8")
        document = tomllib.loads(text)
        assert [one["kind"] for one in document["assertions"]] == [
            "supervisor_invariants_hold",
            "supervisor_settles_within",
        ]
        assert document["peers"][0]["kind_config"]["schedule"]
        header = header_of(text, file=name)
        assert header.expected == "pass-now"
        assert name.startswith("smoke") or "# reproduces: supervisor design, section" in text


@pytest.mark.parametrize("name", STORIES)
def test_it_happens(name: str) -> None:
    """The schedule does what its comments say: every entry is possible at its moment, and the counters saw the effects."""
    found = replayed(name)
    assert (found.violated, found.message) == (None, "")
    assert found.refused == (name == "tampered_record")
    assert set(STORIES[name]) <= found.seen
    assert len(lines(found, "skipped")) == REFUSED.get(name, 0)


def test_a_lost_start_is_sent_once() -> None:
    """Report D01 in the world: one Start, one attempt, one Open, whoever is in charge."""
    found = replayed("lost_start")
    assert [len(lines(found, word)) for word in ("Start 1/1", "attempt_authorised", "Open 1/1/1")] == [1, 1, 1]


def test_an_outcome_stays() -> None:
    """Report D03 (c) in the world: the requeue lands after the outcome, which is recorded once, before the settlement."""
    found = replayed("requeue_after_outcome")
    (decided,) = lines(found, "outcome_decided", "Committed")
    (landed,) = lines(found, "late ", "requeue:1/1/1")
    (settled,) = lines(found, "MemCommit", " settled", "Committed")
    assert decided < landed < settled


def test_a_bit_is_cleared_before_it_is_verified() -> None:
    """Report D03 in the world: revived by the scheduler, stopped, its bit cleared; the next submission opens after that."""
    found = replayed("stuck_requeue_bit")
    moments = [
        lines(found, word)[0] for word in ("revive", "Stop 1/1/1", "ClearBit 1/1/1", "stop_verified", "Open 2/1/2")
    ]
    assert moments == sorted(moments)


def test_two_owners_race() -> None:
    """Of two commits at one version one is refused; both send the Open and the Stop, one the Start."""
    found = replayed("two_owners")
    assert len(lines(found, "Conflict")) >= 3
    assert {line.split()[3] for line in lines(found, "Open 1/1/1")} == {"sup0", "sup1"}
    assert {line.split()[3] for line in lines(found, "Stop 1/1/1")} == {"sup0", "sup1"}
    assert len(lines(found, "Start 1/1")) == 1


def test_nobody_resumes_beside_an_old_process() -> None:
    """The hold of a shared checkpoint ends after the old trainer has; the second submission goes on from its checkpoint."""
    found = replayed("shared_checkpoint_cessation")
    asked = lines(found, "Cessation 1/1/1")
    assert len(asked) > 1
    (release,) = lines(found, "release", "Committed")
    assert asked[-1] < release < lines(found, "Open 2/1/2")[0]


# --- with a rule switched off ------------------------------------------------------------------------------------------


def verdicts_with(name: str, *defects: str) -> dict[str, tuple[str, str]]:
    """Run a scenario by the engine; return outcome and note of each assertion."""
    document = tomllib.loads(PLACE.joinpath(f"{name}.toml").read_text("utf-8"))
    document["peers"][0]["kind_config"]["defects"] = list(defects)
    kinds = Kinds()
    finished = play(loads(tomli_w.dumps(document), kinds, name=name), kinds)
    return {verdict.kind: (verdict.outcome, str(verdict.note)) for verdict in finished.verdicts()}


def fails_by(name: str, defect: str, invariant: str) -> None:
    """Assert that both assertions fail, and that the first names this invariant."""
    holds, settles = verdicts_with(name, defect).values()
    assert (holds[0], settles) == ("Fail", ("Fail", f"invariant {invariant} broke first"))
    assert re.search(rf"\binvariant {invariant}\b", holds[1])
    assert holds[1].startswith("found by the world") == (invariant in WORLD_ONLY)


@pytest.mark.parametrize(("name", "defect", "invariant"), NOTICED)
def test_a_story_notices_the_rule_that_it_is_about(name: str, defect: str, invariant: str) -> None:
    """Without the rule that its comment names, a story ends badly, by the invariant that the rule is there for."""
    fails_by(name, defect, invariant)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_regression_fails_with_its_defect_alone(name: str) -> None:
    """Plain it passes; with the defect that its header names it fails by the invariant that its name names (§15.1)."""
    text = PLACE.joinpath("regressions", f"{name}.toml").read_text("utf-8")
    (said,) = [found for line in text.splitlines() if (found := FOUND_WITH.match(line)) is not None]
    invariant, seed, shape, defect = said.groups()
    assert name == f"{invariant}-{seed}"
    seed_of, config = config_of(f"regressions/{name}")
    assert (str(seed_of), config["shape"], config.get("defects")) == (seed, shape, None)
    assert invariant in {knob.defect: knob.caught_by for knob in SUPERVISOR}[defect]
    assert [outcome for outcome, _ in verdicts_with(f"regressions/{name}").values()] == ["Pass", "Pass"]
    fails_by(f"regressions/{name}", defect, invariant)


def test_the_command_line_names_the_invariant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shipped scenario with a rule switched off exits with 1 and says so; a bundle of it is judged alike (§21, step 8)."""
    text = PLACE.joinpath("lost_start.toml").read_text("utf-8")
    file, bundle = tmp_path / "lost_start.toml", tmp_path / "bundle"
    file.write_text(text.replace("schedule = [", 'defects = ["RESEND_START"]\nschedule = ['), "utf-8")
    assert main(["run", str(file), "--out", str(bundle)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("defects switched on: RESEND_START\n")
    assert "invariant 14: attempt 1/1 is started twice" in said
    assert main(["eval", str(bundle)]) == 1
    assert "invariant 14: attempt 1/1 is started twice" in capsys.readouterr().out
