"""Both strategies over a world that drops, doubles, delays and kills: the claims hold, and steps go on once it is quiet."""

import random

import pytest

from simharness.systems.training.config import runs
from simharness.systems.training.data import draw_data
from simharness.systems.training.plan import Member
from simharness.systems.training.state import TrainState, mask
from tests.systems.training import plain
from tests.systems.training.claims import all_claims
from tests.systems.training.jobs import job, streams
from tests.systems.training.test_kernel import floats, packed
from tests.systems.training.world import World

MS = 1_000_000
STRATEGIES = ("ring", "ps")


def plain_run(world: World, steps: int) -> list[str]:
    """Return the weights after each step of a loop that knows no network, adding in the order that the strategy lays down."""
    config = world.config
    data = draw_data(streams(world.seed)("data"), config)
    weights, momentum = floats(world.job.start.weights), [0.0] * config.entries
    state, members = world.job.start, [Member(index, 1) for index in range(len(config.workers))]
    found = []
    for _ in range(steps):
        step = world.job.planner.plan_step(state, members)
        sums = [plain.batch_sum(config, data, weights, ids) for ids in step.batches]
        if config.strategy == "ps":
            total = plain.add_up([each for each, ids in zip(sums, step.batches, strict=True) if ids], config.entries)
        else:
            total, at = [], 0
            for index, size in enumerate(runs(config.entries, len(members))):
                turned = [sums[(index + turn) % len(members)][at : at + size] for turn in range(len(members))]
                total += plain.add_up(turned, size)
                at += size
        mean = [value / step.planned for value in total]
        weights, momentum = plain.update(config, weights, momentum, mean)
        state = TrainState(
            step=state.step + 1,
            generation=0,
            epoch=step.epoch,
            consumed=step.consumed | mask(sum(step.batches, ())),
            samples=config.samples,
            weights=b"",
            momentum=b"",
        )
        found.append(packed(weights).hex())
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"data_policy": "reshard", "batch_size": 3},
        {"model": "mlp", "hidden": 2},
        {"track_stats": True, "loss_scale": 64},
    ],
    ids=str,
)
def test_clean_runs_equal_a_plain_loop(strategy: str, workers: int, fields: dict[str, object]) -> None:
    """Without faults every replica has, after each step, the bits of one process that trains on the union."""
    if fields.get("data_policy") == "reshard":
        fields = fields | {"samples": 17 * workers, "allow_even": True}
    world = World(job(workers, strategy=strategy, steps=24, **fields), seed=workers)
    world.run(1000 * MS)
    expected = plain_run(world, 24)
    for host in world.config.workers if strategy == "ring" else ["hub"]:
        assert [record["weights"] for record in world.of("TrainApply", host)] == expected
    all_claims(world)
    assert len(world.of("TrainCommit")) == 24
    assert not world.of("TrainReject")
    assert not world.of("TrainRollback")


def test_messages_of_an_undisturbed_step() -> None:
    """A ring step costs 2N(N-1) chunks, N READY and N COMMIT; a server step N PARAMS and a push of everybody with samples."""
    world = World(job(4, steps=10))
    world.run(500 * MS)
    counts = {tag: world.sent[tag] for tag in ("CHUNK", "READY", "COMMIT", "VIEW", "CHUNK_REQ", "STATE_REQ", "SUSPECT")}
    assert counts == {"CHUNK": 240, "READY": 40, "COMMIT": 40, "VIEW": 4, "CHUNK_REQ": 0, "STATE_REQ": 0, "SUSPECT": 0}
    world = World(job(4, strategy="ps"))
    world.run(100 * MS)
    commits = world.of("TrainCommit")
    pushes = sum(len(record["contributions"]) for record in commits)
    assert len(commits) > 10
    assert world.sent["PARAMS"] == 4 * len(commits) + 4
    assert pushes <= world.sent["PUSH"] < pushes + 4


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(8))
def test_storms(strategy: str, seed: int) -> None:
    """Loss, doubling, delay, kills of anybody, pauses: the claims hold, and ten steps follow within a quiet second."""
    chance = random.Random(seed)  # noqa: S311
    workers = chance.randrange(1, 6)
    config = job(
        workers,
        strategy=strategy,
        data_policy=chance.choice(["own", "reshard"]),
        batch_size=chance.randrange(2, 6),
        checkpoint_every=chance.choice([1, 2, 5]),
        backup_workers=chance.randrange(2) if strategy == "ps" and workers > 2 else 0,
        allow_even=True,
        samples=13 * workers,
    )
    world = World(config, seed, loss=30, double=100, late=60)
    for _ in range(10):
        name, at = chance.choice(world.names), chance.randrange(1200) * MS
        if chance.randrange(3):
            world.at(at, world.kill, name)
            world.at(at + chance.randrange(5, 400) * MS, lambda name=name: name in world.processes or world.start(name))
        else:
            world.at(at, world.paused.append, name)
            world.at(at + chance.randrange(5, 300) * MS, world.paused.remove, name)
    world.run(1600 * MS)
    world.loss = world.double = world.late = 0
    world.run(2100 * MS)
    before = len(world.of("TrainCommit"))
    world.run(3100 * MS)
    all_claims(world)
    assert len(world.of("TrainCommit")) >= before + 10
