"""`Delivered` records: what reached a host, by the engine's word (architecture, section 4)."""

from collections.abc import Sequence
from typing import Any

from simharness.contracts.host import Action, RecordEvent, Send, Wire
from simharness.contracts.mutations import Mutation, Partition, PeerKill, PeerPause
from simharness.engine.engine import Engine
from tests.engine.scripted import MS, ConstantNetwork, Log, ScriptedKind, disks_of, heard, scenario

LONG = bytes(range(40))


class Witnessed(ScriptedKind):
    """Messages are (tag, payload)."""

    def encode(self, message: Any) -> Wire:
        return Wire(*message)

    def decode(self, wire: Wire) -> bytes:
        return wire.tag.encode()


def talk(host: Any, now_ns: int) -> Sequence[Action]:
    """At its third tick `a` sends three messages to `b`."""
    if host.id != "a" or host.ticks != 3:
        return ()
    return [Send("b", message) for message in (("seen", LONG), ("unseen", b"1"), ("seen", b"\xff"))]


def run(*mutations: Mutation, tags: tuple[str, ...] | None = ("seen",)) -> Log:
    log, kind = Log(), Witnessed(talk, heard)
    if tags is not None:
        kind.evidence_tags = tags  # type: ignore[attr-defined]
    script = scenario("a", "b", mutations=mutations)
    Engine(script, network=ConstantNetwork(5 * MS), kinds={"scripted": kind}, disks=disks_of(script), sink=log).run()
    return log


def test_a_delivery_of_a_listed_tag_is_recorded_just_before_it_is_heard() -> None:
    """All fields and their order, the first 20 bytes in hex, the size on the wire (N19); an unlisted tag leaves nothing."""
    log = run()
    told = [(t, host, tag, event) for t, host, tag, event in log.lines() if event["kind"] in ("Delivered", "heard")]
    at_ns = told[0][0]
    record = {
        "kind": "Delivered",
        "from": "a",
        "to": "b",
        "type_tag": "seen",
        "byte_len": 44,
        "sent_at_ns": at_ns - 5 * MS,
        "head": LONG[:20].hex(),
    }
    seen = RecordEvent({"kind": "heard", "what": "app seen"}).event
    assert told[:2] == [(at_ns, "b", "engine", record), (at_ns, "b", "scripted", seen)]
    assert list(told[0][3]) == list(record)
    assert [event["kind"] for _, _, _, event in told] == ["Delivered", "heard", "heard", "Delivered", "heard"]
    assert told[3][3] | {"byte_len": 5, "head": "ff"} == told[3][3]


def test_without_tags_a_run_leaves_the_same_records_but_for_these() -> None:
    """Opt-in: a kind that lists nothing has none, and those of another kind change nothing else."""
    silent = run(tags=None)
    assert silent.of_kind("Delivered") == []
    assert run(tags=()).lines() == silent.lines()
    assert [line for line in run().lines() if line[3]["kind"] != "Delivered"] == silent.lines()


def test_what_does_not_reach_a_host_is_no_evidence() -> None:
    """A lost delivery has none; one that a pause holds has it when it is heard, with the time of its sending."""
    at_ns = run().of_kind("Delivered")[0][0]
    cut = Partition(at_ns=at_ns - MS, peers_a=("a",), peers_b=("b",))
    assert run(cut).of_kind("Delivered") == []
    assert run(PeerKill(at_ns=at_ns - MS, peer="b")).of_kind("Delivered") == []
    paused = run(PeerPause(at_ns=at_ns - MS, peer="b", duration_ns=10 * MS)).of_kind("Delivered")
    assert [(t, event["sent_at_ns"]) for t, event in paused] == [(at_ns + 9 * MS, at_ns - 5 * MS)] * 2
