"""The figures of the training report. Every trace of steps has one point a step, so that nothing of a run is hidden."""

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import Any, Final

from simharness.core.units import NS_PER_MS
from simharness.pages import plotting
from simharness.training.breaking import when_it_fails
from simharness.training.document import Bench, Cell, Invisible, Pair, Run, Step, SweepRow

MARKS: Final = {
    "epoch_end": ("epoch ends", "line-ns-open", "#52606d", 0),
    "view": ("new view", "triangle-up", plotting.BLUE, 1),
    "abort": ("step begun anew", "x-thin-open", "#975a16", 2),
    "rollback": ("rollback", "triangle-left", "#8a4f9e", 0),
    "pause": ("paused", "square-open", "#4a5568", 2),
    "evict": ("put out", "triangle-down-open", plotting.ORANGE, 0),
}
"""What a mark below the batches stands for: words, symbol, colour, and the row that it stands in."""

SIGNS: Final = {
    "line-ns-open": "|",
    "triangle-up": "\u25b2",
    "x-thin-open": "\u2715",
    "triangle-left": "\u25c0",
    "square-open": "\u25a1",
    "triangle-down-open": "\u25bd",
}
"""The symbols as characters, for the key."""

_HOVER: Final = (
    "step %{x} at %{customdata[0]} ms<br>effective batch %{customdata[1]}<br>"
    "view %{customdata[2]}, generation %{customdata[3]}, epoch %{customdata[4]}<br>"
    "loss %{customdata[5]}, %{customdata[6]} of the tolerance%{customdata[7]}<extra></extra>"
)
"""The words stand once a line rather than once a step: two lines a run, a point a step."""

_SHADE: Final = "rgba(194, 87, 26, 0.13)"
_GREY: Final = "#9aa5b1"
_LINE: Final = 1.5
_MANY: Final = 100
"""From so many seeds on their signs would lie over each other."""
_TICKS: Final = 5


def run_figure(pair: Pair, run: Run, div_id: str) -> str:
    """Draw one strategy of a schedule: loss above, effective batch below, faults shaded. Both strategies have common axes."""
    figure = _panels()
    colour = plotting.BLUE if run.strategy == "ring" else plotting.GREEN
    for steps in _branches(run.steps):
        _loss(figure, steps, colour, "loss")
        figure.add_scatter(
            x=[step.step for step in steps],
            y=[step.batch for step in steps],
            mode="lines+markers",
            line={"shape": "hvh", "color": colour, "width": _LINE},
            marker={"size": 4},
            customdata=[_hover(step) for step in steps],
            hovertemplate=_HOVER,
            name="effective batch",
            meta="batch",
            row=2,
            col=1,
        )
    every = [step for each in pair.runs for step in each.steps]
    most = max([step.batch for step in every], default=1)
    for window in run.windows:
        until = max(window.until_step, window.from_step + 0.3)
        figure.add_vrect(x0=window.from_step, x1=until, fillcolor=_SHADE, line_width=0, layer="below")
    _marks(figure, run, -0.11 * most)
    if run.broken is not None:
        _broken(figure, run)
    figure.update_yaxes(range=_log_range([step.loss for step in every]), type="log", title="loss", row=1, col=1)
    figure.update_yaxes(range=[-0.4 * most, 1.08 * most], tickvals=_ticks(most), title="effective batch", row=2, col=1)
    figure.update_xaxes(range=[-1, max([step.step for step in every], default=0) + 1])
    figure.update_xaxes(title="step", row=2, col=1)
    return plotting.html(figure, div_id)


def _panels() -> Any:
    from plotly.subplots import make_subplots  # noqa: PLC0415  # optional, and slow to import

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.55, 0.45])
    plotting.styled(figure, 400)
    figure.update_layout(showlegend=False, hovermode="closest", margin={"l": 62, "r": 10, "t": 12, "b": 44})
    return figure


def _branches(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps of each generation: a rollback begins a line of its own."""
    found: dict[int, list[Step]] = {}
    for step in steps:
        found.setdefault(step.generation, []).append(step)
    return list(found.values())


def _loss(figure: Any, steps: Sequence[Step], colour: str, name: str) -> None:
    figure.add_scatter(
        x=[step.step for step in steps],
        y=[step.loss for step in steps],
        mode="lines+markers",
        line={"color": colour, "width": _LINE},
        marker={"size": 4},
        customdata=[_hover(step) for step in steps],
        hovertemplate=_HOVER,
        name=name,
        meta="loss",
        row=1,
        col=1,
    )


def _hover(step: Step) -> list[str | int]:
    """Return what `_HOVER` asks for of a step."""
    return [
        f"{step.at_ns / NS_PER_MS:.1f}",
        f"{step.batch} = {'+'.join(map(str, step.counts))}",
        step.view,
        step.generation,
        step.epoch,
        f"{step.loss:.4g}",
        f"{step.ratio:.3g}",
        ", discriminates" if step.discriminates else "",
    ]


def _marks(figure: Any, run: Run, at: float) -> None:
    for kind, (words, symbol, colour, row) in MARKS.items():
        marks = [mark for mark in run.marks if mark.kind == kind]
        if marks:
            figure.add_scatter(
                x=[mark.step for mark in marks],
                y=[at * (1 + row)] * len(marks),
                mode="markers",
                marker={"symbol": symbol, "size": 9, "color": colour, "line": {"width": 1.5, "color": colour}},
                customdata=[f"{mark.text}<br>{mark.at_ns / NS_PER_MS:.1f} ms" for mark in marks],
                hovertemplate="%{customdata}<extra></extra>",
                name=words,
                meta="mark",
                row=2,
                col=1,
            )


def _broken(figure: Any, run: Run) -> None:
    assert run.broken is not None
    at = run.broken.step
    nearest = _nearest(run, at)
    figure.add_scatter(
        x=[at],
        y=[nearest],
        mode="markers",
        marker={"symbol": "circle", "size": 13, "color": plotting.RED, "line": {"color": "white", "width": 1.5}},
        hovertemplate=f"{run.broken.invariant} breaks at step {at}<extra></extra>",
        name="violation",
        meta="violation",
        row=1,
        col=1,
    )
    figure.add_annotation(
        x=at,
        y=log10(nearest) if nearest > 0 else 0,
        text=f"broke at step {at}",
        font={"color": plotting.RED},
        arrowcolor=plotting.RED,
        ax=64,
        ay=14,
        bgcolor="white",
        row=1,
        col=1,
    )


def _nearest(run: Run, at: int) -> float:
    """Return the loss after a step, or, if there is none of it, after the one next to it."""
    return min(reversed(run.steps), key=lambda step: abs(step.step - at)).loss if run.steps else 1.0


def _ticks(most: int) -> list[int]:
    """Return numbers of samples to write at the axis, none of them below zero, where the marks stand."""
    apart = max(1, ceil(most / 4))
    return [*range(0, most + 1, apart)]


def _log_range(values: Iterable[float]) -> list[float]:
    positive = [value for value in values if value > 0] or [1.0]
    low, high = log10(min(positive)), log10(max(positive))
    return [floor(low * 4) / 4 - 0.05, ceil(high * 4) / 4 + 0.05]


def invisible_figure(found: Invisible, div_id: str) -> str:
    """Draw the loss of a clean run and of the unweighted mean on common axes, and where an invariant turns red, in either.

    Clean runs with other seeds lie in grey behind them: what one curve by itself could as well have been.
    """
    figure = plotting.figure(340)
    for place, other in enumerate(found.others):
        figure.add_scatter(
            x=list(range(len(other.losses))),
            y=list(other.losses),
            mode="lines",
            line={"color": _GREY, "width": 1},
            hovertemplate=f"clean, seed {other.seed}<extra></extra>",
            name="clean, other seeds",
            legendgroup="others",
            showlegend=place == 0,
            meta="other seed",
        )
    clean = (
        "weighted by samples" if found.clean.outcome in ("Pass", "Inconclusive") else "clean run, which itself fails"
    )
    sides = (
        (clean, found.clean, plotting.BLUE, "solid"),
        ("unweighted mean", found.wrong, plotting.ORANGE, "dot"),
    )
    for name, run, colour, dash in sides:
        figure.add_scatter(
            x=[step.step for step in run.steps],
            y=[step.loss for step in run.steps],
            mode="lines+markers",
            line={"color": colour, "width": _LINE, "dash": dash},
            marker={"size": 4},
            customdata=[_hover(step) for step in run.steps],
            hovertemplate=_HOVER,
            name=name,
            meta="loss",
        )
    for whose, run, symbol in (("clean run: ", found.clean, "x"), ("", found.wrong, "circle")):
        if run.broken is None:
            continue
        at, words = run.broken.step, f"{whose}{when_it_fails(run)}"
        figure.add_scatter(
            x=[at],
            y=[_nearest(run, at)],
            mode="markers",
            marker={"symbol": symbol, "size": 13, "color": plotting.RED, "line": {"color": "white", "width": 1.5}},
            hovertemplate=f"{words}<extra></extra>",
            name=words,
            meta="violation",
        )
        figure.add_vline(x=at, line_color=plotting.RED, line_width=1, line_dash="dot")
    every = [step.loss for _, run, _, _ in sides for step in run.steps]
    every += [loss for other in found.others for loss in other.losses]
    figure.update_yaxes(type="log", range=_log_range(every), title="loss")
    figure.update_xaxes(title="step")
    return plotting.html(figure, div_id)


def sweep_figure(rows: Sequence[SweepRow], div_id: str) -> str:
    """Draw every seed by its number of workers; hovering gives the line that replays it.

    The run of one policy is a full sign, that of the other an open one around it: they have one seed and so many workers.
    """
    figure = plotting.figure(320)
    seeds = [row.seed for row in rows] or [0]
    apart = max(seeds) - min(seeds)
    small = 6 if apart < _MANY else 3
    for outcome, colour, symbol in (
        ("Pass", plotting.GREEN, "square"),
        ("Inconclusive", "#b7791f", "diamond"),
        ("Fail", plotting.RED, "x"),
        ("Abort", "#4a5568", "x"),
        ("Diverged", "#8a4f9e", "x"),
    ):
        for policy, end, size in (("own", "", small), ("reshard", "-open", 2 * small)):
            some = [row for row in rows if (row.outcome, row.policy) == (outcome, policy)]
            name = f"{outcome}, {policy} ({len(some)})"
            for place, (replay, alike) in enumerate(_by_replay(some).items()):
                figure.add_scatter(
                    x=[row.seed for row in alike],
                    y=[row.workers for row in alike],
                    mode="markers",
                    marker={"color": colour, "symbol": symbol + end, "size": size},
                    customdata=[[row.steps, row.discriminating, row.rollbacks, row.ratio_words] for row in alike],
                    hovertemplate=(
                        f"seed %{{x}}, %{{y}} workers<br>{policy}, %{{customdata[0]}} steps, %{{customdata[1]}} discriminating, "
                        f"%{{customdata[2]}} rollbacks<br>worst %{{customdata[3]}} of the tolerance<br>{replay}<extra></extra>"
                    ),
                    name=name,
                    legendgroup=name,
                    showlegend=place == 0,
                )
    figure.update_layout(showlegend=True)
    figure.update_xaxes(title="seed", dtick=max(1, ceil(apart / _TICKS)), tickformat="d")
    figure.update_yaxes(title="workers", dtick=1)
    return plotting.html(figure, div_id)


def _by_replay(rows: Iterable[SweepRow]) -> dict[str, list[SweepRow]]:
    """Return the rows by the line that replays them, the seed left open: a drawing of thousands holds it once."""
    found: dict[str, list[SweepRow]] = {}
    for row in rows:
        found.setdefault(row.replay.replace(f"--seed {row.seed} ", "--seed %{x} "), []).append(row)
    return found


def crossover_figure(bench: Bench, div_id: str) -> str:
    """Draw from how many parameters on the ring beats a server behind one NIC, over the number of workers."""
    figure = plotting.figure(340)
    workers = [cross.workers for cross in bench.crossovers]
    for name, values, mode, colour, dash in (
        ("assumed, with commit and overlap", [c.assumed for c in bench.crossovers], "lines", plotting.BLUE, "solid"),
        ("simulated, by bisection", [c.simulated for c in bench.crossovers], "markers", plotting.ORANGE, "solid"),
        ("assumed, textbook", [c.textbook for c in bench.crossovers], "lines", "#4a5568", "dot"),
    ):
        figure.add_scatter(
            x=workers,
            y=values,
            mode=mode,
            line={"color": colour, "dash": dash, "width": _LINE},
            marker={"color": colour, "size": 9},
            hovertemplate="%{x} workers: %{y:,.0f} parameters<extra></extra>",
            name=name,
        )
    figure.update_xaxes(title="workers", tickvals=workers)
    figure.update_yaxes(title="parameters", rangemode="tozero")
    return plotting.html(figure, div_id)


def series_figure(cells: Sequence[Cell], axis: str, div_id: str, *, log: bool = False) -> str:
    """Draw figures of one tag over the number of workers, a line for each thing."""
    figure = plotting.figure(300)
    for place, what in enumerate(dict.fromkeys(cell.what for cell in cells)):
        some = [cell for cell in cells if cell.what == what]
        figure.add_scatter(
            x=[cell.workers for cell in some],
            y=[cell.value for cell in some],
            mode="lines+markers",
            line={"color": plotting.PALETTE[place % len(plotting.PALETTE)], "width": _LINE},
            hovertemplate="%{x} workers: %{y:.3g}<extra></extra>",
            name=what,
        )
    figure.update_xaxes(title="workers", tickvals=sorted(dict.fromkeys(cell.workers for cell in cells)))
    figure.update_yaxes(title=axis, **({"type": "log"} if log else {"rangemode": "tozero"}))
    return plotting.html(figure, div_id)
