"""A record as files of one flat directory, over the operations of the Disk port (§8.2, §8.3 of the design).

Every operation is a call of the seam, so the same text runs on a simulated disk and on a real one, and a crash can fall between
any two. The exclusive link is the compare-and-append: no lock is needed. The temporary name of a commit stays in the directory,
after pruning too, since a commit that was frozen may still be going on: no reader takes it for a batch's.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from simharness.systems.supervisor.config import NO_DEFECTS, Defects, SupervisorDefect
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.fold import fold
from simharness.systems.supervisor.seam import (
    Batches,
    CommitReply,
    Committed,
    Conflict,
    Down,
    FileSystem,
    FsData,
    FsDone,
    FsExists,
    FsLink,
    FsList,
    FsListing,
    FsMissing,
    FsRead,
    FsSync,
    FsSyncDir,
    FsUnlink,
    FsWrite,
    Process,
    ReadReply,
    Tombstoned,
    Unknown,
)
from simharness.systems.supervisor.store.codec import (
    GENESIS,
    RECORD,
    TOMBSTONE,
    Entry,
    RecordCorrupt,
    Tombstone,
    chain,
    check_owner,
    check_tombstone,
    decode_entry,
    encode_entry,
    encode_tombstone,
    record_name,
    temporary_name,
    verify_entry,
    version_of,
)

FS: Final[FileSystem] = "record"
_TOMB_TEMPORARY: Final = "t-TOMB"


class FileStore:
    """A `Store`. One incarnation's: it remembers which files it has verified.

    Args:
        job: The job whose record it is; a directory that holds another job's is refused.
        defects: Rules switched off.
    """

    def __init__(self, job: str, defects: Defects = NO_DEFECTS) -> None:
        self._job, self._defects = job, defects
        self._known: list[tuple[str, bytes, Entry]] = []
        """Name, content and entry of the first files, verified. The same bytes are not verified twice."""
        self._durable = 0
        """How many of them a barrier has made durable: these may never change."""
        self._entries_known: list[Entry] = []
        self._verified: Mapping[str, bytes] | None = None
        """The listing that was verified last: the very same one is not looked through again."""

    @property
    def head(self) -> str:
        """Digest of the last batch that was verified."""
        return self._known[-1][2].h if self._known else GENESIS

    def read(self, have: int) -> Process[ReadReply]:
        """Read the batches after the first `have`: list, verify, and make durable what was listed (R16, R17).

        Raises:
            RecordCorrupt: If the record cannot be trusted.
        """
        listing = yield FsList(fs=FS)
        entries = self._entries(listing)
        if entries is None:
            return Tombstoned()
        if len(entries) < have:
            raise RecordCorrupt(file=record_name(have), rule="a batch that was read once stays")
        # knob READ_WITHOUT_BARRIER: used before it is durable (R16)
        if SupervisorDefect.READ_WITHOUT_BARRIER not in self._defects:
            barrier = yield FsSyncDir(fs=FS, epoch=_epoch(listing))
            if not isinstance(barrier, FsDone):
                return Down()
            self._durable = len(entries)
        return Batches(version=len(entries), batches=tuple([entry.e for entry in entries[have:]]))

    def commit(self, expected: int, batch: Batch, mutation_id: str) -> Process[CommitReply]:
        """Append `batch` if the record is at version `expected`.

        Raises:
            RecordCorrupt: If the record cannot be trusted.
        """
        listing = yield FsList(fs=FS)
        entries = self._entries(listing)
        if entries is None:
            return Tombstoned()
        epoch = _epoch(listing)
        for version, entry in enumerate(entries, start=1):
            if entry.m == mutation_id:
                return (yield from self._barrier(version, epoch))
        if len(entries) < expected:
            raise RecordCorrupt(file=record_name(expected), rule="a batch that was read once stays")
        if len(entries) > expected:
            return Conflict()
        previous = entries[-1].h if entries else GENESIS
        temporary = temporary_name(mutation_id)
        data = encode_entry(chain(previous, batch, mutation_id))
        for call in (
            FsWrite(fs=FS, name=temporary, data=data, epoch=epoch),
            FsSync(fs=FS, name=temporary, epoch=epoch),
        ):
            reply = yield call
            if not isinstance(reply, FsDone):
                return Unknown()
        return (yield from self._link(temporary, expected + 1, epoch))

    def _link(self, temporary: str, version: int, epoch: int) -> Process[CommitReply]:
        """Give a whole batch its name, unless the name is taken or the record is closed."""
        name = record_name(version)
        linked = yield FsLink(fs=FS, old=temporary, new=name, epoch=epoch)
        if isinstance(linked, FsExists):
            return Conflict()
        if not isinstance(linked, FsDone):
            return Unknown()
        # knob TOMBSTONE_IGNORED: nobody looks after the link (R18)
        if SupervisorDefect.TOMBSTONE_IGNORED not in self._defects:
            tomb = yield FsRead(fs=FS, name=TOMBSTONE, epoch=epoch)
            if isinstance(tomb, FsData):
                yield FsUnlink(fs=FS, name=name, epoch=epoch)
                return Tombstoned()
            if not isinstance(tomb, FsMissing):
                return Unknown()
        # knob COMMIT_WITHOUT_DIR_SYNC: acknowledged right after the link (R16)
        if SupervisorDefect.COMMIT_WITHOUT_DIR_SYNC in self._defects:
            return Committed(version=version)
        return (yield from self._barrier(version, epoch))

    def _barrier(self, version: int, epoch: int) -> Process[CommitReply]:
        reply = yield FsSyncDir(fs=FS, epoch=epoch)
        return Committed(version=version) if isinstance(reply, FsDone) else Unknown()

    def _entries(self, listing: object) -> list[Entry] | None:
        """Return the record as a listing shows it, verified; None if it was closed: a tombstone outranks every file (R18)."""
        assert isinstance(listing, FsListing), "a reply of another call"
        files = listing.files
        tomb = files.get(TOMBSTONE)
        if tomb is not None:
            check_tombstone(tomb, self._job)
            return None
        # knob SKIP_CHAIN_CHECK: whatever can be parsed is believed (R17)
        if SupervisorDefect.SKIP_CHAIN_CHECK in self._defects:
            return [decode_entry(name, files[name]) for name in _names(files)]
        self._verify(files)
        return self._entries_known

    def _verify(self, files: Mapping[str, bytes]) -> None:
        """Verify what is not verified yet, up to the first version that has no file, and refuse a file beyond it."""
        if files is self._verified:
            return
        known = self._known
        same = 0
        for name, data, _ in known:
            if files.get(name) != data:
                break
            same += 1
        if same < self._durable:
            raise RecordCorrupt(file=record_name(same + 1), rule="a batch that was read once stays as it was")
        del known[same:]
        for name in _names(files, same):
            data = files[name]
            entry = decode_entry(name, data)
            verify_entry(name, data, entry, self.head)
            if not known:
                check_owner(name, entry, self._job)
            known.append((name, data, entry))
        if sum([name[0] == RECORD for name in files]) != len(known):
            _refuse_gap(files, len(known))
        self._entries_known = [entry for _, _, entry in known]
        self._verified = files


def _names(files: Mapping[str, bytes], after: int = 0) -> Iterator[str]:
    """Yield the names of the batches after the first `after`, until one is missing."""
    version = after + 1
    while (name := record_name(version)) in files:
        yield name
        version += 1


def _refuse_gap(files: Mapping[str, bytes], count: int) -> None:
    beyond = [version for name in files if (version := version_of(name)) is not None and version > count]
    if beyond:
        raise RecordCorrupt(file=record_name(count + 1), rule="no batch is missing before the last")


def _epoch(listing: object) -> int:
    assert isinstance(listing, FsListing), "a reply of another call"
    return listing.epoch


def prune(job: str, defects: Defects = NO_DEFECTS) -> Process[bool]:
    """Replace a settled record by its tombstone; may be begun again after it was cut off anywhere (§8.3 of the design).

    Returns:
        Whether the tombstone is durable and every batch gone; False if the record is not settled or power was cut.

    Raises:
        RecordCorrupt: If the record cannot be trusted.
    """
    store = FileStore(job, defects)
    reply = yield from store.read(0)
    if isinstance(reply, Batches):
        buried = yield from _bury(store, job, reply, defects)
        if not buried:
            return False
    elif not isinstance(reply, Tombstoned):
        return False
    listing = yield FsList(fs=FS)
    epoch = _epoch(listing)
    assert isinstance(listing, FsListing)
    if TOMBSTONE not in listing.files:
        return False
    durable = yield FsSyncDir(fs=FS, epoch=epoch)  # before the first removal: R18 rests on it
    if not isinstance(durable, FsDone):
        return False
    for name in sorted(listing.files):
        if version_of(name) is not None:
            reply_to_unlink = yield FsUnlink(fs=FS, name=name, epoch=epoch)
            if not isinstance(reply_to_unlink, FsDone | FsMissing):
                return False
    done = yield FsSyncDir(fs=FS, epoch=epoch)
    return isinstance(done, FsDone)


def _bury(store: FileStore, job: str, record: Batches, defects: Defects) -> Process[bool]:
    """Write the tombstone of a settled record."""
    state = fold(record.batches, defects)
    if not state.settled:
        return False
    assert state.outcome is not None
    tombstone = Tombstone(job=job, version=record.version, head=store.head, outcome=state.outcome.state)
    written = yield FsWrite(fs=FS, name=_TOMB_TEMPORARY, data=encode_tombstone(tombstone))
    if not isinstance(written, FsDone):
        return False
    for call in (
        FsSync(fs=FS, name=_TOMB_TEMPORARY, epoch=written.epoch),
        FsLink(fs=FS, old=_TOMB_TEMPORARY, new=TOMBSTONE, epoch=written.epoch),
    ):
        reply = yield call
        if not isinstance(reply, FsDone | FsExists):
            return False
    return True
