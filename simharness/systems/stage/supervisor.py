"""The supervisor of one stage: inputs come in as calls, records and requests go out as values. Reads no clock."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from simharness.systems.stage.lifecycle import TRANSITIONS, Input, State

_NS_PER_MS: Final = 10**6

# --- records (§6A.4) -----------------------------------------------------------------------------------------------


class LifecycleChanged(msgspec.Struct, frozen=True):
    """The stage moved."""

    before: State
    after: State


class NameRegistered(msgspec.Struct, frozen=True):
    """The stage registered its name."""

    name: str
    address: str
    peer_node_id: str


class WorkerExited(msgspec.Struct, frozen=True):
    """The worker is gone, and the stage goes with it. Reason, exit code and signal are those it was told."""

    reason: str
    status_code: int | None
    signal: int | None


class SubprocessSpawned(msgspec.Struct, frozen=True):
    """The worker process runs."""

    label: str
    pid: int
    command: str


class WorkerReady(msgspec.Struct, frozen=True):
    """The worker said that it is ready."""

    label: str
    pid: int
    uptime_ms: int


class SubprocessExited(msgspec.Struct, frozen=True):
    """The worker process ended."""

    label: str
    pid: int
    command: str
    exit_code: int | None
    exit_signal: int | None
    uptime_ms: int


Record = LifecycleChanged | NameRegistered | WorkerExited | SubprocessSpawned | WorkerReady | SubprocessExited

# --- requests ------------------------------------------------------------------------------------------------------


class SpawnWorker(msgspec.Struct, frozen=True):
    """Start the worker process, then call `worker_spawned`."""


class PublishName(msgspec.Struct, frozen=True):
    """Make a name known to the cluster."""

    name: str


class WithdrawNames(msgspec.Struct, frozen=True):
    """Take every published name back, now: nothing can be said after `Stop`."""


class Stop(msgspec.Struct, frozen=True):
    """End this process."""


Output = Record | SpawnWorker | PublishName | WithdrawNames | Stop

# --- the supervisor ------------------------------------------------------------------------------------------------


class WorkerSpec(NamedTuple):
    """The worker process of a stage.

    Attributes:
        label: Its name in records.
        command: What is run.
        ready_name: A further name that the stage publishes once the worker is ready; None for none.
    """

    label: str
    command: str
    ready_name: str | None = None


class _Process(NamedTuple):
    pid: int
    spawned_ns: int


_NOTHING: Final[tuple[Output, ...]] = ()


class Supervisor:
    """One instance of a stage; it lives once.

    Args:
        name: The name that it registers.
        address: Where the stage can be reached.
        node_id: The node that it runs on.
        worker: The worker process to start when running; None if it is started and watched elsewhere.
    """

    __slots__ = ("_address", "_name", "_node_id", "_process", "_ready", "_worker", "last_exit_reason", "names", "state")

    def __init__(self, *, name: str, address: str, node_id: str, worker: WorkerSpec | None = None) -> None:
        self._name, self._address, self._node_id, self._worker = name, address, node_id, worker
        self._process: _Process | None = None
        self._ready = False
        self.state = State.COLD
        self.names: dict[str, str] = {}
        """Every name that this instance registered, with its address; they stay when it halts (§6A.6)."""
        self.last_exit_reason: str | None = None

    def tick(self) -> Sequence[Output]:
        """Register and start running on the first tick (§6A.2); do nothing on any other."""
        if self.state is not State.COLD:
            return _NOTHING
        out: list[Output] = []
        self._step(Input.TICK, out)
        self.names[self._name] = self._address
        out += (PublishName(self._name), NameRegistered(self._name, self._address, self._node_id))
        self._step(Input.REGISTERED, out)
        if self._worker is not None:
            out.append(SpawnWorker())
        return out

    def worker_spawned(self, pid: int, now_ns: int) -> Sequence[Output]:
        """Learn that the requested worker process runs."""
        worker = self._worker
        assert worker is not None, "nobody asked for a worker"
        assert self._process is None, "a stage starts one worker"
        self._process = _Process(pid, now_ns)
        return (SubprocessSpawned(worker.label, pid, worker.command),)

    def worker_ready(self, now_ns: int) -> Sequence[Output]:
        """Learn that the worker is ready; what comes before it runs, or again, is ignored."""
        worker, process = self._worker, self._process
        if worker is None or process is None or self._ready:
            return _NOTHING
        self._ready = True
        ready = WorkerReady(worker.label, process.pid, _uptime_ms(process, now_ns))
        if worker.ready_name is None:
            return (ready,)
        self.names[worker.ready_name] = self._address
        return ready, PublishName(worker.ready_name)

    def worker_exited(self, exit_: WorkerExited, now_ns: int) -> Sequence[Output]:
        """Learn that the worker is gone, by itself or by somebody's word, and go down with it.

        The last three outputs are those of §6A.3, in its order; what is said before them is said while there is time.
        """
        before = self.state
        if (before, Input.EXIT) not in TRANSITIONS:
            return _NOTHING
        out: list[Output] = []
        worker, process = self._worker, self._process
        if worker is not None and process is not None:
            ended = (process.pid, worker.command, exit_.status_code, exit_.signal, _uptime_ms(process, now_ns))
            out.append(SubprocessExited(worker.label, *ended))
            self._process = None
        if self.names:
            out.append(WithdrawNames())
        out.append(exit_)
        self._step(Input.EXIT, out)
        self.last_exit_reason = exit_.reason
        out.append(Stop())
        return out

    def _step(self, event: Input, out: list[Output]) -> None:
        """Move along the table and say so; each transition is one record (§6A.2)."""
        before, self.state = self.state, TRANSITIONS[self.state, event]
        out.append(LifecycleChanged(before, self.state))


def _uptime_ms(process: _Process, now_ns: int) -> int:
    return (now_ns - process.spawned_ns) // _NS_PER_MS
