"""A relay's book of probes (reference section 6, PingReq; ruling F1)."""

from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.ids import node_id
from simharness.systems.swim.relays import MAX_PENDING, Relayed, Relays, nack_after

B, C, D = map(node_id, "bcd")


def probe(number: int, target: bytes = C) -> Relayed:
    return Relayed(B, node_id("c") if target == C else D, 100 + number, number)


def test_an_ack_closes_the_probe_that_it_answers() -> None:
    """Target and number must match; the second ack finds nothing."""
    relays = Relays()
    relays.add(probe(1), None)
    relays.add(probe(2), None)
    assert relays.answered(D, 2) is None
    assert relays.answered(C, 3) is None
    assert relays.answered(C, 2) == probe(2)
    assert relays.answered(C, 2) is None
    assert relays.due() is None


def test_the_seventeenth_drops_the_oldest_and_its_nack_is_still_owed() -> None:
    """Bounded memory: only the ack of the oldest finds nobody."""
    relays = Relays()
    for number in range(MAX_PENDING + 1):
        relays.add(probe(number), 5)
    assert relays.answered(C, 0) is None
    assert relays.answered(C, 1) == probe(1)
    assert relays.unanswered(5) == [probe(number) for number in (0, *range(2, MAX_PENDING + 1))]


def test_a_nack_is_due_once_and_not_after_the_ack() -> None:
    """Late ones come in the order of asking."""
    relays = Relays()
    for number, nack_at in ((1, 8), (2, 6), (3, 9)):
        relays.add(probe(number), nack_at)
    assert relays.due() == 6
    assert relays.answered(C, 1) == probe(1)
    assert relays.unanswered(5) == []
    assert relays.unanswered(9) == [probe(2), probe(3)]
    assert relays.unanswered(99) == []
    assert relays.answered(C, 3) == probe(3)


@given(timeout=st.integers(1, 10**6))
def test_a_nack_leaves_time_to_arrive(timeout: int) -> None:
    """At least a tick, and before the timeout wherever there is room."""
    assert 1 <= nack_after(timeout) <= max(1, timeout - timeout // 5)
