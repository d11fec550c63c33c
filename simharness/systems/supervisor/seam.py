"""Everything a process of the job may ask of its surroundings, and everything it may be answered (closed on both sides).

A process is a generator: it yields one of these calls and is sent the reply. Between two yields it runs alone, at one instant.
Names of file calls are those of the Disk port. `version` of a backend call is the record version it was decided from.
"""

from collections.abc import Generator, Mapping
from typing import Literal, Protocol, TypeVar

import msgspec

from simharness.systems.supervisor.events import Batch, CallKind

FileSystem = Literal["record", "checkpoint"]
ObjectState = Literal["pending", "running", "stopping", "ended"]


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Shared settings: immutable, compared by value."""


# --- calls: time, lock -----------------------------------------------------------------------------------------------


class Sleep(_Value, frozen=True, kw_only=True):
    """Wait until the clock shows `until_ns` or later. Reply: `Ok`."""

    until_ns: int


class AcquireLock(_Value, frozen=True, kw_only=True):
    """Ask the lock table for the job's lock. Reply: `Ok`, or `Refused` if another owner has it."""


# --- calls: record store in memory -----------------------------------------------------------------------------------


class MemRead(_Value, frozen=True, kw_only=True):
    """Read the batches after the first `have`. Reply: `Batches` or `Down`."""

    have: int


class MemCommit(_Value, frozen=True, kw_only=True):
    """Append `batch` if the record is at version `expected`. Reply: `Committed`, `Conflict` or `Unknown`."""

    expected: int
    batch: Batch
    mutation_id: str


# --- calls: files ----------------------------------------------------------------------------------------------------
# `epoch` counts the power cuts of a file system. A call that names an epoch other than the present one does nothing and is
# answered `FsStale`; None names no epoch.


class FsList(_Value, frozen=True, kw_only=True):
    """List the directory with every file's content, as they are at one instant. Reply: `FsListing`."""

    fs: FileSystem


class FsRead(_Value, frozen=True, kw_only=True):
    """Read one file. Reply: `FsData`, `FsMissing` or `FsStale`."""

    fs: FileSystem
    name: str
    epoch: int | None = None


class FsWrite(_Value, frozen=True, kw_only=True):
    """Give a file this content; not durable before `FsSync`. Reply: `FsDone` or `FsStale`."""

    fs: FileSystem
    name: str
    data: bytes
    epoch: int | None = None


class FsSync(_Value, frozen=True, kw_only=True):
    """Make a file's content durable. Reply: `FsDone`, `FsMissing` or `FsStale`."""

    fs: FileSystem
    name: str
    epoch: int | None = None


class FsLink(_Value, frozen=True, kw_only=True):
    """Give the file `old` the further name `new`, which must be free. Reply: `FsDone`, `FsExists`, `FsMissing`, `FsStale`."""

    fs: FileSystem
    old: str
    new: str
    epoch: int | None = None


class FsRename(_Value, frozen=True, kw_only=True):
    """Name the file `old` `new` instead, whatever had that name. Reply: `FsDone`, `FsMissing` or `FsStale`."""

    fs: FileSystem
    old: str
    new: str
    epoch: int | None = None


class FsUnlink(_Value, frozen=True, kw_only=True):
    """Take a name away. Reply: `FsDone`, `FsMissing` or `FsStale`."""

    fs: FileSystem
    name: str
    epoch: int | None = None


class FsSyncDir(_Value, frozen=True, kw_only=True):
    """Make all names of the directory durable. Reply: `FsDone` or `FsStale`."""

    fs: FileSystem
    epoch: int | None = None


# --- calls: backend --------------------------------------------------------------------------------------------------


class Start(_Value, frozen=True, kw_only=True):
    """Create the gated object of attempt (n, a). Reply: `Created`, `Refused` (no effect, ever) or `Unknown`."""

    n: int
    a: int
    version: int


class Open(_Value, frozen=True, kw_only=True):
    """Take an object's gate away. Reply: `Ok` or `Unknown`."""

    obj: str
    version: int


class Stop(_Value, frozen=True, kw_only=True):
    """End an object. Reply: `Ok` (accepted, which proves nothing) or `Unknown`."""

    obj: str
    version: int


class Find(_Value, frozen=True, kw_only=True):
    """List the job's objects. Reply: `Found` or `Unknown`."""

    version: int


class BoundedCall(_Value, frozen=True, kw_only=True):
    """Hold, release or requeue an object (slurm). Reply: `Ok` (its effects are over), `Refused` (none ever) or `Unknown`."""

    cid: str
    kind: CallKind
    obj: str
    deadline_ns: int
    version: int


class ClearBit(_Value, frozen=True, kw_only=True):
    """Take back "may be requeued" (slurm). Reply: `Ok` or `Unknown`."""

    obj: str
    version: int


class Cessation(_Value, frozen=True, kw_only=True):
    """Ask whether any process of the job is left on any node (slurm). Reply: `Ceased` or `Unknown`."""

    obj: str
    version: int


# --- replies ---------------------------------------------------------------------------------------------------------


class Ok(_Value, frozen=True, kw_only=True):
    """It is done."""


class Refused(_Value, frozen=True, kw_only=True):
    """It is not done and never will be."""


class Unknown(_Value, frozen=True, kw_only=True):
    """It may or may not be done, now or later."""


class Created(_Value, frozen=True, kw_only=True):
    """The object of a Start."""

    obj: str


class View(_Value, frozen=True, kw_only=True):
    """One object as a Find shows it. `alive` = its state is not `ended`; `bit` = requeue allowed; `lost` = its node is."""

    obj: str
    n: int
    a: int
    alive: bool
    gated: bool
    state: ObjectState
    cause: str | None = None
    held: bool = False
    bit: bool = False
    lost: bool = False
    runs: int = 0


class Found(_Value, frozen=True, kw_only=True):
    """The job's objects at one instant, without those too young to be shown."""

    views: tuple[View, ...]


class Ceased(_Value, frozen=True, kw_only=True):
    """Whether no process of the job is left."""

    ceased: bool


class Batches(_Value, frozen=True, kw_only=True):
    """The record is at `version`; `batches` are those asked for."""

    version: int
    batches: tuple[Batch, ...]


class Committed(_Value, frozen=True, kw_only=True):
    """The batch is in the record, durably, as version `version`."""

    version: int


class Conflict(_Value, frozen=True, kw_only=True):
    """The batch is not in the record: it had moved on."""


class Down(_Value, frozen=True, kw_only=True):
    """The store does not answer; ask again."""


class Tombstoned(_Value, frozen=True, kw_only=True):
    """The record was closed and pruned."""


class FsListing(_Value, frozen=True, kw_only=True):
    """Name -> content of every file."""

    epoch: int
    files: Mapping[str, bytes]


class FsData(_Value, frozen=True, kw_only=True):
    """A file's content."""

    epoch: int
    data: bytes


class FsDone(_Value, frozen=True, kw_only=True):
    """Done, in this epoch."""

    epoch: int


class FsExists(_Value, frozen=True, kw_only=True):
    """The name is taken."""


class FsMissing(_Value, frozen=True, kw_only=True):
    """There is no such file."""


class FsStale(_Value, frozen=True, kw_only=True):
    """The epoch named in the call is over: power was cut since."""


BackendCall = Start | Open | Stop | Find | BoundedCall | ClearBit | Cessation
MemCall = MemRead | MemCommit
FsCall = FsList | FsRead | FsWrite | FsSync | FsLink | FsRename | FsUnlink | FsSyncDir
SeamCall = Sleep | AcquireLock | MemCall | FsCall | BackendCall
BackendReply = Ok | Refused | Unknown | Created | Found | Ceased
ReadReply = Batches | Down | Tombstoned
CommitReply = Committed | Conflict | Unknown | Tombstoned
FsReply = FsListing | FsData | FsDone | FsExists | FsMissing | FsStale
Reply = BackendReply | ReadReply | CommitReply | FsReply

T = TypeVar("T")
Process = Generator[SeamCall, Reply, T]
"""A process, or a part of one, that ends with a T."""


class Context(Protocol):
    """What one incarnation can see without asking: read between two yields, never kept."""

    @property
    def incarnation(self) -> str:
        """Name of this incarnation, such as `sup0.3`; never used twice."""

    @property
    def draining(self) -> bool:
        """Whether it was asked to leave."""

    def now(self) -> int:
        """Return the instant, in ns."""

    def owns_lock(self) -> bool:
        """Tell whether the lock table names this incarnation as an owner."""

    def may_acquire(self) -> bool:
        """Tell whether the lock is free, or granted to everybody."""


class Store(Protocol):
    """A job's record."""

    def read(self, have: int) -> Process[ReadReply]:
        """Read the batches after the first `have`. Raises: RecordCorrupt if the record cannot be trusted."""

    def commit(self, expected: int, batch: Batch, mutation_id: str) -> Process[CommitReply]:
        """Append `batch` if the record is at version `expected`. Raises: RecordCorrupt if it cannot be trusted."""
