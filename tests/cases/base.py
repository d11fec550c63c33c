"""BASE(n) of the handed cases, as TOML text through the loader, and a finished run as something to ask questions of.

BASE(n) is n SWIM peers `a`, `b`, `c` and so on in a full mesh without impairments, with a snapshot every second.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any, Final

import msgspec
import orjson
import tomli_w

from simharness.assertions.streaming import StreamingEvaluator
from simharness.bundle.memory import MemorySink
from simharness.contracts.assertions import Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.records import Record, SnapshotRecord
from simharness.contracts.scenario import Scenario
from simharness.hosts.kinds import Kinds
from simharness.run import engine_for
from simharness.scenario.loader import loads

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
TICK: Final = 100 * MS

Document = dict[str, Any]
"""A scenario as the plain data of its TOML file."""

SWIM: Final[Mapping[str, Any]] = {
    "probe_interval_ns": SECOND,
    "probe_timeout_ns": 500 * MS,
    "suspicion_timeout_ns": 3 * SECOND,
    "indirect_probes": 2,
    "max_message_bytes": 1_400,
    "retransmit_mult": 4,
}
"""The `kind_config` of every BASE peer."""

LINK: Final[Mapping[str, Any]] = {
    "latency_ns": 20 * MS,
    "jitter_stddev_ns": 0,
    "loss_prob_ppm": 0,
    "reorder_prob_ppm": 0,
    "bandwidth_bps": 10_000_000_000_000,
    "cold_dial_penalty_ns": 0,
    "cache_warm_after_ns": 0,
    "cache_invalidate_after_idle_ns": 3_600 * SECOND,
}
"""BASE's links: serialisation takes no time, a dial costs nothing."""


def ids(count: int) -> list[str]:
    """Return `a`, `b`, `c` and so on; past the alphabet `n00`, `n01` and so on."""
    return [chr(ord("a") + i) for i in range(count)] if count <= 26 else [f"n{i:03}" for i in range(count)]


def base(
    peers: int | Iterable[str],
    *,
    seed: int = 7,
    duration_ns: int = 60 * SECOND,
    snapshot_every_ns: int = SECOND,
    **swim: Any,
) -> Document:
    """Return BASE(n), or BASE over the named peers. `swim` replaces fields of every peer's `kind_config`."""
    names = ids(peers) if isinstance(peers, int) else list(peers)
    return {
        "name": "base",
        "seed": seed,
        "duration_ns": duration_ns,
        "default_tick": {"period_ns": TICK},
        "default_link": dict(LINK),
        "peers": [swim_peer(name, **swim) for name in names],
        "meshes": [{"shape": "full"}],
        "links": [],
        "mutations": [],
        "snapshots": [{"at_ns": at} for at in range(snapshot_every_ns, duration_ns + 1, snapshot_every_ns)],
        "assertions": [],
    }


def swim_peer(name: str, **swim: Any) -> Document:
    """Return one BASE peer; a field given as None is left out."""
    config = {field: value for field, value in (dict(SWIM) | swim).items() if value is not None}
    return {"id": name, "kind": "swim", "initial_state": "alive", "kind_config": config}


def both_ways(one: str, other: str) -> list[dict[str, str]]:
    """Return the two directed legs between two peers."""
    return [{"from": one, "to": other}, {"from": other, "to": one}]


def lossy(document: Document, one: str, other: str) -> Document:
    """Return the document with the pair's two links losing everything."""
    changed = deepcopy(document)
    changed["links"] += [leg | {"loss_prob_ppm": 1_000_000} for leg in both_ways(one, other)]
    return changed


def at(at_ns: int, kind: str, **parameters: Any) -> Document:
    """Return one mutation."""
    return {"at_ns": at_ns, "kind": kind, **parameters}


def claim(kind: str, **parameters: Any) -> Document:
    """Return one assertion."""
    return {"kind": kind, **parameters}


def parsed(document: Document, kinds: KindRegistry | None = None) -> Scenario:
    """Load the document as TOML text."""
    return loads(tomli_w.dumps(document), Kinds() if kinds is None else kinds)


class Event(msgspec.Struct, frozen=True):
    """One event of a log, without its envelope's sequence."""

    at_ns: int
    host: str | None
    fields: dict[str, Any]

    def __getitem__(self, field: str) -> Any:
        """Return a field of the payload by name."""
        return self.fields[field]


class Run:
    """A finished run: its events in bundle order, its snapshots, its verdicts."""

    def __init__(self, scenario: Scenario, records: list[Any], verdicts: tuple[Verdict, ...], dispatches: int) -> None:
        self.scenario, self.records, self.verdicts, self.dispatches = scenario, records, verdicts, dispatches

    @property
    def outcomes(self) -> list[str]:
        """The outcome of every assertion, in declared order."""
        return [verdict.outcome for verdict in self.verdicts]

    @cached_property
    def _by_kind(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        records = [record for record in self.records if not isinstance(record, SnapshotRecord)]
        for record in sorted(records, key=lambda record: (record.virtual_time_ns, record.sequence)):
            event = record.event
            found.setdefault(event["kind"], []).append(Event(record.virtual_time_ns, record.host_id, event))
        return found

    def events(self, kind: str, host: str | None = None, **fields: Any) -> list[Event]:
        """Return the events of one kind, of one host if named, that carry these field values."""
        return [
            event
            for event in self._by_kind.get(kind, ())
            if host in (None, event.host) and all(event.fields.get(key) == value for key, value in fields.items())
        ]

    def transitions(self, to: str | None = None, *, host: str | None = None, peer: str | None = None) -> list[Event]:
        """Return changes of opinion: towards a state, by a host, about a peer."""
        wanted = {key: value for key, value in (("to", to), ("peer", peer)) if value is not None}
        return self.events("SwimTransition", host, **wanted)

    def snapshots(self, host: str | None = None) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield (time, host, state) of every snapshot, of one host if named."""
        for record in self.records:
            if isinstance(record, SnapshotRecord) and host in (None, record.host_id):
                yield record.virtual_time_ns, record.host_id, orjson.loads(record.snapshot)

    def views(self, observer: str) -> Iterator[tuple[int, dict[str, tuple[str, int]]]]:
        """Yield (time, peer -> (state, incarnation)) of every snapshot of one observer."""
        for at_ns, _, state in self.snapshots(observer):
            yield at_ns, view_in(state)

    def view(self, observer: str, subject: str, at_ns: int) -> tuple[str, int]:
        """Return what the observer's last snapshot up to then shows of the subject."""
        return [view[subject] for taken, view in self.views(observer) if taken <= at_ns][-1]

    def incarnations(self, host: str) -> list[int]:
        """Return the values that the host's own incarnation took, in order, as bumps and snapshots show them."""
        seen = [(event.at_ns, event["to"]) for event in self.events("SwimIncarnationBumped", host)]
        seen += [(at_ns, state["self_incarnation"]) for at_ns, _, state in self.snapshots(host)]
        values = [value for _, value in sorted(seen)]
        return [value for place, value in enumerate(values) if place == 0 or value != values[place - 1]]


def view_in(state: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Return peer -> (state, incarnation) of one SWIM snapshot; a peer that the node holds no opinion of is left out."""
    return {
        entry["peer"]: (entry["state"], entry["incarnation"])
        for entry in state.get("peers", ())
        if entry["state"] != "Unknown"
    }


class _Chosen(MemorySink):
    """Keeps snapshots and the events of some kinds only: a long run then fits into memory."""

    def __init__(self, keep: Container[str]) -> None:
        super().__init__()
        self._keep = keep

    def write_record(self, record: Record) -> None:
        if isinstance(record, SnapshotRecord) or record.event["kind"] in self._keep:
            self.records.append(record)


def run(document: Document, *, kinds: KindRegistry | None = None, keep: Container[str] | None = None) -> Run:
    """Load and run a document; its assertions are judged by the streaming folds. `keep` names the event kinds wanted."""
    registry = Kinds() if kinds is None else kinds
    return run_scenario(parsed(document, registry), registry, keep=keep)


def run_scenario(scenario: Scenario, kinds: KindRegistry | None = None, *, keep: Container[str] | None = None) -> Run:
    """Run a loaded scenario; see `run`."""
    sink = MemorySink() if keep is None else _Chosen(keep)
    evaluator = StreamingEvaluator(scenario)
    engine = engine_for(scenario, Kinds() if kinds is None else kinds, sink, evaluator=evaluator)
    termination = engine.run()
    assert termination.reason == "duration"
    verdicts = evaluator.close(termination.at_ns)
    return Run(scenario, sink.records, verdicts, engine.dispatches)
