"""A host kind whose behaviour is a pair of functions, and a network with constant latency: enough to test the engine alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simharness.contracts.host import (
    Action,
    App,
    HostContext,
    PeerFacts,
    RecordEvent,
    SendFailed,
    Slow,
    TimerFired,
    Validated,
    Wire,
)
from simharness.contracts.links import LinkPolicy
from simharness.contracts.mutations import AIMED_KINDS, Mutation, Partition, PeerKill
from simharness.contracts.network import Arrive, Drop, InvalidatedDelivery, MutationEffect, Notice
from simharness.contracts.records import EventRecord, MutationRecord, Record
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.disk.crash import CrashDisk

MS = 1_000_000
POLICY = LinkPolicy(
    latency_ns=MS,
    jitter_stddev_ns=0,
    loss_prob_ppm=0,
    reorder_prob_ppm=0,
    bandwidth_bps=10**12,
    cold_dial_penalty_ns=0,
    cache_warm_after_ns=0,
    cache_invalidate_after_idle_ns=10**15,
)

Behaviour = Callable[["ScriptedHost", int], Sequence[Action]]
Receive = Callable[["ScriptedHost", Any, int], Sequence[Action]]


def heard(host: ScriptedHost, message: Any, now_ns: int) -> Sequence[Action]:
    """Record whatever reached `recv`."""
    return (RecordEvent({"kind": "heard", "what": describe(message)}),)


def describe(message: Any) -> str:
    """Return one word for a message or an envelope."""
    match message:
        case App(message=payload):
            return f"app {payload.decode()}"
        case TimerFired(token=token):
            return f"timer {token}"
        case SendFailed(to=to, reason=reason):
            return f"failed {to} {reason}"
        case Slow(factor_x100=factor_x100):
            return f"slow {factor_x100}"
        case _:
            return f"exit {message.reason}"


class ScriptedHost:
    """Calls the script; counts ticks."""

    kind_tag = "scripted"

    def __init__(self, context: HostContext, tick: Behaviour, recv: Receive) -> None:
        self.id, self.instance, self.ticks = context.host_id, context.instance, 0
        self.disk = context.disk
        self._tick, self._recv = tick, recv

    def tick(self, now_ns: int) -> Sequence[Action]:
        self.ticks += 1
        return self._tick(self, now_ns)

    def recv(self, message: Any, now_ns: int) -> Sequence[Action]:
        return self._recv(self, message, now_ns)

    def snapshot(self) -> bytes:
        return f'{{"ticks":{self.ticks}}}'.encode()


class ScriptedKind:
    """Messages are bytes."""

    kind_tag = "scripted"
    accepts = AIMED_KINDS

    def __init__(self, tick: Behaviour, recv: Receive = heard, *, accepts_worker_exit: bool = False) -> None:
        self._tick, self._recv = tick, recv
        self.accepts_worker_exit = accepts_worker_exit
        self.codec = self

    def encode(self, message: bytes) -> Wire:
        return Wire("scripted", message)

    def decode(self, wire: Wire) -> bytes:
        if wire.payload == b"garbage":
            raise ValueError("cannot read garbage")
        return wire.payload

    def frame_overhead(self, tag: str) -> int:
        return len(tag)

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        return Validated(dict(config))

    def new(self, context: HostContext) -> ScriptedHost:
        return ScriptedHost(context, self._tick, self._recv)


class ConstantNetwork:
    """Every pair has the same latency; names in `refuse` map a pair to a drop reason. Keeps what is in flight."""

    def __init__(self, latency_ns: int = MS, refuse: Mapping[tuple[str, str], str] | None = None) -> None:
        self.latency_ns, self.refuse = latency_ns, dict(refuse or {})
        self.sent: list[tuple[str, str, int, int]] = []
        self.in_flight: list[InvalidatedDelivery] = []
        self.notices: tuple[Notice, ...] = ()

    def send(self, source: str, target: str, byte_len: int, sent_at_ns: int) -> Arrive | Drop:
        self.sent.append((source, target, byte_len, sent_at_ns))
        reason = self.refuse.get((source, target))
        if reason is not None:
            return Drop(reason)  # type: ignore[arg-type]
        at_ns, number = sent_at_ns + self.latency_ns, len(self.sent)
        self.in_flight.append(InvalidatedDelivery(at_ns, number, source, target, sent_at_ns, "partition"))
        return Arrive(at_ns, number, self.notices)

    def apply_mutation(self, mutation: Mutation, at_ns: int) -> MutationEffect:
        if isinstance(mutation, Partition):
            cut = {frozenset((a, b)) for a in mutation.peers_a for b in mutation.peers_b}
            gone = [f for f in self.in_flight if f.at_ns >= at_ns and frozenset((f.source, f.target)) in cut]
        elif isinstance(mutation, PeerKill):
            gone = [f for f in self.in_flight if f.at_ns >= at_ns and f.target == mutation.peer]
            gone = [f._replace(reason="host_killed") for f in gone]
        else:
            gone = []
        numbers = {f.message_id for f in gone}
        self.in_flight = [f for f in self.in_flight if f.message_id not in numbers]
        return MutationEffect(invalidated=tuple(gone))


class Log:
    """A sink that keeps every record."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write_record(self, record: Record) -> None:
        self.records.append(record)

    def lines(self) -> list[tuple[int, str | None, str, dict[str, Any]]]:
        """Return the event lines, without snapshots."""
        return [
            (r.virtual_time_ns, r.host_id, r.kind_tag, r.event)
            for r in self.records
            if isinstance(r, EventRecord | MutationRecord)
        ]

    def heard(self, host_id: str) -> list[tuple[int, str]]:
        """Return what one scripted host heard, with times."""
        return [
            (t, event["what"]) for t, host, _, event in self.lines() if host == host_id and event["kind"] == "heard"
        ]

    def of_kind(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        """Return the events of one kind, with times."""
        return [(t, event) for t, _, _, event in self.lines() if event["kind"] == kind]


def disks_of(script: Scenario) -> dict[str, CrashDisk]:
    """Return an empty disk for every peer."""
    return {peer.id: CrashDisk() for peer in script.peers}


def scenario(
    *ids: str,
    duration_ns: int = 100 * MS,
    period_ns: int = 10 * MS,
    seed: int = 1,
    **more: Any,
) -> Scenario:
    """Return a scenario of scripted peers without links: the constant network asks for none."""
    peers = tuple(PeerDecl(id=i, kind="scripted", initial_state="ready", kind_config={}) for i in ids)
    return Scenario(
        name="scripted",
        seed=seed,
        duration_ns=duration_ns,
        default_tick_period_ns=period_ns,
        default_link=POLICY,
        peers=peers,
        **more,
    )
