"""Pieces of markup that the parts of the page share."""

from collections.abc import Sequence
from html import escape


def anchor(scenario: str) -> str:
    """Return the id of a scenario's place on the page."""
    return f"s-{scenario}"


def section(name: str, title: str, body: str) -> str:
    """Return a part of the page."""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{body}</section>\n'


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    code: Sequence[int] = (),
    raw: bool = False,
) -> str:
    """Return a table that scrolls by itself where it is too wide.

    Columns in `numbers` stand to the right, those in `code` are code; `raw` cells are markup.
    """
    top = "".join(f"<th{_right(at, numbers)}>{escape(name)}</th>" for at, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(_cell(at, text, numbers, code, raw=raw) for at, text in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide" tabindex="0"><table class="plain"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _right(at: int, numbers: Sequence[int]) -> str:
    return ' class="n"' if at in numbers else ""


def _cell(at: int, text: str, numbers: Sequence[int], code: Sequence[int], *, raw: bool) -> str:
    inner = text if raw else escape(text)
    return f"<td{_right(at, numbers)}>{f'<code>{inner}</code>' if at in code and inner else inner}</td>"
