"""When a run broke is when a fold turned to Fail; a run that was stopped is shown up to there, with when, where and why."""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from simharness.assertions.evaluation import Evaluation
from simharness.assertions.setting import from_scenario
from simharness.bundle.digest import event_lines
from simharness.cli import training_sweep
from simharness.cli.main import main
from simharness.contracts.assertions import Verdict
from simharness.contracts.mutations import ClockOffset
from simharness.contracts.records import EventRecord, MutationRecord
from simharness.contracts.scenario import Scenario
from simharness.core.canonical_json import parse
from simharness.core.errors import EngineAbort
from simharness.stateful.playing import Played, attempt, play
from simharness.systems.training.events import Effect, TrainView
from simharness.systems.training.serverhub import ServerHub
from simharness.training import sweep
from simharness.training.breaking import WAY_ON, aborted, decisive, first_break, stopped, way_on
from simharness.training.document import Abort
from simharness.training.knobs import TRAINING, TrainingKnob, tries_of
from simharness.training.runner import run_file
from simharness.training.schedules import Case, Mix, scenario_of
from simharness.training.sweep import Space, judged, row_of
from simharness.training.tracing import timeline
from tests.documents import ROOT
from tests.training.reports import KINDS, file

SAID: Final = "aborted at 0.180920 s virtual, at w0: training-guard-hole, the ring of step 7 ended with 64 of 72 bytes"
CASE: Final = Case(2, "ring", "own")
NAMED: Final = ("--seed", "2", "--strategy", "ring", "--policy", "own")


def turned(played: Played) -> dict[int, tuple[int, int | None]]:
    """When each failing fold, fed one record after the other, turned to Fail: time and line, no line if at the end of a window."""
    evaluation = Evaluation(from_scenario(played.scenario), str)
    found: dict[int, tuple[int, int | None]] = {}

    def look(at_ns: int, line: int | None) -> None:
        for place, fold in enumerate(evaluation.folds):
            if fold.outcome == "Fail" and place not in found:
                found[place] = at_ns, line

    for line, record in enumerate(played.ordered.events):
        assert isinstance(record, EventRecord | MutationRecord)
        evaluation.feed.event(record.virtual_time_ns, record.host_id, record.kind_tag, record.event, line)
        look(record.virtual_time_ns, line)
    evaluation.feed.close(played.termination.at_ns, cut=False)
    look(played.termination.at_ns, None)
    return found


def failing(knob: TrainingKnob) -> tuple[Played, tuple[Verdict, ...]]:
    """The first run of a hunt in which anything fails, and its verdicts."""
    for scenario in tries_of(knob):
        played = play(scenario, KINDS)
        verdicts = played.verdicts()
        if any(verdict.outcome == "Fail" for verdict in verdicts):
            return played, verdicts
    raise AssertionError(knob)


def shown(knob: TrainingKnob) -> Any:
    """A defect as a parameter; the one that takes dozens of schedules to show itself is left to the lane of hunts."""
    marks = [pytest.mark.knobs] if knob.defect == "STATE0_LOST" else []
    return pytest.param(knob, id=f"{knob.defect}-{knob.strategy}", marks=marks)


@pytest.mark.parametrize("knob", [*map(shown, TRAINING)])
def test_it_broke_when_a_fold_turned(knob: TrainingKnob) -> None:
    """Of every known defect: a verdict's record is the one with which its fold turned to Fail, the headline's the earliest."""
    played, verdicts = failing(knob)
    events = played.ordered.events
    due = turned(played)
    told = {place: decisive(each) for place, each in enumerate(verdicts) if each.outcome == "Fail"}
    assert {place: None if found is None else found.virtual_time_ns for place, found in told.items()} == {
        place: at_ns for place, (at_ns, _) in due.items()
    }
    assert {place: "" if found is None else found.event_or_snapshot_ref for place, found in told.items()} == {
        place: "events.ndjson" if line is None else f"events.ndjson:{line}" for place, (_, line) in due.items()
    }
    at_ns, past, place = min(
        (at_ns, len(events) if line is None else line, place) for place, (at_ns, line) in due.items()
    )
    broken = first_break(verdicts, events)
    assert broken is not None
    assert (broken.at_ns, broken.invariant) == (at_ns, verdicts[place].kind)
    if past == len(events):
        made = [record.event for record in events if isinstance(record, EventRecord)]
        steps = [event["step"] for event in made if event["kind"] == "TrainCommit"]
        assert (broken.step, broken.worker) == (steps[-1] + 1 if steps else 0, "-")
    else:
        record = events[past]
        assert isinstance(record, EventRecord)
        assert (broken.at_ns, broken.worker) == (record.virtual_time_ns, record.host_id)
        assert broken.step == record.event["step"] - (record.event["kind"] == "TrainApply")


def test_a_part_of_an_earlier_step_breaks_the_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that keeps the parts of step 0: step 1 broke, at its commit; step 0, of which the evidence tells as well, was right."""
    opened = ServerHub._open_step

    def kept(self: ServerHub, now_ns: int, out: list[Effect]) -> None:
        parts = getattr(self, "_parts", {})
        opened(self, now_ns, out)
        self._parts = parts

    monkeypatch.setattr(ServerHub, "_open_step", kept)
    found = run_file(file("clean_own_ps"), KINDS)
    assert found.broken is not None
    assert (found.broken.step, found.broken.worker) == (1, "hub")
    assert 0.02e9 < found.broken.at_ns < 0.05e9
    assert "step 1" in found.broken.note
    first = next(
        judged for judged in found.verdicts if judged.outcome == "Fail" and judged.kind == found.broken.invariant
    )
    assert (first.at_ns, first.reference) == (found.broken.at_ns, found.broken.reference)


# --- stopped ---------------------------------------------------------------------------------------------------------


def guarded(*, guards: bool = True) -> Scenario:
    """A job whose chunks lose their tail: the guard of production stops it when it sees so."""
    mix = Mix(kinds=("kill",), workers=(3,), table={"defects": ["CHUNK_TAIL_LOST"], "guards": guards})
    return scenario_of(CASE, mix)


def test_a_stopped_run_keeps_its_records() -> None:
    """What was played until the abort is what a run without guards does until then; an invariant's say is open at most."""
    played = attempt(guarded(), KINDS)
    abort = stopped(played)
    assert abort is not None
    with pytest.raises(EngineAbort) as raised:
        play(guarded(), KINDS)
    assert (abort.rule, abort.host, abort.detail) == (raised.value.rule, raised.value.host_id, raised.value.detail)
    assert played.termination.reason == "aborted"
    assert abort.at_ns == played.termination.at_ns >= played.records[-1].virtual_time_ns
    free = play(guarded(guards=False), KINDS)
    held = list(event_lines(played.records))
    assert len(held) > 100
    assert held == list(event_lines(free.records))[: len(held)]
    assert all(verdict.outcome != "Pass" for verdict in played.verdicts())
    whole = attempt(guarded(guards=False), KINDS)
    assert (stopped(whole), whole.digest()) == (None, free.digest())


def test_a_row_of_a_stopped_run() -> None:
    """Abort, first in words; then what came until then: steps, counters, and the digest of the records that there are."""
    played = attempt(guarded(), KINDS)
    row = judged(played)
    commits = sum(
        record.event["kind"] == "TrainCommit" for record in played.ordered.events if isinstance(record, EventRecord)
    )
    assert (row["outcome"], row["failed"], row["steps"]) == ("Abort", ["training-guard-hole"], commits)
    assert commits == 7
    assert row["digest"] == played.digest() != ""
    assert row["counters"]["uneven step"] > 0
    assert row["notes"] == [SAID]
    assert row["error"] == {
        "rule": "training-guard-hole",
        "host": "w0",
        "at_ns": 180920020,
        "detail": "the ring of step 7 ended with 64 of 72 bytes",
    }


def test_the_time_is_virtual_whatever_the_clock_of_the_host_shows() -> None:
    """A host whose clock is a second ahead reports its own time; the run stopped when it did."""
    scenario = guarded()
    ahead = tuple([ClockOffset(at_ns=0, peer=peer.id, offset_ns=1_000_000_000) for peer in scenario.peers])
    found = stopped(attempt(msgspec.structs.replace(scenario, mutations=(*ahead, *scenario.mutations)), KINDS))
    assert found is not None
    assert found.at_ns < 1_000_000_000


def test_in_words() -> None:
    """Without a host as well; how to go on only from a guard of production."""
    said = aborted(Abort(rule="dispatch-budget", host=None, at_ns=1_500_000_000, detail="5 dispatches used up"))
    assert said == "aborted at 1.500000 s virtual: dispatch-budget, 5 dispatches used up"
    assert way_on(["dispatch-budget", "train_weights"]) == ""
    assert way_on(["host-raised", "training-guard-ready"]) == WAY_ON


def test_the_timeline_ends_with_the_abort() -> None:
    """Every record up to there, then when, where and by which rule."""
    lines = list(timeline(attempt(guarded(), KINDS)))
    assert sum("TrainCommit" in line for line in lines) == 7
    assert lines[-1].split(maxsplit=4)[:4] == ["0.180920", "s", "w0", "Abort"]
    assert "rule=training-guard-hole detail=the ring of step 7 ended with 64 of 72 bytes" in lines[-1]
    assert lines[:-1] == list(timeline(play(guarded(guards=False), KINDS)))[: len(lines) - 1]


def test_the_command_goes_where_the_sweep_sends_you(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sweep names the abort in words and how to go on; its `--trace` line shows the run; its file is judged without guards."""
    for module in (sweep, training_sweep):
        monkeypatch.setattr(module, "scenario_of", lambda *_: guarded())
    assert main(["sweep", "training", "--seeds", "2..3", *NAMED[2:], "--jobs", "1"]) == 4
    out = capsys.readouterr().out
    assert out.startswith("abort        1 ring: 1 violation, 0 stalls")
    (line,) = [line for line in out.splitlines() if line.startswith("Abort ")]
    assert line.endswith(f"--trace  {SAID}")
    assert f"to go on     {WAY_ON}" in out
    case = tmp_path / "case.toml"
    assert main(["sweep", "training", *NAMED, "--trace", "--emit", str(case)]) == 4
    shown = capsys.readouterr().out.splitlines()
    assert " Abort  " in shown[-4]
    assert shown[-3].startswith("Abort        7 steps, ")
    assert shown[-3].endswith(f"digest {attempt(guarded(), KINDS).digest()}")
    assert shown[-2].strip() == SAID

    clean = str(ROOT / "scenarios" / "training" / "clean_own.toml")
    assert main(["training", "scenarios", str(case), clean]) == 4
    said = capsys.readouterr()
    head, stopped_at, passed, further = said.out.splitlines()[1:]
    assert said.err.splitlines() == [str(case), clean]
    assert head.split()[:4] == ["Abort", "case", "ring", "??????"]
    assert stopped_at.strip() == SAID
    assert passed.split()[:4] == ["Pass", "clean_own", "ring", "++++++"]
    assert further == f"to go on     {WAY_ON}"
    assert main(["training", "scenarios", str(case), "--json"]) == 4
    (found,) = parse(capsys.readouterr().out.encode())["runs"]
    assert (found["outcome"], found["aborted"]["at_ns"], found["steps"]) == ("Abort", 180920020, 7)
    case.write_text(case.read_text("utf-8").replace("guards = true", "guards = false"))
    assert main(["training", "scenarios", str(case)]) == 1
    assert "broke at step 7, " in capsys.readouterr().out


def test_a_record_that_no_bundle_takes_is_an_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """A float in an event (ruling B10): the row says so, has no digest, and the sweep goes on."""
    plain = TrainView.record

    def marred(self: TrainView) -> dict[str, Any]:
        return plain(self) | {"load": 0.5}

    monkeypatch.setattr(TrainView, "record", marred)
    row = row_of(CASE, Space(), KINDS)
    assert (row["outcome"], row["failed"][0], row["digest"]) == ("Abort", "unwritable-event", "")
    assert row["notes"][0].endswith("unwritable-event, load: float 0.5 is not JSON without floats")
    assert row["steps"] > 0
