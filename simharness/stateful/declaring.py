"""What a property class declares, looked at where it is defined: a slip in it is refused and never a silent default."""

from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from inspect import get_annotations
from typing import Any, ClassVar, Final

from hypothesis import strategies as st

from simharness.contracts.assertions import ASSERTION_TYPES
from simharness.core.foreign import shown
from simharness.stateful.faults import Swarm
from simharness.stateful.laws import Law
from simharness.stateful.templates import Template

_NEAR_PERCENT: Final = 80
"""How like a known name an attribute of one's own may not be: of the letters of both, those that both have in the same order."""


def slip_in(machine: type, base: type) -> str | None:
    """Return the first slip in what a subclass of the machine class `base` declares, or None."""
    return next((found for slips in (_strangers(machine, base), _misformed(machine)) for found in slips), None)


# --- names ----------------------------------------------------------------------------------------------------------


def _strangers(machine: type, base: type) -> Iterator[str]:
    """Yield a line for every plain public attribute that nobody reads.

    One's own attributes may be anything that is called, a strategy for one's rules, or annotated, if no attribute of a property has
    nearly that name. A mixin may serve other classes too: only what is misspelt is refused there.
    """
    hints: dict[str, Any] = get_annotations(base)
    attributes = [name for name, hint in hints.items() if getattr(hint, "__origin__", None) is ClassVar]
    for owner in machine.__mro__:
        mixed_in = not issubclass(owner, base)
        if owner in base.__mro__ or not (owner is machine or mixed_in):
            continue
        others = [other for other in machine.__mro__[1:] if owner is machine or other in base.__mro__]
        known = dict.fromkeys(name for other in others for name in (*other.__dict__, *get_annotations(other)))
        for name, value in owner.__dict__.items():
            if name.startswith("_") or name in known or not _is_plain(value):
                continue
            where = f" of its mixin {owner.__qualname__}" if mixed_in else ""
            if _likeness_percent(name, _nearest(name, attributes)) >= _NEAR_PERCENT:
                yield f"`{name}`{where} is no attribute of a property: was `{_nearest(name, attributes)}` meant?"
            elif not (mixed_in or name in get_annotations(owner) or isinstance(value, st.SearchStrategy)):
                yield (
                    f"`{name}` is no attribute of a property; the nearest of those is `{_nearest(name, attributes)}`. "
                    "One of your own begins with an underscore, or is annotated"
                )


def _is_plain(value: Any) -> bool:
    return isinstance(value, Template) or not (callable(value) or hasattr(value, "__get__"))


def _nearest(name: str, attributes: list[str]) -> str:
    return max(attributes, key=lambda attribute: _likeness_percent(name, attribute))


def _likeness_percent(one: str, other: str) -> int:
    same = sum(block.size for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks())
    return 2 * 100 * same // (len(one) + len(other))


# --- values ---------------------------------------------------------------------------------------------------------


def _misformed(machine: type) -> Iterator[str]:
    """Yield a line for every attribute whose value is of another form; one that a property computes is left to it."""
    for name, (fits, wanted) in _FORMS.items():
        value = getattr(machine, name, None)
        if value is not None and not _is_computed(value) and not fits(value):
            yield f"`{name}` is {shown(value)}; it has to be {wanted}"
    for name, (kinds, wanted) in _MEMBERS.items():
        members = getattr(machine, name, ())
        if _is_computed(members):
            continue
        if not isinstance(members, tuple | list):
            yield f"`{name}` is {shown(members)}; it has to be a tuple, of which each member is {wanted}"
            continue
        for place, member in enumerate(members):
            if not isinstance(member, kinds):
                yield f"`{name}[{place}]` is {shown(member)}; it has to be {wanted}"


def _is_computed(value: Any) -> bool:
    """Tell whether a class attribute is a property, cached or not: its value is the instance's matter."""
    return hasattr(value, "__get__") and not callable(value)


def _is_strategy(value: Any) -> bool:
    return isinstance(value, st.SearchStrategy)


def _at_least(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value >= least


def _are_names(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(item, str) for item in value)


_FORMS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "scenarios": (_is_strategy, "a strategy of scenarios, such as `meshes(KIND, peers=3)`"),
    "faults": (lambda value: isinstance(value, Swarm), "a swarm, such as `swarm(PARTITION, HEAL)`"),
    "max_duration_ms": (_at_least(0), "an integer of at least 0"),
    "step_ms": (_is_strategy, "a strategy of integers, such as `ints(50, 1_000)`"),
    "quiet_ms": (_at_least(0), "an integer of at least 0"),
    "budget": (_at_least(1), "an integer of at least 1"),
    "max_steps": (_at_least(1), "an integer of at least 1"),
    "requires": (_are_names, "a tuple of the names of counters, or None"),
    "name": (lambda value: isinstance(value, str), "a string"),
}

_MEMBERS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "assertions": (
        (Template, *ASSERTION_TYPES),
        'an assertion or a template of one, such as `EventCount(event_kind="Spread", max=4)`',
    ),
    "laws": ((Law,), 'a law, such as `Law(name="one_holder", check=one_holder)`, whose check takes a Story'),
}
