"""The one JSON form of everything that is written (ruling B2): compact or indented, insertion order, no floats (ruling B10)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from simharness.core.foreign import shown
from simharness.core.units import U64_MAX

_PLAIN: Final = frozenset({str, bool, type(None)})
_LEAST: Final = -(2**63)


def compact(value: Any) -> bytes:
    """Encode on one line, without a final newline. Keys keep their insertion order."""
    return orjson.dumps(value)


def pretty(value: Any) -> bytes:
    """Encode with two-space indentation, without a final newline: manifests, verdicts, snapshots."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def parse(data: bytes | str) -> Any:
    """Decode one JSON value.

    Raises:
        ValueError: If `data` is not JSON.
    """
    return orjson.loads(data)


def unwritable(value: Any) -> str | None:
    """Return why `value` may not enter a bundle, or None if it may.

    A bundle holds strings, booleans, null, objects with string keys, arrays, and integers from -2**63 to 2**64-1
    (what a reader gets back exactly). Floats are refused wherever they hide (ruling B10, §7.4).
    """
    kind = type(value)
    if kind in _PLAIN:
        return None
    if kind is int:
        return None if _LEAST <= value <= U64_MAX else f"integer {shown(value)} does not fit 64 bits"
    if kind is dict or isinstance(value, Mapping):
        for key, item in value.items():
            if type(key) is not str:
                return f"object key {shown(key)} is not a string"
            if type(item) not in _PLAIN and (reason := unwritable(item)) is not None:
                return f"{key}: {reason}"
        return None
    if kind is list or (isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview)):
        for index, item in enumerate(value):
            if type(item) not in _PLAIN and (reason := unwritable(item)) is not None:
                return f"[{index}]: {reason}"
        return None
    return f"{kind.__name__} {shown(value)} is not JSON without floats"
