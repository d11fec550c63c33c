"""The kill table of training: each defect switched on, and an invariant must notice within a budget of seeds (K1, design 18).

A schedule made for the defect, where there is one, is the first try; then come the seeds of the defect's own mix of faults.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from simharness.contracts.assertions import TRAINING_INVARIANTS
from simharness.contracts.host import KindRegistry
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort
from simharness.stateful.playing import play
from simharness.stateful.shrink import Shrinker
from simharness.training.directed import DIRECTED
from simharness.training.schedules import POLICIES, Case, Mix, Strategy, scenario_of

BUDGET: Final = 200
SHRINKING_RUNS: Final = 60
ABORT: Final = "abort"
"""What caught a defect if a guard of production did."""

_PROGRESS: Final = "train_progress"
_NAMES: Final = {
    **{f"I{number}": str(kind.__struct_config__.tag) for number, kind in enumerate(TRAINING_INVARIANTS, 1)},
    "P": _PROGRESS,
}


class TrainingKnob(msgspec.Struct, frozen=True, kw_only=True):
    """A defect under one strategy: which invariants may catch it, and over which mix of jobs and faults."""

    system: str = "training"
    defect: str
    strategy: Strategy
    caught_by: tuple[str, ...]
    """Assertion kinds."""
    mix: Mix
    budget: int = BUDGET


def _mix(*kinds: str, **fields: Any) -> Mix:
    """Return a mix of few workers and short schedules."""
    horizon_ms = fields.pop("horizon_ms", 1_000)
    workers = fields.pop("workers", (3, 4))
    starts = fields.pop("start_ms", (100,))
    table = {"pace_ns": 20_000_000, **fields}
    return Mix(kinds=kinds, workers=workers, table=table, horizon_ms=horizon_ms, start_ms=starts)


def _knobs(defect: str, strategies: str, caught_by: str, mix: Mix) -> tuple[TrainingKnob, ...]:
    names = tuple([_NAMES[name] for name in caught_by.split()])
    both: tuple[Strategy, ...] = ("ring", "ps")
    return tuple(
        [
            TrainingKnob(defect=defect, strategy=strategy, caught_by=names, mix=mix)
            for strategy in both
            if strategies in (strategy, "both")
        ]
    )


_KILLS: Final = _mix("kill")
_HUB: Final = _mix("hub")
_LATE: Final = _mix("slow", "spike", backup_workers=1)

TRAINING: Final = (
    *_knobs("UNWEIGHTED_MEAN", "both", "I1", _KILLS),
    *_knobs("OLD_DIVISOR", "both", "I1", _KILLS),
    *_knobs("PLANNED_DIVISOR", "both", "I1", _KILLS),
    *_knobs("CHUNK_TAIL_LOST", "ring", "I1", _KILLS),
    *_knobs("CACHE_BY_IDS", "ps", "I1", _mix("hub", "slow")),
    *_knobs("KEEP_OLD_PARAMS", "ps", "I1", _KILLS),
    *_knobs("FLOAT32_WIRE", "both", "I1", _KILLS),
    *_knobs("STALE_CHUNK", "ring", "I1 I2", _mix("spike", "kill", "duplicates")),
    *_knobs("STALE_PUSH", "ps", "I6 I1", _LATE),
    *_knobs("LATE_CARRY", "ps", "I1 I6", _LATE),
    *_knobs("OLD_VIEW_PUSH", "ps", "I6", _mix("spike", "kill")),
    *_knobs("NO_INCARNATION_CHECK", "both", "I6", _mix("flap", "kill")),
    *_knobs("DOUBLE_APPLY", "ring", "I4", _mix("duplicates", "loss")),
    *_knobs("EARLY_APPLY", "ring", "I4", _KILLS),
    *_knobs("MINORITY_TRAINS", "ring", "I4", _mix("cut")),
    *_knobs("EAGER_ROLLBACK", "ring", "I4", _mix("kill", "total")),
    *_knobs("OLD_CHECKPOINT", "ps", "I4", _HUB),
    *_knobs("DUP_PUSH", "ps", "I5", _mix("duplicates", "slow")),
    *_knobs("PAD_SHORT_BATCH", "both", "I5", _KILLS),
    *_knobs("REPORT_PLANNED", "ps", "I5", _LATE),
    *_knobs("DROP_SHORT_BATCH", "both", "I3", _KILLS),
    *_knobs("MARK_ALL_CONSUMED", "ps", "I3", _LATE),
    *_knobs("EPOCH_FROM_START", "both", "I3", _KILLS),
    *_knobs("MOMENTUM_NOT_SENT", "ring", "I2", _KILLS),
    *_knobs("REJOIN_OLD_WEIGHTS", "ring", "I6 I2", _KILLS),
    *_knobs("CHECKPOINT_NO_MOMENTUM", "ps", "I2", _HUB),
    *_knobs("CHECKPOINT_NO_CURSOR", "ps", "I2", _HUB),
    *_knobs("CURSOR_AHEAD", "ps", "I2", _HUB),
    *_knobs("RECIPROCAL", "ring", "I2", _KILLS),
    *_knobs("LOCAL_SCALE", "both", "I1 I2", _KILLS),
    *_knobs("STATS_MEAN_OF_MEANS", "both", "I1", _mix("kill", track_stats=True)),
    *_knobs("NO_SYNC", "ring", "P", _HUB),
    *_knobs("STATE0_LOST", "ring", "P", _mix("total", start_ms=(0,), checkpoint_every=5, workers=(2, 3))),
)
"""The table of the design's section 18: what must fire, strategy by strategy."""


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """What one hunt came to."""

    knob: TrainingKnob
    guards: bool
    tries: int
    """Runs up to and including the one that was caught; all of them if none was."""
    by: str | None = None
    scenario: Scenario | None = None
    fired: tuple[str, ...] = ()
    """Everything that failed in that run."""

    @property
    def killed(self) -> bool:
        """Whether something that may has caught the defect."""
        return self.by is not None


def switched_on(knob: TrainingKnob, *, guards: bool) -> Mapping[str, Any]:
    """Return the fields of the job's table that switch the defect on."""
    return {"defects": [knob.defect], "guards": guards}


def tries_of(knob: TrainingKnob, *, guards: bool = False, budget: int | None = None) -> Iterator[Scenario]:
    """Yield the scenarios of a hunt, the one made for the defect first."""
    fields = switched_on(knob, guards=guards)
    budget = knob.budget if budget is None else budget
    made = DIRECTED.get(knob.defect)
    if made is not None and budget:
        yield made(fields)
    mix = msgspec.structs.replace(knob.mix, table={**knob.mix.table, **fields})
    for seed in range(budget - (made is not None)):
        yield scenario_of(Case(seed, knob.strategy, POLICIES[seed % len(POLICIES)]), mix)


def hunt(knob: TrainingKnob, kinds: KindRegistry, *, guards: bool = False, budget: int | None = None) -> Kill:
    """Run scenarios with the defect on until it is caught. With guards, an abort of production catches it too."""
    tries = 0
    for scenario in tries_of(knob, guards=guards, budget=budget):
        tries += 1
        fired = fired_in(scenario, kinds)
        by = next((kind for kind in fired if kind in knob.caught_by or (guards and kind)), None)
        if by is not None:
            return Kill(knob=knob, guards=guards, tries=tries, by=by, scenario=scenario, fired=fired)
    return Kill(knob=knob, guards=guards, tries=tries)


def fired_in(scenario: Scenario, kinds: KindRegistry) -> tuple[str, ...]:
    """Return the kinds of the assertions that fail in a run, in their order, or that it was aborted."""
    try:
        verdicts = play(scenario, kinds).verdicts()
    except EngineAbort:
        return (ABORT,)
    return tuple([verdict.kind for verdict in verdicts if verdict.outcome == "Fail"])


def smallest(kill: Kill, kinds: KindRegistry) -> Scenario:
    """Shrink the run that caught a defect: by its first failing assertion that may, in at most 60 runs."""
    scenario = kill.scenario
    assert scenario is not None, "the defect was caught"
    if kill.by == ABORT:
        return scenario
    kept = tuple([one for one in scenario.assertions if one.__struct_config__.tag == kill.by])
    alone = msgspec.structs.replace(scenario, assertions=kept)
    return Shrinker(alone, kinds, most_runs=SHRINKING_RUNS).run().scenario


def shortcomings(kill: Kill, *, exempt: bool) -> tuple[str, ...]:
    """Return why this is not what the table promises; empty if it is."""
    knob = kill.knob
    what = f"{knob.defect} ({knob.strategy})"
    if exempt:
        return (f"{what} was caught: remove the exemption",) if kill.killed else ()
    if kill.killed:
        return ()
    by = "by anything, with guards on" if kill.guards else f"by {' or '.join(knob.caught_by)}"
    return (f"{what} was not caught {by} in {kill.tries} runs",)
