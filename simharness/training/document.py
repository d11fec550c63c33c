"""What a report is made of: the form of `report.json`. Durations are nanoseconds of virtual time unless a name says otherwise."""

from typing import Final, Literal

import msgspec

Tag = Literal["assumed", "simulated", "measured"]
TAGS: Final[tuple[Tag, ...]] = ("assumed", "simulated", "measured")
STRATEGIES: Final = ("ring", "ps")
STRATEGY_NAMES: Final = {"ring": "ring all-reduce", "ps": "parameter server"}


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the document."""


class Step(Form, frozen=True, kw_only=True):
    """One committed step, as invariant 1 judged it."""

    step: int
    at_ns: int
    generation: int
    view: int
    epoch: int
    batch: int
    """The effective batch: samples that contributed."""
    counts: tuple[int, ...]
    ratio: float
    """Largest deviation from the reference, in tolerances."""
    discriminates: bool
    loss: float
    """Mean loss over all samples after the step."""


class Mark(Form, frozen=True, kw_only=True):
    """Something that happened between two steps: view, abort, rollback, epoch_end, pause, evict."""

    kind: str
    at_ns: int
    step: int
    text: str


class Window(Form, frozen=True, kw_only=True):
    """A fault, and which part of the step axis it covers."""

    kind: str
    text: str
    from_ns: int
    until_ns: int
    from_step: float
    until_step: float


class Judged(Form, frozen=True, kw_only=True):
    """A verdict."""

    kind: str
    outcome: str
    note: str = ""
    at_ns: int | None = None
    reference: str | None = None


class Break(Form, frozen=True, kw_only=True):
    """When a run broke: the first record that violates an invariant."""

    step: int
    at_ns: int
    worker: str
    invariant: str
    note: str
    reference: str


class Run(Form, frozen=True, kw_only=True):
    """One scenario under one strategy."""

    file: str
    name: str
    reproduces: str
    expected: str
    strategy: str
    model: str
    workers: int
    seed: int
    defects: tuple[str, ...]
    digest: str
    verdicts: tuple[Judged, ...]
    steps: tuple[Step, ...]
    marks: tuple[Mark, ...]
    windows: tuple[Window, ...]
    counters: dict[str, int]
    """What was seen, by name: `TrainReject:old_view`, `TrainView`, `orphan` and so on."""
    last_weights: str
    """Digest of the weights that were applied last."""
    broken: Break | None = None

    @property
    def discriminating(self) -> int:
        """How many steps could have shown a wrong weighting."""
        return sum(step.discriminates for step in self.steps)

    @property
    def outcome(self) -> str:
        """The worst verdict."""
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

    seed: int
    losses: tuple[float, ...]
    """After each step."""


class Invisible(Form, frozen=True, kw_only=True):
    """The clean run of a model beside that of the unweighted mean, same schedule, and beside clean runs with other seeds."""

    model: str
    clean: Run
    wrong: Run
    largest_difference: float
    """Of the two losses at one step, relative to the clean one."""
    at_step: int
    others: tuple[Curve, ...] = ()
    largest_noise: float = 0.0
    """Of a clean loss with another seed and the clean one at one step, relative to the clean one."""

    @property
    def passes_for_noise(self) -> bool:
        """Whether another seed makes a larger difference than the wrong weighting."""
        return self.largest_difference <= self.largest_noise


class SweepRow(Form, frozen=True, kw_only=True):
    """One seed under one strategy."""

    seed: int
    workers: int
    strategy: str
    policy: str
    outcome: str
    steps: int
    discriminating: int
    rollbacks: int
    ratio_ppm: int
    """Worst deviation from the reference, in millionths of its tolerance: a row file holds no floats."""
    digest: str
    replay: str
    failed: tuple[str, ...] = ()
    counters: dict[str, int] = {}
    """What the run met, by the names of `coverage`."""

    @property
    def failing(self) -> bool:
        """Whether it broke an invariant, was aborted, or did not give the same bytes twice."""
        return self.outcome not in ("Pass", "Inconclusive")

    @property
    def ratio(self) -> float:
        """Worst deviation, in tolerances."""
        return self.ratio_ppm / 1_000_000


class Kill(Form, frozen=True, kw_only=True):
    """A defect that was switched on under one strategy, and who found it."""

    defect: str
    strategy: str = ""
    """Empty in a table that does not say."""
    guards: bool = False
    """Whether production guarded itself: then an abort of its own finds a defect too."""
    killed: bool
    by: str | None
    tries: int
    size: int | None
    """Mutations that shrinking left; None if what was found was not shrunk."""
    exempt: bool = False


class Cell(Form, frozen=True, kw_only=True):
    """One figure of a benchmark. Figures of different tags never share a table."""

    tag: Tag
    what: str
    workers: int
    parameters: int
    value: float
    unit: str


class Disagreement(Form, frozen=True, kw_only=True):
    """Two figures for one thing, from two tables."""

    what: str
    workers: int
    parameters: int
    one: float
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

    workers: int
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
