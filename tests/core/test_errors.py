"""Errors name the place and the rule, in fixed forms (L12, L17)."""

import pytest

from simharness.core.errors import EngineAbort, InputError, Problem, ScenarioError, SimharnessError

ONE = Problem("a.toml", "links[2].latency_ms", "unknown field; write latency_ns")
TWO = Problem("a.toml", "peers", "at least one peer")


def test_a_problem_has_three_lines() -> None:
    """Ruling L12: file, field, rule, one line each."""
    assert str(ONE) == "file: a.toml\nfield: links[2].latency_ms\nrule: unknown field; write latency_ns"


def test_a_refusal_carries_every_mistake() -> None:
    """Ruling L17: all independent mistakes, in the order found, an empty line between two."""
    error = ScenarioError(iter([ONE, TWO]))
    assert error.problems == (ONE, TWO)
    assert str(error) == f"{ONE}\n\n{TWO}"


def test_a_refusal_without_a_mistake_is_our_own_bug() -> None:
    """Nothing is refused for no reason."""
    with pytest.raises(AssertionError):
        ScenarioError([])


def test_problems_sort_by_file_then_field() -> None:
    """Reports have one order."""
    assert sorted([TWO, ONE, Problem("A.toml", "x", "y")]) == [Problem("A.toml", "x", "y"), ONE, TWO]


def test_an_input_error_has_the_same_form() -> None:
    """One form for every bad input."""
    error = InputError(file="out", field="(root)", rule="not a bundle")
    assert error.problem == Problem("out", "(root)", "not a bundle")
    assert str(error) == "file: out\nfield: (root)\nrule: not a bundle"


@pytest.mark.parametrize(
    ("host_id", "at_ns", "text"),
    [
        ("a", 5, "EngineAbort::unknown-action: host a at 5 ns: saw 7"),
        (None, 5, "EngineAbort::unknown-action: at 5 ns: saw 7"),
        ("a", None, "EngineAbort::unknown-action: host a: saw 7"),
        (None, None, "EngineAbort::unknown-action:: saw 7"),
    ],
)
def test_an_abort_names_rule_host_and_time(host_id: str | None, at_ns: int | None, text: str) -> None:
    """Ruling E20: host and time are named; both are also fields."""
    error = EngineAbort(rule="unknown-action", detail="saw 7", host_id=host_id, at_ns=at_ns)
    assert str(error) == text
    assert (error.rule, error.detail, error.host_id, error.at_ns) == ("unknown-action", "saw 7", host_id, at_ns)


def test_every_error_has_one_root() -> None:
    """The command line catches one type."""
    assert all(issubclass(kind, SimharnessError) for kind in (ScenarioError, InputError, EngineAbort))
