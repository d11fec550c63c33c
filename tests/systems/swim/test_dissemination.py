"""The gossip queue (reference sections 7, 15)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.dissemination import GossipQueue, transmit_budget
from simharness.systems.swim.ids import NodeId, node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.sizes import nested_cost
from simharness.systems.swim.wire import pack_updates, unpack, update_json

ALIVE, SUSPECT, DEAD = MemberState
B, C, D = map(node_id, "bcd")


def drain(queue: GossipQueue, limit: int = 8) -> int:
    """How many messages still carry something."""
    sends = 0
    while queue.take(limit):
        sends += 1
    return sends


@pytest.mark.parametrize(("size", "sends"), [(1, 3), (2, 3), (3, 6), (4, 6), (5, 9), (8, 9), (9, 12), (16, 12)])
def test_budget(size: int, sends: int) -> None:
    """An entry is sent exactly lambda x max(1, ceil(log2 n)) times."""
    queue = GossipQueue(3)
    queue.enqueue(B, ALIVE, 0, size)
    assert transmit_budget(3, size) == drain(queue) == sends
    assert len(queue) == 0


def test_a_dominating_update_replaces_and_refills() -> None:
    """A stronger claim takes the place with a full budget; an equal or weaker one changes nothing."""
    queue = GossipQueue(3)
    queue.enqueue(B, SUSPECT, 1, 2)
    queue.take(8)
    for state, incarnation in ((SUSPECT, 1), (ALIVE, 1), (DEAD, 0)):
        queue.enqueue(B, state, incarnation, 16)
    assert queue.take(8) == [update_json(B, SUSPECT, 1)]
    queue.enqueue(B, ALIVE, 2, 2)
    assert queue.take(8) == [update_json(B, ALIVE, 2)]
    assert drain(queue) == 2


def test_dead_first_then_suspect_and_the_order_persists() -> None:
    """Priority descends, ties keep insertion order."""
    queue = GossipQueue(3)
    for node, state in ((B, ALIVE), (C, SUSPECT), (D, DEAD), (node_id("e"), SUSPECT)):
        queue.enqueue(node, state, 0, 16)
    taken = unpack(pack_updates(queue.take(8))).updates
    assert [(update.node, update.state) for update in taken] == [
        (D, DEAD),
        (C, SUSPECT),
        (node_id("e"), SUSPECT),
        (B, ALIVE),
    ]
    assert len(queue.take(2)) == 2
    assert queue.take(0) == []


def test_named_nodes_go_first_in_their_order() -> None:
    """What is queued about them, whatever its priority; names that are not queued are skipped; the budget is charged."""
    queue = GossipQueue(1)
    for node, state in ((B, ALIVE), (C, DEAD), (D, SUSPECT)):
        queue.enqueue(node, state, 0, 2)
    assert queue.take(2, first=(node_id("z"), B, D)) == [update_json(B, ALIVE, 0), update_json(D, SUSPECT, 0)]
    assert queue.take(8) == [update_json(C, DEAD, 0)]


CLAIMS = st.lists(
    st.tuples(st.sampled_from("bcdefg"), st.sampled_from(MemberState), st.integers(0, 3)), min_size=1, max_size=20
)


@given(claims=CLAIMS, limit=st.integers(1, 8), room=st.integers(0, 2_500))
def test_one_entry_a_node_within_limit_and_room(
    claims: list[tuple[str, MemberState, int]], limit: int, room: int
) -> None:
    """Whatever is queued: one entry a node, the strongest; what is taken fits and is charged, the rest is not."""
    queue = GossipQueue(1)
    best: dict[bytes, tuple[int, MemberState]] = {}
    for host, state, incarnation in claims:
        queue.enqueue(node_id(host), state, incarnation, 2)
        best[node_id(host)] = max(best.get(node_id(host), (-1, ALIVE)), (incarnation, state))
    assert len(queue) == len(best)
    taken = queue.take(limit, room)
    assert len(taken) <= limit
    assert sum(map(nested_cost, taken)) <= room
    assert len(queue) == len(best) - len(taken)  # a budget of one: what was sent is gone
    everything = [*taken, *queue.take(8)]
    found = {update.node: (update.incarnation, update.state) for update in unpack(pack_updates(everything)).updates}
    assert found == best


def test_further_accusations_stand_beside_the_first() -> None:
    """F2: one entry an accuser, each with its own budget; the same one twice, or one without a name, adds nothing."""
    queue = GossipQueue(3)
    for accuser in (C, D, C, D, None):
        queue.enqueue(B, SUSPECT, 1, 2, accuser)
    texts = [update_json(B, SUSPECT, 1, accuser) for accuser in (C, D)]
    assert queue.take(8) == texts
    assert queue.take(8, first=(B,)) == texts[:1]  # the accused hears of it once a message
    assert queue.take(8) == texts
    assert queue.take(8) == texts[1:]  # the first is spent, the other has its turn
    assert queue.take(8) == []
    queue.enqueue(B, SUSPECT, 1, 2, C)
    assert queue.take(8) == texts[:1]


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([B, C]), st.sampled_from(MemberState), st.integers(0, 2), st.sampled_from([None, B, C, D])
        ),
        max_size=20,
    ),
    takes=st.lists(st.integers(0, 4), max_size=4),
)
def test_no_claim_below_another_about_the_same_node(
    steps: list[tuple[NodeId, MemberState, int, NodeId | None]], takes: list[int]
) -> None:
    """Whatever is enqueued, everything queued about one node says the same of it, and never twice in one name."""
    queue = GossipQueue(2)
    for number, (node, state, incarnation, accuser) in enumerate(steps):
        queue.enqueue(node, state, incarnation, 2, accuser if state is SUSPECT else None)
        if number < len(takes):
            queue.take(takes[number])
        gossip = list(queue._order)
        for about in (B, C):
            held = [(entry.incarnation, entry.state) for entry in gossip if entry.node == about]
            assert len(set(held)) <= 1
            names = [entry.accuser for entry in gossip if entry.node == about]
            assert len(names) == len(set(names))
    while queue.take(8):
        pass
    assert len(queue) == 0
    assert queue._seconds == queue._entries == {}
