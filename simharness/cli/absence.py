"""Remarks on the kinds of events that never occurred in a bundle (ruling C10)."""

import re
import tomllib
from collections.abc import Sequence
from typing import Final

from simharness.assertions.absence import recordable, remark
from simharness.bundle.reader import Bundle
from simharness.contracts.host import HostKind
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds

_KIND: Final = re.compile(rb'"event":\{"kind":("(?:[^"\\]|\\.)*")')


def remarks(names: Sequence[str], bundle: Bundle) -> dict[str, str]:
    """Return what is to be said of each kind of event that never occurred; nothing of one that a host here may record."""
    if not names:
        return {}
    kinds, peers = Kinds(), tomllib.loads(bundle.scenario_text).get("peers", [])
    known, complete = recordable(_kind(kinds, name) for name in dict.fromkeys(peer["kind"] for peer in peers))
    doubtful = [name for name in names if name not in known]
    occurred = _occurred(bundle) if doubtful else frozenset()
    near = sorted({*known, *occurred})
    return {name: remark(name, near, complete=complete) for name in doubtful if name not in occurred}


def _kind(kinds: Kinds, name: str) -> HostKind | None:
    try:
        return kinds.get(name)
    except InputError:  # of another machine's bundle: the kind is not to be had here
        return None


def _occurred(bundle: Bundle) -> frozenset[str]:
    found = {match[1] for match in map(_KIND.search, bundle.lines()) if match is not None}
    return frozenset(canonical_json.parse(text) for text in found)
