"""A real death is detected in time, and whoever comes back is taken back in at most two refutations."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases.base import MS, SECOND, Document, Run, at, base, claim, run

KILL = 10 * SECOND


def detection_bound(peers: int, timeout_ns: int, interval_ns: int, suspicion_ns: int) -> int:
    """Return the time from death to the last conviction that the design allows."""
    one_round = max(2 * timeout_ns, interval_ns)
    return (peers - 1) * one_round + 2 * suspicion_ns + one_round


def death(peers: int, latency_ms: int, loss_ppm: int, seed: int) -> Document:
    """Peers of which the last one dies; the run ends at the bound."""
    bound = detection_bound(peers, 500 * MS, SECOND, 3 * SECOND)
    document = base(peers, seed=seed, duration_ns=KILL + bound, snapshot_every_ns=SECOND)
    document["default_link"] |= {"latency_ns": latency_ms * MS, "loss_prob_ppm": loss_ppm}
    document["mutations"] = [at(KILL, "peer_kill", peer=document["peers"][-1]["id"])]
    return document


@settings(max_examples=20)
@given(
    peers=st.integers(2, 8),
    latency_ms=st.sampled_from([0, 20, 100, 240]),
    loss_ppm=st.sampled_from([0, 10_000, 100_000]),
    seed=st.integers(0, 1_000),
)
@example(peers=12, latency_ms=240, loss_ppm=100_000, seed=0)
def test_a_real_death_is_detected_in_time(peers: int, latency_ms: int, loss_ppm: int, seed: int) -> None:
    """Design: Dead at every observer by kill + (N - 1) rounds + 2 suspicion timeouts + 1 round, at loss up to 10 %."""
    document = death(peers, latency_ms, loss_ppm, seed)
    done = run(document, keep=("SwimTransition",))
    victim = document["peers"][-1]["id"]
    observers = {peer["id"] for peer in document["peers"]} - {victim}
    convicted = {event.host for event in done.transitions("Dead", peer=victim) if event.at_ns > KILL}
    assert convicted == observers


def restart(incarnation: int, away_ns: int, seed: int) -> Document:
    """b, known at that incarnation, dies at 10 s and comes back empty."""
    document = base(4, seed=seed, duration_ns=KILL + away_ns + 25 * SECOND)
    document["peers"][1]["kind_config"]["initial_incarnation"] = incarnation
    back = KILL + away_ns
    document["mutations"] = [
        at(KILL, "peer_kill", peer="b"),
        at(back, "peer_resurrect", peer="b", preserve_state=False),
    ]
    document["assertions"] = [
        claim("convergence_after", after_ns=back + 20 * SECOND, within_ns=5 * SECOND, peers=["a", "b", "c", "d"]),
        claim("all_alive_at", at_ns=back + 25 * SECOND, peers=["a", "b", "c", "d"]),
    ]
    return document


def check_return(done: Run) -> None:
    """Everybody takes b back, after at most two refutations."""
    assert done.outcomes == ["Pass", "Pass"]
    bumps = [event["to"] for event in done.events("SwimIncarnationBumped", "b")]
    assert len(bumps) <= 2
    assert [done.incarnations(peer) for peer in "acd"] == [[0]] * 3


@pytest.mark.parametrize("away_ns", [300 * MS, 4 * SECOND, 20 * SECOND])
@pytest.mark.parametrize("incarnation", [0, 1, 7, 1_000, 2**53, 2**63 - 2])
def test_a_restarted_peer_is_back_within_two_refutes(incarnation: int, away_ns: int) -> None:
    """Design: whether nobody noticed, somebody suspected or everybody convicted it, and whatever its fame was."""
    for seed in (1, 2):
        check_return(run(restart(incarnation, away_ns, seed)))
