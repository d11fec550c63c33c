"""Scenarios of training jobs: as Hypothesis draws them, and as a sweep builds them from numbers (training design, 17)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from simharness.contracts.assertions import (
    Assertion,
    TrainProgress,
    TrainProvenance,
    TrainReplicasIdentical,
    TrainSampleAccounting,
    TrainStepOrder,
    TrainUpdateMatchesReference,
    TrainWeights,
)
from simharness.contracts.host import PeerFacts
from simharness.contracts.links import LinkPolicy
from simharness.contracts.scenario import MeshDecl, PeerDecl, Scenario
from simharness.core.errors import Problem, ScenarioError
from simharness.core.units import NS_PER_MS
from simharness.stateful.pools import Number, ints, seeds, value_of
from simharness.stateful.templates import Facts, Template
from simharness.stateful.topologies import PLACEHOLDER_NS, use_kind

HUB: Final = "hub"
TICK_NS: Final = 10 * NS_PER_MS
_US: Final = 1_000
_BANDWIDTH_BPS: Final = 125_000_000
_WARM_NS: Final = 30_000 * NS_PER_MS
_TEN: Final = 10

SIX_INVARIANTS: Final[tuple[Assertion, ...]] = (
    TrainUpdateMatchesReference(),
    TrainReplicasIdentical(),
    TrainSampleAccounting(),
    TrainStepOrder(),
    TrainWeights(),
    TrainProvenance(),
)


def workers_named(count: int) -> tuple[str, ...]:
    """Return the ids of `count` workers, in the order of their indices."""
    return tuple([f"w{place:0{1 if count <= _TEN else 2}d}" for place in range(count)])


def training_job(
    table: Mapping[str, Any],
    *,
    workers: int,
    seed: int = 0,
    latency_us: int = 500,
    jitter_us: int = 0,
    reorder_ppm: int = 0,
    duration_ns: int = PLACEHOLDER_NS,
) -> Scenario:
    """Return a job of one hub and some workers, all linked to all, without faults and assertions.

    Args:
        table: The `[training]` table as written.
        workers: How many.
        seed: The scenario's seed.
        latency_us: One way, microseconds.
        jitter_us: Its standard deviation, microseconds.
        reorder_ppm: Probability of a second helping of delay.
        duration_ns: How long it runs.

    Raises:
        ScenarioError: If the kind refuses the table.
    """
    ids = (HUB, *workers_named(workers))
    facts = PeerFacts(id=HUB, initial_state="alive", tick_period_ns=TICK_NS, peer_ids=ids)
    config, complaints = use_kind("train_hub").validate(table, facts)
    if complaints:
        raise ScenarioError(Problem("(strategy)", item.field, item.rule) for item in complaints)
    kinds = {peer: "train_hub" if peer == HUB else "train_worker" for peer in ids}
    return Scenario(
        name="training",
        seed=seed,
        duration_ns=duration_ns,
        default_tick_period_ns=TICK_NS,
        default_link=LinkPolicy(
            latency_ns=latency_us * _US,
            jitter_stddev_ns=jitter_us * _US,
            loss_prob_ppm=0,
            reorder_prob_ppm=reorder_ppm,
            bandwidth_bps=_BANDWIDTH_BPS,
            cold_dial_penalty_ns=0,
            cache_warm_after_ns=0,
            cache_invalidate_after_idle_ns=_WARM_NS,
            occupancy="wire",
        ),
        peers=tuple(
            [PeerDecl(id=peer, kind=kinds[peer], initial_state="alive", kind_config=dict(config)) for peer in ids]
        ),
        meshes=(MeshDecl(),),
    )


MODELS: Final[tuple[Mapping[str, Any], ...]] = (
    {"model": "linear"},
    {"model": "sqhinge"},
    {"model": "linear", "features": 1},
    {"model": "mlp", "features": 2, "hidden": 2},
)
"""Models that a drawn job has; the third has fewer parameters than most rings have members."""

_POLICIES: Final = st.sampled_from(("own", "reshard"))
_MODELS: Final = st.sampled_from(MODELS)
_INTERVALS: Final = st.sampled_from((1, 2, 5))


@st.composite
def training_jobs(
    draw: st.DrawFn,
    *,
    strategy: str,
    workers: Number = 3,
    policy: st.SearchStrategy[str] = _POLICIES,
    model: st.SearchStrategy[Mapping[str, Any]] = _MODELS,
    checkpoint_every: st.SearchStrategy[int] = _INTERVALS,
    pace_ms: Number = 20,
    config: Mapping[str, Any] | None = None,
) -> Scenario:
    """Base scenarios of training jobs with shards of uneven sizes, shrinking to one worker with a linear model.

    Batches hold one to five samples, by worker; `config` holds further fields of the table, the model too if it is not to be drawn.
    A server may do without one worker of several in every second job.
    """
    count, fixed = value_of(draw, workers), config or {}
    table: dict[str, Any] = {
        "strategy": strategy,
        "data_policy": draw(policy),
        "checkpoint_every": draw(checkpoint_every),
        "batch_size": [draw(ints(1, 5)) for _ in range(count)],
        "pace_ns": value_of(draw, pace_ms) * NS_PER_MS,
        "allow_even": True,
        **({} if "model" in fixed else draw(model)),
        **fixed,
    }
    if strategy == "ps" and count > 1:
        table["backup_workers"] = draw(st.sampled_from((0, 1)))
    return training_job(
        table,
        workers=count,
        seed=draw(seeds()),
        jitter_us=draw(st.sampled_from((0, 100))),
        reorder_ppm=draw(st.sampled_from((0, 200_000))),
    )


def progress_after_quiet(*, steps: int, after_ms: int, within_ms: int) -> Template:
    """Ask for steps in the quiet phase, once it has lasted `after_ms`; made only if there is one."""

    def bind(facts: Facts) -> Iterator[Assertion]:
        if facts.quiet_from_ns is not None:
            yield TrainProgress(
                after_ns=facts.quiet_from_ns + after_ms * NS_PER_MS, within_ns=within_ms * NS_PER_MS, min_steps=steps
            )

    return Template(bind)
