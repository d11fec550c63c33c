"""A Pass that rests on the absence of an event which nobody is known to record may rest on a misspelling (ruling C10)."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from simharness.contracts.assertions import Verdict
from simharness.contracts.host import HostKind
from simharness.contracts.records import ENGINE_EVENTS

_COUNTING: Final = ("event_count", "event_rate")


def bounded_kind(verdict: Verdict) -> str | None:
    """Return the kind of event of which a Pass says that there are not too many, and nothing else; None of any other verdict."""
    upper_only = verdict.kind in _COUNTING and not verdict.parameters.get("min")
    return str(verdict.parameters["event_kind"]) if upper_only and verdict.outcome == "Pass" else None


def recordable(kinds: Iterable[HostKind | None]) -> tuple[tuple[str, ...], bool]:
    """Return the kinds of events that hosts of these kinds say they record, with the engine's own, and whether those are all.

    A host kind that does not say, or is not to be had (None), leaves it open.
    """
    known, complete = [*ENGINE_EVENTS], True
    for kind in kinds:
        declared = getattr(kind, "event_kinds", None)
        known += declared or ()
        complete = complete and declared is not None
    return tuple(dict.fromkeys(known)), complete


def remark(name: str, near: Sequence[str], *, complete: bool) -> str:
    """Return what is to be said of a kind of event that never occurred and that nobody is known to record.

    Args:
        name: The kind.
        near: The kinds that are known or occurred.
        complete: Whether every host says what it records.
    """
    said = f"no {name} occurred at all"
    close = get_close_matches(name, sorted(near), n=1)
    if close:
        return f"{said}: was {close[0]} meant?"
    return (
        f"{said}, and no host of this scenario records such a thing"
        if complete
        else f"{said}: is that how it is spelt?"
    )
