"""Names and metadata (reference section 9, design "Names"; defects B2, B6)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.config import Defect
from simharness.systems.swim.ids import NodeId, node_id
from simharness.systems.swim.members import MemberList, MemberState
from simharness.systems.swim.messages import MetadataEntry, MetadataGossip, NameEntry, Ping, RegistryGossip
from simharness.systems.swim.names import COLLECT_AFTER, Metadata, Registry
from simharness.systems.swim.wire import encode, unpack
from tests.systems.swim.driver import MS, Cluster, alone, constant, next_ping, rumour, run_ticks, sent

ALIVE, SUSPECT, DEAD = MemberState
A, B = node_id("a"), node_id("b")
ENTRIES = st.builds(
    NameEntry,
    st.sampled_from(["x", "y"]),
    st.just(A),
    st.sampled_from([node_id(host) for host in "bcd"]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
)


def registry(*others: str, defects: frozenset[Defect] = frozenset()) -> Registry:
    members = MemberList(A)
    members.preload([(node_id(other), 0) for other in others])
    return Registry(members, defects)


def entry(name: str, owner: NodeId, timestamp: int, *, tombstone: bool = False) -> NameEntry:
    return NameEntry(name, owner, owner, timestamp, 1, tombstone)


@given(entries=st.lists(ENTRIES, max_size=10), data=st.data())
def test_last_writer_wins_in_any_order(entries: list[NameEntry], data: st.DataObject) -> None:
    """The entry that stays is the maximum by (timestamp, generation, node); ties are kept."""
    found = []
    for order in (entries, data.draw(st.permutations(entries))):
        names = registry("b")
        for one in order:
            names.merge(one)
        found.append({name: one[3:5] + one[2:3] for name, one in names._entries.items()})
    best: dict[str, tuple[int, int, bytes]] = {}
    for one in entries:
        key = (one.timestamp, one.generation, one.node)
        best[one.name] = max(best.get(one.name, key), key)
    assert found[0] == found[1] == best


def test_the_clock_passes_what_it_has_seen() -> None:
    """A registration after a remote entry beats it, and counts the generation on."""
    names = registry("b")
    names.merge(entry("x", B, 41))
    names.register("x", A)
    assert names.live()["x"] == NameEntry("x", A, A, 43, 2, tombstone=False)


def test_budget_and_order_of_sending() -> None:
    """Eight at a time, first come first served, three times ceil(log2 n) each; a re-queue refills."""
    names = registry("b", "c", "d")
    for number in range(10):
        names.register(f"n{number}", A)
    sends: dict[str, int] = {}
    while names.pending:
        taken = names.take(8, 10**6)
        assert len(taken) <= 8
        for one in taken:
            sends[one.name] = sends.get(one.name, 0) + 1
    assert sends == {f"n{number}": 6 for number in range(10)}
    names.requeue_all()
    assert names.pending


def test_own_tombstone_is_answered_unless_the_name_was_given_up() -> None:
    """B6: the owner registers anew above its tombstone; after `unregister` it does not."""
    names = registry("b")
    names.register("x", A)
    names.merge(entry("x", A, 50, tombstone=True))
    assert names.live()["x"].timestamp == 52
    names.unregister("x")
    names.merge(entry("x", A, 90, tombstone=True))
    assert names.live() == {}
    stuck = registry("b", defects=frozenset({Defect.FALSE_DEATH_ERASES_NAMES}))
    stuck.register("x", A)
    stuck.merge(entry("x", A, 50, tombstone=True))
    assert stuck.live() == {}


def test_another_owner_is_not_fought() -> None:
    """A name that a later writer took is left to it: only tombstones of one's own are answered."""
    names = registry("b")
    names.register("x", A)
    names.merge(entry("x", B, 50))
    assert names.live()["x"].node == B
    names.merge(entry("x", B, 60, tombstone=True))
    assert names.live() == {}


def test_old_tombstones_are_collected() -> None:
    """Only tombstones, only when no longer gossiped, only past the limit."""
    names = registry("b")
    names.merge(entry("x", B, 1, tombstone=True))
    names.merge(entry("y", B, COLLECT_AFTER + 1))
    names.collect()
    assert set(names._entries) == {"x", "y"}  # still to be sent
    while names.pending:
        names.take(8, 10**6)
    names.collect()
    assert set(names._entries) == {"y"}


def test_names_must_fit() -> None:
    """An empty or too long name is refused by its own node."""
    for name in ("", "n" * 255, "\x01" * 43):
        with pytest.raises(ValueError, match="non-empty"):
            registry().register(name, A)
    registry().register("n" * 254, A)


def test_metadata_generations() -> None:
    """The higher generation wins; what a Dead node told is forgotten."""
    metadata = Metadata(MemberList(A))
    metadata.set_local("url", None)
    metadata.set_local("url", "me")
    assert metadata.version(A) == 2
    metadata.merge(MetadataEntry(B, None, "b", 3))
    metadata.merge(MetadataEntry(B, None, "old", 2))
    assert [one.node_name for one in metadata.take(4, 10**6)] == ["me", "b"]
    metadata.forget(B)
    assert metadata.version(B) is None


def test_frames_follow_pings_and_acks() -> None:
    """At most one frame of each sort after a Ping or Ack, to the same peer; the piggyback itself carries none of it."""
    node = alone(names=("x",), relay_url="url")
    _, ping = next_ping(node)
    assert not ping.message.piggyback
    out = sent(node.handle(Ping(sender=B, sequence=1), 0))
    assert [type(output.message).__name__ for output in out] == ["Ack", "RegistryGossip", "MetadataGossip"]
    assert {output.to for output in out} == {B}
    other = alone("b", "ac")
    for output in out[1:]:
        other.handle(output.message, 0)
    assert other.resolve("x") == A


def test_combined_piggyback() -> None:
    """Defect B2: every message carries the wrapper, names and metadata nested in it, and no frames follow."""
    node = alone(names=("x",), relay_url="url", defects=frozenset({Defect.COMBINED_PIGGYBACK}))
    out = sent(node.handle(rumour(("c", DEAD, 0)), 0))
    assert len(out) == 1
    gossip = unpack(out[0].message.piggyback)
    assert [update.state for update in gossip.updates] == [DEAD]
    assert [one.name for one in gossip.names] == ["x"]
    assert [one.relay_url for one in gossip.metadata] == ["url"]
    other = alone("b", "ac")
    other.handle(out[0].message, 0)
    assert other.resolve("x") == A
    idle = alone(defects=frozenset({Defect.COMBINED_PIGGYBACK}))
    assert len(next_ping(idle)[1].message.piggyback) == 45  # the wrapper is written even when all parts are empty


@pytest.mark.parametrize(("defects", "again"), [((), False), ((Defect.COMBINED_PIGGYBACK,), True)])
def test_a_refutation_repeats_everything_only_when_combined(defects: tuple[Defect, ...], again: bool) -> None:
    """B2's coupling: Alive to Alive re-queues all names; ours repeats them only to the new and the returned."""
    node = alone(names=("x",), defects=frozenset(defects))
    run_ticks(node, 200)
    while node._names.registry.pending:
        node.handle(Ping(sender=B, sequence=1), 0)
    node.handle(rumour(("c", ALIVE, node.members.get(node_id("c")).incarnation + 50)), 0)  # type: ignore[union-attr]
    before = node.members.get(node_id("c"))
    assert before is not None
    while node._names.registry.pending:
        node.handle(Ping(sender=B, sequence=1), 0)
    node.handle(rumour(("c", ALIVE, 99)), 0)
    assert node._names.registry.pending is again
    node.handle(rumour(("z", ALIVE, 0)), 0)
    assert node._names.registry.pending


def resolved(cluster: Cluster, name: str) -> list[NodeId | None]:
    return [cluster.nodes[host].resolve(name) for host in cluster.hosts]


def false_death(**changes: Any) -> Cluster:
    """Three nodes; `c` is cut off until both others hold it Dead, then comes back."""
    cut = {"on": False}

    def delay(source: str, target: str, _now: int) -> int | None:
        return None if cut["on"] and "c" in (source, target) else 5 * MS

    cluster = Cluster("abc", delay, names=("x",), **changes)
    for host in "abc":
        cluster.nodes[host].unregister("x")
        cluster.nodes[host].register(f"name-{host}")
    cluster.run(10_000 * MS)
    assert resolved(cluster, "name-c") == [node_id("c")] * 3
    cut["on"] = True
    cluster.run(25_000 * MS)
    assert resolved(cluster, "name-c")[:2] == [None, None]
    cut["on"] = False
    cluster.run(60_000 * MS)
    return cluster


def test_a_false_death_does_not_erase_names() -> None:
    """B6: after a partition every name resolves everywhere again, the cut-off node's view of the others included."""
    cluster = false_death()
    for host in "abc":
        assert resolved(cluster, f"name-{host}") == [node_id(host)] * 3


def test_a_false_death_erases_names_with_the_defect() -> None:
    """FALSE_DEATH_ERASES_NAMES: the tombstones win for good."""
    cluster = false_death(defects=frozenset({Defect.FALSE_DEATH_ERASES_NAMES}))
    assert resolved(cluster, "name-c") == [None] * 3


def test_names_reach_a_newcomer_and_a_restarted_owner_keeps_its_name() -> None:
    """Joiner learns all names; a killed owner's name is buried, and resolves again after a fresh restart."""
    cluster = Cluster("abcd", constant(5 * MS), joining={"d": ["a"]}, names=("x",))
    cluster.run(10_000 * MS)
    assert None not in resolved(cluster, "x")
    owner = next(host for host in "abcd" if cluster.nodes["a"].resolve("x") == node_id(host))
    cluster.kill(owner)
    cluster.run(25_000 * MS)
    cluster.resurrect(owner, preserve=False)
    cluster.run(60_000 * MS)
    assert len(set(resolved(cluster, "x"))) == 1
    assert None not in resolved(cluster, "x")


def test_receipts_name_their_sender() -> None:
    """Frames carry `from` before their entries."""
    assert encode(RegistryGossip(sender=A, entries=())).startswith(b'{"from":[')
    assert encode(MetadataGossip(sender=A, entries=())).endswith(b',"entries":[]}')
