"""The hub's journal: everything it may say is here first, appended and synced (design, section 7).

It lies in segments, `journal.000000` and on, each a row of entries: length, checksum, body. A segment that a loss of power has torn
ends where its whole entries end; who comes after it begins another.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from simharness.systems.training.config import TrainingDefect
from simharness.systems.training.events import TrainingAbort
from simharness.systems.training.plan import Member
from simharness.systems.training.state import DIGEST_BYTES, digest
from simharness.systems.training.storage import Disk

_PREFIX: Final = "journal."
_SEGMENT_BYTES: Final = 1 << 16
_CHECK_BYTES: Final = 4
_FRAME: Final = struct.Struct(f"<H{_CHECK_BYTES}s")
_MEMBER: Final = struct.Struct("<HI")
_COMMIT: Final = struct.Struct(f"<cIII{DIGEST_BYTES}s{DIGEST_BYTES}s")
_VIEW: Final = struct.Struct("<cII")
_ROLLBACK: Final = struct.Struct(f"<cII{DIGEST_BYTES}s")


class LastCommit(NamedTuple):
    """The newest commit, wherever it was."""

    generation: int
    view: int
    step: int
    reduction: bytes
    members: tuple[Member, ...]


class Journal:
    """What a hub knows for certain: its views, its generation, its commits and the digests of the states that they started from.

    Args:
        disk: Where it lies. What is there is read, and from then on it is added to.
        defects: NO_SYNC.
        guards: Stop if an entry would go backwards.
        start: The digest of state 0, which every process can make (design, rule 10.3).
    """

    def __init__(self, disk: Disk, *, defects: frozenset[TrainingDefect], guards: bool, start: bytes) -> None:
        self._disk, self._defects, self._guards = disk, defects, guards
        self.generation = self.view = self.step = 0
        self.last: LastCommit | None = None
        self.fresh: bytes | None = start
        """The digest of the state of `step` if nothing was committed in this generation yet."""
        self.known: dict[int, bytes] = {0: start}
        """Step -> digest of that state, on the present lineage. The state after the newest commit is not among them."""
        segments = [name for name in disk.list() if name.startswith(_PREFIX)]
        for name in segments:
            for body in _entries(disk.read(name)):
                self._take(body)
        self.found = bool(segments)
        """Whether there was a journal: this is not the first start."""
        self._number = len(segments)
        self._size = _SEGMENT_BYTES

    def issue(self, members: Sequence[Member]) -> None:
        """Take the next view number."""
        self._append(_VIEW.pack(b"V", self.generation, self.view + 1) + _packed(members))

    def commit(self, reduction: bytes, base: bytes, members: Sequence[Member]) -> None:
        """Commit the present step in the present view: it goes from state `base` on."""
        body = _COMMIT.pack(b"C", self.generation, self.view, self.step, reduction, base) + _packed(members)
        self._append(body, sync=TrainingDefect.NO_SYNC not in self._defects)  # NO_SYNC: revealed before it is safe

    def roll_back(self, step: int, base: bytes) -> None:
        """Begin the next generation with a state of the lineage."""
        self._append(_ROLLBACK.pack(b"R", self.generation + 1, step, base))

    def _append(self, body: bytes, *, sync: bool = True) -> None:
        self._take(body)
        if self._size >= _SEGMENT_BYTES:
            self._name, self._size = f"{_PREFIX}{self._number:06}", 0
            self._number += 1
        frame = _FRAME.pack(len(body), digest(body)[:_CHECK_BYTES]) + body
        self._disk.write(self._name, frame, append=True)
        if sync:
            self._disk.sync(self._name)
        if not self._size:
            self._disk.sync_dir()
        self._size += len(frame)

    def _take(self, body: bytes) -> None:
        """Let an entry count, old or new."""
        if body.startswith(b"V"):
            _, generation, view = _VIEW.unpack_from(body)
            self._forward("view", (generation, view), (self.generation, self.view + 1))
            self.generation, self.view = generation, view
        elif body.startswith(b"C"):
            _, generation, view, step, reduction, base = _COMMIT.unpack_from(body)
            self._forward("commit", (generation, view, step), (self.generation, self.view, self.step))
            self.last = LastCommit(generation, view, step, reduction, _unpacked(body[_COMMIT.size :]))
            self.known[step], self.step, self.fresh = base, step + 1, None
        else:
            _, generation, step, base = _ROLLBACK.unpack_from(body)
            self._forward("generation", (generation,), (self.generation + 1,))
            self.generation, self.step, self.fresh = generation, step, base
            self.known = {at: known for at, known in self.known.items() if at < step} | {step: base}

    def _forward(self, what: str, entry: tuple[int, ...], due: tuple[int, ...]) -> None:
        if self._guards and entry < due:
            raise TrainingAbort("journal", f"a {what} goes back: {entry} after {due}")


def _entries(data: bytes) -> list[bytes]:
    """Return the whole entries of a segment."""
    found, at = [], 0
    while len(data) >= at + _FRAME.size:
        length, check = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(body) != length or digest(body)[:_CHECK_BYTES] != check:
            break
        found.append(body)
        at += _FRAME.size + length
    return found


def _packed(members: Sequence[Member]) -> bytes:
    return b"".join([_MEMBER.pack(*member) for member in members])


def _unpacked(data: bytes) -> tuple[Member, ...]:
    return tuple([Member(*pair) for pair in _MEMBER.iter_unpack(data)])
