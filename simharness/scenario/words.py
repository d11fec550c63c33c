"""How values, types and guesses are worded in an error: always one line, always short."""

import re
from collections.abc import Sequence
from typing import Any, Final

_LONGEST: Final = 60
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNIT: Final = re.compile(r"_(?:ms|us|s|secs?|seconds|millis|micros)$")
_TYPE_WORDS: Final = {
    "bool": "a boolean",
    "int": "an integer",
    "float": "a float",
    "str": "a string",
    "list": "an array",
    "dict": "a table",
}


def type_word(value: Any) -> str:
    """Return what TOML calls the value's type, with its article."""
    return _TYPE_WORDS.get(type(value).__name__, "a date or time")


def shown(text: str) -> str:
    """Return a string of the file as one quoted printable line, shortened."""
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


def key_shown(key: str) -> str:
    """Return a key as the file may spell it: bare if TOML allows that, else quoted."""
    return key if _BARE_KEY.fullmatch(key) else shown(key)


def printable(text: str) -> str:
    """Return text as it is if it fits one line of output, else with escapes (ruling L12)."""
    return text if text.isprintable() else repr(text)[1:-1]


def first_line(text: str) -> str:
    """Return the first line of foreign text."""
    return printable(text.split("\n", 1)[0])


def suggestion(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that was probably meant: another unit, case or number, a missing suffix, a slip of the finger."""
    if len(name) > _LONGEST:
        return None
    snake = _HUMP.sub("_", name).replace("-", "_").lower()
    bare = _UNIT.sub("", snake)
    for guess in (snake, f"{bare}_ns", f"{snake}s", snake.removesuffix("s")):
        if guess in known:
            return guess
    longer = [guess for guess in known if guess.startswith(f"{snake}_")]
    if len(longer) == 1:
        return longer[0]
    slips, guess = min(((_edits(snake, guess), guess) for guess in known), default=(_LONGEST, ""))
    return guess if slips <= max(1, len(snake) // 5) else None


def _edits(one: str, other: str) -> int:
    """Return the Levenshtein distance; letters that trade places are one slip."""
    if sorted(one) == sorted(other):
        return int(one != other)
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        corner, row[0] = row[0], place
        for column, against in enumerate(other, 1):
            change = corner + (letter != against)
            corner = row[column]
            row[column] = min(change, corner + 1, row[column - 1] + 1)
    return row[-1]


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """Return the rule for a name that is not one of `known`, with the best guess or the whole choice."""
    guess = suggestion(name, known)
    if guess is not None:
        return f"unknown {what}; write {guess}"
    return f"unknown {what}; known: {', '.join(known)}" if known else f"unknown {what}"
