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
    """

    __slots__ = (
        "_spawn",
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
        "ready_ns",
        "reply",
        "stalled",
        "stream",
        "supervises",
        "wake_ns",
        "watch",
    )

    def __init__(self, pid: str, spawn: "Callable[[Seat], Body]", stream_of: Callable[[str, int], Stream]) -> None:
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
        self.wake_ns = self.frozen_ns = self.ready_ns = 0
        self.draining = False
        self.crash_after = False
        """Whether the process crashes as soon as its parked call has taken effect."""
        self.stalled: str | None = None
        """The counter of the stall that the process is in."""
        self.watch = CommitWatch()
        self.stream: Stream

    def begin(self) -> None:
        """Start the next incarnation, up to its first yield."""
        self.incarnation += 1
        self.name = f"{self.pid}.{self.incarnation}"
        self.stream = self._stream_of(self.pid, self.incarnation)
        self.calls = 0
        self.draining = self.crash_after = False
        self.stalled = self.reply = self.call = None
        self.watch = CommitWatch()
        self.body = self._spawn(self)

    def sleep_until(self, at_ns: int) -> None:
        """Let the process go on at `at_ns`, or when it thaws if that is later."""
        self.wake_ns = at_ns
        self.ready_ns = max(at_ns, self.frozen_ns)

    def freeze(self, until_ns: int, counter: str) -> None:
        """Stop the process until a time, with its call parked. A longer freeze is not cut short by a shorter one."""
        if until_ns > self.frozen_ns:
            self.frozen_ns = until_ns
            self.ready_ns = max(self.wake_ns, until_ns)
            self.stalled = counter

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self.frozen_ns = 0
        self.ready_ns = self.wake_ns

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
