"""Our events in the form of the published reference bundles (§7.6): what two implementers compare byte by byte.

The published form spells engine and relay kinds in snake_case, carries no field of ours beyond its own, names the relay as the host
of a record about a relay's outbound leg, and sorts lines by time and then by their bytes.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from simharness.contracts.records import EventRecord, Record

EXTRA: Final = ("enqueued_bytes",)
"""Fields of ours that the published form does not have."""


def published_lines(records: Iterable[Record]) -> list[bytes]:
    """Return the event lines of a run in the published form and order."""
    lines = [(record.virtual_time_ns, _line(record)) for record in records if isinstance(record, EventRecord)]
    return [line for _, line in sorted(lines)]


def _line(record: EventRecord) -> bytes:
    event: dict[str, Any] = {key: value for key, value in record.event.items() if key not in EXTRA}
    event["kind"] = re.sub(r"(?<!^)(?=[A-Z])", "_", event["kind"]).lower()
    host = event["from"] if record.host_id is None and record.kind_tag == "engine" else record.host_id
    envelope = {
        "virtual_time_ns": record.virtual_time_ns,
        "host_id": host,
        "kind_tag": record.kind_tag,
        "event": event,
    }
    return json.dumps(envelope, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
