"""The backend's calls (§7.2 of the design), call by state, and the adapter's contract B1 to B8, in both shapes."""

from typing import Any

import pytest

from simharness.systems.supervisor import seam
from simharness.systems.supervisor.backend import ACTS, Act, Adapter, BackendObject, Env, MemoryBackend
from simharness.systems.supervisor.config import SECOND, Defects, Shape, SupervisorDefect, Timing
from tests.systems.supervisor.rig import Calm

SHAPES: tuple[Shape, ...] = ("slurm", "kubeflow")
NOW = 100 * SECOND
TIMING = Timing()
OBJ = "1/1/1"

PENDING: dict[str, Any] = {"gated": False, "opened": True}
GATED: dict[str, Any] = {}
HELD: dict[str, Any] = {**PENDING, "held": True}
RUNNING: dict[str, Any] = {**PENDING, "state": "running"}
STOPPING: dict[str, Any] = {**PENDING, "state": "stopping", "kill_at": NOW + 4 * SECOND}
ENDED: dict[str, Any] = {**PENDING, "state": "ended", "cause": "preempted", "ended_at": NOW}
LOST: dict[str, Any] = {**RUNNING, "lost": True}


class Scene:
    """A backend with one object, the adapter of its job, and a log of what changed."""

    def __init__(self, shape: Shape = "slurm", *, defects: Defects = frozenset(), **fields: Any) -> None:
        self.nature = Calm()
        self.log: list[tuple[str, object, object]] = []
        self.backend = MemoryBackend(shape=shape, nature=self.nature)
        self.adapter = Adapter(self.backend, job="job", timing=TIMING, defects=defects)
        self.env = Env(self.backend)
        given = {"job": "job", "n": 1, "a": 1, "id": 1, "created_at": 0, "visible_at": 0, **fields}
        self.o = self.backend.plant(BackendObject(**given))
        self.backend.watch = lambda _o, field, old, new: self.log.append((field, old, new))

    def changed(self) -> dict[str, object]:
        """Return the fields that changed, with their new values."""
        return {field: new for field, _, new in self.log}


def bounded(kind: str, deadline: int = NOW, obj: str = OBJ) -> seam.BoundedCall:
    return seam.BoundedCall(cid="c1", kind=kind, obj=obj, deadline_ns=deadline, version=3)  # type: ignore[arg-type]


OPEN, STOP = seam.Open(obj=OBJ, version=3), seam.Stop(obj=OBJ, version=3)
CLEAR, CESSATION = seam.ClearBit(obj=OBJ, version=3), seam.Cessation(obj=OBJ, version=3)
HOLD, RELEASE, REQUEUE = bounded("hold"), bounded("release"), bounded("requeue")
STOPPED = {"cause": "stopped", "ended_at": NOW, "state": "ended"}
REVIVED = {"revived": True, "cause": None, "runs": 1, "ended_at": None, "state": "pending"}

BOTH: list[tuple[seam.BackendCall, dict[str, Any], dict[str, object]]] = [
    (OPEN, GATED, {"gated": False, "opened": True}),
    (OPEN, PENDING, {}),
    (OPEN, {**GATED, "held": True}, {"gated": False, "opened": True}),
    (OPEN, {**GATED, "state": "ended"}, {}),
    (STOP, GATED, STOPPED),
    (STOP, PENDING, STOPPED),
    (STOP, RUNNING, {"state": "stopping", "kill_at": NOW + 4 * SECOND}),
    (STOP, STOPPING, {}),
    (STOP, ENDED, {}),
]
SLURM: list[tuple[seam.BackendCall, dict[str, Any], dict[str, object]]] = [
    (HOLD, PENDING, {"held": True}),
    (HOLD, GATED, {"held": True}),
    (HOLD, HELD, {}),
    (HOLD, RUNNING, {}),
    (HOLD, STOPPING, {}),
    (HOLD, ENDED, {}),
    (RELEASE, HELD, {"held": False}),
    (RELEASE, {**GATED, "held": True}, {"held": False}),
    (RELEASE, PENDING, {}),
    (RELEASE, RUNNING, {}),
    (REQUEUE, RUNNING, {"bit": False, "state": "pending", "runs": 1}),
    (REQUEUE, PENDING, {"bit": False}),
    (REQUEUE, STOPPING, {"bit": False}),
    (REQUEUE, ENDED, {"bit": False, **REVIVED}),
    (REQUEUE, {**ENDED, "held": True}, {"bit": False, "held": False, **REVIVED}),
    (CLEAR, {**ENDED, "bit": True}, {"bit": False}),
    (CLEAR, ENDED, {}),
]
TABLE = [
    *((shape, *row) for shape in SHAPES for row in BOTH),
    *(("slurm", *row) for row in SLURM),
    ("kubeflow", STOP, LOST, {"stop_requested": True}),
]


@pytest.mark.parametrize(("shape", "call", "before", "effect"), TABLE)
def test_calls(shape: Shape, call: seam.BackendCall, before: dict[str, Any], effect: dict[str, object]) -> None:
    """Each call, in each state, changes what its row says, and nothing else; it is answered `ok`."""
    scene = Scene(shape, **before)
    assert scene.adapter.execute(call, NOW) == seam.Ok()
    assert scene.changed() == effect


@pytest.mark.parametrize("call", [HOLD, RELEASE, REQUEUE, CLEAR, CESSATION])
def test_kubeflow_has_no_bounded_calls(call: seam.BackendCall) -> None:
    """The other shape has none of slurm's calls: to send one is our own bug."""
    with pytest.raises(AssertionError, match="no such call"):
        Scene("kubeflow", **RUNNING).adapter.execute(call, NOW)


@pytest.mark.parametrize("shape", SHAPES)
def test_b1_a_start_is_atomic_and_gated(shape: Shape) -> None:
    """B1: there is no transition at which the new object is not gated; it is pending, unheld and was never opened."""
    scene = Scene(shape, **ENDED)
    assert scene.adapter.execute(seam.Start(n=2, a=3, version=1), NOW) == seam.Created(obj="2/3/2")
    assert scene.log == [("created", None, "2/3/2")]
    o = scene.backend.get("job", "2/3/2")
    assert o is not None
    assert (o.gated, o.opened, o.held, o.state, o.runs) == (True, False, False, "pending", 0)
    assert not scene.env.do(o, "place", NOW)
    mutant = Scene(shape, defects=frozenset({SupervisorDefect.UNGATED_START}), **ENDED)
    mutant.adapter.execute(seam.Start(n=2, a=3, version=1), NOW)
    assert [o.opened for o in mutant.backend.objects] == [True, True]


@pytest.mark.parametrize("shape", SHAPES)
def test_b2_an_ended_object_cannot_be_opened(shape: Shape) -> None:
    """B2: an Open that lands after the end is void, so the object was never opened."""
    scene = Scene(shape, **GATED)
    scene.adapter.execute(STOP, NOW)
    scene.adapter.execute(OPEN, NOW)
    assert (scene.o.gated, scene.o.opened, scene.o.state) == (True, False, "ended")


@pytest.mark.parametrize("kind", ["hold", "release", "requeue"])
def test_b3_a_bounded_call_starts_by_its_deadline(kind: str) -> None:
    """B3: at the deadline it starts; one nanosecond later it is refused without effect, and its bound does not move."""
    call = bounded(kind, deadline=NOW)
    on_time = Scene(**HELD)
    assert on_time.adapter.execute(call, NOW) == seam.Ok()
    late = Scene(**HELD)
    assert late.adapter.execute(call, NOW + 1) == seam.Refused()
    assert late.log == []
    for started_at in (0, NOW):
        assert late.adapter.bound_ns(call, started_at) == NOW + 15 * SECOND


def test_b3_without_the_look_at_the_clock() -> None:
    """LATE_CLIENT_DEADLINE: a call that starts late takes effect, and its bound counts from then."""
    mutant = Scene(defects=frozenset({SupervisorDefect.LATE_CLIENT_DEADLINE}), **RUNNING)
    late = NOW + 50 * SECOND
    assert mutant.adapter.execute(REQUEUE, late) == seam.Ok()
    assert mutant.o.runs == 1
    assert mutant.adapter.bound_ns(REQUEUE, late) == late + 15 * SECOND


def test_b3_a_requeue_cut_off_between_its_steps() -> None:
    """A scheduler that crashes after step 1 or 2 leaves the bit set; step 2 is done or not. The state changes last (O6)."""
    first = Scene(**RUNNING)
    first.adapter.land(REQUEUE, NOW, steps=1)
    assert first.changed() == {"bit": True}
    second = Scene(**ENDED)
    second.adapter.land(REQUEUE, NOW, steps=2)
    assert second.changed() == {"bit": True, **REVIVED}
    assert [field for field, _, _ in second.log][-1] == "state"  # seen alive only when it is whole


@pytest.mark.parametrize("shape", SHAPES)
def test_b5_a_find_is_a_snapshot_without_the_youngest(shape: Shape) -> None:
    """B5: an object may be missing from Finds for its visibility lag, to the nanosecond, and is listed from then on."""
    scene = Scene(shape, **RUNNING)
    scene.nature.lag_ns = 25 * SECOND
    scene.adapter.execute(seam.Start(n=1, a=2, version=1), NOW)
    find = seam.Find(version=1)

    def listed(now: int) -> list[str]:
        reply = scene.adapter.execute(find, now)
        assert isinstance(reply, seam.Found)
        return [view.obj for view in reply.views]

    assert listed(NOW + 25 * SECOND - 1) == [OBJ]
    assert listed(NOW + 25 * SECOND) == [OBJ, "1/2/2"]
    reply = scene.adapter.execute(find, NOW)
    scene.adapter.execute(STOP, NOW)
    assert isinstance(reply, seam.Found)
    assert reply.views[0].state == "running"  # what was seen does not change afterwards


def test_b6_ended_stays_ended_unless_requeued_or_allowed() -> None:
    """B6: neither time nor the environment revives an ended object whose bit is clear; with the bit set it may (slurm)."""
    scene = Scene(**ENDED)
    scene.backend.advance(NOW + 10**15)
    assert [act for act in ACTS if scene.env.possible(scene.o, act)] == ["purge"]
    scene.o.bit = True
    assert scene.env.do(scene.o, "revive", NOW)
    assert scene.changed() == REVIVED
    other = Scene("kubeflow", **ENDED, bit=True)
    assert not other.env.possible(other.o, "revive")
    stopped = Scene(**{**ENDED, "cause": "stopped"}, bit=True)
    assert not stopped.env.possible(stopped.o, "revive")


@pytest.mark.parametrize("shape", SHAPES)
def test_b7_a_purged_object_is_gone(shape: Shape) -> None:
    """B7: it is never listed again; a call on it has no effect, and is refused where it has that reply (B4)."""
    scene = Scene(shape, **PENDING)
    scene.nature.purge_ns = 60 * SECOND
    scene.adapter.execute(STOP, NOW)
    scene.backend.advance(NOW + 60 * SECOND - 1)
    assert not scene.o.purged
    scene.o.bit = True
    scene.backend.advance(NOW + 60 * SECOND)
    assert (scene.o.purged, scene.o.bit) == (True, False)
    assert scene.adapter.execute(seam.Find(version=1), NOW) == seam.Found(views=())
    scene.log.clear()
    for call in (OPEN, STOP, CLEAR, CESSATION):
        assert scene.adapter.execute(call, NOW) == seam.Ok()
    for call in (HOLD, RELEASE, REQUEUE):
        assert scene.adapter.execute(call, NOW) == seam.Refused()
    assert scene.log == []
    assert [act for act in ACTS if scene.env.possible(scene.o, act)] == []


def test_b7_a_revival_takes_back_the_purge() -> None:
    """An object that lives again is not collected for its earlier end."""
    scene = Scene(**RUNNING)
    scene.nature.purge_ns = 60 * SECOND
    scene.env.do(scene.o, "preempt", NOW)
    scene.adapter.execute(REQUEUE, NOW)
    scene.backend.advance(NOW + 10**12)
    assert (scene.o.alive, scene.o.purged) == (True, False)


@pytest.mark.parametrize("shape", SHAPES)
def test_b8_identity_is_job_labels_and_id(shape: Shape) -> None:
    """B8, D05: the same id under other labels is another object; other jobs' are not listed and not touched by any call."""
    scene = Scene(shape, **{**GATED, "id": 42})
    other = scene.backend.plant(
        BackendObject(job="other", n=1, a=1, id=42, created_at=0, visible_at=0, state="ended", cause="completed")
    )
    scene.nature.ids[1, 2] = 42
    scene.nature.lag_ns = 24 * SECOND
    assert scene.adapter.execute(seam.Start(n=1, a=2, version=1), NOW) == seam.Created(obj="1/2/42")

    def views(now: int) -> list[tuple[str, str | None]]:
        reply = scene.adapter.execute(seam.Find(version=1), now)
        assert isinstance(reply, seam.Found)
        return [(view.obj, view.cause) for view in reply.views]

    assert views(NOW) == [("1/1/42", None)]
    assert views(NOW + 24 * SECOND) == [("1/1/42", None), ("1/2/42", None)]
    scene.adapter.execute(seam.Open(obj="1/2/42", version=1), NOW)
    assert [o.opened for o in scene.backend.objects] == [False, False, True]
    assert (other.state, other.opened) == ("ended", False)
    assert scene.adapter.execute(seam.Stop(obj="2/1/42", version=1), NOW) == seam.Ok()
    assert scene.o.alive
    with pytest.raises(AssertionError, match="B8"):
        scene.adapter.execute(seam.Start(n=1, a=2, version=1), NOW)


def test_cessation() -> None:
    """Ceased: the object is neither running nor stopping and no process of the job is left."""
    for fields, processes, ceased in (
        (RUNNING, False, False),
        (STOPPING, False, False),
        (ENDED, True, False),
        (ENDED, False, True),
        (PENDING, False, True),
    ):
        scene = Scene(**fields)
        scene.nature.processes = processes
        assert scene.adapter.execute(CESSATION, NOW) == seam.Ceased(ceased=ceased)


def test_a_stop_takes_its_time() -> None:
    """A running object that is stopped ends when nature says, at that instant, whenever the clock gets there."""
    scene = Scene(**RUNNING)
    scene.nature.purge_ns = 60 * SECOND
    scene.adapter.execute(STOP, NOW)
    scene.backend.advance(NOW + 4 * SECOND - 1)
    assert scene.o.state == "stopping"
    scene.backend.advance(NOW + 30 * SECOND)
    assert (scene.o.state, scene.o.cause, scene.o.ended_at) == ("ended", "stopped", NOW + 4 * SECOND)
    assert scene.o.purge_at == NOW + 64 * SECOND


def test_lost_node_kubeflow() -> None:
    """It stays alive and lost; a Stop waits for its return; the person can power it off (§7.3)."""
    scene = Scene("kubeflow", **RUNNING)
    scene.nature.lost_ns = 20 * SECOND
    assert scene.env.do(scene.o, "lose", NOW)
    assert (scene.o.state, scene.o.lost) == ("running", True)
    assert [act for act in ACTS if scene.env.possible(scene.o, act)] == ["power_off"]
    scene.backend.advance(NOW + 20 * SECOND)
    assert (scene.o.state, scene.o.lost) == ("running", False)
    scene.nature.lost_ns = None
    scene.env.do(scene.o, "lose", NOW)
    scene.adapter.execute(STOP, NOW)
    scene.backend.advance(NOW + 10**15)
    assert (scene.o.state, scene.o.lost, scene.o.stop_requested) == ("running", True, True)
    assert scene.env.do(scene.o, "power_off", NOW)
    assert (scene.o.state, scene.o.cause, scene.o.lost) == ("ended", "node_lost", False)


def test_lost_node_that_returns_to_a_stop() -> None:
    """An object whose Stop was left at a lost node ends as soon as the node is back."""
    scene = Scene("kubeflow", **RUNNING)
    scene.nature.lost_ns = 20 * SECOND
    scene.env.do(scene.o, "lose", NOW)
    scene.adapter.execute(STOP, NOW)
    scene.backend.advance(NOW + 90 * SECOND)
    assert (scene.o.cause, scene.o.ended_at) == ("stopped", NOW + 20 * SECOND)


def test_lost_node_slurm() -> None:
    """The object ends with cause `node_lost` at once."""
    scene = Scene(**RUNNING)
    assert scene.env.do(scene.o, "lose", NOW)
    assert (scene.o.state, scene.o.cause) == ("ended", "node_lost")


@pytest.mark.parametrize(
    ("fields", "acts"),
    [
        (GATED, []),
        (PENDING, ["place"]),
        (HELD, []),
        (RUNNING, ["complete", "fail", "preempt", "lose"]),
        (STOPPING, []),
        (ENDED, ["purge"]),
        ({**ENDED, "bit": True}, ["revive", "purge"]),
        (LOST, ["power_off"]),
    ],
)
def test_environment(fields: dict[str, Any], acts: list[Act]) -> None:
    """What the environment can do to an object in each state; what it cannot do changes nothing."""
    for act in ACTS:
        scene = Scene(**fields)
        assert scene.env.do(scene.o, act, NOW) == (act in acts)
        assert bool(scene.log) == (act in acts)


@pytest.mark.parametrize(("act", "cause"), [("complete", "completed"), ("fail", "failed"), ("preempt", "preempted")])
def test_causes(act: Act, cause: str) -> None:
    """An execution that ends by itself says how."""
    scene = Scene(**RUNNING)
    scene.env.do(scene.o, act, NOW)
    assert (scene.o.state, scene.o.cause, scene.o.ended_at) == ("ended", cause, NOW)
