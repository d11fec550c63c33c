"""What a step costs by closed form, and on the virtual clock of the engine: two claims, two tags (training design, section 19)."""

from fractions import Fraction
from typing import Final, Literal

import msgspec

from simharness.contracts.host import KindRegistry
from simharness.contracts.records import EventRecord
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_S
from simharness.scenario.loader import loads
from simharness.stateful.playing import play

Layout = Literal["ring", "server", "server_nic"]
LAYOUTS: Final[tuple[Layout, ...]] = ("ring", "server", "server_nic")
LAYOUT_NAMES: Final[dict[Layout, str]] = {
    "ring": "ring",
    "server": "server, private links",
    "server_nic": "server behind one NIC",
}
BATCH: Final = 4
_STEPS: Final = 4
"""The first opens the run; the time of the other three is taken."""
_FREE_BPS: Final = 10**15
_TICK_NS: Final = 10_000_000
_LONG_NS: Final = 3_600 * NS_PER_S
_SLACK_NS: Final = 100_000_000


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What a step is assumed to meet."""

    alpha_ns: int = 100_000
    """One-way latency."""
    bandwidth_bps: int = 1_250_000_000
    """Bytes a second, of a link and of the hub's NIC."""
    compute_ns: int = 4_000_000
    """Of one step of one worker."""

    def wire_ns(self, parameters: int) -> Fraction:
        """Return how long a vector occupies a link."""
        return Fraction(8 * parameters * NS_PER_S, self.bandwidth_bps)

    def described(self) -> str:
        """Say it in words."""
        return (
            f"one-way latency {self.alpha_ns / 1e6:g} ms, links and NIC {self.bandwidth_bps / 1e9:g} GB/s, "
            f"{self.compute_ns / 1e6:g} ms of compute a step and worker, float64, no loss, no fault"
        )


def assumed_ns(layout: Layout, workers: int, parameters: int, link: Link) -> Fraction:
    """Return the textbook's step time."""
    n, a, m = workers, link.alpha_ns, link.wire_ns(parameters)
    if layout == "ring":
        return link.compute_ns + 2 * (n - 1) * (a + m / n)
    if layout == "server":
        return link.compute_ns + 2 * (a + m)
    return link.compute_ns + 2 * a + 2 * m + 2 * n * m


def explained_ns(layout: Layout, workers: int, parameters: int, link: Link) -> Fraction:
    """Return the step time with what the textbook leaves out; see EXPLANATIONS."""
    if layout == "ring":
        return assumed_ns(layout, workers, parameters, link) + 2 * link.alpha_ns
    if layout == "server":
        return assumed_ns(layout, workers, parameters, link)
    m = link.wire_ns(parameters)
    return link.compute_ns + 2 * link.alpha_ns + 2 * m + (workers + 1) * m


EXPLANATIONS: Final[dict[Layout, str]] = {
    "ring": "The textbook has no commit. Here nobody applies before the hub has heard READY from all and said COMMIT: one more "
    "round trip, two latencies, at every size.",
    "server": "",
    "server_nic": "The textbook lets all pulls and all pushes queue at the NIC, 2 N vectors. Pulls leave one after the other, so "
    "the workers finish one after the other, and pushes overlap with pulls: N + 1 vectors remain.",
}
"""Why the two differ, for a layout whose difference `explained_ns` accounts for."""


def crossover_textbook(workers: int, link: Link) -> Fraction:
    """Return from how many parameters on the ring wins over a server behind a NIC, by the textbook's two forms."""
    n = workers
    return Fraction(2 * (n - 2) * link.alpha_ns * link.bandwidth_bps, 8 * NS_PER_S) / (
        2 + 2 * n - Fraction(2 * n - 2, n)
    )


def crossover_explained(workers: int, link: Link) -> Fraction:
    """Return the same by the forms with commit and overlap: M* = 2 (N - 1) alpha B / (N + 3 - 2 (N - 1) / N)."""
    n = workers
    return Fraction(2 * (n - 1) * link.alpha_ns * link.bandwidth_bps, 8 * NS_PER_S) / (n + 3 - Fraction(2 * n - 2, n))


def simulated_ns(layout: Layout, workers: int, parameters: int, link: Link, kinds: KindRegistry) -> Fraction:
    """Return the step time of a run of the engine, from commit to commit."""
    played = play(scenario_of(layout, workers, parameters, link, kinds), kinds)
    commits = [
        record.virtual_time_ns
        for record in played.records
        if isinstance(record, EventRecord) and record.event["kind"] == "TrainCommit"
    ]
    assert len(commits) == _STEPS, "every step of an undisturbed run is committed"
    return Fraction(commits[-1] - commits[0], _STEPS - 1)


def simulated_crossover(workers: int, link: Link, kinds: KindRegistry) -> int:
    """Return the smallest number of parameters at which the ring is at least as fast as the server behind a NIC, by bisection."""
    low = int(crossover_explained(workers, link)) // 2
    high = 4 * low
    while high - low > 1:
        middle = (low + high) // 2
        ring, server = (simulated_ns(layout, workers, middle, link, kinds) for layout in ("ring", "server_nic"))
        low, high = (low, middle) if ring <= server else (middle, high)
    return high


def crossover_of(workers: int, link: Link, kinds: KindRegistry) -> tuple[float, float, int]:
    """Return the crossover by textbook, by the explained forms, and on the virtual clock."""
    textbook, explained = crossover_textbook(workers, link), crossover_explained(workers, link)
    return float(textbook), float(explained), simulated_crossover(workers, link, kinds)


def scenario_of(layout: Layout, workers: int, parameters: int, link: Link, kinds: KindRegistry) -> Scenario:
    """Return a job of the payload model: zeros of the right length, nobody is late, nobody asks twice."""
    duration = _SLACK_NS + 3 * _STEPS * int(explained_ns(layout, workers, parameters, link))
    names = [f"w{index:02}" for index in range(workers)]
    text = _HEAD.format(
        duration=duration,
        tick=_TICK_NS,
        latency=link.alpha_ns,
        bandwidth=link.bandwidth_bps,
        strategy="ring" if layout == "ring" else "ps",
        parameters=parameters,
        steps=_STEPS,
        batch=BATCH,
        shards=[BATCH * _STEPS] * workers,
        compute=link.compute_ns // BATCH,
        long=_LONG_NS,
    )
    text += _PEER.format(id="hub", kind="train_hub")
    text += "".join(_PEER.format(id=name, kind="train_worker") for name in names)
    text += _nic(names, link) if layout == "server_nic" else '[[meshes]]\nshape = "full"\n'
    return loads(text, kinds, name=f"bench-{layout}-{workers}-{parameters}")


_HEAD: Final = """\
name = "bench"
seed = 1
duration_ns = {duration}
[default_tick]
period_ns = {tick}
[default_link]
latency_ns = {latency}
jitter_stddev_ns = 0
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = {bandwidth}
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 30_000_000_000
occupancy = "wire"
[training]
strategy = "{strategy}"
model = "payload"
features = {parameters}
steps = {steps}
batch_size = {batch}
shard_sizes = {shards}
compute_ns_per_sample = {compute}
lease_ns = {long}
retry_ns = {long}
checkpoint_every = 1_000
record_state = "none"
allow_even = true
"""
_PEER: Final = """\
[[peers]]
id = "{id}"
kind = "{kind}"
initial_state = "alive"
kind_config = {{}}
"""
_LEG: Final = """\
[[links]]
from = "{source}"
to = "{target}"
latency_ns = {latency}
bandwidth_bps = {bandwidth}
"""
_RELAY: Final = """\
[[relays]]
id = "{id}"
ingress_capacity_bps = {ingress}
egress_capacity_bps_per_link = {egress}
queue_depth_bytes = {depth}
"""


def _nic(names: list[str], link: Link) -> str:
    """Return the hub's NIC as two relays: each route still costs the latency and the link once, and the NIC is shared."""
    nic, half = link.bandwidth_bps, link.alpha_ns // 2
    depth = 2**62
    parts = [
        _RELAY.format(id="nic_in", ingress=_FREE_BPS, egress=nic, depth=depth),
        _RELAY.format(id="nic_out", ingress=nic, egress=_FREE_BPS, depth=depth),
        _LEG.format(source="nic_in", target="hub", latency=link.alpha_ns - half, bandwidth=_FREE_BPS),
        _LEG.format(source="hub", target="nic_out", latency=half, bandwidth=_FREE_BPS),
    ]
    for name in names:
        parts.append(_LEG.format(source=name, target="nic_in", latency=half, bandwidth=link.bandwidth_bps))
        parts.append(
            _LEG.format(source="nic_out", target=name, latency=link.alpha_ns - half, bandwidth=link.bandwidth_bps)
        )
    return "".join(parts)
