"""Live runs that are ended from outside: nothing is left of them."""

import signal
import tempfile
from pathlib import Path

from tests.benchmarks.measuring import Row, Scale
from tests.live.endings import SIGNALS, start_and_end

_PROCESSES = 6
_PAUSES = 5


def endings(scale: Scale) -> list[Row]:
    """Live runs ended by each signal, while processes are started, while they wait and while they run."""
    turns, clean, faults = scale.of(100, 1), 0, list[str]()
    for turn in range(turns):
        number, after_s = SIGNALS[turn % len(SIGNALS)], turn // len(SIGNALS) % _PAUSES * 0.15
        with tempfile.TemporaryDirectory() as directory:
            try:
                code = start_and_end(
                    Path(directory), number, processes=2 + turn * (_PROCESSES - 1) // turns, after_s=after_s
                )
            except AssertionError as error:
                faults.append(f"turn {turn}, {number.name}: {error}")
            else:
                clean += code == (-number if number is signal.SIGKILL else 130)
    measured = f"{clean} of {turns} left no process and no file"
    return [
        Row("starts and ends of a live run", measured, "all", met=clean == turns),
        *(Row("what was left", fault, met=False) for fault in faults),
    ]
