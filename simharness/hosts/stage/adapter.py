"""One stage as a host (§6A): the production supervisor, beside it a SWIM node if it has one, and a scripted worker process."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simharness.contracts.host import (
    Action,
    App,
    Halt,
    HostContext,
    HostMessage,
    RecordEvent,
    ScheduleTimer,
    SendFailed,
    TimerFired,
    WorkerExited,
)
from simharness.core import canonical_json
from simharness.core.errors import EngineAbort
from simharness.hosts.swim.adapter import SwimHost
from simharness.hosts.swim.backlog import FIRST_TICKET
from simharness.systems.stage import supervisor as stage
from simharness.systems.stage.lifecycle import State

READY: Final = 1
EXIT: Final = 2
"""Tokens of the timers that stand for the worker process."""

_KINDS: Final[Mapping[type, str]] = {
    stage.NameRegistered: "register_name",
    stage.WorkerExited: "worker_exited",
    stage.SubprocessSpawned: "SubprocessSpawned",
    stage.WorkerReady: "worker_ready",
    stage.SubprocessExited: "SubprocessExited",
}
_COMMAND: Final = "worker"
_NOTHING: Final[tuple[Action, ...]] = ()


class StageHost:
    """Translates between supervisor, node and engine. Supervisor and node are one process: they start and stop together."""

    kind_tag = "stage"

    def __init__(self, context: HostContext) -> None:
        config = context.config
        self.id = context.host_id
        self._script: Mapping[str, Any] | None = config.get("subprocess")
        self._pid = context.instance + 1
        worker = None
        if self._script is not None:
            worker = stage.WorkerSpec(f"{config['name']}-worker", _COMMAND, self._script.get("ready_name"))
        self._supervisor = stage.Supervisor(
            name=config["name"], address=config["address"], node_id=context.host_id, worker=worker
        )
        self._swim = _embedded(context)
        self._waiting: list[HostMessage] = []

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Start on the first tick; then let the node tick."""
        outputs = self._supervisor.tick()
        swim = self._swim
        if not outputs:
            return _NOTHING if swim is None or self._supervisor.state is State.HALTED else swim.tick(now_ns)
        actions = self._actions(outputs, now_ns)
        if swim is not None:
            for message in self._waiting:
                actions += swim.recv(message, now_ns)
            self._waiting.clear()
            actions += swim.tick(now_ns)
        return actions

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Go down with the worker; hand everything else to the node.

        Raises:
            EngineAbort: If a message reaches a stage without a node, which takes none (§6A.5).
        """
        supervisor = self._supervisor
        if isinstance(message, WorkerExited):
            told = stage.WorkerExited(message.reason, message.status_code, message.signal)
            return self._actions(supervisor.worker_exited(told, now_ns), now_ns)
        if isinstance(message, TimerFired) and message.token < FIRST_TICKET:
            return self._worker_timer(message.token, now_ns)
        if self._swim is None:
            if isinstance(message, App | SendFailed):
                raise _no_traffic(message, self.id, now_ns)
            return _NOTHING  # a supervisor alone has no work that could be slow
        if supervisor.state is State.COLD:  # no actions before the first tick (§6A.2): what arrives waits for it
            self._waiting.append(message)
            return _NOTHING
        return _NOTHING if supervisor.state is State.HALTED else self._swim.recv(message, now_ns)

    def snapshot(self) -> bytes:
        """Return the stage's state (§6A.4), and with it the node's; where both know a name, the stage's own address stands."""
        supervisor = self._supervisor
        state: dict[str, Any] = {"state": supervisor.state.value}
        if supervisor.state is State.HALTED:
            state["last_exit_reason"] = supervisor.last_exit_reason
        node = {} if self._swim is None else canonical_json.parse(self._swim.snapshot())
        names = node.get("name_registry", {}) | supervisor.names
        return canonical_json.compact(state | node | {"name_registry": dict(sorted(names.items()))})

    def _actions(self, outputs: Sequence[stage.Output], now_ns: int) -> list[Action]:
        """Translate what the supervisor puts out, in its order."""
        actions: list[Action] = []
        for output in outputs:
            match output:
                case stage.SpawnWorker():
                    actions += self._spawn(now_ns)
                case stage.WithdrawNames():
                    if self._swim is not None:
                        actions += self._swim.farewell(now_ns)
                case stage.PublishName(name):
                    if self._swim is not None:
                        self._swim.node.register(name)
                case stage.Stop():
                    actions.append(Halt())
                case _:
                    actions.append(RecordEvent(_event(output)))
        return actions

    def _spawn(self, now_ns: int) -> list[Action]:
        """Start the scripted worker: timers stand for what it will do."""
        script = self._script
        assert script is not None, "the supervisor wants a worker only if there is one"
        actions = self._actions(self._supervisor.worker_spawned(self._pid, now_ns), now_ns)
        if "ready_after_ns" in script:
            actions.append(ScheduleTimer(now_ns + script["ready_after_ns"], READY))
        if "exit_after_ns" in script:
            actions.append(ScheduleTimer(now_ns + script["exit_after_ns"], EXIT))
        return actions

    def _worker_timer(self, token: int, now_ns: int) -> Sequence[Action]:
        """Let the scripted worker do what is due; a timer that nobody set is ignored."""
        script = self._script or {}
        if token == READY and "ready_after_ns" in script:
            return self._actions(self._supervisor.worker_ready(now_ns), now_ns)
        if token == EXIT and "exit_after_ns" in script:
            ended = stage.WorkerExited(script["exit_reason"], script.get("exit_code"), script.get("exit_signal"))
            return self._actions(self._supervisor.worker_exited(ended, now_ns), now_ns)
        return _NOTHING


def _embedded(context: HostContext) -> SwimHost | None:
    """Build the node of a stage that has one; it joins if it names seeds, else it knows every member (ruling S2)."""
    node = context.config.get("node")
    if node is None:
        return None
    return SwimHost(
        host_id=context.host_id,
        config=node,
        joining=bool(node["seeds"]),
        tick_period_ns=context.tick_period_ns,
        peers=context.peers,
        instance=context.instance,
    )


def _no_traffic(message: App | SendFailed, host_id: str, now_ns: int) -> EngineAbort:
    what = message.message if isinstance(message, App) else message
    detail = f"{type(what).__name__} reached a stage without a node: its codec knows no message (§6A.5)"
    return EngineAbort(rule="stage-has-no-messages", detail=detail, host_id=host_id, at_ns=now_ns)


def _event(record: stage.Record) -> dict[str, Any]:
    """Return a record in its event form (§6A.4); those of the worker process as production spells them."""
    if isinstance(record, stage.LifecycleChanged):
        return {"kind": "stage_lifecycle", "from": record.before.value, "to": record.after.value}
    return {"kind": _KINDS[type(record)]} | msgspec.structs.asdict(record)
