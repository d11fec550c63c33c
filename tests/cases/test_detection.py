"""Handed cases about probes and verdicts: helpers (A07, A09), short intervals (A11), ghosts (A19), own pauses (A21)."""

from typing import Final

import pytest

from tests.cases.base import MS, SECOND, TICK, Document, Run, at, base, claim, lossy, run

PROBE_BUDGET: Final = 2 * 500 * MS
"""Direct phase and indirect phase of a BASE probe."""
PING_REQ: Final = "swactor_dist::PingReq"


def test_a07_helpers_are_asked_before_anyone_is_suspected() -> None:
    """A07: a and b cannot talk directly, but four hops of 20 ms answer well inside the indirect budget: nothing changes."""
    document = lossy(base(4), "a", "b")
    window = {"window_start_ns": 0, "window_end_ns": 60 * SECOND}
    document["assertions"] = [claim("all_alive_throughout", peers=["a", "b", "c", "d"], **window)]
    done = run(document)
    assert done.outcomes == ["Pass"]
    assert len(done.events("SwimProbeTimedOut", probe_kind="direct")) >= 2 * (60 // 3 - 1)
    assert done.events("SwimProbeTimedOut", probe_kind="indirect") == []
    assert done.transitions() == []
    assert [done.incarnations(peer) for peer in "abcd"] == [[0]] * 4


def early_suspicions(done: Run) -> list[tuple[int, str | None, str]]:
    """Return every suspicion from an own probe that came before that probe's whole budget was over."""
    early = []
    for event in done.transitions("Suspect"):
        if event["reason"] == "probe-timeout":
            sent = done.events("SwimProbeSent", event.host, target=event["peer"], probe_kind="direct")
            start = max(probe.at_ns for probe in sent if probe.at_ns < event.at_ns)
            if event.at_ns - start < PROBE_BUDGET:
                early.append((event.at_ns - start, event.host, event["peer"]))
    return early


@pytest.mark.parametrize("seed", range(5))
def test_a07_no_suspicion_before_both_budgets_are_spent(seed: int) -> None:
    """A07, with all links of b lossy: nobody is suspected before probe start + 500 ms + the indirect deadline.

    That holds as well for a probe that a failed send started between two ticks.
    """
    document = base(4, seed=seed)
    for other in "acd":
        document = lossy(document, "b", other)
    done = run(document)
    assert len(done.transitions("Suspect", peer="b")) >= 3
    first_probe = min(event.at_ns for event in done.events("SwimProbeSent", target="b", probe_kind="direct"))
    assert done.transitions("Suspect", peer="b")[0].at_ns >= first_probe + PROBE_BUDGET
    assert early_suspicions(done) == []


def check_rounds(helpers: int, duration_ns: int) -> int:
    """Run A09 for that long and check every indirect round of a and b; return how many there were."""
    document = lossy(base(3, indirect_probes=helpers, duration_ns=duration_ns, snapshot_every_ns=duration_ns), "a", "b")
    done = run(document, keep={"SwimProbeTimedOut", "MessageSent", "SwimTransition"})
    rounds = 0
    for prober, target in ("ab", "ba"):
        timeouts = [
            event.at_ns for event in done.events("SwimProbeTimedOut", prober, target=target, probe_kind="direct")
        ]
        asked = [(event.at_ns, event["peer"]) for event in done.events("MessageSent", prober, message_kind=PING_REQ)]
        assert asked == [(at_ns, "c") for at_ns in timeouts]
        rounds += len(timeouts)
    assert done.events("SwimProbeTimedOut", probe_kind="indirect") == []
    assert done.transitions() == []
    return rounds


@pytest.mark.parametrize("helpers", [1, 2, 3])
def test_a09_the_only_helper_is_asked_every_time(helpers: int) -> None:
    """A09: each direct time-out of a-b is followed by exactly one ping-request, to c, whatever `indirect_probes` says."""
    assert check_rounds(helpers, 360 * SECOND) >= 350


@pytest.mark.slow
@pytest.mark.parametrize("helpers", [1, 2, 3])
def test_a09_ten_thousand_rounds(helpers: int) -> None:
    """A09 at the size of the report: a chance of 2.6 % would show 260 times."""
    assert check_rounds(helpers, 10_100 * SECOND) >= 10_000


@pytest.mark.parametrize("seed", range(4))
def test_a11_short_intervals_are_no_instant_conviction(seed: int) -> None:
    """A11: with an interval of 200 us every conviction is a whole suspicion timeout old, and less than a tick more."""
    tick, suspicion = 100_000, 900_000
    document = base(
        3,
        seed=seed,
        duration_ns=200 * MS,
        snapshot_every_ns=50 * MS,
        probe_interval_ns=2 * tick,
        probe_timeout_ns=tick,
        suspicion_timeout_ns=suspicion,
    )
    document["default_tick"]["period_ns"] = tick
    document["default_link"]["latency_ns"] = 10_000
    document["mutations"] = [at(50 * MS, "peer_kill", peer="b")]
    done = run(document)
    convictions = [event for event in done.transitions("Dead") if event["reason"] == "suspicion-timeout"]
    assert convictions
    for conviction in convictions:
        suspicions = done.transitions("Suspect", host=conviction.host, peer=conviction["peer"])
        waited = conviction.at_ns - max(event.at_ns for event in suspicions if event.at_ns <= conviction.at_ns)
        assert suspicion <= waited < suspicion + tick
    assert {event.host for event in done.transitions("Dead", peer="b")} == {"a", "c"}


@pytest.mark.parametrize("seed", range(4))
def test_a19_a_peer_that_died_behind_a_partition_never_comes_back(seed: int) -> None:
    """A19: b dies while cut off; after the heal nobody revives it, and everybody else is taken back within 20 s.

    Under the byte cap of BASE a message holds two updates: a refutation must not lose its place to old news of deaths.
    """
    document = base(4, seed=seed, duration_ns=90 * SECOND)
    document["mutations"] = [
        at(10 * SECOND, "partition", peers_a=["a", "b"], peers_b=["c", "d"]),
        at(12 * SECOND, "peer_kill", peer="b"),
        at(40 * SECOND, "heal"),
    ]
    document["assertions"] = [
        claim("convergence_after", after_ns=40 * SECOND, within_ns=20 * SECOND, peers=["a", "c", "d"])
    ]
    done = run(document)
    assert done.outcomes == ["Pass"]
    assert [event for event in done.transitions("Alive", peer="b") if event.at_ns > 12 * SECOND] == []
    for observer in "acd":
        shown = [view["b"][0] for at_ns, view in done.views(observer) if at_ns > 45 * SECOND]
        assert set(shown) == {"Dead"}
        assert all(done.view(observer, other, 90 * SECOND)[0] == "Alive" for other in "acd" if other != observer)


def frozen(kill_ns: int, *, apart: bool = False, defects: tuple[str, ...] = ()) -> Document:
    """BASE(3) where a is frozen for 12 s, twelve probe intervals; with `apart`, a and b cannot talk directly."""
    document = base(3, defects=list(defects), duration_ns=38 * SECOND)
    document = lossy(document, "a", "b") if apart else document
    document["mutations"] = [
        at(kill_ns, "peer_kill", peer="a"),
        at(kill_ns + 12 * SECOND, "peer_resurrect", peer="a", preserve_state=True),
    ]
    document["assertions"] = [
        claim("dead_peer_resurrects_within", peer="a", after_ns=kill_ns + 12 * SECOND, within_ns=10 * SECOND)
    ]
    return document


PHASES: Final = range(0, 2_000, 100)
"""Milliseconds into two periods of a's probes: nothing open, ping on its way, answer on its way, helper asked."""


def stale_verdicts(done: Run, kill_ns: int) -> list[int]:
    """Return the sequence numbers of a's probes sent before the freeze and timed out after it."""
    before = {event["sequence"] for event in done.events("SwimProbeSent", "a") if event.at_ns < kill_ns}
    timeouts = done.events("SwimProbeTimedOut", "a")
    return [event["sequence"] for event in timeouts if event.at_ns > kill_ns and event["sequence"] in before]


@pytest.mark.parametrize("apart", [False, True])
def test_a21_an_own_pause_is_nobody_elses_silence(apart: bool) -> None:
    """A21 at every phase of a probe: the frozen node convicts nobody; it is convicted meanwhile, and taken back.

    The probe that was open when it froze ends without a verdict.
    """
    for phase in PHASES:
        kill_ns = 10 * SECOND + phase * MS
        done = run(frozen(kill_ns, apart=apart))
        assert done.transitions(host="a") == [], phase
        assert stale_verdicts(done, kill_ns) == [], phase
        assert {event.host for event in done.transitions("Dead", peer="a")} == {"b", "c"}, phase
        assert done.outcomes == ["Pass"], phase


def test_a21_the_deployed_rule_counts_the_pause() -> None:
    """A21: with `OWN_PAUSE_COUNTED` old probes time out after the freeze, and at some phase a healthy peer is suspected."""
    stale = suspected = 0
    for phase in PHASES:
        kill_ns = 10 * SECOND + phase * MS
        done = run(frozen(kill_ns, apart=True, defects=("OWN_PAUSE_COUNTED",)))
        stale += len(stale_verdicts(done, kill_ns))
        suspected += len(done.transitions("Suspect", host="a"))
    assert stale > 0
    assert suspected > 0


def test_a21_the_frozen_peer_returns_within_its_bound() -> None:
    """A21 with the times of the report: frozen 10 s to 22 s; accused about 2 periods and 3 s later; back within 10 s."""
    done = run(frozen(10 * SECOND))
    assert done.outcomes == ["Pass"]
    accused = [event.at_ns for event in done.transitions("Dead", peer="a")]
    assert all(13 * SECOND <= at_ns <= 10 * SECOND + 4 * PROBE_BUDGET + 3 * SECOND + TICK for at_ns in accused)
    assert done.transitions(host="a") == []
