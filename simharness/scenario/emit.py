"""A `Scenario` back to TOML: the resolved emission of ruling B5.

Parsing what is emitted gives an equal scenario. Fields at their default are absent, except `preserve_state` (ruling E8)
and `queue_discipline` (ruling R15); meshes and `via` links stay as they were written.
"""

from functools import cache
from typing import Any, Final

import msgspec
import tomli_w

from simharness.contracts.mutations import as_table
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario

_EXPLICIT: Final = ("preserve_state", "queue_discipline")


def emit(scenario: Scenario) -> str:
    """Return the scenario as TOML text; equal scenarios give equal text."""
    return tomli_w.dumps(_as_document(scenario))


def _as_document(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as the plain tables of its TOML form, in the order of §8.1."""
    head: dict[str, Any] = {"name": scenario.name, "seed": scenario.seed, "duration_ns": scenario.duration_ns}
    if scenario.early_terminate_on_all_assertions_resolved:
        head["early_terminate_on_all_assertions_resolved"] = True
    head["default_tick"] = {"period_ns": scenario.default_tick_period_ns}
    head["default_link"] = _given(scenario.default_link)
    arrays = {
        "peers": [_peer(peer) for peer in scenario.peers],
        "relays": [_given(relay) for relay in scenario.relays],
        "meshes": [_mesh(mesh) for mesh in scenario.meshes],
        "links": [_link(link) for link in scenario.links],
        "mutations": [_given(mutation) for mutation in scenario.mutations],
        "snapshots": [_given(snapshot) for snapshot in scenario.snapshots],
        "assertions": [_given(assertion) for assertion in scenario.assertions],
    }
    return head | {key: entries for key, entries in arrays.items() if entries}


@cache
def _defaults(of: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        field.encode_name: field.default
        for field in msgspec.structs.fields(of)
        if field.default is not msgspec.NODEFAULT and field.name not in _EXPLICIT
    }


def _given(value: msgspec.Struct) -> dict[str, Any]:
    """Return the table of a contract value without what is at its default."""
    defaults = _defaults(type(value))
    return {key: item for key, item in as_table(value).items() if key not in defaults or item != defaults[key]}


def _peer(peer: PeerDecl) -> dict[str, Any]:
    table: dict[str, Any] = {"id": peer.id, "kind": peer.kind, "initial_state": peer.initial_state}
    if peer.tick_period_ns_override is not None:
        table["tick_period_ns_override"] = peer.tick_period_ns_override
    if peer.kind_config:
        table["kind_config"] = _sorted(peer.kind_config)
    return table


def _sorted(value: Any) -> Any:
    """Return opaque plain data with the keys of every table sorted: equal values, equal text."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


def _mesh(mesh: MeshDecl) -> dict[str, Any]:
    own: dict[str, Any] = {} if mesh.peers is None else {"peers": mesh.peers}
    if mesh.shape != "full":
        own["shape"] = mesh.shape
    return own | mesh.overrides.given()


def _link(link: LinkDecl) -> dict[str, Any]:
    own: dict[str, Any] = {"from": link.source, "to": link.target}
    if link.via is not None:
        own["via"] = link.via
    return own | link.overrides.given()
