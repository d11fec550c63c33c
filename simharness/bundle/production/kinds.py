"""Production's event records: which types there are, what each carries, and how our own events spell the same fields.

One flat object a record: an envelope (`node_id`, `monotonic_seq`, `wall_ms`, `type`) and the type's own fields beside it. Node ids
are arrays of 32 bytes. The set of types is closed in production; `Custom` is its one extension point.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeGuard

from simharness.core.units import U32_MAX, U64_MAX
from simharness.systems.swim.ids import ID_BYTES

CUSTOM: Final = "Custom"
_BYTE: Final = range(256)
_STATES: Final = ("Alive", "Suspect", "Dead", "Unknown")
_CONNECTIONS: Final = ("Direct", "Relay", "Mixed", "None")
_OUTCOMES: Final = ("Success", "Timeout", "Refused", "NoRoute")


def is_node_id(value: Any) -> TypeGuard[list[int]]:
    """Tell whether `value` is an array of 32 bytes."""
    return type(value) is list and len(value) == ID_BYTES and all(type(byte) is int and byte in _BYTE for byte in value)


def is_u64(value: Any) -> TypeGuard[int]:
    """Tell whether `value` is an unsigned 64-bit integer."""
    return type(value) is int and 0 <= value <= U64_MAX


def _is_u32(value: Any) -> bool:
    return type(value) is int and 0 <= value <= U32_MAX


def _is_i64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_anything(_value: Any) -> bool:
    return True


def _is_outcome(value: Any) -> bool:
    if type(value) is dict:
        return [*value] == ["Error"] and type(value["Error"]) is str
    return value in _OUTCOMES


def _is_state(value: Any) -> bool:
    return value in _STATES


def _is_connection(value: Any) -> bool:
    return value in _CONNECTIONS


class Form(NamedTuple):
    """What a field holds. An optional one may be null or missing."""

    what: str
    holds: Callable[[Any], bool]
    optional: bool = False

    def accepts(self, value: Any) -> bool:
        """Tell whether `value` may stand in such a field."""
        return (value is None and self.optional) or self.holds(value)


NODE: Final = Form("an array of 32 bytes", is_node_id)
NO_NODE: Final = NODE._replace(optional=True)
_TEXT: Final = Form("a string", _is_text)
_SOME_TEXT: Final = _TEXT._replace(optional=True)
_U32: Final = Form("an unsigned 32-bit integer", _is_u32)
_U64: Final = Form("an unsigned 64-bit integer", is_u64)
_SOME_U64: Final = _U64._replace(optional=True)
_SOME_I64: Final = Form("a 64-bit integer", _is_i64, optional=True)
_FLAG: Final = Form("a boolean", _is_flag)
_STATE: Final = Form(f"one of {', '.join(_STATES)}", _is_state)
_CONNECTION: Final = Form(f"one of {', '.join(_CONNECTIONS)}", _is_connection)
_OUTCOME: Final = Form(f'one of {", ".join(_OUTCOMES)}, or {{"Error": text}}', _is_outcome)
_ANYTHING: Final = Form("any JSON", _is_anything, optional=True)

_PROBE: Final = {"target": NODE, "sequence": _U64, "kind": _TEXT}
_SIZED: Final = {"peer": NODE, "kind": _TEXT, "size": _U32}
_SUBPROCESS: Final = {"label": _TEXT, "pid": _U64, "command": _TEXT}

TYPES: Final[Mapping[str, Mapping[str, Form]]] = {
    "SwimTransition": {"peer": NODE, "from": _STATE, "to": _STATE, "reason": _TEXT},
    "MessageSent": _SIZED,
    "MessageReceived": _SIZED,
    "ConnectionCacheHit": {"peer": NODE, "generation": _U64},
    "ConnectionCacheMiss": {"peer": NODE},
    "ConnectionCacheInvalidated": {"peer": NODE, "generation": _U64, "reason": _TEXT},
    "NodeMapUpdate": {"peer": NODE, "from_source": _TEXT, "accepted": _FLAG},
    "DialStarted": {"peer": NODE, "attempt": _U32, "timeout_ms": _U64},
    "DialOutcome": {"peer": NODE, "attempt": _U32, "outcome": _OUTCOME, "duration_ms": _U64},
    "SwimProbeSent": _PROBE,
    "SwimProbeAcked": _PROBE,
    "SwimProbeTimedOut": {**_PROBE, "budget_ticks": _U64},
    "GossipReceived": {"source_peer": NODE, "payload_kind": _TEXT, "payload_bytes": _U32, "item_count": _U32},
    "SwimMetadataSent": {"version": _U64, "payload_hash": _U64},
    "SwimMetadataReceived": {"peer": NODE, "version": _U64, "payload_hash": _U64},
    "Error": {"component": _TEXT, "message": _TEXT, "peer": NO_NODE},
    CUSTOM: {"kind": _TEXT, "fields": _ANYTHING},
    "IrohConnTypeChanged": {"peer": NODE, "old": _CONNECTION, "new": _CONNECTION},
    "RelayChanged": {"old_url": _SOME_TEXT, "new_url": _SOME_TEXT},
    "RelaySessionStateChanged": {
        "relay_url": _SOME_TEXT,
        "from_status": _TEXT,
        "to_status": _TEXT,
        "reason": _SOME_TEXT,
    },
    "RelaySessionOpened": {"peer_node_id_hex": _TEXT, "at_ms": _U64},
    "RelaySessionClosed": {
        "peer_node_id_hex": _TEXT,
        "opened_at_ms": _U64,
        "closed_at_ms": _U64,
        "duration_ms": _U64,
        "close_initiator": _TEXT,
        "close_reason": _TEXT,
        "bytes_rx": _U64,
        "bytes_tx": _U64,
    },
    "SubprocessSpawned": _SUBPROCESS,
    "SubprocessExited": {**_SUBPROCESS, "exit_code": _SOME_I64, "exit_signal": _SOME_I64, "uptime_ms": _SOME_U64},
    "ProbeSent": {"target": _TEXT, "kind": _TEXT},
    "ProbeReceived": {"target": _TEXT, "kind": _TEXT, "rtt_ms": _SOME_U64, "outcome": _TEXT},
    "InferenceResponseSent": {
        "target_peer": _ANYTHING,
        "request_id": _ANYTHING,
        "byte_size": _U64,
        "send_outcome": _TEXT,
    },
}
"""Type -> its fields, in order."""

ENVELOPE: Final[Mapping[str, Form]] = {"node_id": NODE, "monotonic_seq": _U64, "wall_ms": _U64, "type": _TEXT}

_SPELLED: Final[Mapping[str, str]] = {
    "MessageSent": "message_kind",
    "MessageReceived": "message_kind",
    "SwimProbeSent": "probe_kind",
    "SwimProbeAcked": "probe_kind",
    "SwimProbeTimedOut": "probe_kind",
    "ProbeSent": "probe_kind",
    "ProbeReceived": "probe_kind",
}
"""How our events, whose `kind` is the type, spell the field that production calls `kind`."""


class SharedField(NamedTuple):
    """A field that both forms have."""

    ours: str
    theirs: str
    form: Form


SHARED: Final[Mapping[str, tuple[SharedField, ...]]] = {
    name: tuple(
        SharedField(_SPELLED[name] if field == "kind" else field, field, form) for field, form in fields.items()
    )
    for name, fields in TYPES.items()
    if name not in (CUSTOM, "DialStarted", "DialOutcome", "ConnectionCacheInvalidated")
}
"""The types that our events have too, field by field. The three on connections have another shape there (`translate`)."""


def fault_of(record: Any) -> tuple[str, str] | None:
    """Return what is wrong with an event record, as field (empty for the whole) and rule, or None.

    An unknown type is not wrong, and neither is an unknown field.
    """
    if type(record) is not dict:
        return "", "must be an object"
    for fields in (ENVELOPE, TYPES.get(record.get("type", ""), {}) if type(record.get("type")) is str else {}):
        for name, form in fields.items():
            if not form.accepts(record.get(name)):
                return name, f"must be {form.what}" if name in record else "missing"
    return None
