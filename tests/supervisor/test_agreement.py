"""Three ways to judge one run agree: the world's own checks, the fold fed after every step, and the finished bundle (K7)."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts.assertions import Assertion, SupervisorInvariantsHold, SupervisorSettlesWithin, Verdict
from simharness.contracts.records import EventRecord, Record
from simharness.contracts.scenario import PeerDecl
from simharness.supervisor.direct import Run as DirectRun
from simharness.supervisor.direct import run
from simharness.supervisor.params import SHAPES, Shape
from simharness.systems.supervisor.config import SupervisorDefect
from tests.supervisor.scenarios import played as played_with

WORLD_ONLY = ("3", "8", "9", "L")
"""What no trace record shows: of these the fold takes the world's word."""
BOTH: tuple[Assertion, ...] = (SupervisorInvariantsHold(), SupervisorSettlesWithin(steps=8_000))
JOB = PeerDecl(id="job", kind="supervisor", initial_state="fresh", kind_config={})
BEFORE = ("Pass", "Fail", "Inconclusive")


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
    finished = played_with(
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
