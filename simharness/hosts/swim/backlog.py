"""What a slow process has received and not yet looked at: one message after another, each at a fixed cost (rulings K2, M5)."""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from simharness.contracts.host import Action, ScheduleTimer
from simharness.core.units import NS_PER_MS

SERVICE_NS: Final = 10 * NS_PER_MS
"""What one message costs at full pace. There it is part of what links call latency, so only what slowness adds to it counts."""

FIRST_TICKET: Final = 16
"""Lowest token of a timer of the backlog: a kind that embeds a node has the tokens below for itself."""


class Backlog:
    """Received messages, first in, first out. At full pace it stays empty."""

    __slots__ = ("_due_ns", "_extra_ns", "_ticket", "_waiting")

    def __init__(self) -> None:
        self._extra_ns = 0
        self._waiting: deque[Any] = deque()
        self._ticket = FIRST_TICKET
        self._due_ns = 0

    @property
    def busy(self) -> bool:
        """Whether a message that comes now has to wait."""
        return bool(self._extra_ns or self._waiting)

    def slow(self, factor_x100: int) -> None:
        """Let each message from the next one on cost SERVICE_NS x (factor - 100) / 100, or nothing at full pace and above."""
        self._extra_ns = max(0, SERVICE_NS * (factor_x100 - 100) // 100)

    def add(self, message: Any, now_ns: int) -> Sequence[Action]:
        """Let a message wait for its turn; begin with it if nothing is being served.

        A timer that is overdue died with the process, which then came back with its memory (ruling E8): its message is begun anew.
        """
        overdue = now_ns > self._due_ns
        self._waiting.append(message)
        return self.begin(now_ns) if overdue or len(self._waiting) == 1 else ()

    def begin(self, now_ns: int) -> Sequence[Action]:
        """Begin with the first message, if there is one, and ask for the timer that ends it."""
        if not self._waiting:
            return ()
        self._ticket += 1
        self._due_ns = now_ns + self._extra_ns
        return (ScheduleTimer(self._due_ns, self._ticket),)

    def served(self, token: int) -> list[Any]:
        """Return what is done when the timer `token` fires: the first message, or every one if the slowness is over."""
        if token != self._ticket or not self._waiting:
            return []
        done = list(self._waiting) if not self._extra_ns else [self._waiting[0]]
        for _ in done:
            self._waiting.popleft()
        return done
