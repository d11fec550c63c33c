"""A real death is noticed in time, by everybody, and how soon on average."""

import pytest

from simharness.contracts.mutations import PeerKill
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful.library.deaths import DetectionTime, KillDetect
from simharness.stateful.playing import play
from simharness.stateful.session import KINDS

TestKillDetect = KillDetect.TestCase
TestDetectionTime = DetectionTime.TestCase

PERIOD_MS = 500
EXPECTED_THOUSANDTHS = 1_582
"""e/(e-1) periods, in thousandths: SWIM's expected first detection when targets are drawn at random."""


def periods_to_first_detection(scenario: Scenario) -> int:
    """Return in which period after the kill somebody first probes the dead peer; that probe is the one that fails."""
    (kill,) = scenario.mutations
    assert isinstance(kill, PeerKill)
    for record in play(scenario, KINDS).records:
        event = getattr(record, "event", {})
        if (
            event.get("kind") == "SwimProbeSent"
            and event["target"] == kill.peer
            and record.virtual_time_ns > kill.at_ns
        ):
            return -((kill.at_ns - record.virtual_time_ns) // (PERIOD_MS * NS_PER_MS))
    raise AssertionError("nobody ever probes the dead peer")


@pytest.mark.parametrize("peers", [3, 4, 6])
def test_mean_first_detection(peers: int) -> None:
    """SWIM expects e/(e-1) = 1.58 periods until somebody notices; ours lies between that and what one prober alone would need.

    The paper's members draw targets independently (Das, Gupta, Motivala 2002, section 3.1). Ours go round a list that each
    shuffles by its own tick, with no randomness of its own: members that started together shuffle alike, so several of them probe
    the same target in one period and leave out others together. With three peers the mean is below the paper's figure; from four
    on it is above, and it grows with N like half a round. The worst case, 2N - 1 periods, holds all the same.
    """
    found = [
        periods_to_first_detection(
            DetectionTime.space.base({"peers": peers, "latency_ms": 20, "kill_ms": kill_ms, "victim": victim}, 0)
        )
        for victim in range(peers)
        for kill_ms in range(2_000, 2_000 + PERIOD_MS * (peers - 1), 230)
    ]
    mean_thousandths = 1_000 * sum(found) // len(found)
    one_prober_thousandths = 500 * (peers + 1)
    if peers == 3:
        assert mean_thousandths <= EXPECTED_THOUSANDTHS
    else:
        assert EXPECTED_THOUSANDTHS <= mean_thousandths <= one_prober_thousandths
    assert max(found) <= 2 * peers - 1
