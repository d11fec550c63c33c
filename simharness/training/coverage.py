"""What happened in a run of training, counted where its effect is on record and never where a fault was drawn (ruling K8).

An assertion judges one run; these counters judge a batch: one that stays zero says that the batch never met what it is for
(training design, section 14). Records are taken in the order of a bundle.
"""

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from simharness.assertions.training_facts import TrainingFacts
from simharness.assertions.training_oracle.problem import shards
from simharness.assertions.training_reading import bits_of, mask
from simharness.contracts.records import Record, SnapshotRecord

_BOTH: Final = ("ring", "ps")
_RING: Final = ("ring",)
_SERVER: Final = ("ps",)

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "discriminating step": _BOTH,
    "uneven step": _BOTH,
    "epoch end": _BOTH,
    "orphan": _BOTH,
    "abort during scatter": _RING,
    "abort during gather": _RING,
    "death after READY or PUSH": _BOTH,
    "commit learnt from VIEW": _RING,
    "donor transfer": _RING,
    "transfer with donor death": _RING,
    "eviction by suspicion": _RING,
    "stale chunk refused": _RING,
    "stale push refused": _SERVER,
    "duplicate push refused": _SERVER,
    "old incarnation refused": _BOTH,
    "backup dropped": _SERVER,
    "backup starvation rule used": _SERVER,
    "pause": _BOTH,
    "wake from peer_pause": _BOTH,
    "compute deadline taken by a tick": _BOTH,
    "computation slowed": _BOTH,
    "clock shifted across a lease": _BOTH,
    "hub restart": _BOTH,
    "rollback": _BOTH,
    "rollback over an epoch end": _BOTH,
    "view of one member": _BOTH,
    "P < N": _RING,
}
"""Counter -> the strategies in whose batches it must not be zero."""

FURTHER: Final = (
    "gradient reused",
    "empty contribution",
    "commit applied late",
    "dead branch",
    "trained again",
)
"""Counters that nothing demands of a batch; each shows one of the entries of "deliberately not violations" (section 15)."""

_HEAD: Final = struct.Struct("<IIIIHH")
_SCATTER: Final = 3
_LATE_STEPS: Final = 3
_LEASE_TICKS: Final = 3
"""Ticks after a jump of the hub's clock in which what it does about leases is the jump's effect."""


class _View(NamedTuple):
    generation: int
    view: int
    step: int
    members: dict[str, int]
    at_ns: int
    donor: str | None


class _Pause(NamedTuple):
    until_ns: int
    place: tuple[int, int, int]


class Coverage:
    """Follows the records of one run."""

    def __init__(self, facts: TrainingFacts) -> None:
        self.counts: Counter[str] = Counter()
        self._facts, self._hub = facts, facts.hub
        self._backups: int = facts.config.get("backup_workers", 0)
        self._parameters = _entries(facts.config)
        sizes = facts.shard_sizes
        self._shards = dict(zip(facts.workers, map(mask, shards(sizes)), strict=True))
        self._own = facts.config.get("data_policy") != "reshard"
        self._dead: dict[str, int] = {}
        self._killed: dict[str, int] = {}
        self._pauses: dict[str, list[_Pause]] = {}
        self._disturbed: dict[str, bool] = {}
        self._misdated: dict[str, bool] = {}
        self._slow: dict[str, list[tuple[int, int]]] = {}
        self._gaps: dict[str, tuple[int, int]] = {}
        self._began: dict[str, int] = {}
        self._offset_ns = 0
        self._jumped_ns: int | None = None
        self._view: _View | None = None
        self._started = False
        self._last_members: dict[str, int] = {}
        self._held: dict[tuple[str, int], tuple[int, int]] = {}
        self._lacking: dict[str, _View] = {}
        self._phases: dict[tuple[int, int, int], int] = {}
        self._heard: dict[str, tuple[str, int]] = {}
        self._ids: dict[tuple[str, int, int], int] = {}
        self._made: dict[tuple[str, int, str, tuple[int, ...]], bool] = {}
        self._generation = self._end = 0
        self._epochs = {0: 0}
        self._consumed = {0: 0}
        self._samples_of: dict[int, int] = {}
        self._undone: dict[int, int] = {}

    def take(self, record: Record) -> None:
        """Take one record."""
        if isinstance(record, SnapshotRecord):
            return
        event, host = record.event, record.host_id or ""
        handler = _HANDLERS.get(str(event["kind"]))
        if handler is not None:
            handler(self, record.virtual_time_ns, host, event)
        if host and str(event["kind"]).startswith("Train"):
            self._awake(record.virtual_time_ns, host)

    # --- faults: only what is needed to tell an effect ----------------------------------------------------------------

    def _mutation(self, at_ns: int, _: str, event: Mapping[str, Any]) -> None:
        mutation = event["mutation"]
        kind, peer = mutation["kind"], mutation.get("peer", "")
        if kind == "peer_kill":
            self._dead[peer] = self._killed[peer] = at_ns
        elif kind == "peer_resurrect" and peer in self._dead:
            died_ns = self._dead.pop(peer)
            if mutation.get("preserve_state"):
                self._gaps[peer] = died_ns, at_ns
        elif kind == "peer_pause":
            self._pauses.setdefault(peer, []).append(_Pause(at_ns + mutation["duration_ns"], self._place()))
        elif kind in ("peer_slow", "clock_drift", "clock_offset"):
            self._disturbed[peer] = True  # how long a computation takes is no longer known
            if kind == "peer_slow":
                self._slow.setdefault(peer, []).append((at_ns, at_ns + mutation["duration_ns"]))
            else:
                self._misdated[peer] = True
            if kind == "clock_offset" and peer == self._hub:
                if mutation["offset_ns"] - self._offset_ns >= self._facts.config["lease_ns"]:
                    self._jumped_ns = at_ns
                self._offset_ns = mutation["offset_ns"]

    def _place(self) -> tuple[int, int, int]:
        return (self._generation, 0 if self._view is None else self._view.view, self._end)

    def _awake(self, at_ns: int, host: str) -> None:
        """Count a process that acts after a pause during which the job went on, or stood still if it was the hub."""
        for pause in self._pauses.pop(host, ()):
            if at_ns < pause.until_ns:
                self._pauses.setdefault(host, []).append(pause)
            elif host == self._hub or pause.place != self._place():
                self.counts["wake from peer_pause"] += 1

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def _delivered(self, at_ns: int, host: str, event: Mapping[str, Any]) -> None:
        tag, head = event["type_tag"], bytes.fromhex(event["head"])
        self._heard[host] = tag, at_ns
        if tag == "VIEW":
            self._began[host] = at_ns
        if tag == "CHUNK" and len(head) == _HEAD.size:
            generation, view, step, _, _, flags = _HEAD.unpack(head)
            at = generation, view, step
            self._phases[at] = max(self._phases.get(at, 0), flags >> 8)

    def _came(self, host: str, at_ns: int) -> str:
        """Return the tag of the message that a host takes just now."""
        tag, then_ns = self._heard.get(host, ("", -1))
        return tag if then_ns == at_ns else ""

    # --- the hub ------------------------------------------------------------------------------------------------------

    def _on_view(self, at_ns: int, _: str, event: Mapping[str, Any]) -> None:
        generation, view, step = event["generation"], event["view"], event["step"]
        members = dict(event["members"])
        before = self._view
        if before is not None:
            phase = self._phases.get((generation, before.view, step), 0)
            if phase:
                self.counts["abort during scatter" if phase == _SCATTER else "abort during gather"] += 1
        if event["reason"] == "start":
            self.counts["hub restart"] += self._started
            self._started = True
        self.counts["view of one member"] += len(members) == 1
        if event["reason"] == "member_lost":
            self._by_clock(at_ns)
        holds = [
            worker
            for worker, number in members.items()
            if self._held.get((worker, number)) == (generation, step) or self._last_members.get(worker) == number
        ]
        self._view = _View(generation, view, step, members, at_ns, min(holds, default=None))
        for worker in members:
            self._lacking.setdefault(worker, self._view)
        self._phases = {at: phase for at, phase in self._phases.items() if at[:2] == (generation, view)}

    def _by_clock(self, at_ns: int) -> None:
        tick_ns = self._facts.ticks_ns[self._hub]
        if self._jumped_ns is not None and at_ns - self._jumped_ns <= _LEASE_TICKS * tick_ns:
            self.counts["clock shifted across a lease"] += 1
            self._jumped_ns = None

    def _on_pause(self, at_ns: int, _: str, event: Mapping[str, Any]) -> None:
        self.counts["pause"] += 1
        if event["why"] == "min_workers":
            self._by_clock(at_ns)

    def _on_evict(self, _: int, __: str, event: Mapping[str, Any]) -> None:
        self.counts["eviction by suspicion"] += event["why"] == "suspected"

    def _on_reject(self, at_ns: int, host: str, event: Mapping[str, Any]) -> None:
        why, tag = event["why"], self._came(host, at_ns)
        if why == "old_incarnation":
            self.counts["old incarnation refused"] += 1
        elif why == "duplicate":
            self.counts["duplicate push refused"] += 1
        elif tag == "PUSH":
            self.counts["stale push refused"] += 1
        elif tag == "CHUNK":
            self.counts["stale chunk refused"] += 1

    def _on_commit(self, _: int, __: str, event: Mapping[str, Any]) -> None:
        generation, step, epoch = event["generation"], event["step"], event["epoch"]
        counts, ids = [], 0
        for worker, incarnation, seq, count in event["contributions"]:
            self.counts["death after READY or PUSH"] += worker in self._dead
            counts.append(count)
            ids |= self._ids.get((worker, incarnation, seq), 0)
        some = [count for count in counts if count]
        self.counts["empty contribution"] += len(some) < len(counts)
        self.counts["uneven step"] += len({*some}) > 1
        self.counts["epoch end"] += epoch > self._epochs.get(step, epoch)
        members = {} if self._view is None else self._view.members
        self.counts["P < N"] += len(members) > self._parameters
        planned = self._planned(members, self._consumed.get(step, 0))
        if self._backups and len(some) < planned:
            self.counts["backup dropped"] += 1
        if planned <= self._backups:
            self.counts["backup starvation rule used"] += 1
        self.counts["trained again"] += bool(ids & self._undone.get(epoch, 0))
        self._epochs[step + 1] = epoch
        self._samples_of[step] = ids
        self._generation, self._end = generation, step + 1
        self._last_members = dict(members)

    def _planned(self, members: Mapping[str, int], consumed: int) -> int:
        """Return how many members have samples in a step that begins with this set of consumed ones."""
        if self._own:
            left = [bool(self._shards[worker] & ~consumed) for worker in members]
            return sum(left) or len(members)
        samples = self._facts.samples
        return min(len(members), samples - consumed.bit_count() or samples)

    def _on_rollback(self, _: int, __: str, event: Mapping[str, Any]) -> None:
        step = event["step"]
        self.counts["rollback"] += 1
        self.counts["rollback over an epoch end"] += self._epochs.get(step, 0) < self._epochs.get(self._end, 0)
        for undone in range(step, self._end):
            epoch = self._epochs[undone + 1]
            self._undone[epoch] = self._undone.get(epoch, 0) | self._samples_of.get(undone, 0)
        self._generation, self._end = event["generation"], step
        self._last_members = {}

    # --- workers, and the replica of a server -------------------------------------------------------------------------

    def _on_gradient(self, at_ns: int, host: str, event: Mapping[str, Any]) -> None:
        ids, incarnation = tuple(event["ids"]), event["incarnation"]
        self._ids[host, incarnation, event["seq"]] = mask(ids)
        made = host, incarnation, event["base"], ids
        self.counts["gradient reused"] += bool(ids) and made in self._made
        self._made[made] = True
        self._lacking.pop(host, None)
        died_ns, back_ns = self._gaps.pop(host, (-1, -1))
        began_ns = self._began.get(host, at_ns)
        due_ns = began_ns + len(ids) * self._facts.config["compute_ns_per_sample"]
        if began_ns <= died_ns <= due_ns <= back_ns < at_ns and host not in self._disturbed:
            self.counts["compute deadline taken by a tick"] += 1  # the timer was lost in the gap
        elsewhere = host in self._misdated or host in self._pauses or died_ns >= began_ns
        if ids and at_ns > due_ns and not elsewhere:
            slow = self._slow.get(host, ())
            self.counts["computation slowed"] += any(since <= began_ns < until for since, until in slow)

    def _on_apply(self, at_ns: int, host: str, event: Mapping[str, Any]) -> None:
        generation, step = event["generation"], event["step"]
        self._consumed[step] = bits_of(bytes.fromhex(event["consumed"] or ""))
        if host == self._hub:
            return
        self.counts["commit learnt from VIEW"] += self._came(host, at_ns) == "VIEW"
        self.counts["commit applied late"] += self._end - step >= _LATE_STEPS
        self.counts["dead branch"] += generation < self._generation
        self._holds(at_ns, host, event)

    def _on_install(self, at_ns: int, host: str, event: Mapping[str, Any]) -> None:
        source = event["from"]
        if source != host:
            self.counts["donor transfer"] += 1
            asked = self._lacking.get(host)
            donor = None if asked is None else asked.donor
            if asked is not None and donor not in (None, source) and self._killed.get(str(donor), -1) >= asked.at_ns:
                self.counts["transfer with donor death"] += 1
        self._holds(at_ns, host, event)

    def _holds(self, at_ns: int, host: str, event: Mapping[str, Any]) -> None:
        self._held[host, event["incarnation"]] = event["generation"], event["step"]
        self._began[host] = at_ns
        self._lacking.pop(host, None)

    def _on_adopt(self, at_ns: int, host: str, event: Mapping[str, Any]) -> None:
        self._began[host] = at_ns
        self.counts["dead branch"] += event["generation"] < self._generation


_HANDLERS: Final = {
    "Mutation": Coverage._mutation,  # noqa: SLF001  # the table of the class above
    "Delivered": Coverage._delivered,  # noqa: SLF001
    "TrainView": Coverage._on_view,  # noqa: SLF001
    "TrainPause": Coverage._on_pause,  # noqa: SLF001
    "TrainEvict": Coverage._on_evict,  # noqa: SLF001
    "TrainReject": Coverage._on_reject,  # noqa: SLF001
    "TrainCommit": Coverage._on_commit,  # noqa: SLF001
    "TrainRollback": Coverage._on_rollback,  # noqa: SLF001
    "TrainGradient": Coverage._on_gradient,  # noqa: SLF001
    "TrainApply": Coverage._on_apply,  # noqa: SLF001
    "TrainInstall": Coverage._on_install,  # noqa: SLF001
    "TrainAdopt": Coverage._on_adopt,  # noqa: SLF001
}


def _entries(config: Mapping[str, Any]) -> int:
    """Return P', the number of parameters that are reduced."""
    features, hidden = config["features"], config["hidden"]
    trained: int = hidden * (features + 2) + 1 if config["model"] == "mlp" else features + 1
    return trained + (2 * features if config.get("track_stats") else 0)


def covered(facts: TrainingFacts, records: Sequence[Record]) -> Counter[str]:
    """Return the counters of a run, those excepted that an invariant keeps: discriminating steps and orphans."""
    coverage = Coverage(facts)
    for record in records:
        coverage.take(record)
    return +coverage.counts


def missing(counts: Mapping[str, int], strategy: str) -> tuple[str, ...]:
    """Return the counters that a batch of this strategy must have seen and has not."""
    return tuple([name for name, strategies in REQUIRED.items() if strategy in strategies and not counts.get(name)])
