"""Runs the blocks of a batch on several processes and gives their tallies in the order of blocks."""

import gc
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import Final

from simharness.supervisor.batch import Block, Breach, Tally, Task, run_block

_AHEAD: Final = 3
"""Blocks a process that are handed out before the oldest is back."""

Stop = Callable[[Breach], bool]


def tallies(
    task: Task, blocks: Iterable[Block], jobs: int, caught_by: tuple[str, ...] | None = None
) -> Iterator[Tally]:
    """Yield the tally of each block, in order, whichever is done first.

    Args:
        task: What to run.
        blocks: The blocks of it that are still to run.
        jobs: How many processes.
        caught_by: Stop a block at the first violation of one of these invariants, of any if there are none; None: never.
    """
    todo = iter(blocks)
    if jobs == 1:
        for block in todo:
            yield _block(task, block, caught_by)
        return
    context = get_context("spawn")  # a fork would copy the threads of the progress bar
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start) as pool:
        waiting: deque[Future[Tally]] = deque()
        try:
            for block in islice(todo, jobs * _AHEAD):
                waiting.append(pool.submit(_block, task, block, caught_by))
            while waiting:
                done = waiting.popleft().result()
                waiting.extend(pool.submit(_block, task, block, caught_by) for block in islice(todo, 1))
                yield done
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _start() -> None:
    """Leave Ctrl-C to the parent. Garbage is collected once a block: a tenth faster, and a block leaves a few MB."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _block(task: Task, block: Block, caught_by: tuple[str, ...] | None) -> Tally:
    stop: Stop | None = None
    if caught_by is not None:
        stop = lambda breach: not caught_by or breach.invariant in caught_by  # noqa: E731  # a process cannot be sent one
    tally = run_block(task, block, stop_at=stop)
    if not gc.isenabled():
        gc.collect()
    return tally
