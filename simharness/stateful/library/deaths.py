"""A real death is noticed: how late at the latest, and how soon on average."""

from collections.abc import Iterator

from simharness.contracts.assertions import Assertion
from simharness.contracts.assertions import PeerDetectedDeadWithin as Detected
from simharness.contracts.mutations import PeerKill
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful.scripted import SpaceMachine
from simharness.stateful.spaces import Numbers, Space, swim_cluster
from simharness.stateful.swim_laws import FIRST_DETECTION_IN_TIME
from simharness.stateful.templates import Facts, Template
from simharness.stateful.topologies import peer_ids

_INTERVAL_MS, _TIMEOUT_MS, _SUSPICION_MS = 500, 600, 2_000


def dead_everywhere_ms(peers: int) -> int:
    """Return how long after a kill every observer holds the peer Dead, at loss of at most 10 % and round trips below the timeout.

    (N - 1) rounds until the peer's turn, one for the probe itself, and twice the suspicion timeout; a round is the probe interval
    or twice the probe timeout, whichever is longer.
    """
    return peers * max(_INTERVAL_MS, 2 * _TIMEOUT_MS) + 2 * _SUSPICION_MS


def _detected(within_ms: int | None = None) -> Template:
    """Ask of every kill that all others notice it; in `dead_everywhere_ms` if no time is given."""

    def bind(facts: Facts) -> Iterator[Assertion]:
        limit_ms = dead_everywhere_ms(len(facts.scenario.peers)) if within_ms is None else within_ms
        for mutation in facts.mutations:
            if isinstance(mutation, PeerKill):
                yield Detected(peer=mutation.peer, after_ns=mutation.at_ns, within_ns=limit_ms * NS_PER_MS)

    return Template(bind)


def _killed(numbers: Numbers) -> Scenario:
    peers, kill_ms = numbers["peers"], numbers["kill_ms"]
    deadline_ms = kill_ms + dead_everywhere_ms(peers)
    victim = peer_ids(peers)[numbers["victim"] % peers]
    return swim_cluster(
        numbers,
        duration_ms=deadline_ms,
        interval_ms=_INTERVAL_MS,
        timeout_ms=_TIMEOUT_MS,
        suspicion_ms=_SUSPICION_MS,
        script=(PeerKill(at_ns=kill_ms * NS_PER_MS, peer=victim),),
        snapshots_ms=(deadline_ms,),
    )


class KillDetect(SpaceMachine):
    """A killed peer is held Dead by every other one in time: (N - 1) rounds, twice the suspicion timeout, and one round.

    Three to eight peers, loss up to 10 %, round trips below the probe timeout. Holds for every defect: none of them makes SWIM miss
    a death; it is what the fixes must not cost.
    """

    space = Space(
        name="kill_detect",
        numbers={
            "peers": range(3, 9),
            "latency_ms": range(5, 101, 5),
            "jitter_ms": range(0, 21, 5),
            "loss_ppm": range(0, 100_001, 10_000),
            "kill_ms": range(500, 5_001, 50),
            "victim": range(8),
        },
        build=_killed,
        assertions=(_detected(),),
    )
    budget = 30


def _noticed(numbers: Numbers) -> Scenario:
    peers, kill_ms = numbers["peers"], numbers["kill_ms"]
    duration_ms = kill_ms + 2 * peers * 500
    victim = peer_ids(peers)[numbers["victim"] % peers]
    return swim_cluster(
        numbers,
        duration_ms=duration_ms,
        timeout_ms=200,
        suspicion_ms=60_000,
        script=(PeerKill(at_ns=kill_ms * NS_PER_MS, peer=victim),),
    )


class DetectionTime(SpaceMachine):
    """Every living member learns of a death within SWIM's worst case of 2N - 1 periods (Das, Gupta, Motivala 2002, section 4.3).

    The other figure of the paper, e/(e-1) expected periods until somebody notices, is a mean, and `test_detection_time.py` takes
    it over a grid of this space. The paper assumes targets drawn at random and unsynchronised periods; here each member goes round
    a shuffled list, and the shuffles follow from the tick, the same rule at every member. What differs is measured there.
    """

    space = Space(
        name="detection_time",
        numbers={
            "peers": range(3, 13),
            "latency_ms": range(5, 81, 5),
            "kill_ms": range(500, 6_001, 50),
            "victim": range(12),
        },
        build=_noticed,
        laws=(FIRST_DETECTION_IN_TIME,),
    )
    budget = 30
