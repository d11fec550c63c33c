"""The record as the world sees it: what was acknowledged, folded; and a store that tells what its user is told."""

from collections.abc import Callable, Mapping
from typing import Final

from simharness.supervisor.checks import Checks
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.config import Defects
from simharness.systems.supervisor.fold import Illegal, extend
from simharness.systems.supervisor.state import State
from simharness.systems.supervisor.store.codec import RecordCorrupt

Sense = Callable[[State, ev.EscalationRaised], None]

_PLAIN_COUNTERS: Final[Mapping[type, str]] = {
    ev.AttemptAbandoned: "attempt_abandoned",
    ev.ObjectRetired: "object_retired",
    ev.ResubmitRequested: "resubmitted",
    ev.GiveUp: "gave_up",
    ev.FenceAuthorised: "node_fenced",
}


class Ledger:
    """The acknowledged record, folded version by version with the system's own fold: invariant 9, and nothing but it.

    Args:
        checks: Is told every proposal and every acknowledged batch.
        seen: Counters of this run.
        defects: Rules that are switched off.
        sense: Judges the cause of an escalation by the record that holds it.
        purged: Tells whether anything was ever purged.
    """

    def __init__(
        self, checks: Checks, seen: set[str], defects: Defects, sense: Sense, purged: Callable[[], bool]
    ) -> None:
        self._checks, self._seen, self._defects, self._sense, self._purged = checks, seen, defects, sense, purged
        self._states = [State()]
        self._proposal: tuple[int, ev.Batch, State] | None = None
        self.tampered = False

    @property
    def state(self) -> State:
        """What the acknowledged record says."""
        return self._states[-1]

    def at(self, version: int) -> State:
        """Return what the record says at a version that was acknowledged."""
        return self._states[version]

    def propose(self, incarnation: str, expected: int, batch: ev.Batch) -> None:
        """Take note of a batch that is about to be appended.

        Raises:
            Violation: If it is illegal there.
        """
        self._checks.proposed(incarnation, expected + 1, batch)
        if not self.tampered:
            self._proposal = expected + 1, batch, self._after(expected, batch)

    def acknowledge(self, version: int, batch: ev.Batch) -> None:
        """Take a batch that somebody has been told of as part of the record."""
        if self.tampered:
            return
        states = self._states
        self._checks.acknowledge(version, batch)
        if version < len(states):
            return
        proposal = self._proposal
        if proposal is not None and proposal[0] == version and proposal[1] is batch:
            states.append(proposal[2])
        else:
            states.append(self._after(version - 1, batch))
        for event in batch:
            self._count(event)
            if isinstance(event, ev.EscalationRaised):
                self._sense(states[-1], event)

    def _after(self, version: int, batch: ev.Batch) -> State:
        try:
            return extend(self._states[version], (batch,), self._defects)
        except Illegal as illegal:
            message = f"version {version + 1}: {illegal.kind} is illegal: {illegal.rule}"
            raise self._checks.broken("9", message) from None

    def _count(self, event: ev.Event) -> None:
        seen = self._seen
        if (name := _PLAIN_COUNTERS.get(type(event))) is not None:
            seen.add(name)
        match event:
            case ev.Settled():
                self._count_settlement()
            case ev.Hold(by=by):
                seen.add(f"hold_by_{by}")
            case ev.Release(by="cessation"):
                seen.add("cessation_resume")
            case ev.OutcomeDecided(state=state, cause=cause):
                seen.update((f"outcome_{state}", f"outcome_{cause}"))
            case ev.EscalationRaised(kind=kind):
                seen.add(f"esc_{kind}")
            case ev.EscalationAnswered(answer="node_confirmed_dead"):
                seen.add("node_confirmed_dead")

    def _count_settlement(self) -> None:
        if self._checks.manual and not self._checks.any_abandon:
            self._seen.add("manual_settled_without_abandon")
        if self._purged():
            self._seen.add("settled_after_purge")


class CommitWatch:
    """What the world must know of a process's commit under way."""

    __slots__ = ("batch", "linked", "lost_id")

    def __init__(self) -> None:
        self.batch: ev.Batch | None = None
        self.linked = False
        """Whether this commit's file has got its name."""
        self.lost_id: str | None = None
        """The mutation id of a commit that took effect and whose reply was lost."""


class WatchedStore:
    """A store that passes everything on and tells the ledger what the caller learns."""

    def __init__(
        self,
        inner: seam.Store,
        incarnation: str,
        ledger: Ledger,
        checks: Checks,
        seen: set[str],
        watch: CommitWatch,
        owns_lock: Callable[[], bool],
    ) -> None:
        self._inner, self._incarnation, self._ledger, self._checks = inner, incarnation, ledger, checks
        self._seen, self._watch, self._owns_lock = seen, watch, owns_lock

    def read(self, have: int) -> seam.Process[seam.ReadReply]:
        """Read; what is returned is acknowledged from now on."""
        try:
            reply = yield from self._inner.read(have)
        except RecordCorrupt:
            self._refused()
            raise
        if isinstance(reply, seam.Batches):
            self._checks.read_ends(self._incarnation, refused=False)
            acknowledge = self._ledger.acknowledge
            for version, batch in enumerate(reply.batches, have + 1):
                acknowledge(version, batch)
        return reply

    def commit(self, expected: int, batch: ev.Batch, mutation_id: str) -> seam.Process[seam.CommitReply]:
        """Commit; a batch that is reported as committed is acknowledged."""
        watch = self._watch
        self._ledger.propose(self._incarnation, expected, batch)
        watch.batch, watch.linked = batch, False
        try:
            reply = yield from self._inner.commit(expected, batch, mutation_id)
        except RecordCorrupt:
            self._refused()
            raise
        watch.batch = None
        if isinstance(reply, seam.Committed):
            self._ledger.acknowledge(reply.version, batch)
            if not self._owns_lock():
                self._seen.add("revoked_owner_commit")
            if mutation_id == watch.lost_id and not watch.linked:
                self._seen.add("lost_commit_retried")
        elif isinstance(reply, seam.Unknown):
            if watch.linked:
                watch.lost_id = mutation_id
        elif isinstance(reply, seam.Tombstoned):
            self._seen.add("tombstone_refused_commit")
        return reply

    def _refused(self) -> None:
        self._checks.read_ends(self._incarnation, refused=True)
        self._seen.add("corrupt_refused")
