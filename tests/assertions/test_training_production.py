"""The invariants over runs of production: honest ones pass whatever happens to them, defects fail what they should."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from simharness.assertions.catalog.training_order import TrainStepOrderFold
from simharness.assertions.catalog.training_samples import TrainSampleAccountingFold
from simharness.assertions.setting import from_scenario
from simharness.assertions.training_oracle.problem import permutation, problem_of, shards
from simharness.assertions.training_oracle.reference import Judgement, Oracle, State, _Scale
from simharness.contracts.mutations import Heal, Mutation, Partition, PeerKill, PeerPause, PeerResurrect
from simharness.systems.training import data as production
from simharness.systems.training.job import Job
from simharness.systems.training.table import default_shard_sizes
from tests.assertions.floats import numbers, state, step
from tests.assertions.test_training_folds import held_up, ring, server, steps
from tests.assertions.training_history import Job as History
from tests.assertions.training_history import failed
from tests.assertions.training_world import MS, Watched
from tests.systems.training.jobs import job, streams

I1, I2, I3, I4, I5, I6 = (
    "train_update_matches_reference",
    "train_replicas_identical",
    "train_sample_accounting",
    "train_step_order",
    "train_weights",
    "train_provenance",
)


# --- the same problem, drawn twice ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": "sqhinge", "features": 3},
        {"model": "mlp", "hidden": 5},
        {"model": "mlp", "init": "zeros", "track_stats": True},
        {"init": "grid", "track_stats": True},
        {"initial_weights": [1, -2, 3, 4, 5]},
        {"features": 1, "data": {"features": [[3], [-4], [1024]], "targets": [7, -8, 9]}, "allow_even": True},
    ],
)
def test_both_sides_draw_the_same_problem(fields: dict[str, Any]) -> None:
    """Samples, state 0, shards and orders, from the description of the streams alone; state 0 to the byte."""
    watched = Watched(3, 5, **fields)
    config, facts = watched.config, from_scenario(watched.scenario()).training
    assert facts is not None
    drawn = production.draw_data(streams(5)("data"), config)
    posed = problem_of(facts.config, facts.seed)
    assert (posed.rows, posed.targets) == (drawn.features, drawn.targets)
    assert posed.trained == config.trained
    started = Job(config, streams(5)).start
    assert Oracle(posed).start() == (started.weights, started.momentum)
    assert (facts.samples, facts.shard_sizes, facts.workers) == (config.samples, config.shard_sizes, config.workers)
    assert shards(facts.shard_sizes) == production.shards(config.shard_sizes)
    for epoch, owner in ((0, "w00"), (3, "w01"), (1, "*")):
        expected = production.shuffled(range(4, 15), streams(5)(f"perm/{epoch}/{owner}"))
        assert permutation(5, epoch, owner, range(4, 15)) == [*expected]


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("samples", [None, 10, 64])
def test_default_shards(workers: int, samples: int | None) -> None:
    """A table that names no shard sizes means the same to both."""
    facts = from_scenario(Watched(workers).scenario()).training
    assert facts is not None
    facts.config.pop("shard_sizes")
    facts.config.pop("samples")
    if samples is not None:
        facts.config["samples"] = samples
    assert [*facts.shard_sizes] == default_shard_sizes(workers, samples)


def test_the_float_trainer_of_these_tests_is_production_s() -> None:
    """What the tests of the reference call float64 is what production computes, to the bit."""
    for model in ("linear", "sqhinge", "mlp"):
        config = job(1, model=model, track_stats=True)
        made = Job(config, streams(0))
        posed = problem_of(Watched(1, 0, model=model, track_stats=True).table, 0)
        weights = numbers(made.start.weights)
        sums = made.kernel.gradient_sum(made.start.weights, (3, 1, 4), scale=1)
        mean = made.kernel.mean(sums, scale=1, divisor=3, stats_divisor=3)
        updated = made.kernel.update(made.start.weights, made.start.momentum, mean)
        assert [numbers(each) for each in updated] == [*step(posed, weights, [0.0] * len(weights), [[3, 1, 4]])]


# --- honest runs -----------------------------------------------------------------------------------------------------


def storm(draw: random.Random, names: Sequence[str], hub: str, until_ms: int) -> list[Mutation]:
    """Deaths, sleeps, cuts, a dead hub, and everybody dead at once; all of it mended at the end."""
    found: list[Mutation] = []
    at = 0
    while at < until_ms:
        at += draw.randint(20, 300)
        end_ns = (at + draw.randint(10, 300)) * MS
        at_ns = at * MS
        dead: Sequence[str] = ()
        match draw.choice(("death", "death", "sleep", "cut", "hub", "loss")):
            case "sleep":
                found.append(PeerPause(at_ns=at_ns, peer=draw.choice([*names, hub]), duration_ns=end_ns - at_ns))
            case "cut":
                group = draw.sample(list(names), draw.randint(1, len(names)))
                others = tuple(name for name in (*names, hub) if name not in group)
                found += [Partition(at_ns=at_ns, peers_a=tuple(group), peers_b=others), Heal(at_ns=end_ns)]
            case "hub":
                dead = (hub,)
            case "loss":
                dead = names
            case _:
                dead = (draw.choice(list(names)),)
        found += [PeerKill(at_ns=at_ns, peer=name) for name in dead]
        found += [PeerResurrect(at_ns=end_ns, peer=name) for name in dead]
    found += [PeerResurrect(at_ns=(until_ms + 400) * MS, peer=name) for name in (*names, hub)]
    return sorted([*found, Heal(at_ns=(until_ms + 400) * MS)], key=lambda mutation: mutation.at_ns)


def stormy(workers: int, seed: int, until_ms: int = 700, **fields: Any) -> Watched:
    watched = Watched(workers, seed, **fields)
    draw = random.Random(seed)  # noqa: S311  # repeatable, no secret
    watched.plan(*storm(draw, watched.config.workers, watched.config.hub, until_ms))
    watched.run((until_ms + 1000) * MS)
    return watched


@pytest.mark.parametrize("strategy", ["ring", "ps"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"data_policy": "reshard", "track_stats": True},
        {"model": "mlp", "loss_scale": 1024, "batch_size": [2, 5, 3, 4]},
        {"model": "sqhinge", "checkpoint_every": 1},
    ],
)
def test_clean_runs_pass(strategy: str, fields: dict[str, Any]) -> None:
    """No fault: six passes, discriminating steps, and a ratio that comes near the bound but stays within."""
    watched = Watched(4, 1, strategy=strategy, **fields)
    watched.run(600 * MS)
    found = watched.verdicts()
    assert {verdict.outcome for verdict in found.values()} == {"Pass"}
    assert " 0 discriminating" not in str(found[I1].note)


@pytest.mark.parametrize("strategy", ["ring", "ps"])
@pytest.mark.parametrize("seed", range(4))
def test_storms_pass(strategy: str, seed: int) -> None:
    """Whatever happens, nothing is violated: a small piece of what sweeps and properties do at large."""
    chances = {"loss": 30, "double": 100, "late": 50} if seed % 2 else {}
    backup = {"backup_workers": 1} if strategy == "ps" else {}
    policy = ("own", "reshard")[seed // 2 % 2]
    watched = stormy(2 + seed % 4, seed, strategy=strategy, data_policy=policy, allow_even=True, **chances, **backup)
    found = watched.verdicts()
    assert {kind: verdict.note for kind, verdict in found.items() if verdict.outcome == "Fail"} == {}
    assert {verdict.outcome for kind, verdict in found.items() if kind != I1} == {"Pass"}


# --- out of range ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["ring", "ps"])
def test_a_job_that_diverges_is_not_blamed(strategy: str) -> None:
    """Ruling G15: steps whose exact numbers leave float64 cannot be judged: Inconclusive, with how far the update matched."""
    most = 2**32 - 1
    watched = Watched(2, 1, strategy=strategy, learning_rate=[most, 1], momentum=[most, 1])
    watched.run(900 * MS)
    verdict = watched.verdicts()[I1]
    assert verdict.outcome == "Inconclusive"
    assert "the vectors are not finite: the job diverged; until then " in (verdict.note or "")
    assert " steps judged, worst at 0." in (verdict.note or "")
    assert watched.failed() == {}


# --- defects ---------------------------------------------------------------------------------------------------------


def caught(defect: str, strategy: str, seeds: range = range(12), **fields: Any) -> list[str]:
    """The invariants that fail at the first seed where any does; guards are off."""
    slow = {"REPORT_PLANNED", "MARK_ALL_CONSUMED"}
    for seed in seeds:
        more: dict[str, Any] = {"allow_even": True, "guards": False, "defects": [defect], "strategy": strategy}
        watched = Watched(4, seed, **(more | fields))
        draw = random.Random(seed)  # noqa: S311  # repeatable, no secret
        watched.plan(*storm(draw, watched.config.workers, watched.config.hub, 500))
        if defect in slow:
            watched.processes["w01"].slow(2000)  # type: ignore[union-attr]
        watched.run(900 * MS)
        found = watched.failed()
        if found:
            return [*found]
    return []


@pytest.mark.parametrize(
    ("defect", "strategy", "fields", "alone"),
    [
        ("UNWEIGHTED_MEAN", "ring", {}, I1),
        ("UNWEIGHTED_MEAN", "ps", {}, I1),
        ("FLOAT32_WIRE", "ps", {}, I1),
        ("STATS_MEAN_OF_MEANS", "ring", {"track_stats": True}, I1),
        ("RECIPROCAL", "ring", {}, I2),
        ("CHECKPOINT_NO_MOMENTUM", "ps", {}, I2),
        ("MARK_ALL_CONSUMED", "ps", {"backup_workers": 1}, I3),
        ("EPOCH_FROM_START", "ps", {}, I3),
        ("EAGER_ROLLBACK", "ring", {"checkpoint_every": 1000}, I4),
        ("OLD_CHECKPOINT", "ps", {}, I4),
        ("REPORT_PLANNED", "ps", {"backup_workers": 1}, I5),
        ("PAD_SHORT_BATCH", "ring", {}, I5),
        ("DUP_PUSH", "ps", {"double": 200}, I5),
        ("NO_INCARNATION_CHECK", "ps", {}, I6),
    ],
)
def test_each_invariant_has_defects_that_it_alone_sees(
    defect: str, strategy: str, fields: dict[str, Any], alone: str
) -> None:
    """Section 18: without I1 to I6, one by one, these would go unseen; none of them sets off another alarm."""
    assert caught(defect, strategy, **fields) == [alone]


# --- checkers can fail -----------------------------------------------------------------------------------------------


def test_a_wide_tolerance_loses_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tolerance a million times as wide, a mean that is off by 1e-11 of itself goes unseen."""
    posed = problem_of(Watched(2, 3).table, 3)
    weights, momentum = step(posed, [1.0] * 5, [0.5] * 5, [[1, 2], [3]])
    after = step(posed, weights, momentum, [[4, 5], [6]])
    off = state(after[0], [value * (1 + 1e-11) for value in after[1]])

    def within() -> bool:
        return Oracle(posed).judge(state(weights, momentum), off, [[4, 5], [6]]).worst.within

    assert not within()
    narrow = _Scale.update

    def wide(*args: Any) -> tuple[int, int, int, int]:
        w, v, w_tolerance, v_tolerance = narrow(*args)
        return w, v, 10**6 * w_tolerance, 10**6 * v_tolerance

    monkeypatch.setattr(_Scale, "update", wide)
    assert within()


def test_a_reference_fed_with_productions_mean_loses_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that takes the mean from what production made of it, v' - mu v, agrees with any: the worst goes unseen."""
    assert caught("UNWEIGHTED_MEAN", "ring") == [I1]

    def fed(oracle: Oracle, before: State, after: State, batches: Sequence[Sequence[int]]) -> Judgement:
        exact = oracle.reference(before, batches, max(after.weights.bits, after.momentum.bits))
        made = [value * exact.multiple for value in after.momentum.over(exact.bits)]
        down, over = oracle.problem.learning_rate
        weights = [
            w * exact.multiple - down * v // over for w, v in zip(before.weights.over(exact.bits), made, strict=True)
        ]
        own = exact._replace(momentum=tuple(made), weights=tuple(weights))
        return Judgement(own.judge(after), exact.discriminates)

    monkeypatch.setattr(Oracle, "judge", fed)
    assert caught("UNWEIGHTED_MEAN", "ring") == []


@pytest.mark.parametrize(
    ("fold", "rule", "make"),
    [
        (TrainSampleAccountingFold, "on_apply", lambda: steps(server(), 1).step(consumed=1 << 12)),
        (TrainStepOrderFold, "_need", lambda: held_up(ring()).roll_back(3)),
    ],
)
def test_a_rule_left_out_loses_a_kill(
    monkeypatch: pytest.MonkeyPatch, fold: type[Any], rule: str, make: Callable[[], History]
) -> None:
    """Accounting without (b) and order without (d) each let a history go that nothing else objects to."""
    assert failed(make())
    monkeypatch.setattr(fold, rule, lambda *_, **__: None)
    assert not failed(make())


def test_order_without_need_lets_an_eager_hub_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without (d) "roll back" excuses every lost step."""
    monkeypatch.setattr(TrainStepOrderFold, "_need", lambda *_, **__: None)
    assert not caught("EAGER_ROLLBACK", "ring", range(3), checkpoint_every=1000)
