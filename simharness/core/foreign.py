"""Words for values and exceptions of foreign code: short, one line, and the same in every run (rulings C2, C7).

A `repr` may show an address or the order of a set, and an abort's text is part of the manifest.
"""

import re
from pathlib import PurePath
from traceback import extract_tb
from typing import Any, Final

_LONGEST: Final = 200
_MOST_ITEMS: Final = 8
_DEEPEST: Final = 4
_LARGEST_BITS: Final = 256
_ADDRESS: Final = re.compile(r"\bat 0x[0-9A-Fa-f]+")
_BRACKETS: Final[dict[Any, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def shown(value: Any, *, deep: int = 0) -> str:
    """Return a value as Python writes it, if it is plain data; else the name of its type."""
    kind = type(value)
    if kind is int and value.bit_length() > _LARGEST_BITS:
        return f"<int of {value.bit_length()} bits>"
    if value is None or isinstance(value, float) or kind in (bool, int, str, bytes):
        return _cut(repr(value if kind not in (str, bytes) else value[: _LONGEST + 1]))
    if isinstance(value, type):
        return f"<class '{value.__module__}.{value.__qualname__}'>" if value.__module__ != "builtins" else repr(value)
    if deep < _DEEPEST and (kind is dict or kind in _BRACKETS):
        return _cut(_contents(value, deep + 1))
    return f"<{kind.__name__}>"


def _contents(value: Any, deep: int) -> str:
    if isinstance(value, dict):
        pairs = [
            f"{shown(key, deep=deep)}: {shown(item, deep=deep)}"
            for place, (key, item) in enumerate(value.items())
            if place < _MOST_ITEMS
        ]
        return "{" + ", ".join(pairs) + (", ..." if len(value) > _MOST_ITEMS else "") + "}"
    if isinstance(value, set | frozenset):
        items = sorted(shown(item, deep=deep) for item in value)
    else:
        items = [shown(item, deep=deep) for item in value[: _MOST_ITEMS + 1]]
    text = ", ".join(items[:_MOST_ITEMS]) + (", ..." if len(items) > _MOST_ITEMS else "")
    opening, closing = _BRACKETS[type(value)]
    return f"{opening}{text}{',' if type(value) is tuple and len(value) == 1 else ''}{closing}"


def text_of(error: BaseException) -> str:
    """Return what an exception says of itself: one printable line, addresses masked."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # an exception whose own text fails is still to be reported
        text = ""
    text = _ADDRESS.sub("at 0x...", text)
    return _cut(text if text.isprintable() else repr(text)[1:-1])


def blame(error: BaseException) -> str:
    """Return type and text of an exception, and the line that raised it, without the path, which differs between machines."""
    frames = extract_tb(error.__traceback__)
    where, text = "", text_of(error)
    if isinstance(error, SyntaxError):  # which names its own file and line
        own, whole = PurePath(error.filename or "").name, _in_package(error.filename or "")
        text = text.replace(f"({own}, line ", f"({whole}, line ")
    elif frames:
        where = f" ({_in_package(frames[-1].filename)}, line {frames[-1].lineno})"
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"


def _in_package(file: str) -> str:
    """Return a file's name; of an `__init__.py` with its package, since every package has one."""
    path = PurePath(file)
    return f"{path.parent.name}/{path.name}" if path.name == "__init__.py" else path.name


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
