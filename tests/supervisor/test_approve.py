"""The bar of the job supervisor: what approves it, what does not, and that every way to judge a seed is one of them."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simharness.core import canonical_json
from simharness.supervisor import agreement
from simharness.supervisor.agreement import Apart, apart
from simharness.supervisor.approve import (
    SAMPLE,
    SEEDS,
    Approval,
    Hunted,
    approval,
    from_plain,
    hunted,
    hunts_of,
    page,
    rate_task,
    status,
    strays,
    to_plain,
)
from simharness.supervisor.batch import Breach, Tally, Task, run_block, total
from simharness.supervisor.coverage import COUNTERS, required
from simharness.supervisor.direct import run
from simharness.supervisor.knobs import SUPERVISOR, Kill, SupervisorKnob, hunt, task_of
from simharness.supervisor.params import SHAPES, Shape
from tests.documents import ROOT

EXEMPT = [knob.defect for knob in SUPERVISOR if not knob.caught_by]
BROKEN = Breach(seed=7, shape="slurm", invariant="11", message="two live", step=3, now_ns=5)
HASHES = Breach(seed=8, shape="kubeflow", invariant="determinism", message="two runs differ", step=3, now_ns=5)


def counts(shape: Shape) -> dict[str, int]:
    """Return what a batch of the bar's size has seen if it is like the prototype."""
    return {name: COUNTERS[name].of(shape) or 1 for name in required(shape)}


def rate(knob: SupervisorKnob, alone: bool) -> Tally:
    """Return what the runs for a hit rate come to if it is the prototype's."""
    if alone or not knob.hits:
        return Tally()
    return Tally(runs={"slurm": 10_000}, breaches=(BROKEN,) * knob.hits)


def of_the_bar(**changes: Any) -> Approval:
    """Return the record of a run that comes up to the bar, or of one that differs from it in something."""
    caught = [
        hunted(
            Kill(knob=knob, alone=alone, tries=9, breach=BROKEN if knob.caught_by else None), EXEMPT, rate(knob, alone)
        )
        for knob, alone in hunts_of(SEEDS)
    ]
    blocks = [Tally(runs={shape: SEEDS}, counters={shape: counts(shape)}, digest=5) for shape in SHAPES]
    whole = approval(
        Task(first=0, last=SEEDS, twice=True),
        blocks,
        caught,
        sources="ab",
        python="3.11.7",
        sample=SAMPLE,
        apart=(),
        explained={},
        jobs=2,
        runs_per_s=80,
    )
    return msgspec.structs.replace(whole, **changes)


def test_the_bar_is_reached() -> None:
    """Everything was run, everything was seen, nothing broke, every defect was caught or is exempt."""
    found = of_the_bar()
    assert (found.faults(), found.gaps(), found.verdict) == ((), (), "approved")
    assert {one.defect for one in found.hunts} == {knob.defect for knob in SUPERVISOR}
    assert [one.defect for one in found.hunts if one.breach is None] == EXEMPT


def survivors(names: Sequence[str]) -> tuple[Hunted, ...]:
    """Return the hunts of the bar, with some defects that nothing caught."""
    return tuple(
        hunted(
            Kill(knob=knob, alone=alone, tries=9, breach=None if knob.defect in names else BROKEN),
            [],
            rate(knob, alone),
        )
        for knob, alone in hunts_of(SEEDS)
    )


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"breaches": (BROKEN,)}, "invariant 11, seed 7 slurm: two live"),
        ({"breaches": (HASHES,)}, "invariant determinism, seed 8 kubeflow: two runs differ"),
        ({"apart": (Apart(seed=3, shape="slurm", what="no trace"),)}, "seed 3 slurm: no trace"),
        (
            {"task": Task(first=0, last=SEEDS, twice=True, defects=("BLIND_APPEND",))},
            "defects were switched on: BLIND_APPEND",
        ),
        ({"hunts": survivors(["UNGATED_START"])}, "UNGATED_START was not caught by 4 in 9 runs"),
    ],
)
def test_what_is_wrong_however_little_was_run(changes: dict[str, Any], fault: str) -> None:
    """A violation, lost determinism, a judge who disagrees, a defect that was on, a defect that survives."""
    found = of_the_bar(**changes)
    assert (found.verdict, found.faults()) == ("failed", (fault,))


def test_an_exempt_defect_must_stay_uncaught() -> None:
    """One that is caught after all loses its exemption, and there is no approval until that is done."""
    kill = Kill(knob=SUPERVISOR[-1], alone=False, tries=9, breach=BROKEN)
    assert hunted(kill, EXEMPT, Tally()).wrong == (f"{SUPERVISOR[-1].defect} was caught: remove the exemption",)


@pytest.mark.parametrize(
    ("changes", "gap"),
    [
        ({"task": Task(first=0, last=SEEDS)}, "not every seed ran twice"),
        ({"runs": {"slurm": SEEDS, "kubeflow": SEEDS - 1}}, "49999 of 50000 seeds in the shape kubeflow"),
        ({"hunts": survivors([])[1:]}, f"{SUPERVISOR[0].defect} was not hunted"),
        ({"hunts": tuple(one for one in of_the_bar().hunts if one.name != "STALE_FIND_EVIDENCE, X1 left out")},
         "STALE_FIND_EVIDENCE with X1 left out was not hunted"),
        ({"sample": SAMPLE - 1}, "199 of 200 seeds judged in every way"),
        ({"counters": {shape: counts(shape) | ({"outcome_lost": 0} if shape == "slurm" else {}) for shape in SHAPES}},
         "slurm: outcome_lost is zero"),
        ({"counters": {shape: counts(shape) | ({"crash": 1} if shape == "slurm" else {}) for shape in SHAPES}},
         "slurm: crash: 1 of 50000 seeds, the prototype 18716 of 50000, unexplained"),
    ],
)  # fmt: skip
def test_what_is_missing_makes_it_partial(changes: dict[str, Any], gap: str) -> None:
    """Nothing is wrong with what was run, and it is not everything: never approved."""
    found = of_the_bar(**changes)
    assert (found.verdict, found.faults(), found.gaps()) == ("partial", (), (gap,))


def test_a_share_is_compared_only_where_there_are_seeds_enough() -> None:
    """At three times the prototype's share or a third of it nothing is said, nor where it expects fewer than thirty seeds."""
    assert COUNTERS["crash"].slurm == 18_716
    wanted = counts("slurm")
    for seen, far in ((18_716 * 3, 0), (18_716 * 3 + 1, 1), (6_239, 0), (6_238, 1)):
        found = strays(wanted | {"crash": seen}, "slurm", 50_000)
        assert [one.counter for one in found] == ["crash"] * far, seen
    assert "crash" not in [one.counter for one in strays({}, "slurm", 80)]
    assert "crash" in [one.counter for one in strays({}, "slurm", 81)]


def test_a_hit_rate_is_compared_and_may_be_explained() -> None:
    """At three times the prototype's rate or a third of it nothing is said; further off only an explanation helps."""
    first = SUPERVISOR[0]
    for hits, far in ((297, False), (298, True), (33, False), (32, True), (0, True)):
        name, rest = first.defect, of_the_bar().hunts[1:]
        found = of_the_bar(hunts=(msgspec.structs.replace(of_the_bar().hunts[0], hits=hits), *rest))
        text = f"hit rate of {name}: {hits} of 10000 runs, the prototype 99 of 10000"
        assert found.gaps() == ((f"{text}, unexplained",) if far else ()), hits
        why = msgspec.structs.replace(found, explained={name: "Fewer stale answers."})
        assert why.verdict == "approved"
        assert (f"- {text}. Fewer stale answers." in page(why)) == far
    untaken = of_the_bar(hunts=(msgspec.structs.replace(of_the_bar().hunts[0], sampled=0, hits=0), *rest))
    assert untaken.gaps() == (f"no hit rate of {first.defect} was taken",)


def test_the_runs_of_a_hit_rate_make_one_expect_fifteen_hits() -> None:
    """In the shapes of the knob, rounded up; a knob that nothing catches has none."""
    for knob in SUPERVISOR:
        task = rate_task(knob)
        if task is None:
            assert not knob.hits
            continue
        runs = task.last * len(knob.shapes)
        assert runs * knob.hits >= 150_000 > (runs - len(knob.shapes)) * knob.hits
        assert (task.shapes, task.defects, task.twice) == (knob.shapes, (knob.defect,), False)


def test_a_status_is_about_these_sources() -> None:
    """Never, approved, partial, failed; and stale, whatever the verdict was, once a source is another."""
    assert status(None, "ab") == "never"
    for found in (of_the_bar(), of_the_bar(sample=0), of_the_bar(breaches=(BROKEN,))):
        assert status(found, "ab") == found.verdict
        assert status(found, "cd") == "stale"


def test_the_record_that_is_checked_in_approves() -> None:
    """Of whatever sources it speaks: one that failed, or was of less than the bar, is no record to keep."""
    record = ROOT.joinpath("docs", "approval.json")
    if record.exists():
        found = from_plain(canonical_json.parse(record.read_bytes()))
        assert (found.verdict, page(found)) == ("approved", record.with_name("APPROVAL.md").read_text("utf-8"))


def test_a_record_is_read_back_and_not_believed() -> None:
    """It reads as it was written; a verdict that was written into it by hand changes nothing."""
    for found in (of_the_bar(), of_the_bar(breaches=(BROKEN,), sample=0)):
        value = canonical_json.parse(canonical_json.pretty(to_plain(found)))
        assert value["verdict"] == found.verdict
        assert from_plain(value) == found
        assert from_plain(value | {"verdict": "approved", "gaps": [], "faults": []}).verdict == found.verdict
    with pytest.raises(msgspec.ValidationError):
        from_plain({"verdict": "approved"})


def test_the_page_shows_what_the_record_says() -> None:
    """Digest of sources, Python, counters with the prototype's, each hunt; and faults and gaps if there are any."""
    text = page(of_the_bar())
    for part in (
        "**approved**",
        "`ab`",
        "3.11.7",
        "| crash | 18716 (18716) | 15161 (15161) |",
        "| node_lost |  | 12696 (12696) |",
    ):
        assert part in text
    assert all(f"| {one.name} | 9 |" in text for one in of_the_bar().hunts)
    assert "## What" not in text
    text = page(of_the_bar(breaches=(BROKEN,), sample=0))
    assert "- invariant 11, seed 7 slurm: two live" in text
    assert "- 0 of 200 seeds judged in every way" in text


def test_a_small_run_hunts_what_it_can_decide() -> None:
    """A defect whose budget is larger than the run is left out; one that is hunted at a tiny budget is caught and recorded."""
    assert hunts_of(99) == ()
    assert [knob.defect for knob, _ in hunts_of(100)] == [
        *("UNGATED_START", "RESEND_START", "BLIND_APPEND", "OPEN_WHILE_HELD")
    ]
    tiny = SupervisorKnob(defect="UNGATED_START", caught_by=("4",), budget=3, hits=9479)
    ((knob, alone),) = hunts_of(3, [tiny])
    seeds = task_of(knob, alone=alone)
    one = hunted(hunt(knob, (run_block(seeds, block) for block in seeds.blocks())), (), Tally())
    assert (one.breach is not None and one.breach.invariant, one.wrong) == ("4", ())


def test_the_first_seeds_have_a_digest_of_their_own() -> None:
    """The reference is that of the first block in each shape, whatever follows."""
    task = Task(first=0, last=3, twice=True)
    blocks = [run_block(task, block) for block in task.blocks()]
    more = [Tally(runs={"slurm": 1}, digest=1)]
    figures: dict[str, Any] = {
        "sources": "",
        "python": "",
        "sample": 0,
        "apart": (),
        "explained": {},
        "jobs": 1,
        "runs_per_s": 0,
    }
    found = approval(task, [*blocks, *more], [], **figures)
    assert found.reference == total(blocks).hexdigest()
    assert found.digest == total([*blocks, *more]).hexdigest() != found.reference


def test_the_reference_range_gives_the_digest_that_is_checked_in() -> None:
    """The same seeds come to the same traces on every machine and under every Python."""
    reference = tomllib.loads(Path(__file__).with_name("reference_digests.toml").read_text("utf-8"))
    task = Task(first=reference["first"], last=reference["last"])
    whole = total(run_block(task, block) for block in task.blocks())
    assert whole.breaches == ()
    assert whole.hexdigest() == reference["digest"]


def test_the_ways_to_judge_a_seed_agree() -> None:
    """Both drivers, the world's checks, the stream and the finished run, in each shape."""
    assert apart(range(2)) == ()


def test_a_way_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that the engine does not have, and a violation that the folds do not see."""
    found = run(0, "slurm")
    monkeypatch.setattr(agreement, "run", lambda *_: msgspec.structs.replace(found, trace_hash="00"))
    (one,) = apart([0], ["slurm"])
    assert one.what == f"the direct driver has the trace 00, the engine {found.trace_hash}"
    monkeypatch.setattr(agreement, "run", lambda *_: msgspec.structs.replace(found, violated="4"))
    (one,) = apart([0], ["slurm"])
    assert one.what.startswith("supervisor_invariants_hold: Pass, not Fail")
