"""Checking of a stage's `kind_config` (§8.2). Imports no host and no node: `check` must stay fast."""

from collections.abc import Mapping
from typing import Any, Final

from simharness.contracts.host import Complaint, PeerFacts, Validated
from simharness.hosts.config import ConfigReader
from simharness.systems.swim.config import MAX_TEXT_BYTES, json_text_bytes, resolve

_MAX_NS: Final = 2**63 - 1
_MAX_CODE: Final = 255
_MAX_SIGNAL: Final = 64
_WORKER_FIELDS: Final = (
    "ready_after_ns",
    "never_ready",
    "exit_after_ns",
    "exit_code",
    "exit_signal",
    "exit_reason",
    "ready_name",
)


def validate(config: Mapping[str, Any], facts: PeerFacts) -> Validated:
    """Check and resolve a `kind_config`: name, address, and, if they are there, node and subprocess."""
    reader = ConfigReader(config, known=("name", "address", "node", "subprocess"))
    if facts.initial_state != "cold":
        reader.complaints.append(Complaint("initial_state", 'a stage starts "cold"'))
    shared = "node" in config
    resolved: dict[str, Any] = {
        "name": _text(reader, config, "name", shared=shared),
        "address": _text(reader, config, "address", shared=False),
    }
    if shared:
        resolved["node"] = _node(reader, config, facts)
    if "subprocess" in config:
        resolved["subprocess"] = _subprocess(reader, config["subprocess"], shared=shared)
    return Validated(resolved, tuple(reader.complaints))


def _text(reader: ConfigReader, table: Mapping[str, Any], field: str, *, shared: bool) -> str:
    """Take a required text; one that is `shared` with the cluster has a size that a node can carry."""
    value = table.get(field)
    if not isinstance(value, str) or not value:
        reader.complain(field, "must be a non-empty string")
        return ""
    if shared and json_text_bytes(value) > MAX_TEXT_BYTES:
        reader.complain(field, f"a name that a node carries has at most {MAX_TEXT_BYTES} bytes as JSON text")
    return value


def _node(reader: ConfigReader, config: Mapping[str, Any], facts: PeerFacts) -> dict[str, Any]:
    """Take the table of the embedded node (ruling S2): it joins if it names seeds, else it knows every member."""
    table = config["node"]
    if not isinstance(table, Mapping):
        reader.complain("node", "must be a table: the configuration of a swim peer")
        return {}
    resolved, found = resolve(
        table,
        tick_period_ns=facts.tick_period_ns,
        peer_ids=facts.peer_ids,
        initial_state="joining" if table.get("seeds") else "alive",
        own_id=facts.id,
    )
    for field, rule in found:
        reader.complain(f"node.{field}", rule)
    names = resolved["names"] if resolved is not None else []
    if isinstance(names, list) and config.get("name") in names:
        reader.complain("node.names", "the stage itself registers its name, when it starts running")
    return resolved or {}


def _subprocess(reader: ConfigReader, table: Any, *, shared: bool) -> dict[str, Any]:
    """Take the table of the worker process. An absent `exit_after_ns` means that it stays."""
    if not isinstance(table, Mapping):
        reader.complain("subprocess", f"must be a table with {', '.join(_WORKER_FIELDS)}")
        return {}
    worker = ConfigReader(table, known=_WORKER_FIELDS)
    resolved: dict[str, Any] = {}
    if worker.boolean("never_ready", default=False):
        resolved["never_ready"] = True
        if "ready_after_ns" in table:
            worker.complain("ready_after_ns", "contradicts never_ready")
    else:
        resolved["ready_after_ns"] = worker.integer("ready_after_ns", 0, low=0, high=_MAX_NS)
    if "exit_after_ns" in table:
        resolved["exit_after_ns"] = worker.integer("exit_after_ns", 0, low=0, high=_MAX_NS)
        resolved |= _ending(worker, table)
    else:
        for field in ("exit_code", "exit_signal", "exit_reason"):
            if field in table:
                worker.complain(field, "needs exit_after_ns: a worker that stays has no end")
    if "ready_name" in table:
        resolved["ready_name"] = _text(worker, table, "ready_name", shared=shared)
    reader.complaints += [
        Complaint(complaint.field.replace("kind_config.", "kind_config.subprocess.", 1), complaint.rule)
        for complaint in worker.complaints
    ]
    return resolved


def _ending(worker: ConfigReader, table: Mapping[str, Any]) -> dict[str, Any]:
    """Take how the worker ends: by a code (0 if nothing is said) or by a signal."""
    ending: dict[str, Any] = {}
    if "exit_signal" in table:
        if "exit_code" in table:
            worker.complain("exit_signal", "a process ends by exit_code or by exit_signal, not by both")
        ending["exit_signal"] = worker.integer("exit_signal", 1, low=1, high=_MAX_SIGNAL)
        reason = f"signal {ending['exit_signal']}"
    else:
        ending["exit_code"] = worker.integer("exit_code", 0, low=0, high=_MAX_CODE)
        reason = f"exit code {ending['exit_code']}"
    ending["exit_reason"] = _text(worker, {"exit_reason": reason} | dict(table), "exit_reason", shared=False)
    return ending
