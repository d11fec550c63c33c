"""The member list: merge laws, local steps, refutation (reference sections 2, 15; rulings S3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.config import MAX_INCARNATION, Defect
from simharness.systems.swim.ids import node_id
from simharness.systems.swim.members import MemberList, MemberState

ALIVE, SUSPECT, DEAD = MemberState
HOSTS = "abcdef"
SELF = node_id("a")
CLAIMS = st.tuples(st.sampled_from(HOSTS), st.sampled_from(MemberState), st.integers(0, 4))


def views(members: MemberList) -> list[tuple[bytes, MemberState, int]]:
    return [(node, member.state, member.incarnation) for node, member in members]


@given(claims=st.lists(CLAIMS, max_size=30), data=st.data())
def test_the_merge_is_the_maximum_in_any_order(claims: list[tuple[str, MemberState, int]], data: st.DataObject) -> None:
    """Whatever the order of arrival, the entry is the maximum by (incarnation, priority); self is never stored."""
    oracle: dict[bytes, tuple[int, MemberState]] = {}
    for host, state, incarnation in claims:
        if host != "a":
            oracle[node_id(host)] = max(oracle.get(node_id(host), (-1, ALIVE)), (incarnation, state))
    for order in (claims, data.draw(st.permutations(claims)), [*claims, *claims]):
        members = MemberList(SELF)
        for host, state, incarnation in order:
            members.apply(node_id(host), state, incarnation)
        assert views(members) == [(node, state, inc) for node, (inc, state) in sorted(oracle.items())]
        alive = [node for node, state, _ in views(members) if state is not DEAD]
        dead = [node for node, state, _ in views(members) if state is DEAD]
        assert (members.alive_members(), members.dead_members()) == (alive, dead)
        assert (members.alive_count, members.cluster_size) == (len(alive), len(alive) + 1)


@given(claims=st.lists(CLAIMS, max_size=30))
def test_news_is_what_strictly_dominates(claims: list[tuple[str, MemberState, int]]) -> None:
    """`apply` tells change exactly when there was no entry or it moved up; a stored incarnation never decreases (A03)."""
    members = MemberList(SELF)
    for host, state, incarnation in claims:
        before = members.get(node_id(host))
        old = None if before is None else (before.incarnation, before.state)
        news = members.apply(node_id(host), state, incarnation)
        if host == "a":
            assert not news
            assert members.get(SELF) is None
            continue
        after = members.get(node_id(host))
        assert after is not None
        assert news == (old is None or (incarnation, state) > old)
        assert old is None or (after.incarnation, after.state) >= old


STEPS = st.one_of(
    st.tuples(st.just("apply"), st.sampled_from(HOSTS), st.sampled_from(MemberState), st.integers(0, 3)),
    st.tuples(st.sampled_from(["suspect", "declare_dead"]), st.sampled_from(HOSTS), st.just(ALIVE), st.just(0)),
)


@given(steps=st.lists(STEPS, max_size=40))
def test_cached_lists_follow_every_change(steps: list[tuple[str, str, MemberState, int]]) -> None:
    """The cached alive and dead lists and the count equal what a fresh look gives, after every step."""
    members = MemberList(SELF)
    members.preload([(node_id(host), 0) for host in "abc"])
    for step, host, state, incarnation in steps:
        if step == "apply":
            members.apply(node_id(host), state, incarnation)
        else:
            getattr(members, step)(node_id(host))
        now = views(members)
        assert members.alive_members() == [node for node, state, _ in now if state is not DEAD]
        assert members.dead_members() == [node for node, state, _ in now if state is DEAD]
        assert members.alive_count == len(members.alive_members())
        assert [node for node, _, _ in now] == sorted(node for node, _, _ in now)
        assert len(members) == len(now)


def test_the_local_life_cycle_goes_in_steps() -> None:
    """Suspect only from Alive, Dead only from Suspect, at the same incarnation; both refuse to repeat."""
    members = MemberList(SELF)
    node = node_id("b")
    assert not members.suspect(node)
    members.apply(node, ALIVE, 3)
    assert not members.declare_dead(node)
    assert members.suspect(node)
    assert not members.suspect(node)
    assert members.declare_dead(node)
    assert not members.declare_dead(node)
    assert views(members) == [(node, DEAD, 3)]
    assert members.apply(node, ALIVE, 4)


def test_a03_stale_alive_does_not_revive() -> None:
    """Case A03: Dead@10 is not undone by Alive@2 or Alive@10, only by Alive@11."""
    members = MemberList(SELF)
    node = node_id("b")
    seen = []
    for state, incarnation in [(ALIVE, 1), (DEAD, 1), (DEAD, 10), (ALIVE, 2), (ALIVE, 10), (ALIVE, 11)]:
        members.apply(node, state, incarnation)
        seen.append(views(members)[0][1:])
    assert seen == [(ALIVE, 1), (DEAD, 1), (DEAD, 10), (DEAD, 10), (DEAD, 10), (ALIVE, 11)]
    members.apply(node_id("c"), SUSPECT, 3)
    members.apply(node_id("c"), DEAD, 2)
    assert (SUSPECT, 3) in [view[1:] for view in views(members)]


@given(own=st.integers(0, MAX_INCARNATION), claim=st.integers(0, MAX_INCARNATION - 1))
def test_a01_refutation_law(own: int, claim: int) -> None:
    """Case A01, ruling S3: a claim at or above own is answered one above it, any other changes nothing."""
    members = MemberList(SELF, incarnation=own)
    bumped = members.refute(claim)
    assert bumped == (own <= claim)
    assert members.self_incarnation == (claim + 1 if bumped else own)
    assert members.self_incarnation <= MAX_INCARNATION


@given(own=st.integers(0, 2**63 - 2), claim=st.integers(0, 2**63 - 2))
def test_one_step_and_stale_refutes(own: int, claim: int) -> None:
    """Defects B1 and B5: any claim bumps, and by one."""
    members = MemberList(SELF, incarnation=own, defects=frozenset({Defect.REFUTE_STALE_CLAIM, Defect.ONE_STEP_REFUTE}))
    assert members.refute(claim)
    assert members.self_incarnation == own + 1


@pytest.mark.parametrize("defects", [frozenset(), frozenset({Defect.REFUTE_STALE_CLAIM, Defect.ONE_STEP_REFUTE})])
def test_the_highest_incarnation_is_the_end(defects: frozenset[Defect]) -> None:
    """Ruling S3: a node at 2**63-1 neither refutes further nor is suspected."""
    members = MemberList(SELF, incarnation=MAX_INCARNATION, defects=defects)
    assert not members.refute(5)
    members.apply(node_id("b"), ALIVE, MAX_INCARNATION)
    assert not members.suspect(node_id("b"))


def test_unordered_members_differ_from_node_to_node() -> None:
    """Defect B9: two lists built in one process iterate in different orders; without it, in the order of ids."""
    nodes = [(node_id(str(number)), 0) for number in range(40)]
    orders = []
    for _ in range(2):
        members = MemberList(SELF, defects=frozenset({Defect.UNORDERED_MEMBERS}))
        members.preload(nodes[:30])
        for node, incarnation in nodes[30:]:
            members.apply(node, ALIVE, incarnation)
        orders.append(members.alive_members())
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(node for node, _ in nodes)
    ordered = MemberList(SELF)
    ordered.preload(nodes)
    assert ordered.alive_members() == sorted(node for node, _ in nodes)
