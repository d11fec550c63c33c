"""The writer's contract (§9.6)."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.bundle.digest import bundle_digest, events_digest
from simharness.bundle.memory import MemorySink
from simharness.bundle.reader import Bundle
from simharness.bundle.writer import BundleWriter
from simharness.contracts.records import Record, SnapshotRecord, Termination
from simharness.core.errors import EngineAbort, InputError
from tests.bundle.support import END, FACTS, SCENARIO, event, kill, record_lists, snapshot, tree, write


def written(records: Sequence[Record], memory_limit: int = 65_536) -> dict[str, bytes]:
    """The files of the bundle of `records`."""
    with TemporaryDirectory() as place:
        return tree(write(Path(place, "out"), records, memory_limit))


def interrupted(final: Path, *, keep_partial: bool) -> None:
    """A run that is broken off after its fifth record."""
    with BundleWriter(final, scenario_toml=SCENARIO, facts=FACTS, keep_partial=keep_partial, memory_limit=2) as writer:
        for number in range(5):
            writer.write_record(event(number * 10, number))
        raise KeyboardInterrupt


@pytest.mark.spec("§9.6", "Layout")
@pytest.mark.parametrize("records", [[], [event(1, 1), snapshot(2, 2)]])
def test_layout(tmp_path: Path, records: Sequence[Record]) -> None:
    """Every bundle has the entries of §9.1 and nothing besides; the verdicts are the evaluator's."""
    final = write(tmp_path / "deep" / "out", records)
    assert sorted(entry.name for entry in final.iterdir()) == [
        "events.ndjson", "manifest.json", "scenario.toml", "snapshots",
    ]  # fmt: skip
    assert (final / "scenario.toml").read_text() == SCENARIO
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["out"]


@pytest.mark.spec("§9.6", "Envelope conformance")
@settings(max_examples=40)
@given(records=record_lists())
def test_envelope_conformance(records: Sequence[Record]) -> None:
    """Every line is one JSON object with the four keys of §9.2 in order, and the payload comes back as it went in."""
    data = written(records)["events.ndjson"]
    events = sorted(
        (r for r in records if not isinstance(r, SnapshotRecord)), key=lambda r: (r.virtual_time_ns, r.sequence)
    )
    lines = data.split(b"\n")
    assert lines.pop() == b""
    for line, record in zip(lines, events, strict=True):
        assert json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=False).encode() == line
        assert list(json.loads(line).items()) == [
            ("virtual_time_ns", record.virtual_time_ns),
            ("host_id", record.host_id),
            ("kind_tag", record.kind_tag),
            ("event", record.event),
        ]


@pytest.mark.spec("§9.6", "Hash integrity")
@settings(max_examples=40)
@given(records=record_lists(), memory_limit=st.sampled_from((2, 5, 65_536)))
def test_hash_integrity(records: Sequence[Record], memory_limit: int) -> None:
    """Every hash of the manifest is that of the file it names, and every file but the manifest is named."""
    files = written(records, memory_limit)
    manifest = json.loads(files.pop("manifest.json"))
    hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    assert hashes.pop("scenario.toml") == manifest["scenario_sha256"]
    assert hashes.pop("events.ndjson") == manifest["events_ndjson_sha256"]
    assert hashes == manifest["snapshot_sha256"]
    assert list(manifest["snapshot_sha256"]) == sorted(hashes)


@pytest.mark.spec("§9.6", "Snapshot organization")
@settings(max_examples=40)
@given(records=record_lists())
def test_snapshot_organization(records: Sequence[Record]) -> None:
    """Each snapshot is one file, numbered per host from 0 by (time, sequence), an indented envelope (ruling B3)."""
    files = {path: data for path, data in written(records).items() if path.startswith("snapshots/")}
    snapshots = sorted(
        (r for r in records if isinstance(r, SnapshotRecord)), key=lambda r: (r.virtual_time_ns, r.sequence)
    )
    numbers: dict[str, int] = {}
    for record in snapshots:
        number = numbers[record.host_id] = numbers.get(record.host_id, -1) + 1
        envelope = {
            "virtual_time_ns": record.virtual_time_ns,
            "host_id": record.host_id,
            "kind_tag": record.kind_tag,
            "snapshot": json.loads(record.snapshot),
        }
        expected = json.dumps(envelope, indent=2, ensure_ascii=False).encode()
        assert files.pop(f"snapshots/{record.host_id}/{number}.json") == expected
    assert files == {}


@pytest.mark.spec("§9.6", "Ordering is deterministic and documented")
@settings(max_examples=40)
@given(records=record_lists())
def test_ordering(records: Sequence[Record]) -> None:
    """Lines stand by (time, sequence), ruling B1, and the memory sink computes the same digest without a disk."""
    sink = MemorySink()
    for record in records:
        sink.write_record(record)
    files = written(records)
    expected = sorted((r.virtual_time_ns, r.sequence) for r in records if not isinstance(r, SnapshotRecord))
    by_sequence = {r.sequence: r for r in records}
    lines = [json.loads(line) for line in files["events.ndjson"].splitlines()]
    assert [(line["virtual_time_ns"], line["event"]) for line in lines] == [
        (at_ns, by_sequence[sequence].event)
        for at_ns, sequence in expected  # type: ignore[union-attr]
    ]
    assert sink.events_digest() == hashlib.sha256(files["events.ndjson"]).hexdigest()


@pytest.mark.spec("§9.6", "Arrival-order independence")
@settings(max_examples=40)
@given(records=record_lists(), data=st.data(), memory_limit=st.sampled_from((2, 3, 8, 65_536)))
def test_arrival_order_independence(records: Sequence[Record], data: st.DataObject, memory_limit: int) -> None:
    """Any order of arrival, and any size of the memory, give the same bytes."""
    shuffled = data.draw(st.permutations(records))
    assert written(shuffled, memory_limit) == written(records)
    assert events_digest(shuffled) == events_digest(records)


@pytest.mark.spec("§9.6", "Idempotency")
@settings(max_examples=40)
@given(records=record_lists())
def test_idempotency(records: Sequence[Record]) -> None:
    """Two fresh paths get the same bytes, and so does a path whose old bundle is replaced."""
    with TemporaryDirectory() as place:
        first, second = write(Path(place, "one"), records), write(Path(place, "two"), records)
        assert tree(first) == tree(second)
        assert bundle_digest(first) == bundle_digest(second)
        assert tree(write(first, records)) == tree(second)


KILLED = """
import os, signal, sys
from pathlib import Path
from simharness.bundle.writer import BundleWriter
from tests.bundle.support import FACTS, event, snapshot

writer = BundleWriter(Path(sys.argv[1]), scenario_toml="", facts=FACTS, memory_limit=2)
for number in range(9):
    writer.write_record(event(number, number))
    writer.write_record(snapshot(number, 10 + number))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_no_bundle(tmp_path: Path) -> None:
    """Ruling B9: a process that is killed leaves nothing under the final name; the next run clears what it left."""
    final = tmp_path / "out"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", KILLED, str(final)], cwd=root, check=False).returncode == -9
    assert [entry.name for entry in tmp_path.iterdir()] == [".out.0.partial"]
    assert tree(write(final, [event(1, 1)]))["events.ndjson"].count(b"\n") == 1
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out"]


def test_a_broken_run_is_abandoned(tmp_path: Path) -> None:
    """Ruling B9: an exception on the way leaves nothing at all, and an older bundle stays as it was."""
    final = write(tmp_path / "out", [event(1, 1)])
    before = tree(final)
    with pytest.raises(KeyboardInterrupt):
        interrupted(final, keep_partial=False)
    assert tree(final) == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out"]


def test_keep_partial(tmp_path: Path) -> None:
    """Ruling B9: `keep_partial` keeps what was written, as aborted at the time of the last line."""
    final = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        interrupted(final, keep_partial=True)
    bundle = Bundle(final)
    assert bundle.manifest["termination"] == {"reason": "aborted", "at_ns": 40, "detail": "KeyboardInterrupt: "}
    assert bundle.manifest["finalize_received"] is False
    assert bundle.verify() == ()


def test_the_judge_sees_the_hidden_bundle(tmp_path: Path) -> None:
    """The evaluator's hook runs on the complete bundle before it takes its name, and its file comes along."""
    final, seen = tmp_path / "out", []

    def judge(bundle: Bundle) -> None:
        seen.append((final.exists(), bundle.root.name, len(list(bundle.events()))))
        bundle.put_verdicts(b"[]")

    write(final, [event(1, 1)], judge=judge)
    assert seen == [(False, ".out.0.partial", 1)]
    assert Bundle(final).verdicts == []


def test_a_judge_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """An error in the hook is not turned into a bundle without verdicts."""

    def judge(bundle: Bundle) -> None:
        raise bundle.malformed("scenario.toml", "(root)", "refused")

    with pytest.raises(InputError):
        write(tmp_path / "out", [event(1, 1)], judge=judge)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("prepare", "rule"),
    [
        (lambda p: p.write_text("x"), "exists and is not a directory"),
        (lambda p: (p.mkdir(), (p / "notes.txt").write_text("x")), "holds something other than a simharness bundle"),
        (lambda p: (p.mkdir(), (p / "manifest.json").write_text("{}")), "holds something other"),
        (lambda p: (write(p, []), (p / "notes.txt").write_text("x")), "holds something other"),
        (lambda p: (write(p.with_name("real"), []), p.symlink_to("real")), "exists and is not a directory"),
    ],
)
def test_nothing_but_a_bundle_is_replaced(tmp_path: Path, prepare, rule: str) -> None:
    """A file, a foreign directory, a bundle with foreign files and a link are refused before anything is touched."""
    prepare(tmp_path / "out")
    before = tree(tmp_path)
    with pytest.raises(InputError) as refusal:
        write(tmp_path / "out", [event(1, 1)])
    assert refusal.value.problem.rule.startswith(rule)
    assert tree(tmp_path) == before


def test_a_foreign_directory_in_the_place_of_the_partial_one(tmp_path: Path) -> None:
    """What bears the hidden name but holds anything foreign is not cleared away, and is in nobody's way (ruling B19)."""
    foreign = tmp_path / ".out.0.partial"
    foreign.mkdir()
    (foreign / "precious").write_text("x")
    write(tmp_path / "out", [])
    assert sorted(tree(tmp_path)) == sorted(
        [".out.0.partial/precious", *(f"out/{name}" for name in tree(tmp_path / "out"))]
    )


def test_what_the_system_refuses_is_structured(tmp_path: Path) -> None:
    """An output path below a file is an InputError, not a traceback."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError) as refusal:
        write(tmp_path / "file" / "out", [])
    assert refusal.value.problem.field == "(io)"


@pytest.mark.parametrize(
    "bad", [1.5, float("nan"), [1, {"deep": 2.0}], 2**64, -(2**63) - 1, {1: 2}, "\ud800", b"x", {"a", "b"}]
)
def test_unwritable_events_abort(tmp_path: Path, bad: object) -> None:
    """Ruling B10: floats wherever they hide, and all else that JSON cannot hold exactly, abort the run by name, host and time."""
    with pytest.raises(EngineAbort) as abort:
        write(tmp_path / "out", [event(5, 1, value=bad)])
    assert (abort.value.rule, abort.value.host_id, abort.value.at_ns) == ("unwritable-event", "a", 5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [b"{", b"[]", b'{"x":1.0}', b'{"x":1e3}', b'{"x":18446744073709551616}', b"\xff"])
def test_unwritable_snapshots_abort(tmp_path: Path, bad: bytes) -> None:
    """Rulings B4, B10: a snapshot is one JSON object without floats."""
    with pytest.raises(EngineAbort) as abort:
        write(tmp_path / "out", [SnapshotRecord(5, 1, "a", "echo", bad)])
    assert (abort.value.rule, abort.value.host_id, abort.value.at_ns) == ("unwritable-snapshot", "a", 5)


def test_manifest_keys(tmp_path: Path) -> None:
    """Ruling B6: the keys in order; `defects` and the source of a live run only when there are any."""
    plain = Bundle(write(tmp_path / "plain", [snapshot(1, 1)])).manifest
    assert list(plain) == [
        "simulator_version", "scenario_path", "scenario_sha256", "source", "seed", "duration_ns", "time_unit", "termination",
        "finalize_received", "substitutions", "events_ndjson_sha256", "snapshot_sha256", "host_architecture",
    ]  # fmt: skip
    assert plain["seed"] == 2**64 - 1
    assert plain["time_unit"] == "ns"
    assert plain["source"][0] == {"path": "smoke/base.toml", "sha256": "00" * 32}
    assert plain["termination"] == {"reason": "duration", "at_ns": 100, "detail": ""}
    facts = type(FACTS)(
        simulator_version="1", scenario_path="x", source=(), seed=1, duration_ns=1, host_architecture="y",
        defects=("A", "B"), termination_source="live",
    )  # fmt: skip
    with BundleWriter(tmp_path / "live", scenario_toml="", facts=facts) as writer:
        manifest = Bundle(writer.finish(Termination(reason="early", at_ns=3), finalize_received=False)).manifest
    assert list(manifest)[6:9] == ["time_unit", "defects", "termination"]
    assert manifest["defects"] == ["A", "B"]
    assert manifest["termination"] == {"reason": "early", "at_ns": 3, "detail": "", "source": "live"}


def test_the_bundle_digest_covers_events_snapshots_and_verdicts(tmp_path: Path) -> None:
    """Ruling B6: the digest is SHA-256 over those bytes in path order; the manifest is not in it."""
    final = write(tmp_path / "out", [event(1, 1), *(snapshot(n, n + 2, h) for n in range(11) for h in ("b", "a"))])
    files = tree(final)
    order = ["events.ndjson", *sorted(path for path in files if path.startswith("snapshots/"))]
    assert order[1:4] == ["snapshots/a/0.json", "snapshots/a/1.json", "snapshots/a/10.json"]
    expected = hashlib.sha256(b"".join(files[path] for path in order))
    assert bundle_digest(final) == expected.hexdigest()
    Bundle(final).put_verdicts(b"[]")
    expected.update(b"[]")
    assert bundle_digest(final) == expected.hexdigest()


def test_finish_is_for_once(tmp_path: Path) -> None:
    """A finished writer leaves the bundle alone when its `with` block ends."""
    with BundleWriter(tmp_path / "out", scenario_toml="", facts=FACTS) as writer:
        writer.write_record(kill(1, 1))
        writer.finish(END, finalize_received=True)
        with pytest.raises(AssertionError):
            writer.finish(END, finalize_received=True)
    assert Bundle(tmp_path / "out").verify() == ()
