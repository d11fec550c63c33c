"""A process that ends takes its names back, and one that starts anew learns what stands against its names."""

from simharness.systems.swim.config import MAX_TEXT_BYTES, MIN_MESSAGE_BYTES
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import NameEntry, RegistryGossip
from simharness.systems.swim.wire import encode
from tests.systems.swim.driver import MS, Cluster, alone, constant, rumour, sent

B, C = node_id("b"), node_id("c")


def claim(timestamp: int, *, tombstone: bool = False, owner: bytes = B) -> NameEntry:
    return NameEntry("x", owner, owner, timestamp, 1, tombstone)  # type: ignore[arg-type]  # an id is bytes


def test_farewell_goes_to_everyone_not_dead() -> None:
    """Suspects may be alive and are told; the Dead are not."""
    node = alone(others="bcd", names=("x",))
    node.handle(rumour(("c", MemberState.DEAD, 0), ("d", MemberState.SUSPECT, 0)), 0)
    frames = sent(node.farewell(5 * MS))
    assert sorted(frame.to for frame in frames) == sorted([B, node_id("d")])
    for frame in frames:
        [entry] = frame.message.entries
        assert (entry.name, entry.node, entry.tombstone) == ("x", node_id("a"), True)
    assert node.resolve("x") is None
    assert sent(node.farewell(6 * MS)) == []


def test_farewell_without_names_is_silent() -> None:
    """There is nothing to take back."""
    assert list(alone().farewell(0)) == []


def test_farewell_keeps_the_byte_cap() -> None:
    """Long names are spread over several frames, each within the smallest cap; none is left out."""
    names = tuple(f"{number}".rjust(MAX_TEXT_BYTES - 2, "n") for number in range(10))
    frames = sent(alone(others="b", names=names, max_message_bytes=MIN_MESSAGE_BYTES).farewell(0))
    assert max(len(encode(frame.message)) for frame in frames) <= MIN_MESSAGE_BYTES
    assert [entry.name for frame in frames for entry in frame.message.entries] == list(names)


def test_a_name_that_another_node_won_is_not_taken_back() -> None:
    """Ruling W4: the registration of the other node stands, in the own registry too."""
    node = alone(others="bc", names=("x",))
    node.handle(RegistryGossip(sender=B, entries=(claim(9),)), 0)
    assert sent(node.farewell(0)) == []
    assert node.resolve("x") == B


def test_owner_is_told_of_its_own_tombstone() -> None:
    """Ruling W4: a claim below the owner's own tombstone is answered with it; one above it, or of a third party, is not."""
    node = alone(others="bc")
    node.handle(RegistryGossip(sender=B, entries=(claim(5, tombstone=True),)), 0)
    [answer] = sent(node.handle(RegistryGossip(sender=B, entries=(claim(1),)), 0))
    assert (answer.to, answer.message.entries) == (B, (claim(5, tombstone=True),))
    assert sent(node.handle(RegistryGossip(sender=C, entries=(claim(1),)), 0)) == []
    assert sent(node.handle(RegistryGossip(sender=B, entries=(claim(5, tombstone=True),)), 0)) == []
    [tie] = sent(node.handle(RegistryGossip(sender=B, entries=(claim(5),)), 0))
    assert tie.message.entries == (claim(5, tombstone=True),)
    assert sent(node.handle(RegistryGossip(sender=B, entries=(claim(6),)), 0)) == []
    assert node.resolve("x") == B


def test_name_of_a_process_that_starts_anew() -> None:
    """Long after the farewell has spread, a new process of the same node gets its name back at every member."""
    cluster = Cluster("abcd", constant(5 * MS), names=())
    cluster.nodes["a"].register("x")
    cluster.run(5_000 * MS)
    assert {cluster.nodes[host].resolve("x") for host in "bcd"} == {node_id("a")}
    cluster._put("a", cluster.nodes["a"].farewell(cluster.now))
    cluster.kill("a")
    cluster.run(60_000 * MS)
    assert {cluster.nodes[host].resolve("x") for host in "bcd"} == {None}
    cluster.resurrect("a", preserve=False)
    cluster.nodes["a"].register("x")
    cluster.run(120_000 * MS)
    assert {cluster.nodes[host].resolve("x") for host in "abcd"} == {node_id("a")}
