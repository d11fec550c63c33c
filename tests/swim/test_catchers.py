"""Each defect of the deployed source, and the assertion or law of a whole run that catches it (design "Profiles and defects")."""

from collections.abc import Iterator

import pytest

from tests.cases.base import MS, SECOND, TICK, Document, Run, at, base, claim, lossy, run
from tests.cases.claimant import Claim, kinds, with_claims
from tests.swim.shapes import measured, r4


def outcomes(document: Document, defect: str | None) -> list[str]:
    """Run the document with that one defect at every SWIM peer, and return the verdicts."""
    return run(switched(document, defect), kinds=kinds()).outcomes


def switched(document: Document, defect: str | None) -> Document:
    """Switch one defect on at every SWIM peer."""
    for peer in document["peers"]:
        if peer["kind"] == "swim":
            peer["kind_config"]["defects"] = [] if defect is None else [defect]
    return document


def stale_claims() -> Document:
    """Three peers; b is told ten times that it is suspected at incarnation 0."""
    document = with_claims(base(3), [Claim((place + 5) * SECOND, "b", "b", "Suspect", 0) for place in range(10)])
    document["assertions"] = [claim("self_incarnation_bounded", peer="b", max_value=1)]
    return document


def restart_of_a_famous_peer() -> Document:
    """Let b, known at incarnation 50, die, be declared dead, and start again at 0."""
    document = base(3)
    document["peers"][1]["kind_config"]["initial_incarnation"] = 50
    document["mutations"] = [
        at(10 * SECOND, "peer_kill", peer="b"),
        at(30 * SECOND, "peer_resurrect", peer="b", preserve_state=False),
    ]
    document["assertions"] = [
        claim("dead_peer_resurrects_within", peer="b", after_ns=30 * SECOND, within_ns=20 * SECOND)
    ]
    return document


def names_across_a_partition() -> Document:
    """Each peer has a name; one is cut off until it is declared dead, and comes back."""
    document = base(3)
    for peer in document["peers"]:
        peer["kind_config"]["names"] = [f"name-of-{peer['id']}"]
    document["mutations"] = [at(10 * SECOND, "partition", peers_a=["a"], peers_b=["b", "c"]), at(25 * SECOND, "heal")]
    everybody = ["a", "b", "c"]
    document["assertions"] = [
        claim(
            "name_resolves_within",
            name=f"name-of-{peer}",
            observers=everybody,
            from_ns=45 * SECOND,
            within_ns=15 * SECOND,
        )
        for peer in everybody
    ]
    return document


def named_crowd() -> Document:
    """Four named peers and one death, so that there are news, names and metadata to carry."""
    document = base(4, max_message_bytes=4_096)
    for peer in document["peers"]:
        peer["kind_config"]["names"] = [f"name-of-{peer['id']}"]
        peer["kind_config"]["metadata"] = {"relay_url": "https://relay.example/path", "node_name": peer["id"]}
    document["mutations"] = [at(20 * SECOND, "peer_kill", peer="d")]
    document["assertions"] = [claim("message_size_bounded", message_kind="Ping", max_bytes=4_096)]
    return document


CAUGHT = [
    ("REFUTE_STALE_CLAIM", stale_claims),
    ("ONE_STEP_REFUTE", restart_of_a_famous_peer),
    ("FALSE_DEATH_ERASES_NAMES", names_across_a_partition),
    ("COMBINED_PIGGYBACK", named_crowd),
]


@pytest.mark.parametrize(("defect", "scenario"), CAUGHT, ids=[defect for defect, _ in CAUGHT])
def test_its_assertion_catches_the_defect(defect: str, scenario: object) -> None:
    """The same scenario passes whole on the fixed source and fails, never inconclusively, with the one defect."""
    assert callable(scenario)
    assert set(outcomes(scenario(), None)) == {"Pass"}
    judged = outcomes(scenario(), defect)
    assert "Fail" in judged
    assert "Inconclusive" not in judged


def test_hearsay_is_caught_by_no_flap() -> None:
    """`HEARSAY_OVER_EVIDENCE` alone makes shape R4s flap while probes succeed; without it the same seeds do not."""
    for seed in (1, 2):
        assert "Fail" in measured(switched(r4("current", seed), "HEARSAY_OVER_EVIDENCE")).flaps
        assert set(measured(r4("current", seed)).flaps) == {"Pass"}


SUSPICION = 2 * SECOND


def noisy(seed: int, defect: str | None) -> Run:
    """Four peers over links so bad that live peers are suspected, refute, and are suspected again."""
    document = switched(base(4, seed=seed, suspicion_timeout_ns=SUSPICION), defect)
    document["default_link"] |= {"loss_prob_ppm": 300_000, "latency_ns": 100 * MS, "jitter_stddev_ns": 40 * MS}
    return run(document)


def convictions(done: Run) -> Iterator[int]:
    """Yield, for each Dead by an own timer, how long after the observer's latest Alive to Suspect it came."""
    for event in done.transitions("Dead"):
        if event["reason"] == "suspicion-timeout":
            entries = done.events("SwimTransition", event.host, peer=event["peer"], to="Suspect")
            entries = [entry for entry in entries if entry["from"] == "Alive" and entry.at_ns <= event.at_ns]
            yield event.at_ns - entries[-1].at_ns


def test_no_conviction_comes_before_a_whole_suspicion_timeout() -> None:
    """B4's law; `TIMER_SURVIVES_REFUTATION` breaks it on every one of the seeds."""
    for seed in range(1, 6):
        waits = list(convictions(noisy(seed, None)))
        assert waits
        assert min(waits) >= SUSPICION
        assert min(convictions(noisy(seed, "TIMER_SURVIVES_REFUTATION"))) < SUSPICION


def late_demands(defect: str | None) -> tuple[int, int]:
    """Count failed sends of a busy node, and those whose target was not probed within a tick of the open probe's end.

    Only the link a to c loses messages, and a round trip takes 400 ms, so that a is often busy when an Ack to c is lost.
    """
    document = switched(base(4, probe_timeout_ns=SECOND, duration_ns=120 * SECOND), defect)
    document["default_link"]["latency_ns"] = 200 * MS
    document["links"] = [{"from": "a", "to": "c", "loss_prob_ppm": 700_000}]
    done = run(document)
    probes = done.events("SwimProbeSent", "a", probe_kind="direct")
    ends = [*done.events("SwimProbeAcked", "a"), *done.events("SwimProbeTimedOut", "a", probe_kind="indirect")]
    end_of = {event["sequence"]: event.at_ns for event in ends}
    busy = late = 0
    for failed in done.events("SendFailed", "a", to="c"):
        current = [probe for probe in probes if probe.at_ns <= failed.at_ns][-1:]
        end_ns = end_of.get(current[0]["sequence"], 0) if current else 0
        if end_ns > failed.at_ns and current[0]["target"] != "c" and end_ns + TICK < done.scenario.duration_ns:
            busy += 1
            late += not any(end_ns <= probe.at_ns <= end_ns + TICK for probe in probes if probe["target"] == "c")
    return busy, late


def test_a_failed_send_is_followed_up_when_the_open_probe_ends() -> None:
    """B7's law: within one tick of it; with `DEMAND_QUEUE_STUCK` not."""
    busy, late = late_demands(None)
    assert busy >= 5
    assert late == 0
    busy, late = late_demands("DEMAND_QUEUE_STUCK")
    assert late >= busy // 2 > 0


def round_trips(defect: str | None) -> list[int]:
    """Return the time from each probe to its ack, joined on prober, target and sequence.

    a and b need c's help to reach each other, in step with c's own probes of b, some of which are lost.
    """
    document = switched(lossy(base(3, duration_ns=300 * SECOND), "a", "b"), defect)
    document["links"].append({"from": "c", "to": "b", "loss_prob_ppm": 300_000})
    done = run(document)
    sent = {
        (event.host, event["target"], event["sequence"]): event.at_ns
        for event in done.events("SwimProbeSent", probe_kind="direct")
    }
    return [
        event.at_ns - sent[event.host, event["target"], event["sequence"]] for event in done.events("SwimProbeAcked")
    ]


def test_no_probe_is_answered_faster_than_light() -> None:
    """B8's law: an ack comes a round trip of 40 ms after its Ping or later; `PROBE_KEY_SHARED` credits another's ack."""
    assert min(round_trips(None)) == 40 * MS
    assert min(round_trips("PROBE_KEY_SHARED")) < 40 * MS
