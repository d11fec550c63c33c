"""The known-answer run of the production post-processor, rebuilt from its facts: three nodes, one of which is lost."""

from copy import deepcopy
from typing import Any, Final

_BYTES: Final = {"orchestrator": 0x10, "stage-0": 0x20, "stage-1": 0x30}
_RUN: Final = "fixture-run-1"


def hex_of(label: str) -> str:
    return bytes([_BYTES[label]] * 32).hex()


def _node(label: str) -> list[int]:
    return [_BYTES[label]] * 32


def identity(label: str) -> dict[str, Any]:
    stage = label.partition("-")[2]
    return {
        "node_id_hex": hex_of(label),
        "node_id_short": hex_of(label)[:8],
        "role": "stage" if stage else label,
        "run_id": _RUN,
        "process_start_unix_ms": 0,
        "boot_sequence": 0,
        "stage_index": int(stage) if stage else None,
    }


def _dial(peer: str, attempt: int, timeout_ms: int) -> dict[str, Any]:
    return {"type": "DialStarted", "peer": _node(peer), "attempt": attempt, "timeout_ms": timeout_ms}


def _dialled(peer: str, attempt: int, outcome: str, duration_ms: int) -> dict[str, Any]:
    shape = {"type": "DialOutcome", "peer": _node(peer), "attempt": attempt}
    return {**shape, "outcome": outcome, "duration_ms": duration_ms}


def _moved(peer: str, before: str, after: str, reason: str) -> dict[str, Any]:
    return {"type": "SwimTransition", "peer": _node(peer), "from": before, "to": after, "reason": reason}


def _sent(peer: str, kind: str, size: int) -> dict[str, Any]:
    return {"type": "MessageSent", "peer": _node(peer), "kind": kind, "size": size}


def _received(peer: str, kind: str, size: int) -> dict[str, Any]:
    return {"type": "MessageReceived", "peer": _node(peer), "kind": kind, "size": size}


_EVENTS: Final = {
    "orchestrator": [
        (1000, _dial("stage-0", 1, 500)),
        (1012, _dialled("stage-0", 1, "Success", 12)),
        (1015, _moved("stage-0", "Unknown", "Alive", "joined")),
        (1100, _dial("stage-1", 1, 500)),
        (1114, _dialled("stage-1", 1, "Success", 14)),
        (1120, _moved("stage-1", "Unknown", "Alive", "joined")),
        (2000, _sent("stage-0", "ping", 32)),
        (2030, _received("stage-0", "pong", 16)),
        (2050, _sent("stage-1", "ping", 32)),
        (2080, _received("stage-1", "pong", 16)),
        (3000, _dial("stage-1", 2, 1000)),
        (4000, _dialled("stage-1", 2, "Timeout", 1000)),
        (
            4001,
            {"type": "ConnectionCacheInvalidated", "peer": _node("stage-1"), "generation": 1, "reason": "send-failed"},
        ),
        (4100, _moved("stage-1", "Alive", "Suspect", "missed-acks")),
        (5100, _moved("stage-1", "Suspect", "Dead", "suspicion-timeout")),
    ],
    "stage-0": [
        (1020, _moved("orchestrator", "Unknown", "Alive", "joined")),
        (2010, _received("orchestrator", "ping", 32)),
        (2020, _sent("orchestrator", "pong", 16)),
    ],
    "stage-1": [
        (1020, _moved("orchestrator", "Unknown", "Alive", "joined")),
        (2010, _received("orchestrator", "ping", 32)),
    ],
}


def _snapshot(
    label: str, at_ms: int, held: dict[str, tuple[str, str]], echo: tuple[int, int, int] | None
) -> dict[str, Any]:
    """Return a snapshot: state and connection of each peer, and the echo probe as (successes, attempts, rtt)."""
    body: dict[str, Any] = {
        "reachability": [
            {
                "peer_node_id_hex": hex_of(peer),
                "current_swim_opinion": state,
                "swim_transition_history": [],
            }
            for peer, (state, _) in held.items()
        ],
        "iroh": {
            "peers": [{"peer_node_id_hex": hex_of(peer), "conn_type": kind} for peer, (_, kind) in held.items()],
            "scraped_at_ms": at_ms,
        },
    }
    if echo is not None:
        successes, attempts, rtt_ms = echo
        probe = {"target": "collector:9999", "kind": "udp_echo", "last_outcome": "ok", "last_rtt_ms": rtt_ms}
        body["probes"] = {"probes": [probe | {"attempts": attempts, "successes": successes}], "scraped_at_ms": at_ms}
    return {
        "identity": identity(label),
        "run_id": _RUN,
        "snapshot_id": f"{hex_of(label)[:8]}-0",
        "wall_ms": at_ms,
        "monotonic_seq": 1,
        "trigger": {"kind": "Periodic"},
        "body": body,
    }


_UP: Final = ("Alive", "Direct")
_SNAPSHOTS: Final = {
    "orchestrator": [
        _snapshot("orchestrator", 2500, {"stage-0": _UP, "stage-1": _UP}, (1, 1, 5)),
        _snapshot("orchestrator", 5200, {"stage-0": _UP, "stage-1": ("Dead", "None")}, (3, 3, 7)),
    ],
    "stage-0": [_snapshot("stage-0", 2200, {"orchestrator": _UP, "stage-1": _UP}, None)],
    "stage-1": [_snapshot("stage-1", 2200, {"orchestrator": _UP, "stage-0": _UP}, None)],
}


def files() -> dict[str, Any]:
    """Return the run's files by path, as values."""
    found: dict[str, Any] = {
        f"{_RUN}/MANIFEST.json": {
            "run_id": _RUN,
            "run_start_collector_ms": 0,
            "run_end_collector_ms": 0,
            "finalize_received": True,
            "nodes": [
                {
                    "node_id_hex": hex_of(label),
                    "label": label,
                    "role": identity(label)["role"],
                    "stage_index": identity(label)["stage_index"],
                    "boot_recorded": True,
                    "event_batches": 1,
                    "snapshots": len(_SNAPSHOTS[label]),
                    "finalize_recorded": label == "orchestrator",
                }
                for label in _BYTES
            ],
        },
        f"{_RUN}/orchestrator/finalize.json": {"exit_reason": "done"},
    }
    for label, events in _EVENTS.items():
        found[f"{_RUN}/{label}/boot.json"] = identity(label)
        found[f"{_RUN}/{label}/events/events-000001.json"] = [
            {"node_id": _node(label), "monotonic_seq": number, "wall_ms": at_ms, **payload}
            for number, (at_ms, payload) in enumerate(events, 1)
        ]
        for number, snapshot in enumerate(_SNAPSHOTS[label], 1):
            found[f"{_RUN}/{label}/snapshots/snapshot-{number:06}.json"] = snapshot
    return deepcopy(found)  # a test may damage what it gets
