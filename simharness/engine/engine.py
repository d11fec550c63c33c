"""The engine: pops, dispatches, processes actions (§4). The clock moves only on a pop."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from traceback import extract_tb
from typing import Any, Final, NoReturn

from simharness.contracts.host import (
    Action,
    App,
    Halt,
    HostKind,
    RecordEvent,
    ScheduleTimer,
    Send,
    SendFailed,
    TimerFired,
    WorkerExited,
)
from simharness.contracts.mutations import Mutation, PeerKill, PeerResurrect, WorkerExit
from simharness.contracts.network import Arrive, Drop, Network, Notice
from simharness.contracts.ports import DeliveryObserver, LiveEvaluator, RecordSink
from simharness.contracts.records import EventRecord, MutationRecord, Record, SnapshotRecord, Termination
from simharness.contracts.scenario import Scenario, SnapshotDecl
from simharness.core.errors import EngineAbort, SimharnessError
from simharness.core.streams import Root
from simharness.engine.queue import (
    DELIVER,
    END,
    FAILED,
    FIRST_TICKS,
    MUTATE,
    MUTATIONS,
    NOTICE,
    RELAY_DEQUEUES,
    RUNTIME,
    SNAPSHOT,
    SNAPSHOTS,
    TERMINATE,
    TICK,
    TIMER,
    Entry,
    band,
    heappop,
    heappush,
)
from simharness.engine.slots import Slot

_NEVER: Final = 1 << 80
"""Later than every virtual time."""

SAME_INSTANT_LIMIT: Final = 1_000_000
"""Dispatches at one instant before a run counts as a zero-delay loop (ruling E20)."""


class Engine:
    """One run of one scenario.

    Drive it with `run()`, or step by step: `run_until(t)` stops before the first entry at `t`, `inject` adds a mutation or a
    snapshot dated at `t` or later, `finish(T)` ends the run at `T`. Both ways give the same records.

    Args:
        scenario: The validated scenario; its declared mutations and snapshots are enqueued at once.
        network: Answers sends and takes mutations.
        kinds: A host kind for every kind that the scenario names.
        sink: Takes every record.
        evaluator: The streaming evaluator; it sees every record, and is asked for early termination if the scenario wants it.
        observer: Sees the delay decomposition of each delivery.
        max_dispatches: Abort after this many dispatches in total; None for no limit.
        max_same_instant: Abort after this many dispatches at one virtual instant.

    Raises:
        EngineAbort: From every driving method, for whatever §4 forbids.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        network: Network,
        kinds: Mapping[str, HostKind],
        sink: RecordSink,
        evaluator: LiveEvaluator | None = None,
        observer: DeliveryObserver | None = None,
        max_dispatches: int | None = None,
        max_same_instant: int = SAME_INSTANT_LIMIT,
    ) -> None:
        self._network, self._sink, self._evaluator, self._observer = network, sink, evaluator, observer
        self._route = network.send
        self._duration_ns = scenario.duration_ns
        self._early = evaluator is not None and scenario.early_terminate_on_all_assertions_resolved
        self._max_dispatches, self._max_same_instant = max_dispatches, max_same_instant
        root = Root(scenario.seed)
        self._slots: dict[str, Slot] = {}
        for peer in scenario.peers:
            if peer.kind not in kinds:
                raise EngineAbort(rule="unknown-kind", detail=f"no host kind {peer.kind!r}", host_id=peer.id)
            self._slots[peer.id] = Slot(peer, scenario, kinds[peer.kind], root)
        self._by_id = tuple(self._slots[peer_id] for peer_id in sorted(self._slots))
        self._heap: list[Entry] = []
        self._relay_dequeue_seq, self._runtime_seq = band(RELAY_DEQUEUES), band(RUNTIME)
        self._mutation_seq, self._snapshot_seq, self._end_seq = band(MUTATIONS), band(SNAPSHOTS), band(TERMINATE)
        self._mutations = 0
        self._now_ns = 0
        self._reached_ns = 0
        self._dispatches = 0
        self._before_this_instant = 0  # dispatches that were over when the clock last moved
        self._records = 0
        self._relay_bytes: dict[str, int] = {}
        self._lost: set[int] = set()  # messages whose delivery and link notices were invalidated
        self._killed: set[int] = set()  # messages whose relay notices died with their relay
        self._current: Slot | None = None
        self._termination: Termination | None = None
        for slot, sequence in zip(self._slots.values(), band(FIRST_TICKS), strict=False):
            heappush(self._heap, (slot.first_tick_ns(), sequence, TICK, slot, 0))
        for mutation in scenario.mutations:
            self.inject(mutation)
        for snapshot in scenario.snapshots:
            self.inject(snapshot)

    # --- driving ---------------------------------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """Virtual time of the last dispatch."""
        return self._now_ns

    @property
    def dispatches(self) -> int:
        """How many entries have been dispatched."""
        return self._dispatches

    @property
    def termination(self) -> Termination | None:
        """How the run ended, or None while it goes on."""
        return self._termination

    def dead_peers(self) -> tuple[str, ...]:
        """Return the peers that are killed and not back, in id order."""
        return tuple(slot.id for slot in self._by_id if slot.dead)

    def run(self) -> Termination:
        """Run to the scenario's `duration_ns`."""
        return self.finish(self._duration_ns)

    def run_until(self, at_ns: int) -> None:
        """Dispatch every entry before `at_ns`."""
        if self._termination is None:
            self._reached_ns = max(self._reached_ns, at_ns)
            self._guarded_loop(at_ns)

    def inject(self, item: Mutation | SnapshotDecl) -> None:
        """Enqueue a mutation or a snapshot request as if the scenario had declared it.

        Raises:
            EngineAbort: If the run is over, or `item` lies before the last `run_until`, or names an unknown peer.
        """
        if self._termination is not None:
            raise EngineAbort(rule="inject-after-end", detail="the run is over", at_ns=self._now_ns)
        if item.at_ns < self._reached_ns:
            detail = f"time never goes back: {item.at_ns} < {self._reached_ns}"
            raise EngineAbort(rule="inject-in-the-past", detail=detail, at_ns=self._now_ns)
        if isinstance(item, SnapshotDecl):
            heappush(self._heap, (item.at_ns, next(self._snapshot_seq), SNAPSHOT))
            return
        if isinstance(item, PeerKill | PeerResurrect | WorkerExit) and item.peer not in self._slots:
            raise EngineAbort(rule="unknown-peer", detail=f"mutation names {item.peer!r}", at_ns=self._now_ns)
        heappush(self._heap, (item.at_ns, next(self._mutation_seq), MUTATE, item, self._mutations))
        self._mutations += 1

    def finish(self, at_ns: int) -> Termination:
        """Run through the end of the run at `at_ns` and return how it ended."""
        if self._termination is None:
            if at_ns < self._reached_ns:
                self._abort("finish-in-the-past", f"{at_ns} < {self._reached_ns}")
            heappush(self._heap, (at_ns, next(self._end_seq), END))
            self._guarded_loop(None)
        assert self._termination is not None
        return self._termination

    def _guarded_loop(self, before_ns: int | None) -> None:
        """Run the loop; what escapes from a host becomes an abort, and every abort is on record (ruling E21)."""
        try:
            self._loop(before_ns)
        except EngineAbort as abort:
            self._termination = Termination(reason="aborted", at_ns=self._now_ns, detail=str(abort))
            raise
        except (SimharnessError, OSError):
            raise
        except Exception as error:
            wrapped = self._host_raised(error)
            self._termination = Termination(reason="aborted", at_ns=self._now_ns, detail=str(wrapped))
            raise wrapped from error

    def _host_raised(self, error: Exception) -> EngineAbort:
        """Name the exception, and the line that raised it without the path, which differs between machines."""
        frame = extract_tb(error.__traceback__)[-1]
        detail = f"{type(error).__name__}: {error} ({PurePath(frame.filename).name}, line {frame.lineno})"
        host_id = None if self._current is None else self._current.id
        return EngineAbort(rule="host-raised", detail=detail, host_id=host_id, at_ns=self._now_ns)

    def _loop(self, before_ns: int | None) -> None:  # noqa: C901, PLR0912  # the hot loop: calls cost more than branches
        heap, runtime_seq, lost = self._heap, self._runtime_seq, self._lost
        limit_ns = _NEVER if before_ns is None else before_ns
        evaluator = self._evaluator if self._early else None
        now_ns, dispatches = self._now_ns, self._dispatches
        # The number of the dispatch that is one too many, as long as the clock does not move (ruling E20).
        most, budget = self._max_same_instant + 1, _NEVER if self._max_dispatches is None else self._max_dispatches
        stop_at = min(self._before_this_instant + most, budget)
        while heap:
            entry = heap[0]
            at_ns = entry[0]
            if at_ns >= limit_ns:
                return
            heappop(heap)
            if at_ns != now_ns:
                self._now_ns = now_ns = at_ns
                self._before_this_instant = dispatches
                stop_at = min(budget, dispatches + most)
            self._dispatches = dispatches = dispatches + 1
            if dispatches == stop_at:
                self._runaway(entry)
            operation = entry[2]
            if operation == DELIVER:
                if not lost or entry[6].message_id not in lost:
                    self._deliver(entry)
            elif operation == TICK:
                slot = entry[3]
                if slot.life == entry[4]:
                    if not slot.halted:
                        self._current = slot
                        self._perform(slot, slot.host.tick(at_ns), in_recv=False)
                    heappush(heap, (at_ns + slot.period_ns, next(runtime_seq), TICK, slot, slot.life))
            elif operation == TIMER:
                slot = entry[3]
                if slot.instance == entry[4] and not (slot.dead or slot.deaf):
                    self._current = slot
                    self._perform(slot, slot.host.recv(TimerFired(entry[5]), at_ns), in_recv=True)
            elif operation == NOTICE:
                self._fire_notice(entry[3], entry[4])
            elif operation == FAILED:
                self._report_failure(entry)
            elif operation == MUTATE:
                self._mutate(entry[3], entry[4])
            elif operation == SNAPSHOT:
                self._take_snapshots()
            else:
                self._termination = Termination(reason="duration", at_ns=at_ns)
                return
            if evaluator is not None and evaluator.all_final(at_ns):
                self._termination = Termination(reason="early", at_ns=at_ns)
                return

    def _runaway(self, entry: Entry) -> NoReturn:
        """Abort a run that makes no progress (ruling E20); the entry names the host where it has one."""
        suspect = next((operand for operand in entry if isinstance(operand, Slot)), self._current)
        host_id = None if suspect is None else suspect.id
        if self._dispatches - self._before_this_instant > self._max_same_instant:
            rule, detail = "same-instant-loop", f"{self._max_same_instant} dispatches without the clock moving"
        else:
            rule, detail = "dispatch-budget", f"{self._max_dispatches} dispatches used up"
        raise EngineAbort(rule=rule, detail=detail, host_id=host_id, at_ns=self._now_ns)

    def _abort(self, rule: str, detail: str, slot: Slot | None = None) -> NoReturn:
        raise EngineAbort(rule=rule, detail=detail, host_id=None if slot is None else slot.id, at_ns=self._now_ns)

    # --- records ---------------------------------------------------------------------------------------------------

    def _write(self, record: Record) -> None:
        self._records += 1
        self._sink.write_record(record)
        if self._evaluator is not None:
            self._evaluator.observe(record)

    def _engine_event(self, host_id: str | None, event: dict[str, Any]) -> None:
        self._write(EventRecord(self._now_ns, self._records, host_id, "engine", event))

    # --- deliveries ------------------------------------------------------------------------------------------------

    def _deliver(self, entry: Entry) -> None:
        """Hand a message to its host, or say why not (§4.4)."""
        at_ns, _, _, slot, source, wire, arrive, sent_at_ns = entry
        if slot.dead or slot.deaf:
            self._drop_on_delivery(source, slot.id, "host_killed" if slot.dead else "host_halted", sent_at_ns)
            return
        self._current = slot
        try:
            message = slot.decode(wire)
        except ValueError as error:
            self._abort("undecodable-message", f"{wire.tag} of {len(wire.payload)} bytes from {source}: {error}", slot)
        if self._observer is not None:
            self._observer.delivered(source, slot.id, wire.tag, sent_at_ns, at_ns, arrive.delay)
        self._perform(slot, slot.host.recv(App(message), at_ns), in_recv=True)

    def _drop_on_delivery(self, source: str, target: str, reason: str, sent_at_ns: int) -> None:
        event = {"kind": "DropOnDelivery", "from": source, "to": target, "reason": reason, "sent_at_ns": sent_at_ns}
        self._engine_event(target, event)

    def _report_failure(self, entry: Entry) -> None:
        """Let `SendFailed` reach the sender (§4.6), unless that instance is gone or deaf."""
        at_ns, _, _, slot, instance, to, reason = entry
        if slot.instance == instance and not (slot.dead or slot.deaf):
            self._engine_event(slot.id, {"kind": "SendFailed", "from": slot.id, "to": to, "reason": reason})
            self._current = slot
            self._perform(slot, slot.host.recv(SendFailed(to, reason), at_ns), in_recv=True)

    # --- actions (§4.6) --------------------------------------------------------------------------------------------

    def _perform(self, slot: Slot, actions: Sequence[Action], *, in_recv: bool) -> None:
        """Process a host's actions in returned order."""
        for action in actions:
            kind = type(action)
            if kind is Send:
                self._send(slot, action)  # type: ignore[arg-type]  # `kind is Send` narrows nothing for the checker
            elif kind is RecordEvent:
                event = action.event  # type: ignore[union-attr]
                if type(event) is not dict or "kind" not in event:
                    self._abort("unwritable-event", f"{event!r} is not an object with a kind", slot)
                self._write(EventRecord(self._now_ns, self._records, slot.id, slot.tag, event))
            elif kind is ScheduleTimer:
                self._schedule(slot, action)  # type: ignore[arg-type]
            elif kind is Halt:
                slot.halted = True
                slot.deaf = slot.deaf or in_recv
            else:
                self._abort("unknown-action", f"{action!r} is not an action of §4.6", slot)

    def _schedule(self, slot: Slot, timer: ScheduleTimer) -> None:
        if timer.at_ns < self._now_ns:
            self._abort("timer-in-the-past", f"asked for {timer.at_ns}", slot)
        heappush(self._heap, (timer.at_ns, next(self._runtime_seq), TIMER, slot, slot.instance, timer.token))

    def _send(self, slot: Slot, send: Send) -> None:
        target = self._slots.get(send.to)
        if target is None:
            self._abort("unknown-destination", f"{send.to!r} is not a peer", slot)
        if target is slot:
            self._abort("self-send", "a host may not send to itself", slot)
        now_ns = self._now_ns
        wire = send.wire or slot.encode(send.message)
        tag, payload = wire
        outcome = self._route(slot.id, target.id, len(payload) + slot.frame_overhead(tag), now_ns)
        if type(outcome) is Arrive:
            at_ns, message_id, notices, _ = outcome
            if notices:
                self._take_notices(notices, message_id)
            sequence = next(self._runtime_seq)
            heappush(self._heap, (at_ns, sequence, DELIVER, target, slot.id, wire, outcome, now_ns))
        else:
            assert isinstance(outcome, Drop)
            self._take_notices(outcome.notices, outcome.message_id)
            event = {"kind": "DropOnSend", "from": slot.id, "to": send.to, "reason": outcome.reason}
            self._engine_event(slot.id, event)
            entry = (now_ns, next(self._runtime_seq), FAILED, slot, slot.instance, send.to, outcome.reason)
            heappush(self._heap, entry)

    # --- notices of the network (§4.7, ruling E3) ------------------------------------------------------------------

    def _take_notices(self, notices: Sequence[Notice], message_id: int) -> None:
        """Write what has happened; queue what is still to come, so that it is written only if it comes to pass."""
        for notice in notices:
            if notice.at_ns <= self._now_ns:
                self._write_notice(notice)
            else:
                dequeue = notice.event["kind"] == "RelayDequeue"
                sequence = next(self._relay_dequeue_seq if dequeue else self._runtime_seq)
                heappush(self._heap, (notice.at_ns, sequence, NOTICE, notice, message_id))

    def _fire_notice(self, notice: Notice, message_id: int) -> None:
        gone = self._lost if notice.relay is None else self._killed
        if message_id not in gone:
            self._write_notice(notice)

    def _write_notice(self, notice: Notice) -> None:
        event = notice.event
        if notice.relay is not None and "reason" not in event:
            total = self._relay_bytes.get(notice.relay, 0) + notice.relay_delta
            self._relay_bytes[notice.relay] = total
            event = event | {"enqueued_bytes": total}
        self._write(EventRecord(notice.at_ns, self._records, notice.host_id, notice.kind_tag, event))

    # --- mutations and snapshots (§4.5) ----------------------------------------------------------------------------

    def _mutate(self, mutation: Mutation, index: int) -> None:
        """Record a mutation, then apply it: first what it drops, then what the links say, then the host's part."""
        kind = type(mutation)
        slot = self._slots[mutation.peer] if isinstance(mutation, PeerKill | PeerResurrect | WorkerExit) else None
        if kind is WorkerExit and slot is not None and not slot.kind.accepts_worker_exit:
            detail = f"mutation {index} aims a worker exit at a peer of kind {slot.tag!r}"
            self._abort("WorkerExitOnWrongKind", detail, slot)
        self._write(MutationRecord(self._now_ns, self._records, index, mutation))
        if kind is PeerKill and slot is not None and slot.dead:
            return  # a second kill of a dead peer changes nothing (ruling E8)
        effect = self._network.apply_mutation(mutation, self._now_ns)
        for lost in effect.invalidated:
            self._lost.add(lost.message_id)
            self._drop_on_delivery(lost.source, lost.target, lost.reason, lost.sent_at_ns)
        self._killed.update(effect.killed_messages)
        if effect.relay_emptied is not None:
            self._relay_bytes[effect.relay_emptied] = 0
        self._take_notices(effect.notices, -1)
        if isinstance(mutation, PeerKill) and slot is not None:
            slot.kill()
        elif isinstance(mutation, PeerResurrect) and slot is not None:
            self._resurrect(slot, preserve_state=mutation.preserve_state)
        elif isinstance(mutation, WorkerExit) and slot is not None and not (slot.dead or slot.deaf):
            self._current = slot
            exited = WorkerExited(mutation.reason, mutation.status_code, mutation.signal)
            self._perform(slot, slot.host.recv(exited, self._now_ns), in_recv=True)

    def _resurrect(self, slot: Slot, *, preserve_state: bool) -> None:
        """Restart a dead or halted peer with one tick chain; a live one is left alone (rulings E8, E9)."""
        if slot.dead or slot.halted:
            slot.resurrect(preserve_state=preserve_state)
            entry = (self._now_ns + slot.period_ns, next(self._runtime_seq), TICK, slot, slot.life)
            heappush(self._heap, entry)

    def _take_snapshots(self) -> None:
        """Record one snapshot of every peer that is not dead, in id order (ruling E12)."""
        for slot in self._by_id:
            if not slot.dead:
                self._current = slot
                state = slot.host.snapshot()
                self._write(SnapshotRecord(self._now_ns, self._records, slot.id, slot.tag, state))
