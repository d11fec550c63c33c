"""Both stores against a plain list: crashes and power cuts anywhere, repeated mutation ids, tampering, other jobs, tombstones."""

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.disk.crash import CrashDisk
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.config import NO_DEFECTS, Defects, JobSpec, SupervisorDefect
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.operator import declare
from simharness.systems.supervisor.store import codec
from simharness.systems.supervisor.store.codec import RecordCorrupt, RecordForeign, record_name
from simharness.systems.supervisor.store.files import FileStore, prune
from simharness.systems.supervisor.store.memory import MemoryRecord, MemoryStore
from simharness.systems.supervisor.store.port import perform
from tests.systems.supervisor.histories import CANCEL, CLEANED, SETTLED, outcome
from tests.systems.supervisor.rig import drive

DECLARED = declare(JobSpec(job="job", shape="slurm"))
SURVIVE_PPM = 300_000


def batch(number: int) -> Batch:
    """A batch that is told from every other by its number."""
    return (ev.EscalationRaised(id=f"held/{number}/1", kind="held", subject=str(number), at=number),)


class Files:
    """A directory, and stores opened on it."""

    def __init__(self, *, filled: int = 0) -> None:
        self.disk = CrashDisk()
        for number in range(filled):
            self.commit(number, DECLARED if number == 0 else batch(number), f"p#{number}")

    def answer(self, call: seam.SeamCall) -> seam.Reply:
        assert isinstance(call, seam.FsCall)
        return perform(self.disk, call)

    def store(self, job: str = "job", defects: Defects = NO_DEFECTS) -> FileStore:
        return FileStore(job, defects)

    def commit(self, expected: int, events: Batch, mutation_id: str) -> seam.CommitReply:
        return drive(self.store().commit(expected, events, mutation_id), self.answer)

    def read(self, have: int = 0, store: FileStore | None = None) -> seam.ReadReply:
        return drive((store or self.store()).read(have), self.answer)

    def files(self) -> dict[str, bytes]:
        return {name: self.disk.read(name) for name in self.disk.list()}

    def batches(self) -> list[str]:
        """Names of batches that there are."""
        return [name for name in self.disk.list() if codec.version_of(name) is not None]

    def put(self, name: str, data: bytes) -> None:
        self.disk.write(name, data)
        self.disk.sync(name)
        self.disk.sync_dir()


def memory_answer(record: MemoryRecord) -> Callable[[seam.SeamCall], seam.Reply]:
    def answer(call: seam.SeamCall) -> seam.Reply:
        return record.read(call) if isinstance(call, seam.MemRead) else record.commit(call)  # type: ignore[arg-type]

    return answer


@pytest.mark.parametrize("files", [False, True])
@given(tries=st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 6)), max_size=20))
@settings(max_examples=100)
def test_a_store_is_a_list(files: bool, tries: list[tuple[int, int]]) -> None:
    """Undisturbed, both stores are a list with compare-and-append, each mutation id at most once."""
    directory = Files()
    answer = directory.answer if files else memory_answer(MemoryRecord())
    store: seam.Store = FileStore("job") if files else MemoryStore()
    assert drive(store.commit(0, DECLARED, "p#0"), answer) == seam.Committed(version=1)
    model: list[Batch] = [DECLARED]
    ids = {"p#0": 1}
    for off, number in tries:
        expected, mutation_id = min(max(len(model) + off, 0), len(model)), f"p#{number + 1}"
        reply = drive(store.commit(expected, batch(number), mutation_id), answer)
        if mutation_id in ids:
            assert reply == seam.Committed(version=ids[mutation_id])
        elif expected != len(model):
            assert reply == seam.Conflict()
        else:
            model.append(batch(number))
            ids[mutation_id] = len(model)
            assert reply == seam.Committed(version=len(model))
        have = len(model) // 2
        read = drive(store.read(have), answer)
        assert read == seam.Batches(version=len(model), batches=tuple(model[have:]))


class Client:
    """One process that commits on the files, begun, cut off and begun again at any call."""

    def __init__(self, files: Files, name: str, defects: Defects) -> None:
        self.files, self.name, self.defects = files, name, defects
        self.store = files.store(defects=defects)
        self.serial = 0
        self.version = 0
        self.acknowledged: dict[int, Batch] = {}
        self.process: seam.Process[None] | None = None
        self.call: seam.SeamCall | None = None

    def work(self) -> "seam.Process[None]":
        """Read, commit at what was read, and note what was acknowledged."""
        read = yield from self.store.read(self.version)
        if not isinstance(read, seam.Batches):
            return
        for version, events in enumerate(read.batches, start=self.version + 1):
            self.acknowledged[version] = events
        self.version = read.version
        self.serial += 1
        mine = DECLARED if self.version == 0 else batch(self.serial * 10 + int(self.name))
        mutation_id = f"c{self.name}#{self.serial}"
        for _ in range(2):
            reply = yield from self.store.commit(self.version, mine, mutation_id)
            if isinstance(reply, seam.Committed):
                self.acknowledged[reply.version] = mine
            if not isinstance(reply, seam.Unknown):
                return

    def step(self) -> None:
        """Do one call."""
        if self.process is None:
            self.process = self.work()
            self.call = next(self.process)
        assert self.call is not None
        try:
            self.call = self.process.send(self.files.answer(self.call))
        except StopIteration:
            self.process = None

    def crash(self) -> None:
        """Forget everything but what was acknowledged, which the test remembers."""
        if self.process is not None:
            self.process.close()
        self.process, self.store, self.version = None, self.files.store(defects=self.defects), 0


def disturbed(seed: int, defects: Defects = NO_DEFECTS) -> tuple[int, dict[int, Batch]]:
    """Run three clients with crashes and power cuts; return how many cuts, and what was acknowledged and lost or changed."""
    draw = random.Random(seed)  # noqa: S311 - a test, replayed from its seed
    files = Files()
    clients = [Client(files, str(number), defects) for number in range(3)]
    cuts = 0
    for _ in range(150):
        client = draw.choice(clients)
        if draw.random() < 0.03:
            client.crash()
        else:
            client.step()
        if draw.random() < 0.04:
            files.disk.power_cut(SURVIVE_PPM, lambda _name: draw.randrange(10**6))
            cuts += 1
            lost = broken(files, clients)
            if lost:
                return cuts, lost
    return cuts, broken(files, clients)


def broken(files: Files, clients: list[Client]) -> dict[int, Batch]:
    """Return what a client was told is in the record and is not there."""
    read = files.read()
    assert isinstance(read, seam.Batches)
    now = dict(enumerate(read.batches, start=1))
    told: Iterator[tuple[int, Batch]] = (item for client in clients for item in client.acknowledged.items())
    return {version: events for version, events in told if now.get(version) != events}


@given(seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_what_was_acknowledged_stays(seed: int) -> None:
    """R16: crashes and power cuts between any two calls lose nothing that a commit acknowledged or a read returned."""
    assert disturbed(seed)[1] == {}


@pytest.mark.parametrize("defect", ["READ_WITHOUT_BARRIER", "COMMIT_WITHOUT_DIR_SYNC"])
def test_without_a_barrier_something_is_lost(defect: str) -> None:
    """R16 with its knobs: without the directory sync an acknowledged batch is lost within a few runs."""
    assert any(_lost(seed, SupervisorDefect[defect]) for seed in range(200))


def _lost(seed: int, defect: SupervisorDefect) -> bool:
    try:
        return bool(disturbed(seed, frozenset({defect}))[1])
    except RecordCorrupt:  # a client noticed first
        return True


def _flip(files: Files) -> None:
    data = files.disk.read(record_name(3))
    files.put(record_name(3), data.replace(b'"subject":"2"', b'"subject":"7"'))


def _break_json(files: Files) -> None:
    data = files.disk.read(record_name(3))
    files.put(record_name(3), data[:9] + bytes([data[9] ^ 4]) + data[10:])


def _delete(files: Files) -> None:
    files.disk.unlink(record_name(2))
    files.disk.sync_dir()


def _swap(files: Files) -> None:
    third, last = files.disk.read(record_name(3)), files.disk.read(record_name(5))
    files.put(record_name(3), last)
    files.put(record_name(5), third)


def _recompute(files: Files) -> None:
    entry = codec.decode_entry(record_name(3), files.disk.read(record_name(3)))
    files.put(record_name(3), codec.encode_entry(codec.chain(entry.p, batch(99), entry.m)))


def _reformat(files: Files) -> None:
    files.put(record_name(5), files.disk.read(record_name(5)) + b"\n")


def _empty(files: Files) -> None:
    files.put(record_name(2), b"")


def _undeclared(files: Files) -> None:
    for name in files.disk.list():
        files.disk.unlink(name)
    files.put(record_name(1), codec.encode_entry(codec.chain("", batch(1), "p#1")))


TAMPERED: list[tuple[Callable[[Files], None], str, str]] = [
    (_flip, "r000003", "a batch's bytes are canonical and match its digest"),
    (_break_json, "r000003", "a batch is one JSON object of the record's schema"),
    (_delete, "r000002", "no batch is missing before the last"),
    (_swap, "r000003", "a batch names the digest of the batch before it"),
    (_recompute, "r000004", "a batch names the digest of the batch before it"),
    (_reformat, "r000005", "a batch's bytes are canonical and match its digest"),
    (_empty, "r000002", "a batch is one JSON object of the record's schema"),
    (_undeclared, "r000001", "a record begins with its job's declaration"),
]


@pytest.mark.parametrize(("tamper", "file", "rule"), TAMPERED)
def test_tampering_is_refused(tamper: Callable[[Files], None], file: str, rule: str) -> None:
    """R17: every kind of tampering is one clear error, for readers and committers, new and old; no byte is changed."""
    files = Files(filled=5)
    old = files.store()
    files.read(store=old)
    tamper(files)
    before = files.files()
    with pytest.raises(RecordCorrupt) as caught:
        files.read()
    assert (caught.value.file, caught.value.rule) == (file, rule)
    assert str(caught.value) == f"file: {file}\nrule: {rule}"
    for attempt in (lambda: files.read(5, old), lambda: files.commit(5, batch(9), "q#1")):
        with pytest.raises(RecordCorrupt):
            attempt()
    assert files.files() == before


def test_a_changed_last_batch_is_refused_by_who_read_it() -> None:
    """O2: the last batch has no successor: whoever read it notices that it changed, or that it is gone."""
    files = Files(filled=5)
    old = files.store()
    files.read(store=old)
    files.disk.unlink(record_name(5))
    with pytest.raises(RecordCorrupt, match="a batch that was read once stays"):
        files.read(5, old)
    with pytest.raises(RecordCorrupt, match="a batch that was read once stays"):
        files.commit(5, batch(9), "q#1")


def test_without_the_chain_check_tampering_passes() -> None:
    """SKIP_CHAIN_CHECK: a changed event is believed."""
    files = Files(filled=5)
    _flip(files)
    read = files.read(store=files.store(defects=frozenset({SupervisorDefect.SKIP_CHAIN_CHECK})))
    assert isinstance(read, seam.Batches)
    assert read.batches[2] != batch(2)


def test_another_jobs_directory_is_refused() -> None:
    """O1: a directory that holds another job's record, or its tombstone, is one clear error; no byte is changed."""
    files = Files(filled=3)
    before = files.files()
    other = files.store("other")
    for attempt in (other.read(0), other.commit(3, batch(9), "q#1"), prune("other")):
        with pytest.raises(RecordForeign) as caught:
            drive(attempt, files.answer)
        assert caught.value.rule == "the directory holds the record of job job, not of other"
    assert files.files() == before
    settle(files)
    drive(prune("job"), files.answer)
    with pytest.raises(RecordForeign, match="tombstone of job job"):
        files.read(store=files.store("other"))


def settle(files: Files) -> None:
    """Close the record."""
    read = files.read()
    assert isinstance(read, seam.Batches)
    ends = ((CANCEL,), (outcome("cancelled"),), (CLEANED, SETTLED))
    for number, events in enumerate(ends):
        files.commit(read.version + number, events, f"end#{number}")


def test_a_temporary_file_is_no_record() -> None:
    """O3: files of unfinished commits, and anything else, are not taken for batches."""
    files = Files(filled=3)
    expected = files.read()
    for name in ("t-sup0.0-9", "r00004", "r4", "r0000040", "rx", "notes"):
        files.put(name, b"half")
    assert files.read() == expected


def test_prune() -> None:
    """Pruning puts a tombstone in the place of the batches; every later read and commit says so, whatever stray files lie there."""
    files = Files(filled=3)
    assert drive(prune("job"), files.answer) is False  # not settled
    assert "TOMB" not in files.files()
    settle(files)
    stale = files.store()
    files.read(store=stale)
    assert drive(prune("job"), files.answer) is True
    assert files.batches() == []
    tombstone = codec.check_tombstone(files.disk.read("TOMB"), "job")
    assert (tombstone.version, tombstone.outcome) == (6, "cancelled")
    for store in (files.store(), stale):
        assert files.read(6, store) == seam.Tombstoned()
        assert drive(store.commit(6, batch(9), "q#1"), files.answer) == seam.Tombstoned()
    files.put(record_name(7), b"stray")
    assert files.read() == seam.Tombstoned()
    assert drive(prune("job"), files.answer) is True
    files.put("TOMB", b"")
    with pytest.raises(RecordCorrupt, match="a tombstone is one JSON object"):
        files.read()


@given(cut_at=st.integers(0, 24), keep=st.integers(0, 10**6), power=st.booleans())
@settings(max_examples=100)
def test_pruning_can_be_cut_off_anywhere(cut_at: int, keep: int, power: bool) -> None:
    """§8.3: cut off at any call, with or without power, the record is whole or closed, and a further prune finishes."""
    files = Files(filled=3)
    settle(files)
    whole = files.read()
    process = prune("job")
    call = next(process)
    try:
        for _ in range(cut_at):
            call = process.send(files.answer(call))
    except StopIteration:
        pass
    else:
        process.close()
    if power:
        files.disk.power_cut(SURVIVE_PPM, lambda name: (keep * (len(name) + 1) * 7919) % 10**6)
    assert files.read() in (whole, seam.Tombstoned())
    assert drive(prune("job"), files.answer) is True
    assert files.batches() == []


def _race(defects: Defects) -> tuple[seam.CommitReply, Files]:
    """Freeze a commit of version 4 before its link, let others settle and prune the record, and find the name free again."""
    files = Files(filled=3)
    process = files.store(defects=defects).commit(3, batch(9), "q#1")
    call = next(process)
    while not isinstance(call, seam.FsLink):
        call = process.send(files.answer(call))
    assert call.new == record_name(4)
    settle(files)
    drive(prune("job"), files.answer)
    try:
        while True:
            call = process.send(files.answer(call))
    except StopIteration as stop:
        return stop.value, files


def test_a_committer_looks_for_the_tombstone_after_its_link() -> None:
    """R18: a stale committer whose link succeeds in a pruned directory is told so, and takes its file away."""
    reply, files = _race(NO_DEFECTS)
    assert reply == seam.Tombstoned()
    assert files.batches() == []
    mutant, files = _race(frozenset({SupervisorDefect.TOMBSTONE_IGNORED}))
    assert mutant == seam.Committed(version=4)  # acknowledged, and no reader will ever see it
    assert files.read() == seam.Tombstoned()


def test_a_power_cut_is_not_mistaken_for_a_sync() -> None:
    """An operation begun before a cut fails after it: `down` for a read, `unknown` for a commit."""
    files = Files(filled=3)
    reading = files.store().read(0)
    sync = reading.send(files.answer(next(reading)))
    files.disk.power_cut()
    with pytest.raises(StopIteration) as ended:
        reading.send(files.answer(sync))
    assert ended.value.value == seam.Down()
    committing = files.store().commit(3, batch(9), "q#1")
    call = next(committing)
    call = committing.send(files.answer(call))
    files.disk.power_cut()
    with pytest.raises(StopIteration) as ended:
        committing.send(files.answer(call))
    assert ended.value.value == seam.Unknown()


def test_a_lost_acknowledgement_is_found_again() -> None:
    """A commit cut off after its link is in the record; the retry with the same mutation id says where."""
    files = Files(filled=3)
    process = files.store().commit(3, batch(9), "q#1")
    call = next(process)
    while not isinstance(call, seam.FsRead):
        call = process.send(files.answer(call))
    process.close()
    assert files.commit(3, batch(9), "q#1") == seam.Committed(version=4)
    assert files.commit(4, batch(8), "q#2") == seam.Committed(version=5)


def test_blind_append() -> None:
    """BLIND_APPEND: the memory store appends at any version (R5)."""
    call = seam.MemCommit(expected=7, batch=DECLARED, mutation_id="p#1")
    assert MemoryRecord().commit(call) == seam.Conflict()
    mutant = MemoryRecord(frozenset({SupervisorDefect.BLIND_APPEND}))
    assert mutant.commit(call) == seam.Committed(version=1)
