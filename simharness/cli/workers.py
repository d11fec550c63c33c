"""Processes that work for one command: an item at a time, answers in the order of the items, and none outlives the command.

Ctrl-C is the parent's alone, which then ends its workers at once, whatever they are at. However the parent itself ends, by a
signal that nobody can catch too, each worker notices and ends.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any, Final, NamedTuple, TypeVar, cast

from simharness.core.errors import InputError, Problem, RefusedError

Item = TypeVar("Item")
Found = TypeVar("Found")

_AHEAD: Final = 4
"""Items a process that may be handed out before the oldest is back."""

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class _Refused(NamedTuple):
    """What an error that is meant for the user carries; the error itself does not cross a pipe."""

    problems: tuple[Problem, ...]


class _Raised(NamedTuple):
    """A mistake of ours in a worker."""

    error: Exception


class _Worker:
    """A process, and our end of the pipe to it."""

    def __init__(self, function: Callable[[Any], object], start: Callable[[], object]) -> None:
        context = get_context("spawn")  # a fork would copy the threads of the progress bar
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, function, start), daemon=True)
        with _undisturbed():
            self._process.start()
        theirs.close()

    def answer(self) -> Any:
        """Return what it has made of its item.

        Raises:
            RefusedError: If the item was refused.
            InputError: If the process has ended.
            KeyboardInterrupt: If it was told to end, as a whole process group is.
        """
        try:
            found = self.pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            if self._process.exitcode in [-number for number in _ENDING]:
                raise KeyboardInterrupt from None
            rule = f"a worker process ended by itself, exit code {self._process.exitcode}"
            raise InputError(file="(system)", field="(processes)", rule=rule) from None
        if isinstance(found, _Refused):
            raise RefusedError(found.problems)
        if isinstance(found, _Raised):
            raise found.error
        return found

    def end(self) -> None:
        """End the process, whatever it is at."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep every wish to end waiting while a process is started. It inherits that, and never hears Ctrl-C."""
    resource_tracker.ensure_running()  # it would unblock what is blocked here when the first process is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *_ENDING])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ordered(
    function: Callable[[Item], Found], items: Iterator[Item], jobs: int, *, start: Callable[[], object] = int
) -> Iterator[Found]:
    """Yield what a function makes of each item, in their order, on up to `jobs` processes, each of which calls `start` first.

    Raises:
        RefusedError: If an item, or `start`, is refused; other errors as they are.
        InputError: If a process is killed from outside.
    """
    workers: list[_Worker] = []
    idle: list[_Worker] = []
    busy: dict[Connection, tuple[int, _Worker]] = {}
    done: dict[int, Found] = {}
    todo, due = enumerate(items), 0
    try:
        while True:
            while len(busy) < jobs and len(busy) + len(done) < jobs * _AHEAD:
                place, item = next(todo, (-1, None))
                if place < 0:
                    break
                if not idle:
                    workers.append(_Worker(function, start))
                    idle.append(workers[-1])
                worker = idle.pop()
                worker.pipe.send(item)
                busy[worker.pipe] = place, worker
            if due in done:
                yield done.pop(due)
                due += 1
            elif busy:
                for pipe in wait([*busy]):
                    place, worker = busy.pop(cast("Connection", pipe))
                    done[place] = worker.answer()
                    idle.append(worker)
            else:
                return
    finally:
        for worker in workers:
            worker.end()


def _serve(pipe: Connection, function: Callable[[Any], object], start: Callable[[], object]) -> None:
    """Be a worker: answer until there is nothing more to do."""
    Thread(target=_end_with_parent, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    try:
        start()
        while True:
            pipe.send(function(pipe.recv()))
    except EOFError:
        return
    except RefusedError as error:
        pipe.send(_Refused(error.problems))
    except Exception as error:  # noqa: BLE001  # the parent raises it
        pipe.send(_Raised(error))


def _end_with_parent() -> None:
    """Wait for the end of the parent, which closes a pipe that only it holds, and end at once."""
    parent = parent_process()
    assert parent is not None, "a worker was started by somebody"
    parent.join()
    os._exit(1)
