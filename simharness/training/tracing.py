"""A run as lines to read: what was injected, and what hub and workers say they did."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simharness.contracts.records import EventRecord, MutationRecord
from simharness.core.units import NS_PER_S
from simharness.stateful.playing import Played
from simharness.training.breaking import stopped

_LEFT_OUT: Final = ("kind", "weights", "momentum", "consumed", "pre", "post", "digests", "digest", "base", "candidates")


def timeline(played: Played) -> Iterator[str]:
    """Yield a line for each fault and each record of the job, digests and vectors left out; for what stopped it the last line."""
    for record in played.ordered.events:
        if isinstance(record, MutationRecord):
            mutation = record.event["mutation"]
            yield _line(record.virtual_time_ns, "-", str(mutation["kind"]), mutation, ("kind", "at_ns"))
        elif isinstance(record, EventRecord) and str(record.event["kind"]).startswith("Train"):
            yield _line(record.virtual_time_ns, record.host_id or "-", record.event["kind"], record.event, _LEFT_OUT)
    abort = stopped(played)
    if abort is not None:
        yield _line(abort.at_ns, abort.host or "-", "Abort", {"rule": abort.rule, "detail": abort.detail}, ())


def _line(at_ns: int, host: str, kind: str, fields: Mapping[str, Any], left_out: tuple[str, ...]) -> str:
    said = " ".join([f"{name}={_shown(value)}" for name, value in fields.items() if name not in left_out])
    return f"{at_ns / NS_PER_S:10.6f} s  {host:<4} {kind:<16} {said}"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(_shown, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + " ".join(map(_shown, value.values())) + "}"
    return str(value)
