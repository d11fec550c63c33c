"""Clocks of hosts that are wrong (rulings K2, M3): what a host reads and asks for is translated, the queue never changes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from simharness.contracts.host import Action, Host, HostMessage, ScheduleTimer
from simharness.contracts.ports import DeliveryObserver
from simharness.core.errors import EngineAbort
from simharness.core.units import PPM


class Clock(NamedTuple):
    """A clock that was wrong by `error_ns` at `since_ns` and has gained `drift_ppm` on virtual time since then.

    It never runs backwards between two changes, for a drift is above -1,000,000 ppm.
    """

    since_ns: int = 0
    error_ns: int = 0
    drift_ppm: int = 0

    def read(self, at_ns: int) -> int:
        """Return what the clock shows at virtual time `at_ns`, rounded down to whole nanoseconds."""
        return at_ns + self.error_ns + (at_ns - self.since_ns) * self.drift_ppm // PPM

    def when(self, shown_ns: int) -> int:
        """Return the first virtual time at which the clock shows `shown_ns` or more."""
        elapsed = shown_ns - self.error_ns - self.since_ns
        return self.since_ns - (-elapsed * PPM // (PPM + self.drift_ppm))  # rounded up

    def set_off(self, at_ns: int, offset_ns: int) -> "Clock":
        """Return the clock after it is set to `at_ns + offset_ns`; it goes on drifting."""
        return Clock(at_ns, offset_ns, self.drift_ppm)

    def drifting(self, at_ns: int, drift_ppm: int) -> "Clock":
        """Return the clock after its rate changes; what it shows at that instant stays."""
        return Clock(at_ns, self.read(at_ns) - at_ns, drift_ppm)

    @property
    def is_true(self) -> bool:
        """Whether it shows virtual time, now and later."""
        return not self.error_ns and not self.drift_ppm


TRUE: Final = Clock()


class SkewedHost:
    """A host whose every call brings the time of a wrong clock, and whose timers are asked for in that time."""

    def __init__(self, host: Host, clock: Clock, observer: DeliveryObserver | None) -> None:
        self.id, self.kind_tag = host.id, host.kind_tag
        self._host, self._clock, self._observer = host, clock, observer

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Tick at the clock's time."""
        shown_ns = self._show(now_ns)
        return self._translated(self._host.tick(shown_ns), shown_ns, now_ns)

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Hand a message or an envelope on at the clock's time."""
        shown_ns = self._show(now_ns)
        return self._translated(self._host.recv(message, shown_ns), shown_ns, now_ns)

    def snapshot(self) -> bytes:
        """Return the host's own snapshot."""
        return self._host.snapshot()

    def _show(self, now_ns: int) -> int:
        shown_ns = self._clock.read(now_ns)
        if self._observer is not None and shown_ns != now_ns:
            self._observer.skewed(self.id, now_ns, shown_ns)
        return shown_ns

    def _translated(self, actions: Sequence[Action], shown_ns: int, now_ns: int) -> list[Action]:
        """Turn the times of timers into virtual ones; one that the clock has passed already is refused as ever (§4.6)."""
        translated: list[Action] = []
        for action in actions:
            if isinstance(action, ScheduleTimer):
                if action.at_ns < shown_ns:
                    detail = f"asked for {action.at_ns} when its clock showed {shown_ns}"
                    raise EngineAbort(rule="timer-in-the-past", detail=detail, host_id=self.id, at_ns=now_ns)
                action = ScheduleTimer(max(now_ns, self._clock.when(action.at_ns)), action.token)  # noqa: PLW2901
            translated.append(action)
        return translated
