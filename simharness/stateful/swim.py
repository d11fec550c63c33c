"""Base scenarios of SWIM clusters, and the session's `--swim-profile` and `--swim-defect` (ruling K1)."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from simharness.contracts.links import Occupancy, RelayDecl
from simharness.contracts.scenario import MeshShape, Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful import session
from simharness.stateful.pools import Number, value_of
from simharness.stateful.topologies import links, meshes


@st.composite
def swim_meshes(
    draw: st.DrawFn,
    *,
    peers: Number = 3,
    latency_ms: Number = 5,
    jitter_ms: Number = 0,
    loss_ppm: Number = 0,
    reorder_ppm: Number = 0,
    bandwidth_bps: Number = 25_000_000,
    cold_dial_ms: Number = 200,
    warm_after_ms: Number = 200,
    idle_ms: Number = 10_000,
    occupancy: Occupancy = "arrival",
    tick_ms: Number = 50,
    probe_interval_ms: Number = 500,
    probe_timeout_ms: Number = 600,
    suspicion_timeout_ms: Number = 2_000,
    fanout: Number = 3,
    profile: str | None = None,
    defects: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    shape: MeshShape = "full",
    via: st.SearchStrategy[RelayDecl] | None = None,
    snapshot_every_ms: int | None = None,
    snapshots_until_ms: int = 60_000,
) -> Scenario:
    """Base scenarios of SWIM peers that all know each other. Durations are in milliseconds, whole multiples of the tick.

    `profile` and `defects` are what the space needs; the session's own profile wins, its defects are added.
    `config` holds further fields of the `kind_config` as they are written in a scenario. See `meshes` for the rest.
    """
    link = links(
        latency_ms=latency_ms,
        jitter_ms=jitter_ms,
        loss_ppm=loss_ppm,
        reorder_ppm=reorder_ppm,
        bandwidth_bps=bandwidth_bps,
        cold_dial_ms=cold_dial_ms,
        warm_after_ms=warm_after_ms,
        idle_ms=idle_ms,
        occupancy=occupancy,
    )
    timings = {
        "probe_interval_ns": value_of(draw, probe_interval_ms) * NS_PER_MS,
        "probe_timeout_ns": value_of(draw, probe_timeout_ms) * NS_PER_MS,
        "suspicion_timeout_ns": value_of(draw, suspicion_timeout_ms) * NS_PER_MS,
        "indirect_ping_fanout": value_of(draw, fanout),
    }
    own = {} if profile is None else {"profile": profile}
    raw = {**own, **timings, "defects": list(defects), **(config or {})}
    return draw(
        meshes(
            kind="swim",
            peers=peers,
            config=with_session_options("swim", raw),
            initial_state="alive",
            tick_ms=tick_ms,
            link=link,
            shape=shape,
            via=via,
            snapshot_every_ms=snapshot_every_ms,
            snapshots_until_ms=snapshots_until_ms,
        )
    )


def with_session_options(kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a raw `kind_config` with the session's SWIM profile and defects in it; for the loader's `reconfigure` too.

    A stage's embedded node is a SWIM node like any other (ruling S2). Whatever is malformed is left to the kind's validation.
    """
    options = session.current().options
    if isinstance(raw.get("node"), Mapping):
        return {**raw, "node": with_session_options("swim", raw["node"])}
    if kind != "swim" or (options.swim_profile is None and not options.swim_defects):
        return raw
    profile = {} if options.swim_profile is None else {"profile": options.swim_profile}
    named = raw.get("defects", [])
    if isinstance(named, list):
        named = [*named, *(defect for defect in options.swim_defects if defect not in named)]
    return {**raw, **profile, "defects": named}
