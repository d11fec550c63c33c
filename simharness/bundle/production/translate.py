"""Our events to production's, and back (ruling B11).

An event whose kind production has travels as that type if it fits it to the letter; anything else travels as `Custom` with its kind
and fields unchanged, stage and relay kinds among them (R5). So the way back gives the event that was there.
"""

from typing import Any, Final, NamedTuple

from simharness.bundle.production.kinds import CUSTOM, ENVELOPE, NODE, SHARED
from simharness.bundle.production.names import Names, is_hex_id
from simharness.core.units import NS_PER_MS

DIAL_TIMEOUT_MS: Final = 10_000
"""Production's constant. A simulated dial is always the first attempt, and never fails."""

_TAGS: Final = {
    **dict.fromkeys(("DialStart", "DialOutcome", "CacheStateChange"), "engine"),
    **dict.fromkeys(("DropOnSend", "SendFailed", "DropOnDelivery", "Delivered"), "engine"),
    **dict.fromkeys(("RelayEnqueue", "RelayDequeue", "RelayDrop"), "relay"),
    **dict.fromkeys(("register_name", "worker_exited", "stage_lifecycle"), "stage"),
    **dict.fromkeys(("SubprocessSpawned", "SubprocessExited", "worker_ready"), "stage"),
    "Mutation": "mutation",
}
_SWIM_TYPES: Final = (
    *("SwimTransition", "SwimProbeSent", "SwimProbeAcked", "SwimProbeTimedOut", "GossipReceived", "MessageSent"),
    *("MessageReceived", "SwimMetadataSent", "SwimMetadataReceived", "SwimIncarnationBumped", "Error"),
)


class Emitter(NamedTuple):
    """Who wrote an event: a host, or a relay or the engine under the name of its node."""

    name: str
    dialled_ns: dict[str, int]
    """When it last began to dial whom; kept up by `to_production`."""


def to_production(event: dict[str, Any], emitter: Emitter, at_ns: int, names: Names) -> dict[str, Any]:
    """Return the payload of an event: its `type`, then the type's fields."""
    kind = event.get("kind")
    match kind:
        case "DialStart":
            typed = _dial_start(event, emitter, at_ns, names)
        case "DialOutcome":
            typed = _dial_outcome(event, emitter, at_ns, names)
        case str() if kind in SHARED:
            typed = _shared(kind, event, names)
        case _:
            typed = None
    return _custom(event) if typed is None else typed


def from_production(record: dict[str, Any], emitter: str, names: Names) -> dict[str, Any]:
    """Return the event of a record. One of an unknown type keeps its fields beside its name."""
    name = record["type"]
    if name == CUSTOM:
        return _uncustom(record["kind"], record.get("fields"), names)
    edge = {"from": emitter, "to": names.name_of(record["peer"])} if type(record.get("peer")) is list else {}
    match name:
        case "DialStarted":
            return {"kind": "DialStart", **edge}
        case "DialOutcome":
            return {"kind": "DialOutcome", **edge, "warm": record["outcome"] == "Success"}
        case "ConnectionCacheInvalidated":
            return {"kind": "CacheStateChange", **edge, "transition": "invalidated"}
    fields = SHARED.get(name)
    if fields is None:
        return {"kind": name, "fields": {field: value for field, value in record.items() if field not in ENVELOPE}}
    event = {"kind": name}
    for ours, theirs, form in fields:
        value = record.get(theirs)
        event[ours] = names.name_of(value) if form.holds is NODE.holds and value is not None else value
    return event


def tag_of(kind: Any) -> str:
    """Return the `kind_tag` that an event of this kind has when nothing else tells."""
    return "swim" if kind in _SWIM_TYPES else _TAGS.get(kind, "production")


def _shared(kind: str, event: dict[str, Any], names: Names) -> dict[str, Any] | None:
    """Return the payload of a kind that both forms have, or None if this event does not fit the type."""
    fields = SHARED[kind]
    if len(event) != len(fields) + 1:
        return None
    payload: dict[str, Any] = {"type": kind}
    for ours, theirs, form in fields:
        if ours not in event:
            return None
        value = event[ours]
        if form.holds is NODE.holds and value is not None:
            value = names.id_of(value) if type(value) is str else None
            if value is None:
                return None
        elif not form.accepts(value):
            return None
        payload[theirs] = value
    return payload


def _dial_start(event: dict[str, Any], emitter: Emitter, at_ns: int, names: Names) -> dict[str, Any] | None:
    target = _target(event, emitter, ["kind", "from", "to"], names)
    if target is None:
        return None
    emitter.dialled_ns[event["to"]] = at_ns
    return {"type": "DialStarted", "peer": target, "attempt": 1, "timeout_ms": DIAL_TIMEOUT_MS}


def _dial_outcome(event: dict[str, Any], emitter: Emitter, at_ns: int, names: Names) -> dict[str, Any] | None:
    target = _target(event, emitter, ["kind", "from", "to", "warm"], names)
    if target is None or event["warm"] is not True or event["to"] not in emitter.dialled_ns:
        return None
    duration_ms = (at_ns - emitter.dialled_ns[event["to"]]) // NS_PER_MS
    return {"type": "DialOutcome", "peer": target, "attempt": 1, "outcome": "Success", "duration_ms": duration_ms}


def _target(event: dict[str, Any], emitter: Emitter, fields: list[str], names: Names) -> list[int] | None:
    """Return whom a dial of the emitter goes to, or None if the event is no such dial."""
    if [*event] != fields or event["from"] != emitter.name or type(event["to"]) is not str:
        return None
    return names.id_of(event["to"])


def _custom(event: dict[str, Any]) -> dict[str, Any]:
    """Wrap an event; one whose kind is no name goes in whole, under the empty name."""
    kind = event.get("kind")
    if type(kind) is not str or not kind:
        return {"type": CUSTOM, "kind": "", "fields": event}
    return {"type": CUSTOM, "kind": kind, "fields": {field: value for field, value in event.items() if field != "kind"}}


def _uncustom(kind: str, fields: Any, names: Names) -> dict[str, Any]:
    if type(fields) is not dict or (kind and "kind" in fields):
        return {"kind": kind, "fields": fields}
    if not kind:
        return dict(fields)
    if kind == "register_name" and all(name in fields for name in ("name", "actor_addr_hex", "our_node_id_hex")):
        return _registered(fields, names)
    return {"kind": kind, **fields}


def _registered(fields: dict[str, Any], names: Names) -> dict[str, Any]:
    """Spell production's first form of `register_name` as §6A.4 does."""
    owner = fields["our_node_id_hex"]
    known = names.name_of(bytes.fromhex(owner)) if is_hex_id(owner) else owner
    return {"kind": "register_name", "name": fields["name"], "address": fields["actor_addr_hex"], "peer_node_id": known}
