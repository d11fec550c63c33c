"""Hand-made runs, judged live and after the fact."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import tomli_w

from simharness.assertions import post_run
from simharness.assertions.streaming import StreamingEvaluator
from simharness.bundle.manifest import RunFacts
from simharness.bundle.reader import Bundle, EventLine, SnapshotFile
from simharness.bundle.writer import BundleWriter
from simharness.contracts.assertions import Assertion, Outcome, Verdict
from simharness.contracts.links import LinkPolicy
from simharness.contracts.mutations import Mutation, PeerKill, PeerResurrect, RelayKill, as_table
from simharness.contracts.records import EventRecord, MutationRecord, Record, SnapshotRecord, Termination
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.core.canonical_json import compact, parse

TICK: Final = 1
TIMEOUT: Final = 6
"""The suspicion timeout of every SWIM peer here."""

_LINK: Final = LinkPolicy(
    latency_ns=0,
    jitter_stddev_ns=0,
    loss_prob_ppm=0,
    reorder_prob_ppm=0,
    bandwidth_bps=1,
    cold_dial_penalty_ns=0,
    cache_warm_after_ns=0,
    cache_invalidate_after_idle_ns=0,
)


def swim(peer: str, **config: Any) -> PeerDecl:
    table = {"suspicion_timeout_ns": TIMEOUT, "initial_incarnation": 0} | config
    return PeerDecl(id=peer, kind="swim", initial_state="alive", kind_config=table)


def stage(peer: str, *, node: bool = False) -> PeerDecl:
    config: dict[str, Any] = {"name": f"name-{peer}", "address": "x"}
    if node:
        config["node"] = {"suspicion_timeout_ns": TIMEOUT}
    return PeerDecl(id=peer, kind="stage", initial_state="cold", kind_config=config)


PEERS: Final = (swim("a"), swim("b"), swim("c"), stage("s"))


def scenario(assertions: Iterable[Assertion], peers: Sequence[PeerDecl] = PEERS) -> Scenario:
    return Scenario(
        name="hand-made",
        seed=1,
        duration_ns=100,
        default_tick_period_ns=TICK,
        default_link=_LINK,
        peers=tuple(peers),
        assertions=tuple(assertions),
    )


def toml(made: Scenario) -> str:
    peers = [
        {"id": p.id, "kind": p.kind, "initial_state": p.initial_state, "kind_config": p.kind_config}
        | ({} if p.tick_period_ns_override is None else {"tick_period_ns_override": p.tick_period_ns_override})
        for p in made.peers
    ]
    return tomli_w.dumps(
        {
            "name": made.name,
            "default_tick": {"period_ns": made.default_tick_period_ns},
            "peers": peers,
            "assertions": [as_table(assertion) for assertion in made.assertions],
        }
    )


class Run:
    """Records in order of emission; every method adds one and returns the run."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = list(records)
        self._mutations = 0

    def __repr__(self) -> str:
        return "\n".join(map(str, self.records))

    def event(self, at_ns: int, host: str | None, kind: str, kind_tag: str = "swim", **fields: Any) -> "Run":
        fields = {name.rstrip("_"): value for name, value in fields.items()}
        self.records.append(EventRecord(at_ns, len(self.records), host, kind_tag, {"kind": kind, **fields}))
        return self

    def turn(self, at_ns: int, observer: str, peer: str, before: str, after: str) -> "Run":
        return self.event(at_ns, observer, "SwimTransition", peer=peer, from_=before, to=after, reason="gossip")

    def acked(self, at_ns: int, observer: str, target: str, probe_kind: str = "direct") -> "Run":
        return self.event(at_ns, observer, "SwimProbeAcked", target=target, sequence=1, probe_kind=probe_kind)

    def timed_out(self, at_ns: int, observer: str, target: str, probe_kind: str = "indirect") -> "Run":
        return self.event(
            at_ns, observer, "SwimProbeTimedOut", target=target, sequence=1, probe_kind=probe_kind, budget_ticks=1
        )

    def lifecycle(self, at_ns: int, host: str, before: str, after: str) -> "Run":
        return self.event(at_ns, host, "stage_lifecycle", "stage", from_=before, to=after)

    def relay(self, at_ns: int, kind: str, byte_len: int, relay: str = "R") -> "Run":
        return self.event(
            at_ns, None, kind, "relay", relay=relay, from_="a", to="b", byte_len=byte_len, enqueued_bytes=0
        )

    def sent(self, at_ns: int, host: str, message_kind: str, size: int) -> "Run":
        return self.event(at_ns, host, "MessageSent", peer="b", message_kind=message_kind, size=size)

    def snap(
        self,
        at_ns: int,
        host: str,
        states: dict[str, str] | None = None,
        *,
        names: Sequence[str] = (),
        incarnation: int = 0,
    ) -> "Run":
        body: dict[str, Any] = {"self_id": host, "self_incarnation": incarnation}
        if states:
            body["peers"] = [{"peer": peer, "state": state, "incarnation": 0} for peer, state in states.items()]
        body["name_registry"] = dict.fromkeys(names, "x")
        self.records.append(SnapshotRecord(at_ns, len(self.records), host, "swim", compact(body)))
        return self

    def snaps(self, at_ns: int, *hosts: str, **states: str) -> "Run":
        """Each host shows every other one Alive, but for `states`."""
        for host in hosts:
            self.snap(
                at_ns,
                host,
                {peer: states.get(peer, "Alive") for peer in hosts if peer != host}
                | {peer: state for peer, state in states.items() if peer != host},
            )
        return self

    def mutate(self, mutation: Mutation) -> "Run":
        self.records.append(MutationRecord(mutation.at_ns, len(self.records), self._mutations, mutation))
        self._mutations += 1
        return self

    def kill(self, at_ns: int, peer: str) -> "Run":
        return self.mutate(PeerKill(at_ns=at_ns, peer=peer))

    def resurrect(self, at_ns: int, peer: str, *, preserve: bool = False) -> "Run":
        return self.mutate(PeerResurrect(at_ns=at_ns, peer=peer, preserve_state=preserve))

    def relay_kill(self, at_ns: int, relay: str = "R") -> "Run":
        return self.mutate(RelayKill(at_ns=at_ns, relay=relay))


def file_order(records: Iterable[Record]) -> tuple[list[EventRecord | MutationRecord], dict[str, list[SnapshotRecord]]]:
    """Events by line, and the snapshots of each host by number (ruling B1)."""
    ordered = sorted(records, key=lambda record: (record.virtual_time_ns, record.sequence))
    shots: dict[str, list[SnapshotRecord]] = {}
    for record in ordered:
        if isinstance(record, SnapshotRecord):
            shots.setdefault(record.host_id, []).append(record)
    return [record for record in ordered if not isinstance(record, SnapshotRecord)], shots


class InMemory(Bundle):
    """The bundle of some records, without a disk."""

    def __init__(self, made: Scenario, records: Iterable[Record], end: Termination) -> None:
        self.root = Path("in-memory")
        self._text = toml(made)
        self._events, self._shots = file_order(records)
        self.manifest = {"termination": {"reason": end.reason, "at_ns": end.at_ns}}

    @property
    def scenario_text(self) -> str:
        return self._text

    def events(self) -> Iterator[EventLine]:
        for line, record in enumerate(self._events):
            yield EventLine(line, record.virtual_time_ns, record.host_id, record.kind_tag, record.event)

    def snapshots(self) -> Iterator[SnapshotFile]:
        files = [
            SnapshotFile(record.virtual_time_ns, host, number, record.kind_tag, parse(record.snapshot))
            for host, shots in self._shots.items()
            for number, record in enumerate(shots)
        ]
        return iter(sorted(files, key=lambda file: file[:3]))


@dataclasses.dataclass(frozen=True)
class Judgement:
    """An outcome and the sequences of the records it rests on; -1 stands for the whole event stream."""

    outcome: Outcome
    evidence: tuple[int, ...]

    @property
    def first(self) -> int | None:
        return self.evidence[0] if self.evidence else None


def cited(verdict: Verdict, records: Sequence[Record]) -> Judgement:
    """Resolve the references of a verdict, checking their times."""
    events, shots = file_order(records)
    by_sequence = {record.sequence: record for record in records}
    evidence = []
    for item in verdict.evidence:
        ref = item.event_or_snapshot_ref
        record: Record
        if ref == "events.ndjson":
            evidence.append(-1)
            continue
        if ref.startswith("record:"):
            record = by_sequence[int(ref.removeprefix("record:"))]
        elif ref.startswith("events.ndjson:"):
            record = events[int(ref.removeprefix("events.ndjson:"))]
        else:
            _, host, name = ref.split("/")
            record = shots[host][int(name.removesuffix(".json"))]
        assert record.virtual_time_ns == item.virtual_time_ns
        evidence.append(record.sequence)
    return Judgement(verdict.outcome, tuple(evidence))


def live(made: Scenario, records: Sequence[Record], end: Termination) -> tuple[Judgement, ...]:
    """Judge while the records come."""
    evaluator = StreamingEvaluator(made)
    for record in records:
        evaluator.observe(record)
    verdicts = evaluator.close(end.at_ns, cut=end.reason != "duration")
    return tuple(cited(verdict, records) for verdict in verdicts)


def afterwards(made: Scenario, records: Sequence[Record], end: Termination) -> tuple[Judgement, ...]:
    """Judge the finished bundle, kept in memory."""
    return tuple(cited(verdict, records) for verdict in post_run.evaluate(InMemory(made, records, end)))


def judge(
    assertion: Assertion, run: Run, *, end_ns: int = 100, reason: str = "duration", peers: Sequence[PeerDecl] = PEERS
) -> Judgement:
    """Judge one assertion both ways; they must agree."""
    end = Termination(reason=reason, at_ns=end_ns)  # type: ignore[arg-type]
    made = scenario((assertion,), peers)
    (streamed,), (post,) = live(made, run.records, end), afterwards(made, run.records, end)
    assert streamed == post
    return post


def outcome(assertion: Assertion, run: Run, **options: Any) -> str:
    return judge(assertion, run, **options).outcome


def failed_at(assertion: Assertion, run: Run, **options: Any) -> tuple[int, ...]:
    """The sequences of the records that a Fail rests on."""
    judgement = judge(assertion, run, **options)
    assert judgement.outcome == "Fail"
    return judgement.evidence


FACTS: Final = RunFacts(
    simulator_version="0", scenario_path="hand.toml", source=(), seed=1, duration_ns=100, host_architecture="x"
)


def bundle(final: Path, made: Scenario, records: Iterable[Record], end: Termination) -> Bundle:
    """Write a real bundle with its verdicts."""
    with BundleWriter(final, scenario_toml=toml(made), facts=FACTS) as writer:
        for record in records:
            writer.write_record(record)
        return Bundle(writer.finish(end, finalize_received=True, judge=post_run.write_verdicts))
