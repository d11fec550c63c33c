"""Words for foreign values and exceptions (ruling C7): one line, short, the same in every process."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.core.foreign import blame, shown, text_of
from tests.documents import ROOT

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
_HASHED = """
from simharness.core.foreign import shown, blame
print(shown({"a", "b", "c", ("d", frozenset({"e", "f", "g"}))}), shown([object(), lambda: 0, {1: object}]))
try:
    raise ValueError(f"this {object()} is odd")
except ValueError as error:
    print(blame(error))
"""


@given(value=_PLAIN)
def test_plain_data_is_shown_as_python_writes_it(value: Any) -> None:
    """What has one spelling keeps it."""
    assert shown(value) == repr(value)


def test_the_text_knows_neither_hash_seed_nor_address() -> None:
    """Two processes with different hash seeds say the same about sets, objects and exceptions."""
    said = [
        subprocess.run(
            [sys.executable, "-c", _HASHED],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert said[0].splitlines() == [
        "{'a', 'b', 'c', ('d', frozenset({'e', 'f', 'g'}))} [<object>, <function>, {1: <class 'object'>}]",
        "ValueError: this <object object at 0x...> is odd (<string>, line 5)",
    ]


@pytest.mark.parametrize(
    "value", [1 << 33_333, "x" * 10**6, b"x" * 10**6, [["x" * 99] * 99] * 99, [[[[[[1]]]]]]], ids=range(5)
)
def test_no_value_is_too_large(value: Any) -> None:
    """Whatever a host returns, its words are a line."""
    assert len(shown(value)) < 250


def test_an_exception_whose_text_fails() -> None:
    """Its type and line are still there; text of several lines is one."""

    class Odd(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(Odd) as caught:
        raise Odd
    assert blame(caught.value).startswith("Odd (test_foreign.py, line ")
    assert text_of(ValueError("one\ntwo")) == "one\\ntwo"
