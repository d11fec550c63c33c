"""The collector's manifest and the boot records: which nodes an archive holds."""

from typing import Any, Final, NamedTuple

from simharness.bundle.production import layout
from simharness.bundle.production import names as roles
from simharness.bundle.production.capture import Facts
from simharness.bundle.production.kinds import is_u64
from simharness.bundle.production.layout import LABEL_RULE, is_label
from simharness.bundle.production.names import Node, host_of, is_hex_id
from simharness.bundle.production.store import Store
from simharness.core.canonical_json import parse

_REQUIRED: Final = {
    "node_id_hex": "64 lower-case hexadecimal digits",
    "node_id_short": "a string",
    "role": "a string",
    "run_id": "a string",
    "process_start_unix_ms": "an unsigned 64-bit integer",
    "boot_sequence": "an unsigned 64-bit integer",
}
"""Fields of an identity that are never missing."""


class Index(NamedTuple):
    """What an archive says about itself."""

    facts: Facts
    nodes: tuple[Node, ...]
    simulated: bool
    """Whether an export of ours wrote it."""


def read_index(store: Store) -> Index:
    """Read the manifest and every node's boot and finalize records.

    Raises:
        InputError: If one of them is malformed.
    """
    paths = dict.fromkeys(store.paths())
    manifest = read_json(store, layout.MANIFEST)
    if not isinstance(manifest, dict):
        store.refuse(layout.MANIFEST, "(root)", "must be an object")
    if type(manifest.get("run_id")) is not str:
        store.refuse(layout.MANIFEST, "run_id", "must be a string")
    if type(manifest.get("finalize_received")) is not bool:
        store.refuse(layout.MANIFEST, "finalize_received", "must be a boolean")
    for field in ("run_start_collector_ms", "run_end_collector_ms"):
        if manifest.get(field) is not None and not is_u64(manifest[field]):
            store.refuse(layout.MANIFEST, field, "must be an unsigned 64-bit integer")
    simulated = isinstance(manifest.get("simulated"), dict)
    listed = _listed(store, manifest)
    directories = dict.fromkeys(path.partition("/")[0] for path in paths if "/" in path)
    orphans = [_orphan(store, label) for label in directories if label not in listed]
    nodes = [_completed(store, node, paths, simulated=simulated) for node in (*listed.values(), *orphans)]
    facts = Facts(
        run_id=manifest["run_id"],
        start_ms=manifest.get("run_start_collector_ms"),
        end_ms=manifest.get("run_end_collector_ms"),
        finalize_received=manifest["finalize_received"],
    )
    return Index(facts, tuple(nodes), simulated)


def read_json(store: Store, path: str) -> Any:
    """Return the value of a file.

    Raises:
        InputError: If it is not JSON.
    """
    try:
        return parse(store.read(path))
    except ValueError as error:
        store.refuse(path, "(root)", f"not JSON: {error}")


def identity_fault(identity: Any) -> tuple[str, str] | None:
    """Return what is wrong with an identity, as field (empty for the whole) and rule, or None."""
    if not isinstance(identity, dict):
        return "", "must be an object"
    for field, form in _REQUIRED.items():
        value = identity.get(field)
        good = is_u64(value) if "integer" in form else type(value) is str
        if field == "node_id_hex":
            good = is_hex_id(value)
        if not good:
            return field, f"must be {form}"
    return None


def _listed(store: Store, manifest: dict[str, Any]) -> dict[str, Node]:
    """Return the manifest's nodes by label, in its order."""
    entries = manifest.get("nodes")
    if not isinstance(entries, list):
        store.refuse(layout.MANIFEST, "nodes", "must be an array")
    nodes: dict[str, Node] = {}
    for index, entry in enumerate(entries):
        where = f"nodes[{index}]"
        if not isinstance(entry, dict):
            store.refuse(layout.MANIFEST, where, "must be an object")
        label, key = entry.get("label"), entry.get("node_id_hex")
        if not is_label(label):
            store.refuse(layout.MANIFEST, f"{where}.label", LABEL_RULE)
        if label in nodes:
            store.refuse(layout.MANIFEST, f"{where}.label", f"{label} stands in the manifest twice")
        if not is_hex_id(key):
            store.refuse(layout.MANIFEST, f"{where}.node_id_hex", "must be 64 lower-case hexadecimal digits")
        role, stage = entry.get("role"), entry.get("stage_index")
        nodes[label] = Node(
            label,
            bytes.fromhex(key),
            label,
            None,
            role=role if type(role) is str else None,
            stage_index=stage if is_u64(stage) else None,
            finalize_recorded=entry.get("finalize_recorded") is True,
        )
    return nodes


def _orphan(store: Store, label: str) -> Node:
    if not is_label(label):
        store.refuse(label, "(directory)", LABEL_RULE)
    return Node(label, None, label, None, orphan=True)


def _completed(store: Store, node: Node, paths: dict[str, None], *, simulated: bool) -> Node:
    """Add what the node's own files say."""
    boot, finalize = f"{node.label}/{layout.BOOT}", f"{node.label}/{layout.FINALIZE}"
    if boot in paths:
        identity = read_json(store, boot)
        fault = identity_fault(identity)
        if fault is not None:
            store.refuse(boot, fault[0] or "(root)", fault[1])
        key = node.node_id or bytes.fromhex(identity["node_id_hex"])
        role = node.role or identity["role"]
        node = node._replace(identity=identity, node_id=key, role=role, name=host_of(identity, key) or node.label)
    if finalize in paths:
        node = node._replace(finalize=read_json(store, finalize), finalize_recorded=True)
    if simulated and node.role in (roles.ENGINE, roles.RELAY):
        engine = node.node_id == roles.ENGINE_ID
        hosted = node.role == roles.ENGINE and not engine  # a host may be called "engine"
        node = node._replace(synthetic=not hosted, name="" if engine else node.name)
    return node
