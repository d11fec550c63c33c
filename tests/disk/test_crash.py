"""What a loss of power leaves (ruling K3): against the plain model, and the promises that the helpers make."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simharness.contracts.disk import Disk, StaleEpochError, append, put
from simharness.core.units import PPM
from simharness.disk.crash import CrashDisk
from simharness.disk.handle import Handle
from tests.disk.oracle import NAMES, Call, Oracle, files_of
from tests.disk.test_port import calls

METHODS = ("read", "write", "sync", "sync_dir", "link", "rename", "unlink", "list")


class CrashMachine(RuleBasedStateMachine):
    """The disk and its model under any calls and cuts."""

    def __init__(self) -> None:
        super().__init__()
        self.disk, self.oracle = CrashDisk(), Oracle()

    @rule(call=calls)
    def call(self, call: Call) -> None:
        """Any call of the port."""
        assert call.on(self.disk) == self.oracle.answer(call)

    @rule()
    def plain_cut(self) -> None:
        """A cut that only what was synced survives; nothing is drawn."""
        self.disk.power_cut()
        self.oracle.cut()

    @rule(
        draws=st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(0, PPM - 1))),
        survive_ppm=st.sampled_from((1, 300_000, PPM)),
    )
    def lucky_cut(self, draws: dict[str, int], survive_ppm: int) -> None:
        """A cut that some changed entries survive; exactly those are drawn for, in order."""
        asked: list[str] = []

        def draw(name: str) -> int:
            asked.append(name)
            return draws[name]

        changed = self.oracle.changed()
        self.disk.power_cut(survive_ppm, draw)
        self.oracle.cut(frozenset(name for name in NAMES if draws[name] < survive_ppm))
        assert asked == changed

    @invariant()
    def same_files(self) -> None:
        """Names, contents and epoch are the model's."""
        assert files_of(self.disk) == self.oracle.files()
        assert self.disk.epoch == self.oracle.cuts


TestCrashMachine = CrashMachine.TestCase
TestCrashMachine.settings = settings(max_examples=150, stateful_step_count=30)


class Tripping:
    """A disk whose power fails just before the call with a given number; from then on every call raises."""

    def __init__(self, disk: CrashDisk, before: int) -> None:
        self.disk, self.left = disk, before

    def __getattr__(self, name: str) -> object:
        def tripped(*arguments: object, **extra: object) -> object:
            if self.left == 0:
                raise StaleEpochError("the power failed")
            self.left -= 1
            return getattr(self.disk, name)(*arguments, **extra)

        assert name in METHODS
        return tripped


def one_life(disk: CrashDisk, stop: int, contents: list[bytes]) -> tuple[list[bytes], bool]:
    """Put contents one after the other until the power fails; return those that were acknowledged, and whether all were."""
    acknowledged: list[bytes] = []
    tripping: Disk = Tripping(disk, stop)  # type: ignore[assignment]
    try:
        for content in contents:
            put(tripping, "state", content)
            acknowledged.append(content)
    except StaleEpochError:
        return acknowledged, False
    return acknowledged, True


@given(
    stops=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    survive_ppm=st.sampled_from((0, 500_000, PPM)),
    numbers=st.lists(st.integers(0, PPM - 1), min_size=16, max_size=16),
)
def test_a_put_is_whole_or_not_at_all(stops: list[int], survive_ppm: int, numbers: list[int]) -> None:
    """K3: wherever the power fails, life after life, the file holds what was put last, or the put that was under way, whole."""
    disk = CrashDisk()
    pool = iter(numbers * 10)
    held = b""
    for life, stop in enumerate(stops):
        contents = [f"{life}.{number}".encode() for number in range(4)]
        acknowledged, done = one_life(disk, stop, contents)
        disk.power_cut(survive_ppm, lambda _: next(pool))
        found = disk.read("state") if "state" in disk.list() else b""
        last = acknowledged[-1] if acknowledged else held
        allowed = {last} if done else {last, contents[len(acknowledged)]}
        assert found in allowed
        held = found


@given(
    pieces=st.lists(st.tuples(st.binary(min_size=1, max_size=3), st.booleans()), max_size=8),
)
def test_a_journal_keeps_what_was_synced(pieces: list[tuple[bytes, bool]]) -> None:
    """K3: after a cut a journal is exactly what it was at its last sync, once its name is durable."""
    disk = CrashDisk()
    disk.write("journal", b"")
    disk.sync_dir()
    written = synced = b""
    for piece, sync in pieces:
        append(disk, "journal", piece)
        written += piece
        assert disk.read("journal") == written
        if sync:
            disk.sync("journal")
            synced = written
    disk.power_cut()
    assert files_of(disk) == {"journal": synced}


def test_an_unsynced_file_with_a_durable_name_is_empty() -> None:
    """K3: names and contents are made durable apart from each other."""
    disk = CrashDisk()
    disk.write("a", b"1")
    disk.sync_dir()
    disk.write("b", b"2")
    disk.sync("b")
    disk.power_cut()
    assert files_of(disk) == {"a": b""}


def test_a_rename_may_leave_both_names_or_none() -> None:
    """K3: each changed entry survives by itself, which is harder than what a file system with a journal does."""
    found = set()
    for survivors in ((), ("old",), ("new",), ("old", "new")):
        disk = CrashDisk()
        put(disk, "old", b"1")
        disk.rename("old", "new")
        disk.power_cut(1, lambda name, kept=survivors: 0 if name in kept else 1)
        found.add(disk.list())
    assert found == {("old",), (), ("new", "old"), ("new",)}


@pytest.mark.parametrize("method", METHODS)
def test_a_handle_ends_with_its_epoch(method: str) -> None:
    """K3: a handle that was opened before a cut refuses everything after it; one that is opened then works."""
    disk = CrashDisk()
    put(disk, "a", b"1")
    handle = Handle(disk)
    two, arguments = ("a", "b"), {"write": ("a", b""), "sync_dir": (), "list": ()}
    call = Call(method, arguments.get(method, two if method in ("link", "rename") else ("a",)))
    disk.power_cut()
    assert call.on(handle) == ("StaleEpochError", None)
    assert handle.epoch == 0
    assert files_of(disk) == {"a": b"1"}
    assert call.on(Handle(disk))[0] == "ok"
