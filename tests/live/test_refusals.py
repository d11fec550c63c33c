"""What a live run refuses: before any process starts, as file, field and rule."""

from pathlib import Path

import pytest

from simharness.core.errors import EngineAbort, RefusedError
from simharness.hosts.swim.kind import KIND
from simharness.live.channel import Go, Setup
from simharness.live.envelope import HEADER_BYTES, Envelope
from simharness.live.peer import PeerProcess
from simharness.live.run import run_live
from simharness.systems.swim.udp import MAX_DATAGRAM
from tests.live.support import MESH, head, loaded, mutation, swim

ECHO = '[[peers]]\nid = "e"\nkind = "echo"\ninitial_state = "ready"\nkind_config = { targets = ["a"] }\n'


def refusals(directory: Path, *parts: str, address: str = "127.0.0.1") -> list[tuple[str, str, str]]:
    """Return why a scenario is refused."""
    scenario = loaded(directory, head(1_000), swim("a"), swim("b"), *parts)
    with pytest.raises(RefusedError) as refusal:
        run_live(scenario, directory.joinpath("out"), address=address)
    assert sorted(path.name for path in directory.iterdir()) == ["live.toml"]
    return [(problem.file, problem.field, problem.rule) for problem in refusal.value.problems]


def test_kinds_that_only_simulate(tmp_path: Path) -> None:
    """One clear error for each peer that has no code of its own to run."""
    ((file, field, rule),) = refusals(tmp_path, ECHO, MESH)
    assert (file, field) == ("live.toml", "peers[2].kind")
    assert "stage, swim" in rule


def test_mutations_that_only_simulate(tmp_path: Path) -> None:
    """Every one is named, in one report (ruling P4)."""
    found = refusals(
        tmp_path,
        MESH,
        mutation("clock_offset", 10, 'peer = "a"\noffset_ns = 5'),
        mutation("clock_drift", 10, 'peer = "a"\ndrift_ppm = 5'),
        mutation("peer_kill", 10, 'peer = "a"'),
        mutation("peer_resurrect", 20, 'peer = "a"\npreserve_state = true'),
    )
    assert [field for _, field, _ in found] == [
        *(f"mutations[{index}].kind" for index in range(2)),
        "mutations[3].preserve_state",
    ]


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1", "192.168.0.7", "::", "fe80::1", "localhost", "8.8.8.8", ""])  # noqa: S104  # refused is what it is
def test_addresses_that_others_can_reach(tmp_path: Path, address: str) -> None:
    """Loopback only, and only as a literal address: a name could resolve to anything."""
    ((file, field, rule),) = refusals(tmp_path, MESH, address=address)
    assert (file, field) == ("(command line)", "--address")
    assert "loopback" in rule


def test_a_taken_place(tmp_path: Path) -> None:
    """What is no bundle is never overwritten, and nobody waits a whole run to hear of it."""
    taken = tmp_path.joinpath("taken")
    taken.mkdir()
    taken.joinpath("letter.txt").write_text("dear", encoding="utf-8")
    scenario = loaded(tmp_path, head(3_600_000), swim("a"), swim("b"), MESH)
    with pytest.raises(RefusedError):
        run_live(scenario, taken)
    assert taken.joinpath("letter.txt").read_text(encoding="utf-8") == "dear"


def test_a_message_that_no_datagram_holds(tmp_path: Path) -> None:
    """It ends the run as an abort that names the host: UDP has no larger one, and cutting it in two would be another protocol."""
    scenario = loaded(tmp_path, head(1_000), swim("a"), swim("b"), MESH).scenario
    ports = {"a": 1, "b": 2}
    setup = Setup(scenario=scenario, subject="a", instance=0, address="127.0.0.1", ports=ports, socket_fd=0, tap=False)
    process = PeerProcess(setup, Go(start_ns=0), 0, KIND)
    with pytest.raises(EngineAbort) as abort:
        process.transmit(Envelope(0, 1, 5, 6), bytes(MAX_DATAGRAM - HEADER_BYTES + 1), "b")
    assert (abort.value.rule, abort.value.host_id) == ("live-message-too-large", "a")
