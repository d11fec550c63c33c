"""Peers of one system: the table that they share, and the rules across them (`HostKind.table`, `HostKind.validate_group`)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simharness.contracts.host import HostKind, KindRegistry
from simharness.contracts.scenario import PeerDecl
from simharness.scenario.document import ARRAYS, SCALARS, TABLES, Document
from simharness.scenario.reading import SourceFile
from simharness.scenario.schema import Complain
from simharness.scenario.words import first_line

_OWN: Final = "kind_config."
_JOINT: Final = re.compile(r"[.\[]")


def table_of(kind: HostKind) -> str | None:
    """Return the name of the top-level table that a kind reads, or None."""
    name: str | None = getattr(kind, "table", None)
    assert name not in (*ARRAYS, *SCALARS, *TABLES), f"[{name}] is the format's own"
    return name


def tables_in(chain: Sequence[SourceFile], kinds: KindRegistry) -> tuple[str, ...]:
    """Return the tables that the kinds of a chain's peers read, sorted. No other kind is looked at."""
    names: dict[str, None] = {}
    for file in chain:
        entries = file.table.get("peers")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
                names[entry["kind"]] = None
    found = [kinds.get(name) for name in names]
    return tuple(sorted({table for kind in found if kind is not None and (table := table_of(kind)) is not None}))


def under(table: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a table under a peer's own `kind_config`: its own leaves win, lists among them."""
    merged = {**table, **own}
    for key in table:
        if isinstance(table[key], dict) and isinstance(merged[key], dict):
            merged[key] = under(table[key], merged[key])
    return merged


class Groups:
    """The peers of a scenario by group, while they are read."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._members: dict[str, list[tuple[HostKind, PeerDecl]]] = {}
        self._places: dict[str, tuple[HostKind, Mapping[str, Any], Complain]] = {}

    def readable(self, kind: HostKind) -> bool:
        """Tell whether the table that a kind reads, if it does, is a table."""
        return table_of(kind) not in self._document.doubtful

    def config(self, kind: HostKind, own: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a peer is configured with: its own `kind_config` over its kind's table."""
        return under(self._document.values.get(table_of(kind) or "", {}), own)

    def add(self, peer: PeerDecl, kind: HostKind, own: Mapping[str, Any], complain: Complain) -> None:
        """Take a peer that its kind has looked at, with its own raw `kind_config`."""
        table = table_of(kind)
        self._members.setdefault(f"kind {peer.kind}" if table is None else f"table {table}", []).append((kind, peer))
        self._places[peer.id] = kind, own, complain

    def complain(self, peer_id: str, field: str, rule: str) -> None:
        """Report a mistake where it was made: in the peer's entry, or in the table if the peer does not say it itself."""
        kind, own, complain = self._places[peer_id]
        field, rule, table = first_line(field), first_line(rule), table_of(kind)
        if table in self._document.values and field.startswith(_OWN) and not _says(own, field.removeprefix(_OWN)):
            self._document.at_table(f"{table}.{field.removeprefix(_OWN)}", rule)
        else:
            complain(field, rule)

    def check(self) -> None:
        """Ask the kinds for the rules across their peers."""
        for members in self._members.values():
            validate = getattr(members[0][0], "validate_group", None)
            if validate is not None:
                for complaint in validate(tuple(peer for _, peer in members)):
                    self.complain(complaint.peer, complaint.field, complaint.rule)


def _says(own: Mapping[str, Any], path: str) -> bool:
    """Tell whether a `kind_config` itself holds what a path such as `data.rows[2]` names, or the list that it is in."""
    here: Any = own
    for part in _JOINT.split(path):
        if not isinstance(here, dict):
            return True
        if part not in here:
            return False
        here = here[part]
    return True
