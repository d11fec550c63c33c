"""A record in memory: the record itself, and the store that reaches it through the seam (§8.1 of the design)."""

from simharness.systems.supervisor.config import NO_DEFECTS, Defects, SupervisorDefect
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.seam import (
    Batches,
    CommitReply,
    Committed,
    Conflict,
    Down,
    MemCommit,
    MemRead,
    Process,
    ReadReply,
    Tombstoned,
    Unknown,
)


class MemoryRecord:
    """A list of batches. Compare and append is one step."""

    def __init__(self, defects: Defects = NO_DEFECTS) -> None:
        self.batches: list[Batch] = []
        self._at: dict[str, int] = {}
        self._defects = defects

    def read(self, call: MemRead) -> Batches:
        """Answer a read."""
        return Batches(version=len(self.batches), batches=tuple(self.batches[call.have :]))

    def commit(self, call: MemCommit) -> Committed | Conflict:
        """Append at the expected version, once for each mutation id."""
        done = self._at.get(call.mutation_id)
        if done is not None:
            return Committed(version=done)
        # knob BLIND_APPEND: appended at any version (R5)
        if call.expected != len(self.batches) and SupervisorDefect.BLIND_APPEND not in self._defects:
            return Conflict()
        self.batches.append(call.batch)
        self._at[call.mutation_id] = len(self.batches)
        return Committed(version=len(self.batches))


class MemoryStore:
    """A `Store`: every read and every commit is one call."""

    def read(self, have: int) -> Process[ReadReply]:
        """Read the batches after the first `have`."""
        reply = yield MemRead(have=have)
        assert isinstance(reply, Batches | Down | Tombstoned), "a reply of another call"
        return reply

    def commit(self, expected: int, batch: Batch, mutation_id: str) -> Process[CommitReply]:
        """Append `batch` if the record is at version `expected`."""
        reply = yield MemCommit(expected=expected, batch=batch, mutation_id=mutation_id)
        assert isinstance(reply, Committed | Conflict | Unknown | Tombstoned), "a reply of another call"
        return reply
