"""The frame of a page: its style, and an outer document that needs no other file."""

from html import escape
from typing import Final

STYLE: Final = """
:root { color-scheme: light; font-family: system-ui, sans-serif; color: #1f2933; background: #f5f7fa; line-height: 1.45; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 0; } h3 { font-size: .95rem; margin: 1.4rem 0 .2rem; }
p { margin: .35rem 0; max-width: 60rem; } .quiet { color: #52606d; font-size: .85rem; overflow-wrap: anywhere; }
section { background: #fff; border: 1px solid #e4e7eb; border-radius: 8px; padding: 1rem; margin-top: 1.25rem; }
.chip { display: inline-block; border-radius: 99px; padding: .05rem .6rem; font-size: .8rem; font-weight: 600; }
.chip { white-space: nowrap; }
.pass { background: #d9f2e3; color: #1c5d3c; } .fail { background: #fbdcdc; color: #8c1c1c; }
.inconclusive { background: #fdf0d0; color: #7a5500; } .none { background: #e9edf1; color: #52606d; }
.head { display: flex; flex-wrap: wrap; gap: .5rem; align-items: baseline; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; width: 100%; min-width: 48rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #e4e7eb; vertical-align: top; }
td.metric { font-family: ui-monospace, monospace; font-size: .78rem; overflow-wrap: anywhere; min-width: 11rem; }
td.value { max-width: 13rem; min-width: 4rem; overflow-wrap: anywhere; } td.allowed { white-space: nowrap; }
td.why { color: #52606d; min-width: 15rem; }
.charts { display: grid; gap: 0 1.5rem; grid-template-columns: repeat(2, minmax(0, 1fr)); }
@media (max-width: 48rem) { .charts { grid-template-columns: minmax(0, 1fr); } body { padding: 1rem .5rem 2rem; } }
details { margin-top: .6rem; } summary { cursor: pointer; font-size: .9rem; }
"""


def page(title: str, body: str, *, script: str, style: str = "") -> str:
    """Return a whole document. `body` is markup below the title; `script` and `style` stand in the page itself."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style><script>{script}</script></head>\n"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def chip(verdict: str) -> str:
    """Return a verdict as a coloured word."""
    kind = verdict.lower() if verdict.lower() in ("pass", "fail", "inconclusive") else "none"
    return f'<span class="chip {kind}">{escape(verdict)}</span>'
