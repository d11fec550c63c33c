"""The benchmarks on the page: a table for each tag, never one for two, and every disagreement in words."""

from collections.abc import Sequence
from html import escape
from typing import Final

from simharness.training import charts
from simharness.training.bench import FIRST, SILENT, beside
from simharness.training.document import Bench, Cell, Disagreement, Tag
from simharness.training.marking import table

_NARROW: Final = 5
"""So many columns fit on a phone."""
_TAGS: Final[dict[Tag, str]] = {
    "assumed": "a closed form under the assumptions above",
    "simulated": "a run of the same configuration on the virtual clock: still an assumption, with control messages and "
    "queues in it",
    "measured": "processor time of the simulator on the machine that made this report",
}


def benchmarks(bench: Bench) -> str:
    """Return the section."""
    return (
        "<p>A simulator cannot measure speedup. It can compute what the speedup would be under stated assumptions, and it "
        "can be "
        "measured itself. Those are different claims: they are tagged and stand apart, and where they disagree, the "
        "disagreement is "
        f"the finding.</p><p>Assumed: {escape(bench.assumptions)}.</p>"
        f"{_first(bench)}{_speedups(bench)}{_steps(bench, 'assumed')}{_steps(bench, 'simulated')}{_measured(bench)}"
        f"<h3>Where the assumed and the simulated disagree</h3>{_disagreements(bench.disagreements)}{_crossover(bench)}"
    )


def _tag(tag: Tag) -> str:
    return f'<span class="tag">{tag}</span>'


def _first(bench: Bench) -> str:
    """Return the assumed speedup and the simulator's own pace, beside each other and not in one table."""
    both = beside(bench)
    if not both:
        return ""
    ring, pace = ([pair[side] for pair in both] for side in (0, 1))
    words = (
        f"With {ring[-1].workers} workers the ring is assumed to do {ring[-1].value:.2f} times the work of one in the same time; "
        f"the simulator makes {pace[0].value:,.0f} steps a second of the same job with {pace[0].workers} worker and "
        f"{pace[-1].value:,.0f} with {pace[-1].workers}. {FIRST}"
    )
    return (
        f"<h3>The first disagreement</h3><p>{escape(words)}</p>"
        f'<div class="charts"><div><h4>{_tag("assumed")} speedup of the ring</h4>'
        f"{charts.series_figure(ring, 'times one worker', 'bench-first-assumed')}{_by_workers(ring)}</div>"
        f"<div><h4>{_tag('measured')} steps a second of the simulator, ring</h4>"
        f"{charts.series_figure(pace, 'steps a second', 'bench-first-measured')}{_by_workers(pace)}</div></div>"
    )


def _by_workers(cells: Sequence[Cell]) -> str:
    """Return figures as a table: a row for each thing and size, a column for each number of workers."""
    workers = sorted(dict.fromkeys(cell.workers for cell in cells))
    several = len(dict.fromkeys(cell.parameters for cell in cells)) > 1
    values = {(cell.what, cell.parameters, cell.unit, cell.workers): cell.value for cell in cells}
    rows = []
    for what, parameters, unit in dict.fromkeys((cell.what, cell.parameters, cell.unit) for cell in cells):
        size = [f"{parameters:,}"] if several else []
        figures = [values.get((what, parameters, unit, each)) for each in workers]
        rows.append([what, *size, unit, *("" if value is None else _number(value) for value in figures)])
    head = ["", *(["parameters"] if several else []), "unit", *(f"N = {each}" for each in workers)]
    return table(head, rows, numbers=range(1, len(head)), words=(0,) if len(head) > _NARROW else ())


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:#.3g}".rstrip(".")  # noqa: PLR2004  # digits that mean something


def _speedups(bench: Bench) -> str:
    tables = "".join(
        f"<div><h4>{_tag(tag)} speedup</h4>{_by_workers([cell for cell in bench.speedups if cell.tag == tag])}</div>"
        for tag in ("assumed", "simulated")
    )
    size = f"{bench.speedups[0].parameters:,}" if bench.speedups else "no"
    return (
        f"<h3>Speedup: assumed, and simulated</h3><p>N b / T(N) over b / T(1), {size} parameters. There is no measured "
        f"speedup.</p>"
        f'<div class="charts">{tables}</div>'
    )


def _steps(bench: Bench, tag: Tag) -> str:
    cells = [cell for cell in bench.cells if cell.tag == tag]
    return f"<h3>Time of a step {_tag(tag)}</h3><p>{escape(_TAGS[tag])}</p>{_by_workers(cells)}"


def _measured(bench: Bench) -> str:
    cells = [cell for cell in bench.cells if cell.tag == "measured"]
    return f"<h3>The simulator itself {_tag('measured')}</h3><p>{escape(_TAGS['measured'])}</p>{_by_workers(cells)}"


def _disagreements(others: Sequence[Disagreement]) -> str:
    """Return what disagrees, grouped by its explanation."""
    items = []
    for what, explanation in dict.fromkeys((each.what, each.explanation) for each in others):
        some = [each for each in others if (each.what, each.explanation) == (what, explanation)]
        worst = max(some, key=lambda each: abs(each.relative))
        lines = "".join(
            f"<li>N = {each.workers}, {each.parameters:,} parameters: {each.one_tag} {each.one:.3f} {escape(each.unit)}, "
            f"{each.other_tag} {each.other:.3f} {escape(each.unit)}, {100 * each.relative:+.1f} %</li>"
            for each in some
        )
        items.append(
            f"<h4>{escape(what)}: up to {100 * worst.relative:+.1f} %</h4><p>{escape(explanation)}</p>"
            f"<details><summary>{len(some)} sizes</summary><ul>{lines}</ul></details>"
        )
    quiet = f"<p>Whatever is not listed agrees to {100 * SILENT:.0f} %.</p>"
    return quiet + "".join(items)


def _crossover(bench: Bench) -> str:
    if not bench.crossovers:
        return ""
    lines = "".join(
        f"<li>N = {cross.workers}: assumed {cross.assumed:,.0f}, textbook {cross.textbook:,.0f}, simulated "
        f"{cross.simulated:,.0f}</li>"
        for cross in bench.crossovers
    )
    return (
        "<h3>From which size on the ring wins</h3><p>Against a server behind one NIC the ring wins from M* parameters on. "
        "The textbook, "
        "which leaves out commit and overlap, puts that point elsewhere; with both it is where runs cross on the virtual "
        "clock.</p>"
        f"{charts.crossover_figure(bench, 'bench-crossover')}<ul>{lines}</ul>"
    )
