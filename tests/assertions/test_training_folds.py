"""The six invariants over hand-made records: what is legal passes all of them, and each corruption fails its own and no other."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.contracts.assertions import TrainProgress, TrainUpdateMatchesReference
from simharness.contracts.links import LinkRef
from simharness.contracts.mutations import ClockOffset, Heal, LatencySpike, LossBurst, Partition, PeerPause
from simharness.contracts.records import EventRecord
from tests.assertions.training_history import HUB, MS, SIX, TICK, Job, Part, State, failed, scenario, verdicts

I1, I2, I3, I4, I5, I6 = (
    "train_update_matches_reference",
    "train_replicas_identical",
    "train_sample_accounting",
    "train_step_order",
    "train_weights",
    "train_provenance",
)


def steps(job: Job, count: int) -> Job:
    for _ in range(count):
        job.step()
    return job


def ring(**more: Any) -> Job:
    return Job(strategy="ring", **more)


def server(**more: Any) -> Job:
    return Job(strategy="ps", **more)


# --- what is legal -------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_legal_histories_pass(data: st.DataObject) -> None:
    """Deaths, returns, aborts, dropped backups, late replicas and rollbacks violate nothing; streaming says the same (V6)."""
    job = Job(
        workers=data.draw(st.integers(1, 4)),
        strategy=data.draw(st.sampled_from(("ring", "ps"))),
        data_policy=data.draw(st.sampled_from(("own", "reshard"))),
        model=data.draw(st.sampled_from(("linear", "linear", "mlp"))),
    )
    checkpointed = 0
    for _ in range(data.draw(st.integers(3, 25))):
        up = [name for name in job.names if job.up[name]]
        match data.draw(st.sampled_from(("step",) * 6 + ("death", "return", "abort", "loss", "checkpoint"))):
            case "death" if len(up) > 1:
                job.kill(data.draw(st.sampled_from(up))).view()
            case "return" if len(up) < len(job.names):
                job.revive(next(name for name in job.names if not job.up[name])).view()
            case "abort":  # gradients that come to nothing, then another view
                for name, ids in job.plan()[2].items():
                    job.gradient(name, ids)
                job.view()
            case "checkpoint":
                job.checkpoint(*(job.members if job.ring else (HUB,)))
                checkpointed = job.state.step
            case "loss":
                if job.ring:
                    for name in up:
                        job.kill(name)
                    for name in job.names:
                        job.revive(name)
                else:
                    job.kill(HUB).revive(HUB)
                job.roll_back(checkpointed)
            case _:
                planned = [name for name, ids in job.plan()[2].items() if ids]
                backup = not job.ring and len(planned) > 1 and data.draw(st.booleans())
                job.step(drop=planned[:1] if backup else ())
    found = verdicts(job)
    assert not [note for judged, note in found.values() if judged.outcome == "Fail"]
    if job.lineage.keys() != {0}:
        assert {judged.outcome for kind, (judged, _) in found.items() if kind != I1} == {"Pass"}


def test_nothing_committed_shows_nothing() -> None:
    """Ruling V3: without a committed step every invariant is inconclusive, without a job too."""
    assert {judged.outcome for judged, _ in verdicts(ring()).values()} == {"Inconclusive"}
    from simharness.assertions.streaming import StreamingEvaluator

    made = scenario(ring().config, [])
    assert {verdict.outcome for verdict in StreamingEvaluator(made).close(5)} == {"Inconclusive"}


def test_a_woken_replica_applies_late() -> None:
    """A step applied dozens of steps later is looked up by generation and step; so is one of a generation that is over."""
    job = ring().step().step(late=["w3"])
    missed = job.state
    job.now_ns += 1
    job.view(["w1", "w2"])
    steps(job, 5).total_loss()
    job.roll_back(0)
    steps(job, 3)
    generation, view, job.generation, job.view_number = job.generation, job.view_number, 0, 1
    job.incarnations["w3"], job.held["w3"] = 1, job.zero  # the first process of w3 never died, it was paused
    held = next(r for r in reversed(job.run.records) if isinstance(r, EventRecord) and r.host_id == "w3")
    assert held is not None
    job.held["w3"] = State(*_state_before(job, missed))
    job.apply("w3", missed)
    job.generation, job.view_number = generation, view
    assert not failed(job)


def _state_before(job: Job, state: State) -> State:
    """The state that `state` came from, which a rollback has taken off the lineage."""
    again = ring().step()
    assert again.state.step == state.step - 1
    return again.state


def test_discrimination() -> None:
    """12.5: a run in which a wrong weighting would be right is inconclusive; one contributor throughout is not (V3)."""
    even = ring(shard_sizes=[3, 3, 3])
    judged, note = verdicts(steps(even, 4))[I1]
    assert judged.outcome == "Inconclusive"
    assert note.endswith(" 0 discriminating")
    alone = Job(workers=1)
    judged, note = verdicts(steps(alone, 4))[I1]
    assert judged.outcome == "Pass"
    assert note.endswith("single contributor")
    uneven = steps(ring(), 9)
    for wanted, outcome in ((1, "Pass"), (3, "Pass"), (99, "Inconclusive")):
        (judged, note), *_ = verdicts(uneven, [TrainUpdateMatchesReference(min_discriminating=wanted)]).values()
        assert judged.outcome == outcome
    assert note.endswith("99 wanted")


def test_orphans_are_listed() -> None:
    """Samples of an absent owner are orphans of the epoch that closes without them, and no violation."""
    job = steps(ring().kill("w2").view(), 5)
    judged, note = verdicts(job)[I3]
    assert judged.outcome == "Pass"
    assert note.endswith("9 orphans in 1")


# --- I1 ------------------------------------------------------------------------------------------------------------


def unweighted(job: Job) -> Callable[[State, Sequence[Part]], Any]:
    def update(before: State, parts: Sequence[Part]) -> Any:
        means = [job.updated(before, [part], len(part.ids)) for part in parts if part.ids]
        momentum = [
            29 / 32 * v + sum(mean[1][at] - 29 / 32 * v for mean in means) / len(means)
            for at, v in enumerate(before.momentum)
        ]
        return [w - v / 16 for w, v in zip(before.weights, momentum, strict=True)], momentum

    return update


def planned_divisor(job: Job) -> Callable[[State, Sequence[Part]], Any]:
    return lambda before, parts: job.updated(before, parts, 9)


def stale(job: Job) -> Callable[[State, Sequence[Part]], Any]:
    return lambda before, parts: job.updated(before, parts, sum(p.count for p in parts), job.lineage[before.step - 1])


@pytest.mark.parametrize("make", [ring, server])
@pytest.mark.parametrize("wrong", [unweighted, planned_divisor, stale])
def test_i1_alone_sees_wrong_numbers(make: Callable[..., Job], wrong: Callable[[Job], Any]) -> None:
    """Wrong arithmetic behind records that are all right is caught here and nowhere else; the note names the coordinate."""
    job = steps(make(), 2)
    job.step(update=wrong(job))
    found = failed(steps(job, 2))
    assert [*found] == [I1]
    who = "w1" if job.ring else HUB
    assert found[I1].startswith(f"step 2 of generation 0, {who}: ")
    assert found[I1].endswith(" tolerances off")


def test_i1_names_the_apply() -> None:
    """The evidence is the first apply of the broken step."""
    job = steps(ring(), 2)
    job.step(update=stale(job))
    judged, _ = verdicts(job)[I1]
    record = job.run.records[judged.evidence[0]]
    assert isinstance(record, EventRecord)
    assert (record.event["kind"], record.event["step"], record.host_id) == ("TrainApply", 3, "w1")


@pytest.mark.parametrize("text", ["", "00" * 8, "ff" * 24, "zz"])
def test_i1_refuses_what_is_no_vector(text: str) -> None:
    """Vectors of a wrong length are no update; numbers that are none, where the exact ones are small, are a wrong one (G15)."""
    job = steps(ring(), 1)
    job.step(twist=lambda _, state: state)
    for record in job.run.records:
        if isinstance(record, EventRecord) and record.event["kind"] == "TrainApply" and record.event["step"] == 2:
            record.event["weights"] = text
    assert ("not finite" if text == "ff" * 24 else "numbers each") in failed(job)[I1]


# --- I2 ------------------------------------------------------------------------------------------------------------


def nudged(state: State) -> State:
    return state._replace(weights=[math.nextafter(state.weights[0], 9), *state.weights[1:]])


def test_i2_alone_sees_a_last_bit() -> None:
    """One replica that differs in the last bit from some step on: the note says which part and who."""
    job = ring()
    for _ in range(4):
        job.step(twist=lambda name, state: nudged(state) if name == "w2" else state)
    found = failed(job)
    assert [*found] == [I2]
    assert found[I2] == "state 1 of generation 0: w2 differs from w1 in weights"


def test_i2_alone_sees_an_install_without_momentum() -> None:
    """State means momentum and cursor too."""
    job = steps(ring(), 3)
    job.kill("w2").view(["w1", "w3"]).revive("w2")
    job.view(["w1", "w3"])
    job.install("w2", job.state._replace(momentum=[0.0] * 3))
    assert failed(job) == {I2: "state 3 of generation 0: w2 differs from w1 in momentum"}


def test_i2_alone_sees_a_rollback_to_another_state() -> None:
    """The state of a new generation is the one that the lineage had."""
    job = steps(server(), 2).checkpoint()
    steps(job, 2).kill(HUB).revive(HUB)
    job.roll_back(2, whole="00" * 16)
    assert [*failed(steps(job, 2))] == [I2]


def test_i2_alone_sees_other_parameters() -> None:
    """What a worker of a server adopts is what the server applied."""
    job = steps(server(), 2)
    job.emit("w1", "TrainAdopt", incarnation=1, generation=0, step=2, from_=HUB, digests=["00" * 16])
    assert [*failed(steps(job, 1))] == [I2]


def test_i2_keeps_generations_apart() -> None:
    """Parameters of a generation that is over, under way when the hub rolled back, are compared with that generation."""
    job = steps(server(), 2).checkpoint()
    steps(job, 2)
    old = job.state.digests[:1]
    job.kill(HUB).revive(HUB).roll_back(2)
    steps(job, 3)
    job.emit("w1", "TrainAdopt", incarnation=1, generation=0, step=4, from_=HUB, digests=old)
    assert not failed(job)
    job.emit("w1", "TrainAdopt", incarnation=1, generation=1, step=4, from_=HUB, digests=["11" * 16])
    assert [*failed(job)] == [I2]


@pytest.mark.parametrize("field", ["weights", "momentum", "consumed"])
def test_i2_sees_records_that_are_not_what_they_say(field: str) -> None:
    """A vector or a bitmap on record has the digest that it is recorded with."""
    job = steps(ring(), 2)
    last = next(r for r in reversed(job.run.records) if isinstance(r, EventRecord) and "post" in r.event)
    data = bytearray(bytes.fromhex(last.event[field]))
    data[0] ^= 1
    last.event[field] = data.hex()
    assert I2 in failed(job)


def test_i2_knows_state_0() -> None:
    """State 0 is the scenario's: a replica that starts with another is no replica."""
    job = ring()
    job.install("w2", job.zero._replace(weights=[1.0, 0.0, 0.0]))
    job.now_ns += 1
    job.step()
    assert [*failed(job)] == [I2]


# --- I3 ------------------------------------------------------------------------------------------------------------


def test_i3_alone_sees_a_sample_twice() -> None:
    """(a) A sample of an earlier step of the epoch; the evidence names both steps."""
    job = steps(ring(), 1)
    job.step(batches={"w2": [5, 8, 9]})
    assert failed(steps(job, 1)) == {I3: "step 1: samples 5 contributed in this epoch before"}
    assert len(verdicts(job)[I3][0].evidence) == 2


@pytest.mark.parametrize("make", [ring, server])
def test_i3_alone_sees_samples_marked(make: Callable[..., Job]) -> None:
    """(b) A sample that did not contribute counts as used."""
    job = steps(make(), 1).step(consumed=1 << 12)
    found = failed(job)
    assert [*found] == [I3]
    assert "consumed holds samples 12 that did not contribute, lacks no sample" in found[I3]


def test_i3_alone_sees_an_epoch_closed_early() -> None:
    """(c) Members of the closing view have samples left."""
    job = steps(ring(), 1)
    fresh = {"w1": [0, 1], "w2": [5, 6], "w3": [14, 15]}
    job.lineage[1] = job.state._replace(epoch=1, consumed=0)
    shown = job.state._replace(epoch=0, consumed=job.lineage[1].consumed)
    del shown
    job = steps(ring(), 1)
    real = job.plan
    job.plan = lambda: (1, 0, {name: tuple(ids) for name, ids in fresh.items()})  # type: ignore[method-assign]
    job.step()
    job.plan = real  # type: ignore[method-assign]
    found = failed(job)
    assert [*found] == [I3]
    assert "step 1: epoch 0 closes without samples 3, 4, 8, 9" in found[I3]


def test_i3_alone_sees_an_epoch_skipped() -> None:
    """(d) Epochs advance by one."""
    job = steps(ring(), 3)
    assert job.plan()[0] == 1 or job.step()
    found = failed(steps(ring(), 1).step(epoch=3))
    assert [*found] == [I3]
    assert found[I3] == "step 1: epoch 3 after epoch 0"


def test_i3_undoes_what_was_rolled_back() -> None:
    """A sample whose use was undone may be used again, over the end of an epoch too."""
    job = steps(server(), 1).checkpoint()
    steps(job, 6)
    assert job.state.epoch > 1
    job.kill(HUB).revive(HUB).roll_back(1)
    found = verdicts(steps(job, 4))
    assert found[I3][0].outcome == "Pass"
    assert " + 0 undone" not in found[I3][1]


# --- I4 ------------------------------------------------------------------------------------------------------------


def test_i4_alone_sees_a_step_committed_twice() -> None:
    """(a) One commit a step."""
    job = steps(ring(), 2)
    commit = next(
        r for r in reversed(job.run.records) if isinstance(r, EventRecord) and r.event["kind"] == "TrainCommit"
    )
    job.run.event(job.now_ns, HUB, **{**commit.event, "kind_tag": "train_hub"})
    assert failed(job) == {I4: "step 1 is committed where step 2 is due"}


def test_i4_alone_sees_a_broken_chain() -> None:
    """(a) The base is what the step before has left."""
    job = steps(ring(), 2)
    other = "ab" * 16
    for record in job.run.records:
        if isinstance(record, EventRecord) and record.event.get("step") == 1 and "base" in record.event:
            record.event["base"] = other
    assert failed(job) == {I4: "step 1 is committed on another state than the step before has left"}


def test_i4_alone_sees_a_double_apply() -> None:
    """(b) A commit said twice is applied once."""
    job = steps(ring(), 2)
    job.apply("w2", job.state)
    assert failed(job) == {I4: "step 1 of generation 0, w2: applied to state 2"}


def test_i4_alone_sees_an_apply_to_another_state() -> None:
    """(b) What is applied to is what is held."""
    job = steps(ring(), 2).step(late=["w2"])
    job.apply("w2", job.state, pre=job.lineage[1].digests)
    assert failed(job) == {I4: "step 2 of generation 0, w2: applied to another state 2 than it holds"}


def test_i4_alone_sees_an_apply_without_a_commit() -> None:
    """(c) Prepared is not committed."""
    job = steps(ring(), 1)
    future = steps(ring(), 2).state
    job.apply("w2", future)
    assert failed(job) == {I4: "step 1 of generation 0, w2: applied without a commit"}


def test_i4_alone_sees_an_install_of_nothing() -> None:
    """(b) Installs go to committed states."""
    job = steps(ring(), 2)
    job.install("w2", job.state._replace(step=7))
    assert [*failed(job)] == [I4]


def held_up(job: Job) -> Job:
    """All but w1 die and return; w1 holds state 6, and has held it for long."""
    steps(job, 3).checkpoint("w2")
    steps(job, 3).wait(500)
    for name in ("w2", "w3"):
        job.kill(name)
    for name in ("w2", "w3"):
        job.revive(name)
    return job


def test_i4_alone_sees_a_rollback_without_need() -> None:
    """(d) A worker that is heard holds the newest state, and the hub goes back all the same."""
    job = held_up(ring()).roll_back(3)
    found = failed(steps(job, 2))
    assert found == {I4: "rolled back to state 3, though w1 holds state 6 and was heard"}


def test_i4_d_asks_what_was_held_throughout() -> None:
    """(d) Later states one after the other are a later state all the time; one that is new may not have been heard of yet."""
    for before, found in ((30, {I4: "rolled back to state 3, though w1 holds state 33 and was heard"}), (4, {})):
        job = steps(ring(), 3).checkpoint("w2").wait(100)
        steps(job, before)
        for name in ("w2", "w3"):
            job.kill(name)
        for name in ("w2", "w3"):
            job.revive(name)
        assert failed(job.roll_back(3, wait_ms=1)) == found


def test_i4_d_looks_at_disks() -> None:
    """(d) A checkpoint counts like memory, of the state that the newest commit has made too; one of a dead branch does not."""
    for more in (0, 1):
        job = steps(ring(), 3).checkpoint("w2")
        steps(job, 1).checkpoint("w3")
        steps(job, more).total_loss().roll_back(3)
        assert failed(job) == {I4: "rolled back to state 3, though w3 has on disk state 4 and was heard"}
    job = steps(ring(), 2).checkpoint("w2")
    steps(job, 4).checkpoint("w3")
    job.up["w3"] = False  # it is away, and its branch ends
    job.run.kill(job.now_ns, "w3")
    for name in ("w1", "w2"):
        job.kill(name)
    for name in ("w1", "w2"):
        job.revive(name)
    job.roll_back(2)
    steps(job, 4).revive("w3")
    for name in ("w1", "w2"):
        job.kill(name)
    for name in ("w1", "w2"):
        job.revive(name)
    assert not failed(steps(job.roll_back(2), 2))


REF = (LinkRef(source="w1", target=HUB),)


@pytest.mark.parametrize(
    "excuse",
    [
        lambda now: [Partition(at_ns=now, peers_a=("w1",), peers_b=("hub", "w2"))],
        lambda now: [Partition(at_ns=now, peers_a=("hub",), peers_b=("w1",)), Heal(at_ns=now + 360 * MS)],
        lambda now: [PeerPause(at_ns=now, peer="w1", duration_ns=360 * MS)],
        lambda now: [PeerPause(at_ns=now, peer="hub", duration_ns=360 * MS)],
        lambda now: [LossBurst(at_ns=now, links=REF, prob_ppm=1, duration_ns=360 * MS)],
        lambda now: [LatencySpike(at_ns=now, links=REF, factor_x100=100_000, duration_ns=360 * MS)],
        lambda now: [ClockOffset(at_ns=now + 399 * MS, peer="hub", offset_ns=9)],
    ],
)
def test_i4_d_excuses_who_cannot_be_heard(excuse: Callable[[int], list[Any]]) -> None:
    """(d) Ground truth from mutations: cut off, healed too late, asleep, losing messages, far away, or a hub set wrong."""
    job = held_up(ring())
    for mutation in excuse(job.now_ns):
        job.run.mutate(mutation)
    assert not failed(steps(job.roll_back(3), 2))


@pytest.mark.parametrize(
    "no_excuse",
    [
        lambda now: [Partition(at_ns=now, peers_a=("w1",), peers_b=("w2",))],
        lambda now: [Partition(at_ns=now, peers_a=("hub",), peers_b=("w1",)), Heal(at_ns=now + 340 * MS)],
        lambda now: [PeerPause(at_ns=now, peer="w1", duration_ns=340 * MS)],
        lambda now: [LossBurst(at_ns=now, links=(LinkRef(source=HUB, target="w1"),), prob_ppm=1, duration_ns=999 * MS)],
        lambda now: [LatencySpike(at_ns=now, links=REF, factor_x100=500, duration_ns=360 * MS)],
        lambda now: [ClockOffset(at_ns=now + 399 * MS, peer="w2", offset_ns=9)],
    ],
)
def test_i4_d_excuses_nobody_else(no_excuse: Callable[[int], list[Any]]) -> None:
    """(d) The edge of `steady`, four ticks and the way: what ends before does not excuse."""
    job = held_up(ring())
    assert TICK == 10 * MS
    for mutation in no_excuse(job.now_ns):
        job.run.mutate(mutation)
    assert [*failed(job.roll_back(3))] == [I4]


def test_i4_alone_sees_an_old_checkpoint() -> None:
    """(d) A server goes back to its newest checkpoint."""
    job = steps(server(), 1).checkpoint()
    steps(job, 2).checkpoint()
    steps(job, 1).kill(HUB).revive(HUB)
    found = failed(steps(job.roll_back(1), 2))
    assert found == {I4: "generation 1 begins with state 1; the newest checkpoint is of state 3"}


def test_i4_alone_sees_a_rollback_forward() -> None:
    """(d) A generation begins on the lineage."""
    job = steps(ring(), 2)
    job.emit(HUB, "TrainRollback", generation=1, step=5, digest="00" * 16, candidates=[])
    assert failed(job) == {I4: "generation 1 begins with state 5, past the end of the lineage"}


# --- I5 ------------------------------------------------------------------------------------------------------------


def changed(place: int, **more: Any) -> Callable[[list[Part]], list[Part]]:
    return lambda parts: [part._replace(**more) if at == place else part for at, part in enumerate(parts)]


@pytest.mark.parametrize("make", [ring, server])
def test_i5_alone_weighs(make: Callable[..., Job]) -> None:
    """A wrong count, a wrong total, a worker twice, a padded batch, shared samples, an idle worker: each is a fail of its own."""
    job = make()
    assert [*failed(job.step(parts=changed(1, count=2)))] == [I5]
    assert failed(make().step(count=2)) == {I5: "step 0: counts 11, its contributions 9"}
    assert failed(make().step(parts=lambda parts: [*parts, parts[0]])) == {I5: "step 0, w1: contributes twice"}
    padded = failed(make().step(batches={"w1": [0, 0, 1]}))
    assert padded == {I5: "step 0, w1: counts 3 for 3 samples, 2 of them distinct"}
    shared = failed(make().step(batches={"w1": [0, 5, 1]}))
    assert shared == {I5: "step 0, w2: shares samples with another contribution"}


def test_i5_alone_sees_idleness() -> None:
    """A worker with samples left contributes nothing; one without may, and in `reshard` so may some when few are left."""
    idle = failed(ring().step(batches={"w1": []}))
    assert idle == {I5: "step 0, w1: contributes nothing, though its plan was not empty"}
    job = steps(ring(), 2)
    assert not job.plan()[2]["w1"]
    assert not failed(steps(job, 1))
    assert [*failed(ring(data_policy="reshard").step(batches={"w1": []}))] == [I5]


# --- I6 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [ring, server])
@pytest.mark.parametrize(
    ("field", "value"), [("view", 0), ("step", 0), ("generation", 3), ("base", "00" * 16), ("seq", 77)]
)
def test_i6_alone_sees_work_for_something_else(make: Callable[..., Job], field: str, value: Any) -> None:
    """The gradient behind a contribution is of the commit's generation, view, step and base; one that is not there is none."""
    job = steps(make(), 2)
    last = next(r for r in reversed(job.run.records) if isinstance(r, EventRecord) and "seq" in r.event)
    last.event[field] = value
    assert [*failed(job)] == [I6]


@pytest.mark.parametrize("make", [ring, server])
def test_i6_alone_rests_on_deliveries(make: Callable[..., Job]) -> None:
    """By the engine's word a READY or PUSH of that view had reached the hub before the commit."""
    for spoil in (
        lambda event: event.update(type_tag="CHUNK"),
        lambda event: event.update(head=event["head"][:8] + "09" + event["head"][10:]),
        lambda event: event.update(head=event["head"][:32] + "0200" + event["head"][36:]),
        lambda event: event.update(head="zz"),
        lambda event: event.update({"from": "w3"}),
    ):
        job = steps(make(), 2)
        delivered = [r for r in job.run.records if isinstance(r, EventRecord) and r.event["kind"] == "Delivered"]
        spoil(delivered[3].event)
        found = failed(job)
        assert [*found] == [I6]
        assert f"no {'READY' if job.ring else 'PUSH'} of it had reached the hub" in found[I6]


def test_i6_alone_sees_late_evidence() -> None:
    """A delivery after the commit is none."""
    job = ring()
    job.deliver = lambda name, view=None: None  # type: ignore[method-assign]
    job.step()
    del job.deliver  # type: ignore[method-assign]
    job.deliver("w1")
    assert [*failed(job)] == [I6]


def test_i6_alone_sees_strangers_and_old_views() -> None:
    """An evicted worker, an earlier process, and a view that is no longer the newest."""
    job = steps(ring(), 1)
    job.view(["w1", "w3"])
    part = job.gradient("w2", [8, 9])
    job.deliver("w2")
    job.step(parts=lambda parts: [*parts, part])
    assert [*failed(job)] == [I6]
    job = steps(ring(), 1)
    job.kill("w2").revive("w2").view()
    job.incarnations["w2"], job.seqs["w2"] = 1, 9
    assert [*failed(job.step())] == [I6]
    job = steps(ring(), 1)
    members = [[name, 1] for name in job.names]
    job.emit(HUB, "TrainView", generation=0, view=9, step=1, members=members, reason="join")
    found = failed(job.step())
    assert found == {I6: "step 1 is committed in view 1 of generation 0, not in the newest"}


def test_i6_alone_sees_a_number_used_twice() -> None:
    """A gradient's name is unique in its incarnation."""
    job = steps(ring(), 1)
    job.seqs["w1"] = 0
    found = failed(job.step())
    assert [*found] == [I6]
    assert "two gradients of that name" in found[I6]


# --- attribution, progress, cost ------------------------------------------------------------------------------------


def test_one_cause_one_alarm() -> None:
    """A contribution of doubtful provenance is still resolved, so that the numbers are judged on their own merits."""
    job = steps(ring(), 1)
    job.incarnations["w2"] = 5
    found = verdicts(steps(job, 3))
    assert [kind for kind, (judged, _) in found.items() if judged.outcome != "Pass"] == [I6]


def test_progress() -> None:
    """Commits in (after, after + within] count; a job that has done its steps has no more to do; else the window's end fails."""
    job = ring(steps=6)
    times = []
    for _ in range(5):
        job.wait(10).step()
        times.append(next(r.virtual_time_ns for r in reversed(job.run.records) if r.event["kind"] == "TrainCommit"))  # type: ignore[union-attr]

    def judged(after_ns: int, within_ns: int, min_steps: int) -> str:
        assertion = TrainProgress(after_ns=after_ns, within_ns=within_ns, min_steps=min_steps)
        return verdicts(job, [assertion])["train_progress"][0].outcome

    assert judged(times[0], times[2] - times[0], 2) == "Pass"
    assert judged(times[0], times[2] - times[0], 3) == "Fail"
    assert judged(times[0] - 1, times[2] - times[0] + 1, 3) == "Pass"
    assert judged(times[4], 500 * MS, 1) == "Fail"
    job.step()
    assert judged(job.now_ns, 500 * MS, 1) == "Pass"


def test_a_cut_run_shows_nothing() -> None:
    """Ruling J7: what holds for a whole run is not shown by a part of it."""
    from simharness.assertions.streaming import StreamingEvaluator

    job = steps(ring(), 3)
    evaluator = StreamingEvaluator(scenario(job.config, job.names))
    for record in job.run.records:
        evaluator.observe(record)
    assert {verdict.outcome for verdict in evaluator.close(job.now_ns, cut=True)} == {"Inconclusive"}


@settings(max_examples=40)
@given(data=st.data())
def test_garbage_never_raises(data: st.DataObject) -> None:
    """Fields that are missing or of another type are for the invariants to object to, never a crash."""
    job = steps(ring(), 3)
    events = [record for record in job.run.records if isinstance(record, EventRecord)]
    for _ in range(data.draw(st.integers(1, 4))):
        event = data.draw(st.sampled_from(events)).event
        field = data.draw(st.sampled_from([name for name in event if name != "kind"]))
        value = data.draw(st.sampled_from((None, -1, 2**70, "x", [], [None], ["w1"], [["w1", 1, 1, 1]], {}, True)))
        if value is None:
            del event[field]
        else:
            event[field] = value
    assert len(verdicts(job, SIX)) == 6
