"""Identifiers become directory names and parts of stream addresses (L9)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.core.ids import is_valid_id


@pytest.mark.parametrize("text", ["a", "R", "peer_0", "relay-1", "a.b", "0", "-", "_", "a.", "x" * 64])
def test_valid_ids(text: str) -> None:
    """Ruling L9: 1 to 64 characters of A-Z a-z 0-9, dot, underscore, hyphen."""
    assert is_valid_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        ".hidden",
        "x" * 65,
        "a/b",
        "../a",
        "a b",
        "a\n",
        "\na",
        "a\x00b",
        "é",
        "a:b",
        "a\\b",
        "\u0663",
        "\uff41",
    ],
)
def test_refused_ids(text: str) -> None:
    """Ruling L9: no separator, no control character, no leading dot, no letter or digit beyond ASCII, no final newline."""
    assert not is_valid_id(text)


@given(text=st.text(st.one_of(st.sampled_from("aZ09._-/ \n\x00é"), st.characters()), max_size=66))
def test_the_rule_is_a_list_of_characters(text: str) -> None:
    """The pattern agrees with the rule spelled out character by character."""
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
    assert is_valid_id(text) == (1 <= len(text) <= 64 and text[0] != "." and set(text) <= allowed)


def test_an_id_holds_no_separator_of_an_address() -> None:
    """Ruling L9 keeps the tuple encoding of §7.2 injective: no id holds a NUL."""
    assert [
        code for code in range(0x110000) if is_valid_id(chr(code)) and not re.match(r"[\w-]", chr(code), re.ASCII)
    ] == []
