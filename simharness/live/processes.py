"""The processes of a run as their coordinator holds them: started, told, heard, stopped, killed."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from simharness.live.channel import Done, Go, Ready, Report, Reports, Setup, packed, write

_PACKAGE_ROOT: Final = str(Path(__file__).parents[2])
_BOOT: Final = "import sys; sys.path.insert(0, sys.argv[1]); from simharness.live.child import main; main()"
_BLOCK: Final = 1 << 16
_WORDS: Final = 500


class Child:
    """One process. It runs in a process group of its own, so that a signal from a terminal goes to the coordinator alone.

    Args:
        loop: The coordinator's loop.
        setup: What the process is to be.
        bound: Its socket, which it inherits.
        heard: Takes every report, and None when there will be no more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        setup: Setup,
        bound: socket.socket,
        heard: Callable[["Child", Report | None], object],
    ) -> None:
        self.subject, self.instance = setup.subject, setup.instance
        self.ready = self.playing = self.done = self.expected_to_die = False
        self._loop, self._heard, self._reports = loop, heard, Reports()
        self._process = subprocess.Popen(  # noqa: S603  # this very package
            [sys.executable, "-c", _BOOT, _PACKAGE_ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(bound.fileno(),),
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in_fd, self._out_fd = self._process.stdin.fileno(), self._process.stdout.fileno()
        loop.add_reader(self._out_fd, self._on_output)
        self._tell(packed(setup))

    def go(self, go: Go) -> None:
        """Let it play its part."""
        self.playing = True
        self._tell(packed(go))

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it and whatever it has started, and wait until it is gone."""
        self.expected_to_die = True
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._drain()

    def close(self) -> None:
        """Kill it, if it still runs, and let go of its pipes."""
        self.kill()
        self._loop.remove_reader(self._out_fd)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def last_words(self) -> str:
        """Return how a process ended that nobody has killed."""
        code = self._process.wait()
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)  # a worker of it may hold the pipe
        text = (self._process.stderr.read() or b"").decode(errors="replace").strip()
        return f"the process ended with {code}" + (f": {text.splitlines()[-1][:_WORDS]}" if text else "")

    def _tell(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # it has ended, and the end of its reports says so
            write(self._in_fd, data)

    def _on_output(self) -> None:
        data = os.read(self._out_fd, _BLOCK)
        for report in self._reports.feed(data):
            self.ready = self.ready or isinstance(report, Ready)
            self.done = self.done or isinstance(report, Done)
            self._heard(self, report)
        if not data:
            self._loop.remove_reader(self._out_fd)
            self._heard(self, None)

    def _drain(self) -> None:
        """Read what a killed process has said before its end."""
        os.set_blocking(self._out_fd, False)
        with suppress(BlockingIOError):
            while data := os.read(self._out_fd, _BLOCK):
                for report in self._reports.feed(data):
                    self._heard(self, report)


def bound_sockets(address: str, vertices: list[str]) -> dict[str, socket.socket]:
    """Bind a UDP socket for every vertex, at ports that the system chooses.

    Raises:
        OSError: If this machine has no such address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sockets: dict[str, socket.socket] = {}
    for vertex in vertices:
        sockets[vertex] = socket.socket(family, socket.SOCK_DGRAM)
        sockets[vertex].bind((address, 0))
    return sockets
