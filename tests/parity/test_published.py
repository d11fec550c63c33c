"""Two implementers, working from the spec alone, mesh: both published digests, and one of our own form (§7.6)."""

import hashlib
import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

import orjson
import pytest

from simharness.bundle.memory import MemorySink
from simharness.bundle.reader import Bundle
from simharness.contracts.network import Delay
from simharness.hosts.kinds import Kinds
from simharness.run import engine_for, run_to_bundle
from simharness.scenario.loader import load
from tests.cases.base import Run, run_scenario
from tests.parity.published import published_lines
from tests.tidy.check import ROOT

PARITY: Final = ROOT / "scenarios" / "parity"
OWN: Final = tomllib.loads(Path(__file__).with_name("digests.toml").read_text("utf-8"))

V1_DIGEST: Final = "c7ee2a328c796f482b6c62694fc27936aa58a959b17f59fedd14a3f8c20ad2f2"
V0_DIGEST: Final = "a76b557d3da7a5d0f393446231669b8f7b1945a251805bed33fa09fb27ab3db0"

V1_FIRST: Final = (
    (
        b'{"virtual_time_ns":504842,"host_id":"charlie","kind_tag":"engine",'
        b'"event":{"kind":"dial_start","from":"charlie","to":"R"}}\n'
    ),
    (
        b'{"virtual_time_ns":504842,"host_id":"charlie","kind_tag":"engine",'
        b'"event":{"kind":"dial_start","from":"charlie","to":"bravo"}}\n'
    ),
    (
        b'{"virtual_time_ns":504842,"host_id":"charlie","kind_tag":"parity_stub",'
        b'"event":{"kind":"tick_record","tick":1,"now_ns":504842,"from":"charlie"}}\n'
    ),
    (
        b'{"virtual_time_ns":654866,"host_id":"bravo","kind_tag":"parity_stub",'
        b'"event":{"kind":"app_recv","now_ns":654866,"host":"bravo","n_bytes":24}}\n'
    ),
)
V1_COUNTS: Final = {
    "tick_record": 15,
    "app_recv": 30,
    "relay_enqueue": 10,
    "relay_dequeue": 10,
    "dial_start": 8,
    "dial_outcome": 8,
    "cache_state_change": 8,
}


def finished(name: str) -> Run:
    """Run one of the parity scenarios as the library holds it."""
    registry = Kinds()
    return run_scenario(load(PARITY / name, registry).scenario, registry)


@pytest.mark.parametrize(
    ("name", "count", "size", "digest"),
    [("reference.toml", 89, 12_823, V1_DIGEST), ("reference_direct.toml", 63, 9_047, V0_DIGEST)],
)
def test_the_published_bundle_is_reproduced(name: str, count: int, size: int, digest: str) -> None:
    """§7.6: lines, bytes and SHA-256 of the two reference runs, with a relayed pair and all direct."""
    lines = published_lines(finished(name).records)
    text = b"".join(lines)
    assert (len(lines), len(text)) == (count, size)
    assert hashlib.sha256(text).hexdigest() == digest


def test_the_published_first_lines() -> None:
    """§7.6: the lines that a reader can check by hand (504,842 + 24 + 100,000 + 50,000 = 654,866), and the counts by kind."""
    lines = published_lines(finished("reference.toml").records)
    assert tuple(lines[:4]) == V1_FIRST
    events = [orjson.loads(line) for line in lines]
    assert Counter(event["event"]["kind"] for event in events) == V1_COUNTS
    assert (events[0]["virtual_time_ns"], events[-1]["virtual_time_ns"]) == (504_842, 9_858_389)


def test_the_published_snapshots() -> None:
    """§7.6: ticks and receipts of each stub at 5 ms."""
    shown = {
        host: (state["tick_count"], state["recv_count"]) for _, host, state in finished("reference.toml").snapshots()
    }
    assert shown == {"alpha": (2, 5), "bravo": (2, 5), "charlie": (3, 4)}


def test_another_seed_is_another_bundle() -> None:
    """§7.6: the digest depends on the seed, or it would pin nothing."""
    registry = Kinds()
    other = load(PARITY / "reference.toml", registry, seed=1).scenario
    text = b"".join(published_lines(run_scenario(other, registry).records))
    assert hashlib.sha256(text).hexdigest() != V1_DIGEST


def test_the_digest_of_our_own_form(tmp_path: Path) -> None:
    """§7.6, our form: loss, jitter, reorder, partition, relay kill and boot, byte by byte in events and snapshots."""
    registry = Kinds()
    done = run_to_bundle(load(PARITY / "own_form.toml", registry), tmp_path / "bundle", registry)
    assert Bundle(done.bundle).manifest["events_ndjson_sha256"] == OWN["own_form"]["events"]
    assert done.digest == OWN["own_form"]["bundle"]


def test_our_own_form_covers_what_the_published_runs_do_not() -> None:
    """§7.6: each of the terms that our digest is there for has an effect in the run."""
    done = finished("own_form.toml")
    drops = Counter(event["reason"] for event in done.events("DropOnSend"))
    assert drops["lossy"] > 0
    assert drops["partitioned"] > 0
    assert drops["relay_down"] > 0
    assert drops["relay_queue_full"] > 0
    lost = Counter(event["reason"] for event in done.events("DropOnDelivery"))
    assert lost["partition"] > 0
    assert lost["relay_down"] > 0
    assert lost["host_killed"] > 0
    changes = Counter(event["transition"] for event in done.events("CacheStateChange"))
    assert min(changes["warmed"], changes["idle_cooled"], changes["invalidated"]) > 0
    assert len(done.events("Mutation")) == len(done.scenario.mutations)


class _Terms:
    """A `DeliveryObserver` that adds up what delayed the deliveries."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Delay) -> None:
        self.totals.update({term: abs(value) for term, value in delay._asdict().items()})


def test_our_own_form_is_delayed_by_every_term() -> None:
    """§7.6: jitter, spike, floor, dial, occupancy, order, reorder, and the relay's ingress, egress and cold start."""
    registry = Kinds()
    observer = _Terms()
    scenario = load(PARITY / "own_form.toml", registry).scenario
    engine_for(scenario, registry, MemorySink(), observer=observer).run()
    assert [term for term in Delay._fields if not observer.totals[term] and term != "clamp"] == []
