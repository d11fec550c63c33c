"""Small scenarios for live runs: short ticks, short timeouts, a few peers."""

from pathlib import Path
from typing import Any

from simharness.bundle.reader import Bundle
from simharness.contracts.scenario import Scenario
from simharness.hosts.kinds import Kinds
from simharness.live.channel import Seen
from simharness.live.run import LiveResult, run_live
from simharness.run import run_to_bundle
from simharness.scenario.loader import Loaded, load

MS = 1_000_000
_ATTEMPTS = 5

_HEAD = """
name = "live"
seed = 7
duration_ns = {duration_ns}
[default_tick]
period_ns = 25_000_000
[default_link]
latency_ns = 2_000_000
jitter_stddev_ns = 200_000
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 10_000_000
cold_dial_penalty_ns = 1_000_000
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 10_000_000_000
"""

_SWIM = """
[[peers]]
id = "{peer_id}"
kind = "swim"
initial_state = "{state}"
[peers.kind_config]
probe_interval_ns = 150_000_000
probe_timeout_ns = 100_000_000
suspicion_timeout_ns = 500_000_000
{more}
"""

_STAGE = """
[[peers]]
id = "{peer_id}"
kind = "stage"
initial_state = "cold"
kind_config = {{ name = "{peer_id}-name", address = "addr-{peer_id}"{more} }}
"""

MESH = "[[meshes]]\n"


def head(duration_ms: int) -> str:
    """Return the settings of a scenario."""
    return _HEAD.format(duration_ns=duration_ms * MS)


def swim(peer_id: str, state: str = "alive", more: str = "") -> str:
    """Return a SWIM peer; `more` are lines of its configuration."""
    return _SWIM.format(peer_id=peer_id, state=state, more=more)


def stage(peer_id: str, more: str = "") -> str:
    """Return a stage; `more` continues its inline configuration."""
    return _STAGE.format(peer_id=peer_id, more=f", {more}" if more else "")


def mutation(kind: str, at_ms: int, more: str = "") -> str:
    """Return a mutation."""
    return f'[[mutations]]\nkind = "{kind}"\nat_ns = {at_ms * MS}\n{more}\n'


def snapshot(at_ms: int) -> str:
    """Return a snapshot request."""
    return f"[[snapshots]]\nat_ns = {at_ms * MS}\n"


def loaded(directory: Path, *parts: str) -> Loaded:
    """Write and load a scenario."""
    file = directory.joinpath("live.toml")
    file.write_text("".join(parts), encoding="utf-8")
    return load(file, Kinds())


class Run:
    """A finished live run, what was overheard of it, and the simulated run of the same scenario."""

    def __init__(self, directory: Path, *parts: str) -> None:
        self.loaded = loaded(directory, *parts)
        self.seen, self.result = self._believable(directory)
        self.bundle = Bundle(self.result.bundle)
        self.simulated = Bundle(run_to_bundle(self.loaded, directory.joinpath("simulated"), Kinds()).bundle)

    def _believable(self, directory: Path) -> tuple[list[Seen], LiveResult]:
        """Run until this machine kept time, so often and no oftener: what others do on it is not what is tested."""
        for attempt in range(_ATTEMPTS):
            seen = list[Seen]()
            result = run_live(self.loaded, directory.joinpath(f"live-{attempt}"), tap=seen.append)
            if result.believable:
                break
        return seen, result

    @property
    def scenario(self) -> Scenario:
        """The scenario."""
        return self.loaded.scenario

    def events(self, kind: str, host: str | None = None) -> list[tuple[int, dict[str, Any]]]:
        """Return time and payload of every event of a kind, of one host if it is named."""
        return [
            (line.virtual_time_ns, line.event)
            for line in self.bundle.events()
            if line.event["kind"] == kind and host in (None, line.host_id)
        ]
