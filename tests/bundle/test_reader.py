"""Reading bundles, and refusing what is none."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from simharness.bundle.reader import Bundle
from simharness.contracts.records import Record, SnapshotRecord
from simharness.core.canonical_json import parse
from simharness.core.errors import InputError
from tests.bundle.support import SCENARIO, event, kill, record_lists, snapshot, write

RECORDS = [event(1, 1, text="a\u2028b\x85c\rd"), kill(2, 2), snapshot(3, 3), snapshot(3, 4, "b"), snapshot(2, 5, "b")]


@settings(max_examples=40)
@given(records=record_lists())
def test_reads_what_was_written(records: Sequence[Record]) -> None:
    """Events by line, snapshots by time, host and number; whatever separators the texts hold (ruling B10)."""
    with TemporaryDirectory() as place:
        bundle = Bundle(write(Path(place, "out"), records))
        events, snapshots = list(bundle.events()), list(bundle.snapshots())
        assert bundle.verify() == ()
    expected = sorted(
        (r for r in records if not isinstance(r, SnapshotRecord)), key=lambda r: (r.virtual_time_ns, r.sequence)
    )
    assert [line[1:] for line in events] == [(r.virtual_time_ns, r.host_id, r.kind_tag, r.event) for r in expected]
    assert [line.line for line in events] == list(range(len(expected)))
    shots = sorted((r for r in records if isinstance(r, SnapshotRecord)), key=lambda r: (r.virtual_time_ns, r.sequence))
    assert sorted((s.virtual_time_ns, s.host_id) for s in snapshots) == [
        (s.virtual_time_ns, s.host_id) for s in snapshots
    ]
    for host in ("a", "b", "host-10.x"):
        assert [(s.number, s.snapshot) for s in snapshots if s.host_id == host] == list(
            enumerate(parse(r.snapshot) for r in shots if r.host_id == host)
        )


def test_parts(tmp_path: Path) -> None:
    """Scenario text, snapshot paths, verdicts."""
    bundle = Bundle(write(tmp_path / "out", RECORDS))
    assert bundle.scenario_text == SCENARIO
    assert bundle.snapshot_paths() == ["snapshots/a/0.json", "snapshots/b/0.json", "snapshots/b/1.json"]
    assert bundle.verdicts is None


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("events.ndjson", "events_ndjson_sha256"),
        ("scenario.toml", "scenario_sha256"),
        ("snapshots/b/1.json", "snapshot_sha256"),
    ],
)
def test_verify_names_the_changed_file(tmp_path: Path, path: str, field: str) -> None:
    """One flipped byte is found and named."""
    final = write(tmp_path / "out", RECORDS)
    file = final / path
    file.write_bytes(file.read_bytes().replace(b"a", b"A", 1))
    (problem,) = Bundle(final).verify()
    assert (problem.file, problem.field) == (str(file), field)


def test_verify_finds_missing_and_foreign_snapshots(tmp_path: Path) -> None:
    """A snapshot that only the manifest or only the directory knows is a mismatch."""
    final = write(tmp_path / "out", RECORDS)
    (final / "snapshots/b/1.json").unlink()
    (final / "snapshots/c").mkdir()
    (final / "snapshots/c/0.json").write_text("{}")
    assert [problem.file.rpartition("snapshots")[2] for problem in Bundle(final).verify()] == ["/b/1.json", "/c/0.json"]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"{", "unexpected end of data"),
        (b"[]", "must be an object of virtual_time_ns, host_id, kind_tag, event"),
        (b'{"host_id":null,"virtual_time_ns":1,"kind_tag":"x","event":{}}', "must be an object of"),
        (b'{"virtual_time_ns":-1,"host_id":null,"kind_tag":"x","event":{}}', "virtual_time_ns must be"),
        (b'{"virtual_time_ns":1.0,"host_id":null,"kind_tag":"x","event":{}}', "virtual_time_ns must be"),
        (b'{"virtual_time_ns":true,"host_id":null,"kind_tag":"x","event":{}}', "virtual_time_ns must be"),
        (b'{"virtual_time_ns":9,"host_id":1,"kind_tag":"x","event":{}}', "host_id must be"),
        (b'{"virtual_time_ns":9,"host_id":null,"kind_tag":null,"event":{}}', "kind_tag must be"),
        (b'{"virtual_time_ns":9,"host_id":null,"kind_tag":"x","event":[]}', "kind_tag must be"),
        (b'{"virtual_time_ns":0,"host_id":null,"kind_tag":"x","event":{}}', "virtual_time_ns goes back"),
    ],
)
def test_malformed_lines(tmp_path: Path, line: bytes, rule: str) -> None:
    """A line that is no envelope is refused by its number."""
    final = write(tmp_path / "out", [event(1, 1)])
    with (final / "events.ndjson").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(InputError) as refusal:
        list(Bundle(final).events())
    assert refusal.value.problem.field == "line 1"
    assert refusal.value.problem.rule.startswith(rule)


@pytest.mark.parametrize(
    ("path", "data", "field"),
    [
        ("manifest.json", b"{", "(root)"),
        ("manifest.json", b"[]", "(root)"),
        ("manifest.json", b'{"snapshot_sha256":[]}', "snapshot_sha256"),
        ("manifest.json", b'{"snapshot_sha256":{},"termination":{}}', "scenario_sha256"),
        ("snapshots/a/0.json", b"{}", "(root)"),
        ("snapshots/a/0.json", b'{"virtual_time_ns":1,"host_id":"b","kind_tag":"x","snapshot":{}}', "host_id"),
        ("snapshots/a/2.json", b"{}", "(names)"),
        ("snapshots/a/readme", b"{}", "(names)"),
        ("scenario.toml", b"\xff", "(root)"),
        ("verdicts.json", b"{}", "(root)"),
    ],
)
def test_malformed_files(tmp_path: Path, path: str, data: bytes, field: str) -> None:
    """Each malformed file is refused by name and field."""
    final = write(tmp_path / "out", RECORDS)
    (final / path).write_bytes(data)
    bundle = Bundle(final)
    with pytest.raises(InputError) as refusal:
        _ = bundle.manifest, list(bundle.snapshots()), bundle.scenario_text, bundle.verdicts
    assert refusal.value.problem.field == field
    assert refusal.value.problem.file.startswith(str(final))


def test_missing_things(tmp_path: Path) -> None:
    """No directory, and a directory without files, are refusals."""
    with pytest.raises(InputError, match="a bundle is a directory"):
        Bundle(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    bundle = Bundle(tmp_path / "empty")
    for read in (lambda: bundle.manifest, lambda: list(bundle.events()), bundle.snapshot_paths):
        with pytest.raises(InputError) as refusal:
            read()
        assert refusal.value.problem.field == "(io)"
