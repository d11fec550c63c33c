"""Keys and entries of the scheduling queue (§4.1, ruling E1).

The key of an entry is (virtual time, sequence). Sequence numbers come from bands, lowest first, so that an input injected
while the run goes on sorts exactly like the same input declared in a file; inside a band they follow the order of enqueueing.
A pause ends after the mutations of its last instant and before whatever reaches its peer in that instant (ruling M2).
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

_WIDTH: Final = 1 << 40

RELAY_DEQUEUES: Final = 0
FIRST_TICKS: Final = 1
MUTATIONS: Final = 2
SNAPSHOTS: Final = 3
TERMINATE: Final = 4
WAKES: Final = 5
RUNTIME: Final = 6

# What an entry does. The engine dispatches on these in order of how often they come.
DELIVER: Final = 0
TICK: Final = 1
TIMER: Final = 2
NOTICE: Final = 3
FAILED: Final = 4
MUTATE: Final = 5
SNAPSHOT: Final = 6
WAKE: Final = 7
END: Final = 8

Entry = tuple[Any, ...]
"""(virtual time in ns, sequence, operation, operands...): plain tuples, since heap order is what an engine spends its time on.

Two entries never share a sequence number, so no comparison reaches the operands.
"""


def band(number: int) -> Iterator[int]:
    """Return the sequence numbers of one band, in order."""
    return count(number * _WIDTH)


__all__ = ["DELIVER", "END", "FAILED", "MUTATE", "NOTICE", "SNAPSHOT", "TICK", "TIMER", "WAKE", "Entry", "band"]
__all__ += ["heapify", "heappop", "heappush"]
