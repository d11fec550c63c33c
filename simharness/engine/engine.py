"""The engine: pops, dispatches, processes actions (§4). The clock moves only on a pop."""

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Final

from simharness.contracts.disk import CrashableDisk
from simharness.contracts.host import HostKind, TimerFired, WorkerExited
from simharness.contracts.mutations import (
    AimedMutation,
    ClockDrift,
    ClockOffset,
    Mutation,
    PeerKill,
    PeerPause,
    PeerResurrect,
    PeerSlow,
    WorkerExit,
    kind_of,
)
from simharness.contracts.network import Network
from simharness.contracts.ports import DeliveryObserver, LiveEvaluator, RecordSink
from simharness.contracts.records import MutationRecord, SnapshotRecord, Termination
from simharness.contracts.scenario import Scenario, SnapshotDecl
from simharness.core.errors import EngineAbort, SimharnessError
from simharness.engine.calls import HostCalls, host_raised
from simharness.engine.queue import (
    DELIVER,
    END,
    FAILED,
    FIRST_TICKS,
    MUTATE,
    MUTATIONS,
    NOTICE,
    SNAPSHOT,
    SNAPSHOTS,
    TERMINATE,
    TICK,
    TIMER,
    WAKE,
    WAKES,
    Entry,
    band,
    heappop,
    heappush,
)
from simharness.engine.slots import NEVER, Slot

SAME_INSTANT_LIMIT: Final = 1_000_000
"""Dispatches at one instant before a run counts as a zero-delay loop (ruling E20)."""

_LOOK_MASK: Final = 4095


class Engine(HostCalls):
    """One run of one scenario.

    Drive it with `run()`, or step by step: `run_until(t)` stops before the first entry at `t`, `inject` adds a mutation or a
    snapshot dated at `t` or later, `finish(T)` ends the run at `T`. Both ways give the same records.

    Args:
        scenario: The validated scenario; its declared mutations and snapshots are enqueued at once.
        network: Answers sends and takes mutations.
        kinds: A host kind for every kind that the scenario names.
        disks: A disk for every peer.
        sink: Takes every record.
        evaluator: The streaming evaluator; it sees every record, and is asked for early termination if the scenario wants it.
        observer: Sees the delay decomposition of each delivery.
        max_dispatches: Abort after this many dispatches in total; None for no limit.
        max_pending: Abort when more entries than this are queued; looked at every 4096 dispatches. None for no limit.
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
        disks: Mapping[str, CrashableDisk],
        sink: RecordSink,
        evaluator: LiveEvaluator | None = None,
        observer: DeliveryObserver | None = None,
        max_dispatches: int | None = None,
        max_pending: int | None = None,
        max_same_instant: int = SAME_INSTANT_LIMIT,
    ) -> None:
        super().__init__(
            scenario, network=network, kinds=kinds, disks=disks, sink=sink, evaluator=evaluator, observer=observer
        )
        self._duration_ns = scenario.duration_ns
        self._early = evaluator is not None and scenario.early_terminate_on_all_assertions_resolved
        self._max_dispatches, self._max_same_instant, self._max_pending = max_dispatches, max_same_instant, max_pending
        self._by_id = tuple(self._slots[peer_id] for peer_id in sorted(self._slots))
        self._mutation_seq, self._snapshot_seq = band(MUTATIONS), band(SNAPSHOTS)
        self._end_seq, self._wake_seq = band(TERMINATE), band(WAKES)
        self._mutations = 0
        self._reached_ns = 0
        self._dispatches = 0
        self._before_this_instant = 0  # dispatches that were over when the clock last moved
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
        if isinstance(item, AimedMutation) and item.peer not in self._slots:
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
            with redirect_stdout(sys.stderr):  # what a host prints is no part of what a command says (ruling C9)
                self._loop(before_ns)
        except EngineAbort as abort:
            self._termination = Termination(reason="aborted", at_ns=self._now_ns, detail=str(abort))
            raise
        except (SimharnessError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # `sys.exit()` in a host ends the run, not the program
            wrapped = host_raised(error, None if self._current is None else self._current.id, self._now_ns)
            self._termination = Termination(reason="aborted", at_ns=self._now_ns, detail=str(wrapped))
            raise wrapped from error

    def _loop(self, before_ns: int | None) -> None:  # noqa: C901, PLR0912  # the hot loop: calls cost more than branches
        heap, runtime_seq, lost = self._heap, self._runtime_seq, self._lost
        limit_ns = NEVER if before_ns is None else before_ns
        evaluator = self._evaluator if self._early else None
        now_ns, dispatches = self._now_ns, self._dispatches
        # The number of the dispatch that is one too many, as long as the clock does not move (ruling E20).
        most, look_at = self._max_same_instant + 1, self._next_look()
        stop_at = self._before_this_instant + most
        while heap:
            entry = heap[0]
            at_ns = entry[0]
            if at_ns >= limit_ns:
                return
            heappop(heap)
            if at_ns != now_ns:
                self._now_ns = now_ns = at_ns
                self._before_this_instant = dispatches
                stop_at = dispatches + most
            self._dispatches = dispatches = dispatches + 1
            if dispatches >= stop_at or dispatches == look_at:
                self._look(entry)
                look_at = self._next_look()
            operation = entry[2]
            if operation == DELIVER:
                if not lost or entry[6].message_id not in lost:
                    self._deliver(entry)
            elif operation == TICK:
                slot = entry[3]
                if slot.life == entry[4]:
                    if at_ns >= slot.ticks_from_ns:
                        self._current = slot
                        self._perform(slot, slot.host.tick(at_ns), in_recv=False)
                    elif not slot.halted:
                        self._suppressed(slot)
                    heappush(heap, (at_ns + slot.period_ns, next(runtime_seq), TICK, slot, slot.life))
            elif operation == TIMER:
                slot = entry[3]
                if slot.instance == entry[4]:
                    self._hear(slot, TimerFired(entry[5]), entry)
            elif operation == NOTICE:
                self._fire_notice(entry[3], entry[4])
            elif operation == FAILED:
                self._report_failure(entry)
            elif operation == MUTATE:
                self._mutate(entry[3], entry[4])
            elif operation == SNAPSHOT:
                self._take_snapshots()
            elif operation == WAKE:
                self._wake(entry[3])
            else:
                self._termination = Termination(reason="duration", at_ns=at_ns)
                return
            if evaluator is not None and evaluator.all_final(at_ns):
                self._termination = Termination(reason="early", at_ns=at_ns)
                return

    def _next_look(self) -> int:
        """Return the dispatch before which the limits are looked at next: the same ones, however the run is driven."""
        budget = NEVER if self._max_dispatches is None else self._max_dispatches
        return budget if self._max_pending is None else min(budget, (self._dispatches | _LOOK_MASK) + 1)

    def _look(self, entry: Entry) -> None:
        """Abort a run that makes no progress or outgrows its limits (rulings E20, E26); the entry names the host if it has one."""
        raises = "raises the limit"
        if self._dispatches - self._before_this_instant > self._max_same_instant:
            rule, detail = "same-instant-loop", f"{self._max_same_instant} dispatches without the clock moving"
        elif self._dispatches == self._max_dispatches:
            rule, detail = "dispatch-budget", f"{self._max_dispatches} dispatches used up; --max-dispatches {raises}"
        elif self._max_pending is not None and len(self._heap) > self._max_pending:
            rule, detail = "pending-budget", f"over {self._max_pending} entries are queued; --max-pending {raises}"
        else:
            return
        suspect = next((operand for operand in entry if isinstance(operand, Slot)), self._current)
        host_id = None if suspect is None else suspect.id
        raise EngineAbort(rule=rule, detail=detail, host_id=host_id, at_ns=self._now_ns)

    # --- mutations and snapshots (§4.5) ----------------------------------------------------------------------------

    def _mutate(self, mutation: Mutation, index: int) -> None:
        """Record a mutation, then apply it: first what it drops, then what the links say, then the host's part."""
        slot = self._slots[mutation.peer] if isinstance(mutation, AimedMutation) else None
        if slot is not None:
            self._check_aim(mutation, index, slot)
        self._write(MutationRecord(self._now_ns, self._records, index, mutation))
        if isinstance(mutation, PeerKill) and slot is not None:
            if slot.dead:
                return  # a second kill of a dead peer changes nothing (ruling E8)
            for _, _, _, _, source, _, _, sent_at_ns in [entry for entry in slot.held if entry[2] == DELIVER]:
                self._drop_on_delivery(source, slot.id, "host_killed", sent_at_ns)
        effect = self._network.apply_mutation(mutation, self._now_ns)
        for lost in effect.invalidated:
            self._lost.add(lost.message_id)
            self._drop_on_delivery(lost.source, lost.target, lost.reason, lost.sent_at_ns)
        self._killed.update(effect.killed_messages)
        if effect.relay_emptied is not None:
            self._relay_bytes[effect.relay_emptied] = 0
        self._take_notices(effect.notices, -1)
        if slot is not None:
            self._treat(slot, mutation)

    def _check_aim(self, mutation: Mutation, index: int, slot: Slot) -> None:
        """Abort on what the loader refuses (rulings E15, M1, M3)."""
        if kind_of(mutation) not in slot.accepts:
            detail = f"mutation {index} aims a {kind_of(mutation)} at a peer of kind {slot.tag!r}"
            self._abort(f"{type(mutation).__name__}OnWrongKind", detail, slot)
        if isinstance(mutation, ClockOffset) and self._now_ns + mutation.offset_ns < 0:
            self._abort("clock-before-zero", f"mutation {index} sets a clock to before 0", slot)

    def _treat(self, slot: Slot, mutation: Mutation) -> None:
        """Do to a peer what a mutation is aimed at it for."""
        now_ns = self._now_ns
        match mutation:
            case PeerKill():
                slot.kill()
            case PeerResurrect(preserve_state=preserve_state):
                self._resurrect(slot, preserve_state=preserve_state)
            case WorkerExit():
                exited = WorkerExited(mutation.reason, mutation.status_code, mutation.signal)
                self._hear(slot, exited, (now_ns, 0, MUTATE, slot, slot.instance, exited))
            case PeerPause(duration_ns=duration_ns):
                if not (slot.dead or slot.deaf) and now_ns + duration_ns > max(now_ns, slot.paused_until_ns):
                    slot.pause(now_ns + duration_ns)
                    heappush(self._heap, (now_ns + duration_ns, next(self._wake_seq), WAKE, slot))
            case PeerSlow(factor_x100=factor_x100, duration_ns=duration_ns):
                slot.slow(now_ns + duration_ns, factor_x100)
                self._tell_pace(slot)
                heappush(self._heap, (now_ns + duration_ns, next(self._wake_seq), WAKE, slot))
            case ClockOffset(offset_ns=offset_ns):
                slot.set_clock(slot.clock.set_off(now_ns, offset_ns))
            case ClockDrift(drift_ppm=drift_ppm):
                slot.set_clock(slot.clock.drifting(now_ns, drift_ppm))

    def _resurrect(self, slot: Slot, *, preserve_state: bool) -> None:
        """Restart a dead or halted peer with one tick chain; a live one is left alone (rulings E8, E9)."""
        if slot.dead or slot.halted:
            slot.resurrect(self._now_ns, preserve_state=preserve_state)
            entry = (self._now_ns + slot.period_ns, next(self._runtime_seq), TICK, slot, slot.life)
            heappush(self._heap, entry)
            self._tell_pace(slot)

    def _take_snapshots(self) -> None:
        """Record one snapshot of every peer that is not dead, in id order (ruling E12)."""
        for slot in self._by_id:
            if not slot.dead:
                self._current = slot
                state = slot.host.snapshot()
                self._write(SnapshotRecord(self._now_ns, self._records, slot.id, slot.tag, state))
