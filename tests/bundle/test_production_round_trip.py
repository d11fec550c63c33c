"""Export, read back, compare: nothing that a bundle says is lost, whatever it says (ruling B11)."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.bundle.production.opening import open_bundle, open_capture
from simharness.bundle.reader import Bundle
from simharness.contracts.mutations import PeerKill
from simharness.contracts.records import EventRecord, MutationRecord, Record, SnapshotRecord
from simharness.core.canonical_json import compact
from tests.bundle.production_support import MS, exported, members, run_relayed, write_bundle
from tests.bundle.support import VALUES

NAMES: Final = st.sampled_from(("a", "stage-0", "stage-1", "r", "nobody", "", "0" * 64, "ab" * 32, ".engine"))
COUNTS: Final = st.integers(-1, 2**32 + 1) | st.integers(0, 2**64 - 1)
STATES: Final = st.sampled_from(("Alive", "Suspect", "Dead", "Unknown", "alive"))
TEXTS: Final = st.text(max_size=4) | st.sampled_from(("direct", "gossip"))

FITTING: Final[dict[str, dict[str, st.SearchStrategy[Any]]]] = {
    "SwimTransition": {"peer": NAMES, "from": STATES, "to": STATES, "reason": TEXTS},
    "MessageSent": {"peer": NAMES, "message_kind": TEXTS, "size": COUNTS},
    "MessageReceived": {"peer": NAMES | st.none(), "message_kind": TEXTS, "size": COUNTS},
    "SwimProbeSent": {"target": NAMES, "sequence": COUNTS, "probe_kind": TEXTS},
    "SwimProbeTimedOut": {"target": NAMES, "sequence": COUNTS, "probe_kind": TEXTS, "budget_ticks": COUNTS},
    "GossipReceived": {"source_peer": NAMES, "payload_kind": TEXTS, "payload_bytes": COUNTS, "item_count": COUNTS},
    "Error": {"component": TEXTS, "message": TEXTS, "peer": NAMES | st.none()},
    "SubprocessExited": {
        "label": TEXTS,
        "pid": COUNTS,
        "command": TEXTS,
        "exit_code": COUNTS | st.none(),
        "exit_signal": COUNTS | st.none(),
        "uptime_ms": COUNTS | st.none(),
    },
    "ConnectionCacheMiss": {"peer": NAMES},
    "DialStart": {"from": NAMES, "to": NAMES},
    "DialOutcome": {"from": NAMES, "to": NAMES, "warm": st.booleans()},
    "CacheStateChange": {
        "from": NAMES,
        "to": NAMES,
        "transition": st.sampled_from(("warmed", "idle_cooled", "invalidated")),
    },
    "DropOnSend": {"from": NAMES, "to": NAMES, "reason": st.sampled_from(("lossy", "no_route"))},
    "RelayEnqueue": {"relay": NAMES, "from": NAMES, "to": NAMES, "byte_len": COUNTS, "enqueued_bytes": COUNTS},
    "register_name": {"name": TEXTS, "address": TEXTS, "peer_node_id": NAMES},
    "worker_exited": {"reason": TEXTS, "status_code": COUNTS | st.none(), "signal": st.none()},
    "stage_lifecycle": {"from": TEXTS, "to": TEXTS},
    "Custom": {"kind_": TEXTS, "fields": VALUES},
    "DialStarted": {"peer": NAMES, "attempt": COUNTS, "timeout_ms": COUNTS},
}


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """An event that fits its type, or nearly, or has nothing to do with any."""
    kind = draw(st.sampled_from((*FITTING, "Novel", "")))
    event: dict[str, Any] = {"kind": kind}
    event |= {field: draw(values) for field, values in FITTING.get(kind, {}).items()}
    match draw(st.integers(0, 9)):
        case 0 if len(event) > 1:
            event.pop(draw(st.sampled_from([*event][1:])))
        case 1:
            event[draw(st.sampled_from([*event, "more"]))] = draw(VALUES)
    return event


@st.composite
def runs(draw: st.DrawFn) -> Sequence[Record]:
    """Records of declared hosts, of one that no scenario declares, and of none."""
    hosts = st.sampled_from(("a", "stage-0", "stage-1", "undeclared"))
    records: list[Record] = []
    for sequence in range(draw(st.integers(0, 12))):
        at_ns = draw(st.integers(0, 3 * MS) | st.integers(0, 2**63))
        match draw(st.integers(0, 9)):
            case 0:
                mutation = PeerKill(at_ns=at_ns, peer=draw(hosts))
                records.append(MutationRecord(at_ns, sequence, 0, mutation))
            case 1 | 2:
                state = draw(st.dictionaries(st.text(max_size=4), VALUES, max_size=3))
                records.append(SnapshotRecord(at_ns, sequence, draw(hosts), "echo", compact(state)))
            case _:
                tag = draw(st.sampled_from(("swim", "engine", "relay", "echo")))
                records.append(EventRecord(at_ns, sequence, draw(st.none() | hosts), tag, draw(events())))
    return records


def strict(value: Any) -> str:
    """A text that two values share only if they are equal in type and value, whatever the order of keys."""
    return json.dumps(value, sort_keys=True)


@settings(max_examples=60, deadline=None)
@given(records=runs())
def test_nothing_is_lost(records: Sequence[Record]) -> None:
    """Every line comes back with its time to the nanosecond, its place, its host, its kind tag and its payload (ruling B11).

    A bundle seen in production's form and the archive that was written of it are the same: nodes, records, snapshots.
    """
    with TemporaryDirectory() as place:
        bundle = write_bundle(Path(place, "out"), records)
        back, here = exported(bundle), open_bundle(bundle)
        assert [*map(strict, back.event_lines())] == [*map(strict, Bundle(bundle).events())]
        times = [(file.virtual_time_ns, file.host_id, file.number, file.kind_tag) for file in back.snapshot_files()]
        assert times == [(f.virtual_time_ns, f.host_id, f.number, f.kind_tag) for f in Bundle(bundle).snapshots()]
        assert (back.facts, back.nodes) == (here.facts, here.nodes)
        assert [*map(strict, back.events())] == [*map(strict, here.events())]
        assert [*map(strict, back.snapshots())] == [*map(strict, here.snapshots())]


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run's bundle."""
    return run_relayed(tmp_path_factory.mktemp("relayed"))


def test_a_real_run_comes_back(relayed: Path) -> None:
    """Stages, a relay, mutations and embedded nodes: the events of the archive are those of the bundle."""
    before = [*Bundle(relayed).events()]
    kinds = {line.event["kind"] for line in before}
    assert kinds >= {
        "SwimTransition",
        "SwimProbeAcked",
        "RelayEnqueue",
        "worker_exited",
        "SubprocessExited",
        "Mutation",
    }
    assert [*exported(relayed).event_lines()] == before


def test_what_has_a_type_in_production_travels_as_that_type(relayed: Path) -> None:
    """In a real run only what production has no record of is `Custom`."""
    capture = open_bundle(relayed)
    custom = {event.record["kind"] for event in capture.events() if event.record["type"] == "Custom"}
    assert custom == {
        *("CacheStateChange", "DropOnSend", "SendFailed", "DropOnDelivery", "Mutation", "SwimIncarnationBumped"),
        *("RelayEnqueue", "RelayDequeue", "register_name", "worker_exited", "worker_ready", "stage_lifecycle"),
    } & {line.event["kind"] for line in Bundle(relayed).events()}


def test_stage_and_relay_kinds_pass_through_unchanged(relayed: Path) -> None:
    """Inside `Custom` they have the fields that §6A.4 and §5A.3 give them (R5)."""
    wanted = ("register_name", "worker_exited", "stage_lifecycle", "RelayEnqueue", "RelayDequeue", "RelayDrop")
    before = [line.event for line in Bundle(relayed).events() if line.event["kind"] in wanted]
    exported(relayed)
    files = members(relayed.with_suffix(".tar.gz"))
    records = [record for path, batch in files.items() if "/events/" in path for record in batch]
    after = [record for record in records if record["type"] == "Custom" and record["kind"] in wanted]
    assert {record["kind"] for record in after} >= {*wanted} - {"RelayDrop"}
    assert sorted(strict({"kind": record["kind"], **record["fields"]}) for record in after) == sorted(
        map(strict, before)
    )


def test_snapshots_come_back_without_what_we_add(relayed: Path) -> None:
    """The tier-2 state with host ids again; names, hearsay and stage state are not production's and stay behind (§9.3)."""
    extras = ("name_registry", "hearsay", "state", "last_exit_reason")
    before = [
        {name: value for name, value in file.snapshot.items() if name not in extras}
        for file in Bundle(relayed).snapshots()
    ]
    assert [file.snapshot for file in exported(relayed).snapshot_files()] == before
    assert all("self_id" in state for state in before)


def test_a_run_without_records_comes_back(tmp_path: Path) -> None:
    """A bundle of nobody is an archive of nobody."""
    back = exported(write_bundle(tmp_path / "out", [], scenario=""))
    assert back.nodes == ()
    assert [*back.events(), *back.snapshots(), *back.event_lines(), *back.snapshot_files()] == []
    assert open_capture(tmp_path / "out").facts.run_id.startswith("run-")
