"""A Pass that rests on the absence of an event which nobody is known to record may rest on a misspelling (ruling C10)."""

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from simharness.bundle.reader import Bundle
from simharness.contracts.records import ENGINE_EVENTS
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds

_KIND: Final = re.compile(rb'"event":\{"kind":("(?:[^"\\]|\\.)*")')


def remarks(names: Sequence[str], bundle: Bundle) -> dict[str, str]:
    """Return what is to be said of each kind of event that never occurred; nothing of one that a host here may record."""
    if not names:
        return {}
    known, complete = _recordable(bundle)
    doubtful = [name for name in names if name not in known]
    occurred = _occurred(bundle) if doubtful else ()
    near = sorted({*known, *occurred})
    return {name: _remark(name, near, complete=complete) for name in doubtful if name not in occurred}


def _recordable(bundle: Bundle) -> tuple[frozenset[str], bool]:
    """Return the kinds of events that hosts of the scenario say they record, with the engine's own, and whether those are all."""
    kinds, known, complete = Kinds(), {*ENGINE_EVENTS}, True
    for name in sorted({peer["kind"] for peer in tomllib.loads(bundle.scenario_text).get("peers", [])}):
        try:
            declared = getattr(kinds.get(name), "event_kinds", None)
        except InputError:  # of another machine's bundle: the kind is not to be had here
            declared = None
        known.update(declared or ())
        complete = complete and declared is not None
    return frozenset(known), complete


def _occurred(bundle: Bundle) -> frozenset[str]:
    found = {match[1] for match in map(_KIND.search, bundle.lines()) if match is not None}
    return frozenset(canonical_json.parse(text) for text in found)


def _remark(name: str, near: Sequence[str], *, complete: bool) -> str:
    said = f"no {name} occurred at all"
    close = get_close_matches(name, near, n=1)
    if close:
        return f"{said}: was {close[0]} meant?"
    return (
        f"{said}, and no host of this scenario records such a thing"
        if complete
        else f"{said}: is that how it is spelt?"
    )
