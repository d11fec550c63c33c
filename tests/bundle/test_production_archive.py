"""Reading archives: what production wrote, what nobody knows, and everything that is refused with file, field and rule."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.bundle.production import layout
from simharness.bundle.production.export import export
from simharness.bundle.production.opening import open_bundle, open_capture
from simharness.core.errors import InputError
from tests.bundle import fixture_run
from tests.bundle.production_support import MS, gzipped, members, pack, unpack, write_bundle
from tests.bundle.support import event, snapshot

RUN: Final = "fixture-run-1"
EVENTS: Final = f"{RUN}/orchestrator/events/events-000001.json"
SNAPSHOT: Final = f"{RUN}/stage-0/snapshots/snapshot-000001.json"
MANIFEST: Final = f"{RUN}/MANIFEST.json"
_EVENTS: Final = EVENTS.removeprefix(f"{RUN}/")
_SNAPSHOT: Final = SNAPSHOT.removeprefix(f"{RUN}/")
Files = dict[str, Any]


def refusal(archive: Path) -> tuple[str, str, str]:
    """What is wrong with an archive: the file below it, the field and the rule."""
    with pytest.raises(InputError) as caught:
        open_capture(archive)
    problem = caught.value.problem
    assert "\n" not in f"{problem.file}{problem.field}{problem.rule}"
    assert problem.file.startswith(str(archive))
    return problem.file.removeprefix(str(archive)).lstrip(":/"), problem.field, problem.rule


def test_our_form_of_a_production_run(tmp_path: Path) -> None:
    """One reader: events as a bundle has them, named by label; times count from the first; dials are edges."""
    capture = open_capture(pack(tmp_path / "x", fixture_run.files()))
    lines = [*capture.event_lines()]
    assert [line.line for line in lines] == [*range(20)]
    assert [line.virtual_time_ns for line in lines] == sorted(line.virtual_time_ns for line in lines)
    assert lines[0][1:] == (
        1000 * MS,
        "orchestrator",
        "engine",
        {"kind": "DialStart", "from": "orchestrator", "to": "stage-0"},
    )
    assert lines[2].event == {
        "kind": "SwimTransition",
        "peer": "stage-0",
        "from": "Unknown",
        "to": "Alive",
        "reason": "joined",
    }
    assert lines[2].kind_tag == "swim"
    by_kind = [line.event for line in lines]
    assert {"kind": "DialOutcome", "from": "orchestrator", "to": "stage-1", "warm": False} in by_kind
    lost = {"kind": "CacheStateChange", "from": "orchestrator", "to": "stage-1", "transition": "invalidated"}
    assert lost in by_kind
    assert {"kind": "MessageSent", "peer": "stage-0", "message_kind": "ping", "size": 32} in by_kind
    shots = [(file.virtual_time_ns, file.host_id, file.number) for file in capture.snapshot_files()]
    assert shots == [
        (2200 * MS, "stage-0", 0),
        (2200 * MS, "stage-1", 0),
        (2500 * MS, "orchestrator", 0),
        (5200 * MS, "orchestrator", 1),
    ]


def test_times_of_a_real_clock_count_from_the_start(tmp_path: Path) -> None:
    """Unix milliseconds become nanoseconds since the earliest thing known (ruling B18)."""
    files = fixture_run.files()
    start = 1_779_000_000_000
    for path, value in files.items():
        if "/events/" in path:
            for record in value:
                record["wall_ms"] += start
        elif "/snapshots/" in path:
            value["wall_ms"] += start
    files[MANIFEST] |= {"run_start_collector_ms": start + 1015, "run_end_collector_ms": None}
    capture = open_capture(pack(tmp_path / "x", files))
    lines = [*capture.event_lines()]
    assert (lines[0].virtual_time_ns, lines[-1].virtual_time_ns) == (0, 4100 * MS)
    assert next(file.virtual_time_ns for file in capture.snapshot_files()) == 1200 * MS


def test_unknown_types_are_counted_never_fatal(tmp_path: Path) -> None:
    """Production would refuse the whole bundle; here they have a name, a count, and a place (ruling B18)."""
    files = fixture_run.files()
    head = {"node_id": [0x10] * 32, "wall_ms": 6000}
    files[EVENTS] += [
        {**head, "monotonic_seq": 16, "type": "WarpDriveEngaged", "kind": "nine", "deck": [1, 2]},
        {**head, "monotonic_seq": 17, "type": "WarpDriveEngaged"},
        {**head, "monotonic_seq": 18, "type": "Answer", "value": 42},
    ]
    capture = open_capture(pack(tmp_path / "x", files))
    assert dict(capture.unknown_types) == {"Answer": 1, "WarpDriveEngaged": 2}
    tail = [line.event for line in capture.event_lines()][-3:]
    assert tail[0] == {"kind": "WarpDriveEngaged", "fields": {"kind": "nine", "deck": [1, 2]}}
    assert tail[2] == {"kind": "Answer", "fields": {"value": 42}}


def test_unknown_fields_and_files_are_skipped(tmp_path: Path) -> None:
    """A later generation may say more: nothing changes."""
    files = fixture_run.files()
    plain = [*open_capture(pack(tmp_path / "x", files)).event_lines()]
    for record in files[EVENTS]:
        record["trace"] = 1
    files[f"{RUN}/orchestrator/boot/boot-000001.json"] = "an earlier try"
    files[f"{RUN}/stage-0/finalize/finalize-000001.json"] = b"\xff"
    files[f"{RUN}/collector.log"] = b"text"
    assert [*open_capture(pack(tmp_path / "y", files)).event_lines()] == plain


def test_nodes_without_files_and_files_without_a_node(tmp_path: Path) -> None:
    """The manifest's node is empty; the directory that it does not name is kept as an orphan, after the others."""
    files = fixture_run.files()
    for path in [path for path in files if "/stage-1/" in path]:
        files[path.replace("/stage-1/", "/lost/")] = files.pop(path)
    del files[f"{RUN}/lost/boot.json"]
    capture = open_capture(pack(tmp_path / "x", files))
    assert [(node.label, node.orphan) for node in capture.nodes] == [
        ("orchestrator", False),
        ("stage-0", False),
        ("stage-1", False),
        ("lost", True),
    ]
    assert [line.host_id for line in capture.event_lines()].count("lost") == 2
    assert capture.nodes[2].identity is None


def test_events_out_of_order_are_sorted(tmp_path: Path) -> None:
    """By time, then by the node's own sequence; in whichever file they lie, and however the numbers repeat."""
    files = fixture_run.files()
    plain = [line.event for line in open_capture(pack(tmp_path / "x", files)).event_lines()]
    records = files.pop(EVENTS)
    files[f"{RUN}/orchestrator/events/events-000001.json"] = records[9:][::-1]
    files[f"{RUN}/orchestrator/events/events-000002.json"] = records[:9]
    shots = f"{RUN}/orchestrator/snapshots/snapshot-00000"
    files[f"{shots}1.json"], files[f"{shots}2.json"] = files[f"{shots}2.json"], files[f"{shots}1.json"]
    capture = open_capture(pack(tmp_path / "y", files))
    assert [line.event for line in capture.event_lines()] == plain
    times = [shot.document["wall_ms"] for shot in capture.snapshots() if shot.label == "orchestrator"]
    assert times == [2500, 5200]
    assert [file.number for file in capture.snapshot_files() if file.host_id == "orchestrator"] == [0, 1]


def test_names_that_production_registered(tmp_path: Path) -> None:
    """Its first spelling of `register_name` reads as §6A.4's; the registry block gives the names, tombstones left out."""
    files = fixture_run.files()
    owner = fixture_run.hex_of("stage-0")
    fields = {"name": "pp-entry", "actor_addr_hex": "ab", "our_node_id_hex": owner, "wall_ms": 6000, "stage_index": 0}
    record = {"node_id": [0x20] * 32, "monotonic_seq": 9, "wall_ms": 6000, "type": "Custom", "kind": "register_name"}
    files[f"{RUN}/stage-0/events/events-000001.json"].append({**record, "fields": fields})
    entry = {"actor_addr_hex": "ab", "owner_node_id_hex": owner, "generation": 1, "logical_timestamp": 2}
    files[SNAPSHOT]["body"]["registry"] = {
        "entries": [{"name": "pp-entry", **entry}, {"name": "gone", **entry, "is_tombstone": True}]
    }
    capture = open_capture(pack(tmp_path / "x", files))
    assert [*capture.event_lines()][-1].event == {
        "kind": "register_name",
        "name": "pp-entry",
        "address": "ab",
        "peer_node_id": "stage-0",
    }
    (state,) = [file.snapshot for file in capture.snapshot_files() if file.host_id == "stage-0"]
    assert state == {"name_registry": {"pp-entry": "stage-0"}}


def test_a_hostname_names_a_node_only_if_its_hash_is_the_id(tmp_path: Path) -> None:
    """Production's hostnames are no host ids: the label stands."""
    files = fixture_run.files()
    files[f"{RUN}/stage-0/boot.json"]["hostname"] = "rental-7"
    assert [node.name for node in open_capture(pack(tmp_path / "x", files)).nodes] == [
        "orchestrator",
        "stage-0",
        "stage-1",
    ]


def change(path: str, *keys: Any, to: Any) -> Callable[[Files], None]:
    """Set what stands below some keys of a file, or take it out (`to` is Ellipsis)."""

    def apply(files: Files) -> None:
        if not keys:
            files[path] = to
            return
        holder = files[path]
        for key in keys[:-1]:
            holder = holder[key]
        if to is ...:
            del holder[keys[-1]]
        else:
            holder[keys[-1]] = to

    return apply


def drop(path: str) -> Callable[[Files], None]:
    """Leave a file out."""

    def apply(files: Files) -> None:
        del files[path]

    return apply


BROKEN: Final[dict[str, tuple[Callable[[Files], None], str, str]]] = {
    "no manifest": (drop(MANIFEST), "", "MANIFEST.json"),
    "two manifests": (change("other/MANIFEST.json", to={}), "", "MANIFEST.json"),
    "manifest is no JSON": (change(MANIFEST, to=b"{"), "MANIFEST.json", "(root)"),
    "manifest is no object": (change(MANIFEST, to=[]), "MANIFEST.json", "(root)"),
    "no run id": (change(MANIFEST, "run_id", to=...), "MANIFEST.json", "run_id"),
    "finalize flag": (change(MANIFEST, "finalize_received", to=1), "MANIFEST.json", "finalize_received"),
    "start": (change(MANIFEST, "run_start_collector_ms", to=-1), "MANIFEST.json", "run_start_collector_ms"),
    "nodes": (change(MANIFEST, "nodes", to={}), "MANIFEST.json", "nodes"),
    "node": (change(MANIFEST, "nodes", 1, to="x"), "MANIFEST.json", "nodes[1]"),
    "label leads out": (change(MANIFEST, "nodes", 1, "label", to="../../x"), "MANIFEST.json", "nodes[1].label"),
    "label is a number": (change(MANIFEST, "nodes", 1, "label", to=7), "MANIFEST.json", "nodes[1].label"),
    "label twice": (change(MANIFEST, "nodes", 1, "label", to="orchestrator"), "MANIFEST.json", "nodes[1].label"),
    "node id": (change(MANIFEST, "nodes", 2, "node_id_hex", to="AB" * 32), "MANIFEST.json", "nodes[2].node_id_hex"),
    "boot": (change(f"{RUN}/stage-0/boot.json", "role", to=...), "stage-0/boot.json", "role"),
    "boot is a list": (change(f"{RUN}/stage-0/boot.json", to=[]), "stage-0/boot.json", "(root)"),
    "finalize": (change(f"{RUN}/orchestrator/finalize.json", to=b"bye"), "orchestrator/finalize.json", "(root)"),
    "orphan's name": (change(f"{RUN}/.hidden/boot.json", to={}), ".hidden", "(directory)"),
    "events are no JSON": (change(EVENTS, to=b"[1,"), _EVENTS, "(root)"),
    "events are too deep": (change(EVENTS, to=b"[" * 100_000), _EVENTS, "(root)"),
    "events are an object": (change(EVENTS, to={}), _EVENTS, "(root)"),
    "event is a number": (change(EVENTS, 3, to=7), _EVENTS, "[3]"),
    "no type": (change(EVENTS, 3, "type", to=...), _EVENTS, "[3].type"),
    "type is a list": (change(EVENTS, 3, "type", to=[]), _EVENTS, "[3].type"),
    "no peer": (change(EVENTS, 2, "peer", to=...), _EVENTS, "[2].peer"),
    "short id": (change(EVENTS, 2, "peer", to=[1] * 31), _EVENTS, "[2].peer"),
    "id of no bytes": (change(EVENTS, 2, "peer", to=[256] * 32), _EVENTS, "[2].peer"),
    "emitter": (change(EVENTS, 2, "node_id", to="ab" * 32), _EVENTS, "[2].node_id"),
    "state": (change(EVENTS, 2, "to", to="alive"), _EVENTS, "[2].to"),
    "time": (change(EVENTS, 2, "wall_ms", to=1.5), _EVENTS, "[2].wall_ms"),
    "size": (change(EVENTS, 6, "size", to=2**32), _EVENTS, "[6].size"),
    "outcome": (change(EVENTS, 1, "outcome", to={"Error": 1}), _EVENTS, "[1].outcome"),
    "snapshot": (change(SNAPSHOT, to=[]), _SNAPSHOT, "(root)"),
    "snapshot's identity": (change(SNAPSHOT, "identity", "role", to=...), _SNAPSHOT, "identity.role"),
    "snapshot's time": (change(SNAPSHOT, "wall_ms", to="1"), _SNAPSHOT, "wall_ms"),
    "snapshot's id": (change(SNAPSHOT, "snapshot_id", to=None), _SNAPSHOT, "snapshot_id"),
    "no reachability": (change(SNAPSHOT, "body", to={}), _SNAPSHOT, "body.reachability"),
    "reachability": (change(SNAPSHOT, "body", "reachability", to=[1]), _SNAPSHOT, "body.reachability"),
    "swim": (change(SNAPSHOT, "body", "swim", to={}), _SNAPSHOT, "body.swim.self_node_id_hex"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_malformed_content(tmp_path: Path, what: str) -> None:
    """Packed or not: file, field and rule, before anything is handed out."""
    damage, file, field = BROKEN[what]
    files = fixture_run.files()
    damage(files)
    found = refusal(pack(tmp_path / "x", files))
    assert (found[0].removeprefix(f"{RUN}/"), found[1]) == (file, field)
    if not any(isinstance(value, bytes) for value in files.values()):
        found = refusal(unpack(tmp_path / "tree", files))
        assert (found[0].removeprefix(f"{RUN}/"), found[1]) == (file, field)


def _info(name: str, kind: bytes = tarfile.REGTYPE, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


@pytest.mark.parametrize(
    ("info", "field"),
    [
        (_info(f"{RUN}/../../etc/passwd"), "(name)"),
        (_info("/etc/passwd"), "(name)"),
        (_info(f"{RUN}\\..\\x"), "(name)"),
        (_info("a\nb"), "(name)"),
        (_info(MANIFEST), "(name)"),
        (_info(f"{RUN}/x", tarfile.SYMTYPE, linkname="/etc/passwd"), "(type)"),
        (_info(f"{RUN}/x", tarfile.LNKTYPE, linkname=MANIFEST), "(type)"),
        (_info(f"{RUN}/x", tarfile.CHRTYPE), "(type)"),
        (_info(f"{RUN}/x", tarfile.FIFOTYPE), "(type)"),
        (_info(f"{RUN}/x", tarfile.DIRTYPE + b""), ""),
    ],
)
def test_members_that_no_run_has(tmp_path: Path, info: tarfile.TarInfo, field: str) -> None:
    """Names that lead out, links, devices, a file twice: refused by name. Nothing is ever written where an archive says."""
    archive = pack(tmp_path / "x", fixture_run.files(), [info])
    if not field:
        assert len(open_capture(archive).nodes) == 3
        return
    file, found, _ = refusal(archive)
    assert found == field
    assert file.strip("'").replace("\\\\", "\\") in (info.name, repr(info.name).strip("'"), info.name.lstrip("/"))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_huge_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that says that it is huge is refused unread; one that unpacks to too much is given up; so are too many."""
    header = _info(f"{RUN}/big.json", size=2**40).tobuf(tarfile.GNU_FORMAT)
    assert refusal(gzipped(tmp_path / "a", header + bytes(1024)))[:2] == (f"{RUN}/big.json", "(size)")
    archive = pack(tmp_path / "b", {**fixture_run.files(), f"{RUN}/x": bytes(300_000)})
    monkeypatch.setattr(layout, "LONGEST_ARCHIVE", 200_000)
    assert refusal(archive)[1] == "(size)"
    monkeypatch.setattr(layout, "LONGEST_ARCHIVE", 2**30)
    assert len(open_capture(archive).nodes) == 3
    monkeypatch.setattr(layout, "MOST_FILES", 5)
    assert refusal(archive)[1] == "(files)"
    monkeypatch.setattr(layout, "MOST_FILES", 500)
    monkeypatch.setattr(layout, "LONGEST_FILE", 2_000)
    assert refusal(unpack(tmp_path / "tree", fixture_run.files()))[1] == "(size)"


def test_a_header_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds for what is no member too."""
    monkeypatch.setattr(layout, "LONGEST_ARCHIVE", 200_000)
    header = _info("pax", tarfile.XHDTYPE, size=2**30).tobuf(tarfile.USTAR_FORMAT)
    assert refusal(gzipped(tmp_path / "x", header + bytes(300_000)))[1] == "(size)"


def whole() -> bytes:
    """The bytes of a sound archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("r/MANIFEST.json")
        data = b'{"run_id": "r", "finalize_received": false, "nodes": []}'
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


WHOLE: Final = whole()


@given(length=st.integers(0, len(WHOLE) - 1))
def test_a_truncated_archive_is_refused(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    """Wherever it is cut, inside the checksum at its end too."""
    archive = tmp_path_factory.getbasetemp() / "cut"
    archive.write_bytes(WHOLE[:length])
    assert refusal(archive)[1] in ("(root)", "MANIFEST.json")
    archive.write_bytes(WHOLE)
    assert open_capture(archive).facts.run_id == "r"


def test_a_tar_that_is_cut_inside_a_whole_gzip_is_refused(tmp_path: Path) -> None:
    """A member that is shorter than it says; a second header that is no header."""
    data = gzip.decompress(WHOLE)
    assert refusal(gzipped(tmp_path / "x", data[:530]))[1] == "(root)"
    assert refusal(gzipped(tmp_path / "x", data[:1024] + b"x" * 512))[1] == "(root)"
    assert refusal(gzipped(tmp_path / "x", data[:1024]))[1] == "(root)"
    assert refusal(gzipped(tmp_path / "x", data[:1500]))[1] == "(root)"
    assert open_capture(gzipped(tmp_path / "x", data)).facts.run_id == "r"


@given(data=st.binary(max_size=600))
def test_any_bytes_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """No bytes raise anything but a refusal, packed or not."""
    archive = tmp_path_factory.getbasetemp() / "bytes"
    archive.write_bytes(data)
    assert refusal(archive)[1] in ("(root)", "MANIFEST.json")
    assert refusal(gzipped(archive, data))[1] in ("(root)", "MANIFEST.json", "(name)", "(type)", "(size)")


def test_no_archive_at_all(tmp_path: Path) -> None:
    """Nothing, an empty directory, a link in a tree, a directory without a run."""
    assert refusal(tmp_path / "none")[1] == "(root)"
    assert refusal(tmp_path)[1] == "MANIFEST.json"
    root = unpack(tmp_path / "tree", fixture_run.files())
    root.joinpath(RUN, "stage-0", "events", "more.json").symlink_to("/etc/passwd")
    assert refusal(root) == (f"{RUN}/stage-0/events/more.json", "(type)", "a link; unpack regular files only")


EXACT: Final = "out/a/exact/events-000001.json"
DISAGREE: Final[dict[str, tuple[Callable[[Files], None], str]]] = {
    "missing": (drop(EXACT), "(root)"),
    "no list": (change(EXACT, to={}), "(root)"),
    "too short": (change(EXACT, to=[]), "(root)"),
    "another time": (change(EXACT, 1, 0, to=9 * MS), "[1]"),
    "another form": (change(EXACT, 1, to=[1]), "[1]"),
    "a line twice": (change(EXACT, 1, 1, to=0), "[1]"),
    "snapshots": (change("out/a/exact/snapshots.json", to=[[1]]), "(root)"),
    "no snapshots": (drop("out/a/exact/snapshots.json"), "(root)"),
}


@pytest.mark.parametrize("what", DISAGREE)
def test_an_export_whose_exact_times_do_not_fit(tmp_path: Path, what: str) -> None:
    """What stands beside production's form must agree with it, entry by entry."""
    bundle = write_bundle(tmp_path / "out", [event(1, 1), event(2, 2), snapshot(3, 3)])
    export(open_bundle(bundle), tmp_path / "x")
    files = {
        path.replace("parts-18446744073709551615", "out"): value for path, value in members(tmp_path / "x").items()
    }
    assert [*open_capture(pack(tmp_path / "y", files)).event_lines()] == [*open_capture(bundle).event_lines()]
    damage, field = DISAGREE[what]
    damage(files)
    file, found, _ = refusal(pack(tmp_path / "z", files))
    assert found == field
    assert file.startswith("a/exact/")
