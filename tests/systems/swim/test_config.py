"""Configuration: defaults, profiles, aliases, refusals (design "Configuration"; rulings B5, L15, L17, S3)."""

import subprocess
import sys
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.swim.config import (
    FIELDS,
    MAX_INCARNATION,
    PROFILES,
    Defect,
    Lifeguard,
    config_from,
    resolve,
)

MS = 1_000_000
TICK = 100 * MS
GOOD: dict[str, Any] = {"probe_interval_ns": 10 * TICK, "suspicion_timeout_ns": 30 * TICK}
PEERS = ("a", "b", "c")


def check(raw: dict[str, Any], **facts: Any) -> tuple[dict[str, Any] | None, list[tuple[str, str]]]:
    return resolve(raw, **{"tick_period_ns": TICK, "peer_ids": PEERS, "own_id": "a", **facts})


def fields(raw: dict[str, Any], **facts: Any) -> list[str]:
    resolved, complaints = check(raw, **facts)
    assert (resolved is None) == bool(complaints)
    assert all(rule and "\n" not in rule for _, rule in complaints)
    return [field for field, _ in complaints]


def test_defaults() -> None:
    """Every default of the table, in ns, in a stable order."""
    resolved, complaints = check(GOOD)
    assert complaints == []
    assert resolved == {
        "probe_interval_ns": 10 * TICK,
        "probe_timeout_ns": 3 * TICK,
        "suspicion_timeout_ns": 30 * TICK,
        "dead_reprobe_interval_ns": 50 * TICK,
        "join_at_ns": 0,
        "indirect_ping_fanout": 3,
        "gossip_lambda": 3,
        "max_piggyback": 6,
        "max_message_bytes": 4_096,
        "initial_incarnation": 0,
        "seeds": [],
        "names": [],
        "probe_mode": "periodic",
        "profile": "current",
        "defects": [],
    }
    assert list(resolved) == [field for field in FIELDS if field in resolved]


@pytest.mark.parametrize(("interval", "timeout"), [(1, 1), (2, 1), (5, 1), (6, 2), (11, 3)])
def test_probe_timeout_default_is_a_third_in_whole_ticks(interval: int, timeout: int) -> None:
    """Rounded down, at least one tick."""
    resolved, _ = check({"probe_interval_ns": interval * TICK, "suspicion_timeout_ns": 60 * TICK})
    assert resolved is not None
    assert resolved["probe_timeout_ns"] == timeout * TICK


def test_the_deployed_profile_brings_defects_and_defaults() -> None:
    """10/15/60 ticks, k 2, re-probe 100, cap 8, no byte cap; explicit fields override, defects add."""
    resolved, complaints = check(
        {"profile": "deployed", "probe_timeout_ns": 2 * TICK, "defects": ["UNORDERED_MEMBERS"]}
    )
    assert complaints == []
    assert resolved is not None
    config = config_from(resolved, TICK)
    assert (config.probe_interval, config.probe_timeout, config.suspicion_timeout) == (10, 2, 60)
    assert (config.indirect_probes, config.dead_reprobe_interval) == (2, 100)
    assert (config.max_piggyback, config.max_message_bytes) == (8, 0)
    assert config.defects == PROFILES["deployed"].defects | {Defect.UNORDERED_MEMBERS}
    assert PROFILES["deployed"].defects == frozenset(Defect) - {
        Defect.ACK_DISPATCHED_AS_PING,
        Defect.UNORDERED_MEMBERS,
        Defect.TIMER_SURVIVES_PAUSE,
        Defect.TIMER_SURVIVES_ACK,
        Defect.CLAIM_SURVIVES_ACK,
    }
    assert resolved["defects"] == [defect.value for defect in Defect if defect in config.defects]


def test_every_field_reaches_the_node() -> None:
    """Nothing that is accepted is dropped on the way."""
    raw = {
        **GOOD,
        "probe_timeout_ns": 4 * TICK,
        "dead_reprobe_interval_ns": 0,
        "join_at_ns": 5 * TICK,
        "leave_at_ns": 50 * TICK,
        "indirect_probes": 1,
        "retransmit_mult": 4,
        "max_piggyback": 2,
        "max_message_bytes": 1_400,
        "names": ["x", "y"],
        "metadata": {"node_name": "n", "relay_url": "u"},
        "defects": ["ONE_STEP_REFUTE"],
    }
    resolved, complaints = check(raw)
    assert complaints == []
    assert resolved is not None
    config = config_from(resolved, TICK)
    assert (config.probe_timeout, config.dead_reprobe_interval, config.indirect_probes) == (4, 0, 1)
    assert (config.gossip_lambda, config.max_piggyback, config.max_message_bytes) == (4, 2, 1_400)
    assert (config.join_at_ns, config.leave_at_ns) == (5 * TICK, 50 * TICK)
    assert (config.names, config.relay_url, config.node_name) == (("x", "y"), "u", "n")
    assert config.defects == {Defect.ONE_STEP_REFUTE}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"probe_intervall_ns": 1}, "probe_intervall_ns"),
    ({"probe_interval_ns": True}, "probe_interval_ns"),
    ({"probe_interval_ns": 1e9}, "probe_interval_ns"),
    ({"probe_interval_ns": 5.0}, "probe_interval_ns"),
    ({"probe_interval_ns": "1"}, "probe_interval_ns"),
    ({"probe_interval_ns": 0}, "probe_interval_ns"),
    ({"probe_interval_ns": -TICK}, "probe_interval_ns"),
    ({"probe_interval_ns": 10 * TICK + 1}, "probe_interval_ns"),
    ({"probe_interval_ns": 30 * TICK}, "probe_interval_ns"),
    ({"suspicion_timeout_ns": 2**63 + 1}, "suspicion_timeout_ns"),
    ({"probe_timeout_ns": 0}, "probe_timeout_ns"),
    ({"probe_timeout_ns": 30 * TICK}, "probe_timeout_ns"),
    ({"dead_reprobe_interval_ns": TICK // 2}, "dead_reprobe_interval_ns"),
    ({"join_at_ns": -1}, "join_at_ns"),
    ({"leave_at_ns": 0}, "leave_at_ns"),
    ({"join_at_ns": 5 * TICK, "leave_at_ns": 5 * TICK}, "join_at_ns"),
    ({"indirect_ping_fanout": 0}, "indirect_ping_fanout"),
    ({"indirect_ping_fanout": 2, "indirect_probes": 2}, "indirect_probes"),
    ({"gossip_lambda": 2, "retransmit_mult": 2}, "retransmit_mult"),
    ({"retransmit_mult": False}, "retransmit_mult"),
    ({"max_piggyback": 0}, "max_piggyback"),
    ({"max_message_bytes": 999}, "max_message_bytes"),
    ({"max_message_bytes": -1}, "max_message_bytes"),
    ({"initial_incarnation": MAX_INCARNATION + 1}, "initial_incarnation"),
    ({"initial_incarnation": -1}, "initial_incarnation"),
    ({"seeds": "b"}, "seeds"),
    ({"seeds": ["b", 1]}, "seeds[1]"),
    ({"seeds": ["b", "b"]}, "seeds[1]"),
    ({"seeds": ["z"]}, "seeds[0]"),
    ({"seeds": ["a"]}, "seeds[0]"),
    ({"names": ["x", ""]}, "names[1]"),
    ({"names": ["x" * 255]}, "names[0]"),
    ({"metadata": 1}, "metadata"),
    ({"metadata": {"url": "x"}}, "metadata.url"),
    ({"metadata": {"relay_url": 1}}, "metadata.relay_url"),
    ({"probe_mode": "reactive"}, "probe_mode"),
    ({"profile": "best"}, "profile"),
    ({"profile": 1}, "profile"),
    ({"defects": ["B1"]}, "defects[0]"),
    ({"defects": "REFUTE_STALE_CLAIM"}, "defects"),
    ({"lifeguard": 1}, "lifeguard"),
    ({"lifeguard": "on"}, "lifeguard"),
    ({"lifeguard": {"max_score": 8}}, "lifeguard.max_score"),
    ({"lifeguard": {"max_health_score": 65}}, "lifeguard.max_health_score"),
    ({"lifeguard": {"max_health_score": True}}, "lifeguard.max_health_score"),
    ({"lifeguard": {"max_suspicion_factor": 0}}, "lifeguard.max_suspicion_factor"),
    ({"lifeguard": {"confirmations": -1}}, "lifeguard.confirmations"),
    ({"lifeguard": True, "max_message_bytes": 1_299}, "max_message_bytes"),
]


def test_the_forms_of_lifeguard() -> None:
    """F4: absent or false is off and leaves no field; true is the table of all defaults, which resolves to itself."""
    assert "lifeguard" not in (check(GOOD)[0] or {})
    assert "lifeguard" not in (check({**GOOD, "lifeguard": False})[0] or {})
    full = {"max_health_score": 8, "max_suspicion_factor": 6, "confirmations": 3}
    for form, expected in ((True, full), ({}, full), ({"confirmations": 5}, full | {"confirmations": 5})):
        resolved, complaints = check({**GOOD, "lifeguard": form, "max_message_bytes": 1_300})
        assert complaints == []
        assert resolved is not None
        assert resolved["lifeguard"] == expected
        assert config_from(resolved, TICK).lifeguard == Lifeguard(**expected)
    assert config_from(check(GOOD)[0] or {}, TICK).lifeguard is None


@pytest.mark.parametrize(
    ("change", "field"), WRONG, ids=[f"{number}-{field}" for number, (_, field) in enumerate(WRONG)]
)
def test_one_mistake_one_complaint(change: dict[str, Any], field: str) -> None:
    """Each rule names its field, once (ruling L17)."""
    assert fields({**GOOD, **change}) == [field]


def test_independent_mistakes_come_together() -> None:
    """All of them, and the choices are named where there are any."""
    raw = {"x": 1, "profile": "best", "defects": ["B1"], "max_piggyback": 0}
    found = fields(raw)
    assert found == ["x", "profile", "max_piggyback", "probe_interval_ns", "suspicion_timeout_ns", "defects[0]"]
    rules = dict(check(raw)[1])
    assert "current, deployed" in rules["profile"]
    assert "REFUTE_STALE_CLAIM" in rules["defects[0]"]


def test_joining_needs_seeds() -> None:
    """A joiner without seeds could reach nobody; a mistaken list is complained about once."""
    assert fields(GOOD, initial_state="joining") == ["seeds"]
    assert fields({**GOOD, "seeds": ["b"]}, initial_state="joining") == []
    assert fields({**GOOD, "seeds": ["z"]}, initial_state="joining") == ["seeds[0]"]
    assert fields({**GOOD, "seeds": [1]}, initial_state="joining") == ["seeds[0]"]


TICKS = st.integers(1, 40)
TABLES = st.fixed_dictionaries(
    {},
    optional={
        "probe_interval_ns": TICKS.map(lambda ticks: ticks * TICK),
        "probe_timeout_ns": TICKS.map(lambda ticks: ticks * TICK),
        "suspicion_timeout_ns": TICKS.map(lambda ticks: ticks * TICK),
        "dead_reprobe_interval_ns": st.integers(0, 3).map(lambda ticks: ticks * TICK),
        "indirect_probes": st.integers(1, 5),
        "gossip_lambda": st.integers(1, 5),
        "max_message_bytes": st.sampled_from([0, 1_000, 2_000]),
        "initial_incarnation": st.integers(0, MAX_INCARNATION),
        "seeds": st.lists(st.sampled_from("bc"), unique=True),
        "names": st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), unique=True, max_size=3),
        "metadata": st.sampled_from([{}, {"relay_url": "u"}, {"node_name": "n", "relay_url": "u"}]),
        "profile": st.sampled_from(["current", "deployed"]),
        "defects": st.lists(st.sampled_from([defect.value for defect in Defect]), unique=True, max_size=3),
        "leave_at_ns": TICKS.map(lambda ticks: ticks * TICK),
        "lifeguard": st.sampled_from([True, False, {}, {"max_health_score": 0}, {"confirmations": 16}]),
    },
)


@given(raw=TABLES)
def test_resolving_again_changes_nothing(raw: dict[str, Any]) -> None:
    """Ruling B5: the resolved table is TOML, keeps its order, and resolves to itself; and the node takes it."""
    resolved, complaints = check(raw)
    if resolved is None:
        assert complaints
        return
    again, complaints = check(resolved)
    assert complaints == []
    assert again == resolved
    assert list(again) == list(resolved)
    tomli_w.dumps(resolved)
    assert config_from(resolved, TICK).defects == frozenset(map(Defect, resolved["defects"]))


def test_checking_imports_no_node_code() -> None:
    """`simharness check` pays for the table only."""
    script = (
        "import sys, simharness.systems.swim.config\n"
        "print([name for name in sys.modules if name.startswith('simharness.systems.swim.')])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['simharness.systems.swim.config']"
