"""The worker process of a live stage: says that it is ready, and ends in time, on demand, or with its stage.

It runs by itself, without the package: `worker.py READY_AT EXIT_AT HOW`, times in nanoseconds of the monotonic clock or `-`,
HOW as `code N` or `signal N`.
"""

import os
import resource
import select
import signal
import sys
import time
from typing import Final, NoReturn

_STAGE: Final = 0
_BLOCK: Final = 4_096
_SHELL_SIGNAL: Final = 128


def main(ready_at: str, exit_at: str, how: str) -> NoReturn:
    """Wait for whatever comes first."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an abort is meant; its memory is of no interest
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if ready_at != "-":
        _wait_until(int(ready_at))
        os.write(1, b"ready\n")
    if exit_at != "-":
        _wait_until(int(exit_at))
        _end(how)
    while True:
        _wait_until(None)


def _wait_until(at_ns: int | None) -> None:
    """Return at a time; end before it if the stage says so, or is gone."""
    while True:
        left_s = None if at_ns is None else max(0, at_ns - time.monotonic_ns()) / 1e9
        readable, _, _ = select.select([_STAGE], [], [], left_s)
        if not readable:
            return
        order = os.read(_STAGE, _BLOCK).decode()
        _end(order.splitlines()[0] if order else "code 0")


def _end(how: str) -> NoReturn:
    word, number = how.split()
    if word == "signal":
        if int(number) not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(int(number), signal.SIG_DFL)
        if int(number) not in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            signal.raise_signal(int(number))
        os._exit(_SHELL_SIGNAL + int(number))  # a signal that ends nobody
    os._exit(int(number))


if __name__ == "__main__":
    main(*sys.argv[1:])
