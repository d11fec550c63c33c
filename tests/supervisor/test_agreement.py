"""Three ways to judge one run agree: the world's own checks, the fold fed after every step, and the finished bundle (K7)."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from simharness.assertions import supervisor_history
from simharness.assertions.catalog import supervisor_invariants, supervisor_settles
from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts.assertions import Assertion, SupervisorInvariantsHold, SupervisorSettlesWithin, Verdict
from simharness.contracts.records import EventRecord, Record, Termination
from simharness.contracts.scenario import PeerDecl
from simharness.supervisor.direct import Run as DirectRun
from simharness.supervisor.direct import run
from simharness.supervisor.params import SHAPES, Shape
from simharness.supervisor.trace import Recorded
from simharness.systems.supervisor.config import SupervisorDefect
from tests.assertions.support import Judgement, Run, afterwards, live, scenario
from tests.supervisor.scenarios import played
from tests.supervisor.test_checks import DECLARED, PLANTS, Plant, commit, of, running

WORLD_ONLY = ("3", "8", "9", "L")
"""What no trace record shows: of these the fold takes the world's word."""
BOTH: tuple[Assertion, ...] = (SupervisorInvariantsHold(), SupervisorSettlesWithin(steps=8_000))
JOB = PeerDecl(id="job", kind="supervisor", initial_state="fresh", kind_config={})


class Judged(NamedTuple):
    """One run, judged three ways."""

    direct: DirectRun
    invariants: Verdict
    settles: Verdict
    records: Sequence[Record]
    failed_at: int | None
    """The place of the record at which the fold, fed step by step, failed."""


def judged(seed: int, shape: Shape, *defects: str) -> Judged:
    """Run one seed by both drivers; judge it after every step and as a whole, which must come to the same."""
    finished = played(
        seed,
        {"shape": shape, "defects": list(defects)},
        assertions=[{"kind": "supervisor_invariants_hold"}, {"kind": "supervisor_settles_within", "steps": 8_000}],
    )
    evaluator = StreamingEvaluator(finished.scenario)
    failed_at = None
    for place, record in enumerate(finished.records):
        evaluator.observe(record)
        now = evaluator.verdict(0)
        if failed_at is None and now is not None and now.outcome == "Fail":
            failed_at = place
    evaluator.close(finished.termination.at_ns)
    post = finished.verdicts()
    assert [(v.outcome, v.note) for v in evaluator.verdicts() if v is not None] == [(v.outcome, v.note) for v in post]
    direct = run(seed, shape, defects=frozenset(map(SupervisorDefect, defects)))
    return Judged(direct, post[0], post[1], finished.records, failed_at)


def agree(one: Judged) -> None:
    """The world's checks and the fold say the same: nothing, or the same invariant in the same step."""
    direct, verdict = one.direct, one.invariants
    if direct.violated is None:
        assert (verdict.outcome, one.settles.outcome, one.failed_at) == ("Pass", "Pass", None), verdict.note
        assert one.settles.note == f"{direct.quiet_steps} quiet steps"
        return
    assert (verdict.outcome, one.settles.outcome) == ("Fail", "Fail")
    named = f"(invariant {direct.violated})" if direct.violated in WORLD_ONLY else f"invariant {direct.violated}: "
    assert named in str(verdict.note)
    assert str(verdict.note).startswith("found by the world") == (direct.violated in WORLD_ONLY)
    assert one.failed_at is not None
    later = [record.event["kind"] for record in one.records[one.failed_at :] if isinstance(record, EventRecord)]
    assert "Step" not in later, "seen in the step that breaks it"
    assert later[-1] == "SupervisorViolation"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_three_agree(shape: Shape) -> None:
    """Ten seeds in each shape."""
    for seed in range(10):
        agree(judged(seed, shape))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_three_agree_on_many_seeds(shape: Shape) -> None:
    """Two hundred seeds in each shape."""
    for seed in range(10, 200):
        agree(judged(seed, shape))


KNOBS: tuple[tuple[str, Shape, int], ...] = (
    ("UNGATED_START", "slurm", 0),
    ("RESEND_START", "slurm", 1),
    ("STOP_BEFORE_FENCE", "kubeflow", 0),
    ("FENCE_WITHOUT_VERIFY", "kubeflow", 0),
    ("BLIND_APPEND", "slurm", 1),
    ("SILENT_WAIT", "kubeflow", 0),
    ("COMMIT_WITHOUT_DIR_SYNC", "slurm", 2),
)


@pytest.mark.parametrize(("defect", "shape", "seed"), KNOBS)
def test_the_three_agree_on_a_violation(defect: str, shape: Shape, seed: int) -> None:
    """With a rule of the protocol switched off both see the same invariant break, in the same step."""
    one = judged(seed, shape, defect)
    assert one.direct.violated is not None
    agree(one)


# --- the folds by themselves -------------------------------------------------------------------------------------------


def history(records: Sequence[dict[str, Any]]) -> Run:
    """Return trace records as a run, one an instant."""
    made = Run()
    for at_ns, record in enumerate(records):
        fields = {name: value for name, value in record.items() if name != "kind"}
        made.event(at_ns, "job", record["kind"], "supervisor", **fields)
    return made


def folded(made: Run, peer: PeerDecl = JOB) -> tuple[tuple[Judgement, ...], list[str]]:
    """Judge a run by both folds, live and after the fact; return also the notes."""
    declared, end = scenario(BOTH, (peer,)), Termination(reason="duration", at_ns=100_000)
    both = live(declared, made.records, end)
    assert both == afterwards(declared, made.records, end)
    evaluator = StreamingEvaluator(declared)
    for record in made.records:
        evaluator.observe(record)
    return both, [str(verdict.note) for verdict in evaluator.close(end.at_ns)]


def recorded(plant: Plant) -> list[dict[str, Any]]:
    """Return the records of a history, whatever is wrong with it."""
    everything = (*map(str, range(1, 17)), "X1", "X2", "X3", "L")
    checks = Recorded(lambda batch: batch, everything)
    checks.acknowledge(1, [DECLARED])
    plant(checks)
    return checks.take()


@pytest.mark.parametrize(("invariant", "plant"), PLANTS)
def test_a_planted_violation_is_named(invariant: str, plant: Plant) -> None:
    """The fold names the number that the checks name, and takes the world's word for what no record shows (O7)."""
    records = recorded(plant)
    world = {"kind": "SupervisorViolation", "invariant": invariant, "message": "it broke"}
    (holds, settles), notes = folded(history([*records, world]))
    assert (holds.outcome, settles.outcome) == ("Fail", "Fail")
    if invariant in WORLD_ONLY:
        assert notes[0] == f"found by the world: it broke (invariant {invariant})"
        assert holds.evidence == (len(records),)
    else:
        assert f"invariant {invariant}: " in notes[0]
        assert holds.evidence[0] < len(records)
    assert notes[1] == f"invariant {invariant} broke first"


def test_nothing_may_live_after_a_manual_settlement() -> None:
    """The second half of 7 holds under the manual policy without an Abandon, and only there."""

    def outcome(abandon: str, *more: dict[str, Any]) -> str:
        checks = Recorded(lambda batch: batch, ["7"])
        checks.acknowledge(1, [DECLARED | {"abandon": abandon}])
        commit(checks, *more, of("settled"))
        checks.created("1/1/1", gated=True)
        return folded(history([*checks.take(), {"kind": "SupervisorSettled", "steps": 9}]))[0][0].outcome

    assert outcome("manual") == "Fail"
    assert outcome("auto") == outcome("manual", of("attempt_abandoned", n=1, a=1)) == "Pass"


def test_what_is_said_at_the_end() -> None:
    """A settled job passes, in so many steps; one that is cut short, or no job at all, shows nothing (O7)."""
    records = recorded(running)
    settled = {"kind": "SupervisorSettled", "steps": 8_000, "tampered": True}
    (holds, settles), notes = folded(history([*records, settled]))
    assert (holds.outcome, settles.outcome) == ("Pass", "Pass")
    assert notes == ["3 versions, 1 objects, 2 calls; the record was tampered with, and refused", "8000 quiet steps"]
    assert folded(history([*records, settled | {"steps": 8_001}]))[0][1].outcome == "Fail"
    for made, peer, note in (
        (history(records), JOB, "the run ends before its quiet phase is over"),
        (
            history([*records, settled]),
            PeerDecl(id="job", kind="echo", initial_state="ready", kind_config={}),
            "no world of a job",
        ),
    ):
        both, notes = folded(made, peer)
        assert [one.outcome for one in both] == ["Inconclusive", "Inconclusive"]
        assert notes == [note, note]


def test_malformed_records_are_believed_nothing() -> None:
    """Fields that are missing or of another type neither crash the folds nor count as anything."""
    kinds = ("Proposed", "Acknowledged", "Changed", "Trainer", "CheckpointsDurable", "CheckpointsSurvived")
    others = ("StopLanded", "Found", "Resolves")
    strange: list[dict[str, Any]] = [{"kind": kind} for kind in (*kinds, *others)]
    strange += [{"kind": kind, "version": "1", "batch": [3], "obj": 7, "steps": {}, "objs": 1} for kind in kinds]
    assert folded(history([*strange, {"kind": "SupervisorSettled", "steps": 1}]))[0][0].outcome == "Pass"
    assert folded(history([{"kind": "Created"}]))[1][0].startswith("invariant 4: ")


def test_the_folds_import_nothing_of_the_system() -> None:
    """A fold must not be computed by the code it judges, nor by the world that judged it before (K7)."""
    for module in (supervisor_history, supervisor_invariants, supervisor_settles):
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        taken = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        taken += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        assert [name for name in taken if name.startswith(("simharness.supervisor", "simharness.systems"))] == []
