"""A merged document to a validated `Scenario`: every rule of §8.2 in file order, all mistakes in one refusal."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from simharness.contracts.assertions import (
    ASSERTION_TYPES,
    AllAliveAt,
    AllAliveThroughout,
    Assertion,
    ConvergenceAfter,
    EventCount,
)
from simharness.contracts.host import HostKind, KindRegistry, PeerFacts, accepted
from simharness.contracts.links import LinkPolicy, RelayDecl
from simharness.contracts.mutations import (
    AIMED_KINDS,
    MUTATION_TYPES,
    ClockOffset,
    Mutation,
    Partition,
    RelayCapacityChange,
    RelayPeerConnDown,
)
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario, SnapshotDecl
from simharness.core.errors import InputError
from simharness.scenario.document import SCALARS, Document
from simharness.scenario.groups import Groups, ask, find
from simharness.scenario.names import Names
from simharness.scenario.routes import Routes, mesh_size
from simharness.scenario.rules import (
    check_change,
    check_clock,
    check_company,
    check_count,
    check_instant,
    check_partition,
    check_window,
)
from simharness.scenario.schema import HEAD, TICK, Complain, Spec, read, spec_of, split_overrides
from simharness.scenario.words import shown, type_word, unknown

Reconfigure = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Takes a peer's kind and raw `kind_config`, its kind's table merged in; returns the `kind_config` to use instead."""

_LIMITS: Final = {"peers": 10_000, "links": 1_000_000, "mutations": 1_000_000}  # ruling L18

_Entry = TypeVar("_Entry", bound=msgspec.Struct)


def _by_kind(types: tuple[type[_Entry], ...]) -> Mapping[str, type[_Entry]]:
    return {str(of.__struct_config__.tag): of for of in types}


_MUTATIONS: Final[Mapping[str, type[Mutation]]] = _by_kind(MUTATION_TYPES)
_AMONG_PEERS: Final = (AllAliveAt, AllAliveThroughout, ConvergenceAfter)
_ASSERTIONS: Final[Mapping[str, type[Assertion]]] = _by_kind(ASSERTION_TYPES)


class _Head(NamedTuple):
    """The top-level fields; None for what is missing or wrong."""

    values: dict[str, Any]
    tick_ns: int | None
    link: LinkPolicy | None

    @property
    def duration_ns(self) -> int | None:
        return self.values.get("duration_ns")


def build(document: Document, kinds: KindRegistry, reconfigure: Reconfigure | None) -> Scenario:
    """Check and build.

    Raises:
        ScenarioError: With every mistake found.
    """
    _check_limits(document)
    head = _head(document)
    names = Names(document)
    peers, peer_kinds = _peers(document, kinds, names, head.tick_ns, reconfigure)
    relays = tuple(_relays(document))
    routes = _routes(document, names, head.link)
    mutations = tuple(_mutations(document, names, routes, peer_kinds, head.duration_ns))
    snapshots = tuple(_snapshots(document, head.duration_ns))
    assertions = tuple(_assertions(document, names, head.duration_ns))
    document.refuse_if_wrong()
    assert head.tick_ns is not None
    assert head.link is not None
    return Scenario(
        **head.values,
        default_tick_period_ns=head.tick_ns,
        default_link=head.link,
        peers=peers,
        relays=relays,
        meshes=tuple(routes.meshes),
        links=tuple(routes.links),
        mutations=mutations,
        snapshots=snapshots,
        assertions=assertions,
    )


# --- size ----------------------------------------------------------------------------------------------------------


def _check_limits(document: Document) -> None:
    """Refuse what is too large before anything is built from it (ruling L18)."""
    before = len(document.problems)
    for key, most in _LIMITS.items():
        count = len(document.entries(key))
        if count > most:
            document.at_entry(key, most, "", f"a scenario has at most {most} {key}; this one has {count}")
    count = len(document.entries("links"))
    for index, entry in enumerate(document.entries("meshes")):
        if isinstance(entry, dict):
            members = entry.get("peers", document.entries("peers"))
            count += mesh_size(entry.get("shape", "full"), len(members) if isinstance(members, list) else 0)
        if count > _LIMITS["links"]:
            rule = f"a scenario has at most {_LIMITS['links']} links, those of meshes included"
            document.at_entry("meshes", index, "", rule)
            break
    if len(document.problems) > before:
        document.refuse_if_wrong()


# --- head ----------------------------------------------------------------------------------------------------------


def _head(document: Document) -> _Head:
    scalars: dict[str, Any] = {key: document.values[key] for key in SCALARS if key in document.values}
    values, _ = _table(document, "", scalars, HEAD)
    tick, tick_sound = _named_table(document, "default_tick", TICK)
    link, link_sound = _named_table(document, "default_link", spec_of(LinkPolicy))
    early = "early_terminate_on_all_assertions_resolved"
    if values.get(early) and not document.entries("assertions") and "assertions" not in document.doubtful:
        document.at_leaf(early, "needs at least one assertion to resolve")  # ruling L19
    if not document.entries("peers") and "peers" not in document.doubtful:
        document.at_leaf("peers", "missing; a scenario has at least one peer")
    return _Head(values, tick["period_ns"] if tick_sound else None, LinkPolicy(**link) if link_sound else None)


def _named_table(document: Document, key: str, spec: Spec) -> tuple[dict[str, Any], bool]:
    if key in document.values:
        return _table(document, f"{key}.", document.values[key], spec)
    if key not in document.doubtful:
        document.at_leaf(key, "missing; this table is required")
    return {}, False


def _table(document: Document, prefix: str, table: dict[str, Any], spec: Spec) -> tuple[dict[str, Any], bool]:
    def complain(field: str, rule: str) -> None:
        if field in table or prefix or field not in document.doubtful:
            document.at_leaf(prefix + field, rule)

    return read(spec, table, complain)


# --- entries -------------------------------------------------------------------------------------------------------


def _rows(document: Document, key: str) -> Iterator[tuple[int, dict[str, Any], Complain]]:
    """Yield the tables of an array with their place and the way to complain about them."""
    for index, entry in enumerate(document.entries(key)):
        complain = document.entry_complaints(key, index)
        if isinstance(entry, dict):
            yield index, entry, complain
        else:
            complain("", f"must be a table, not {type_word(entry)}")


def _peers(
    document: Document, kinds: KindRegistry, names: Names, tick_ns: int | None, reconfigure: Reconfigure | None
) -> tuple[tuple[PeerDecl, ...], dict[str, HostKind]]:
    """Return the sound peers, and the kind of every peer whose kind is known."""
    spec, peer_ids = spec_of(PeerDecl), tuple(names.peers)
    peers: list[PeerDecl] = []
    kind_of: dict[str, HostKind] = {}
    found = cache(partial(find, kinds))
    broken: dict[str, None] = {}
    groups, before = Groups(document), len(document.problems)
    for _, entry, complain in _rows(document, "peers"):
        values, sound = read(spec, entry, complain)
        kind = None
        if "kind" in values and (kind := found(values["kind"])) is None:
            name = values["kind"]
            complain("kind", unknown(f"host kind {shown(name)}", name, kinds.names()))
        elif isinstance(kind, InputError):
            if values["kind"] not in broken:  # one piece of code is one mistake, however many peers need it
                complain("kind", f"{kind.problem.field} ({kind.problem.file}) {kind.problem.rule}")
            broken[values["kind"]] = None
            continue
        if kind is None or "id" not in values:
            continue
        kind_of.setdefault(values["id"], kind)
        period_ns = values.get("tick_period_ns_override", tick_ns)
        if not sound or period_ns is None or not groups.readable(kind):
            continue
        own = values.get("kind_config", {})
        config = groups.config(kind, own)
        if reconfigure is not None:
            config = reconfigure(values["kind"], config)
        facts = PeerFacts(
            id=values["id"], initial_state=values["initial_state"], tick_period_ns=period_ns, peer_ids=peer_ids
        )
        config, complaints = ask(kind, config, facts)
        peers.append(PeerDecl(**(values | {"kind_config": config})))
        groups.add(peers[-1], kind, own, complain)
        for complaint in complaints:
            groups.complain(peers[-1].id, *complaint)
    if len(peers) == len(document.entries("peers")) and len(document.problems) == before:
        groups.check()
    return tuple(peers), kind_of


def _relays(document: Document) -> Iterator[RelayDecl]:
    spec = spec_of(RelayDecl)
    for _, entry, complain in _rows(document, "relays"):
        values, sound = read(spec, entry, complain)
        if sound:
            yield RelayDecl(**values)


def _routes(document: Document, names: Names, default_link: LinkPolicy | None) -> Routes:
    routes = Routes(document, names, default_link)
    spec = spec_of(MeshDecl)
    for index, entry, complain in _rows(document, "meshes"):
        values, sound = read(spec, entry, complain)
        if names.check_references(values, complain) and sound:
            routes.add_mesh(split_overrides(MeshDecl, values), index)
    spec = spec_of(LinkDecl)
    for index, entry, complain in _rows(document, "links"):
        values, sound = read(spec, entry, complain)
        if routes.check_ends(values, index) and sound:
            routes.add_link(split_overrides(LinkDecl, values))
    routes.check_together()
    return routes


def _tagged(
    document: Document, key: str, what: str, types: Mapping[str, type[_Entry]]
) -> Iterator[tuple[type[_Entry], dict[str, Any], bool, Complain]]:
    """Yield (type, good values, soundness, way to complain) for the entries of a known `kind`."""
    for _, entry, complain in _rows(document, key):
        kind = entry.get("kind")
        if type(kind) is not str:
            complain("kind", "missing; this field is required" if kind is None else _not_text(kind))
        elif kind not in types:
            complain("kind", unknown(f"{what} kind {shown(kind)}", kind, tuple(types)))
        else:
            of = types[kind]
            values, sound = read(spec_of(of), entry, complain)
            del values["kind"]
            yield of, values, sound, complain


def _not_text(value: Any) -> str:
    return f"must be a string, not {type_word(value)}"


def _mutations(
    document: Document, names: Names, routes: Routes, kind_of: dict[str, HostKind], duration_ns: int | None
) -> Iterator[Mutation]:
    for of, values, sound, complain in _tagged(document, "mutations", "mutation", _MUTATIONS):
        check_instant(values, duration_ns, complain)
        declared = names.check_references(values, complain)
        _check_aim(str(of.__struct_config__.tag), values, kind_of, complain)
        if of is Partition:
            check_partition(values, complain)
        elif of is ClockOffset:
            check_clock(values, complain)
        elif of is RelayCapacityChange and sound:
            check_change(values, complain)
        elif of is RelayPeerConnDown and sound and declared:
            routes.check_through(values["relay"], values["source"], values["target"], complain)
        elif declared and "links" in values:
            routes.check_named(values["links"], complain)
        if sound:
            yield of(**values)


def _check_aim(mutation: str, values: dict[str, Any], kind_of: dict[str, HostKind], complain: Complain) -> None:
    """Report a mutation that the kind of its peer does not accept (§6A.3, ruling M1)."""
    peer = values.get("peer", "")
    kind = kind_of.get(peer)
    if mutation in AIMED_KINDS and kind is not None and mutation not in accepted(kind):
        complain("peer", f"host kind {kind.kind_tag} of {shown(peer)} accepts no {mutation}")


def _snapshots(document: Document, duration_ns: int | None) -> Iterator[SnapshotDecl]:
    spec = spec_of(SnapshotDecl)
    for _, entry, complain in _rows(document, "snapshots"):
        values, sound = read(spec, entry, complain)
        check_instant(values, duration_ns, complain)
        if sound:
            yield SnapshotDecl(**values)


def _assertions(document: Document, names: Names, duration_ns: int | None) -> Iterator[Assertion]:
    for of, values, sound, complain in _tagged(document, "assertions", "assertion", _ASSERTIONS):
        check_instant(values, duration_ns, complain)
        check_window(values, duration_ns, complain)
        names.check_references(values, complain)
        if of is EventCount and sound:
            check_count(values, complain)
        elif of in _AMONG_PEERS:
            check_company(values, complain)
        if sound:
            yield of(**values)
