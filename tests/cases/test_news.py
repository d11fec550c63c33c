"""Handed cases about messages and news: sizes (A13, A15), dissemination (A17), elapsed time (A27)."""

from pathlib import Path
from typing import Final

import orjson
import pytest

from simharness.bundle.reader import Bundle
from simharness.core.errors import ScenarioError
from simharness.hosts.kinds import Kinds
from simharness.run import run_to_bundle
from simharness.scenario.loader import Loaded, Source
from tests.cases.base import LINK, SECOND, TICK, Document, at, base, claim, lossy, parsed, run

KINDS: Final = ("Ping", "Ack", "PingReq", "IndirectAck", "JoinRequest", "JoinResponse")
CAP: Final = 1_400


def crowd() -> Document:
    """60 peers with ids of 40 characters, all joining within a second, ten of them killed at 20 s.

    One peer has no direct way to a dozen others, so that indirect acks are sent as well.
    """
    names = [f"member-{place:02}-{'x' * 30}" for place in range(60)]
    document = base(names, duration_ns=40 * SECOND, snapshot_every_ns=10 * SECOND)
    for place, peer in enumerate(document["peers"]):
        peer["initial_state"] = "joining"
        seed = names[20] if place != 20 else names[21]
        peer["kind_config"] |= {"seeds": [seed], "join_at_ns": place % 10 * TICK}
    for other in names[1:13]:
        document = lossy(document, names[0], other)
    document["mutations"] = [at(20 * SECOND, "peer_kill", peer=name) for name in names[50:]]
    document["assertions"] = [claim("message_size_bounded", message_kind=kind, max_bytes=CAP) for kind in KINDS]
    return document


def test_a13_no_message_of_any_kind_exceeds_the_cap() -> None:
    """A13: joins, deaths and gossip of 60 peers: every kind is sent, and every single payload stays within 1400 bytes."""
    done = run(crowd())
    assert done.outcomes == ["Pass"] * len(KINDS)
    sizes = [event["size"] for kind in ("MessageSent", "MessageReceived") for event in done.events(kind)]
    assert max(sizes) <= CAP
    assert max(sizes) > CAP - 200, "no message was ever full"
    answered = len(done.events("MessageReceived", message_kind="swactor_dist::JoinRequest"))
    assert len(done.events("MessageSent", message_kind="swactor_dist::JoinResponse")) > answered, "none was split"


def test_a13_the_deployed_form_breaks_the_cap() -> None:
    """A13: names and metadata nested into every message (`COMBINED_PIGGYBACK`) with no cap are caught by the assertion."""
    document = base(4, profile="deployed", max_message_bytes=0, names=["name"], metadata={"relay_url": "https://relay"})
    for peer in document["peers"]:
        peer["kind_config"]["names"] = [f"name-of-{peer['id']}"]
    document["mutations"] = [at(20 * SECOND, "peer_kill", peer="d")]
    document["assertions"] = [claim("message_size_bounded", message_kind="Ping", max_bytes=CAP)]
    assert run(document).outcomes == ["Fail"]


@pytest.mark.parametrize("peer", ["x" * 2_000, "\U0001f600" * 600], ids=["ascii", "astral"])
def test_a15_an_id_that_no_probe_could_carry_is_refused(peer: str) -> None:
    """A15, ruling L9: the loader names the field, in one error."""
    with pytest.raises(ScenarioError) as refusal:
        parsed(base(["a", "b", peer], max_message_bytes=1_200))
    assert [problem.field for problem in refusal.value.problems] == ["peers[2].id"]


def test_a15_the_longest_id_is_no_reason_for_suspicion() -> None:
    """A15: with 64 characters every probe is sent and answered, within the cap."""
    document = base(["a", "b", "y" * 64], max_message_bytes=1_200)
    document["assertions"] = [
        claim("message_size_bounded", message_kind=kind, max_bytes=1_200) for kind in ("Ping", "Ack")
    ]
    done = run(document)
    assert done.outcomes == ["Pass", "Pass"]
    assert done.transitions() == []
    assert done.events("SwimProbeTimedOut") == []


def check_news(seed: int, multiplier: int) -> None:
    """Run A17 with one seed and check it."""
    document = base(4, seed=seed, duration_ns=25 * SECOND, retransmit_mult=multiplier)
    document["mutations"] = [at(10 * SECOND, "peer_kill", peer="d")]
    document["assertions"] = [
        claim("convergence_after", after_ns=10 * SECOND, within_ns=15 * SECOND, peers=["a", "b", "c"])
    ]
    done = run(document)
    assert done.outcomes == ["Pass"], seed
    deaths = done.transitions("Dead", peer="d")
    heard = [min(event.at_ns for event in deaths if event.host == observer) for observer in "abc"]
    if multiplier >= 3:
        assert max(heard) - min(heard) <= 3 * SECOND + 2 * LINK["latency_ns"], seed


@pytest.mark.parametrize("multiplier", [1, 2, 3])
def test_a17_news_of_a_death_reaches_everybody(multiplier: int) -> None:
    """A17, the first 12 seeds: all survivors agree in time; from three transmissions on within 3 periods and one RTT."""
    for seed in range(12):
        check_news(seed, multiplier)


@pytest.mark.slow
@pytest.mark.parametrize("multiplier", [1, 2, 3])
def test_a17_on_two_hundred_seeds(multiplier: int) -> None:
    """A17 in full: 200 of 200 seeds."""
    for seed in range(200):
        check_news(seed, multiplier)


HOUR: Final = 3_600 * SECOND
RETURN: Final = 40_086_167 * SECOND
"""More than a year after the kill."""


def long_absence() -> Document:
    """BASE(3) with hours for ticks; b is away for 40 million seconds and comes back empty."""
    document = base(
        3,
        duration_ns=41_000_000 * SECOND,
        snapshot_every_ns=41_000_000 * SECOND,
        probe_interval_ns=2 * HOUR,
        probe_timeout_ns=HOUR,
        suspicion_timeout_ns=6 * HOUR,
    )
    document["default_tick"]["period_ns"] = HOUR
    times = (999, 1_001, 200_000, 40_086_166, 40_086_168, 40_160_000)
    document["snapshots"] += [{"at_ns": seconds * SECOND} for seconds in times]
    document["mutations"] = [
        at(1_000 * SECOND, "peer_kill", peer="b"),
        at(RETURN, "peer_resurrect", peer="b", preserve_state=False),
    ]
    document["assertions"] = [claim("dead_peer_resurrects_within", peer="b", after_ns=RETURN, within_ns=20 * HOUR)]
    return document


def test_a27_a_year_of_absence_is_no_reason_to_refuse_a_return(tmp_path: Path) -> None:
    """A27: b is taken back within the window; times beyond 2**53 ns stay exact in the bundle; the cost follows events."""
    loaded = Loaded(parsed(long_absence()), (Source("long_absence.toml", "0" * 64),))
    done = run_to_bundle(loaded, tmp_path / "bundle", Kinds())
    assert [verdict.outcome for verdict in done.verdicts] == ["Pass"]
    ticks = 41_000_000 // 3_600
    assert 2 * ticks <= done.dispatches <= 8 * ticks
    sent: list[int] = []
    heard: list[int] = []
    for line in Bundle(done.bundle).lines():
        record = orjson.loads(line)
        assert not floats_in(record)
        kind, at_ns = record["event"]["kind"], record["virtual_time_ns"]
        if kind in ("MessageSent", "MessageReceived") and at_ns > 2**53:
            (sent if kind == "MessageSent" else heard).append(at_ns)
    assert len(heard) > ticks
    assert {at_ns - LINK["latency_ns"] for at_ns in heard} <= set(sent)
    assert any(at_ns % 2 for at_ns in heard), "an even time might be exact by chance"


def floats_in(value: object) -> bool:
    """Tell whether a JSON value holds a float."""
    if isinstance(value, dict):
        return any(map(floats_in, value.values()))
    return any(map(floats_in, value)) if isinstance(value, list) else isinstance(value, float)
