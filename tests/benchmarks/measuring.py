"""Interleaved rounds, medians, and the processor time and memory of child processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.documents import ROOT


class Scale(NamedTuple):
    """How much work: the real thing, or just enough to see that it runs."""

    tiny: bool = False
    huge: bool = False

    def of(self, full: int, tiny: int) -> int:
        """Return one of the two."""
        return tiny if self.tiny else full


class Spread(NamedTuple):
    """The median of several rounds, with the extremes."""

    middle: float
    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> "Spread":
        """Summarise."""
        return cls(median(values), min(values), max(values))

    def shown(self, unit: str = "x") -> str:
        """Return `median unit (low to high)`."""
        return f"{number(self.middle)}{unit} ({number(self.low)} to {number(self.high)})"


class Row(NamedTuple):
    """One line of the report. `met` is None for a figure without a budget."""

    what: str
    measured: str
    budget: str = ""
    met: bool | None = None

    @classmethod
    def at_least(cls, what: str, spread: Spread, least: float, target: float | None = None, unit: str = "x") -> "Row":
        """Return a row whose median must reach `least`."""
        aim = "" if target is None else f", target {number(target)}{unit}{_hit(spread.middle >= target)}"
        return cls(what, spread.shown(unit), f"at least {number(least)}{unit}{aim}", spread.middle >= least)

    @classmethod
    def at_most(cls, what: str, spread: Spread, most: float, unit: str = "x") -> "Row":
        """Return a row whose median must not exceed `most`."""
        return cls(what, spread.shown(unit), f"at most {number(most)}{unit}", spread.middle <= most)


def _hit(met: bool) -> str:
    return " (reached)" if met else " (not reached)"


def number(value: float) -> str:
    """Return a figure with three significant digits, or with thousands marked."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def processor_s(work: Callable[[], object]) -> float:
    """Return the processor seconds of one call: on a shared machine they say more than the clock on the wall."""
    started = time.process_time()
    work()
    return time.process_time() - started


def rounds(candidates: Mapping[str, Callable[[], object]], count: int) -> dict[str, list[float]]:
    """Run the candidates in turn, `count` times over, after one round that is not counted; return their seconds."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(count + 1):
        for name, work in candidates.items():
            seconds = processor_s(work)
            if turn:
                times[name].append(seconds)
    return times


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """Return the spread of round-by-round quotients: what slows the machine for a while slows both sides of a round."""
    return Spread.over([one / other for one, other in zip(over, under, strict=True)])


class Spent(NamedTuple):
    """What a child process used."""

    processor_s: float
    memory_mib: float
    code: int
    output: str


def child(argv: Sequence[str], directory: Path) -> Spent:
    """Run `python argv...` to its end and return what it used."""
    process = subprocess.Popen(
        [sys.executable, *argv],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": os.defpath},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as pipe:
        output = pipe.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, output)
