"""Layer A: `reproduction/relay_hol.toml` and the two files that change one thing each (§0, §1)."""

from typing import Final, NamedTuple

import msgspec
import pytest

from simharness.contracts.scenario import Scenario
from simharness.core.units import transmission_ns
from simharness.stateful.playing import Played, play
from tests.scenarios.library import KINDS, count, declared, finished, records, verdicts

HOL: Final = "reproduction/relay_hol.toml"
WIDE: Final = "reproduction/relay_hol_wide.toml"
CAPPED: Final = "reproduction/relay_hol_capped.toml"


class Figures(NamedTuple):
    """What tells the three apart."""

    probes: int
    acked: int
    timed_out: int
    largest: int
    deepest: int


def measured(run: Played) -> Figures:
    return Figures(
        probes=count(run, "SwimProbeSent", probe_kind="direct"),
        acked=count(run, "SwimProbeAcked"),
        timed_out=count(run, "SwimProbeTimedOut"),
        largest=max(record.event["size"] for record in records(run, "MessageSent")),
        deepest=max(record.event["enqueued_bytes"] for record in records(run, "RelayEnqueue")),
    )


def outcomes(name: str) -> dict[str, str]:
    """Outcome by assertion kind, and by the event or message kind where several share one."""
    found = {}
    for verdict in verdicts(name):
        given = verdict.parameters
        found[given.get("event_kind") or given.get("message_kind") or verdict.kind] = str(verdict.outcome)
    return found


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        (HOL, Figures(236, 4, 379, 13_507, 524_216)),
        (WIDE, Figures(480, 476, 0, 7_267, 12_821)),
        (CAPPED, Figures(480, 476, 0, 1_449, 12_789)),
    ],
)
def test_figures_side_by_side(name: str, figures: Figures) -> None:
    """Probe success 4 of 236 with the queue full at 524 kB; 476 of 480, the last four open at the end, in both remedies."""
    assert measured(finished(name)) == figures


def test_two_assertions_separate_the_three() -> None:
    """Size and depth fail together; widening mends the depth and not the size; the cap mends both. All are definite."""
    probes = ("SwimProbeTimedOut", "SwimTransition", "SwimProbeAcked", "all_alive_throughout")
    bad = dict.fromkeys(probes, "Fail")
    good = dict.fromkeys(probes, "Pass")
    large, small = ({"Ping": outcome, "Ack": outcome} for outcome in ("Fail", "Pass"))
    assert outcomes(HOL) == {**large, "relay_queue_depth_bounded": "Fail", **bad}
    assert outcomes(WIDE) == {**large, "relay_queue_depth_bounded": "Pass", **good}
    assert outcomes(CAPPED) == {**small, "relay_queue_depth_bounded": "Pass", **good}


def without(scenario: Scenario) -> Scenario:
    """The scenario without what the remedies change."""
    kept = {"name": "", "relays": (), "peers": ()}
    return msgspec.structs.replace(scenario, **kept)


def test_each_remedy_changes_one_thing() -> None:
    """The wide file differs by the egress alone, the capped one by the messages alone: same seed, links, names, timing."""
    hol, wide, capped = declared(HOL), declared(WIDE), declared(CAPPED)
    assert without(hol) == without(wide) == without(capped)
    assert hol.peers == wide.peers
    assert hol.relays == capped.relays
    [narrow], [broad] = hol.relays, wide.relays
    assert msgspec.structs.replace(narrow, egress_capacity_bps_per_link=broad.egress_capacity_bps_per_link) == broad
    for before, after in zip(hol.peers, capped.peers, strict=True):
        changed = {key for key in before.kind_config if before.kind_config[key] != after.kind_config[key]}
        assert changed == {"defects", "max_message_bytes"}
        assert before.kind_config["defects"] == ["COMBINED_PIGGYBACK"]


def test_probe_budget_is_far_above_the_healthy_round_trip() -> None:
    """Four legs of 40 ms and their transmission: less than half of the direct timeout, so a late probe has queued."""
    scenario = declared(HOL)
    link, relay = scenario.default_link, scenario.relays[0]
    legs_ns = 4 * (link.latency_ns + 3 * link.jitter_stddev_ns)
    small_ns = 2 * transmission_ns(200, relay.egress_capacity_bps_per_link)
    budget_ns = {peer.kind_config["probe_timeout_ns"] for peer in scenario.peers}
    assert all(2 * (legs_ns + small_ns) < timeout_ns for timeout_ns in budget_ns)


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(("name", "success"), [(HOL, range(10)), (WIDE, range(470, 481)), (CAPPED, range(470, 481))])
def test_it_is_no_accident_of_the_seed(name: str, success: range, seed: int) -> None:
    """Under other seeds the same three pictures: acknowledged probes out of 480 that a minute has room for."""
    run = play(msgspec.structs.replace(declared(name), seed=seed), KINDS)
    assert measured(run).acked in success
    assert (measured(run).timed_out > 0) == (name == HOL)
