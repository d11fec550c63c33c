"""One JSON form for everything that is written (B2), and what may not enter it (B10)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.core import canonical_json

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(max_size=8))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
)


@given(value=VALUES)
def test_writable_values_survive(value: Any) -> None:
    """What `unwritable` lets pass comes back exactly, through both forms, and reads as ordinary JSON."""
    assert canonical_json.unwritable(value) is None
    for form in (canonical_json.compact(value), canonical_json.pretty(value)):
        assert canonical_json.parse(form) == json.loads(form) == value


@given(value=VALUES)
def test_the_compact_form_is_that_of_the_standard_library(value: Any) -> None:
    """Ruling B2: one line, no spaces, keys in insertion order, text as UTF-8."""
    plain = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert canonical_json.compact(value).decode() == plain
    assert b"\n" not in canonical_json.compact(value)


def test_forms_by_example() -> None:
    """Insertion order is kept; the indented form has two spaces and no final newline."""
    value = {"b": 1, "a": [True, None], "é": "x"}
    assert canonical_json.compact(value) == '{"b":1,"a":[true,null],"é":"x"}'.encode()
    assert canonical_json.pretty({"b": 1, "a": [2]}) == b'{\n  "b": 1,\n  "a": [\n    2\n  ]\n}'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (0.5, "float 0.5 is not JSON without floats"),
        (float("nan"), "float nan is not JSON without floats"),
        ({"a": [1, {"b": 2.0}]}, "a: [1]: b: float 2.0 is not JSON without floats"),
        ({"a": {1: 2}}, "a: object key 1 is not a string"),
        ({"a": b"x"}, "a: bytes b'x' is not JSON without floats"),
        ([2**64], "[0]: integer 18446744073709551616 does not fit 64 bits"),
        ([-(2**63) - 1], "[0]: integer -9223372036854775809 does not fit 64 bits"),
        ({1, 2}, "set {1, 2} is not JSON without floats"),
        ((1, 1j), "[1]: complex <complex> is not JSON without floats"),
    ],
)
def test_refusals_name_the_place(value: Any, reason: str) -> None:
    """Ruling B10: no float, however deep, and nothing that a reader would not get back."""
    assert canonical_json.unwritable(value) == reason


@given(value=VALUES, path=st.lists(st.text("ab", min_size=1, max_size=2), max_size=3))
def test_a_float_is_found_however_deep(value: Any, path: list[str]) -> None:
    """Wrap a float in objects and lists: it is refused."""
    poisoned: Any = [value, 1.5]
    for key in path:
        poisoned = {"first": value, key: poisoned}
    assert canonical_json.unwritable(poisoned) is not None


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), "", [], {}, (), True, None])
def test_bounds_are_writable(value: Any) -> None:
    """The largest and smallest integers, and everything empty."""
    assert canonical_json.unwritable(value) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[1,]", b"\xff", "nan"])
def test_what_is_not_json_is_a_value_error(data: bytes | str) -> None:
    """`parse` has one kind of error."""
    with pytest.raises(ValueError, match=r"."):
        canonical_json.parse(data)
