"""Layer A as a property: no probe waits behind somebody's gossip at a relay of bounded egress; and what it is that prevents it."""

import msgspec
import pytest

from simharness.contracts.assertions import Verdict
from simharness.contracts.scenario import Scenario
from simharness.stateful import session
from simharness.stateful.library.relayed import RelayHol
from simharness.stateful.playing import play
from simharness.stateful.session import KINDS, Options

TestRelayHol = RelayHol.TestCase

DEPLOYED = Options(seed=0, swim_defects=("COMBINED_PIGGYBACK",))
WIDE_BPS = 100_000_000


def failed(verdicts: tuple[Verdict, ...]) -> set[str]:
    """Return what failed: the message or event kind where one is named, else the assertion kind."""
    names = (
        verdict.parameters.get("message_kind") or verdict.parameters.get("event_kind") or verdict.kind
        for verdict in verdicts
        if verdict.outcome == "Fail"
    )
    return set(names)


def widened(scenario: Scenario) -> Scenario:
    """Return the scenario with room at the relay's egress."""
    relays = tuple(msgspec.structs.replace(relay, egress_capacity_bps_per_link=WIDE_BPS) for relay in scenario.relays)
    return msgspec.structs.replace(scenario, relays=relays)


@pytest.mark.parametrize("seed", range(4))
def test_late_probes_go_with_either_remedy(seed: int) -> None:
    """Deployed messages make probes late behind the relay; a wide egress or bounded messages, each alone, do not (§1)."""
    bounded = RelayHol.space.scenario(seed)
    with session.using(DEPLOYED):
        deployed = RelayHol.space.scenario(seed)
    found = [failed(play(scenario, KINDS).verdicts()) for scenario in (deployed, widened(deployed), bounded)]
    assert {"Ping", "Ack", "relay_queue_depth_bounded", "SwimProbeTimedOut"} <= found[0]
    assert found[1:] == [{"Ping", "Ack"}, set()]
