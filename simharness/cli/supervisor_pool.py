"""Runs the blocks of a batch on several processes and gives their tallies in the order of blocks."""

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from simharness.cli.workers import ordered
from simharness.supervisor.batch import Block, Breach, Tally, Task, run_block

_PIECE: Final = 25
"""Seeds that a process takes at a time: several work at one block, so the first is done early."""

Stop = Callable[[Breach], bool]


class _Piece(NamedTuple):
    """A stretch of a block; `last` ends it."""

    task: Task
    block: Block
    caught_by: tuple[str, ...] | None
    last: bool


class _Done(NamedTuple):
    """What a piece came to, and whether the rest of its block is not to be run."""

    tally: Tally
    last: bool
    stopped: bool


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
    pieces = (piece for block in blocks for piece in _pieces(task, block, caught_by))
    whole, stopped = Tally(), False
    for done in map(_run, pieces) if jobs == 1 else ordered(_run, pieces, jobs, start=_start):
        if not stopped:
            whole = whole.plus(done.tally)
            stopped = done.stopped
            if stopped or done.last:  # whoever has found what it looks for waits for no more of the block
                yield whole
                whole = Tally()
        stopped = stopped and not done.last


def _pieces(task: Task, block: Block, caught_by: tuple[str, ...] | None) -> Iterator[_Piece]:
    """Cut a block into stretches of so many seeds of this shard."""
    size = _PIECE * task.shards
    for first in range(block.first, block.last, size):
        last = min(first + size, block.last)
        yield _Piece(task, Block(shape=block.shape, first=first, last=last), caught_by, last == block.last)


def _start() -> None:
    """Collect garbage once a piece, which leaves little, and never look at the code itself: a tenth faster."""
    gc.freeze()
    gc.disable()


def _run(piece: _Piece) -> _Done:
    caught_by = piece.caught_by

    def stop(breach: Breach) -> bool:
        return not caught_by or breach.invariant in caught_by

    tally = run_block(piece.task, piece.block, stop_at=None if caught_by is None else stop)
    if not gc.isenabled():  # in a process of its own
        gc.collect()
    return _Done(tally, piece.last, caught_by is not None and any(map(stop, tally.breaches)))
