"""Handed cases about incarnations: the largest one (A01), evidence that outlives its state (A03), restarts (A05)."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from simharness.scenario.loader import load
from tests.cases.base import MS, SECOND, Document, Run, at, base, both_ways, claim, run, run_scenario
from tests.cases.claimant import Claim, kinds, with_claims
from tests.tidy.check import ROOT

TOP: Final = 2**63 - 1
"""The largest incarnation on the wire (ruling S3)."""

A01_CLAIMS: Final = (TOP, TOP - 1, 2**31, 2**63)


def a01(told: str) -> Run:
    """The four claims, a second apart, each to every peer of `told`."""
    claims = [
        Claim((place + 5) * SECOND, peer, "b", "Suspect", incarnation)
        for place, incarnation in enumerate(A01_CLAIMS)
        for peer in told
    ]
    document = with_claims(base(3), claims)
    document["assertions"] = [
        claim("self_incarnation_bounded", peer="b", max_value=TOP),
        claim("all_alive_at", at_ns=28 * SECOND, peers=["a", "b", "c"]),
    ]
    return run(document, kinds=kinds())


@pytest.mark.parametrize("told", ["b", "abc"])
def test_a01_an_unbeatable_claim_is_malformed_and_the_largest_other_one_is_refuted(told: str) -> None:
    """A01, ruling S3: whoever is told, b ends Alive at 2**63-1 everywhere, by exactly one bump, and nothing wraps."""
    done = a01(told)
    assert done.outcomes == ["Pass", "Pass"]
    assert done.incarnations("b") == [0, TOP]
    for observer in "ac":
        assert done.view(observer, "b", 28 * SECOND) == ("Alive", TOP)
    assert all(view["b"][0] != "Dead" for observer in "ac" for _, view in done.views(observer))


@pytest.mark.parametrize("told", ["b", "abc"])
def test_a01_malformed_claims_leave_an_error_and_go_no_further(told: str) -> None:
    """A01, ruling S3: each receiver writes one `Error` for each of the two malformed claims; no view ever holds one."""
    done = a01(told)
    errors = done.events("Error")
    assert [(event.host, event.at_ns // SECOND) for event in errors] == [
        (peer, second) for second in (5, 8) for peer in told
    ]
    held = [view["b"] for observer in "ac" for _, view in done.views(observer)]
    assert all(incarnation <= TOP - (state != "Alive") for state, incarnation in held)


A03_STEPS: Final = [
    (("Alive", 1), ("Alive", 1)),
    (("Dead", 1), ("Dead", 1)),
    (("Dead", 10), ("Dead", 10)),
    (("Alive", 2), ("Dead", 10)),
    (("Alive", 10), ("Dead", 10)),
    (("Alive", 11), ("Alive", 11)),
]
A03_SUSPECTS: Final = [
    (("Suspect", 1), ("Suspect", 1)),
    (("Suspect", 10), ("Suspect", 10)),
    (("Alive", 2), ("Suspect", 10)),
]
A03_ORDER: Final = [(("Suspect", 3), ("Suspect", 3)), (("Dead", 2), ("Suspect", 3)), (("Dead", 3), ("Dead", 3))]


@pytest.mark.parametrize("steps", [A03_STEPS, A03_SUSPECTS, A03_ORDER])
def test_a03_evidence_without_a_change_of_state_still_counts(steps: list[tuple[Any, Any]]) -> None:
    """A03: the stored incarnation follows every accepted claim; at a lower incarnation not even Dead beats Suspect."""
    quiet = base(["b", "c"], probe_interval_ns=100 * SECOND, suspicion_timeout_ns=200 * SECOND, duration_ns=20 * SECOND)
    claims = [Claim((place + 1) * SECOND, "c", "b", *said) for place, (said, _) in enumerate(steps)]
    document = with_claims(quiet, claims)
    document["mutations"] = [at(1, "peer_kill", peer="b")]
    done = run(document, kinds=kinds())
    after = [done.view("c", "b", (place + 2) * SECOND) for place in range(len(steps))]
    assert after == [held for _, held in steps]


def decreases(done: Run) -> Iterator[tuple[int, str, str]]:
    """Yield every (time, observer, member) whose stored incarnation went down within one instance of the observer."""
    rebuilt = [
        (event.at_ns, event["mutation"]["peer"])
        for event in done.events("Mutation")
        if event["mutation"]["kind"] == "peer_resurrect" and not event["mutation"]["preserve_state"]
    ]
    for observer in [peer.id for peer in done.scenario.peers]:
        births = [at_ns for at_ns, peer in rebuilt if peer == observer]
        best: dict[tuple[int, str], int] = {}
        for at_ns, view in done.views(observer):
            instance = sum(birth <= at_ns for birth in births)
            for member, (_, incarnation) in view.items():
                if incarnation < best.get((instance, member), 0):
                    yield at_ns, observer, member
                best[instance, member] = incarnation


def troubled(**swim: Any) -> Document:
    """Five peers on lossy links with two deaths and returns, a snapshot every tick."""
    document = base(5, snapshot_every_ns=100 * MS, **swim)
    document["default_link"] |= {"loss_prob_ppm": 100_000, "latency_ns": 150 * MS, "jitter_stddev_ns": 50 * MS}
    document["mutations"] = [
        at(10 * SECOND, "peer_kill", peer="b"),
        at(25 * SECOND, "peer_resurrect", peer="b", preserve_state=False),
        at(30 * SECOND, "peer_kill", peer="d"),
        at(42 * SECOND, "peer_resurrect", peer="d", preserve_state=True),
    ]
    return document


@pytest.mark.parametrize("profile", ["current", "deployed"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a03_stored_incarnations_never_decrease(profile: str, seed: int) -> None:
    """A03, the law over a whole log: per observer and member, except across a fresh instance of the observer."""
    done = run(troubled(profile=profile) | {"seed": seed})
    reached = max(incarnation for peer in "abcde" for _, view in done.views(peer) for _, incarnation in view.values())
    assert reached >= 3, "the run puts the law to no test"
    assert list(decreases(done)) == []


def test_a03_the_law_sees_a_decrease() -> None:
    """A03: take the exception for fresh instances away and the same log breaks the law, so the check has teeth."""
    done = run(troubled())
    kept = [record for record in done.records if record.kind_tag != "mutation"]
    assert any(observer == "b" for _, observer, _ in decreases(Run(done.scenario, kept, (), 0)))


def a05() -> Document:
    """b, known at incarnation 7, restarts faster than anyone notices; later one suspicion of it is opened."""
    document = base(3, suspicion_timeout_ns=10 * SECOND)
    document["peers"][1]["kind_config"]["initial_incarnation"] = 7
    legs = [leg for other in "ac" for leg in both_ways("b", other)]
    document["mutations"] = [
        at(20 * SECOND, "peer_kill", peer="b"),
        at(20_300 * MS, "peer_resurrect", peer="b", preserve_state=False),
        at(30 * SECOND, "loss_burst", links=legs, prob_ppm=1_000_000, duration_ns=4 * SECOND),
    ]
    document["assertions"] = [
        claim("convergence_after", after_ns=34 * SECOND, within_ns=20 * SECOND, peers=["a", "b", "c"])
    ]
    return document


def test_a05_a_restart_below_its_own_fame_is_one_refutation_away() -> None:
    """A05: the new instance goes from 0 to one above the highest rumour at once, and nobody declares it dead."""
    done = run(a05())
    assert done.outcomes == ["Pass"]
    assert done.transitions("Suspect", peer="b"), "no suspicion was opened"
    assert done.transitions("Dead", peer="b") == []
    first_life, *second_life = done.incarnations("b")
    assert first_life == 7
    assert second_life in ([0, 8], [0, 8, 9])
    assert len(done.events("SwimIncarnationBumped", "b")) <= 2
    assert [entry for entry in decreases(done) if entry[2] == "b"] == []


def test_a05_one_step_refutes_climb_back_one_by_one() -> None:
    """A05: with the deployed rule (`ONE_STEP_REFUTE`) the same run takes more than two bumps or stays below its fame."""
    document = a05()
    document["peers"][1]["kind_config"]["defects"] = ["ONE_STEP_REFUTE"]
    done = run(document)
    assert len(done.events("SwimIncarnationBumped", "b")) > 2


@pytest.mark.parametrize("name", ["churn", "rolling_restart"])
def test_a03_holds_on_the_shipped_restart_scenarios(name: str) -> None:
    """A03: the same law over the library's churn and rolling restart."""
    registry = kinds()
    assert (
        list(
            decreases(run_scenario(load(ROOT / "scenarios" / "topology" / f"{name}.toml", registry).scenario, registry))
        )
        == []
    )
