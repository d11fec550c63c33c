"""Pieces of markup that the parts of the page share."""

from collections.abc import Sequence
from html import escape
from string import ascii_letters, digits
from typing import Final

_PLAIN: Final = frozenset(ascii_letters + digits + "_-.")


def ident(name: str) -> str:
    """Return a name as a part of an id that means the same, and nothing more, in markup, in addresses and in scripts."""
    return "".join([sign if sign in _PLAIN else f"~{ord(sign):x}~" for sign in name])


def anchor(scenario: str) -> str:
    """Return the id of a scenario's place on the page."""
    return f"s-{ident(scenario)}"


def section(name: str, title: str, body: str) -> str:
    """Return a part of the page."""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{body}</section>\n'


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    code: Sequence[int] = (),
    words: Sequence[int] = (),
    raw: bool = False,
) -> str:
    """Return a table that scrolls by itself where it is too wide.

    Columns in `numbers` stand to the right, those in `code` are code, those of `words` stay wide enough to be read; `raw` cells are
    markup.
    """
    classes = {**dict.fromkeys(numbers, ' class="n"'), **dict.fromkeys(words, ' class="w"')}
    top = "".join(f"<th{classes.get(at, '')}>{escape(name)}</th>" for at, name in enumerate(head))
    body = "".join(
        "<tr>"
        + "".join(_cell(text, classes.get(at, ""), code=at in code, raw=raw) for at, text in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide" tabindex="0"><table class="plain"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str, of: str, *, code: bool, raw: bool) -> str:
    inner = text if raw else escape(text)
    return f"<td{of}>{f'<code>{inner}</code>' if code and inner else inner}</td>"
