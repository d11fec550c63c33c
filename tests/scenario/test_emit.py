"""Emission is the inverse of parsing (§8.4, rulings B5, L10, R12, E8)."""

import tomllib
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from simharness.contracts.mutations import kind_of
from simharness.contracts.scenario import Scenario
from simharness.contracts.topology import Topology
from simharness.scenario.build import build
from simharness.scenario.document import ARRAYS, merge
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.scenario.reading import SourceFile
from tests.scenario.strategies import PEERS, RELAYS, scenarios
from tests.scenario.support import BASE, KINDS, TOP, assertion, link, mutation, peer, relay, via

RICH = (
    BASE
    + relay("R")
    + via("a", "b", "R")
    + link("b", "c", 'occupancy = "arrival"')
    + '[[meshes]]\npeers = ["c", "a"]\nshape = "chain"\nlatency_ns = 0\n'
    + mutation("peer_resurrect", 'peer = "a"')
    + mutation("relay_peer_conn_down", 'relay = "R"\nfrom = "a"\nto = "b"')
    + mutation("loss_burst", 'links = [{ from = "a", to = "R" }]\nprob_ppm = 3\nduration_ns = 4')
    + assertion("event_count", 'event_kind = "X"\nmin = 0')
)


@pytest.mark.spec("§8.4", "Parse is invertible")
@given(scenario=scenarios())
def test_parse_emit_parse(scenario: Scenario) -> None:
    """Emitting and parsing is the identity on scenario values, and emission is a function of the value (L10)."""
    for entry in scenario.mutations + scenario.assertions:
        event(kind_of(entry))
    text = emit(scenario)
    again = loads(text, KINDS)
    assert again == scenario
    assert emit(again) == text


@given(scenario=scenarios())
def test_routes_survive(scenario: Scenario) -> None:
    """R12: what is routed, and how, is the same after emission, for every pair and leg."""
    before, after = Topology(scenario), Topology(loads(emit(scenario), KINDS))
    for source in PEERS + RELAYS:
        for target in PEERS + RELAYS:
            assert before.leg(source, target) == after.leg(source, target)
            assert before.route(source, target) == after.route(source, target)


def split(plain: dict[str, Any], cuts: dict[str, int], kept: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide a plain scenario into base and child: arrays at a cut, scalars and tables by name."""
    base = {key: value[: cuts[key]] if key in ARRAYS else value for key, value in plain.items() if key not in kept}
    child = {key: value[cuts[key] :] if key in ARRAYS else value for key, value in plain.items() if key not in base}
    child |= {key: plain[key][cuts[key] :] for key in ARRAYS if key in base}
    return base, child


@pytest.mark.spec("§8.4", "Merge is leaves-override, lists-append")
@given(scenario=scenarios(), data=st.data())
def test_split_over_two_files(scenario: Scenario, data: st.DataObject) -> None:
    """However a scenario is divided between a base and a child that extends it, it is the same scenario."""
    plain = tomllib.loads(emit(scenario))
    cuts = {key: data.draw(st.integers(0, len(plain.get(key, ())))) for key in ARRAYS}
    kept = data.draw(st.lists(st.sampled_from([key for key in plain if key not in ARRAYS]), unique=True))
    base, child = split(plain, cuts, kept)
    base["seed"] = data.draw(st.integers(-3, 3))  # overridden: not even looked at
    child["seed"] = plain["seed"]
    files = SourceFile("child", "", "", child), SourceFile("base", "", "", base)
    assert build(merge(files), KINDS, None) == scenario


def test_emitted_form() -> None:
    """B5: defaults are absent, `preserve_state` and the discipline explicit, meshes and `via` as written, config resolved."""
    scenario = loads(RICH, KINDS)
    assert loads(emit(scenario), KINDS) == scenario
    plain = tomllib.loads(emit(scenario))
    assert not {"early_terminate_on_all_assertions_resolved", "snapshots", "base"} & plain.keys()
    assert "occupancy" not in plain["default_link"]
    assert plain["peers"][0] == {"id": "a", "kind": "plain", "initial_state": "up", "kind_config": {"rate": 7}}
    assert plain["relays"] == [
        {
            "id": "R",
            "ingress_capacity_bps": 5,
            "egress_capacity_bps_per_link": 5,
            "queue_depth_bytes": 0,
            "queue_discipline": "fifo",
        }
    ]
    assert plain["meshes"] == [{"peers": ["c", "a"], "shape": "chain", "latency_ns": 0}]
    assert plain["links"] == [
        {"from": "a", "to": "b", "via": "R"},
        {"from": "b", "to": "c", "occupancy": "arrival"},
    ]
    assert plain["mutations"] == [
        {"at_ns": 5, "kind": "peer_resurrect", "peer": "a", "preserve_state": False},
        {"at_ns": 5, "kind": "relay_peer_conn_down", "relay": "R", "from": "a", "to": "b"},
        {
            "at_ns": 5,
            "kind": "loss_burst",
            "links": [{"from": "a", "to": "R"}],
            "prob_ppm": 3,
            "duration_ns": 4,
        },
    ]
    assert plain["assertions"] == [{"kind": "event_count", "event_kind": "X", "min": 0}]


@given(text=st.text(min_size=1))
@example(text='"""\r\n\\\x7f\u2028')
def test_any_name_survives(text: str) -> None:
    """L13: any text that TOML can hold comes back unchanged, on one line of the file."""
    scenario = loads(TOP.replace('"base"', '"N"') + peer("a"), KINDS)
    named = emit(
        type(scenario)(**{name: getattr(scenario, name) for name in scenario.__struct_fields__} | {"name": text})
    )
    assert loads(named, KINDS).name == text
