"""The records that the network asks the engine to write (§4.7, §9.1); key order as in the event schema."""

from simharness.contracts.network import Notice


def dial_start(at_ns: int, host_id: str | None, source: str, target: str) -> Notice:
    """Return the notice that a cold leg is being dialled."""
    return Notice(at_ns, host_id, "engine", {"kind": "DialStart", "from": source, "to": target})


def dial_outcome(at_ns: int, host_id: str | None, source: str, target: str) -> Notice:
    """Return the notice that a dial succeeded; it does so when its first message arrives (ruling N12)."""
    return Notice(at_ns, host_id, "engine", {"kind": "DialOutcome", "from": source, "to": target, "warm": True})


def cache_change(at_ns: int, host_id: str | None, source: str, target: str, transition: str) -> Notice:
    """Return the notice of a cache transition: `warmed`, `idle_cooled` or `invalidated`."""
    event = {"kind": "CacheStateChange", "from": source, "to": target, "transition": transition}
    return Notice(at_ns, host_id, "engine", event)


def relay_enqueue(at_ns: int, relay: str, source: str, target: str, byte_len: int) -> Notice:
    """Return the notice that a message reached the relay and was queued."""
    event = {"kind": "RelayEnqueue", "relay": relay, "from": source, "to": target, "byte_len": byte_len}
    return Notice(at_ns, None, "relay", event, relay, byte_len)


def relay_dequeue(at_ns: int, relay: str, source: str, target: str, byte_len: int) -> Notice:
    """Return the notice that the last byte of a message left the relay."""
    event = {"kind": "RelayDequeue", "relay": relay, "from": source, "to": target, "byte_len": byte_len}
    return Notice(at_ns, None, "relay", event, relay, -byte_len)


def relay_drop(at_ns: int, relay: str, source: str, target: str, byte_len: int, reason: str) -> Notice:
    """Return the notice that the relay refused a message: `queue_full`, `down` or `peer_conn_down`."""
    event = {"kind": "RelayDrop", "relay": relay, "from": source, "to": target, "byte_len": byte_len, "reason": reason}
    return Notice(at_ns, None, "relay", event, relay, 0)
