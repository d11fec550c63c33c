"""The kill table of the job supervisor: each rule of the protocol switched off in turn, and the seed batch must notice (K1)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from simharness.supervisor.batch import Breach, Tally, Task
from simharness.supervisor.direct import run
from simharness.supervisor.minimise import Minimised, minimise
from simharness.supervisor.params import SHAPES, Shape
from simharness.systems.supervisor.config import SupervisorDefect

ALONE: Final = 3
"""With X1 left out, a numbered invariant must catch the knob within so many times its budget."""


class SupervisorKnob(msgspec.Struct, frozen=True, kw_only=True):
    """One defect: which invariants may catch it, within how many seeds of each shape, and how often it breaks one."""

    system: str = "supervisor"
    defect: str
    caught_by: tuple[str, ...]
    budget: int
    hits: int
    """Violating runs of 10,000 in the prototype; of an invented one, which it does not have, as measured in 1,000 runs here."""
    shapes: tuple[Shape, ...] = SHAPES


def _knob(defect: str, caught_by: str, hits: int, budget: int, shapes: tuple[Shape, ...] = SHAPES) -> SupervisorKnob:
    return SupervisorKnob(defect=defect, caught_by=tuple(caught_by.split()), budget=budget, hits=hits, shapes=shapes)


_SLURM: Final[tuple[Shape, ...]] = ("slurm",)
_KUBEFLOW: Final[tuple[Shape, ...]] = ("kubeflow",)

SUPERVISOR: Final = (
    _knob("STALE_FIND_EVIDENCE", "7 11 16 X1", 99, 1_000),
    _knob("OPEN_DURING_REQUEUE", "11 X1", 58, 2_000, _SLURM),
    _knob("SETTLE_BEFORE_FENCE", "7 16 X1", 21, 5_000, _SLURM),
    _knob("DEADLINE_AFTER_SEND", "7 11 15 X1", 15, 7_000, _SLURM),
    _knob("LATE_CLIENT_DEADLINE", "7 11 15 X1 X2 L", 32, 4_000, _SLURM),
    _knob("HOLD_DURING_RELEASE", "15", 23, 5_000, _SLURM),
    _knob("IGNORE_REQUEUE_BIT", "7 11 X1 X2", 15, 7_000, _SLURM),
    _knob("RETIRE_CANONICAL", "5 6", 390, 500),
    _knob("RECHOOSE_CANONICAL", "12", 237, 500),
    _knob("LOCAL_CHOICE", "5", 8, 13_000),
    _knob("UNGATED_START", "4", 9479, 100),
    _knob("RESEND_START", "14", 3990, 100),
    _knob("UNBOUNDED_ATTEMPTS", "14", 90, 1_500),
    _knob("OPEN_IGNORES_CANCEL", "13", 457, 500),
    _knob("BLIND_APPEND", "2 9 12 14", 1931, 100),
    _knob("ABSENT_MEANS_ENDED", "7 16 X1 L", 50, 2_000),
    _knob("STOP_BEFORE_FENCE", "5", 1060, 200, _KUBEFLOW),
    _knob("FENCE_WITHOUT_VERIFY", "11 X1 L", 1168, 200, _KUBEFLOW),
    _knob("SETTLE_UNRESOLVED", "7", 35, 3_000),
    _knob("READ_WITHOUT_BARRIER", "3", 40, 3_000),
    _knob("COMMIT_WITHOUT_DIR_SYNC", "3", 556, 300),
    _knob("SKIP_CHAIN_CHECK", "8", 252, 500),
    _knob("TOMBSTONE_IGNORED", "3", 40, 3_000),
    _knob("TRUST_LATEST_POINTER", "10", 41, 3_000),
    _knob("RESOLVE_WITHOUT_SYNC", "10", 77, 2_000),
    _knob("CESSATION_BEFORE_FENCE", "X2", 14, 8_000, _SLURM),
    _knob("SILENT_WAIT", "L", 1221, 200),
    # Invented by somebody who had not read the checks (section 15.3). Written down before the first run of each:
    # 7: a Start that got no answer is settled over and creates later; 15: so does a release under a hold; X1, 11: a requeue.
    _knob("UNKNOWN_MEANS_REFUSED", "7 11 15 X1", 250, 500),
    # 5: the late object of the lowest attempt is chosen, then stopped.
    _knob("ABANDONED_IS_CONDEMNED", "5", 190, 600),
    # 14: after a crash the next incarnation sends a Start that the one before had sent.
    _knob("NAME_WITHOUT_INCARNATION", "14", 600, 200),
    # Two more of these: the checks were blind to them, and have 10's second half and X3 for it.
    _knob("RESUME_REMEMBERED", "10", 290, 500),
    _knob("OPEN_WHILE_HELD", "X3", 1390, 100),
    _knob("SINGLE_CANCEL_SWEEP", "", 0, 20_000),
    _knob("VERIFIED_STOPPED_AS_EVIDENCE", "", 0, 20_000),
)
"""The list of section 15.2 of the design, and five invented ones (15.3)."""

FREQUENT: Final = 200
"""Continuous integration hunts the knobs with at least so many hits; the nightly run hunts all."""


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """What one hunt came to."""

    knob: SupervisorKnob
    alone: bool
    """Whether X1 was left out."""
    tries: int
    """Runs up to and including the one that was caught; the whole budget if none was."""
    breach: Breach | None = None
    others: Mapping[str, int] = {}
    """Violations of invariants that may not catch the knob; they are shown and do not count."""

    @property
    def killed(self) -> bool:
        """Whether an invariant that may caught it."""
        return self.breach is not None


def task_of(knob: SupervisorKnob, *, alone: bool = False) -> Task:
    """Return the seeds that a knob is hunted over."""
    return Task(
        first=0,
        last=knob.budget * (ALONE if alone else 1),
        shapes=knob.shapes,
        defects=(knob.defect,),
        skip=("X1",) if alone else (),
    )


def accepts(knob: SupervisorKnob) -> Callable[[Breach], bool]:
    """Return what tells whether a breach kills the knob; of one that nothing may catch, any does."""
    return lambda breach: breach.invariant in knob.caught_by or not knob.caught_by


def hunt(knob: SupervisorKnob, tallies: Iterable[Tally], *, alone: bool = False) -> Kill:
    """Look through the blocks of `task_of`, run with `accepts` to stop at, in order."""
    accepted = accepts(knob)
    tries, others = 0, dict[str, int]()
    for tally in tallies:
        tries += sum(tally.runs.values())
        for breach in tally.breaches:
            if accepted(breach):
                return Kill(knob=knob, alone=alone, tries=tries, breach=breach, others=others)
            others[breach.invariant] = others.get(breach.invariant, 0) + 1
    return Kill(knob=knob, alone=alone, tries=tries, others=others)


def smallest(kill: Kill) -> Minimised:
    """Minimise the run that killed a knob."""
    breach = kill.breach
    assert breach is not None, "the knob was caught"
    defects = frozenset({SupervisorDefect(kill.knob.defect)})
    found = run(breach.seed, breach.shape, defects=defects, skip=("X1",) if kill.alone else (), keep=True)
    return minimise(found, defects=defects)


def shortcomings(kill: Kill, *, exempt: bool) -> tuple[str, ...]:
    """Return why this is not what the table promises; empty if it is."""
    knob = kill.knob
    if exempt:
        return (f"{knob.defect} was caught: remove the exemption",) if kill.killed else ()
    if kill.killed:
        return ()
    without = " with X1 left out" if kill.alone else ""
    return (f"{knob.defect} was not caught by {', '.join(knob.caught_by) or 'anything'} in {kill.tries} runs{without}",)
