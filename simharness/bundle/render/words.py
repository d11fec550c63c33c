"""How values look in the rendered files, and how deep documents are read that may lack anything."""

from typing import Any, Final

UNKNOWN: Final = "?"


def cell(value: Any) -> str:
    """Return a value as text that fits one line and one TSV cell."""
    text = str(value)
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def flag(value: bool) -> str:  # noqa: FBT001  # it is the value that is shown
    """Return a boolean as JSON spells it."""
    return "true" if value else "false"


def known(value: Any) -> str:
    """Return a value, or a question mark for what could not be asked."""
    return UNKNOWN if value is None else cell(value)


def block(document: Any, *path: str) -> dict[str, Any]:
    """Return the object below a path of keys, empty if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def entries(holder: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the objects of an array, none if there is no array."""
    found = holder.get(field)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def number(value: Any) -> int:
    """Return a counter, 0 for what is no integer."""
    return value if type(value) is int else 0
