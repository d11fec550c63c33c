"""One event at a time: what fits a type of production travels as it, what does not travels as `Custom`, and both come back."""

from typing import Any, Final

import pytest
from hypothesis import given, settings

from simharness.bundle.production.kinds import fault_of
from simharness.bundle.production.names import ENGINE_ID, Names, Node
from simharness.bundle.production.reachability import Reachability
from simharness.bundle.production.translate import Emitter, from_production, tag_of, to_production
from simharness.systems.swim.ids import node_id
from tests.bundle.production_support import MS
from tests.bundle.test_production_round_trip import events, strict

HOSTS: Final = ("a", "stage-0", "stage-1", "r")
NAMES: Final = Names(
    [Node(host, node_id(host), host, None) for host in HOSTS] + [Node("engine", ENGINE_ID, "", None, synthetic=True)]
)
ENVELOPE: Final[dict[str, Any]] = {"node_id": [0] * 32, "monotonic_seq": 1, "wall_ms": 1}
A_HEX: Final = node_id("a").hex()


def there(event: dict[str, Any], *dialled: str) -> dict[str, Any]:
    """The record of an event of host `a`, which has dialled some others at 1 ms."""
    emitter = Emitter("a", dict.fromkeys(dialled, MS))
    record = ENVELOPE | to_production(event, emitter, 4 * MS + 999_999, NAMES)
    assert fault_of(record) is None
    return record


@settings(max_examples=400)
@given(event=events())
def test_there_and_back(event: dict[str, Any]) -> None:
    """Whatever a host emits: a sound record, and the same event again (rulings B11, B13)."""
    assert strict(from_production(there(event, "stage-0", "r"), "a", NAMES)) == strict(event)


MOVE: Final = {"kind": "SwimTransition", "peer": "stage-0", "from": "Alive", "to": "Dead", "reason": "gossip"}
SENT: Final = {"kind": "MessageSent", "peer": "stage-0", "message_kind": "k", "size": 1}
DIAL: Final = {"kind": "DialStart", "from": "a", "to": "stage-0"}
DONE: Final = {"kind": "DialOutcome", "from": "a", "to": "stage-0", "warm": True}
ERROR: Final = {"kind": "Error", "component": "codec", "message": "m", "peer": None}


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (MOVE, "SwimTransition"),
        (MOVE | {"peer": "ab" * 32}, "SwimTransition"),
        (SENT, "MessageSent"),
        (SENT | {"size": 2**32 - 1}, "MessageSent"),
        (DIAL, "DialStarted"),
        (DIAL | {"to": "r"}, "DialStarted"),
        (DONE, "DialOutcome"),
        (ERROR, "Error"),
        (ERROR | {"peer": "stage-1"}, "Error"),
        # nearly: each breaks one thing
        (MOVE | {"more": 1}, "Custom"),
        (MOVE | {"peer": "nobody"}, "Custom"),
        (MOVE | {"peer": A_HEX}, "Custom"),  # would come back as the name
        (MOVE | {"peer": ""}, "Custom"),  # the engine has no name
        (MOVE | {"peer": None}, "Custom"),
        (MOVE | {"peer": [0] * 32}, "Custom"),
        (MOVE | {"to": "dead"}, "Custom"),
        ({name: value for name, value in MOVE.items() if name != "reason"}, "Custom"),
        (SENT | {"size": 2**32}, "Custom"),
        (SENT | {"size": True}, "Custom"),
        (SENT | {"size": -1}, "Custom"),
        (DIAL | {"from": "stage-1"}, "Custom"),
        (DIAL | {"to": "nobody"}, "Custom"),
        (DIAL | {"warm": True}, "Custom"),
        (DONE | {"warm": False}, "Custom"),
        (DONE | {"warm": 1}, "Custom"),
        (DONE | {"to": "stage-1"}, "Custom"),  # nobody saw it begin
        ({"kind": "DialStarted", "peer": "stage-0", "attempt": 1, "timeout_ms": 1}, "Custom"),  # not our spelling
        ({"kind": "Custom", "fields": 1}, "Custom"),
        ({"kind": ""}, "Custom"),
        ({"kind": 7, "x": 1}, "Custom"),
        ({"kind": ["SwimTransition"]}, "Custom"),
    ],
)
def test_typed_or_custom(event: dict[str, Any], name: str) -> None:
    """A type is used only where the event fits it to the letter, and either way it comes back."""
    record = there(event, "stage-0")
    assert record["type"] == name
    assert strict(from_production(record, "a", NAMES)) == strict(event)


def test_a_dial_has_its_duration() -> None:
    """From the start of the dial to its outcome, in whole milliseconds."""
    assert there(DONE, "stage-0")["duration_ms"] == 3


def test_a_custom_of_production_keeps_what_it_holds() -> None:
    """Fields that are no object, or that have a kind of their own, stand beside the name."""
    for fields in (None, 5, [1], {"kind": "inner"}):
        record = ENVELOPE | {"type": "Custom", "kind": "clock", "fields": fields}
        assert from_production(record, "a", NAMES) == {"kind": "clock", "fields": fields}
    assert from_production(ENVELOPE | {"type": "Custom", "kind": "clock", "fields": {"x": 1}}, "a", NAMES) == {
        "kind": "clock",
        "x": 1,
    }


def test_kind_tags_where_nothing_else_tells() -> None:
    """By the kind of the event."""
    tags = {
        tag_of(kind) for kind in ("SwimTransition", "DialStart", "RelayDrop", "worker_exited", "Mutation", "clock", 7)
    }
    assert tags == {"swim", "engine", "relay", "stage", "mutation", "production"}


def test_reachability_prefers_what_the_state_says() -> None:
    """Without a transition, or against the last one, the tier-2 state's opinion stands, and since when is unknown (ruling B16)."""
    known = Reachability()
    known.follow(there(MOVE))
    key, other = node_id("stage-0").hex(), node_id("stage-1").hex()
    rows = {row["peer_node_id_hex"]: row for row in known.rows({})}
    assert (rows[key]["current_swim_opinion"], rows[key]["current_swim_opinion_since_ms"]) == ("Dead", 1)
    rows = {row["peer_node_id_hex"]: row for row in known.rows({key: "Alive", other: "Suspect"})}
    assert (rows[key]["current_swim_opinion"], rows[key]["current_swim_opinion_since_ms"]) == ("Alive", None)
    assert (rows[other]["current_swim_opinion"], rows[other]["current_swim_opinion_since_ms"]) == ("Suspect", None)
    assert [step["to"] for step in rows[key]["swim_transition_history"]] == ["Dead"]


def test_reachability_keeps_the_last_32_transitions() -> None:
    """Newest last."""
    known = Reachability()
    for at_ms in range(40):
        known.follow(there(MOVE) | {"wall_ms": at_ms})
    (row,) = known.rows({})
    assert [step["at_ms"] for step in row["swim_transition_history"]] == [*range(8, 40)]
