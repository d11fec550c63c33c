"""One simulated process: its generator, the call it is parked at, and when it may go on."""

from collections.abc import Callable, Generator
from typing import Any, Final

from simharness.core.streams import Stream
from simharness.supervisor.locktable import LockTable
from simharness.supervisor.record import CommitWatch
from simharness.systems.supervisor import seam

NEVER: Final = 1 << 62
Body = Generator[seam.SeamCall, Any, Any]


class Seat:
    """A process of the world. It runs from one yield to the next, at one instant, and is parked in between.

    Args:
        pid: Its name; it outlives incarnations.
        spawn: Builds the generator of an incarnation.
        stream: Gives the process draws of an incarnation.
        ready: Name -> when its process may go on: the seat keeps its own entry, whose place says when it was spawned.
    """

    __slots__ = (
        "_spawn",
        "_stream",
        "_stream_of",
        "body",
        "call",
        "calls",
        "crash_after",
        "draining",
        "ending",
        "frozen_ns",
        "incarnation",
        "name",
        "number",
        "pid",
        "ready",
        "reply",
        "stalled",
        "supervises",
        "wake_ns",
        "watch",
    )

    def __init__(
        self, pid: str, spawn: "Callable[[Seat], Body]", stream_of: Callable[[str, int], Stream], ready: dict[str, int]
    ) -> None:
        self.pid, self._spawn, self._stream_of = pid, spawn, stream_of
        self.supervises = pid.startswith("sup")
        self.incarnation = -1
        self.name = ""
        """The incarnation's name, never used twice."""
        self.number = 0
        self.ending: str | None = None
        """Why the process will not come back; None while it may."""
        self.body: Body | None = None
        self.call: seam.SeamCall | None = None
        self.reply: Any = None
        """A reply that is on its way."""
        self.calls = 0
        self.wake_ns = self.frozen_ns = 0
        self.ready = ready
        ready[pid] = 0
        self.draining = False
        self.crash_after = False
        """Whether the process crashes as soon as its parked call has taken effect."""
        self.stalled: str | None = None
        """The counter of the stall that the process is in."""
        self.watch = CommitWatch()
        self._stream: Stream | None = None

    @property
    def stream(self) -> Stream:
        """The process draws of this incarnation, made when it draws first: most never do."""
        if self._stream is None:
            self._stream = self._stream_of(self.pid, self.incarnation)
        return self._stream

    def begin(self) -> None:
        """Start the next incarnation, up to its first yield."""
        self.incarnation += 1
        self.name = f"{self.pid}.{self.incarnation}"
        self._stream = None
        self.calls = 0
        self.draining = self.crash_after = False
        self.stalled = self.reply = self.call = None
        self.watch = CommitWatch()
        self.body = self._spawn(self)

    def sleep_until(self, at_ns: int) -> None:
        """Let the process go on at `at_ns`, or when it thaws if that is later."""
        self.wake_ns = at_ns
        self.ready[self.pid] = max(at_ns, self.frozen_ns) if self.frozen_ns else at_ns

    def freeze(self, until_ns: int, counter: str) -> None:
        """Stop the process until a time, with its call parked. A longer freeze is not cut short by a shorter one."""
        if until_ns > self.frozen_ns:
            self.frozen_ns = until_ns
            self.ready[self.pid] = max(self.wake_ns, until_ns)
            self.stalled = counter

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self.frozen_ns = 0
        self.ready[self.pid] = self.wake_ns

    def stop(self, restart_ns: int) -> None:
        """End the incarnation; the next may begin at `restart_ns`."""
        if self.body is not None:
            self.body.close()
        self.body = self.call = self.reply = None
        self.frozen_ns = 0
        self.sleep_until(restart_ns)

    def finish(self, ending: str) -> None:
        """End the process for good."""
        self.stop(NEVER)
        self.ending = ending


class Surroundings:
    """What an incarnation sees without asking: the `Context` of a process."""

    __slots__ = ("_clock", "_lock", "_name", "_seat")

    def __init__(self, seat: Seat, clock: Callable[[], int], lock: LockTable) -> None:
        self._seat, self._name, self._clock, self._lock = seat, seat.name, clock, lock

    @property
    def incarnation(self) -> str:
        """The incarnation's name."""
        return self._name

    @property
    def draining(self) -> bool:
        """Whether it was asked to leave."""
        return self._seat.draining

    def now(self) -> int:
        """Return the instant, in ns."""
        return self._clock()

    def owns_lock(self) -> bool:
        """Tell whether the lock table names this incarnation."""
        return self._lock.owns(self._name)

    def may_acquire(self) -> bool:
        """Tell whether the lock could be had."""
        return self._lock.free(self._name)
