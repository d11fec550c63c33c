"""Peers of one system: the table that they share, and the rules across them (`HostKind.table`, `HostKind.validate_group`)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simharness.contracts.host import Complaint, GroupComplaint, HostKind, KindRegistry, PeerFacts, Validated
from simharness.contracts.scenario import PeerDecl
from simharness.core.errors import InputError
from simharness.core.foreign import blame, shown
from simharness.scenario.document import ARRAYS, SCALARS, TABLES, Document
from simharness.scenario.reading import SourceFile
from simharness.scenario.schema import Complain
from simharness.scenario.words import first_line

_LEAVES: Final = (str, int, bool)
_OWN: Final = "kind_config."
_JOINT: Final = re.compile(r"[.\[]")


def table_of(kind: HostKind) -> str | None:
    """Return the name of the top-level table that a kind reads, or None."""
    name: str | None = getattr(kind, "table", None)
    if name in (*ARRAYS, *SCALARS, *TABLES):
        rule = f"{name} is a key of the scenario format itself; a kind's table has another name"
        raise InputError(file=f"host kind {kind.kind_tag}", field="table", rule=rule)
    return name


def find(kinds: KindRegistry, name: str) -> HostKind | InputError | None:
    """Return the kind of that name, None if there is none, or why its code cannot be loaded."""
    try:
        return kinds.get(name)
    except InputError as error:
        return error


def ask(kind: HostKind, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
    """Return what a kind says about a peer's configuration; code that fails at it is one more complaint."""
    try:
        answer: object = kind.validate(config, facts)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  # `sys.exit()` included: a kind is foreign code
        return _failed(f"cannot be checked: {kind.kind_tag}'s validate raised {blame(error)}")
    if not (isinstance(answer, tuple) and len(answer) == len(Validated._fields) and isinstance(answer[0], dict)):
        return _failed(
            f"cannot be checked: {kind.kind_tag}'s validate returned {shown(answer)}, not Validated(table, complaints)"
        )
    odd = None if answer[1] else _no_toml(answer[0])
    if odd is not None:
        return _failed(
            f"cannot be written down: {kind.kind_tag}'s validate put in {odd}, which a scenario file cannot hold"
        )
    return Validated(*answer)


def _no_toml(value: Any) -> str | None:
    """Return what in a resolved `kind_config` no scenario file could say, or None."""
    if type(value) in _LEAVES:
        return None
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return next((odd for item in value.values() if (odd := _no_toml(item)) is not None), None)
    if isinstance(value, list | tuple):
        return next((odd for item in value if (odd := _no_toml(item)) is not None), None)
    return shown(value)


def _failed(rule: str) -> Validated:
    return Validated({}, (Complaint("kind_config", rule),))


def tables_in(chain: Sequence[SourceFile], kinds: KindRegistry) -> tuple[str, ...]:
    """Return the tables that the kinds of a chain's peers read, sorted. No other kind is looked at."""
    names: dict[str, None] = {}
    for file in chain:
        entries = file.table.get("peers")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
                names[entry["kind"]] = None
    found = [find(kinds, name) for name in names]
    known = [kind for kind in found if kind is not None and not isinstance(kind, InputError)]
    return tuple(sorted({table for kind in known if (table := table_of(kind)) is not None}))


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
                for complaint in _ask_group(validate, members):
                    self.complain(complaint.peer, complaint.field, complaint.rule)


def _ask_group(validate: Any, members: Sequence[tuple[HostKind, PeerDecl]]) -> Sequence[GroupComplaint]:
    kind, first = members[0]
    try:
        return tuple(GroupComplaint(*complaint) for complaint in validate(tuple(peer for _, peer in members)))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001
        rule = f"cannot be checked: {kind.kind_tag}'s validate_group failed: {blame(error)}"
        return (GroupComplaint(first.id, "kind_config", rule),)


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
