"""A calibration as text, as JSON and as one HTML page that needs nothing but itself."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import msgspec

from simharness.calibration import charts
from simharness.calibration.compare import JUDGED, Comparison, Row, Verdict
from simharness.calibration.corpus import Reference, Tolerance
from simharness.calibration.metrics import Metrics
from simharness.pages import document, plotting
from simharness.pages.document import chip

_COLUMNS: Final = ("metric", "ours", "theirs", "allowed", "verdict")
_MARK: Final = ", fitted"
_ORDER: Final = (Verdict.FAIL, Verdict.PASS, Verdict.REPORT_ONLY, Verdict.INPUT, Verdict.NO_FIGURE)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison of a report: what was compared, both sides' runs as far as there are any, and the published figures."""

    comparison: Comparison
    ours: tuple[Metrics, ...]
    theirs: tuple[Metrics, ...] = ()
    reference: Reference | None = None
    tolerances: Mapping[str, Tolerance] = {}
    facts: tuple[str, ...] = ()
    """Lines that stand below the title, such as the defects that were switched on."""


def table(comparison: Comparison) -> list[str]:
    """Return a comparison as lines of text: what is judged, then what is not, then how much that was."""
    rows = sorted(comparison.rows, key=lambda row: _ORDER.index(row.verdict))
    cells = [
        _COLUMNS,
        *((row.metric, row.ours, row.theirs, row.allowed, row.verdict + _MARK * bool(row.fitted)) for row in rows),
    ]
    widths = [min(44, max(len(row[column]) for row in cells)) for column in range(len(_COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in map(_cut, cells)
    ]
    causes = dict.fromkeys(row.cause or "nobody has found out" for row in rows if row.verdict is Verdict.FAIL)
    lines += [f"cause        {cause}" for cause in causes]
    lines += [f"fitted       {fit}" for fit in dict.fromkeys(row.fitted for row in rows if row.fitted)]
    return [*lines, f"coverage     {comparison.coverage}"]


def _cut(row: Sequence[str]) -> list[str]:
    return [cell if len(cell) <= 44 else cell[:43] + "\u2026" for cell in row]  # noqa: PLR2004  # the widest column


def plain(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain data, for JSON."""
    return {
        "name": comparison.name,
        "reference": comparison.reference,
        "verdict": comparison.verdict,
        "judged": comparison.judged,
        "passed": comparison.passed,
        "coverage": comparison.coverage,
        "rows": msgspec.to_builtins(comparison.rows),
    }


def page(title: str, parts: Sequence[Part]) -> str:
    """Return the report. The same parts give the same bytes.

    Raises:
        InputError: If plotly is not installed.
    """
    plotting.require_plotly()
    body = "".join(_section(part, f"p{index}") for index, part in enumerate(parts))
    chips = " ".join(
        f"{chip(part.comparison.verdict)} {escape(part.comparison.name)} <span class='quiet'>against "
        f"{escape(part.comparison.reference)}</span><br>"
        for part in parts
    )
    return document.page(title, f"<p>{chips}</p>\n{body}", script=plotting.plotly_script())


def _section(part: Part, prefix: str) -> str:
    comparison = part.comparison
    facts = "".join(f'<p class="quiet">{escape(fact)}</p>' for fact in part.facts)
    judged = [row for row in comparison.rows if row.verdict in JUDGED]
    others = [row for row in comparison.rows if row.verdict not in JUDGED]
    return (
        f'<section><div class="head"><h2>{escape(comparison.name)}</h2>{chip(comparison.verdict)}'
        f'<span class="quiet">against {escape(comparison.reference)}</span></div>{facts}'
        f'<p class="quiet">{escape(comparison.coverage)}</p>{_ratios(part, prefix)}'
        f"<h3>Judged</h3>{_rows(judged)}"
        f"<details><summary>Not judged: {len(others)} inputs, figures for the record, and figures that nobody has"
        f"</summary>{_rows(others)}</details>"
        f'<div class="charts">{_charts(part, prefix)}</div></section>\n'
    )


def _rows(rows: Sequence[Row]) -> str:
    """Return a table; below it, each cause once, with the number by which its rows name it."""
    causes = [*dict.fromkeys(row.cause for row in rows if row.verdict is Verdict.FAIL)]
    head = "".join(f"<th>{name}</th>" for name in ("verdict", *_COLUMNS[:-1], "why"))
    body = "".join(
        f'<tr><td>{chip(row.verdict)}{_MARK * bool(row.fitted)}</td><td class="metric">{escape(row.metric)}</td>'
        f'<td class="value">{escape(row.ours)}</td><td class="value">{escape(row.theirs)}</td>'
        f'<td class="allowed">{escape(row.allowed)}</td><td class="why">{_why(row, causes)}</td></tr>'
        for row in rows
    )
    notes = "".join(
        f'<p class="quiet"><b>Cause {number}.</b> {escape(cause or "Nobody has found out.")}</p>'
        for number, cause in enumerate(causes, 1)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}'


def _why(row: Row, causes: Sequence[str]) -> str:
    cause = f" <b>Cause {causes.index(row.cause) + 1}.</b>" if row.verdict is Verdict.FAIL else ""
    fitted = f" <b>Fitted.</b> {escape(row.fitted)}" if row.fitted else ""
    return escape(row.note) + cause + fitted


def _ratios(part: Part, prefix: str) -> str:
    """Draw every judged number as ours / published over the band that passes."""
    if part.reference is None:
        return ""
    shown: list[tuple[str, float, float, float]] = []
    marks = {row.metric: _MARK * bool(row.fitted) for row in part.comparison.rows}
    for metric, tolerance in part.tolerances.items():
        theirs, ours = part.reference.figures[metric].value, part.ours[0].numbers.get(metric)
        if tolerance.of or ours is None or ours <= 0 or type(theirs) not in (int, float) or theirs <= 0:
            continue
        if tolerance.rule == "ratio":
            shown.append((metric + marks[metric], ours / theirs, 1 / tolerance.bound, tolerance.bound))
        elif tolerance.rule == "abs" and theirs > tolerance.bound:
            band = tolerance.bound / theirs
            shown.append((metric + marks[metric], ours / theirs, 1 - band, 1 + band))
    return f"<h3>Ours divided by published</h3>{charts.ratios(shown, f'{prefix}-ratios')}" if shown else ""


def _charts(part: Part, prefix: str) -> str:
    ours = charts.Side("simulated", part.ours, charts.OURS)
    sides = [ours, *([charts.Side(part.comparison.reference, part.theirs, charts.THEIRS)] if part.theirs else [])]
    drawn = [
        ("Message sizes, bytes", charts.boxes(sides, "message.size.", "bytes", f"{prefix}-sizes")),
        (
            "Self-incarnation",
            charts.steps(
                sides, "swim.self_incarnation.", "incarnation", f"{prefix}-incarnation", points=_published(part)
            ),
        ),
        ("Reasons of transitions", charts.shares(sides, "swim.transition_reasons", f"{prefix}-reasons")),
        ("How many peers each node held Dead", charts.steps(sides, "swim.dead_peers.", "peers", f"{prefix}-dead")),
        ("Bytes held by the relay", charts.steps(sides, "relay.queue_depth.", "bytes", f"{prefix}-queue")),
        ("Delay of deliveries by ordered pair", charts.boxes(sides, "relay.delay_ms.", "ms", f"{prefix}-delays")),
    ]
    if part.theirs:
        drawn += [
            ("Round trips of probes, ms", charts.boxes(sides, "probe.", "ms", f"{prefix}-rtt")),
            ("From a kill to its detection, s", charts.boxes(sides, "swim.detection", "s", f"{prefix}-detection")),
        ]
    drawn += [
        (f"Where the time goes, {side.name}", charts.decomposition(side, f"{prefix}-hol{index}"))
        for index, side in enumerate(sides)
        if any(key.startswith("relay.hol.") for run in side.runs for key in run.numbers)
    ]
    return "".join(f"<div><h3>{escape(title)}</h3>{chart}</div>" for title, chart in drawn)


def _published(part: Part) -> list[tuple[str, float, float]]:
    """Return the published last values of self-incarnation, at the end of our own run."""
    if part.reference is None:
        return []
    prefix = "swim.self_incarnation_final."
    end_s = max((path[-1][0] for path in part.ours[0].paths.values()), default=0.0)
    return [
        (f"published, {metric.removeprefix(prefix)}", end_s, figure.value)
        for metric, figure in part.reference.figures.items()
        if metric.startswith(prefix) and figure.value is not None
    ]
