"""The table of §6A.2 is complete and leads one way."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.stage.lifecycle import IGNORED, TRANSITIONS, Input, State


@pytest.mark.parametrize(("state", "event"), list(product(State, Input)))
def test_every_pair_is_decided(state: State, event: Input) -> None:
    """A pair is a transition or is listed in IGNORED: never both, never neither."""
    assert ((state, event) in TRANSITIONS) != ((state, event) in IGNORED)


def test_tables_hold_nothing_else() -> None:
    """No row names a pair twice or a pair that does not exist."""
    assert len(IGNORED) + len(TRANSITIONS) == len(list(product(State, Input)))
    assert len(set(IGNORED)) == len(IGNORED)


def test_every_transition_leads_forward() -> None:
    """Transitions are linear: each one leads to a later state of the declared order, and Halted leads nowhere."""
    order = list(State)
    assert order == ["Cold", "Registering", "Running", "Halted"]
    assert all(order.index(after) > order.index(before) for (before, _), after in TRANSITIONS.items())
    assert State.HALTED not in {before for before, _ in TRANSITIONS}


@given(inputs=st.lists(st.sampled_from(Input), max_size=12))
def test_no_walk_comes_back(inputs: list[Input]) -> None:
    """Whatever comes in, the states that are passed are declared order without a repetition, and only an exit skips."""
    state, walk = State.COLD, [State.COLD]
    for event in inputs:
        after = TRANSITIONS.get((state, event), state)
        if after is not state:
            assert event is Input.EXIT or list(State).index(after) == list(State).index(state) + 1
            walk.append(after)
        state = after
    assert walk == sorted(set(walk), key=list(State).index)
