"""What a report is made of: the form of `report.json`. Durations are nanoseconds of virtual time unless a name says otherwise."""

from typing import Annotated, Final, Literal

import msgspec

from simharness.core.units import U63_MAX, U64_MAX

Tag = Literal["assumed", "simulated", "measured"]
TAGS: Final[tuple[Tag, ...]] = ("assumed", "simulated", "measured")
Strategy = Literal["ring", "ps"]
Outcome = Literal["Pass", "Fail", "Inconclusive"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("ring", "ps")
STRATEGY_NAMES: Final = {"ring": "ring all-reduce", "ps": "parameter server"}


Count = Annotated[int, msgspec.Meta(ge=0, le=U63_MAX)]
"""What is counted, and instants: everything that a document is written to ends at 64 bits."""

Seed = Annotated[int, msgspec.Meta(ge=0)]
"""Up to 2**64-1, which only `within` can say."""

Positive = Annotated[float, msgspec.Meta(gt=0)]

MOST_RATIO_PPM: Final = U63_MAX
"""A row holds numbers of 64 bits: a deviation of so many millionths of the tolerance is that or more."""


def within(seed: int) -> None:
    """Check that a seed is one.

    Raises:
        ValueError: If it has more than 64 bits.
    """
    if seed > U64_MAX:
        raise ValueError(f"a seed is at most {U64_MAX}")


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the document."""


class Step(Form, frozen=True, kw_only=True):
    """One committed step, as invariant 1 judged it."""

    step: Count
    at_ns: Count
    generation: Count
    view: Count
    epoch: Count
    batch: Count
    """The effective batch: samples that contributed."""
    counts: tuple[Count, ...]
    ratio: float
    """Largest deviation from the reference, in tolerances."""
    discriminates: bool
    loss: float
    """Mean loss over all samples after the step."""


class Mark(Form, frozen=True, kw_only=True):
    """Something that happened between two steps: view, abort, rollback, epoch_end, pause, evict."""

    kind: str
    at_ns: Count
    step: Count
    text: str


class Window(Form, frozen=True, kw_only=True):
    """A fault, and which part of the step axis it covers."""

    kind: str
    text: str
    from_ns: Count
    until_ns: Count
    from_step: float
    until_step: float


class Judged(Form, frozen=True, kw_only=True):
    """A verdict."""

    kind: str
    outcome: Outcome
    note: str = ""
    at_ns: Count | None = None
    reference: str | None = None


class Break(Form, frozen=True, kw_only=True):
    """When a run broke: the first record that violates an invariant, or, nothing having come, the step that was due."""

    step: Count
    at_ns: Count
    worker: str
    invariant: str
    note: str
    reference: str


class Abort(Form, frozen=True, kw_only=True):
    """What stopped a run that could not go on: the rule, where and when it was broken, and how."""

    rule: str
    host: str | None
    at_ns: int
    detail: str


class Run(Form, frozen=True, kw_only=True):
    """One scenario under one strategy."""

    file: str
    name: str
    reproduces: str
    expected: str
    strategy: Strategy
    model: str
    workers: Count
    seed: Seed
    defects: tuple[str, ...]
    digest: str
    verdicts: tuple[Judged, ...]
    steps: tuple[Step, ...]
    marks: tuple[Mark, ...]
    windows: tuple[Window, ...]
    counters: dict[str, Count]
    """What was seen, by name: `TrainReject:old_view`, `TrainView`, `orphan` and so on."""
    last_weights: str
    """Digest of the weights that were applied last."""
    broken: Break | None = None
    aborted: Abort | None = None
    """Then steps, marks and digest are those up to there."""

    def __post_init__(self) -> None:
        """Check what its types do not say."""
        within(self.seed)

    @property
    def discriminating(self) -> int:
        """How many steps could have shown a wrong weighting."""
        return sum(step.discriminates for step in self.steps)

    @property
    def outcome(self) -> str:
        """The worst verdict; Abort if it could not go on."""
        if self.aborted is not None:
            return "Abort"
        outcomes = [judged.outcome for judged in self.verdicts]
        return next(word for word in ("Fail", "Inconclusive", "Pass") if word in outcomes or word == "Pass")


class Pair(Form, frozen=True, kw_only=True):
    """One fault schedule under both strategies."""

    name: str
    ring: Run
    ps: Run

    @property
    def runs(self) -> tuple[Run, Run]:
        """Both, the ring first."""
        return self.ring, self.ps


class Curve(Form, frozen=True, kw_only=True):
    """The clean run under another seed: other samples, orders and delays."""

    seed: Seed
    losses: tuple[float, ...]
    """After each step."""

    def __post_init__(self) -> None:
        """Check what its types do not say."""
        within(self.seed)


class Invisible(Form, frozen=True, kw_only=True):
    """The clean run of a model beside that of the unweighted mean, same schedule, and beside clean runs with other seeds."""

    model: str
    clean: Run
    wrong: Run
    largest_difference: float
    """Of the two losses at one step, relative to the clean one."""
    at_step: Count
    others: tuple[Curve, ...] = ()
    largest_noise: float = 0.0
    """Of a clean loss with another seed and the clean one at one step, relative to the clean one."""

    @property
    def passes_for_noise(self) -> bool:
        """Whether another seed makes a larger difference than the wrong weighting."""
        return self.largest_difference <= self.largest_noise


class SweepRow(Form, frozen=True, kw_only=True):
    """One seed under one strategy."""

    seed: Seed
    workers: Count
    strategy: Strategy
    policy: Literal["own", "reshard"]
    outcome: Literal[Outcome, "Abort", "Diverged"]
    steps: Count
    discriminating: Count
    rollbacks: Count
    ratio_ppm: Count
    """Worst deviation from the reference, in millionths of its tolerance, at most `MOST_RATIO_PPM`: a row file holds no floats."""
    digest: str
    replay: str
    failed: tuple[str, ...]
    counters: dict[str, Count]
    """What the run met, by the names of `coverage`."""

    def __post_init__(self) -> None:
        """Check what its types do not say."""
        within(self.seed)

    @property
    def failing(self) -> bool:
        """Whether it broke an invariant, was aborted, or did not give the same bytes twice."""
        return self.outcome not in ("Pass", "Inconclusive")

    @property
    def ratio(self) -> float:
        """Worst deviation, in tolerances."""
        return self.ratio_ppm / 1_000_000

    @property
    def ratio_words(self) -> str:
        """The same in words, which say if the row could not hold more."""
        return f"{'at least ' if self.ratio_ppm >= MOST_RATIO_PPM else ''}{self.ratio:.3g}"


class Kill(Form, frozen=True, kw_only=True):
    """A defect that was switched on under one strategy, and who found it."""

    defect: str
    strategy: str = ""
    """Empty in a table that does not say."""
    guards: bool = False
    """Whether production guarded itself: then an abort of its own finds a defect too."""
    killed: bool
    by: str | None
    tries: Count
    size: Count | None
    """Mutations that shrinking left; None if what was found was not shrunk."""
    exempt: bool = False

    def __post_init__(self) -> None:
        """Check what its types do not say."""
        if self.killed != bool(self.by):
            raise ValueError("`by` is given if, and only if, `killed` is true")


class Cell(Form, frozen=True, kw_only=True):
    """One figure of a benchmark. Figures of different tags never share a table."""

    tag: Tag
    what: str
    workers: Count
    parameters: Count
    value: float
    unit: str


class Disagreement(Form, frozen=True, kw_only=True):
    """Two figures for one thing, from two tables."""

    what: str
    workers: Count
    parameters: Count
    one: Positive
    one_tag: Tag
    other: float
    other_tag: Tag
    unit: str
    explanation: str

    @property
    def relative(self) -> float:
        """The other divided by the one, less 1."""
        return self.other / self.one - 1


class Crossover(Form, frozen=True, kw_only=True):
    """How many parameters a model has from which on the ring beats the server."""

    workers: Count
    textbook: float
    """By the two forms that leave out commit and overlap."""
    assumed: float
    """By the forms that have them."""
    simulated: float


class Bench(Form, frozen=True, kw_only=True):
    """The benchmarks of one invocation."""

    assumptions: str
    cells: tuple[Cell, ...]
    speedups: tuple[Cell, ...]
    """N b / T(N) over b / T(1): assumed or simulated, never measured."""
    disagreements: tuple[Disagreement, ...]
    crossovers: tuple[Crossover, ...]


class Finding(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A defect of the code, of the tests or of the analysis, that this project met."""

    title: str
    about: Literal["protocol", "checker", "suite", "analysis", "cost_model", "code"]
    found: str
    effect: str
    fix: str
    reproduce: str
    """Command line that shows the effect: exit code 1 while it does. With `--without` it must be gone, exit code 0."""
    test: str
    confidently_wrong: bool = False
    wrong_conclusion: str = ""


class Report(Form, frozen=True, kw_only=True):
    """The whole document."""

    version: str
    quick: bool
    pairs: tuple[Pair, ...]
    invisible: tuple[Invisible, ...]
    sweep: tuple[SweepRow, ...] = ()
    kills: tuple[Kill, ...] = ()
    bench: Bench | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every run of the pairs, each file once."""
        return tuple({run.file: run for pair in self.pairs for run in pair.runs}.values())
