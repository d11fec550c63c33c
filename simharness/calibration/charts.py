"""The pictures of a calibration report. Plotly is loaded when the first one is drawn: it is an optional extra."""

from collections.abc import Sequence
from typing import Any, Final

from simharness.calibration.delays import TERMS
from simharness.calibration.distances import Distribution
from simharness.calibration.metrics import Metrics
from simharness.pages import plotting

OURS: Final = plotting.BLUE
THEIRS: Final = plotting.ORANGE
_DASHES: Final = ("solid", "dot", "dash", "dashdot", "longdash")


class Side:
    """One side of a comparison: its name, its runs, its colour."""

    def __init__(self, name: str, runs: Sequence[Metrics], colour: str) -> None:
        self.name, self.runs, self.colour = name, runs, colour


def ratios(rows: Sequence[tuple[str, float, float, float]], div_id: str) -> str:
    """Draw ours divided by theirs for each (metric, ratio, low, high) on a logarithmic axis, over the band that passes."""
    names = [row[0] for row in rows]
    inside = [low <= value <= high for _, value, low, high in rows]
    colours = [plotting.GREEN if ok else plotting.RED for ok in inside]
    figure = plotting.figure(height=110 + 34 * len(rows))
    figure.add_bar(
        y=names,
        base=[low for _, _, low, _ in rows],
        x=[high - low for _, _, low, high in rows],
        orientation="h",
        marker_color="#d7e3f0",
        width=0.55,
        name="in tolerance",
        hovertemplate="%{y}: %{base:.3g} to %{x:.3g}<extra></extra>",
    )
    figure.add_scatter(
        y=names,
        x=[value for _, value, _, _ in rows],
        mode="markers",
        marker={"size": 11, "color": colours, "line": {"color": "white", "width": 1}},
        name="ours / published",
        hovertemplate="%{y}: %{x:.3g}<extra></extra>",
    )
    figure.update_xaxes(type="log", title="ours / published", tickvals=[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50])
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.add_vline(x=1, line_color=plotting.INK, line_width=1)
    return plotting.html(figure, div_id)


def boxes(sides: Sequence[Side], prefix: str, axis: str, div_id: str, *, limit: int = 16) -> str:
    """Draw the distributions whose names start with `prefix` side by side: 1, 25, 50, 75 and 99 % of each."""
    names = sorted(
        {name: None for side in sides for run in side.runs for name in run.distributions if name.startswith(prefix)}
    )
    figure = plotting.figure()
    for side in sides:
        for index, run in enumerate(side.runs):
            shown = [(name, run.distributions[name]) for name in names[:limit] if name in run.distributions]
            if shown:
                _box(figure, side, index, [(name.removeprefix(prefix), item) for name, item in shown])
    figure.update_layout(boxmode="group")
    figure.update_yaxes(title=axis, rangemode="tozero")
    figure.update_xaxes(automargin=True)
    return plotting.html(figure, div_id)


def _box(figure: Any, side: Side, index: int, shown: Sequence[tuple[str, Distribution]]) -> None:
    at = {name: [item.at(percent) for _, item in shown] for name, percent in _BOX.items()}
    figure.add_box(
        x=[name for name, _ in shown],
        **at,
        name=side.name if len(side.runs) == 1 else f"{side.name} {index + 1}",
        legendgroup=side.name,
        marker_color=side.colour,
        opacity=max(0.35, 1 - 0.15 * index),
    )


_BOX: Final = {"lowerfence": 1, "q1": 25, "median": 50, "q3": 75, "upperfence": 99}


def steps(
    sides: Sequence[Side], prefix: str, axis: str, div_id: str, *, points: Sequence[tuple[str, float, float]] = ()
) -> str:
    """Draw step functions over the run, and published values as (label, seconds, value)."""
    figure = plotting.figure()
    names = sorted({name: None for side in sides for run in side.runs for name in run.paths if name.startswith(prefix)})
    for place, side in enumerate(sides):
        for run in side.runs:
            for index, name in enumerate(names):
                path = run.paths.get(name, ())
                figure.add_scatter(
                    x=[at for at, _ in path],
                    y=[value for _, value in path],
                    mode="lines",
                    line={
                        "shape": "hv",
                        "color": plotting.PALETTE[index % len(plotting.PALETTE)],
                        "dash": _DASHES[place % 5],
                        "width": 1.5,
                    },
                    name=name.removeprefix(prefix) + (f" ({side.name})" if len(sides) > 1 else ""),
                )
    for label, at_s, value in points:
        marker = {"size": 12, "color": THEIRS, "symbol": "diamond"}
        figure.add_scatter(x=[at_s], y=[value], mode="markers", marker=marker, name=label)
    figure.update_xaxes(title="seconds")
    figure.update_yaxes(title=axis, rangemode="tozero")
    return plotting.html(figure, div_id)


def shares(sides: Sequence[Side], key: str, div_id: str) -> str:
    """Draw the shares of a categorical metric side by side."""
    figure = plotting.figure(height=320)
    for side in sides:
        total: dict[str, int] = {}
        for run in side.runs:
            for name, count in run.counts[key].items():
                total[name] = total.get(name, 0) + count
        every = sum(total.values())
        if every:
            names = sorted(total)
            figure.add_bar(x=names, y=[total[name] / every for name in names], name=side.name, marker_color=side.colour)
    figure.update_yaxes(title="share", tickformat=".0%", rangemode="tozero")
    return plotting.html(figure, div_id)


def decomposition(side: Side, div_id: str) -> str:
    """Draw where the mean delivery of each ordered pair spends its time, term by term, over all runs of a side."""
    figure = plotting.figure(height=420)
    pairs = sorted(
        {key.split(".")[2]: None for run in side.runs for key in run.numbers if key.startswith("relay.hol.")}
    )
    for index, term in enumerate(TERMS):
        means = [_mean(side.runs, f"relay.hol.{pair}.{term}_ms") for pair in pairs]
        figure.add_bar(x=pairs, y=means, name=term.replace("_", " "), marker_color=plotting.PALETTE[index])
    figure.update_layout(barmode="relative")
    figure.update_yaxes(title="ms, mean of all deliveries")
    figure.update_xaxes(automargin=True)
    return plotting.html(figure, div_id)


def _mean(runs: Sequence[Metrics], key: str) -> float:
    values = [run.numbers[key] for run in runs if key in run.numbers]
    return sum(values) / len(values) if values else 0.0
