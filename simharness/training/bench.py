"""The benchmarks of a report: figures by what they are, and what is to be said where two of them disagree (training design, 19).

`assumed` is a closed form, `simulated` a run on the virtual clock (an assumption still, with control messages and queues in it),
`measured` the simulator itself on this machine. A simulator cannot measure speedup: it has the first two tags only.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from simharness.contracts.host import KindRegistry
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_S
from simharness.training import costs
from simharness.training.document import Bench, Cell, Crossover, Disagreement, Tag

SILENT: Final = 0.01
"""Up to this relative difference nothing needs to be said."""

_SIZES: Final = {False: (1_000, 100_000, 1_000_000), True: (1_000, 100_000)}
_WORKERS: Final = {False: (1, 2, 4, 8, 16), True: (1, 2, 4)}
_CROSSED: Final = {False: (2, 4, 8, 16), True: (2, 4)}
_PACED: Final = {False: (1, 2, 4, 8), True: (1, 2, 4)}
_MS: Final = 1_000_000
PACE: Final = "ring: simulator"
_HUBS: Final = {"ring": "ring", "ps": "server"}
_SPEEDUP_OF: Final = 100_000
FIRST: Final = (
    "More workers make a step do more in the time that it is assumed to take, and the simulator pays for each of them: it computes "
    "every worker's share and every message in one process. What speeds up is the job that is described, never the machine that "
    "describes it."
)


def bench(kinds: KindRegistry, *, quick: bool, told: Callable[[str], object]) -> Bench:
    """Compute, simulate and measure. `told` is called with what is done next.

    Raises:
        InputError: If two figures disagree by more than 1 % and nothing explains it.
    """
    link = costs.Link()
    cells, disagreements = _steps(link, kinds, quick=quick, told=told)
    speedups = _speedups(cells)
    measured = _measured(kinds, quick=quick, told=told)
    crossovers = []
    for workers in _CROSSED[quick]:
        told(f"crossover of {workers} workers")
        textbook, explained, simulated = costs.crossover_of(workers, link, kinds)
        crossovers.append(Crossover(workers=workers, textbook=textbook, assumed=explained, simulated=simulated))
    found = Bench(
        assumptions=link.described(),
        cells=(*cells, *measured),
        speedups=speedups,
        disagreements=tuple(disagreements),
        crossovers=tuple(crossovers),
    )
    check_explained(found.disagreements)
    return found


def check_explained(disagreements: Sequence[Disagreement]) -> None:
    """Refuse a document in which figures disagree in silence.

    Raises:
        InputError: If a relative difference is above 1 % and has no explanation.
    """
    for each in disagreements:
        if abs(each.relative) > SILENT and not each.explanation:
            where = f"{each.what}, {each.workers} workers, {each.parameters} parameters"
            rule = (
                f"{each.one_tag} and {each.other_tag} differ by {100 * each.relative:+.1f} %, and nothing explains it"
            )
            raise InputError(file="(report)", field=where, rule=rule)


class _Pair(NamedTuple):
    """The step time of one layout and size, in milliseconds, twice."""

    what: str
    workers: int
    parameters: int
    assumed: float
    simulated: float

    def cell(self, tag: Tag, value: float) -> Cell:
        """Return one of the two figures."""
        return Cell(tag=tag, what=self.what, workers=self.workers, parameters=self.parameters, value=value, unit="ms")

    def disagreement(self, explanation: str) -> Disagreement:
        """Return the two beside each other."""
        return Disagreement(
            what=self.what,
            workers=self.workers,
            parameters=self.parameters,
            one=self.assumed,
            one_tag="assumed",
            other=self.simulated,
            other_tag="simulated",
            unit="ms",
            explanation=explanation,
        )


def _steps(
    link: costs.Link, kinds: KindRegistry, *, quick: bool, told: Callable[[str], object]
) -> tuple[list[Cell], list[Disagreement]]:
    """Return step times of every layout and size, assumed and simulated, and where the two disagree."""
    cells: list[Cell] = []
    disagreements: list[Disagreement] = []
    for parameters in _SIZES[quick]:
        for layout in costs.LAYOUTS:
            for workers in _WORKERS[quick]:
                told(f"{costs.LAYOUT_NAMES[layout]}, {workers} workers, {parameters} parameters")
                assumed = float(costs.assumed_ns(layout, workers, parameters, link)) / _MS
                explained = float(costs.explained_ns(layout, workers, parameters, link)) / _MS
                simulated = float(costs.simulated_ns(layout, workers, parameters, link, kinds)) / _MS
                pair = _Pair(costs.LAYOUT_NAMES[layout], workers, parameters, assumed, simulated)
                cells += [pair.cell("assumed", assumed), pair.cell("simulated", simulated)]
                if abs(simulated / assumed - 1) > SILENT:
                    holds = abs(simulated / explained - 1) <= SILENT
                    disagreements.append(pair.disagreement(costs.EXPLANATIONS[layout] if holds else ""))
    return cells, disagreements


def _speedups(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return N b / T(N) over b / T(1) for the middle size, by tag."""
    at = {(cell.tag, cell.what, cell.workers): cell.value for cell in cells if cell.parameters == _SPEEDUP_OF}
    return tuple(
        Cell(
            tag=tag,
            what=what,
            workers=workers,
            parameters=_SPEEDUP_OF,
            value=workers * at[tag, what, 1] / value,
            unit="x",
        )
        for (tag, what, workers), value in at.items()
    )


def _measured(kinds: KindRegistry, *, quick: bool, told: Callable[[str], object]) -> list[Cell]:
    """Return steps a second of this machine, and the ratios that have a budget (training design, section 24)."""
    from simharness.training import walls  # noqa: PLC0415  # it computes with numpy, which rendering a report does without

    virtual_ns, rounds = (NS_PER_S // 4, 1) if quick else (NS_PER_S, 3)
    cells = []
    for strategy in walls.STRATEGIES:
        for workers in _PACED[quick]:
            told(f"pace of {strategy}, {workers} workers")
            pace = walls.pace_of(strategy, workers, kinds, virtual_ns=virtual_ns, rounds=rounds)
            figures = (
                ("plain loop", pace.plain, "steps/s"),
                ("simulator", pace.bare, "steps/s"),
                ("simulator with six invariants", pace.judged, "steps/s"),
                ("simulator / plain loop", pace.bare / pace.plain, "x"),
                ("six invariants / plain loop", pace.judged / pace.plain, "x"),
                ("time with six invariants / without", pace.bare / pace.judged, "x"),
                ("events/s against the echo mesh", pace.events / pace.echo, "x"),
            )
            cells += [
                Cell(
                    tag="measured",
                    what=f"{_HUBS[strategy]}: {what}",
                    workers=workers,
                    parameters=5,
                    value=value,
                    unit=unit,
                )
                for what, value, unit in figures
            ]
    for model in walls.MODELS:
        cost = walls.oracle_cost(model, rounds=3 * rounds)
        for what, value, unit in (
            ("judged", cost.milliseconds, "ms"),
            ("judged / gradient", cost.over_production, "x"),
        ):
            name, n = f"reference, {model}, 32 samples: {what}", walls.BATCHES
            cells.append(Cell(tag="measured", what=name, workers=n, parameters=cost.parameters, value=value, unit=unit))
    return cells


def beside(found: Bench) -> list[tuple[Cell, Cell]]:
    """Return, by workers, the assumed speedup of the ring and what the simulator of it does in a second: the first disagreement.

    The one rises with the workers and the other falls. They are of two tags, so neither is divided by anything of the other, and
    there is no measured speedup (training design, section 19).
    """
    pace = {cell.workers: cell for cell in found.cells if cell.tag == "measured" and cell.what == PACE}
    ring = [cell for cell in found.speedups if cell.tag == "assumed" and cell.what == costs.LAYOUT_NAMES["ring"]]
    return [(cell, pace[cell.workers]) for cell in ring if cell.workers in pace]
