"""Runs the seeds of a sweep on several processes and gives their rows in the order of seeds."""

from argparse import Namespace
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from simharness.cli.swim_options import SwimOptions
from simharness.cli.workers import ordered
from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import load
from simharness.stateful import session
from simharness.stateful.registry import SPACES, space_named
from simharness.stateful.session import KINDS, Options
from simharness.stateful.sweep import FileSource, Row, Source, row_of

_CHUNK: Final = 4
"""Seeds that a process takes at a time."""


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
    for found in ordered(_chunk, chunks, jobs, start=task.source):
        yield from found


def _chunk(chunk: tuple[Task, int, int]) -> list[Row]:
    task, first, last = chunk
    return [row_of(task.source(), seed, KINDS) for seed in range(first, last)]
