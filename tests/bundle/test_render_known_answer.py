"""The post-processor's known-answer case gives its figures, section by section and to the byte."""

from pathlib import Path

import pytest

from simharness.bundle.production.opening import open_capture
from simharness.bundle.render.rendering import render
from tests.bundle import fixture_run
from tests.bundle.production_support import GOLDEN, pack, unpack

HEADINGS = [
    "# Diagnostics summary",
    "## Run",
    "## Nodes",
    "## Hosts",
    "## First peer to go Dead",
    "## Relay sessions",
    "## Probe outcomes",
    "## Probe RTT distribution",
    "## Kernel network drops",
    "## Gossip receipts (by node, by kind)",
    "## Inference responses",
    "## Bandwidth (by node, by kind and peer)",
    "## Per-peer dials",
    "## Event totals (by type)",
]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rendering of the archive."""
    place = tmp_path_factory.mktemp("known")
    archive = pack(place / "run.tar.gz", fixture_run.files())
    return render(open_capture(archive), place / "out").directory


def section(rendered: Path, heading: str) -> list[str]:
    """The lines of one section that are not empty."""
    text = rendered.joinpath("summary.md").read_text("utf-8")
    inside = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return [line for line in inside.splitlines() if line]


def test_every_section_is_there_in_order(rendered: Path) -> None:
    """No section is left out; what there is nothing of is said in words."""
    lines = rendered.joinpath("summary.md").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("#")] == HEADINGS
    assert all(section(rendered, heading) for heading in HEADINGS[1:])
    assert lines[2] == "`fixture-run-1`"


def test_first_death(rendered: Path) -> None:
    """Who lost whom, when, why; connections and host-level probes as the nearest snapshots say."""
    assert section(rendered, "## First peer to go Dead") == [
        "- observer: orchestrator",
        "- peer: stage-1",
        "- time_ms: 5100",
        "- reason: suspicion-timeout",
        "- observer-side conn_type: None",
        "- peer-side conn_type: Direct",
        "- observer probes_ok_at_transition: yes",
        "- peer probes_ok_at_transition: unknown",
    ]


def test_probes(rendered: Path) -> None:
    """The latest echo probe of the one node that has any; no SWIM probe was recorded."""
    assert section(rendered, "## Probe outcomes") == ["- orchestrator: udp_echo/collector:9999 ok rtt_ms=7 3/3"]
    assert section(rendered, "## Probe RTT distribution") == ["- no SWIM probes recorded"]


def test_dials(rendered: Path) -> None:
    """Three dials, two of which succeeded; by target, the last outcome with its time."""
    rows = section(rendered, "## Per-peer dials")
    assert rows[0] == "started=3, succeeded=2, failed=1, in-flight=0"
    assert rows[3:] == [
        "| stage-0 | 1 | 1 | 0 | 0 | Success | 1012 |",
        "| stage-1 | 2 | 1 | 1 | 0 | Timeout | 4000 |",
    ]


def test_totals(rendered: Path) -> None:
    """Every type with its count, by name."""
    assert section(rendered, "## Event totals (by type)") == [
        "- ConnectionCacheInvalidated: 1",
        "- DialOutcome: 3",
        "- DialStarted: 3",
        "- MessageReceived: 4",
        "- MessageSent: 3",
        "- SwimTransition: 6",
    ]


def test_bandwidth(rendered: Path) -> None:
    """Messages and bytes by kind."""
    rows = section(rendered, "## Bandwidth (by node, by kind and peer)")
    assert rows[1 : rows.index("By peer:")] == [
        "- orchestrator recv pong x 2 (32 B)",
        "- orchestrator sent ping x 2 (64 B)",
        "- stage-0 recv ping x 1 (32 B)",
        "- stage-0 sent pong x 1 (16 B)",
        "- stage-1 recv ping x 1 (32 B)",
    ]


def test_run_and_nodes(rendered: Path) -> None:
    """Counts of events and snapshots, and who was finalised."""
    assert section(rendered, "## Run")[:2] == ["- nodes: 3", "- finalize_received: true"]
    assert section(rendered, "## Nodes") == [
        "- **orchestrator** (orchestrator) 10101010",
        "  snapshots=2, events=15, finalize_recorded=true",
        "- **stage-0** (stage) 20202020",
        "  snapshots=1, events=3, finalize_recorded=false",
        "- **stage-1** (stage) 30303030",
        "  snapshots=1, events=2, finalize_recorded=false",
    ]


def test_files_to_the_byte(rendered: Path) -> None:
    """A timeline for every ordered pair; summary, table and a timeline are what lies beside this test."""
    assert sorted(path.name for path in rendered.iterdir()) == [
        "reachability.tsv",
        "summary.md",
        "timeline-orchestrator-to-stage-0.tsv",
        "timeline-orchestrator-to-stage-1.tsv",
        "timeline-stage-0-to-orchestrator.tsv",
        "timeline-stage-0-to-stage-1.tsv",
        "timeline-stage-1-to-orchestrator.tsv",
        "timeline-stage-1-to-stage-0.tsv",
    ]
    for name in ("summary.md", "reachability.tsv", "timeline-orchestrator-to-stage-1.tsv"):
        assert rendered.joinpath(name).read_bytes() == GOLDEN.joinpath("known_answer", name).read_bytes(), name
    assert rendered.joinpath("timeline-stage-0-to-stage-1.tsv").read_text() == "time_ms\tsource\tkind\tpeer\tdetails\n"


def test_unpacked_gives_the_same(rendered: Path, tmp_path: Path) -> None:
    """A directory, or one above it, reads like the archive."""
    root = unpack(tmp_path / "tree", fixture_run.files())
    for index, place in enumerate((root, root / "fixture-run-1")):
        again = render(open_capture(place), tmp_path / f"out{index}").directory
        for file in sorted(rendered.iterdir()):
            assert again.joinpath(file.name).read_bytes() == file.read_bytes()
