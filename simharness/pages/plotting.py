"""Figures of a report. Plotly is loaded when the first one is drawn: it is an optional extra."""

from typing import Any, Final

from simharness.core.errors import InputError

INK: Final = "#1f2933"
BLUE: Final = "#2563a8"
ORANGE: Final = "#c2571a"
GREEN: Final = "#2f855a"
RED: Final = "#c53030"
GRID: Final = "#e4e7eb"
PALETTE: Final = (BLUE, ORANGE, GREEN, "#8a4f9e", "#b7791f", "#4a5568", RED, "#2c7a7b")


def require_plotly() -> None:
    """Refuse to draw without the library.

    Raises:
        InputError: If the extra `report` is not installed.
    """
    try:
        import plotly  # noqa: F401, PLC0415  # optional, and slow to import
    except ImportError:
        rule = (
            "needs plotly, which is not installed: pip install 'simharness[report]' (in a clone: pip install -e '.[report]'), "
            "or leave it out with --no-html"
        )
        raise InputError(file="(report)", field="report", rule=rule) from None


def plotly_script() -> str:
    """Return the source of the library, to stand in the page itself."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  # optional, and slow to import

    source: str = get_plotlyjs()
    return source


def styled(figure: Any, height: int) -> Any:
    """Give a figure the look of all of them; return it."""
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 56, "r": 12, "t": 24, "b": 44},
        font={"family": "system-ui, sans-serif", "size": 12, "color": INK},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.03, "x": 0, "font": {"size": 11}},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(gridcolor=GRID, zeroline=False, linecolor=GRID)
    figure.update_yaxes(gridcolor=GRID, zeroline=False, linecolor=GRID)
    return figure


def figure(height: int = 360) -> Any:
    """Return an empty figure."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  # optional, and slow to import

    return styled(Figure(), height)


def html(figure: Any, div_id: str) -> str:
    """Return a figure as markup that names its element `div_id`, so that two renderings are the same bytes."""
    text: str = figure.to_html(
        full_html=False, include_plotlyjs=False, div_id=div_id, config={"responsive": True, "displayModeBar": False}
    )
    return text
