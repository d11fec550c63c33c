"""Plans: every sample once an epoch whatever the members do; known sequences; data, shards and permutations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.core.streams import Root
from simharness.systems.training.config import TrainConfig
from simharness.systems.training.data import draw_data, draw_start, shards, shuffled
from simharness.systems.training.plan import Member, Planner
from simharness.systems.training.state import TrainState, mask
from tests.systems.training.jobs import job, streams


def state_at(config: TrainConfig, *, epoch: int = 0, consumed: int = 0) -> TrainState:
    """Return a state of which only the cursor matters."""
    return TrainState(
        step=0, generation=0, epoch=epoch, consumed=consumed, samples=config.samples, weights=b"", momentum=b""
    )


def everybody(config: TrainConfig) -> list[Member]:
    """Return a view of all workers."""
    return [Member(index, 1) for index in range(len(config.workers))]


def test_effective_batches_of_an_epoch() -> None:
    """Shards of 9, 15, 21 and 12 with batch 4: 16 16 13 7 4 1, and again."""
    config = job(4)
    assert config.shard_sizes == (9, 15, 21, 12)
    planner, state, counts = Planner(config, streams(5)), state_at(config), []
    for _ in range(12):
        plan = planner.plan_step(state, everybody(config))
        counts.append(plan.planned)
        state = state_at(config, epoch=plan.epoch, consumed=plan.consumed | mask(sum(plan.batches, ())))
    assert counts == [16, 16, 13, 7, 4, 1] * 2
    assert state.epoch == 1


@given(
    present=st.lists(st.integers(0, 2**10 - 1), min_size=1, max_size=24),
    workers=st.integers(1, 5),
    policy=st.sampled_from(["own", "reshard"]),
    batch=st.integers(1, 5),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_sample_once_an_epoch(present: list[int], workers: int, policy: str, batch: int, seed: int) -> None:
    """Whoever is a member: no sample twice in an epoch, and none is left that a member of the closing view could give."""
    config = job(workers, data_policy=policy, batch_size=batch, allow_even=True, samples=3 * workers + seed % 7)
    planner, state, seen = Planner(config, streams(seed)), state_at(config), 0
    for choice in present:
        members = [Member(at, 1 + (choice >> 5)) for at in range(workers) if choice >> at & 1] or everybody(config)
        plan = planner.plan_step(state, members)
        used = [sample for each in plan.batches for sample in each]
        assert 0 < len(used) == len(set(used))
        assert all(len(each) <= batch for each in plan.batches)
        owned = (
            mask(tuple(range(config.samples)))
            if policy == "reshard"
            else mask(tuple(sample for member in members for sample in shards(config.shard_sizes)[member.worker]))
        )
        if plan.epoch == state.epoch:
            assert plan.consumed == state.consumed == seen
        else:
            assert plan.epoch == state.epoch + 1
            assert not plan.consumed
            assert owned & seen == owned, "an epoch closes only when its members have nothing left"
            seen = 0
        assert not mask(tuple(used)) & seen
        assert mask(tuple(used)) & owned == mask(tuple(used))
        seen |= mask(tuple(used))
        state = state_at(config, epoch=plan.epoch, consumed=seen)


def orders(policy: str, seed: int, epochs: int) -> list[tuple[int, ...]]:
    """In which order two workers, ten samples each, take them: of `own` the first worker's, of `reshard` everybody's, by epoch."""
    config = job(2, data_policy=policy, shard_sizes=[10, 10], batch_size=20, allow_even=True)
    planner = Planner(config, streams(seed))
    found = []
    for epoch in range(epochs):
        batches = planner.plan_step(state_at(config, epoch=epoch), everybody(config)).batches
        found.append(batches[0] if policy == "own" else sum(batches, ()))
    return found


@pytest.mark.parametrize("policy", ["own", "reshard"])
def test_an_epoch_has_an_order_of_its_own(policy: str) -> None:
    """No two epochs, seeds or workers share one: what no invariant asks for, and what forgetting to reshuffle would lose."""
    found = orders(policy, 1, 50) + orders(policy, 2, 50)
    assert len(set(found)) == 100
    assert all(sorted(order) == list(range(len(order))) for order in found)
    config = job(2, shard_sizes=[10, 10], batch_size=20, allow_even=True)
    one, other = Planner(config, streams(1)).plan_step(state_at(config), everybody(config)).batches
    assert tuple([sample - 10 for sample in other]) != one


@pytest.mark.parametrize("policy", ["own", "reshard"])
def test_no_sample_has_a_place_of_its_own(policy: str) -> None:
    """Over 400 epochs each sample is at each place about as often as at any other: chi squared over the table of both.

    With p samples it has (p - 1) squared degrees of freedom; six of its standard deviations off is one in 10**8. Besides, each
    sample stands in the middle on average, five standard errors at most beside it.
    """
    epochs = 400
    found = orders(policy, 7, epochs)
    size = len(found[0])
    at = [[0] * size for _ in range(size)]
    for order in found:
        for place, sample in enumerate(order):
            at[sample][place] += 1
    due = epochs / size
    freedom = (size - 1) ** 2
    # Rows and columns of counts have fixed sums, which takes size / (size - 1) off what independent cells would give.
    chi = sum((count - due) ** 2 / due for row in at for count in row) * (size - 1) / size
    assert abs(chi - freedom) < 6 * (2 * freedom) ** 0.5
    error = ((size * size - 1) / 12 / epochs) ** 0.5
    for row in at:
        mean = sum(place * count for place, count in enumerate(row)) / epochs
        assert abs(mean - (size - 1) / 2) < 5 * error


@given(workers=st.integers(1, 6), seed=st.integers(0, 1000))
def test_reshard_is_even(workers: int, seed: int) -> None:
    """In `reshard` the runs differ by at most one sample and follow the epoch's permutation."""
    config = job(workers, data_policy="reshard", batch_size=1000, allow_even=True)
    plan = Planner(config, streams(seed)).plan_step(state_at(config), everybody(config))
    sizes = [len(each) for each in plan.batches]
    assert max(sizes) - min(sizes) <= 1
    assert sum(plan.batches, ()) == shuffled(range(config.samples), streams(seed)("perm/0/*"))


def test_a_member_without_samples_takes_part() -> None:
    """Nobody else's samples are touched: its count is 0."""
    config = job(2, shard_sizes=[1, 8])
    plan = Planner(config, streams(3)).plan_step(state_at(config, consumed=1), everybody(config))
    assert [len(each) for each in plan.batches] == [0, 4]


def test_shard_sizes() -> None:
    """Sizes default to the ratio 3 + (2k mod 5); a remainder goes to the first workers."""
    assert job(6).shard_sizes == (9, 15, 21, 12, 18, 9)
    assert job(3, samples=17).shard_sizes == (4, 6, 7)
    assert shards((2, 0, 3)) == (range(2), range(2, 2), range(2, 5))


@given(seed=st.integers(0, 2**64 - 1))
def test_data_lies_on_the_grid(seed: int) -> None:
    """Features lie within one, targets within the teacher's reach; the labels of `sqhinge` are signs."""
    for model in ("linear", "sqhinge"):
        config = job(2, model=model, features=3)
        data = draw_data(Root(seed).system("training", "data"), config)
        assert len(data.features) == len(data.targets) == config.samples
        assert all(abs(x) <= 1024 for row in data.features for x in row)
        limit = 4 * 65536 + 3000 if model == "linear" else 65536
        assert all(abs(target) <= limit for target in data.targets)
    assert {abs(target) for target in data.targets} == {65536}


def test_start_and_explicit_data() -> None:
    """A hidden layer starts on a grid draw, the others at zero; written weights and samples win."""
    assert draw_start(streams(1)("init"), job(2)) == (0,) * 5
    drawn = draw_start(streams(1)("init"), job(2, model="mlp", track_stats=True))
    assert len(drawn) == 4 * 6 + 1 + 8
    assert drawn[-8:] == (0,) * 8
    assert len(set(drawn)) > 10
    config = job(2, features=1, initial_weights=[5, 7], data={"features": [[0], [1], [2]], "targets": [3, 4, 5]})
    assert draw_start(streams(1)("init"), config) == (5, 7)
    assert draw_data(streams(1)("data"), config) == (((0,), (1,), (2,)), (3, 4, 5))
