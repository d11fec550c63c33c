"""The journal and the incarnations: what a restarted process finds, whatever a loss of power tore."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.disk.crash import CrashDisk
from simharness.systems.training.config import TrainingDefect
from simharness.systems.training.events import TrainingAbort
from simharness.systems.training.journal import Journal
from simharness.systems.training.plan import Member
from simharness.systems.training.storage import get, next_incarnation, put

START = b"0" * 16
BOTH = (Member(0, 1), Member(1, 4))


def opened(disk: CrashDisk, *defects: TrainingDefect, guards: bool = True) -> Journal:
    """Open the journal of a disk."""
    return Journal(disk, defects=frozenset(defects), guards=guards, start=START)


def facts(journal: Journal) -> tuple[object, ...]:
    """Return everything that a hub asks a journal."""
    return journal.generation, journal.view, journal.step, journal.last, journal.fresh, journal.known


@given(st.lists(st.one_of(st.just("view"), st.just("commit"), st.integers(0, 9)), max_size=40), st.booleans())
def test_a_restart_finds_what_was_said(entries: list[str | int], restarts: bool) -> None:
    """After each entry a loss of power changes nothing: everything was synced before it could be said."""
    disk = CrashDisk()
    journal = opened(disk)
    for entry in entries:
        if entry == "view":
            journal.issue(BOTH)
        elif entry == "commit":
            journal.commit(b"r" * 16, bytes([journal.step % 256]) * 16, BOTH)
        elif isinstance(entry, int):
            journal.roll_back(min(entry, journal.step), b"b" * 16)
        if restarts:
            disk.power_cut()
            again = opened(disk)
            assert facts(again) == facts(journal)
            assert again.found
            journal = again
    assert facts(opened(disk)) == facts(journal)


def test_lineage() -> None:
    """A commit makes the digest of its base known; a rollback forgets what lay after its state."""
    journal = opened(CrashDisk())
    assert (journal.fresh, journal.known) == (START, {0: START})
    journal.issue(BOTH)
    for step in range(3):
        journal.commit(b"r" * 16, bytes([step]) * 16, BOTH)
    assert (journal.step, journal.fresh, sorted(journal.known)) == (3, None, [0, 1, 2])
    assert journal.last is not None
    assert journal.last[:3] == (0, 1, 2)
    journal.roll_back(1, bytes([1]) * 16)
    assert (journal.generation, journal.step, journal.fresh, sorted(journal.known)) == (1, 1, bytes([1]) * 16, [0, 1])


def test_a_torn_end_is_no_entry() -> None:
    """Half an entry, or a garbled one, ends its segment; the next start goes on in a segment of its own."""
    disk = CrashDisk()
    journal = opened(disk)
    journal.issue(BOTH)
    before = facts(journal)
    (name,) = disk.list()
    disk.write(name, b"\x30\x00garbled", append=True)
    torn = opened(disk)
    assert facts(torn) == before
    torn.issue(BOTH)
    assert facts(opened(disk)) == facts(torn) != before
    assert len(disk.list()) == 2


def test_segments_stay_short() -> None:
    """An append costs the same after a thousand commits: it goes to a segment of at most 64 KiB."""
    disk = CrashDisk()
    journal = opened(disk)
    journal.issue(BOTH)
    for _ in range(1500):
        journal.commit(b"r" * 16, b"b" * 16, BOTH)
    assert len(disk.list()) > 1
    assert max(len(disk.read(name)) for name in disk.list()) < 66_000
    assert opened(disk).step == 1500


def test_no_sync_forgets_commits() -> None:
    """Defect NO_SYNC: a commit that was said is gone after a loss of power."""
    disk = CrashDisk()
    journal = opened(disk, TrainingDefect.NO_SYNC)
    journal.issue(BOTH)
    journal.commit(b"r" * 16, START, BOTH)
    disk.power_cut()
    assert opened(disk).step == 0


def test_a_journal_never_goes_back() -> None:
    """Guard: an entry of an older view ends the process; with guards off it is taken."""
    disk = CrashDisk()
    journal = opened(disk)
    journal.issue(BOTH)
    (name,) = disk.list()
    disk.write("journal.000001", disk.read(name))
    with pytest.raises(TrainingAbort, match="a view goes back"):
        opened(disk)
    assert opened(disk, guards=False).view == 1


def test_incarnations_grow() -> None:
    """Each start has a higher one, whatever was lost; `put` is whole or not at all."""
    disk = CrashDisk()
    assert [next_incarnation(disk) for _ in range(3)] == [1, 2, 3]
    disk.power_cut()
    assert next_incarnation(disk) == 4
    assert get(disk, "nothing") is None
    put(disk, "file", b"old")
    disk.write("file.tmp", b"ne")
    disk.power_cut()
    assert get(disk, "file") == b"old"
    put(disk, "file", b"new")
    assert disk.list() == ("file", "incarnation")
