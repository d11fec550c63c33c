"""What the engine makes of a copy (`duplicate_burst`, ruling N24)."""

from collections.abc import Sequence
from typing import Any

from simharness.contracts.host import Action, Send
from simharness.contracts.mutations import Mutation, PeerKill
from simharness.contracts.network import Arrive, Drop, InvalidatedDelivery, MutationEffect, Notice
from simharness.engine.engine import Engine
from tests.engine.scripted import MS, ConstantNetwork, Log, ScriptedKind, disks_of, heard, scenario


def notice(at_ns: int, word: str) -> Notice:
    return Notice(at_ns, "a", "engine", {"kind": "note", "what": word})


class Doubling(ConstantNetwork):
    """Every message has a copy, 0 or more nanoseconds behind it, or one that is refused."""

    def __init__(self, behind_ns: int | None) -> None:
        super().__init__(5 * MS)
        self.behind_ns = behind_ns

    def send(self, source: str, target: str, byte_len: int, sent_at_ns: int) -> Arrive | Drop:
        at_ns, number = sent_at_ns + self.latency_ns, 2 * len(self.sent)
        self.sent.append((source, target, byte_len, sent_at_ns))
        self.in_flight.append(InvalidatedDelivery(at_ns, number, source, target, sent_at_ns, "partition"))
        if self.behind_ns is None:
            return Arrive(at_ns, number, (), duplicate=Drop("relay_queue_full", 1, (notice(sent_at_ns, "refused"),)))
        late_ns = at_ns + self.behind_ns
        self.in_flight.append(InvalidatedDelivery(late_ns, number + 1, source, target, sent_at_ns, "partition"))
        notices = (notice(sent_at_ns, "now"), notice(late_ns, "then"))
        copy = Arrive(late_ns, number + 1, notices, is_copy=True)
        return Arrive(at_ns, number, (notice(at_ns, "original"),), duplicate=copy)


class Watcher:
    """An observer that keeps deliveries in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Any) -> None:
        self.seen.append(("delivered", at_ns))

    def duplicated(self, source: str, target: str, at_ns: int) -> None:
        assert (source, target) == ("a", "b")
        self.seen.append(("duplicated", at_ns))

    def held(self, host_id: str, at_ns: int) -> None:
        raise AssertionError

    def skewed(self, host_id: str, at_ns: int, shown_ns: int) -> None:
        raise AssertionError


def twice(host: Any, now_ns: int) -> Sequence[Action]:
    """At its third tick `a` sends two messages to `b`."""
    return [Send("b", b"x"), Send("b", b"y")] if host.id == "a" and host.ticks == 3 else ()


def run(behind_ns: int | None, *mutations: Mutation, network: Any = None, **more: Any) -> Log:
    log, script = Log(), scenario("a", "b", mutations=mutations)
    network = network or Doubling(behind_ns)
    kinds = {"scripted": ScriptedKind(twice, heard)}
    Engine(script, network=network, kinds=kinds, disks=disks_of(script), sink=log, **more).run()
    return log


def test_a_copy_comes_directly_after_its_original() -> None:
    """At one instant the order is original, copy, next original; the notices of both stand before either."""
    watcher = Watcher()
    log = run(0, observer=watcher)
    at_ns = log.heard("b")[0][0]
    assert log.heard("b") == [(at_ns, f"app {word}") for word in "xxyy"]
    noted = [event["what"] for t, event in log.of_kind("note")]
    assert noted == ["now", "now", "original", "then", "original", "then"]
    assert watcher.seen == [("delivered", at_ns), ("delivered", at_ns), ("duplicated", at_ns)] * 2


def test_a_copy_arrives_in_its_own_time() -> None:
    """It is an entry of its own in the queue."""
    log = run(3 * MS)
    at_ns = log.heard("b")[0][0]
    assert log.heard("b") == [(at_ns, "app x"), (at_ns, "app y"), (at_ns + 3 * MS, "app x"), (at_ns + 3 * MS, "app y")]


def test_a_refused_copy_leaves_its_record_and_nobody_hears_of_it() -> None:
    """`DropOnSend` at the time of the send, after its notices, and never a `SendFailed`; the original arrives."""
    log = run(None)
    at_ns = log.heard("b")[0][0]
    drop = {"kind": "DropOnSend", "from": "a", "to": "b", "reason": "relay_queue_full"}
    assert log.of_kind("DropOnSend") == [(at_ns - 5 * MS, drop)] * 2
    assert [kind for _, host, _, kind in log.lines() if host == "a"] == [
        {"kind": "note", "what": "refused"},
        drop,
    ] * 2
    assert log.of_kind("SendFailed") == []
    assert [what for _, what in log.heard("b")] == ["app x", "app y"]
    assert log.heard("a") == []


def test_a_kill_loses_copies_like_originals() -> None:
    """Each has a `DropOnDelivery` of its own, in the order of the queue."""
    at_ns = run(3 * MS).heard("b")[0][0]
    both = run(3 * MS, PeerKill(at_ns=at_ns - MS, peer="b"))
    assert [event["reason"] for _, event in both.of_kind("DropOnDelivery")] == ["host_killed"] * 4
    copies = run(3 * MS, PeerKill(at_ns=at_ns + MS, peer="b"))
    assert [what for _, what in copies.heard("b")] == ["app x", "app y"]
    assert len(copies.of_kind("DropOnDelivery")) == 2


def test_no_effect_is_forgotten() -> None:
    """The network of these tests keeps copies in flight, so that a kill finds them."""
    network = Doubling(3 * MS)
    outcome = network.send("a", "b", 1, 0)
    assert isinstance(outcome, Arrive)
    assert network.apply_mutation(PeerKill(at_ns=1, peer="b"), 1) != MutationEffect()
