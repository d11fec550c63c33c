"""Whole runs of small scenarios with stages, in memory."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import tomli_w

from simharness.assertions.streaming import StreamingEvaluator
from simharness.bundle.memory import MemorySink
from simharness.contracts.records import EventRecord, MutationRecord, SnapshotRecord
from simharness.contracts.scenario import Scenario
from simharness.core import canonical_json
from simharness.core.streams import Root
from simharness.engine.engine import Engine
from simharness.hosts.kinds import Kinds
from simharness.run import engine_for
from simharness.scenario.loader import loads

MS: Final = 10**6
S: Final = 10**9
TICK: Final = 100 * MS
KINDS: Final = Kinds()
SWIM: Final = {"probe_interval_ns": S, "suspicion_timeout_ns": 5 * S}
LINK: Final = {
    "latency_ns": 5 * MS,
    "jitter_stddev_ns": 0,
    "loss_prob_ppm": 0,
    "reorder_prob_ppm": 0,
    "bandwidth_bps": 10**8,
    "cold_dial_penalty_ns": 0,
    "cache_warm_after_ns": 0,
    "cache_invalidate_after_idle_ns": 10**12,
}


def swim(peer_id: str, **config: Any) -> dict[str, Any]:
    """A swim peer."""
    return {"id": peer_id, "kind": "swim", "initial_state": "alive", "kind_config": SWIM | config}


def stage(peer_id: str, *, node: Mapping[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    """A stage called `pp-<id>`; with `node`, it embeds a SWIM node of that configuration."""
    table: dict[str, Any] = {"name": f"pp-{peer_id}", "address": f"{peer_id}:7700"} | config
    if node is not None:
        table["node"] = SWIM | dict(node)
    return {"id": peer_id, "kind": "stage", "initial_state": "cold", "kind_config": table}


def scenario(*peers: dict[str, Any], duration_ns: int, seed: int = 1, **tables: Any) -> Scenario:
    """Load a scenario of these peers, all linked with each other."""
    document = {
        "name": "stages",
        "seed": seed,
        "duration_ns": duration_ns,
        "default_tick": {"period_ns": TICK},
        "default_link": LINK,
        "peers": list(peers),
        "meshes": [{"shape": "full"}],
    }
    return loads(tomli_w.dumps(document | tables), KINDS)


def start_ns(peer_id: str, seed: int = 1) -> int:
    """When the first tick of a peer falls (§4.3)."""
    return Root(seed).host(peer_id, "tick_offset").u64() % TICK


class Run:
    """A finished run: its event lines, its snapshots, its verdicts."""

    def __init__(self, declared: Scenario, drive: Callable[[Engine], object] = Engine.run) -> None:
        self.sink = MemorySink()
        evaluator = StreamingEvaluator(declared)
        self.engine = engine_for(declared, KINDS, self.sink, evaluator=evaluator)
        drive(self.engine)
        self.verdicts = [verdict.outcome for verdict in evaluator.close(declared.duration_ns)]

    def events(self, *kinds: str, host: str | None = None) -> list[tuple[int, str | None, dict[str, Any]]]:
        """(time, host, event) of the events of these kinds, in file order."""
        records = [r for r in self.sink.records if isinstance(r, EventRecord | MutationRecord)]
        records.sort(key=lambda r: (r.virtual_time_ns, r.sequence))
        return [
            (r.virtual_time_ns, r.host_id, r.event)
            for r in records
            if r.event["kind"] in kinds and host in (None, r.host_id)
        ]

    def kinds(self, host: str) -> list[str]:
        """The kinds of a stage's own records, in order."""
        return [event["kind"] for _, _, event in self.events(*STAGE_KINDS, host=host)]

    def moves(self, host: str) -> list[tuple[str, str]]:
        """The lifecycle of a host, in order."""
        return [(event["from"], event["to"]) for _, _, event in self.events("stage_lifecycle", host=host)]

    def snapshots(self, host: str) -> dict[int, dict[str, Any]]:
        """The snapshots of a host by time."""
        taken = [r for r in self.sink.records if isinstance(r, SnapshotRecord) and r.host_id == host]
        return {r.virtual_time_ns: canonical_json.parse(r.snapshot) for r in taken}

    def names(self, host: str) -> dict[int, dict[str, str]]:
        """The name registry in each snapshot of a host, by time."""
        return {at_ns: state["name_registry"] for at_ns, state in self.snapshots(host).items()}


STAGE_KINDS: Final = (
    "stage_lifecycle",
    "register_name",
    "worker_exited",
    "SubprocessSpawned",
    "worker_ready",
    "SubprocessExited",
)
START: Final = [("Cold", "Registering"), ("Registering", "Running")]
LIFE: Final = [*START, ("Running", "Halted")]


def at(*times: int) -> list[dict[str, int]]:
    """Snapshots at these times."""
    return [{"at_ns": time} for time in times]


def exits(peer: str, at_ns: int, reason: str = "crash", **more: int) -> dict[str, Any]:
    """A worker exit."""
    return {"kind": "worker_exit", "at_ns": at_ns, "peer": peer, "reason": reason} | more


def resolves(name: str, *observers: str, from_ns: int, within_ns: int) -> dict[str, Any]:
    """The assertion that these observers know a name in the window."""
    return {
        "kind": "name_resolves_within",
        "name": name,
        "observers": list(observers),
        "from_ns": from_ns,
        "within_ns": within_ns,
    }
