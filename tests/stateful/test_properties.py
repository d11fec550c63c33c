"""Laws, on runs that keep and break them; and what a failing property tells its reader."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import find
from msgspec.structs import replace

from simharness.contracts.mutations import PeerKill
from simharness.contracts.records import ENGINE_EVENTS, EventRecord
from simharness.core.errors import InputError
from simharness.scenario.loader import load
from simharness.stateful import SimulationMachine, chains, meshes, relayed, rings, stars
from simharness.stateful.knobs import SWIM
from simharness.stateful.laws import Finding, Law, judged_by, story_of
from simharness.stateful.library.flap import GossipFlap
from simharness.stateful.playing import play
from simharness.stateful.registry import LAWS, PROPERTIES, law_named, property_named
from simharness.stateful.session import KINDS
from simharness.stateful.spaces import swim_cluster
from simharness.stateful.swim_laws import HEALTHY_CLUSTER
from tests.documents import block
from tests.stateful.running import REPO, explore, project, run_pytest

MS = 1_000_000


@pytest.fixture(scope="module")
def calm():
    """Three peers, nothing happens: scenario and records."""
    scenario = swim_cluster({"peers": 3, "latency_ms": 20}, duration_ms=5_000)
    return scenario, play(scenario, KINDS).records


def outcome(name: str, scenario, records) -> str:
    law = law_named(name)
    assert law is not None
    (verdict,) = judged_by((law,), scenario, records)
    return verdict.outcome


def without(records, kind: str, nth: int):
    """Drop the nth event of a kind."""
    places = [place for place, record in enumerate(records) if getattr(record, "event", {}).get("kind") == kind]
    return [record for place, record in enumerate(records) if place != places[nth]]


def with_event(records, at_ms: int, host: str, **event):
    """Add an event behind everything of its instant."""
    return [*records, EventRecord(at_ms * MS, 10**9 + at_ms, host, "swim", event)]


@pytest.mark.parametrize("name", [name for name in LAWS if name != "healthy_cluster"])
def test_nothing_to_judge_is_inconclusive(name: str, calm) -> None:
    """A law that found nothing to judge does not pass (ruling V3); the probe law and the healthy law have probes."""
    expected = "Pass" if name == "acks_answer_their_probe" else "Inconclusive"
    assert outcome(name, *calm) == expected


def test_healthy_cluster(calm) -> None:
    """A missing Ack, a probe less, a transition or a bump each break it; a probe still open at the end does not."""
    scenario, records = calm
    assert outcome("healthy_cluster", scenario, records) == "Pass"
    assert outcome("healthy_cluster", scenario, without(records, "SwimProbeAcked", 3)) == "Fail"
    assert outcome("healthy_cluster", scenario, without(records, "SwimProbeSent", 3)) == "Fail"
    bump = {
        "kind": "SwimIncarnationBumped",
        "from": 0,
        "to": 1,
        "claim_state": "Suspect",
        "claim_incarnation": 0,
        "claimed_by": "b",
    }
    assert outcome("healthy_cluster", scenario, with_event(records, 4_000, "a", **bump)) == "Fail"
    late = {"kind": "SwimProbeSent", "target": "b", "sequence": 99, "probe_kind": "direct"}
    assert outcome("healthy_cluster", scenario, with_event(records, 4_900, "a", **late)) == "Pass"
    assert outcome("healthy_cluster", scenario, with_event(records, 4_000, "a", **late)) == "Fail"
    longer = replace(scenario, duration_ns=50_000 * MS)
    assert outcome("healthy_cluster", longer, records) == "Fail"  # too few probes for so long a run


def transition(before: str, after: str, reason: str) -> dict:
    return {"kind": "SwimTransition", "peer": "b", "from": before, "to": after, "reason": reason}


def test_suspicion_runs_its_time(calm) -> None:
    """A nanosecond too early breaks it; a whole timeout of two seconds does not; a later suspicion counts anew."""
    scenario, _ = calm
    suspected = with_event([], 1_000, "a", **transition("Alive", "Suspect", "probe-timeout"))
    in_time = with_event(suspected, 3_000, "a", **transition("Suspect", "Dead", "suspicion-timeout"))
    early = with_event(suspected, 2_999, "a", **transition("Suspect", "Dead", "suspicion-timeout"))
    rumour = with_event(suspected, 1_500, "a", **transition("Suspect", "Dead", "gossip"))
    again = with_event(in_time, 1_200, "a", **transition("Alive", "Suspect", "gossip"))
    found = [outcome("suspicion_runs_its_time", scenario, records) for records in (in_time, early, rumour, again)]
    assert found == ["Pass", "Fail", "Inconclusive", "Fail"]


def test_answered_is_not_buried(calm) -> None:
    """An Ack after the failed probe breaks it, direct or not; another failed probe since does not, nor a Dead by gossip."""
    scenario, _ = calm
    failed = with_event([], 1_000, "a", **probe("TimedOut", 1, probe_kind="indirect"))
    answered = with_event(failed, 1_500, "a", **probe("Acked", 2, probe_kind="indirect"))
    half = with_event(answered, 2_000, "a", **probe("TimedOut", 3))
    again = with_event(half, 2_300, "a", **probe("TimedOut", 3, probe_kind="indirect"))
    own, rumour = (transition("Suspect", "Dead", reason) for reason in ("suspicion-timeout", "gossip"))
    found = [
        outcome("answered_is_not_buried", scenario, with_event(records, 3_000, "a", **death))
        for records, death in ((failed, own), (answered, own), (half, own), (again, own), (answered, rumour))
    ]
    assert found == ["Pass", "Fail", "Fail", "Pass", "Inconclusive"]
    other = with_event(failed, 1_500, "a", **probe("Acked", 2, "c"))
    assert outcome("answered_is_not_buried", scenario, with_event(other, 3_000, "a", **own)) == "Pass"


def test_answered_is_not_accused(calm) -> None:
    """Without an opinion against it and without word from others since its answer a peer is not accused by a Ping."""
    scenario, _ = calm
    told = {"kind": "GossipReceived", "payload_kind": "swim_piggyback", "payload_bytes": 9, "item_count": 1}
    by_c, by_b, empty = ({**told, "source_peer": peer} for peer in "cbc")
    empty["item_count"] = 0
    answer = (1_000, "a", probe("Acked", 1))
    suspect = transition("Alive", "Suspect", "probe-timeout")
    cases = [
        ([answer], "Fail"),
        ([answer, (1_500, "a", by_c)], "Pass"),
        ([answer, (1_500, "a", by_b)], "Fail"),
        ([answer, (1_500, "a", empty)], "Fail"),
        ([(900, "a", by_c), answer], "Fail"),
        ([(900, "a", suspect), answer], "Pass"),
        ([(900, "a", transition("Suspect", "Alive", "gossip")), answer], "Fail"),
        ([answer, (1_500, "a", transition("Suspect", "Alive", "gossip"))], "Pass"),
        ([(1_970, "a", probe("Acked", 1))], "Inconclusive"),  # its Ping may have been sent before
        ([], "Inconclusive"),
    ]
    bump = {"kind": "SwimIncarnationBumped", "claim_state": "Suspect", "claim_incarnation": 0, "claimed_by": "a"}
    for kind in ("Ping", "IndirectAck"):
        got = {"kind": "MessageReceived", "peer": "a", "message_kind": f"swactor_dist::{kind}", "size": 9}
        for before, expected in cases:
            records: list = []
            for at_ms, host, event in (*before, (1_999, "b", got), (2_000, "b", bump)):
                records = with_event(records, at_ms, host, **event)
            verdict = outcome("answered_is_not_accused", scenario, records)
            assert verdict == (expected if kind == "Ping" else "Inconclusive"), before


def probe(kind: str, sequence: int, target: str = "b", probe_kind: str = "direct") -> dict:
    return {"kind": f"SwimProbe{kind}", "target": target, "sequence": sequence, "probe_kind": probe_kind}


def test_demand_is_served(calm) -> None:
    """The probe that is owed starts within a tick of the open one's end, at once without one, and never for a Dead peer."""
    scenario, _ = calm
    failed = {"kind": "SendFailed", "from": "a", "to": "c", "reason": "lossy"}
    owed = with_event(with_event([], 1_000, "a", **probe("Sent", 1)), 1_010, "a", **failed)
    ended = with_event(owed, 1_040, "a", **probe("Acked", 1))
    dead = {**transition("Alive", "Dead", "gossip"), "peer": "c"}
    cases = {
        "Pass": with_event(ended, 1_090, "a", **probe("Sent", 2, "c")),
        "Fail": with_event(ended, 1_091, "a", **probe("Sent", 2, "c")),
        "Inconclusive": with_event(with_event([], 1_000, "a", **dead), 1_010, "a", **failed),
    }
    assert {expected: outcome("demand_is_served", scenario, records) for expected, records in cases.items()} == {
        expected: expected for expected in cases
    }
    assert outcome("demand_is_served", scenario, ended) == "Fail"  # nothing starts until the end
    assert outcome("demand_is_served", scenario, with_event(ended, 1_050, "a", **dead)) == "Pass"
    chained = with_event(with_event(ended, 1_080, "a", **probe("Sent", 2)), 1_120, "a", **probe("Acked", 2))
    assert outcome("demand_is_served", scenario, with_event(chained, 1_300, "a", **probe("Sent", 3, "c"))) == "Fail"


def test_acks_answer_their_probe(calm) -> None:
    """An Ack of no probe, one before a round trip of 40 ms is over, and a direct one of a refused Ping break it."""
    scenario, _ = calm
    ping = {"kind": "MessageSent", "peer": "b", "message_kind": "swactor_dist::Ping", "size": 100}
    refused = {"kind": "DropOnSend", "from": "a", "to": "b", "reason": "lossy"}
    sent = with_event(with_event([], 1_000, "a", **ping), 1_001, "a", **probe("Sent", 1))
    lost = with_event(
        with_event(with_event([], 1_000, "a", **ping), 1_001, "a", **refused), 1_002, "a", **probe("Sent", 1)
    )
    cases = [
        (with_event(sent, 1_041, "a", **probe("Acked", 1)), "Pass"),
        (with_event(sent, 1_040, "a", **probe("Acked", 1)), "Fail"),
        (with_event(sent, 1_100, "a", **probe("Acked", 2)), "Fail"),
        (with_event(lost, 1_100, "a", **probe("Acked", 1)), "Fail"),
        (with_event(lost, 1_900, "a", **probe("Acked", 1, probe_kind="indirect")), "Pass"),
    ]
    assert [outcome("acks_answer_their_probe", scenario, records) for records, _ in cases] == [
        expected for _, expected in cases
    ]


def test_first_detection_in_time(calm) -> None:
    """Five periods of 1.2 seconds and a tick for three peers: one millisecond more is too late."""
    scenario, _ = calm
    scenario = replace(scenario, mutations=(PeerKill(at_ns=1_000 * MS, peer="b"),))
    killed = [record for record in play(scenario, KINDS).records if type(record).__name__ == "MutationRecord"]
    bound_ms = 1_000 + 5 * 1_200 + 50
    for at_ms, expected in ((bound_ms, "Pass"), (bound_ms + 1, "Fail")):
        records = with_event(killed, at_ms, "a", **probe("TimedOut", 1, probe_kind="indirect"))
        assert outcome("first_detection_in_time", scenario, records) == expected


def test_a_law_is_judged_like_an_assertion(calm) -> None:
    """Named by its place among the laws; evidence is a line of the event stream; at most 32 of them."""
    scenario, records = calm
    everything = Law(name="everything", check=lambda story: Finding(len(story.lines), story.lines))
    verdicts = judged_by((HEALTHY_CLUSTER, everything), scenario, records)
    assert [(verdict.name, verdict.kind, verdict.outcome) for verdict in verdicts] == [
        ("l0", "healthy_cluster", "Pass"),
        ("l1", "everything", "Fail"),
    ]
    assert len(verdicts[1].evidence) == 32
    first = story_of(scenario, records).lines[0]
    assert verdicts[1].evidence[0].event_or_snapshot_ref == "events.ndjson:0"
    assert verdicts[1].evidence[0].virtual_time_ns == first.at_ns


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_makes_a_claim(name: str) -> None:
    """A written claim, something that judges, and a budget."""
    machine = property_named(name)
    assert len((machine.__doc__ or "").split()) > 25
    assert machine.assertions or machine.laws
    assert machine.budget > 0


@pytest.mark.parametrize("name", [name for name in PROPERTIES if name != "gossip_flap"])
def test_properties_conclude(name: str) -> None:
    """A handful of examples of each: all Pass but for a tenth that says nothing."""
    machine = property_named(name)
    small = type(machine.__name__, (machine,), {"__doc__": machine.__doc__, "budget": 5})
    ledger, failure = explore(small)
    assert failure is None
    assert ledger.examples >= 5
    found = Counter(ledger.outcomes)
    assert found["Fail"] == 0
    assert found["Inconclusive"] * 5 <= found.total()


def test_the_deployed_profile_flaps(tmp_path: Path) -> None:
    """P1: with the deployed profile `gossip_flap` fails; the text alone replays it, by the file and by the search."""
    test = tmp_path / "test_flap.py"
    test.write_text("from simharness.stateful.library.flap import GossipFlap\nTestGossipFlap = GossipFlap.TestCase\n")
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n")
    done = run_pytest(tmp_path, "-q", "--swim-profile=deployed", "--hypothesis-seed=1", "test_flap.py")
    assert done.returncode == 1, done.stdout
    lines = [
        line.lstrip("E ").removeprefix("scenario: ").removeprefix("replay:").strip()
        for line in done.stdout.splitlines()
    ]
    assert any(line.startswith("simharness run ") for line in lines), done.stdout
    assert any(line.startswith("pytest ") and "--hypothesis-seed=1" in line for line in lines)
    (file,) = tmp_path.glob(".simharness/failures/*/scenario.toml")
    scenario = load(file, KINDS).scenario
    assert len(scenario.peers) == 4
    assert scenario.mutations == ()
    failed = [verdict.kind for verdict in play(scenario, KINDS).verdicts() if verdict.outcome == "Fail"]
    assert "no_flap_while_probes_ok" in failed or "self_incarnation_bounded" in failed


def test_the_document_names_everything() -> None:
    """docs/properties.md: a row for every property, every law, and every defect with what finds it and what is left."""
    text = REPO.joinpath("docs", "properties.md").read_text("utf-8")
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    assert [row[0] for row in rows if row[0] in PROPERTIES and len(row) == 3] == sorted(
        PROPERTIES, key=[row[0] for row in rows].index
    )
    assert sorted(row[0] for row in rows if row[0] in LAWS and len(row) == 2) == sorted(LAWS)
    knobs = [(knob.defect, knob.hunter, knob.by, str(knob.most_mutations)) for knob in SWIM]
    assert [tuple(row) for row in rows if len(row) == 4] == knobs


def test_a_property_of_ones_own(tmp_path: Path) -> None:
    """docs/properties.md: its property, over the README's host, is collected, fails, and says how to replay it."""
    project(tmp_path, test_rumour=block("docs/properties.md", "test", "property").text)
    tmp_path.joinpath("my_project").mkdir()
    tmp_path.joinpath("my_project", "rumour.py").write_text(block("README.md", "test", "host").text, encoding="utf-8")
    done = run_pytest(tmp_path, "-q", "--hypothesis-seed=1", "test_rumour.py", env={"PYTHONPATH": f"{REPO}:{tmp_path}"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "event_count" in done.stdout
    assert "Spread" in done.stdout
    (file,) = tmp_path.glob(".simharness/failures/*/scenario.toml")
    assert f"simharness run {file.relative_to(tmp_path)}" in done.stdout
    assert 'kind = "rumour"' in file.read_text(encoding="utf-8")


def test_a_law_of_ones_own(tmp_path: Path) -> None:
    """docs/properties.md: its law finds the planted bug of its host, shrunk to one spike, and holds once the bug is gone."""
    host = block("docs/properties.md", "test", "lease").text
    project(tmp_path, test_lease=block("docs/properties.md", "test", "law").text)
    tmp_path.joinpath("my_project").mkdir()
    module = tmp_path.joinpath("my_project", "lease.py")
    module.write_text(host, encoding="utf-8")
    args = ("-q", "--hypothesis-seed=1", "test_lease.py")
    done = run_pytest(tmp_path, *args, env={"PYTHONPATH": f"{REPO}:{tmp_path}"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "one_holder() is Fail at " in done.stdout
    (file,) = tmp_path.glob(".simharness/failures/*/scenario.toml")
    text = file.read_text(encoding="utf-8")
    assert (text.count("[[mutations]]"), text.count('kind = "latency_spike"')) == (1, 1)
    assert host.count("since_ns = now_ns\n") == 1
    module.write_text(host.replace("since_ns = now_ns\n", "since_ns = int(asked_ns)\n"), encoding="utf-8")
    done = run_pytest(tmp_path, *args, env={"PYTHONPATH": f"{REPO}:{tmp_path}"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_attributes_of_a_machine_are_documented() -> None:
    """docs/properties.md has a row for each."""
    text = REPO.joinpath("docs", "properties.md").read_text("utf-8")
    named = [name for name in SimulationMachine.__annotations__ if name != "run"]
    assert [name for name in named if f"| `{name}` |" not in text] == []
    assert [kind for kind in ENGINE_EVENTS if f"`{kind}`" not in text] == []


def test_strategies_take_the_kind_first() -> None:
    """As the document says: by place or by name; nothing else goes by place."""
    for strategy in (meshes, rings, stars, chains, relayed):
        scenario = find(strategy("parity_stub", peers=2), lambda _: True)
        assert [peer.kind for peer in scenario.peers] == ["parity_stub"] * 2
    with pytest.raises(InputError, match="3 is no host kind"):
        find(meshes(3), lambda _: True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="positional"):
        find(meshes("echo", 3), lambda _: True)  # type: ignore[call-arg]


def test_gossip_flap_claims_what_the_design_says() -> None:
    """Four to six peers, 120 to 150 ms, no faults, twenty seconds, a bound of 35 (reference, section 2)."""
    space = GossipFlap.space
    assert (space.numbers["peers"], space.numbers["latency_ms"]) == (range(4, 7), range(120, 151))
    scenario = space.scenario(1)
    assert scenario.mutations == ()
    assert scenario.duration_ns == 20_000 * MS
    assert {assertion.max_value for assertion in scenario.assertions if hasattr(assertion, "max_value")} == {35}
    assert REPO.joinpath("properties", "test_flap.py").is_file()
