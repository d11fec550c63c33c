"""Jobs and fault schedules by the seed (training design, 17): all that a sweep draws, and a pure function of the seed.

A seed gives one job and one schedule; under the other strategy or data policy it is the same job and the same schedule.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

import msgspec

from simharness.contracts.assertions import TrainProgress
from simharness.contracts.links import LinkRef
from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    DuplicateBurst,
    Heal,
    LatencySpike,
    LossBurst,
    Mutation,
    Partition,
    PeerKill,
    PeerPause,
    PeerResurrect,
    PeerSlow,
)
from simharness.contracts.scenario import Scenario
from simharness.core.streams import Root, Stream
from simharness.core.units import NS_PER_MS
from simharness.stateful.training import HUB, MODELS, SIX_INVARIANTS, training_job, workers_named

T = TypeVar("T")
Strategy = Literal["ring", "ps"]
Policy = Literal["own", "reshard"]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)

HORIZON_MS: Final = 2_500
RESTORED_MS: Final = 3_000
"""By then every fault is over: none begins after the horizon, none lasts longer than 500 ms."""
QUIET_AFTER_MS: Final = 700
QUIET_WITHIN_MS: Final = 900
LEAST_STEPS: Final = 8

MOST_WORKERS: Final = 12
_WEIGHTS: Final = (6, 12, 14, 14, 10, 6, 4, 3, 2, 2, 2, 2)
"""By number of workers: a ring's messages grow with its square."""


class Case(NamedTuple):
    """One run of a sweep."""

    seed: int
    strategy: Strategy
    policy: Policy

    @property
    def name(self) -> str:
        """What its scenario is called."""
        return f"training_{self.seed}_{self.strategy}_{self.policy}"


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep draws from; the default is the whole space, a defect may want a narrower one."""

    kinds: tuple[str, ...] = ()
    """Fault kinds that are always on; none: every kind is on with probability 1/2."""
    workers: tuple[int, ...] = ()
    """Numbers of workers to choose from; none: 1 to `most_workers`, by weight."""
    most_workers: int = MOST_WORKERS
    table: Mapping[str, Any] = {}
    """Fields that every job has."""
    gap_ms: tuple[int, int] = (20, 400)
    lasting_ms: tuple[int, int] = (10, 500)
    start_ms: tuple[int, ...] = (0, 100, 100, 100)
    horizon_ms: int = HORIZON_MS


EVERYTHING: Final = Mix()


def scenario_of(case: Case, mix: Mix = EVERYTHING) -> Scenario:
    """Return the complete scenario of a case: job, faults, restoration, and what must hold."""
    draw = _Draw(Root(case.seed).mutation(0))
    workers = _workers(draw, mix)
    names = workers_named(workers)
    table = _table(draw, workers, case)
    link = draw.of(((300, 0, 0), (500, 0, 0), (500, 100, 0), (1_000, 100, 200_000), (300, 0, 200_000)))
    faults = _schedule(draw, names, mix)
    settled_ns = (mix.horizon_ms + RESTORED_MS - HORIZON_MS) * NS_PER_MS
    after_ns, within_ns = settled_ns + QUIET_AFTER_MS * NS_PER_MS, QUIET_WITHIN_MS * NS_PER_MS
    job = training_job(
        {**table, **mix.table},
        workers=workers,
        seed=case.seed,
        latency_us=link[0],
        jitter_us=link[1],
        reorder_ppm=link[2],
        duration_ns=after_ns + within_ns,
    )
    return msgspec.structs.replace(
        job,
        name=case.name,
        mutations=(*faults, *_restoration((HUB, *names), faults, settled_ns)),
        assertions=(*SIX_INVARIANTS, TrainProgress(after_ns=after_ns, within_ns=within_ns, min_steps=LEAST_STEPS)),
    )


class _Draw:
    """Draws from one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def below(self, bound: int) -> int:
        return self._stream.below(bound)

    def within(self, ends: tuple[int, int]) -> int:
        return ends[0] + self._stream.below(ends[1] - ends[0] + 1)

    def of(self, items: Sequence[T]) -> T:
        return items[self._stream.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> tuple[T, ...]:
        """Return `count` different items, in the order of `items`."""
        left = list(range(len(items)))
        chosen = [left.pop(self._stream.below(len(left))) for _ in range(count)]
        return tuple([items[place] for place in sorted(chosen)])


def _workers(draw: _Draw, mix: Mix) -> int:
    if mix.workers:
        return draw.of(mix.workers)
    weights = _WEIGHTS[: mix.most_workers]
    at = draw.below(sum(weights))
    count = 1
    while at >= weights[count - 1]:
        at -= weights[count - 1]
        count += 1
    return count


def _table(draw: _Draw, workers: int, case: Case) -> dict[str, Any]:
    """Draw a job. Both strategies draw alike; what one has no use for is dropped."""
    model = draw.of(MODELS)
    sizes = [1 + draw.below(6) for _ in range(workers)]
    if workers > 1 and len({*sizes}) == 1:
        sizes[0] += 1  # equal batches could not show a wrong weighting
    backups = draw.of((0, 1, 1)) if workers > 1 else 0
    table: dict[str, Any] = {
        "strategy": case.strategy,
        "data_policy": case.policy,
        "batch_size": sizes,
        "allow_even": True,
        "checkpoint_every": draw.of((1, 2, 5)),
        "pace_ns": draw.of((15, 25, 25, 40)) * NS_PER_MS,
        "compute_ns_per_sample": draw.of((200_000, 1_000_000)),
        "min_workers": draw.of((1, workers // 2 + 1, workers // 2 + 1)),
        **model,
    }
    if case.strategy == "ps":
        table["backup_workers"] = backups
    return table


# --- faults -----------------------------------------------------------------------------------------------------------

_Made = Callable[["_Draw", tuple[str, ...], int, int], Sequence[Mutation]]


def _kill(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    peer = draw.of(names)
    return PeerKill(at_ns=at_ns, peer=peer), PeerResurrect(at_ns=end_ns, peer=peer)


def _preserved(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    peer = draw.of(names)
    return PeerKill(at_ns=at_ns, peer=peer), PeerResurrect(at_ns=end_ns, peer=peer, preserve_state=True)


def _hub(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    del draw, names
    return PeerKill(at_ns=at_ns, peer=HUB), PeerResurrect(at_ns=end_ns, peer=HUB)


def _total(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    victims = names if draw.below(2) else draw.some(names, max(1, len(names) - 1))
    return (
        *[PeerKill(at_ns=at_ns, peer=peer) for peer in victims],
        *[PeerResurrect(at_ns=end_ns, peer=peer) for peer in victims],
    )


def _flap(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    """A worker that dies again and again, faster than a lease runs out, while what it says to the hub comes late."""
    peer, step_ns = draw.of(names), 12 * NS_PER_MS
    spike = LatencySpike(
        at_ns=at_ns, links=_links(((peer, HUB),)), factor_x100=draw.of((2_000, 6_000)), duration_ns=3 * step_ns // 2
    )
    found: list[Mutation] = [spike]
    for place in range(3):
        began_ns = at_ns + step_ns * (2 * place + 1)
        found += [PeerKill(at_ns=began_ns, peer=peer), PeerResurrect(at_ns=began_ns + step_ns, peer=peer)]
    del end_ns
    return found


def _pause(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    return (PeerPause(at_ns=at_ns, peer=draw.of((*names, HUB)), duration_ns=end_ns - at_ns),)


def _slow(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    factor = draw.of((300, 1_000, 2_000))
    return (PeerSlow(at_ns=at_ns, peer=draw.of(names), factor_x100=factor, duration_ns=end_ns - at_ns),)


def _spike(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    links = _some_links(draw, names, 3)
    factor = draw.of((300, 3_000, 10_000))
    return (LatencySpike(at_ns=at_ns, links=links, factor_x100=factor, duration_ns=end_ns - at_ns),)


def _cut(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    """A group, whose side the hub is on is chance, against all others."""
    peers = (*names, HUB)
    one = draw.some(peers, 1 + draw.below(len(names)))
    other = tuple([peer for peer in peers if peer not in one])
    return Partition(at_ns=at_ns, peers_a=one, peers_b=other), Heal(at_ns=end_ns)


def _pair(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    """Two peers that no longer reach each other, though all others reach both."""
    one, other = draw.some((*names, HUB), 2)
    return Partition(at_ns=at_ns, peers_a=(one,), peers_b=(other,)), Heal(at_ns=end_ns)


def _loss(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    links, ppm = _some_links(draw, names, 4), draw.of((100_000, 300_000, 1_000_000))
    return (LossBurst(at_ns=at_ns, links=links, prob_ppm=ppm, duration_ns=end_ns - at_ns),)


def _duplicates(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    links = _some_links(draw, names, 4)
    return (DuplicateBurst(at_ns=at_ns, links=links, prob_ppm=300_000, duration_ns=end_ns - at_ns),)


def _offset(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    peer, offset_ms = draw.of((*names, HUB, HUB)), draw.of((400, 150, -50, -200))
    offset_ns = max(-at_ns, offset_ms * NS_PER_MS)
    return (
        ClockOffset(at_ns=at_ns, peer=peer, offset_ns=offset_ns),
        ClockOffset(at_ns=end_ns, peer=peer, offset_ns=0),
    )


def _drift(draw: _Draw, names: tuple[str, ...], at_ns: int, end_ns: int) -> Sequence[Mutation]:
    peer, ppm = draw.of((*names, HUB)), draw.of((50_000, -50_000, 300_000))
    return ClockDrift(at_ns=at_ns, peer=peer, drift_ppm=ppm), ClockDrift(at_ns=end_ns, peer=peer, drift_ppm=0)


KINDS: Final[Mapping[str, _Made]] = {
    "kill": _kill,
    "preserved": _preserved,
    "hub": _hub,
    "total": _total,
    "flap": _flap,
    "pause": _pause,
    "slow": _slow,
    "spike": _spike,
    "cut": _cut,
    "pair": _pair,
    "loss": _loss,
    "duplicates": _duplicates,
    "offset": _offset,
    "drift": _drift,
}
"""Fault kinds of a schedule, by the names that mixes use."""


def _schedule(draw: _Draw, names: tuple[str, ...], mix: Mix) -> tuple[Mutation, ...]:
    enabled = mix.kinds or tuple([kind for kind in KINDS if draw.below(2)]) or ("kill",)
    found: list[Mutation] = []
    at_ms = draw.of(mix.start_ms)
    while at_ms < mix.horizon_ms:
        kind = draw.of(enabled)
        end_ms = at_ms + draw.within(mix.lasting_ms)
        found += KINDS[kind](draw, names, at_ms * NS_PER_MS, end_ms * NS_PER_MS)
        at_ms += draw.within(mix.gap_ms)
    return tuple(sorted(found, key=lambda mutation: mutation.at_ns))


def _restoration(peers: tuple[str, ...], faults: Sequence[Mutation], at_ns: int) -> list[Mutation]:
    """Return what ends every fault that does not end by itself; a peer that is up is left alone by the engine's own rule."""
    back: list[Mutation] = [PeerResurrect(at_ns=at_ns, peer=peer) for peer in _left_dead(peers, faults)]
    skewed = dict.fromkeys([one.peer for one in faults if isinstance(one, ClockOffset | ClockDrift)])
    right: list[Mutation] = [ClockDrift(at_ns=at_ns, peer=peer, drift_ppm=0) for peer in skewed]
    right += [ClockOffset(at_ns=at_ns, peer=peer, offset_ns=0) for peer in skewed]
    return [Heal(at_ns=at_ns), *back, *right]


def _left_dead(peers: tuple[str, ...], faults: Sequence[Mutation]) -> list[str]:
    dead = dict.fromkeys(peers, False)
    for fault in faults:
        if isinstance(fault, PeerKill | PeerResurrect):
            dead[fault.peer] = isinstance(fault, PeerKill)
    return [peer for peer, is_dead in dead.items() if is_dead]


def _links(pairs: Sequence[tuple[str, str]]) -> tuple[LinkRef, ...]:
    return tuple([LinkRef(source=source, target=target) for source, target in dict.fromkeys(pairs)])


def _some_links(draw: _Draw, names: tuple[str, ...], most: int) -> tuple[LinkRef, ...]:
    peers = (*names, HUB)
    pairs = []
    for _ in range(most):
        source = draw.of(peers)
        pairs.append((source, draw.of([peer for peer in peers if peer != source])))
    return _links(pairs)
