"""A progress bar over virtual time, for runs that take long enough to wait for."""

import sys
import time
from contextlib import suppress
from typing import Final

from simharness.contracts.records import Termination
from simharness.core.units import NS_PER_S
from simharness.engine.engine import Engine

_STEPS: Final = 200
_PATIENCE_NS: Final = NS_PER_S // 2
_PULSE_NS: Final = 30 * NS_PER_S


def finish(engine: Engine, end_ns: int) -> Termination:
    """Run to the end; on a terminal, show a bar once the run has taken half a second. The records are the same either way."""
    if not sys.stderr.isatty():
        return engine.finish(end_ns)
    started, step = time.monotonic_ns(), max(1, end_ns // _STEPS)
    reached = step
    while engine.termination is None and reached < end_ns:
        engine.run_until(reached)
        if time.monotonic_ns() - started > _PATIENCE_NS:
            return _finish_with_bar(engine, reached, step, end_ns)
        reached += step
    return engine.finish(end_ns)


def _finish_with_bar(engine: Engine, reached: int, step: int, end_ns: int) -> Termination:
    from rich.console import Console  # noqa: PLC0415  # slow to import, and a short run never needs it
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[virtual]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("running", total=end_ns, completed=reached, virtual="")
        while engine.termination is None and reached < end_ns:
            engine.run_until(reached)
            shown = f"{reached // NS_PER_S} of {end_ns // NS_PER_S} virtual seconds"
            progress.update(task, completed=reached, virtual=shown)
            reached += step
        return engine.finish(end_ns)


def tell(text: str) -> None:
    """Say on a terminal what is going on, in one line that the next one replaces; nothing ends it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def step(text: str) -> None:
    """Say which of the long steps of a command comes next: as `tell` does, and in a line of its own if that is no terminal."""
    if sys.stderr.isatty():
        tell(text)
    elif text:
        with suppress(OSError):  # whoever was told has gone
            print(text, file=sys.stderr, flush=True)


class Pulse:
    """Says how far many short steps have come: as `tell` does, and elsewhere in a line every half a minute."""

    def __init__(self) -> None:
        self._said_ns = time.monotonic_ns()

    def tell(self, text: str) -> None:
        """Say it, if it is time."""
        if sys.stderr.isatty():
            tell(text)
        elif time.monotonic_ns() - self._said_ns >= _PULSE_NS:
            self._said_ns = time.monotonic_ns()
            step(text)
