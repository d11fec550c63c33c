"""The loader as a whole: delegation to kinds, options of the caller, purity, imports (§8.4, ruling B5)."""

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simharness.core.errors import Problem, ScenarioError
from simharness.scenario.emit import emit
from simharness.scenario.loader import Source, load, loads
from simharness.scenario.words import first_line, key_shown, shown, suggestion, type_word, unknown
from tests.scenario.support import ABC, BASE, HEAD, KINDS, LINK, TICK, broken, link, mutation, peer, relay


@pytest.mark.spec("§8.4", "Host-kind validation is delegated")
def test_kind_rules_are_the_kinds_own() -> None:
    """Every complaint of a kind comes out at its field with its own text, first line only (ruling L12)."""
    odd = peer("d", rest='kind_config = { rate = 1.5, knob = 3, friends = ["a", "zed"] }')
    down = peer("e", "worker").replace('"up"', '"down"')
    assert broken(BASE + odd + down) == [
        ("peers[3].kind_config.knob", "plain has no such knob"),
        ("peers[3].kind_config.rate", "rate is a whole number of turns"),
        ("peers[3].kind_config.friends[1]", "no friend"),
        ("peers[4].initial_state", "worker starts up"),
    ]


@pytest.mark.spec("§8.4", "Host-kind validation is delegated")
def test_kind_config_is_opaque_and_resolved() -> None:
    """The loader leaves `kind_config` to the kind and keeps what the kind made of it (ruling B5)."""
    scenario = loads(BASE + peer("d", rest="kind_config.free = { x = [1, true] }"), KINDS)
    assert scenario.peers[0].kind_config == {"rate": 7}
    assert scenario.peers[3].kind_config == {"rate": 7, "free": {"x": [1, True]}}


def test_kinds_are_asked_even_when_others_are_wrong() -> None:
    """A kind's complaint is independent of a mistake elsewhere (ruling L17)."""
    text = HEAD.replace("seed = 7", "") + TICK + LINK + ABC + peer("d", rest="kind_config.knob = 1") + link("a", "zed")
    assert [field for field, _ in broken(text)] == ["seed", "peers[3].kind_config.knob", "links[0].to"]


def test_kind_sees_the_peers_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind is told the peer's own tick period, which an override replaces, and all declared ids in order."""
    seen: list[tuple[str, int, tuple[str, ...]]] = []
    plain = KINDS.get("plain")
    assert plain is not None
    honest = plain.validate

    def spy(config: Mapping[str, Any], facts: Any) -> Any:
        seen.append((facts.id, facts.tick_period_ns, facts.peer_ids))
        return honest(config, facts)

    monkeypatch.setattr(plain, "validate", spy)
    loads(BASE + peer("d", rest="tick_period_ns_override = 9"), KINDS)
    ids = ("a", "b", "c", "d")
    assert seen == [("a", 100, ids), ("b", 100, ids), ("d", 9, ids)]


def test_seed_option() -> None:
    """A seed given by the caller replaces that of the file, is emitted, and obeys the same bounds."""
    scenario = loads(BASE, KINDS, seed=0)
    assert scenario.seed == 0
    assert loads(emit(scenario), KINDS) == scenario
    assert loads(BASE.replace("seed = 7", ""), KINDS, seed=3).seed == 3
    with pytest.raises(ScenarioError) as caught:
        loads(BASE, KINDS, seed=-1)
    assert caught.value.problems == (Problem("(option)", "seed", "must be an integer from 0 to 18446744073709551615"),)


def test_reconfigured_peers() -> None:
    """A transform of raw `kind_config`s is applied before validation and recorded in the emission."""

    def faster(kind: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**config, "rate": 50} if kind == "plain" else config

    text = BASE + peer("d", rest="kind_config.rate = 3.5")
    scenario = loads(text, KINDS, reconfigure=faster)
    assert [one.kind_config["rate"] for one in scenario.peers] == [50, 50, 7, 50]
    assert loads(emit(scenario), KINDS) == scenario
    with pytest.raises(ScenarioError, match="no such knob"):
        loads(text, KINDS, reconfigure=lambda _, config: {**config, "knob": 1})


@pytest.mark.spec("§8.4", "Loading is pure")
def test_loading_is_pure(tmp_path: Path) -> None:
    """Loading twice gives equal values and leaves every file and directory as it was."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "base.toml").write_text(BASE, "utf-8")
    path = folder / "x.toml"
    path.write_text('[base]\nextends = "base.toml"\n' + relay("R") + mutation("heal"), "utf-8")
    before = {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in sorted(folder.iterdir())}
    first, second = load(path, KINDS), load(str(path), KINDS)
    assert first == second
    assert first.sources == tuple(
        Source(name, hashlib.sha256((folder / name).read_bytes()).hexdigest()) for name in ("x.toml", "base.toml")
    )
    assert {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in sorted(folder.iterdir())} == before


def test_effects_follow_file_order() -> None:
    """Lists keep file order, whatever the times in them say: the order of mutations is their sequence."""
    scenario = loads(BASE + mutation("heal", at_ns=9) + mutation("heal", at_ns=3), KINDS)
    assert [one.at_ns for one in scenario.mutations] == [9, 3]


def test_light_imports() -> None:
    """Checking a file imports nothing that is slow to start or belongs to a run (architecture, section 5)."""
    heavy = ["hypothesis", "rich", "numpy", "tomli_w", "difflib", "asyncio"]
    rooms = [f"simharness.{room}" for room in ("engine", "network", "bundle", "assertions", "stateful", "run")]
    code = f"import sys, simharness.scenario.loader; print([name for name in {heavy + rooms} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("latency_ms", ("latency_ns", "loss_prob_ppm"), "latency_ns"),
        ("latency", ("latency_ns", "loss_prob_ppm"), "latency_ns"),
        ("loss_prob", ("latency_ns", "loss_prob_ppm"), "loss_prob_ppm"),
        ("RelayPeerConnDown", ("relay_kill", "relay_peer_conn_down"), "relay_peer_conn_down"),
        ("relay-kill", ("relay_kill", "relay_boot"), "relay_kill"),
        ("snapshot", ("snapshots", "seed"), "snapshots"),
        ("sede", ("snapshots", "seed"), "seed"),
        ("bandwith_bps", ("bandwidth_bps",), "bandwidth_bps"),
        ("queue", ("queue_depth_bytes", "queue_discipline"), None),
        ("colour", ("name", "seed"), None),
        ("x" * 10_000, ("name", "seed"), None),
        ("x", (), None),
    ],
)
def test_suggestions(name: str, known: tuple[str, ...], meant: str | None) -> None:
    """A guess is offered for another unit, case or number, a missing suffix or a slip, and for nothing else."""
    assert suggestion(name, known) == meant


def test_wording() -> None:
    """Values in messages are quoted, escaped and shortened; types have TOML's names."""
    assert shown("a\n" * 50) == repr("a\n" * 30 + "...")
    assert (key_shown("a-B_9"), key_shown("a b")) == ("a-B_9", "'a b'")
    assert first_line("a\u2028b\nc") == r"a\u2028b"
    assert unknown("field", "x", ()) == "unknown field"
    words = [type_word(value) for value in (True, 1, 1.5, "", [], {}, None)]
    assert words == ["a boolean", "an integer", "a float", "a string", "an array", "a table", "a date or time"]
