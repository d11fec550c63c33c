"""Reported failures of other trainers, restated as inputs with the right answer (cases C01, C03, C05, C07).

One feature x = 0, so the bias is the scalar w and the gradient of a sample is w - y.
"""

from typing import Any

import pytest

from simharness.systems.training.config import TrainConfig
from simharness.systems.training.wire import Chunk, Message, Push, Ready
from simharness.systems.training.worker import Worker
from tests.systems.training.claims import all_claims
from tests.systems.training.jobs import job
from tests.systems.training.test_kernel import floats
from tests.systems.training.world import World

MS = 1_000_000
ONE = 1 << 16
STRATEGIES = ("ring", "ps")


def scalar_job(sizes: list[int], targets: list[int], **fields: Any) -> TrainConfig:
    """Return a job of one scalar; the targets are whole numbers, in the order of the shards."""
    data = {"features": [[0]] * len(targets), "targets": [target * ONE for target in targets]}
    still = {"learning_rate": [0, 1], "momentum": [0, 1], "features": 1, "allow_even": True}
    return job(len(sizes), shard_sizes=sizes, data=data, **(still | fields))


def mean_gradient(record: dict[str, Any]) -> float:
    """Return the bias's entry of the momentum, which is the mean gradient where momentum is 0."""
    return floats(bytes.fromhex(record["momentum"]))[1]


def weight(record: dict[str, Any]) -> float:
    """Return the scalar after an update."""
    return floats(bytes.fromhex(record["weights"]))[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("sizes", "gradients", "right", "wrong"),
    [([4, 4, 1], [1] * 4 + [3] * 4 + [20], 4.0, 8.0), ([8, 3], [1] * 8 + [4] * 3, 20 / 11, 2.5)],
)
def test_c01_weighting(strategy: str, sizes: list[int], gradients: list[int], right: float, wrong: float) -> None:
    """C01: the mean over the union, not the mean of the workers' means; with the defect it is the wrong value."""
    for defects, expected in (([], right), (["UNWEIGHTED_MEAN"], wrong)):
        targets = [-gradient for gradient in gradients]
        world = World(scalar_job(sizes, targets, strategy=strategy, batch_size=8, steps=1, defects=defects))
        world.run(200 * MS)
        applied = world.of("TrainApply")
        assert applied
        assert {mean_gradient(record) for record in applied} == {expected}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("sizes", "right"), [([1] * 6, 3.0), ([2, 2, 2, 1, 2, 2], 18 / 7)], ids=["equal", "weighted"])
def test_c03_scale_down(strategy: str, sizes: list[int], right: float) -> None:
    """C03: after two of six have died the sum is divided by what the survivors contributed."""
    targets = [-value for value, size in zip((1, 2, 3, 6, 5, 7), sizes, strict=True) for _ in range(size)]
    config = scalar_job(sizes, targets, strategy=strategy, batch_size=2, min_workers=4, pace_ns=20 * MS)
    world = World(config)
    for name in ("w04", "w05"):
        world.at(205 * MS, world.kill, name)
    world.run(600 * MS)
    all_claims(world)
    last = world.of("TrainCommit")[-1]
    assert len(last["contributions"]) == 4
    assert last["count"] == sum(sizes[:4])
    assert mean_gradient(world.of("TrainApply")[-1]) == pytest.approx(right, rel=1e-15)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_c05_synchronous(strategy: str) -> None:
    """C05: from 10, targets 2 and 6, rate 1/8: one step of both leads to 37/4."""
    fields = {"learning_rate": [1, 8], "initial_weights": [0, 10 * ONE], "steps": 1}
    world = World(scalar_job([1, 1], [2, 6], strategy=strategy, **fields))
    world.run(200 * MS)
    assert {weight(record) for record in world.of("TrainApply")} == {9.25}


def test_c05_late_push() -> None:
    """C05: a push that comes after its step is refused, recomputed at the new weights, and one that comes twice counts once."""
    fields = {"learning_rate": [1, 8], "initial_weights": [0, 10 * ONE], "steps": 2, "backup_workers": 1}
    world = World(scalar_job([1, 1], [2, 6], strategy="ps", backup_grace_ns=0, **fields), double=1000)
    slow = world.processes["w01"]
    assert isinstance(slow, Worker)
    slow.slow(120)  # its push is on the way when the step closes
    world.run(300 * MS)
    all_claims(world)
    assert [weight(record) for record in world.of("TrainApply")] == [9.0, 8.625]
    assert [record["contributions"][0][0] for record in world.of("TrainCommit")] == ["w00", "w01"]
    refused = [(record["peer"], record["why"]) for record in world.of("TrainReject")]
    assert ("w01", "old_step") in refused, "the late push"


def dying(world: World, victim: str, kind: type[Message], number: int, *, sent: bool) -> None:
    """Let a worker die at its `number`-th message of a kind in step 2, before or just after it is sent."""
    seen = []

    def cut(source: str, _target: str, message: Message) -> bool:
        if source != victim or victim not in world.processes:
            return source == victim
        if type(message) is kind and message.head.step == 2:
            seen.append(message)
            if len(seen) == number:
                world.kill(victim)
                return not sent
        return False

    world.cut = cut


@pytest.mark.parametrize(
    ("strategy", "kind", "number"), [("ring", Chunk, 1), ("ring", Chunk, 3), ("ring", Ready, 1), ("ps", Push, 1)]
)
def test_c07_death_before_the_reduction(strategy: str, kind: type[Message], number: int) -> None:
    """C07: who dies before READY or PUSH is not in the step: 16 of 24 samples, and survivors end with the same bits."""
    config = scalar_job([8, 8, 8], list(range(24)), strategy=strategy, batch_size=8, learning_rate=[1, 8])
    world = World(config)
    dying(world, "w00", kind, number, sent=False)
    world.run(600 * MS)
    all_claims(world)
    commits = world.of("TrainCommit")
    assert [record["count"] for record in commits[:4]] == [24, 24, 16, 16]
    assert all(each[0] != "w00" for record in commits[2:] for each in record["contributions"])


@pytest.mark.parametrize(("strategy", "kind"), [("ring", Ready), ("ps", Push)])
def test_c07_death_after_it(strategy: str, kind: type[Message]) -> None:
    """C07: after READY or PUSH the commit stands, its samples count, and no claim is broken."""
    config = scalar_job([8, 8, 8], list(range(24)), strategy=strategy, batch_size=8, learning_rate=[1, 8])
    world = World(config)
    dying(world, "w00", kind, 1, sent=True)
    world.run(600 * MS)
    all_claims(world)
    assert [record["count"] for record in world.of("TrainCommit")[:4]] == [24, 24, 24, 16]
