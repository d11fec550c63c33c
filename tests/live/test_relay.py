"""A relay of a live run is a process that queues and forwards."""

from pathlib import Path

import pytest

from tests.live.support import MS, Run, head, mutation, swim

RELAY = """
[[relays]]
id = "r"
ingress_capacity_bps = 1_000_000
egress_capacity_bps_per_link = 20_000
queue_depth_bytes = 1_500
"""
DOWN_MS, UP_MS, END_MS = 1_300, 2_000, 3_000


def via(*pairs: str) -> str:
    """Return links of host pairs through the relay."""
    return "".join(f'[[links]]\nfrom = "{pair[0]}"\nto = "{pair[1]}"\nvia = "r"\n' for pair in pairs)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two peers behind a narrow relay, which is killed and booted again; one direct pair beside it."""
    gossip = "names = [" + ", ".join(f'"{letter * 100}"' for letter in "uvwxyz") + "]"
    return Run(
        tmp_path_factory.mktemp("relay"),
        head(END_MS),
        swim("a", more=gossip),
        swim("b"),
        RELAY,
        via("ab", "ba"),
        mutation("relay_kill", DOWN_MS, 'relay = "r"'),
        mutation("relay_boot", UP_MS, 'relay = "r"'),
        '[[assertions]]\nkind = "relay_queue_depth_bounded"\nrelay = "r"\nmax_bytes = 1500\n',
    )


def test_messages_go_through_the_relay(run: Run) -> None:
    """What is queued is forwarded, in order for each destination, and probes are answered."""
    for target in "ab":
        queued, sent = (
            [event["byte_len"] for _, event in run.events(kind) if event["to"] == target]
            for kind in ("RelayEnqueue", "RelayDequeue")
        )
        assert sent
        assert len(queued) >= len(sent)
    assert run.events("SwimProbeAcked")


def test_the_queue_is_bounded(run: Run) -> None:
    """The relay never holds more than its depth, refuses the rest, and the sender learns why (ruling P3)."""
    held = [event["enqueued_bytes"] for kind in ("RelayEnqueue", "RelayDequeue") for _, event in run.events(kind)]
    assert 0 < max(held) <= 1_500
    assert [verdict.outcome for verdict in run.result.verdicts] == ["Pass"]
    full = [event for _, event in run.events("RelayDrop") if event["reason"] == "queue_full"]
    told = [event for _, event in run.events("DropOnSend") if event["reason"] == "relay_queue_full"]
    assert full
    assert told
    assert len(told) <= len(full)


def test_egress_takes_its_time(run: Run) -> None:
    """Two messages to one destination never leave faster than the egress carries them."""
    for target in "ab":
        left = [(at_ns, event["byte_len"]) for at_ns, event in run.events("RelayDequeue") if event["to"] == target]
        lives = [[item for item in left if item[0] < DOWN_MS * MS], [item for item in left if item[0] >= UP_MS * MS]]
        for life in lives:
            first_ns = life[0][0]
            carried = sum(size for _, size in life[1:])
            assert life[-1][0] - first_ns >= carried * 1_000_000_000 // 20_000 - 100 * MS


def test_a_killed_relay_carries_nothing(run: Run) -> None:
    """While it is down sends are refused, and nothing leaves; after its boot it serves again."""
    moves = [at_ns for kind in ("RelayEnqueue", "RelayDequeue") for at_ns, _ in run.events(kind)]
    assert [at_ns for at_ns in moves if DOWN_MS * MS <= at_ns < UP_MS * MS] == []
    assert any(at_ns >= UP_MS * MS for at_ns in moves)
    refused = [at_ns for at_ns, event in run.events("DropOnSend") if event["reason"] == "relay_down"]
    assert refused
    assert all(DOWN_MS * MS <= at_ns < (UP_MS + 50) * MS for at_ns in refused)


def test_the_bundle_is_whole(run: Run, tmp_path: Path) -> None:
    """Relay records name no host, as in a simulated run."""
    assert run.bundle.verify() == ()
    assert {line.host_id for line in run.bundle.events() if line.kind_tag == "relay"} == {None}
