"""The supervisor's loop, one generator an incarnation: reads, decides, does one thing, reads again (§6.1 of the design)."""

from enum import StrEnum
from typing import Final

from simharness.systems.supervisor.checkpoint import resolve
from simharness.systems.supervisor.config import NO_DEFECTS, SECOND, Defects, SupervisorDefect
from simharness.systems.supervisor.decide import next_step
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.fold import extend
from simharness.systems.supervisor.obs import Obs, ResolvedCheckpoint
from simharness.systems.supervisor.seam import (
    AcquireLock,
    BackendCall,
    Batches,
    Ceased,
    CommitReply,
    Committed,
    Context,
    Created,
    Find,
    Found,
    Ok,
    Process,
    Refused,
    Sleep,
    Store,
    Tombstoned,
    Unknown,
)
from simharness.systems.supervisor.state import State
from simharness.systems.supervisor.steps import Commit, Decision, Done, Resolve, Send, Wait
from simharness.systems.supervisor.store.codec import RecordCorrupt

LOCK_RETRY_NS: Final = 3 * SECOND
STORE_RETRY_NS: Final = SECOND
FIND_RETRY_NS: Final = SECOND
COMMIT_RETRIES: Final = 3
"""How often a commit whose reply was lost is sent again, under the same mutation id."""


class Ending(StrEnum):
    """Why an incarnation ended by itself. Whoever runs it releases its lock."""

    DONE = "done"
    DRAINED = "drained"
    REFUSED = "refused"
    """The record cannot be trusted: it did not act again."""
    TOMBSTONED = "tombstoned"


def supervisor(ctx: Context, store: Store, defects: Defects = NO_DEFECTS) -> Process[Ending]:
    """Supervise a job until its record is closed.

    Args:
        ctx: What this incarnation sees without asking.
        store: The job's record.
        defects: Rules switched off.

    Raises:
        Illegal: If the record holds what no supervisor and no person may have put there.
    """
    return _Incarnation(ctx, store, defects).run()


class _Incarnation:
    """State of the loop between two of its rounds."""

    __slots__ = ("_commits", "_ctx", "_defects", "_obs", "_state", "_store")

    def __init__(self, ctx: Context, store: Store, defects: Defects) -> None:
        self._ctx, self._store, self._defects = ctx, store, defects
        self._obs, self._state, self._commits = Obs(), State(), 0

    def run(self) -> Process[Ending]:
        try:
            while True:
                if self._ctx.draining and not self._obs.facts:  # nothing learnt is dropped
                    return Ending.DRAINED
                if not self._ctx.owns_lock():
                    yield from self._acquire()
                    continue
                reply = yield from self._store.read(self._state.version)
                if isinstance(reply, Tombstoned):
                    return Ending.TOMBSTONED
                if not isinstance(reply, Batches):
                    yield Sleep(until_ns=self._ctx.now() + STORE_RETRY_NS)
                    continue
                self._state = extend(self._state, reply.batches, self._defects)
                self._obs.drop_old_news(self._state)
                step = next_step(self._state, self._obs, self._ctx.now(), self._ctx.incarnation, self._defects)
                ending = yield from self._perform(step)
                if ending is not None:
                    return ending
        except RecordCorrupt:
            return Ending.REFUSED

    def _acquire(self) -> Process[None]:
        """Ask for the lock if there is a chance; safety does not rest on it."""
        if self._ctx.may_acquire():
            reply = yield AcquireLock()
            if isinstance(reply, Ok):
                return
        yield Sleep(until_ns=self._ctx.now() + LOCK_RETRY_NS)

    def _perform(self, step: Decision) -> Process[Ending | None]:
        match step:
            case Done():
                return Ending.DONE
            case Wait(until_ns=until, sweep=sweep):
                self._obs.sweep1 = sweep or self._obs.sweep1
                yield Sleep(until_ns=until)
            case Resolve():
                found = yield from resolve(self._defects)
                self._obs.ckpt = ResolvedCheckpoint(self._state.version, found)
            case Send(call=call, then=then):
                yield from self._send(call)
                return (yield from self._commit(then)) if then else None
            case Commit(batch=batch):
                return (yield from self._commit(batch))
        return None

    def _send(self, call: BackendCall) -> Process[None]:
        sent_at = self._ctx.now()
        self._obs.sending(call, sent_at)
        reply = yield call
        assert isinstance(reply, Ok | Refused | Unknown | Created | Found | Ceased), "a reply of another call"
        # knob UNKNOWN_MEANS_REFUSED: what got no answer has failed (R8)
        if isinstance(reply, Unknown) and SupervisorDefect.UNKNOWN_MEANS_REFUSED in self._defects:
            reply = Refused()
        self._obs.learn(call, reply, self._state, sent_at)
        if isinstance(call, Find) and not isinstance(reply, Found):
            yield Sleep(until_ns=self._ctx.now() + FIND_RETRY_NS)

    def _commit(self, batch: Batch) -> Process[Ending | None]:
        reply = yield from self._until_known(batch)
        if isinstance(reply, Committed):
            self._obs.facts = [fact for fact in self._obs.facts if fact not in batch]
        return Ending.TOMBSTONED if isinstance(reply, Tombstoned) else None

    def _until_known(self, batch: Batch) -> Process[CommitReply]:
        """Commit; if the reply is lost, again under the same mutation id, so that it is in the record at most once."""
        self._commits += 1
        mutation_id = f"{self._ctx.incarnation}#{self._commits}"
        reply = yield from self._store.commit(self._state.version, batch, mutation_id)
        for _ in range(COMMIT_RETRIES):
            if not isinstance(reply, Unknown):
                break
            yield Sleep(until_ns=self._ctx.now() + STORE_RETRY_NS)
            reply = yield from self._store.commit(self._state.version, batch, mutation_id)
        return reply
