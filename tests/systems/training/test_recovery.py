"""Membership and recovery, one directed situation each (design, sections 7, 8 and 10)."""

import pytest

from simharness.systems.training.config import TrainingDefect
from simharness.systems.training.events import TrainView
from simharness.systems.training.job import over
from simharness.systems.training.membership import Hub
from simharness.systems.training.wire import Chunk, Commit, Message, Ready, State, StateRequest, View
from tests.systems.training.claims import all_claims, lineage
from tests.systems.training.jobs import job
from tests.systems.training.test_kernel import HERE
from tests.systems.training.world import World

MS = 1_000_000
STRATEGIES = ("ring", "ps")


def steps_after(world: World, at_ns: int) -> int:
    """Return how many steps were committed after a time."""
    return sum(1 for now_ns, _, record in world.records if record["kind"] == "TrainCommit" and now_ns > at_ns)


def views(world: World) -> list[tuple[str, list[str]]]:
    """Return reasons and members of all views."""
    return [(record["reason"], [name for name, _ in record["members"]]) for record in world.of("TrainView")]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_death_and_a_return(strategy: str) -> None:
    """The dead worker is out after its lease and back under a new incarnation; a ring gives it the whole state."""
    world = World(job(4, strategy=strategy, pace_ns=20 * MS))
    world.at(300 * MS, world.kill, "w01")
    world.at(700 * MS, world.start, "w01")
    world.run(1500 * MS)
    all_claims(world)
    everybody = ["w00", "w01", "w02", "w03"]
    assert views(world) == [
        ("start", everybody),
        ("member_lost", ["w00", "w02", "w03"]),
        ("joined", everybody),
    ]
    assert not world.of("TrainRollback")
    if strategy == "ring":
        (install,) = world.of("TrainInstall")
        assert (install["from"], install["incarnation"]) == ("w00", 2)


def test_a_restart_within_the_lease_is_noticed() -> None:
    """A heartbeat of another incarnation forces a new view at once; the old process is believed no more."""
    world = World(job(3, pace_ns=20 * MS))
    world.at(300 * MS, world.kill, "w01")
    world.at(301 * MS, world.start, "w01")
    world.run(800 * MS)
    all_claims(world)
    assert [reason for reason, _ in views(world)] == ["start", "new_incarnation"]


def test_a_cut_between_two_workers_breaks_only_the_ring() -> None:
    """Ruling G3: the successor names its silent predecessor, which is put out; a server does not notice."""
    for strategy in STRATEGIES:
        world = World(job(4, strategy=strategy))
        world.run(200 * MS)
        world.cut = lambda source, target, _: {source, target} == {"w01", "w02"}
        world.run(1500 * MS)
        all_claims(world)
        evicted = [(record["peer"], record["why"]) for record in world.of("TrainEvict")]
        assert (("w01", "suspected") in evicted) == (strategy == "ring")
        assert steps_after(world, 400 * MS) > 30
        assert not world.of("TrainRollback")


def test_a_slow_worker_is_waited_for() -> None:
    """Ruling G3: nobody is suspected of computing: heartbeats say where everybody is."""
    world = World(job(4, compute_ns_per_sample=200 * MS, batch_size=[4, 1, 4, 3]))
    world.run(4000 * MS)
    all_claims(world)
    assert world.sent["SUSPECT"] > 0
    assert not world.of("TrainEvict")
    assert len(world.of("TrainCommit")) >= 4


def test_a_deaf_member_is_put_out() -> None:
    """Ruling G4: a member that is heard but to which nothing comes through holds nobody up for long."""
    for strategy in STRATEGIES:
        world = World(job(3, strategy=strategy))
        world.run(200 * MS)
        world.cut = lambda source, target, _: (source, target) == ("hub", "w01")
        world.run(1000 * MS)
        assert ("w01", "deaf") in [(record["peer"], record["why"]) for record in world.of("TrainEvict")]
        world.cut = lambda _source, _target, _: False
        world.run(2000 * MS)
        all_claims(world)
        assert views(world)[-1][1] == ["w00", "w01", "w02"]
        assert steps_after(world, 1500 * MS) > 10


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_minority_halts(strategy: str) -> None:
    """Without the hub nobody commits; with the hub but too few workers neither. Both resume without a rollback."""
    world = World(job(4, strategy=strategy))
    world.run(200 * MS)
    world.cut = lambda source, target, _: (source in ("w02", "w03")) != (target in ("w02", "w03"))
    world.run(1000 * MS)
    assert steps_after(world, 320 * MS) == 0
    assert [record["why"] for record in world.of("TrainPause")] == ["min_workers"]
    world.cut = lambda _source, _target, _: False
    world.run(1500 * MS)
    all_claims(world)
    assert steps_after(world, 1100 * MS) > 10
    assert not world.of("TrainRollback")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("every", [1, 5])
def test_a_hub_crash(strategy: str, every: int) -> None:
    """A ring loses nothing; a server goes back to its newest checkpoint, which with `checkpoint_every = 1` is the newest state."""
    world = World(job(3, strategy=strategy, checkpoint_every=every))
    world.run(333 * MS)
    before = len(lineage(world))
    world.kill("hub")
    world.run(433 * MS)
    world.start("hub")
    world.run(1200 * MS)
    all_claims(world)
    rollbacks = world.of("TrainRollback")
    assert len(rollbacks) == (0 if strategy == "ring" else 1)
    if strategy == "ps":
        assert rollbacks[0]["step"] == before - before % every
        assert rollbacks[0]["generation"] == 1
    assert steps_after(world, 600 * MS) > 10


@pytest.mark.parametrize("at_ms", [35, 300])
def test_total_loss(at_ms: int) -> None:
    """Ruling G2: all memory is gone; the ring goes back to the newest state on a disk, or to state 0, which anybody can make."""
    world = World(job(3))
    world.run(at_ms * MS)
    for name in world.config.workers:
        world.kill(name)
    world.run((at_ms + 50) * MS)
    before = len(world.of("TrainCommit"))
    for name in world.config.workers:
        world.start(name)
    world.run((at_ms + 1500) * MS)
    all_claims(world)
    (rollback,) = world.of("TrainRollback")
    assert rollback["step"] == before - before % 5
    assert (at_ms == 35) == (rollback["step"] == 0)
    assert {record["from"] for record in world.of("TrainInstall")} == set(world.config.workers)
    assert steps_after(world, (at_ms + 600) * MS) > 10


def test_state_0_must_be_known() -> None:
    """Defect STATE0_LOST: without rule 10.3 a loss before the first checkpoint is for ever."""
    world = World(job(3, defects=["STATE0_LOST"]))
    world.run(35 * MS)
    assert 0 < len(world.of("TrainCommit")) < 5
    for name in world.config.workers:
        world.kill(name)
        world.start(name)
    world.run(3000 * MS)
    assert steps_after(world, 100 * MS) == 0


def test_a_commit_is_learnt_from_the_view() -> None:
    """A member that missed COMMIT applies what it prepared when the next view names it, and needs no state from anybody."""
    world = World(job(3, pace_ns=20 * MS))
    missed: list[Message] = []

    def cut(source: str, target: str, message: Message) -> bool:
        if type(message) is Commit and target == "w01" and message.head.step == 5 and "w02" in world.processes:
            missed.append(message)
            world.kill("w02")
        return bool(missed) and type(message) is not View and target == "w01" and source == "hub"

    world.cut = cut
    world.run(130 * MS + 90 * MS)
    world.cut = lambda _source, _target, _: False
    world.run(700 * MS)
    all_claims(world)
    assert missed
    assert not world.of("TrainInstall", "w01")
    assert 6 in [record["step"] for record in world.of("TrainApply", "w01")]


def test_the_death_of_a_donor() -> None:
    """Who waits for a state gets it from the next donor."""
    world = World(job(4, min_workers=2))

    def cut(_source: str, _target: str, message: Message) -> bool:
        if type(message) is StateRequest and "w00" in world.processes:
            world.kill("w00")
        return False

    world.run(200 * MS)
    world.kill("w02")
    world.run(400 * MS)
    world.cut = cut
    world.start("w02")
    world.run(1200 * MS)
    all_claims(world)
    assert [record["from"] for record in world.of("TrainInstall")] == ["w01"]
    assert world.sent["STATE_REQ"] >= 2


def test_a_donor_out_of_reach() -> None:
    """Ruling G3: who cannot reach the donor says so; another is chosen if there is one, and else who asks stays out."""
    for others, expected in ((3, "w00"), (1, "w01")):
        world = World(job(others + 1, min_workers=1))
        fresh = f"w{others:02}"
        world.run(200 * MS)
        world.kill(fresh)
        world.run(400 * MS)
        world.cut = lambda source, target, message, fresh=fresh: (  # type: ignore[misc]
            {source, target} == {"w00", fresh} and type(message) in (State, StateRequest)
        )
        world.start(fresh)
        world.run(1500 * MS)
        all_claims(world)
        assert world.of("TrainEvict")[0]["peer"] == expected
        assert steps_after(world, 900 * MS) > 10
        assert not world.of("TrainRollback")


def test_a_gradient_is_computed_once() -> None:
    """A step that is tried again in a new view uses the sum that is there, under a new number and without spending time."""
    world = World(job(3, compute_ns_per_sample=10 * MS, batch_size=[4, 3, 2]))

    def cut(_source: str, _target: str, message: Message) -> bool:
        if type(message) is Chunk and message.head.step == 2 and "w02" in world.processes:
            world.kill("w02")
        return False

    world.cut = cut
    world.run(600 * MS)
    all_claims(world)
    tries = [
        (now, record) for now, host, record in world.records if record["kind"] == "TrainGradient" and host == "w00"
    ]
    step2 = [(now, record) for now, record in tries if record["step"] == 2]
    assert len({record["view"] for _, record in step2}) == len(step2) == 2
    assert step2[0][1]["ids"] == step2[1][1]["ids"]
    issued = next(now for now, _, record in world.records if record["kind"] == "TrainView" and record["view"] == 2)
    assert step2[1][0] - issued < MS


def test_ready_is_said_again() -> None:
    """A lost READY or COMMIT costs a retry, not the step."""
    world = World(job(3))
    lost: list[Message] = []

    def cut(_source: str, target: str, message: Message) -> bool:
        if type(message) is (Ready if len(lost) < 3 else Commit) and target in ("hub", "w01") and len(lost) < 5:
            lost.append(message)
            return True
        return False

    world.cut = cut
    world.run(500 * MS)
    all_claims(world)
    assert {type(message) for message in lost} == {Ready, Commit}
    assert [reason for reason, _ in views(world)] == ["start"]


def test_backup_workers_drop_stragglers_and_starve_nobody() -> None:
    """Dropped samples come round again; the step in which only a straggler has samples waits for it."""
    world = World(job(4, strategy="ps", backup_workers=1, batch_size=[2, 2, 2, 4], compute_ns_per_sample=5 * MS))
    world.run(4000 * MS)
    all_claims(world)
    commits = world.of("TrainCommit")
    dropped = [record for record in commits if "w03" not in [each[0] for each in record["contributions"]]]
    alone = [record for record in commits if [each[0] for each in record["contributions"]] == ["w03"]]
    assert len(dropped) > 5
    assert len(alone) > 1
    assert {record["epoch"] for record in commits} >= {0, 1}


def test_the_newest_state_on_disk_is_not_lost() -> None:
    """Ruling G5: if every disk holds the state that the hub stands at, a loss of all memory costs no step."""
    world = World(job(3, checkpoint_every=1))
    world.run(205 * MS)
    for name in world.config.workers:
        world.kill(name)
    world.run(250 * MS)
    before = len(world.of("TrainCommit"))
    for name in world.config.workers:
        world.start(name)
    world.run(1500 * MS)
    all_claims(world)
    (rollback,) = world.of("TrainRollback")
    assert before - 1 <= rollback["step"] <= before


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pace(strategy: str) -> None:
    """Ruling G6: no step is opened before its time, under both strategies; nothing is refused meanwhile."""
    world = World(job(4, strategy=strategy, pace_ns=40 * MS))
    world.run(1000 * MS)
    all_claims(world)
    opened = {}
    for now_ns, _, record in world.records:
        if record["kind"] == "TrainGradient":
            opened.setdefault(record["step"], now_ns)
    assert len(opened) == 25
    assert all(step * 40 * MS < now_ns < step * 40 * MS + 15 * MS for step, now_ns in opened.items() if step)
    assert not world.of("TrainReject")


def test_members_without_samples() -> None:
    """Ruling G7: in a ring they contribute nothing under a number; at a server they push nothing."""
    counts = {}
    for strategy in STRATEGIES:
        world = World(job(2, strategy=strategy, shard_sizes=[3, 9], steps=6))
        world.run(300 * MS)
        all_claims(world)
        counts[strategy] = [[each[3] for each in record["contributions"]] for record in world.of("TrainCommit")]
    assert counts == {"ring": [[3, 4], [0, 4], [0, 1]] * 2, "ps": [[3, 4], [4], [1]] * 2}


def test_a_clock_that_goes_back_begins_every_wait_anew() -> None:
    """T10: the hub still finds out about a death within a lease of its own, later, clock."""
    world = World(job(2, strategy="ps", min_workers=1))
    world.run(200 * MS)
    hub = world.processes["hub"]
    assert isinstance(hub, Hub)
    world.kill("w01")
    kinds = []
    for now_ns in range(0, 100 * MS, 10 * MS):
        hub.receive(world.processes["w00"].tick(world.now_ns)[-1].message, now_ns)  # type: ignore[union-attr]
        kinds += [(now_ns, effect.reason) for effect in hub.tick(now_ns) if isinstance(effect, TrainView)]
    assert kinds == [(90 * MS, "member_lost")]


def test_waits() -> None:
    """A wait ends when it has lasted, and when the clock shows a time before it began."""
    assert [over(now, 100, 10) for now in (99, 100, 109, 110)] == [True, False, False, True]


def test_every_defect_is_in_the_code() -> None:
    """Each member of the enum is asked for somewhere, and nowhere else than its comment says."""
    text = "".join(path.read_text("utf-8") for path in sorted(HERE.glob("*.py")) if path.name != "config.py")
    for defect in TrainingDefect:
        assert text.count(f"TrainingDefect.{defect.value} ") >= 1, defect
