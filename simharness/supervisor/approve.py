"""The bar: what a batch, the kill table and a sample of seeds must come to before the job supervisor counts as approved.

An approval is a record of figures for one digest of the sources. The verdict is not taken from the file but decided from its
figures, so a file says no more than what was run. Section 20 of the design; no date and no commit, which could not name itself.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from simharness.supervisor.agreement import Apart
from simharness.supervisor.batch import BLOCK, Breach, Tally, Task
from simharness.supervisor.coverage import COUNTERS, OF_SEEDS, missing
from simharness.supervisor.knobs import ALONE, SUPERVISOR, Kill, SupervisorKnob, shortcomings
from simharness.supervisor.params import SHAPES, Shape

SEEDS: Final = 50_000
"""Seeds that the bar asks for in each shape."""
SAMPLE: Final = 200
"""Seeds in each shape about which all drivers and judges must agree."""
FACTOR: Final = 3
"""How far a counter may be from the prototype's share of seeds, either way, before somebody must explain it."""
ENOUGH: Final = 30
"""Seeds that the prototype's share must make one expect before a share is compared at all."""
OF_RUNS: Final = 10_000
"""Runs of which a knob's hits in the prototype are stated."""
SAMPLED_HITS: Final = 15
"""Hits that the prototype's rate must make one expect of the runs from which a hit rate is taken."""

_KNOBS: Final = {knob.defect: knob for knob in SUPERVISOR}

Verdict = Literal["approved", "partial", "failed"]
Status = Literal["approved", "partial", "failed", "stale", "never"]


class Hunted(msgspec.Struct, frozen=True, kw_only=True):
    """One hunt of the kill table."""

    defect: str
    alone: bool
    """Whether X1 was left out."""
    exempt: bool
    tries: int
    breach: Breach | None
    others: dict[str, int]
    wrong: tuple[str, ...]
    sampled: int = 0
    """Runs from which the hit rate was taken; none with X1 left out, nor of a defect that nothing catches."""
    hits: int = 0
    """Runs among them that broke something, whatever it was."""

    @property
    def name(self) -> str:
        """The defect, and whether X1 was left out."""
        return f"{self.defect}, X1 left out" if self.alone else self.defect


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """What was run over which sources, and what it came to."""

    sources: str
    """SHA-256 over the modules of system, world and disk."""
    python: str
    task: Task
    runs: dict[str, int]
    counters: dict[str, dict[str, int]]
    breaches: tuple[Breach, ...]
    digest: str
    """Combined digest of all seeds of the batch."""
    reference: str
    """Combined digest of its first seeds, as many as `BLOCK`, which anybody can check in seconds."""
    steps: int
    most_quiet_steps: int
    hunts: tuple[Hunted, ...]
    sample: int
    """Seeds in each shape, from the first on, that were run by both drivers and judged in every way."""
    apart: tuple[Apart, ...]
    explained: dict[str, str]
    """Why a share of seeds ("SHAPE COUNTER") or a hit rate ("DEFECT") may be far from the prototype's."""
    jobs: int
    runs_per_s: int
    """Of all processes together, while the batch ran; 0 if it was over before that could be told."""

    def faults(self) -> tuple[str, ...]:
        """Return what is wrong however little was run."""
        found = [f"defects were switched on: {', '.join(self.task.defects)}"] if self.task.defects else []
        found += [f"invariant {one.invariant}, seed {one.seed} {one.shape}: {one.message}" for one in self.breaches]
        found += [wrong for one in self.hunts for wrong in one.wrong]
        found += [f"seed {one.seed} {one.shape}: {one.what}" for one in self.apart]
        return tuple(found)

    def gaps(self) -> tuple[str, ...]:
        """Return what the bar asks for and was not run or not seen."""
        found = [] if self.task.twice else ["not every seed ran twice"]
        for shape in SHAPES:
            seeds, counts = self.runs.get(shape, 0), self.counters.get(shape, {})
            found += [f"{seeds} of {SEEDS} seeds in the shape {shape}"] if seeds < SEEDS else []
            found += [f"{shape}: {name} is zero" for name in missing(counts, shape)]
        hunted = {(one.defect, one.alone) for one in self.hunts}
        asked = [(knob, alone) for knob, alone in hunts_of(SEEDS) if (knob.defect, alone) not in hunted]
        found += [f"{knob.defect}{' with X1 left out' if alone else ''} was not hunted" for knob, alone in asked]
        found += [f"no hit rate of {one.defect} was taken" for one in self.hunts if not one.sampled and _has_rate(one)]
        found += [f"{text}, unexplained" for name, text in self.strays().items() if name not in self.explained]
        found += [f"{self.sample} of {SAMPLE} seeds judged in every way"] if self.sample < SAMPLE else []
        return tuple(found)

    def strays(self) -> dict[str, str]:
        """Return the shares and rates that are far from the prototype's, by the name that an explanation has."""
        found = {}
        for shape in SHAPES:
            seeds, counts = self.runs.get(shape, 0), self.counters.get(shape, {})
            for far in strays(counts, shape, seeds):
                found[f"{shape} {far.counter}"] = f"{shape}: {far.text()}"
        for one in self.hunts:
            if one.sampled and _apart(one.hits, one.sampled, _KNOBS[one.defect].hits, OF_RUNS):
                shares = f"{one.hits} of {one.sampled} runs, the prototype {_KNOBS[one.defect].hits} of {OF_RUNS}"
                found[one.defect] = f"hit rate of {one.defect}: {shares}"
        return found

    @property
    def verdict(self) -> Verdict:
        """Return what the figures amount to."""
        return "failed" if self.faults() else "partial" if self.gaps() else "approved"


class Stray(NamedTuple):
    """A counter whose share of seeds is far from the prototype's."""

    counter: str
    seen: int
    seeds: int
    expected: int
    """Of `OF_SEEDS` seeds."""

    def text(self) -> str:
        """Return counter and both shares."""
        return f"{self.counter}: {self.seen} of {self.seeds} seeds, the prototype {self.expected} of {OF_SEEDS}"


def strays(counts: Mapping[str, int], shape: Shape, seeds: int) -> tuple[Stray, ...]:
    """Return the counters that are further than `FACTOR` from the prototype's share, where there are seeds enough to tell."""
    found = []
    for name, prototype in COUNTERS.items():
        expected, seen = prototype.of(shape), counts.get(name, 0)
        if expected is None or expected * seeds < ENOUGH * OF_SEEDS:
            continue
        if _apart(seen, seeds, expected, OF_SEEDS):
            found.append(Stray(name, seen, seeds, expected))
    return tuple(found)


def _apart(seen: int, of: int, expected: int, expected_of: int) -> bool:
    """Return whether one share is more than `FACTOR` times the other."""
    ours, theirs = seen * expected_of, expected * of
    return theirs > FACTOR * ours or ours > FACTOR * theirs


def _has_rate(one: "Hunted") -> bool:
    return not one.alone and _KNOBS[one.defect].hits > 0


def rate_task(knob: SupervisorKnob) -> Task | None:
    """Return the seeds from which the hit rate of a knob is taken; None if nothing is expected to catch it."""
    if not knob.hits:
        return None
    return Task(
        first=0,
        last=-(-SAMPLED_HITS * OF_RUNS // (knob.hits * len(knob.shapes))),
        shapes=knob.shapes,
        defects=(knob.defect,),
    )


def hunts_of(seeds: int, knobs: Iterable[SupervisorKnob] = SUPERVISOR) -> tuple[tuple[SupervisorKnob, bool], ...]:
    """Return the hunts that a run of so many seeds can decide: each knob, and once more without X1 where X1 may catch it.

    A smaller run leaves out knobs whose budget is larger than itself; it could not say that they survive.
    """
    both = [(knob, alone) for knob in knobs for alone in (False, True) if not alone or "X1" in knob.caught_by]
    return tuple([(knob, alone) for knob, alone in both if knob.budget * (ALONE if alone else 1) <= seeds])


def hunted(kill: Kill, exempt: Collection[str], rate: Tally) -> Hunted:
    """Return what a hunt came to; `rate` is the tally of its `rate_task`, or an empty one."""
    excused = kill.knob.defect in exempt
    return Hunted(
        defect=kill.knob.defect,
        alone=kill.alone,
        exempt=excused,
        tries=kill.tries,
        breach=kill.breach,
        others=dict(kill.others),
        wrong=shortcomings(kill, exempt=excused),
        sampled=sum(rate.runs.values()),
        hits=len(rate.breaches),
    )


def approval(
    task: Task,
    blocks: Sequence[Tally],
    hunts: Iterable[Hunted],
    *,
    sources: str,
    python: str,
    sample: int,
    apart: Iterable[Apart],
    explained: Mapping[str, str],
    jobs: int,
    runs_per_s: int,
) -> Approval:
    """Put the parts of an approval together; `blocks` are the tallies of a task's blocks, in order."""
    whole, first = Tally(), Tally()
    for place, tally in enumerate(blocks):
        whole = whole.plus(tally)
        first = whole if place < len(task.shapes) else first
    return Approval(
        sources=sources,
        python=python,
        task=task,
        runs=whole.runs,
        counters=whole.counters,
        breaches=whole.breaches,
        digest=whole.hexdigest(),
        reference=first.hexdigest(),
        steps=whole.steps,
        most_quiet_steps=whole.most_quiet_steps,
        hunts=tuple(hunts),
        sample=sample,
        apart=tuple(apart),
        explained=dict(explained),
        jobs=jobs,
        runs_per_s=runs_per_s,
    )


def status(found: Approval | None, sources: str) -> Status:
    """Return what a record says about these sources."""
    if found is None:
        return "never"
    return found.verdict if found.sources == sources else "stale"


# --- the two forms of the record -----------------------------------------------------------------------------------------


def to_plain(found: Approval) -> dict[str, Any]:
    """Return a record as a JSON object, its verdict first."""
    body: dict[str, Any] = msgspec.to_builtins(found)
    return {"verdict": found.verdict, "faults": [*found.faults()], "gaps": [*found.gaps()], **body}


def from_plain(value: object) -> Approval:
    """Read a record; its verdict is decided again, so what the file says of it is not looked at.

    Raises:
        msgspec.ValidationError: If it is none.
    """
    return msgspec.convert(value, Approval)


_ABOUT: Final = """\
Written by `simharness supervisor approve`; `simharness supervisor status` says whether it still holds. The figures are those of
`approval.json` beside it."""


def page(found: Approval) -> str:
    """Return the record as a Markdown page."""
    seeds = f"{found.task.first}..{found.task.last}"
    facts = (
        ("verdict", f"**{found.verdict}**"),
        ("sources (SHA-256)", f"`{found.sources}`"),
        ("Python", found.python),
        ("seeds, in each shape" + (", each twice" if found.task.twice else ""), seeds),
        ("combined digest", f"`{found.digest}`"),
        (
            f"combined digest of the first {min(BLOCK, found.task.last - found.task.first)} seeds",
            f"`{found.reference}`",
        ),
        ("steps, of one run of each seed", str(found.steps)),
        ("longest quiet phase, in steps", str(found.most_quiet_steps)),
        ("seeds in each shape judged in every way", str(found.sample)),
        ("speed", f"{found.runs_per_s} runs/s, {found.jobs} processes"),
    )
    parts = [
        "# Approval of the job supervisor",
        _ABOUT,
        _table(("figure", "value"), facts),
        *_list("What is wrong", found.faults()),
        *_list("What the bar asks for beyond this", found.gaps()),
        "## Kill table",
        f"Hits: runs that broke something, whatever it was; in brackets the prototype's of {OF_RUNS} runs.",
        _table(("defect", "runs", "caught by", "seed", "not counted", "hits"), map(_hunt_row, found.hunts)),
        "## Counters",
        "Seeds that saw it at least once; in brackets those of 50,000 in the prototype, where it had such a thing.",
        _table(("counter", *SHAPES), [(name, *[_count(found, shape, name) for shape in SHAPES]) for name in COUNTERS]),
        *_list("Far from the prototype, and why", _explained(found)),
    ]
    return "\n\n".join(parts) + "\n"


def _explained(found: Approval) -> list[str]:
    return [f"{text}. {found.explained[name]}" for name, text in found.strays().items() if name in found.explained]


def _hunt_row(one: Hunted) -> tuple[str, ...]:
    fate, seed = ("exempt" if one.exempt else "SURVIVED"), ""
    if one.breach is not None:
        fate, seed = one.breach.invariant, f"{one.breach.seed} {one.breach.shape}, step {one.breach.step}"
    others = ", ".join([f"{count} x {name}" for name, count in sorted(one.others.items())])
    hits = f"{one.hits} of {one.sampled} ({_KNOBS[one.defect].hits})" if one.sampled else ""
    return (one.name, str(one.tries), fate, seed, others, hits)


def _count(found: Approval, shape: Shape, name: str) -> str:
    counts, expected = found.counters.get(shape, {}), COUNTERS[name].of(shape)
    elsewhere = expected is None and name not in counts
    return "" if elsewhere else f"{counts.get(name, 0)}{f' ({expected})' if expected is not None else ''}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    line: Callable[[Sequence[str]], str] = lambda cells: f"| {' | '.join(cells)} |"  # noqa: E731
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def _list(title: str, lines: Sequence[str]) -> tuple[str, ...]:
    """Return a section, or nothing where there is nothing to say."""
    return (f"## {title}", "\n".join([f"- {text}" for text in lines])) if lines else ()
