"""Runs the seeds of a sweep on several processes and gives their rows in the order of seeds."""

import signal
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from simharness.cli.swim_options import SwimOptions
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import load
from simharness.stateful import session
from simharness.stateful.registry import SPACES, space_named
from simharness.stateful.session import KINDS, Options
from simharness.stateful.sweep import FileSource, Row, Source, row_of

Item = TypeVar("Item")
Found = TypeVar("Found")

_CHUNK: Final = 4
"""Seeds that a process takes at a time."""

_AHEAD: Final = 4
"""Items a process that are handed out before the oldest is back."""


class Task(NamedTuple):
    """What a process needs to know: the target as it stands on the command line, and the SWIM options."""

    target: str
    profile: str | None
    defects: tuple[str, ...]

    @property
    def name(self) -> str:
        """What rows call the target."""
        return self.target

    @property
    def kinds(self) -> Kinds:
        """The host kinds of this process."""
        return KINDS

    def check(self) -> None:
        """Read the target once.

        Raises:
            RefusedError: If it names neither a space nor a good scenario file, or an option is unknown or would do nothing.
        """
        if self.profile is not None or self.defects:
            self.options()
        self.source()

    def source(self) -> Source:
        """Return where scenarios come from; read once a process."""
        return _source(self)

    def options(self) -> SwimOptions:
        """Return the SWIM options, checked by the kind."""
        return SwimOptions(Namespace(swim_profile=self.profile, swim_defect=self.defects), KINDS)


@lru_cache(maxsize=1)
def _source(task: Task) -> Source:
    session.start(session.Session(Options(swim_profile=task.profile, swim_defects=task.defects)))
    if task.target in SPACES:
        return space_named(task.target)
    if not Path(task.target).exists() and not task.target.endswith(".toml"):
        rule = f"{task.target!r} is neither a scenario file nor a space; the spaces are {', '.join(SPACES)}"
        raise InputError(file="(command line)", field="SPACE", rule=rule)
    options = task.options()
    loaded = load(task.target, KINDS, reconfigure=options.reconfigure if options.given else None)
    options.refuse_if_idle()
    return FileSource(name=task.target, base=loaded.scenario)


def rows(task: Task, first: int, last: int, jobs: int) -> Iterator[Row]:
    """Yield the rows of the seeds `first` to `last` (excluded), in that order, on `jobs` processes."""
    if jobs == 1 or last - first <= _CHUNK:
        for seed in range(first, last):
            yield row_of(task.source(), seed, KINDS)
        return
    chunks = ((task, start, min(start + _CHUNK, last)) for start in range(first, last, _CHUNK))
    for found in ordered(_chunk, chunks, jobs, start=partial(_start, task)):
        yield from found


def ordered(
    function: Callable[[Item], Found], items: Iterator[Item], jobs: int, *, start: Callable[[], None]
) -> Iterator[Found]:
    """Yield what a function makes of each item, in their order, on `jobs` processes, each of which calls `start` first."""
    context = get_context("spawn")  # a fork would copy the threads of the progress bar
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=start) as pool:
        waiting: deque[Future[Found]] = deque()
        try:
            for item in islice(items, jobs * _AHEAD):
                waiting.append(pool.submit(function, item))
            while waiting:
                done = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(items, 1))
                yield done
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _start(task: Task) -> None:
    """Leave Ctrl-C to the parent; read the target."""
    leave_interrupts()
    task.source()


def leave_interrupts() -> None:
    """Leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _chunk(chunk: tuple[Task, int, int]) -> list[Row]:
    task, first, last = chunk
    return [row_of(task.source(), seed, KINDS) for seed in range(first, last)]
