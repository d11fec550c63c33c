"""What an export writes: the collector's layout, production's records to the letter, the same bytes every time."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from simharness.bundle.production import export as export_module
from simharness.bundle.production.export import export
from simharness.bundle.production.opening import open_bundle
from simharness.bundle.reader import Bundle
from simharness.contracts.mutations import PeerKill, PeerResurrect
from simharness.contracts.records import EventRecord, MutationRecord, Record, SnapshotRecord
from simharness.core.canonical_json import compact
from simharness.core.errors import InputError
from tests.bundle.production_support import GOLDEN, MS, PARTS, members, run_relayed, write_bundle
from tests.bundle.support import tree
from tests.documents import ROOT

FIELDS: Final = {
    "SwimTransition": ["peer", "from", "to", "reason"],
    "MessageSent": ["peer", "kind", "size"],
    "MessageReceived": ["peer", "kind", "size"],
    "ConnectionCacheHit": ["peer", "generation"],
    "ConnectionCacheMiss": ["peer"],
    "ConnectionCacheInvalidated": ["peer", "generation", "reason"],
    "DialStarted": ["peer", "attempt", "timeout_ms"],
    "DialOutcome": ["peer", "attempt", "outcome", "duration_ms"],
    "SwimProbeSent": ["target", "sequence", "kind"],
    "SwimProbeAcked": ["target", "sequence", "kind"],
    "SwimProbeTimedOut": ["target", "sequence", "kind", "budget_ticks"],
    "GossipReceived": ["source_peer", "payload_kind", "payload_bytes", "item_count"],
    "SubprocessSpawned": ["label", "pid", "command"],
    "SubprocessExited": ["label", "pid", "command", "exit_code", "exit_signal", "uptime_ms"],
    "Error": ["component", "message", "peer"],
    "Custom": ["kind", "fields"],
}
"""Production's types as they are published, those that a simulation has."""
TIER2: Final = [
    *("config", "self_node_id_hex", "self_incarnation", "metadata_local_version", "peers", "recent_messages"),
    "scraped_at_ms",
]


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run's bundle, and beside it its export."""
    bundle = run_relayed(tmp_path_factory.mktemp("relayed"))
    export(open_bundle(bundle), bundle.with_suffix(".tar.gz"))
    return bundle


@pytest.fixture(scope="module")
def files(relayed: Path) -> dict[str, Any]:
    """The files of its archive, below the top directory."""
    found = members(relayed.with_suffix(".tar.gz"))
    assert {path.split("/")[0] for path in found} == {"relayed-3"}
    return {path.partition("/")[2]: value for path, value in found.items()}


def records_of(files: dict[str, Any], label: str) -> list[dict[str, Any]]:
    """The records of one node, in file order."""
    return [record for path, batch in sorted(files.items()) if path.startswith(f"{label}/events/") for record in batch]


def sha(host: str) -> str:
    return hashlib.sha256(host.encode()).hexdigest()


def test_layout(files: dict[str, Any]) -> None:
    """Boot, events and snapshots for every node under its label; finalize for whoever ended by itself."""
    assert [entry["label"] for entry in files["MANIFEST.json"]["nodes"]] == [
        "engine",
        "o",
        "relay",
        "stage-0",
        "stage-1",
    ]
    for label in ("engine", "o", "relay", "stage-0", "stage-1"):
        assert files[f"{label}/boot.json"]["node_id_short"] == files[f"{label}/boot.json"]["node_id_hex"][:8]
        assert f"{label}/events/events-000001.json" in files
    assert f"o/snapshots/snapshot-{3:06}.json" in files
    ended = {path: value for path, value in files.items() if path.endswith("finalize.json")}
    assert ended == {
        "o/finalize.json": {"exit_reason": "duration"},
        "stage-1/finalize.json": {"exit_reason": "out of memory"},
    }


def test_identities(files: dict[str, Any]) -> None:
    """Ids are the SHA-256 of host ids; stages have their index and number; a relay has its role."""
    boots = {path.split("/")[0]: value for path, value in files.items() if path.endswith("/boot.json")}
    assert {label: boot["node_id_hex"] for label, boot in boots.items() if label != "engine"} == {
        label: sha(label) for label in ("o", "relay", "stage-0", "stage-1")
    }
    assert {label: boot["role"] for label, boot in boots.items()} == {
        "engine": "engine",
        "o": "o",
        "relay": "relay",
        "stage-0": "stage",
        "stage-1": "stage",
    }
    assert [boots[label]["stage_index"] for label in ("o", "stage-0", "stage-1")] == [None, 0, 1]
    assert [boots[label]["stage_count"] for label in ("o", "stage-0", "stage-1")] == [None, 2, 2]
    assert all(len(boot) == 18 for boot in boots.values())


def test_every_record_is_productions_to_the_letter(files: dict[str, Any]) -> None:
    """Envelope and fields, no more and no less; ids are arrays of 32 bytes, and the emitter is the node whose file it is."""
    seen = set()
    for label in ("engine", "o", "relay", "stage-0", "stage-1"):
        node_id = [*bytes.fromhex(files[f"{label}/boot.json"]["node_id_hex"])]
        records = records_of(files, label)
        assert [record["monotonic_seq"] for record in records] == [*range(1, len(records) + 1)]
        assert [record["wall_ms"] for record in records] == sorted(record["wall_ms"] for record in records)
        for record in records:
            assert [*record] == ["node_id", "monotonic_seq", "wall_ms", "type", *FIELDS[record["type"]]]
            assert record["node_id"] == node_id
            for field in ("peer", "target", "source_peer"):
                assert record.get(field) is None or (type(record[field]) is list and len(record[field]) == 32)
            seen.add(record["type"])
    assert seen == {*FIELDS} - {"Error"}


def test_times_and_counts_are_those_of_the_bundle(relayed: Path, files: dict[str, Any]) -> None:
    """`wall_ms` is virtual milliseconds, and every event of the bundle stands in the archive once."""
    exact = [
        (row, record["wall_ms"])
        for label in ("engine", "o", "relay", "stage-0", "stage-1")
        for path in sorted(files)
        if path.startswith(f"{label}/exact/events-")
        for row, record in zip(files[path], files[path.replace("/exact/", "/events/")], strict=True)
        if row is not None
    ]
    assert all(row[0] // MS == wall_ms for row, wall_ms in exact)
    lines = [(line.virtual_time_ns, line.line, line.kind_tag) for line in Bundle(relayed).events()]
    assert sorted((tuple(row) for row, _ in exact), key=lambda row: row[1]) == lines


def test_manifest(relayed: Path, files: dict[str, Any]) -> None:
    """Production's fields first; then where the run came from, and every substitution (§9.5)."""
    manifest = files["MANIFEST.json"]
    assert [*manifest] == [
        *("run_id", "run_start_collector_ms", "run_end_collector_ms", "finalize_received", "nodes"),
        *("simulated", "substitutions"),
    ]
    assert manifest["run_start_collector_ms"] == 0
    assert manifest["run_end_collector_ms"] == 30_000
    assert manifest["finalize_received"] is False
    own = Bundle(relayed).manifest
    assert manifest["substitutions"][: len(own["substitutions"])] == own["substitutions"]
    assert len(manifest["substitutions"]) > len(own["substitutions"])
    assert manifest["simulated"]["events_ndjson_sha256"] == own["events_ndjson_sha256"]
    for node in manifest["nodes"]:
        batches = [path for path in files if path.startswith(f"{node['label']}/events/")]
        shots = [path for path in files if path.startswith(f"{node['label']}/snapshots/")]
        assert (node["event_batches"], node["snapshots"]) == (len(batches), len(shots))
        assert node["finalize_recorded"] is (f"{node['label']}/finalize.json" in files)


def test_a_snapshot_is_the_tier2_state(relayed: Path, files: dict[str, Any]) -> None:
    """`body.swim` has production's fields in production's order and nothing else, and agrees with the bundle (§9.3)."""
    for host, taken in (("o", 3), ("stage-0", 2), ("stage-1", 3)):
        assert f"{host}/snapshots/snapshot-{taken + 1:06}.json" not in files
        for number in range(taken):
            ours = json.loads(relayed.joinpath("snapshots", host, f"{number}.json").read_bytes())["snapshot"]
            document = files[f"{host}/snapshots/snapshot-{number + 1:06}.json"]
            swim = document["body"]["swim"]
            assert [*swim] == [field for field in TIER2 if field in ours]
            assert {name: swim[name] for name in swim if name not in ("peers", "recent_messages")} == {
                name: ours[name] for name in swim if name not in ("peers", "recent_messages")
            }
            for field in ("peers", "recent_messages"):
                stripped = [{k: v for k, v in entry.items() if k != "peer"} for entry in ours.get(field, [])]
                assert swim.get(field, []) == stripped
            assert document["snapshot_id"] == f"{sha(host)[:8]}-{number}"
            assert document["trigger"] == {"kind": "OnDemand"}
            assert document["identity"] == files[f"{host}/boot.json"]


def test_reachability_follows_the_records(files: dict[str, Any]) -> None:
    """The last snapshot's block tells the last receipts, sends and transitions before it, found by searching the records."""
    document = files["o/snapshots/snapshot-000003.json"]
    at_ms = document["wall_ms"]
    before = [record for record in records_of(files, "o") if record["wall_ms"] <= at_ms]
    assert document["monotonic_seq"] == len(before)
    rows = document["body"]["reachability"]
    assert [row["peer_node_id_hex"] for row in rows] == sorted(sha(peer) for peer in ("relay", "stage-0", "stage-1"))
    for peer in ("stage-0", "stage-1"):
        mine = [record for record in before if record.get("peer") == [*bytes.fromhex(sha(peer))]]
        (row,) = [row for row in rows if row["peer_node_id_hex"] == sha(peer)]
        moves = [record for record in mine if record["type"] == "SwimTransition"]
        assert [
            (step["from"], step["to"], step["at_ms"], step["reason"]) for step in row["swim_transition_history"]
        ] == [(move["from"], move["to"], move["wall_ms"], move["reason"]) for move in moves]
        assert (row["current_swim_opinion"], row["current_swim_opinion_since_ms"]) == (
            moves[-1]["to"],
            moves[-1]["wall_ms"],
        )
        for field, kind in (
            ("last_inbound_packet_at_ms", "MessageReceived"),
            ("last_outbound_success_at_ms", "MessageSent"),
        ):
            assert row[field] == max(record["wall_ms"] for record in mine if record["type"] == kind)


def test_cache_records_stand_for_sends_and_dials(files: dict[str, Any]) -> None:
    """Every send but one refused on sight has a hit or a miss before it; a miss for each dial of a host (ruling B14)."""
    for label in ("o", "stage-0", "stage-1"):
        records = records_of(files, label)
        for before, record in pairwise(records):
            if record["type"] == "MessageSent":
                assert before["type"] in ("ConnectionCacheHit", "ConnectionCacheMiss")
                assert (before["peer"], before["wall_ms"]) == (record["peer"], record["wall_ms"])
        dials: list[list[int]] = []
        for record in records:
            if record["type"] == "DialStarted":
                dials.append(record["peer"])
            elif record["type"] == "ConnectionCacheHit":
                direct = label != "o" and record["peer"] != [*bytes.fromhex(sha("o"))]
                hop = record["peer"] if direct else [*bytes.fromhex(sha("relay"))]
                assert record["generation"] == dials.count(hop)
        assert len(dials) > 1
        types = [record["type"] for record in records]
        assert types.count("ConnectionCacheMiss") == types.count("DialStarted") > 1
        cooled = [
            record["fields"]
            for record in records
            if record["type"] == "Custom"
            and record["kind"] == "CacheStateChange"
            and record["fields"]["transition"] != "warmed"
        ]
        lost = [record for record in records if record["type"] == "ConnectionCacheInvalidated"]
        assert [record["peer"] for record in lost] == [[*bytes.fromhex(sha(fields["to"]))] for fields in cooled]


def said(at_ms: int, place: int, host: str | None, tag: str, kind: str, **fields: Any) -> EventRecord:
    return EventRecord(at_ms * MS + 7, place, host, tag, {"kind": kind, **fields})


PIECES: Final[list[Record]] = [
    said(1, 1, "a", "swim", "MessageSent", peer="stage-0", message_kind="swactor_dist::Ping", size=10),
    said(1, 2, "a", "engine", "DialStart", **{"from": "a", "to": "stage-0"}),
    said(1, 3, "a", "swim", "SwimProbeSent", target="stage-0", sequence=1, probe_kind="direct"),
    said(3, 4, "a", "engine", "DialOutcome", **{"from": "a", "to": "stage-0"}, warm=True),
    said(3, 5, "stage-0", "stage", "MessageReceived", peer="a", message_kind="swactor_dist::Ping", size=10),
    said(3, 6, "stage-0", "stage", "register_name", name="pp-stage-0", address="x:1", peer_node_id="stage-0"),
    said(
        4, 7, None, "relay", "RelayEnqueue", relay="r", **{"from": "a", "to": "stage-1"}, byte_len=9, enqueued_bytes=9
    ),
    said(5, 8, "a", "swim", "SwimTransition", peer="stage-0", **{"from": "Alive", "to": "Dead"}, reason="gossip"),
    said(5, 9, "a", "swim", "SwimIncarnationBumped", **{"from": 0, "to": 1}, claim_state="Dead", claimed_by="stage-1"),
    said(6, 10, "a", "swim", "MessageSent", peer="stage-0", message_kind="swactor_dist::Ack", size=11),
    said(7, 11, "a", "engine", "CacheStateChange", **{"from": "a", "to": "stage-0"}, transition="idle_cooled"),
    said(8, 12, "a", "swim", "MessageSent", peer="stage-1", message_kind="swactor_dist::Ack", size=12),
    said(8, 13, "a", "engine", "DropOnSend", **{"from": "a", "to": "stage-1"}, reason="no_route"),
    said(9, 14, None, "engine", "CacheStateChange", **{"from": "r", "to": "a"}, transition="warmed"),
    MutationRecord(10 * MS, 15, 0, PeerKill(at_ns=10 * MS, peer="stage-1")),
    SnapshotRecord(11 * MS, 16, "stage-0", "stage", compact({"state": "Running", "name_registry": {}})),
]


def test_golden(tmp_path: Path) -> None:
    """One record of each sort, to the byte: what lies beside this test is the format."""
    bundle = write_bundle(tmp_path / "out", PIECES)
    export(open_bundle(bundle), tmp_path / "x.tar.gz")
    lines = []
    with tarfile.open(tmp_path / "x.tar.gz") as tar:
        for member in tar.getmembers():
            lines.append(f"{member.mode:04o} {member.mtime} {member.uid} {member.gid} {member.name}")
            content = tar.extractfile(member)
            if content is not None:
                lines += [f"    {line}" for line in content.read().decode().splitlines()]
    assert "\n".join(lines) + "\n" == GOLDEN.joinpath("export.txt").read_text("utf-8")


def test_the_same_bytes_whenever_and_wherever(relayed: Path, tmp_path: Path) -> None:
    """Another name, other file times, another hash seed: one archive."""
    wanted = relayed.with_suffix(".tar.gz").read_bytes()
    for file in relayed.rglob("*"):
        os.utime(file, (1, 1))
    written = export(open_bundle(relayed), tmp_path / "other.tgz")
    assert written.archive.read_bytes() == wanted
    assert written.sha256 == hashlib.sha256(wanted).hexdigest()
    argv = [sys.executable, "-m", "simharness", "export", "--to", "production", str(relayed), "--out"]
    for seed in ("1", "2"):
        out = tmp_path / seed
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        subprocess.run([*argv, str(out)], env=environment, check=True, capture_output=True)
        assert out.read_bytes() == wanted


def test_a_record_of_the_same_instant_counts_before_a_snapshot(tmp_path: Path) -> None:
    """A bundle keeps no order between the two, so what happened at that instant is told (ruling B16)."""
    sent = said(1, 1, "a", "swim", "MessageSent", peer="stage-0", message_kind="k", size=1)
    shots = [SnapshotRecord(at_ns, 2, "a", "swim", b"{}") for at_ns in (MS + 6, MS + 7)]
    capture = open_bundle(write_bundle(tmp_path / "out", [sent, *shots]))
    counts = [
        (shot.document["monotonic_seq"], len(shot.document["body"]["reachability"])) for shot in capture.snapshots()
    ]
    assert counts == [(0, 0), (2, 1)]


def test_a_stage_that_came_back_ends_anew(tmp_path: Path) -> None:
    """Why its first instance ended is not why its last one did."""
    records = [
        said(1, 1, "stage-0", "stage", "worker_exited", reason="oom", status_code=None, signal=9),
        said(1, 2, "stage-1", "stage", "worker_exited", reason="oom", status_code=None, signal=9),
        MutationRecord(2 * MS, 3, 0, PeerResurrect(at_ns=2 * MS, peer="stage-0", preserve_state=False)),
    ]
    nodes = {node.label: node for node in open_bundle(write_bundle(tmp_path / "out", records)).nodes}
    assert nodes["stage-0"].finalize == {"exit_reason": "duration"}
    assert nodes["stage-1"].finalize == {"exit_reason": "oom"}


def test_finalize_follows_kills_and_returns(tmp_path: Path) -> None:
    """A peer that is killed says nothing; one that came back does."""
    records: list[Record] = [
        MutationRecord(1, 1, 0, PeerKill(at_ns=1, peer="a")),
        MutationRecord(2, 2, 1, PeerKill(at_ns=2, peer="stage-0")),
        MutationRecord(3, 3, 2, PeerResurrect(at_ns=3, peer="a", preserve_state=True)),
    ]
    nodes = {node.label: node for node in open_bundle(write_bundle(tmp_path / "out", records)).nodes}
    assert {label: node.finalize_recorded for label, node in nodes.items()} == {
        "a": True,
        "engine": False,
        "relay": False,
        "stage-0": False,
        "stage-1": True,
    }


@pytest.mark.parametrize(
    ("ids", "labels"),
    [
        (["stage-1", "stage-0"], ["stage-0", "stage-1"]),
        (["x", "y"], ["stage-0", "stage-1"]),
        (["w7", "w9"], ["stage-7", "stage-9"]),
        (["w7", "v7"], ["stage-0", "stage-1"]),
    ],
)
def test_stage_indices(tmp_path: Path, ids: list[str], labels: list[str]) -> None:
    """The numbers that stage ids end in, if they tell the stages apart; else the declared order (ruling B15)."""
    scenario = "".join(f'[[peers]]\nid = "{peer}"\nkind = "stage"\n' for peer in ids)
    nodes = open_bundle(write_bundle(tmp_path / "out", [], scenario=scenario)).nodes
    assert [node.label for node in nodes] == labels
    if labels == ["stage-0", "stage-1"] and ids[0] == "stage-1":
        assert [node.name for node in nodes] == ["stage-0", "stage-1"]


def test_labels_that_clash(tmp_path: Path) -> None:
    """Two relays have one role, so both labels get the first digits of the id."""
    scenario = '[[relays]]\nid = "one"\n[[relays]]\nid = "two"\n'
    nodes = open_bundle(write_bundle(tmp_path / "out", [], scenario=scenario)).nodes
    assert [node.label for node in nodes] == sorted(f"relay-{sha(relay)[:8]}" for relay in ("one", "two"))


@pytest.mark.parametrize("taken", ["directory", "text", "link"])
def test_a_place_that_is_taken_stays_as_it_is(tmp_path: Path, taken: str) -> None:
    """Only a gzip file is replaced."""
    bundle, place = write_bundle(tmp_path / "out", PIECES), tmp_path / "x.tar.gz"
    match taken:
        case "directory":
            place.mkdir()
        case "text":
            place.write_text("mine")
        case _:
            place.symlink_to("out")
    before = tree(tmp_path)
    with pytest.raises(InputError) as caught:
        export(open_bundle(bundle), place)
    assert (caught.value.problem.file, caught.value.problem.field) == (str(place), "out")
    assert tree(tmp_path) == before


def test_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that breaks off leaves the older archive and nothing else; leftovers of a killed one are cleared away."""
    bundle, place = write_bundle(tmp_path / "out", PIECES), tmp_path / "x.tar.gz"
    export(open_bundle(bundle), place)
    before = tree(tmp_path)
    tmp_path.joinpath(".x.tar.gz.0.partial", "tree").mkdir(parents=True)

    def broken(*_args: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_module, "_pack", broken)
    with pytest.raises(KeyboardInterrupt):
        export(open_bundle(bundle), place)
    assert tree(tmp_path) == before
    assert not tmp_path.joinpath(".x.tar.gz.0.partial").exists()
    tmp_path.joinpath(".x.tar.gz.0.partial").mkdir()
    tmp_path.joinpath(".x.tar.gz.0.partial", "mine").write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        export(open_bundle(bundle), place)
    assert tmp_path.joinpath(".x.tar.gz.0.partial", "mine").exists()


@pytest.mark.parametrize(
    ("scenario", "field"),
    [
        ("name = ", "(root)"),
        ("peers = 1", "peers"),
        ("[[peers]]\nid = 1", "peers[0].id"),
        ("relays = [2]", "relays[0].id"),
    ],
)
def test_a_scenario_that_tells_nothing_is_refused(tmp_path: Path, scenario: str, field: str) -> None:
    """The bundle's scenario names the hosts; what is malformed there is named."""
    with pytest.raises(InputError) as caught:
        open_bundle(write_bundle(tmp_path / "out", [], scenario=scenario))
    assert caught.value.problem.field == field
    assert caught.value.problem.file.endswith("scenario.toml")


def test_a_malformed_tier2_state_is_refused(tmp_path: Path) -> None:
    """The snapshot's file is named."""
    state = compact({"self_node_id_hex": "ab" * 32, "peers": [{"peer_node_id_hex": 1}]})
    bundle = write_bundle(tmp_path / "out", [SnapshotRecord(1, 1, "a", "swim", state)])
    with pytest.raises(InputError) as caught:
        export(open_bundle(bundle), tmp_path / "x.tar.gz")
    assert caught.value.problem.file.endswith("snapshots/a/0.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_parts_name_what_the_pieces_need() -> None:
    """The hand-made scenario declares every host that the hand-made records name."""
    assert all(f'id = "{name}"' in PARTS for name in ("a", "stage-0", "stage-1", "r"))
