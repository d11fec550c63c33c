"""Small scenarios for tests of the network."""

from collections.abc import Sequence
from typing import Any

from simharness.contracts.links import LinkOverrides, LinkPolicy, LinkRef, RelayDecl
from simharness.contracts.network import Arrive, Drop, Notice, SendOutcome
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario

MS = 1_000_000
S = 1_000_000_000

PLAIN = LinkPolicy(
    latency_ns=0,
    jitter_stddev_ns=0,
    loss_prob_ppm=0,
    reorder_prob_ppm=0,
    bandwidth_bps=S,  # one byte a nanosecond
    cold_dial_penalty_ns=0,
    cache_warm_after_ns=0,
    cache_invalidate_after_idle_ns=10**15,
)
"""No latency, no impairment, one byte a nanosecond."""


def link(source: str, target: str, via: str | None = None, **overrides: Any) -> LinkDecl:
    """Return a `[[links]]` entry."""
    return LinkDecl(source=source, target=target, via=via, overrides=LinkOverrides(**overrides))


def refs(*pairs: str) -> tuple[LinkRef, ...]:
    """Return link references; each pair is written `a>b`."""
    return tuple(LinkRef(source=pair.split(">")[0], target=pair.split(">")[1]) for pair in pairs)


def relay(name: str = "R", **policy: Any) -> RelayDecl:
    """Return a relay that is fast and deep unless told otherwise."""
    base = {"ingress_capacity_bps": S, "egress_capacity_bps_per_link": S, "queue_depth_bytes": 10**9}
    return RelayDecl(id=name, **(base | policy))


def scenario(
    peers: Sequence[str] = "abc",
    links: tuple[LinkDecl, ...] | None = None,
    relays: tuple[RelayDecl, ...] = (),
    seed: int = 1,
    **default_link: Any,
) -> Scenario:
    """Return a scenario of one-letter peers; a full mesh unless `links` are given."""
    return Scenario(
        name="network",
        seed=seed,
        duration_ns=10**18,
        default_tick_period_ns=S,
        default_link=LinkOverrides(**default_link).over(PLAIN),
        peers=tuple(PeerDecl(id=peer, kind="echo", initial_state="ready", kind_config={}) for peer in peers),
        relays=relays,
        meshes=(MeshDecl(),) if links is None else (),
        links=links or (),
    )


def arrive(outcome: SendOutcome) -> Arrive:
    """Return the outcome, which must be an arrival."""
    assert isinstance(outcome, Arrive), outcome
    return outcome


def drop(outcome: SendOutcome) -> Drop:
    """Return the outcome, which must be a refusal."""
    assert isinstance(outcome, Drop), outcome
    return outcome


def brief(notices: tuple[Notice, ...]) -> list[tuple[Any, ...]]:
    """Return notices as (time, kind, last word) for short comparisons."""
    words = {"DialStart": "to", "DialOutcome": "warm", "CacheStateChange": "transition", "RelayDrop": "reason"}
    return [
        (notice.at_ns, notice.event["kind"], notice.event[words.get(notice.event["kind"], "byte_len")])
        for notice in notices
    ]
