"""Timed effects of mutations on one leg: spikes, bursts and floors in half-open windows [at, end) (§5.5, ruling N16)."""


class Override:
    """A value that windows override; of the windows in force the one applied last wins (ruling N16).

    Kept as a stack. A window that ends no later than one applied after it can never win again, so ends fall towards the top.
    """

    __slots__ = ("_stack",)

    def __init__(self) -> None:
        self._stack: list[tuple[int, int]] = []

    def put(self, end_ns: int, value: int) -> None:
        """Apply a window that ends just before `end_ns`."""
        stack = self._stack
        while stack and stack[-1][0] <= end_ns:
            stack.pop()
        stack.append((end_ns, value))

    def at(self, when_ns: int) -> int | None:
        """Return the value in force at `when_ns`, or None."""
        for end_ns, value in reversed(self._stack):
            if when_ns < end_ns:
                return value
        return None

    def forget(self, now_ns: int) -> bool:
        """Drop what has ended by `now_ns`; tell whether anything is left."""
        stack = self._stack
        while stack and stack[-1][0] <= now_ns:
            stack.pop()
        return bool(stack)


class Floor:
    """A minimum that windows impose; of the windows in force the largest counts (ruling N16)."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: list[tuple[int, int]] = []

    def put(self, end_ns: int, value: int) -> None:
        """Apply a window that ends just before `end_ns`; windows that it covers in both respects go."""
        kept = [window for window in self._windows if window[0] > end_ns or window[1] > value]
        self._windows = [*kept, (end_ns, value)]

    def at(self, when_ns: int) -> int:
        """Return the largest floor in force at `when_ns`, 0 if there is none."""
        return max((value for end_ns, value in self._windows if when_ns < end_ns), default=0)

    def forget(self, now_ns: int) -> bool:
        """Drop what has ended by `now_ns`; tell whether anything is left."""
        self._windows = [window for window in self._windows if window[0] > now_ns]
        return bool(self._windows)


class Windows:
    """All windows of one leg. Every effect is judged at the leg's own send time."""

    __slots__ = ("burst_ppm", "duplicate_ppm", "floor_ns", "spike_x100")

    def __init__(self) -> None:
        self.spike_x100, self.burst_ppm, self.floor_ns = Override(), Override(), Floor()
        self.duplicate_ppm = Override()

    def forget(self, now_ns: int) -> bool:
        """Drop what has ended by `now_ns`; tell whether anything is left."""
        left = self.spike_x100.forget(now_ns), self.burst_ppm.forget(now_ns), self.duplicate_ppm.forget(now_ns)
        return self.floor_ns.forget(now_ns) or any(left)
