"""Records as bytes: one compact line an event, one indented envelope a snapshot (§9.2, §9.3, rulings B2, B3, B10)."""

from typing import Any, Final, NoReturn

import msgspec
import orjson

from simharness.contracts.records import EventRecord, MutationRecord, SnapshotRecord
from simharness.core.canonical_json import pretty, unwritable
from simharness.core.errors import EngineAbort

_PLAIN: Final = frozenset({str, int, bool, type(None)})


def _refuse_float(literal: str) -> NoReturn:
    raise ValueError(f"float {literal} is not JSON without floats")


_WITHOUT_FLOATS: Final = msgspec.json.Decoder(float_hook=_refuse_float)
"""A snapshot is parsed once and may be long: floats are found on the way, at no cost of their own."""


def encode_line(record: EventRecord | MutationRecord) -> bytes:
    """Return the event line of `record`, newline included.

    Raises:
        EngineAbort: `unwritable-event`, if the payload holds anything but JSON without floats (ruling B10).
    """
    event = record.event
    # The flat payload of plain values is the common case; only the rest pays for the walk that finds hidden floats.
    if type(event) is not dict or not _PLAIN.issuperset(map(type, event.values())):
        _check_event(record, event)
    try:
        return orjson.dumps(
            {
                "virtual_time_ns": record.virtual_time_ns,
                "host_id": record.host_id,
                "kind_tag": record.kind_tag,
                "event": event,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
    except TypeError as error:  # an integer beyond 64 bits, a key that is no string, a lone surrogate
        raise _unwritable_event(record, str(error)) from None


def encode_snapshot(record: SnapshotRecord) -> bytes:
    """Return the envelope of `record` as indented JSON, without a final newline.

    Raises:
        EngineAbort: `unwritable-snapshot`, if the host's bytes are not one JSON object without floats (rulings B4, B10).
    """
    try:
        return pretty(
            {
                "virtual_time_ns": record.virtual_time_ns,
                "host_id": record.host_id,
                "kind_tag": record.kind_tag,
                "snapshot": snapshot_object(record),
            }
        )
    except TypeError as error:  # an integer beyond 64 bits
        raise _unwritable_snapshot(record, str(error)) from None


def snapshot_object(record: SnapshotRecord) -> dict[str, Any]:
    """Return the host's JSON object in `record`.

    Raises:
        EngineAbort: `unwritable-snapshot`, if it is anything else, or holds a float (rulings B4, B10).
    """
    try:
        snapshot = _WITHOUT_FLOATS.decode(record.snapshot)
    except ValueError as error:
        raise _unwritable_snapshot(record, str(error)) from None
    if type(snapshot) is not dict:
        raise _unwritable_snapshot(record, "a snapshot is one JSON object")
    return snapshot


def _check_event(record: EventRecord | MutationRecord, event: Any) -> None:
    reason = unwritable(event) if isinstance(event, dict) else "an event is one JSON object"
    if reason is not None:
        raise _unwritable_event(record, reason)


def _unwritable_event(record: EventRecord | MutationRecord, reason: str) -> EngineAbort:
    return EngineAbort(rule="unwritable-event", detail=reason, host_id=record.host_id, at_ns=record.virtual_time_ns)


def _unwritable_snapshot(record: SnapshotRecord, reason: str) -> EngineAbort:
    return EngineAbort(rule="unwritable-snapshot", detail=reason, host_id=record.host_id, at_ns=record.virtual_time_ns)
