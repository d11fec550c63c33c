"""The shipped pairs: what passes goes on passing (§11.4), and what fails has a cause."""

from pathlib import Path

import msgspec
import pytest

from simharness.calibration.pairs import calibrate, paired_run
from simharness.core.errors import InputError
from simharness.scenario.loader import load, loads
from tests.calibration.shipped import KINDS, PAIRS, file_of, outcome, reference, tolerances

COUNTS = frozenset({"message.sent", "cache.hit", "cache.miss", "cache.hit_ratio", "dial.started", "swim.transitions"})
PASSES = {
    "n3_own_relay_stub": COUNTS
    | {
        "dial.failed",
        "swim.transitions_per_message",
        "swim.self_incarnation_final.orchestrator",
        "swim.dead_peers.end.orchestrator",
    },
    "n3_canary_relay_real_worker": {
        "swim.transitions_per_message",
        "message.size_max.Ack",
        "relay.burst_after_stall",
    },
    "n3_own_relay_real_worker": {
        "swim.transitions_per_message",
        "swim.transition_reasons.gossip_share",
        "swim.first_dead.reason",
    },
    "n3_1779733878": {"swim.transitions", "swim.first_dead.reason", "gossip.bytes_per_item"},
}
"""What is in tolerance. Taking a metric out is a relaxation (§14)."""


def metrics_that(pair: str, verdict: str) -> set[str]:
    return {row.metric for row in outcome(pair).comparison.rows if row.verdict == verdict}


@pytest.mark.parametrize("pair", PAIRS)
def test_what_was_in_tolerance_still_is(pair: str) -> None:
    """§11.4: a regression blocks. A metric that comes into tolerance is added above."""
    assert metrics_that(pair, "pass") == PASSES[pair]


@pytest.mark.parametrize("pair", PAIRS)
def test_every_failure_has_a_cause(pair: str) -> None:
    """In the simulator, the scenario or the published figure; and no cause is kept for what passes."""
    known = tolerances().known.get(outcome(pair).comparison.reference, {})
    assert metrics_that(pair, "fail") == set(known)
    for row in outcome(pair).comparison.rows:
        assert bool(row.cause) == (row.verdict == "fail")


def test_an_n3_pair_passes() -> None:
    """Phases 7 and R6 of §12: at least one passes on every metric that has a figure, with the deployed source."""
    found = outcome("n3_own_relay_stub")
    assert found.comparison.verdict == "pass"
    assert found.comparison.judged == found.comparison.passed == 10
    assert "REFUTE_STALE_CLAIM" in found.defects


def test_the_pump_is_what_it_passes_by(tmp_path: Path) -> None:
    """Not vacuous: with pumps that nothing blocks, the same scenario does not flap, and the pair fails."""
    declared = load(file_of("n3_own_relay_stub"), KINDS)
    free = declared._replace(scenario=msgspec.structs.replace(declared.scenario, mutations=()))
    found = calibrate(free, reference("vastai-N3-stub"), tolerances(), tmp_path / "b", KINDS, name="free")
    failed = {row.metric for row in found.comparison.rows if row.verdict == "fail"}
    assert failed == {
        "swim.transitions",
        "swim.transitions_per_message",
        "swim.self_incarnation_final.orchestrator",
        "swim.dead_peers.end.orchestrator",
    }


def test_the_stall_is_as_long_as_published() -> None:
    """The one input that a run produces: the longest sojourn behind the canary relay, within a hundredth."""
    theirs = reference("vastai-N3-1").figures["relay.max_sojourn_s"].value
    assert outcome("n3_canary_relay_real_worker").metrics.numbers["relay.max_sojourn_s"] == pytest.approx(
        theirs, rel=0.01
    )


def test_another_profile_is_refused(tmp_path: Path) -> None:
    """Ruling K1: calibration accepts exactly the profile that the corpus names; nothing is run."""
    text = file_of("n3_own_relay_stub").read_text("utf-8").replace('profile = "deployed", ', "")
    declared = load(file_of("n3_own_relay_stub"), KINDS)
    other = declared._replace(scenario=loads(text, KINDS))
    with pytest.raises(InputError, match="ran the profile deployed"):
        calibrate(other, reference("vastai-N3-stub"), tolerances(), tmp_path / "b", KINDS, name="x")
    unknown = msgspec.structs.replace(reference("vastai-N3-stub"), engine_variant="nobody")
    with pytest.raises(InputError, match="is no profile"):
        calibrate(declared, unknown, tolerances(), tmp_path / "b", KINDS, name="x")
    assert not tmp_path.joinpath("b").exists()


def test_a_pair_is_named_in_the_opening_comment_alone() -> None:
    """Ruling R19: the line counts where §11.1 wants it, and nowhere else."""
    assert paired_run("# x\n# pairs with: r-1\n# y\n\nname = 1\n") == "r-1"
    assert paired_run("# x\n\n# pairs with: r-1\n") is None
