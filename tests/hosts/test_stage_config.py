"""Validation of a stage's `kind_config` (§8.2), one rule at a time."""

from typing import Any

import pytest

from simharness.core.errors import ScenarioError
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from tests.hosts.stage_runs import KINDS, SWIM, S, scenario, stage, swim

BASE = "peers[0].kind_config"


def problems(peer: dict[str, Any]) -> list[tuple[str, str]]:
    """(field, rule) of everything that is wrong with a scenario of this one stage and a swim peer."""
    with pytest.raises(ScenarioError) as refused:
        scenario(peer, swim("n"), duration_ns=S)
    return [(problem.field, problem.rule) for problem in refused.value.problems]


@pytest.mark.parametrize("field", ["name", "address"])
@pytest.mark.parametrize("value", ["", 7, None])
def test_name_and_address_are_required(field: str, value: Any) -> None:
    """§8.2: missing, empty or no text: the error is the kind's own."""
    peer = stage("s", **{field: value})
    if value is None:
        del peer["kind_config"][field]
    assert problems(peer) == [(f"{BASE}.{field}", "must be a non-empty string")]


def test_a_stage_starts_cold() -> None:
    """§8.1: the only legal initial state."""
    assert problems(stage("s") | {"initial_state": "alive"}) == [("peers[0].initial_state", 'a stage starts "cold"')]


def test_unknown_fields_are_refused() -> None:
    """A typo is named, with what there is."""
    [(field, rule)] = problems(stage("s", adress="x"))
    assert (field, rule) == (f"{BASE}.adress", "unknown field; this kind knows: name, address, node, subprocess")


def test_odd_text_is_accepted() -> None:
    """Case L13: line separators, quotes and astral characters are fine in names and addresses."""
    text = 'a\u2028b\u0085"\\\U0001f600'
    declared = scenario(stage("s", name=text, address=text), duration_ns=S)
    assert declared.peers[0].kind_config == {"name": text, "address": text}


def test_a_name_that_a_node_carries_is_bounded() -> None:
    """Without a node any length does; with one, a name must fit the smallest message."""
    long = "n" * 300
    assert scenario(stage("s", name=long), duration_ns=S).peers[0].kind_config["name"] == long
    [(field, _)] = problems(stage("s", name=long, node={}))
    assert field == f"{BASE}.name"
    [(field, _)] = problems(stage("s", node={}, subprocess={"ready_name": long}))
    assert field == f"{BASE}.subprocess.ready_name"


@pytest.mark.parametrize(
    ("node", "field"),
    [
        ({"probe_interval_ns": 9 * S}, "probe_interval_ns"),
        ({"seeds": ["nobody"]}, "seeds[0]"),
        ({"seeds": ["s"]}, "seeds[0]"),
        ({"probe_intervall": 1}, "probe_intervall"),
        ({"names": ["pp-s"]}, "names"),
    ],
)
def test_node_is_checked_as_a_swim_peer(node: dict[str, Any], field: str) -> None:
    """Every rule of the swim kind holds inside `node`; the stage's own name is not for the node to register."""
    assert [found for found, _ in problems(stage("s", node=node))] == [f"{BASE}.node.{field}"]


@pytest.mark.parametrize("table", ["node", "subprocess"])
def test_tables_are_tables(table: str) -> None:
    """Anything else is refused in one line."""
    peer = stage("s")
    peer["kind_config"][table] = 5
    [(field, rule)] = problems(peer)
    assert field == f"{BASE}.{table}"
    assert rule.startswith("must be a table")


@pytest.mark.parametrize(
    ("subprocess", "fields"),
    [
        ({"never_ready": True, "ready_after_ns": 1}, ["ready_after_ns"]),
        ({"never_ready": 1}, ["never_ready"]),
        ({"ready_after_ns": -1}, ["ready_after_ns"]),
        ({"exit_after_ns": 1.5}, ["exit_after_ns"]),
        ({"exit_code": 1, "exit_reason": "x"}, ["exit_code", "exit_reason"]),
        ({"exit_signal": 9}, ["exit_signal"]),
        ({"exit_after_ns": 1, "exit_code": 1, "exit_signal": 9}, ["exit_signal"]),
        ({"exit_after_ns": 1, "exit_code": 256}, ["exit_code"]),
        ({"exit_after_ns": 1, "exit_signal": 0}, ["exit_signal"]),
        ({"exit_after_ns": 1, "exit_reason": ""}, ["exit_reason"]),
        ({"ready_name": ""}, ["ready_name"]),
        ({"ready": True}, ["ready"]),
    ],
)
def test_subprocess_rules(subprocess: dict[str, Any], fields: list[str]) -> None:
    """One mistake, one error, with the field that it is about."""
    found = [field for field, _ in problems(stage("s", subprocess=subprocess))]
    assert found == [f"{BASE}.subprocess.{field}" for field in fields]


@pytest.mark.parametrize(
    "subprocess",
    [
        {},
        {"never_ready": True, "ready_name": "pp-entry"},
        {"ready_after_ns": 5, "exit_after_ns": 6},
        {"exit_after_ns": 6, "exit_signal": 9},
        {"exit_after_ns": 6, "exit_code": 7, "exit_reason": "why"},
    ],
)
@pytest.mark.parametrize("node", [None, SWIM, {"profile": "deployed", "seeds": ["n"]}])
def test_parse_emit_parse_is_identity(subprocess: dict[str, Any], node: dict[str, Any] | None) -> None:
    """§8.4: the resolved form, defaults filled in, loads to the same scenario."""
    declared = scenario(stage("s", node=node, subprocess=subprocess), swim("n"), duration_ns=S)
    assert loads(emit(declared), KINDS) == declared
