"""The healthy-cluster law, through loader, engine and network: nothing happens where nothing is wrong."""

import pytest

from tests.cases.base import MS, SECOND, Document, Run, base, run


def check_healthy(done: Run, seconds: int) -> None:
    """Check the law: every probe but an open one is acked, enough probes a node, no time-out, no transition, no bump."""
    peers = [peer.id for peer in done.scenario.peers]
    sent = {
        peer: [(event["target"], event["sequence"]) for event in done.events("SwimProbeSent", peer)] for peer in peers
    }
    acked = {
        peer: [(event["target"], event["sequence"]) for event in done.events("SwimProbeAcked", peer)] for peer in peers
    }
    for peer in peers:
        assert acked[peer] in (sent[peer], sent[peer][:-1]), "only the last probe may be open at the end"
        assert len(sent[peer]) >= seconds - len(peers)
    assert done.events("SwimProbeTimedOut") == []
    assert done.transitions() == []
    assert done.events("SwimIncarnationBumped") == []
    for _, _, state in done.snapshots():
        assert state["self_incarnation"] == 0
        assert [entry["state"] for entry in state["peers"]] == ["Alive"] * (len(peers) - 1)


@pytest.mark.parametrize(
    ("peers", "seconds"), [(3, 60), (7, 60), (50, 60), pytest.param(200, 60, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("profile", ["current", "deployed"])
def test_a_healthy_cluster_is_quiet(peers: int, seconds: int, profile: str) -> None:
    """Design "What the fixed source must do": acked == sent, for either profile; its defects need a cause."""
    cap = 1_400 if profile == "current" else 0
    document = base(peers, duration_ns=seconds * SECOND, snapshot_every_ns=10 * SECOND, max_message_bytes=cap)
    for peer in document["peers"]:
        peer["kind_config"]["profile"] = profile
    check_healthy(run(document), seconds)


def rough(seed: int) -> Document:
    """Seven peers over paths with jitter, cold dials and a slow line, yet every round trip within the direct budget."""
    document = base(7, seed=seed)
    document["default_link"] |= {
        "latency_ns": 90 * MS,
        "jitter_stddev_ns": 40 * MS,
        "bandwidth_bps": 100_000,
        "cold_dial_penalty_ns": 50 * MS,
        "cache_warm_after_ns": 100 * MS,
        "cache_invalidate_after_idle_ns": 2 * SECOND,
        "occupancy": "wire",
    }
    return document


@pytest.mark.parametrize("seed", range(3))
def test_rough_paths_within_the_budget_change_nothing(seed: int) -> None:
    """The same law on jittery paths that cool down and are dialled again."""
    done = run(rough(seed))
    assert any(event["transition"] == "idle_cooled" for event in done.events("CacheStateChange"))
    check_healthy(done, 60)


def test_guessing_the_kind_from_the_shape_starves_every_probe() -> None:
    """S1: with `ACK_DISPATCHED_AS_PING` no probe of the same cluster is ever acked, and the law says so."""
    done = run(base(3, defects=["ACK_DISPATCHED_AS_PING"]))
    assert done.events("SwimProbeSent")
    assert done.events("SwimProbeAcked") == []
    with pytest.raises(AssertionError):
        check_healthy(done, 60)
