"""The supervisor alone, without the simulator."""

from hypothesis import given
from hypothesis import strategies as st

from simharness.systems.stage.lifecycle import State
from simharness.systems.stage.supervisor import (
    LifecycleChanged,
    NameRegistered,
    Output,
    PublishName,
    SpawnWorker,
    Stop,
    SubprocessExited,
    SubprocessSpawned,
    Supervisor,
    WithdrawNames,
    WorkerExited,
    WorkerReady,
    WorkerSpec,
)

MS = 10**6
CRASH = WorkerExited("out of memory", None, 9)
SPEC = WorkerSpec("stage-0-worker", "worker", "pp-entry")


def supervisor(worker: WorkerSpec | None = None) -> Supervisor:
    return Supervisor(name="stage-0", address="10.0.0.10:7700", node_id="s0", worker=worker)


def test_first_tick_registers_and_runs() -> None:
    """The first tick gives Cold, Registering, Running with the name in between; every later tick gives nothing (E17)."""
    one = supervisor()
    assert one.tick() == [
        LifecycleChanged(State.COLD, State.REGISTERING),
        PublishName("stage-0"),
        NameRegistered("stage-0", "10.0.0.10:7700", "s0"),
        LifecycleChanged(State.REGISTERING, State.RUNNING),
    ]
    assert [list(one.tick()) for _ in range(3)] == [[], [], []]
    assert (one.state, one.names) == (State.RUNNING, {"stage-0": "10.0.0.10:7700"})


def test_exit_is_said_then_done() -> None:
    """The exit, the lifecycle, the end, in this order (§6A.3); before them the names are taken back."""
    one = supervisor()
    one.tick()
    assert one.worker_exited(CRASH, 5 * MS) == [
        WithdrawNames(),
        CRASH,
        LifecycleChanged(State.RUNNING, State.HALTED),
        Stop(),
    ]
    assert (one.state, one.last_exit_reason) == (State.HALTED, "out of memory")
    assert one.names == {"stage-0": "10.0.0.10:7700"}


def test_exit_before_the_first_tick() -> None:
    """Cold goes straight to Halted, and no name was registered (ruling E16)."""
    one = supervisor(SPEC)
    assert one.worker_exited(CRASH, 0) == [CRASH, LifecycleChanged(State.COLD, State.HALTED), Stop()]
    assert one.names == {}
    assert list(one.tick()) == []


def test_worker_process_from_start_to_end() -> None:
    """Spawned, ready with the further name, exited; each with whole milliseconds of uptime, rounded down."""
    one = supervisor(SPEC)
    assert one.tick()[-1] == SpawnWorker()
    assert one.worker_spawned(7, 10 * MS) == (SubprocessSpawned("stage-0-worker", 7, "worker"),)
    assert one.worker_ready(16 * MS - 1) == (WorkerReady("stage-0-worker", 7, 5), PublishName("pp-entry"))
    assert list(one.worker_ready(17 * MS)) == []
    assert one.names == {"stage-0": "10.0.0.10:7700", "pp-entry": "10.0.0.10:7700"}
    ended, *rest = one.worker_exited(CRASH, 30 * MS)
    assert ended == SubprocessExited("stage-0-worker", 7, "worker", None, 9, 20)
    assert rest == [WithdrawNames(), CRASH, LifecycleChanged(State.RUNNING, State.HALTED), Stop()]


def test_readiness_without_a_further_name() -> None:
    """A worker that has no name to publish is ready all the same."""
    one = supervisor(WorkerSpec("w", "worker"))
    one.tick()
    one.worker_spawned(1, 0)
    assert one.worker_ready(0) == (WorkerReady("w", 1, 0),)


@given(calls=st.lists(st.sampled_from(["tick", "ready", "exit"]), max_size=10), spawned=st.booleans())
def test_one_life(calls: list[str], *, spawned: bool) -> None:
    """In any order of calls: one registration, one exit, both at most once, and nothing at all after the end."""
    one = supervisor(SPEC if spawned else None)
    said: list[Output] = []
    for now_ns, call in enumerate(calls):
        if call == "tick":
            out = list(one.tick())
            out += one.worker_spawned(1, now_ns) if SpawnWorker() in out else ()
        elif call == "ready":
            out = list(one.worker_ready(now_ns))
        else:
            out = list(one.worker_exited(CRASH, now_ns))
        assert not (out and Stop() in said)
        said += out
    assert [type(output) for output in said].count(NameRegistered) == ("tick" in calls and said[0] != CRASH)
    assert said.count(CRASH) == said.count(Stop()) == ("exit" in calls)
    assert [type(output) for output in said].count(SubprocessSpawned) == said.count(SpawnWorker()) <= 1
