"""Each section of the summary, and both tables, on records made for them."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.bundle.production.export import export
from simharness.bundle.production.opening import open_bundle, open_capture
from simharness.bundle.reader import Bundle
from simharness.bundle.render import rendering
from simharness.bundle.render.probes import percentile
from simharness.bundle.render.rendering import render
from simharness.core.errors import InputError
from tests.bundle import fixture_run
from tests.bundle.production_support import pack, run_relayed, write_bundle
from tests.bundle.support import tree

RUN: Final = "fixture-run-1"
ORCHESTRATOR: Final = [0x10] * 32
STAGE_0: Final = [0x20] * 32
STAGE_1: Final = [0x30] * 32


def said(label: str, at_ms: int, what: str, /, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A record of one of the three nodes."""
    node = {"orchestrator": ORCHESTRATOR, "stage-0": STAGE_0, "stage-1": STAGE_1}[label]
    return label, {"node_id": node, "monotonic_seq": at_ms, "wall_ms": at_ms, "type": what, **fields}


def summary(
    tmp_path: Path,
    *records: tuple[str, dict[str, Any]],
    bodies: dict[str, list[dict[str, Any]]] | None = None,
    role: str = "",
) -> dict[str, list[str]]:
    """Render the known nodes with these records and these snapshot bodies only; return the lines by heading."""
    files = {path: value for path, value in fixture_run.files().items() if "/events/" not in path}
    for label in ("orchestrator", "stage-0", "stage-1"):
        files[f"{RUN}/{label}/events/events-000001.json"] = [record for owner, record in records if owner == label]
        shots = sorted(path for path in files if f"/{label}/snapshots/" in path)
        template = files[shots[0]]
        for path in shots:
            del files[path]
        for number, body in enumerate((bodies or {}).get(label, [])):
            shot = {**template, "wall_ms": 1000 * number, "body": {"reachability": [], **body}}
            files[f"{RUN}/{label}/snapshots/snapshot-{number:06}.json"] = shot
    if role:
        files[f"{RUN}/MANIFEST.json"]["nodes"][0]["role"] = role
    out = render(open_capture(pack(tmp_path / "x", files)), tmp_path / "out").directory
    sections = out.joinpath("summary.md").read_text("utf-8").split("\n## ")[1:]
    return {text.split("\n")[0]: [line for line in text.split("\n")[1:] if line] for text in sections}


def probe(
    label: str, at_ms: int, what: str, sequence: int, kind: str = "direct", **more: Any
) -> tuple[str, dict[str, Any]]:
    return said(label, at_ms, f"SwimProbe{what}", target=STAGE_0, sequence=sequence, kind=kind, **more)


def test_probe_times(tmp_path: Path) -> None:
    """Joined on target, sequence and kind; a fan-out is one probe; the bucket is that of the sending (ruling B17)."""
    sections = summary(
        tmp_path,
        probe("orchestrator", 100, "Sent", 1),
        probe("orchestrator", 110, "Acked", 1),
        probe("orchestrator", 120, "Acked", 1),  # a second answer counts for nothing
        probe("orchestrator", 4_999, "Sent", 2),
        probe("orchestrator", 5_100, "TimedOut", 2, budget_ticks=15),
        probe("orchestrator", 5_100, "Sent", 2, "indirect"),
        probe("orchestrator", 5_100, "Sent", 2, "indirect"),
        probe("orchestrator", 5_300, "Acked", 2, "indirect"),
        probe("orchestrator", 9_000, "Sent", 3),
        probe("orchestrator", 9_500, "Sent", 3),  # the same key later, the first unanswered: a probe of its own
        probe("orchestrator", 9_530, "Acked", 3),
        probe("stage-1", 50, "TimedOut", 9, budget_ticks=7),  # of a probe that nobody saw leave
    )
    times = "rtt_ms median=30 p95=200 p99=200"
    assert sections["Probe RTT distribution"] == [
        f"- orchestrator -> stage-0: probes=5 acked=3 timed_out=1 pending=1 {times} timeout_budget_ticks=15",
        "  - [0, 5000): probes=2 acked=1 timed_out=1 pending=0 rtt_ms median=10 p95=10 p99=10",
        f"  - [5000, 10000): probes=3 acked=2 timed_out=0 pending=1 {times}",
    ]


@given(values=st.lists(st.integers(0, 9), min_size=1, max_size=40), percent=st.integers(0, 100))
def test_percentiles_are_nearest_rank(values: list[int], percent: int) -> None:
    """The smallest value that at least `percent` percent of all values do not exceed."""
    ordered = sorted(values)
    found = percentile(ordered, percent)
    assert found in ordered
    assert 100 * sum(value <= found for value in ordered) >= percent * len(ordered)
    assert all(
        100 * sum(value <= lower for value in ordered) < percent * len(ordered) for lower in ordered if lower < found
    )


def test_gossip_and_inference(tmp_path: Path) -> None:
    """Receipts by node and kind; responses one by one, their target known, in hex, or unresolved."""
    receipt = {"source_peer": STAGE_0, "payload_kind": "swim_piggyback"}
    answer = {"byte_size": 5, "send_outcome": "success"}
    sections = summary(
        tmp_path,
        said("orchestrator", 1, "GossipReceived", **receipt, payload_bytes=100, item_count=2),
        said("orchestrator", 2, "GossipReceived", **receipt, payload_bytes=50, item_count=1),
        said("stage-1", 3, "InferenceResponseSent", target_peer=ORCHESTRATOR, request_id="r1", **answer),
        said("stage-1", 4, "InferenceResponseSent", target_peer=None, request_id=7, **answer),
        said("stage-1", 5, "InferenceResponseSent", target_peer="ab" * 32, request_id=8, **answer),
    )
    assert sections["Gossip receipts (by node, by kind)"] == ["- orchestrator: swim_piggyback x 2 (150 B, 3 items)"]
    assert sections["Inference responses"] == [
        "- stage-1 -> orchestrator: request r1, 5 B, success, at 3 ms",
        "- stage-1 -> None: request 7, 5 B, success, at 4 ms",
        "- stage-1 -> node-abababab: request 8, 5 B, success, at 5 ms",
    ]


def _kernel(**counters: int) -> dict[str, Any]:
    return {"host": {"network": {"udp_kernel_stats": counters}}}


def test_kernel_drops_are_differences(tmp_path: Path) -> None:
    """First against last snapshot that has counters; what did not change is left out."""
    bodies = {
        "orchestrator": [{}, _kernel(in_errors=3, rcvbuf_errors=1), {}, _kernel(in_errors=3, rcvbuf_errors=9)],
        "stage-0": [_kernel(in_errors=1)],
    }
    assert summary(tmp_path, bodies=bodies)["Kernel network drops"] == ["- orchestrator: rcvbuf_errors +8"]


def test_relay_sessions(tmp_path: Path) -> None:
    """The relay's latest counters, each peer's last close, and what the peer's own cache says about the relay."""
    closed = {
        "peer_node_id_hex": fixture_run.hex_of("stage-0"),
        "opened_at_ms": 1,
        "closed_at_ms": 9,
        "duration_ms": 8,
        "close_initiator": "remote",
        "bytes_rx": 10,
        "bytes_tx": 20,
    }
    server = {"active_sessions": 1, "total_opens": 3, "total_closes": 2, "bytes_rx_total": 7, "bytes_tx_total": 8}
    cache = {"peer_node_id_hex": fixture_run.hex_of("orchestrator"), "generation": 1, "last_failure_reason": "reset"}
    sections = summary(
        tmp_path,
        said("orchestrator", 5, "RelaySessionClosed", **closed, close_reason="first"),
        said("orchestrator", 6, "RelaySessionClosed", **closed, close_reason="bye"),
        bodies={
            "orchestrator": [{"relay_server": {}}, {"relay_server": {**server, "closes_by_reason": [["bye", 2]]}}],
            "stage-0": [{"iroh": {"connection_cache": [cache]}}],
        },
        role="relay",
    )
    assert sections["Relay sessions"] == [
        "- orchestrator: active=1 opens=3 closes=2 rx=7 tx=8 closes_by_reason=bye:2",
        "  - stage-0: closed by remote (bye) after 8 ms, rx=10 tx=20, last_failure_reason=reset",
    ]


def test_first_death_looks_at_the_nearest_snapshots(tmp_path: Path) -> None:
    """Of two equally near the earlier; a probe that failed is a no; a later or a lesser transition is no death."""
    dead = {"from": "Suspect", "to": "Dead", "reason": "gossip"}

    def body(kind: str, *outcomes: str) -> dict[str, Any]:
        peers = [{"peer_node_id_hex": fixture_run.hex_of("stage-0"), "conn_type": kind}]
        return {"iroh": {"peers": peers}, "probes": {"probes": [{"last_outcome": outcome} for outcome in outcomes]}}

    sections = summary(
        tmp_path,
        said("stage-1", 1400, "SwimTransition", peer=STAGE_0, **{"from": "Alive", "to": "Suspect"}, reason="gossip"),
        said("stage-1", 1500, "SwimTransition", peer=STAGE_0, **dead),
        said("orchestrator", 1600, "SwimTransition", peer=STAGE_1, **dead),
        bodies={"stage-1": [body("Mixed"), body("Relay", "ok", "timeout"), body("Direct", "ok")]},
    )
    found = sections["First peer to go Dead"]
    assert found[:3] == ["- observer: stage-1", "- peer: stage-0", "- time_ms: 1500"]
    assert found[4:] == [
        "- observer-side conn_type: Relay",
        "- peer-side conn_type: unknown",
        "- observer probes_ok_at_transition: no",
        "- peer probes_ok_at_transition: unknown",
    ]


def test_totals_name_custom_kinds_and_unknown_types(tmp_path: Path) -> None:
    """A custom kind stands under its name, whatever characters it has; an unknown type is marked."""
    sections = summary(
        tmp_path,
        said("stage-0", 1, "Custom", kind="RelayEnqueue", fields={}),
        said("stage-0", 2, "Custom", kind="two\nlines", fields=None),
        said("stage-0", 3, "Novel"),
    )
    assert sections["Event totals (by type)"] == [
        "- Custom(RelayEnqueue): 1",
        "- Custom(two\\nlines): 1",
        "- Novel: 1 (unknown type)",
    ]


def test_hosts(tmp_path: Path) -> None:
    """What the boot record says of the machine; a question mark for what it does not."""
    files = fixture_run.files()
    files[f"{RUN}/stage-0/boot.json"] |= {"vastai_contract_id": 77, "host_country": "NO", "git_sha": "ab12"}
    del files[f"{RUN}/stage-1/boot.json"]
    out = render(open_capture(pack(tmp_path / "x", files)), tmp_path / "out").directory
    text = out.joinpath("summary.md").read_text("utf-8")
    assert "- stage-0: rental=77 ip=? dc=? country=NO container=? hostname=? relay=? iroh=? git=ab12\n" in text
    assert "- stage-1: boot record absent\n" in text


def test_a_timeline_tells_both_sides(tmp_path: Path) -> None:
    """Records of either that name the other, by time and source, details as pairs; no tab or newline gets in."""
    summary(
        tmp_path,
        said("stage-0", 5, "Error", component="x", message="a\tb\nc", peer=ORCHESTRATOR),
        said("stage-0", 5, "Error", component="x", message="of nobody", peer=None),
        said("orchestrator", 5, "NodeMapUpdate", peer=STAGE_0, from_source="swim_metadata", accepted=True),
        said("orchestrator", 4, "DialOutcome", peer=STAGE_0, attempt=1, outcome={"Error": "no"}, duration_ms=3),
        said("orchestrator", 6, "GossipReceived", source_peer=STAGE_0, payload_kind="k", payload_bytes=1, item_count=1),
        said("orchestrator", 7, "MessageSent", peer=STAGE_1, kind="k", size=1),
        said("orchestrator", 8, "MessageSent", peer=[9] * 32, kind="k", size=1),
    )
    for name in ("timeline-orchestrator-to-stage-0.tsv", "timeline-stage-0-to-orchestrator.tsv"):
        assert tmp_path.joinpath("out", name).read_text("utf-8").splitlines() == [
            "time_ms\tsource\tkind\tpeer\tdetails",
            "4\torchestrator\tDialOutcome\tstage-0\tattempt=1 outcome=Error(no) duration_ms=3",
            "5\torchestrator\tNodeMapUpdate\tstage-0\tfrom_source=swim_metadata accepted=true",
            "5\tstage-0\tError\torchestrator\tcomponent=x message=a\\tb\\nc",
        ]


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run's bundle."""
    return run_relayed(tmp_path_factory.mktemp("relayed"))


def test_a_bundle_and_its_export_render_alike(relayed: Path, tmp_path: Path) -> None:
    """To the byte, every file: one renderer for simulated and production form (§9.5)."""
    export(open_bundle(relayed), tmp_path / "x")
    one = render(open_capture(relayed), tmp_path / "one")
    two = render(open_capture(tmp_path / "x"), tmp_path / "two")
    assert one.files == two.files
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert len(one.files) == 5 * 4 + 2


def test_a_real_run_agrees_with_its_bundle(relayed: Path, tmp_path: Path) -> None:
    """Counts of the summary, found again by counting lines; stage and relay kinds stand there under their own names (R5)."""
    text = render(open_capture(relayed), tmp_path / "out").directory.joinpath("summary.md").read_text("utf-8")
    kinds = [line.event["kind"] for line in Bundle(relayed).events()]
    for kind in ("MessageSent", "SwimProbeAcked", "SwimTransition", "GossipReceived"):
        assert f"\n- {kind}: {kinds.count(kind)}\n" in f"{text}\n"
    for kind in ("RelayEnqueue", "RelayDequeue", "register_name", "worker_exited", "stage_lifecycle", "Mutation"):
        assert f"\n- Custom({kind}): {kinds.count(kind)}\n" in f"{text}\n"
    first = next(
        line
        for line in Bundle(relayed).events()
        if line.event["kind"] == "SwimTransition" and line.event["to"] == "Dead"
    )
    assert f"- observer: {first.host_id}\n- peer: {first.event['peer']}\n" in text
    probes = [int(count) for count in re.findall(r"^- .* -> .*: probes=(\d+)", text, re.MULTILINE)]
    sent = [
        (line.host_id, line.event["target"], line.event["sequence"], line.event["probe_kind"])
        for line in Bundle(relayed).events()
        if line.event["kind"] == "SwimProbeSent"
    ]
    assert sum(probes) == len({*sent})


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_whatever_a_body_holds_it_renders(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Blocks of a snapshot that are not what they should be are absent, not fatal."""
    odd = st.none() | st.integers() | st.text(max_size=2) | st.lists(st.integers(), max_size=2)
    probes = odd | st.fixed_dictionaries(
        {"probes": odd | st.lists(st.fixed_dictionaries({"kind": odd, "target": odd}))}
    )
    iroh = odd | st.fixed_dictionaries({"peers": odd | st.lists(odd), "connection_cache": odd})
    host = odd | st.fixed_dictionaries({"network": odd | st.fixed_dictionaries({"udp_kernel_stats": odd})})
    body = {
        "probes": data.draw(probes),
        "iroh": data.draw(iroh),
        "host": data.draw(host),
        "relay_server": data.draw(odd),
    }
    dead = said("orchestrator", 1, "SwimTransition", peer=STAGE_0, **{"from": "Alive", "to": "Dead"}, reason="x")
    sections = summary(tmp_path_factory.mktemp("odd"), dead, bodies={"orchestrator": [body, body], "stage-0": [body]})
    assert all(sections.values())


def test_many_nodes_need_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a file for every ordered pair: above the limit the nodes that matter are named."""
    capture = open_capture(pack(tmp_path / "x", fixture_run.files()))
    monkeypatch.setattr(rendering, "MOST_NODES", 2)
    with pytest.raises(InputError, match="3 nodes would give 6 timelines"):
        render(capture, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    rendered = render(capture, tmp_path / "out", ["stage-1", "orchestrator"])
    assert [name for name in rendered.files if name.startswith("timeline")] == [
        "timeline-orchestrator-to-stage-1.tsv",
        "timeline-stage-1-to-orchestrator.tsv",
    ]
    with pytest.raises(InputError, match="no node is called stage-9"):
        render(capture, tmp_path / "out", ["stage-9"])


def test_labels_that_would_share_a_file(tmp_path: Path) -> None:
    """`a-to-b` beside `a` and `b` makes names ambiguous: refused, nothing overwritten."""
    scenario = "".join(f'[[peers]]\nid = "{peer}"\n' for peer in ("a", "b", "a-to-b", "b-to-b"))
    capture = open_capture(write_bundle(tmp_path / "bundle", [], scenario=scenario))
    with pytest.raises(InputError, match="share a name"):
        render(capture, tmp_path / "out")


@pytest.mark.parametrize("taken", ["file", "other", "link"])
def test_a_place_that_is_taken_stays_as_it_is(tmp_path: Path, taken: str) -> None:
    """Only an earlier rendering, or an empty directory, is replaced."""
    capture = open_capture(pack(tmp_path / "x", fixture_run.files()))
    out = tmp_path / "out"
    match taken:
        case "file":
            out.write_text("mine")
        case "other":
            out.mkdir()
            out.joinpath("summary.md").write_text("mine")
            out.joinpath("notes.txt").write_text("mine")
        case _:
            out.symlink_to("x")
    before = tree(tmp_path)
    with pytest.raises(InputError) as caught:
        render(capture, out)
    assert caught.value.problem.field == "out"
    assert tree(tmp_path) == before


def test_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rendering that breaks off leaves the earlier one and nothing else."""
    capture = open_capture(pack(tmp_path / "x", fixture_run.files()))
    out = tmp_path / "out"
    out.mkdir()
    render(capture, out)
    render(capture, out, ["stage-0", "stage-1"])
    assert len([*out.iterdir()]) == 4
    before = tree(tmp_path)

    def broken(*_args: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(rendering, "_text", broken)
    with pytest.raises(KeyboardInterrupt):
        render(capture, out)
    assert tree(tmp_path) == before
    assert not tmp_path.joinpath(".out.0.partial").exists()
