"""The battery, family by family: what each fault does and leaves alone, by comparison with its twin and its parts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from simharness.bundle.digest import event_lines
from simharness.bundle.reader import Bundle
from simharness.contracts.mutations import LossBurst, Mutation, PeerKill, RelayPeerConnDown
from simharness.hosts.kinds import Kinds
from simharness.run import run_to_bundle
from simharness.scenario.loader import load
from simharness.stateful.playing import Played, play
from tests.scenarios.library import (
    FILES,
    KINDS,
    S,
    count,
    declared,
    failed,
    finished,
    path_of,
    records,
    snapshots,
    verdicts,
)

A, B, C, D, E, F = (
    f"battery/{family}"
    for family in (
        "a_relay_conn_drop",
        "b_silent_worker",
        "c_gossip_absence",
        "d_asymmetric_loss",
        "e_sudden_kill",
        "f_compound",
    )
)
OTHERS: Final = ("orch", "stage-0")


def members(family: str) -> list[str]:
    """The fault files of a family."""
    return [name for name in FILES if name.startswith(f"{family}/") and not name.endswith("healthy.toml")]


def with_mutations(name: str, *more: Mutation) -> Played:
    """A shipped scenario with further mutations, played."""
    scenario = declared(name)
    return play(msgspec.structs.replace(scenario, mutations=(*scenario.mutations, *more)), KINDS)


def judged_as(name: str, run: Played) -> list[str]:
    """The kinds of a file's assertions that another run fails, sorted."""
    scenario = msgspec.structs.replace(run.scenario, assertions=declared(name).assertions)
    return failed(Played(scenario, run._sink, run.termination).verdicts())


@pytest.mark.parametrize("name", [name for family in (A, C, D, E, F) for name in members(family)])
def test_nothing_differs_before_the_fault(name: str) -> None:
    """Up to the first mutation a run is its twin's, byte for byte: the fault is the only difference.

    Cache records are left aside, since a link says that it has warmed only with its next send.
    """
    if declared(name).peers != declared(healthy(name)).peers:
        assert name == f"{F}/erased_names.toml"
        return
    until_ns = min(declared(healthy(name)).duration_ns, *(mutation.at_ns for mutation in declared(name).mutations))
    assert story(finished(name), until_ns) == story(finished(healthy(name)), until_ns)


def healthy(name: str) -> str:
    return (
        name.replace("joining", "joining_healthy") if "joining" in name else f"{name.rpartition('/')[0]}/healthy.toml"
    )


def story(run: Played, until_ns: int) -> list[bytes]:
    early = [record for record in records(run, *KINDS_OF_EVENTS) if record.virtual_time_ns < until_ns]
    return list(event_lines(early))


KINDS_OF_EVENTS: Final = (
    *("SwimTransition", "SwimProbeSent", "SwimProbeAcked", "SwimProbeTimedOut", "SwimIncarnationBumped"),
    *("GossipReceived", "MessageSent", "MessageReceived", "RelayEnqueue", "RelayDequeue", "RelayDrop"),
    *("DialStart", "DialOutcome", "DropOnSend", "DropOnDelivery", "SendFailed"),
)


# --- A: a connection through the relay dies, the tunnel looks alive -------------------------------------------------------


@pytest.mark.parametrize("name", members(A))
def test_a_cut_refuses_its_pair_and_its_time(name: str) -> None:
    """Only messages of a cut ordered pair are refused or lost to it, and only while the cut is on."""
    cuts = [mutation for mutation in declared(name).mutations if isinstance(mutation, RelayPeerConnDown)]
    hits = [
        (record.event["from"], record.event["to"], record.virtual_time_ns)
        for record in records(finished(name), "DropOnSend", "DropOnDelivery")
        if record.event["reason"] == "relay_peer_conn_down"
    ]
    assert hits
    for source, target, at_ns in hits:
        assert any(
            (cut.source, cut.target) == (source, target)
            and cut.at_ns <= at_ns < cut.at_ns + (cut.duration_ns or 10**18)
            for cut in cuts
        )


@pytest.mark.parametrize("name", [name for name in members(A) if "isolated" not in name])
def test_a_helper_makes_every_probe(name: str) -> None:
    """A direct probe that times out is acknowledged by way of the helper: none completes in failure."""
    run = finished(name)
    assert count(run, "SwimProbeTimedOut", probe_kind="direct") > 0
    assert count(run, "SwimProbeTimedOut", probe_kind="indirect") == 0
    assert failed(verdicts(name)) == []


def test_a_without_a_helper_is_noticed() -> None:
    """The calm that central.toml asserts is not vacuous: with both connections away it is violated."""
    assert judged_as(f"{A}/central.toml", finished(f"{A}/isolated.toml")) == ["all_alive_throughout", "event_count"]


# --- B: a worker that says nothing ------------------------------------------------------------------------------------------

BUCKETS: Final[Mapping[str, tuple[str, Sequence[int]]]] = {
    "healthy": ("ready", (1, 0, 1)),
    "never_spawned": ("never spawned", (0, 0, 0)),
    "stalled": ("stalled", (1, 0, 0)),
    "two_victims": ("stalled", (1, 0, 0)),
    "early_exit": ("early exit", (1, 1, 0)),
    "exit_100ms": ("early exit", (1, 1, 0)),
    "exit_10s": ("early exit", (1, 1, 0)),
    "killed": ("early exit", (1, 1, 0)),
}


def bucket(spawned: int, exited: int, ready: int) -> str:
    """Decide from counts alone what became of a worker."""
    if ready:
        return "ready"
    return "early exit" if exited else "stalled" if spawned else "never spawned"


def test_b_counts_alone_decide_the_bucket() -> None:
    """Spawned, exited and ready tell the buckets apart, and the name is Fail in each but the healthy one: never Inconclusive."""
    assert {f"{B}/{stem}.toml" for stem in BUCKETS} == {*members(B), f"{B}/healthy.toml"}
    for stem, (expected, counts) in BUCKETS.items():
        run = finished(f"{B}/{stem}.toml")
        own = [record for record in records(run, *WORKER) if record.host_id == "stage-2"]
        seen = [sum(record.event["kind"] == kind for record in own) for kind in WORKER]
        assert (bucket(*seen), seen) == (expected, list(counts))
        [name] = [verdict for verdict in verdicts(f"{B}/{stem}.toml") if verdict.kind == "name_resolves_within"]
        assert name.outcome == ("Pass" if stem == "healthy" else "Fail")


WORKER: Final = ("SubprocessSpawned", "SubprocessExited", "worker_ready")


@pytest.mark.parametrize(
    ("stem", "after_ns", "code", "signal"),
    [
        ("early_exit", S, 3, None),
        ("exit_100ms", S // 10, 3, None),
        ("exit_10s", 10 * S, 3, None),
        ("killed", S, None, 9),
    ],
)
def test_b_an_exit_says_how(stem: str, after_ns: int, code: int | None, signal: int | None) -> None:
    """The exit shows its code or its signal, at the declared time after the stage's own start; a snapshot stands on both sides."""
    run = finished(f"{B}/{stem}.toml")
    [exited] = records(run, "SubprocessExited")
    [start] = [record for record in records(run, "SubprocessSpawned") if record.host_id == "stage-2"]
    assert exited.virtual_time_ns == start.virtual_time_ns + after_ns
    assert (exited.event["exit_code"], exited.event["exit_signal"]) == (code, signal)
    shown = snapshots(run, "stage-2")
    at_ns = exited.virtual_time_ns
    assert [shown[at_ns - 1]["state"], shown[at_ns + 1]["state"]] == ["Running", "Halted"]


# --- C: gossip that only one host can bring ---------------------------------------------------------------------------------


def test_c_the_victim_hears_only_the_orchestrator() -> None:
    """The discriminator: stage-2 is sent messages by orch alone, still holds its sibling Alive, and knows its name."""
    run = finished(f"{C}/from_the_start.toml")
    assert {record.event["from"] for record in records(run, "RelayDequeue") if record.event["to"] == "stage-2"} == {
        "orch"
    }
    last = snapshots(run, "stage-2")[40 * S]
    assert {peer["peer"]: peer["state"] for peer in last["peers"] if peer["peer"] != "stage-2"} == {
        "orch": "Alive",
        "stage-0": "Alive",
    }
    assert "pp-stage-0" in last["name_registry"]


def test_c_one_way_is_dialled_and_unanswered() -> None:
    """stage-2 pings its sibling, which receives and answers every time; every answer is refused."""
    run = finished(f"{C}/one_way.toml")
    after = [record for record in records(run, "MessageReceived", "DropOnSend") if record.virtual_time_ns > S]
    received = [r for r in after if r.event["kind"] == "MessageReceived" and r.host_id == "stage-0"]
    pings = sum(r.event["peer"] == "stage-2" and r.event["message_kind"].endswith("::Ping") for r in received)
    refused = [r for r in after if r.event["kind"] == "DropOnSend"]
    assert {(r.event["from"], r.event["to"]) for r in refused} == {("stage-0", "stage-2")}
    assert len(refused) > pings > 10


def test_c_without_the_orchestrator_the_siblings_lose_each_other() -> None:
    """The guard is not vacuous: with orch gone, what central.toml asserts is violated."""
    run = with_mutations(f"{C}/central.toml", PeerKill(at_ns=5 * S, peer="orch"))
    assert "event_count" in judged_as(f"{C}/central.toml", run)


# --- D: one flaky host ------------------------------------------------------------------------------------------------------

LOSERS: Final[Mapping[str, set[str]]] = {
    "central": {"stage-2"},
    "inbound": {"orch", "stage-0"},
    "both_ways": {"orch", "stage-0", "stage-2"},
    "short_high": {"stage-2"},
    "long_low": {"stage-2"},
    "skewed": {"stage-2"},
}


@pytest.mark.parametrize("stem", LOSERS)
def test_d_only_the_flaky_path_loses(stem: str) -> None:
    """What is lost is lost by the senders of the named legs, within the burst, on paths of the flaky host."""
    lost = records(finished(f"{D}/{stem}.toml"), "DropOnSend")
    assert {record.event["reason"] for record in lost} == {"lossy"}
    assert {record.event["from"] for record in lost} == LOSERS[stem]
    assert all("stage-2" in (record.event["from"], record.event["to"]) for record in lost)
    [burst] = [mutation for mutation in declared(f"{D}/{stem}.toml").mutations if isinstance(mutation, LossBurst)]
    assert all(burst.at_ns <= record.virtual_time_ns < burst.at_ns + burst.duration_ns for record in lost)


def test_d_every_file_of_the_family_is_covered() -> None:
    """The table above names each fault file."""
    assert {f"{D}/{stem}.toml" for stem in LOSERS} == set(members(D))


def test_d_the_victims_probes_differ() -> None:
    """Probe outcome mix: a probe that is not acknowledged directly has the flaky host at one end, always."""
    run = finished(f"{D}/central.toml")
    late = [(record.host_id, record.event["target"]) for record in records(run, "SwimProbeTimedOut")]
    assert len(late) >= 5
    assert all("stage-2" in pair for pair in late)


# --- E: a peer dies without a word ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*members(E), f"{E}/healthy.toml"])
def test_e_the_bundle_of_a_killed_run_is_whole(name: str, tmp_path: Path) -> None:
    """Ruling B12: `finalize_received` is false exactly if somebody is dead at the end; nothing before the kill is missing."""
    registry = Kinds()
    done = run_to_bundle(load(path_of(name), registry), tmp_path / "bundle", registry)
    bundle = Bundle(done.bundle)
    killed = [mutation for mutation in declared(name).mutations if isinstance(mutation, PeerKill)]
    assert bundle.manifest["finalize_received"] is not bool(killed)
    assert len(done.verdicts) == len(declared(name).assertions)
    assert failed(done.verdicts) == []
    for kill in killed:
        own = [
            record for record in records(finished(name), "SwimProbeSent", "MessageSent") if record.host_id == kill.peer
        ]
        assert 0 < max(record.virtual_time_ns for record in own) < kill.at_ns


def test_e_the_dead_are_found_dead_and_others_are_not() -> None:
    """After the kill of orch the two stages hold it Dead and each other Alive."""
    run = finished(f"{E}/central.toml")
    for observer, other in (("stage-0", "stage-2"), ("stage-2", "stage-0")):
        held = {peer["peer"]: peer["state"] for peer in snapshots(run, observer)[90 * S]["peers"]}
        assert (held["orch"], held[other]) == ("Dead", "Alive")


# --- F: two faults at once --------------------------------------------------------------------------------------------------

PARTS: Final = (f"{F}/only_partition.toml", f"{F}/only_conn_down.toml")


HASTY: Final = {
    "probe_timeout_ns": 300_000_000,
    "suspicion_timeout_ns": 1_200_000_000,
    "defects": ["REFUTE_STALE_CLAIM", "HEARSAY_OVER_EVIDENCE"],
}
"""A direct timeout below the round trip, on the deployed rules of refutation."""


def violated(name: str, **changes: Any) -> set[tuple[str, str]]:
    """The claims of family F that a file violates, as (kind, parameters), with changes to every `kind_config`."""
    peers = tuple(
        msgspec.structs.replace(peer, kind_config=peer.kind_config | changes) for peer in declared(name).peers
    )
    claims = declared(f"{F}/erased_names.toml").assertions
    found = play(msgspec.structs.replace(declared(name), peers=peers, assertions=claims), KINDS).verdicts()
    assert {verdict.outcome for verdict in found} <= {"Pass", "Fail"}
    return {(verdict.kind, str(verdict.parameters)) for verdict in found if verdict.outcome == "Fail"}


def union_of_parts(**changes: Any) -> set[tuple[str, str]]:
    """What the two constituent faults violate, each on its own."""
    return violated(PARTS[0], **changes) | violated(PARTS[1], **changes)


@pytest.mark.parametrize("stem", ["central", "full_overlap", "abutting", "in_recovery"])
def test_f_the_compound_is_no_more_than_its_parts(stem: str) -> None:
    """On the fixed source: whatever a compound fault violates, a constituent violates alone."""
    assert violated(f"{F}/{stem}.toml") <= union_of_parts()


def test_f_a_compound_bug_is_told_from_the_union_of_parts() -> None:
    """With names that a false death erases, neither part violates anything and the compound does: a compound bug."""
    defects = ["FALSE_DEATH_ERASES_NAMES"]
    assert union_of_parts(defects=defects) == set()
    assert {kind for kind, _ in violated(f"{F}/central.toml", defects=defects)} == {"name_resolves_within"}
    assert failed(verdicts(f"{F}/erased_names.toml")) == ["name_resolves_within"]


def test_f_a_compound_bug_of_the_source_as_it_is() -> None:
    """buried_by_rumour.toml: a Dead rumour is believed at once, so who was isolated buries the living; no part does that alone."""
    name = f"{F}/buried_by_rumour.toml"
    scenario = declared(name)
    assert failed(verdicts(name)) == ["no_dead_when_probes_ok"]
    connection = tuple(m for m in scenario.mutations if isinstance(m, RelayPeerConnDown))
    partition = tuple(m for m in scenario.mutations if not isinstance(m, RelayPeerConnDown))
    for part in (partition, connection):
        assert failed(play(msgspec.structs.replace(scenario, mutations=part), KINDS).verdicts()) == []


def test_f_a_bug_of_a_part_is_no_compound_bug() -> None:
    """A timeout below the round trip makes the parts flap by themselves: the compound violates something, and no more than they."""
    assert violated(f"{F}/central.toml", **HASTY)
    assert violated(f"{F}/central.toml", **HASTY) <= union_of_parts(**HASTY)


def test_f_what_only_the_compound_does() -> None:
    """Neither part changes any state; together they leave nobody who can vouch for stage-2, which is found Dead."""
    assert [count(finished(part), "SwimTransition") for part in PARTS] == [0, 0]
    assert count(finished(f"{F}/central.toml"), "SwimTransition", peer="stage-2", to="Dead") > 0
