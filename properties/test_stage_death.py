"""Layer C as a property: a stage that dies from inside is on record and found Dead, and it is the only one."""

import msgspec
import pytest

from simharness.stateful.library.stages import StageDeath
from simharness.stateful.playing import Played, play
from simharness.stateful.session import KINDS

TestStageDeath = StageDeath.TestCase


@pytest.mark.parametrize("seed", range(3))
def test_without_the_exit_the_claim_is_broken(seed: int) -> None:
    """The same cluster in which no worker exits: nothing is on record and nobody is found Dead, and the assertions say so."""
    scenario = StageDeath.space.scenario(seed)
    healthy = play(msgspec.structs.replace(scenario, mutations=()), KINDS)
    judged = Played(scenario, healthy._sink, healthy.termination)  # noqa: SLF001  # the run of one, judged as the other
    outcomes = [(verdict.kind, verdict.outcome) for verdict in judged.verdicts()]
    assert ("peer_detected_dead_within", "Fail") in outcomes
    assert [kind for kind, outcome in outcomes if outcome == "Fail"].count("event_count") == 1
