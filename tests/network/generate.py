"""Random scenarios whose times are so short that everything collides, and random scripts of calls.

Everything is drawn from one `Random`: Hypothesis's own (which shrinks), or a seeded one for long scripts.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from simharness.contracts.links import LinkOverrides, LinkPolicy, LinkRef, RelayDecl
from simharness.contracts.mutations import (
    DuplicateBurst,
    Heal,
    LatencySpike,
    LossBurst,
    Mutation,
    Partition,
    PeerKill,
    PeerResurrect,
    RelayBoot,
    RelayBuffer,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
)
from simharness.contracts.scenario import LinkDecl, PeerDecl, Scenario

PEERS = "abcd"
DIRECT = ["b>c", "c>b", "a>c"]
RELAYED = ["a>b", "b>a", "d>c", "c>d"]
LEGS = [*DIRECT, "a>R", "b>R", "R>a", "R>b", "d>R", "R>c", "a>b", "c>d"]
RATES = [10**8, 3 * 10**8, 10**9, 10**12]
DURATIONS = [0, 5, 30, 100]
GROUPS = [("a", "b"), ("b", "c"), ("d", "c"), ("ab", "cd"), ("ac", "b"), ("a", "bcd")]

Step = tuple[int, tuple[str, int] | Mutation]
T = TypeVar("T")


def seeded(seed: int) -> Random:
    """Return the generator of one long script."""
    return Random(seed)  # noqa: S311  # repeatable, not secret


def policy(rng: Random) -> LinkPolicy:
    """Draw a link policy."""
    return LinkPolicy(
        latency_ns=rng.choice([0, 3, 10, 40]),
        jitter_stddev_ns=rng.choice([0, 0, 4, 15]),
        loss_prob_ppm=rng.choice([0, 0, 0, 200_000]),
        reorder_prob_ppm=rng.choice([0, 0, 400_000]),
        bandwidth_bps=rng.choice(RATES),
        cold_dial_penalty_ns=rng.choice([0, 9]),
        cache_warm_after_ns=rng.choice([0, 10, 60]),
        cache_invalidate_after_idle_ns=rng.choice([0, 20, 80, 10**6]),
        occupancy=rng.choice(["arrival", "wire"]),
    )


def scenario(rng: Random, *, relayed: bool = True) -> Scenario:
    """Draw peers a to d: some pairs direct, c and d through `via`, and legs that join a and b."""

    def entry(pair: str, via: str | None = None) -> LinkDecl:
        fields = {name: getattr(drawn, name) for drawn in [policy(rng)] for name in LinkPolicy.__struct_fields__}
        return LinkDecl(source=pair[0], target=pair[-1], via=via, overrides=LinkOverrides(**fields))

    links = [entry(pair) for pair in DIRECT]
    if relayed:
        links += [entry(pair) for pair in ("a>R", "b>R", "R>a", "R>b")] + [entry("d>c", "R"), entry("c>d", "R")]
    decl = RelayDecl(
        id="R",
        ingress_capacity_bps=rng.choice(RATES),
        egress_capacity_bps_per_link=rng.choice(RATES),
        queue_depth_bytes=rng.choice([0, 12, 30, 60, 10**6]),
        cold_start_penalty_ns=rng.choice([0, 17]),
    )
    return Scenario(
        name="random",
        seed=rng.getrandbits(64),
        duration_ns=10**6,
        default_tick_period_ns=1,
        default_link=policy(rng),
        peers=tuple(PeerDecl(id=peer, kind="echo", initial_state="ready", kind_config={}) for peer in PEERS),
        relays=(decl,) if relayed else (),
        links=tuple(links),
    )


def mutation(rng: Random, *, relayed: bool = True) -> Mutation:
    """Draw a mutation; its time is that of the call."""

    def some(names: Sequence[str]) -> tuple[LinkRef, ...]:
        chosen = [rng.choice(names) for _ in range(rng.randint(1, 3))]
        return tuple(LinkRef(source=name[0], target=name[2]) for name in chosen)

    groups = rng.choice(GROUPS)
    named: Any = {"at_ns": 0, "links": some(LEGS if relayed else DIRECT), "duration_ns": rng.choice(DURATIONS)}
    kinds: list[Mutation] = [
        Partition(at_ns=0, peers_a=tuple(groups[0]), peers_b=tuple(groups[1])),
        Heal(at_ns=0),
        Heal(at_ns=0),
        LatencySpike(**named, factor_x100=rng.choice([0, 50, 333])),
        LossBurst(**named, prob_ppm=rng.choice([0, 500_000, 10**6])),
        RelayBuffer(**named, floor_ns=rng.choice([0, 20, 70])),
        DuplicateBurst(**named, prob_ppm=rng.choice([0, 500_000, 10**6, 10**6])),
        PeerKill(at_ns=0, peer=rng.choice(PEERS)),
        PeerResurrect(at_ns=0, peer=rng.choice(PEERS)),
    ]
    if relayed:
        pair = rng.choice(["ab", "ba", "dc"])
        kinds += [
            RelayKill(at_ns=0, relay="R"),
            RelayBoot(at_ns=0, relay="R"),
            RelayBoot(at_ns=0, relay="R"),
            RelayCapacityChange(
                at_ns=0,
                relay="R",
                ingress_capacity_bps=rng.choice([None, *RATES]),
                egress_capacity_bps_per_link=rng.choice([None, *RATES]),
                queue_depth_bytes=rng.choice([None, 0, 20, 10**6]),
            ),
            RelayPeerConnDown(
                at_ns=0, relay="R", source=pair[0], target=pair[1], duration_ns=rng.choice([0, 5, 30, 30, 100])
            ),
        ]
    return rng.choice(kinds)


def script(rng: Random, steps: int, *, relayed: bool = True, faults: bool = True) -> list[Step]:
    """Draw calls as (time since the last call, a send or a mutation); sends are the more frequent."""
    calls: list[Step] = []
    pairs = DIRECT + RELAYED if relayed else DIRECT
    for _ in range(steps):
        call: tuple[str, int] | Mutation = (rng.choice(pairs), rng.choice([0, 1, 4, 11, 25]))
        if faults and rng.random() < 0.2:
            call = mutation(rng, relayed=relayed)
        calls.append((rng.choice([0, 0, 1, 2, 7, 30, 90]), call))
    return calls


def play(network: Any, calls: list[Step]) -> list[tuple[int, Any]]:
    """Make the calls of a script; return time and answer of each."""
    now, answers = 0, []
    for gap, call in calls:
        now += gap
        if isinstance(call, tuple):
            name, size = call
            answers.append((now, network.send(name[0], name[2], size, now)))
        else:
            answers.append((now, network.apply_mutation(call, now)))
    return answers
