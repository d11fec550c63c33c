"""What happens to one host: deliveries and envelopes go in, actions are carried out, everything is put on record (§4.4 to §4.7)."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from traceback import extract_tb
from typing import Any, Final, NoReturn

from simharness.contracts.disk import CrashableDisk
from simharness.contracts.host import (
    Action,
    App,
    Halt,
    HostKind,
    HostMessage,
    RecordEvent,
    ScheduleTimer,
    Send,
    SendFailed,
    Slow,
    TimerFired,
    Wire,
)
from simharness.contracts.network import Arrive, Drop, Network, Notice
from simharness.contracts.ports import DeliveryObserver, LiveEvaluator, RecordSink
from simharness.contracts.records import EventRecord, Record
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort
from simharness.core.foreign import blame, shown, text_of
from simharness.core.streams import Root
from simharness.engine import clocks, slots
from simharness.engine.queue import (
    DELIVER,
    FAILED,
    NOTICE,
    RELAY_DEQUEUES,
    RUNTIME,
    TIMER,
    Entry,
    band,
    heappush,
)
from simharness.engine.slots import Slot

_OWN_FILES: Final = (__file__, clocks.__file__, slots.__file__)
_HEAD_BYTES: Final = 20
"""How much of a payload a `Delivered` record shows."""


def host_raised(error: BaseException, host_id: str | None, at_ns: int) -> EngineAbort:
    """Return the abort that follows an exception of a host, its kind or its codec, whatever its type (ruling C2).

    One that comes up in the engine itself does so over what they returned.
    """
    detail = blame(error)
    if error.__traceback__ is not None and extract_tb(error.__traceback__)[-1].filename in _OWN_FILES:
        return EngineAbort(
            rule="kind-contract", detail=f"what was returned is of another form: {detail}", host_id=host_id, at_ns=at_ns
        )
    return EngineAbort(rule="host-raised", detail=detail, host_id=host_id, at_ns=at_ns)


def _wrong_frame(kind: str, tag: object, payload: object, overhead: object) -> str:
    """Say what is wrong with a message as its codec gave it."""
    if type(payload) is bytes:
        return f"kind {kind}: frame_overhead({shown(tag)}) is {shown(overhead)}, not a number of bytes of at least 0"
    return f"kind {kind}: the payload of {shown(tag)} is {shown(payload)}, not bytes"


class HostCalls:
    """The slots of a run, its queue and its records. `Engine` drives it; nothing here pops the queue."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        network: Network,
        kinds: Mapping[str, HostKind],
        disks: Mapping[str, CrashableDisk],
        sink: RecordSink,
        evaluator: LiveEvaluator | None,
        observer: DeliveryObserver | None,
    ) -> None:
        self._network, self._sink, self._evaluator, self._observer = network, sink, evaluator, observer
        self._route = network.send
        root = Root(scenario.seed)
        self._slots: dict[str, Slot] = {}
        for peer in scenario.peers:
            if peer.kind not in kinds:
                raise EngineAbort(rule="unknown-kind", detail=f"no host kind {peer.kind!r}", host_id=peer.id)
            try:
                with redirect_stdout(sys.stderr):
                    self._slots[peer.id] = Slot(peer, scenario, kinds[peer.kind], root, disks[peer.id], observer)
            except (EngineAbort, KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # a kind that cannot be asked, or cannot build its host
                raise host_raised(error, peer.id, 0) from error
        self._heap: list[Entry] = []
        self._relay_dequeue_seq, self._runtime_seq = band(RELAY_DEQUEUES), band(RUNTIME)
        self._now_ns = 0
        self._records = 0
        self._relay_bytes: dict[str, int] = {}
        self._lost: set[int] = set()  # messages whose delivery and link notices were invalidated
        self._killed: set[int] = set()  # messages whose relay notices died with their relay
        self._current: Slot | None = None

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
        now_ns = self._now_ns  # later than at_ns if a pause held the message
        if now_ns < slot.hears_from_ns:
            if slot.dead or slot.deaf:
                self._drop_on_delivery(source, slot.id, "host_killed" if slot.dead else "host_halted", sent_at_ns)
            else:
                self._hold(slot, entry)
            return
        self._current = slot
        try:
            message = slot.decode(wire)
        except ValueError as error:
            self._abort(
                "undecodable-message", f"{wire.tag} of {len(wire.payload)} bytes from {source}: {text_of(error)}", slot
            )
        if self._observer is not None:
            self._observer.delivered(source, slot.id, wire.tag, sent_at_ns, at_ns, arrive.delay)
            if arrive.is_copy:
                self._observer.duplicated(source, slot.id, at_ns)
        if slot.evidence and wire.tag in slot.evidence:
            self._testify(source, slot.id, wire, sent_at_ns)
        self._perform(slot, slot.host.recv(App(message), now_ns), in_recv=True)

    def _testify(self, source: str, target: str, wire: Wire, sent_at_ns: int) -> None:
        """Put a delivery on record by the engine's own word, for the tags that the receiving kind asks for."""
        tag, payload = wire
        event = {
            "kind": "Delivered",
            "from": source,
            "to": target,
            "type_tag": tag,
            "byte_len": len(payload) + self._slots[source].frame_overhead(tag),
            "sent_at_ns": sent_at_ns,
            "head": payload[:_HEAD_BYTES].hex(),
        }
        self._engine_event(target, event)

    def _drop_on_delivery(self, source: str, target: str, reason: str, sent_at_ns: int) -> None:
        event = {"kind": "DropOnDelivery", "from": source, "to": target, "reason": reason, "sent_at_ns": sent_at_ns}
        self._engine_event(target, event)

    def _report_failure(self, entry: Entry) -> None:
        """Let `SendFailed` reach the sender (§4.6), unless that instance is gone or deaf."""
        _, _, _, slot, instance, to, reason = entry
        if slot.instance == instance:
            if self._now_ns >= slot.hears_from_ns:
                self._engine_event(slot.id, {"kind": "SendFailed", "from": slot.id, "to": to, "reason": reason})
            self._hear(slot, SendFailed(to, reason), entry)

    def _hear(self, slot: Slot, envelope: HostMessage, entry: Entry) -> None:
        """Hand an envelope to its host, now or after its pause; one that is dead or deaf never hears of it."""
        if self._now_ns >= slot.hears_from_ns:
            self._current = slot
            self._perform(slot, slot.host.recv(envelope, self._now_ns), in_recv=True)
        elif not (slot.dead or slot.deaf):
            self._hold(slot, entry)

    # --- pauses and slowness (ruling K2) ---------------------------------------------------------------------------

    def _hold(self, slot: Slot, entry: Entry) -> None:
        slot.held.append(entry)
        self._suppressed(slot)

    def _suppressed(self, slot: Slot) -> None:
        """Let the observer know that a host is not called."""
        if self._observer is not None:
            self._observer.held(slot.id, self._now_ns)

    def _wake(self, slot: Slot) -> None:
        """Follow the end of a pause or of a slowness, unless another goes on."""
        if self._now_ns >= slot.hears_from_ns:
            held, slot.held = slot.held, []
            for entry in held:
                self._release(entry)
            self._tell_pace(slot)

    def _release(self, entry: Entry) -> None:
        """Dispatch an entry that a pause has held; the mutation that is one is a worker exit."""
        operation, slot = entry[2], entry[3]
        if operation == DELIVER:
            self._deliver(entry)
        elif operation == FAILED:
            self._report_failure(entry)
        elif slot.instance == entry[4]:
            self._hear(slot, TimerFired(entry[5]) if operation == TIMER else entry[5], entry)

    def _tell_pace(self, slot: Slot) -> None:
        """Tell a host how slow it is now, if that is news and if it can hear."""
        factor_x100 = slot.factor_x100(self._now_ns)
        if factor_x100 != slot.told_x100 and self._now_ns >= slot.hears_from_ns:
            slot.told_x100 = factor_x100
            self._current = slot
            self._perform(slot, slot.host.recv(Slow(factor_x100), self._now_ns), in_recv=True)

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
                    self._abort("unwritable-event", f"{shown(event)} is not an object with a kind", slot)
                self._write(EventRecord(self._now_ns, self._records, slot.id, slot.tag, event))
            elif kind is ScheduleTimer:
                self._schedule(slot, action)  # type: ignore[arg-type]
            elif kind is Halt:
                slot.halt(deaf=in_recv)
            else:
                self._abort("unknown-action", f"{shown(action)} is not an action of §4.6", slot)

    def _schedule(self, slot: Slot, timer: ScheduleTimer) -> None:
        if timer.at_ns < self._now_ns:
            self._abort("timer-in-the-past", f"asked for {timer.at_ns}", slot)
        heappush(self._heap, (timer.at_ns, next(self._runtime_seq), TIMER, slot, slot.instance, timer.token))

    def _send(self, slot: Slot, send: Send) -> None:
        target = self._slots.get(send.to)
        if target is None:
            self._abort("unknown-destination", f"{shown(send.to)} is not a peer", slot)
        if target is slot:
            self._abort("self-send", "a host may not send to itself", slot)
        now_ns = self._now_ns
        wire = send.wire or slot.encode(send.message)
        tag, payload = wire
        overhead = slot.frame_overhead(tag)
        if type(payload) is not bytes or type(overhead) is not int or overhead < 0:
            self._abort("kind-contract", _wrong_frame(slot.tag, tag, payload, overhead), slot)
        outcome = self._route(slot.id, target.id, len(payload) + overhead, now_ns)
        if type(outcome) is Arrive:
            at_ns, message_id, notices, _, copy, _ = outcome
            if notices:
                self._take_notices(notices, message_id)
            if copy is not None:
                self._take_notices(copy.notices, copy.message_id)
            sequence = next(self._runtime_seq)
            heappush(self._heap, (at_ns, sequence, DELIVER, target, slot.id, wire, outcome, now_ns))
            if isinstance(copy, Arrive):
                sequence = next(self._runtime_seq)
                heappush(self._heap, (copy.at_ns, sequence, DELIVER, target, slot.id, wire, copy, now_ns))
            elif copy is not None:
                self._refuse(slot.id, target.id, copy.reason)  # the sender never hears of it
        else:
            assert isinstance(outcome, Drop)
            self._take_notices(outcome.notices, outcome.message_id)
            self._refuse(slot.id, target.id, outcome.reason)
            entry = (now_ns, next(self._runtime_seq), FAILED, slot, slot.instance, send.to, outcome.reason)
            heappush(self._heap, entry)

    def _refuse(self, source: str, target: str, reason: str) -> None:
        self._engine_event(source, {"kind": "DropOnSend", "from": source, "to": target, "reason": reason})

    # --- notices of the network (§4.7, ruling E3) ------------------------------------------------------------------

    def _take_notices(self, notices: Sequence[Notice], message_id: int) -> None:
        """Write what has happened; queue what is still to come, so that it is written only if it comes to pass.

        A dequeue comes before everything else of its instant, except where the message was enqueued in that very instant.
        """
        enqueued_ns = self._now_ns
        for notice in notices:
            if notice.at_ns <= self._now_ns:
                self._write_notice(notice)
                continue
            kind = notice.event["kind"]
            if kind == "RelayEnqueue":
                enqueued_ns = notice.at_ns
            early = kind == "RelayDequeue" and notice.at_ns > enqueued_ns
            sequence = next(self._relay_dequeue_seq if early else self._runtime_seq)
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
