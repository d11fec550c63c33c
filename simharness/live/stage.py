"""A stage's process: its worker is a process too, whose exit is a real one."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from simharness.contracts.host import HostKind, ScheduleTimer, TimerFired, WorkerExited
from simharness.contracts.mutations import WorkerExit
from simharness.hosts.stage.adapter import EXIT, READY
from simharness.live.channel import Go, Setup
from simharness.live.peer import PeerProcess, declared

_SCRIPT: Final = Path(__file__).with_name("worker.py")
_BLOCK: Final = 4_096


class Worker:
    """A running worker process.

    Args:
        arguments: What `worker.py` takes.
        ready: Called when it says that it is ready.
        ended: Called with its return code, as `subprocess` gives it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        arguments: list[str],
        ready: Callable[[], object],
        ended: Callable[[int], object],
    ) -> None:
        self._loop, self._ready, self._ended = loop, ready, ended
        command = [sys.executable, "-I", "-S", str(_SCRIPT), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  # our own script
        assert self._process.stdout is not None
        self._out_fd = self._process.stdout.fileno()
        loop.add_reader(self._out_fd, self._on_output)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def end(self, how: str) -> None:
        """Make it end: `code N` or `signal N`."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended by itself
            os.write(self._process.stdin.fileno(), how.encode() + b"\n")

    def kill(self) -> None:
        """Let it go down with its stage."""
        if self._process.poll() is None:
            self._loop.remove_reader(self._out_fd)
            self._process.kill()
            self._process.wait()

    def _on_output(self) -> None:
        if os.read(self._out_fd, _BLOCK):
            self._ready()
            return
        self._loop.remove_reader(self._out_fd)
        self._ended(self._process.wait())


class StageProcess(PeerProcess):
    """Runs a worker as the stage asks for one; one for the timeline to end, where the stage itself sees none."""

    def __init__(self, setup: Setup, go: Go, out_fd: int, kind: HostKind) -> None:
        super().__init__(setup, go, out_fd, kind)
        self._script: Mapping[str, Any] | None = declared(setup).kind_config.get("subprocess")
        self._worker: Worker | None = None
        self._told: WorkerExit | None = None

    def _start(self) -> None:
        super()._start()
        for mutation in self._timeline:
            if isinstance(mutation, WorkerExit) and mutation.peer == self.id and mutation.at_ns >= self._go.born_ns:
                self.at(mutation.at_ns, self._end_worker, mutation)
        if self._script is None:
            self._spawn(("-", "-", "-"))

    def own_event(self, event: dict[str, Any], now_ns: int) -> None:
        """Record an event; where one names the worker process, with the real process's id."""
        if event["kind"] == "SubprocessSpawned":
            script = self._script
            assert script is not None, "a stage without a script wants no worker"
            ready, ending = script.get("ready_after_ns"), script.get("exit_after_ns")
            signalled, code = script.get("exit_signal"), script.get("exit_code")
            how = f"code {code or 0}" if signalled is None else f"signal {signalled}"
            self._spawn((self._instant(ready, now_ns), self._instant(ending, now_ns), how))
        if "pid" in event and self._worker is not None:
            event = event | {"pid": self._worker.pid}
        super().own_event(event, now_ns)

    def schedule(self, timer: ScheduleTimer) -> None:
        """Leave the timers that stand for a scripted worker to the real one."""
        if timer.token not in (READY, EXIT):
            super().schedule(timer)

    def _instant(self, after_ns: int | None, now_ns: int) -> str:
        return "-" if after_ns is None else str(self._go.start_ns + now_ns + after_ns)

    def _spawn(self, arguments: tuple[str, str, str]) -> None:
        self._worker = Worker(self._loop, list(arguments), self._worker_ready, self._worker_ended)

    def _end_worker(self, mutation: WorkerExit) -> None:
        """Make the worker exit as the timeline says."""
        if self._worker is not None and not self.ended(self.moment(mutation.at_ns)):
            self._told = mutation
            code = mutation.status_code or 0
            self._worker.end(f"code {code}" if mutation.signal is None else f"signal {mutation.signal}")

    def _worker_ready(self) -> None:
        self.hear(TimerFired(READY), self.now())

    def _worker_ended(self, returncode: int) -> None:
        """Tell the stage how its worker ended: in the timeline's words if that made it end, else in the system's."""
        told, script = self._told, self._script or {}
        if told is not None:
            exited = WorkerExited(told.reason, told.status_code, told.signal)
        elif returncode < 0:
            as_scripted = script.get("exit_signal") == -returncode
            reason = script["exit_reason"] if as_scripted else f"signal {-returncode}"
            exited = WorkerExited(reason, None, -returncode)
        else:
            as_scripted = script.get("exit_code") == returncode
            reason = script["exit_reason"] if as_scripted else f"exit code {returncode}"
            exited = WorkerExited(reason, returncode, None)
        self.hear(exited, self.now())

    def _conclude(self) -> None:
        super()._conclude()
        if self._worker is not None:
            self._worker.kill()
