"""`event_count` and `event_rate`. `CacheStateChange` alone may come back-dated (ruling V6), which shapes both."""

from bisect import insort
from collections import deque
from itertools import islice
from typing import Final

from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription, whole_stream
from simharness.assertions.setting import Setting
from simharness.contracts.assertions import EventCount, EventRate

_BACK_DATED: Final = "CacheStateChange"


class EventCountFold(Fold):
    """Fails at the first event too many; passes at `min` if there is no `max`; else final at the end of the run.

    The event too many is the one in file order, so a back-dated event may replace the evidence, never the outcome.
    """

    def __init__(self, assertion: EventCount, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        del setting
        self._kind, self._peer = assertion.event_kind, assertion.peer
        self._min, self._max = assertion.min or 0, assertion.max
        self._count = 0
        self.keeps_listening = self._max is not None and self._kind == _BACK_DATED
        self._first: list[Mark] = []
        if self._max is None and self._min == 0:
            self.conclude("Pass")

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want the events of the kind."""
        field, value = ("", "") if self._peer is None else ("host_id", self._peer)
        return (Subscription(self._kind, field, value, self.on_event),)

    def on_event(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Count one event."""
        del host, event
        mark = Mark(at_ns, "", key)
        if self.keeps_listening:
            self._keep(mark)
        elif self.outcome is None:
            self._count += 1
            if self._max is None:
                if self._count == self._min:
                    self.conclude("Pass")  # which event that was depends on the order of the back-dated kind
            elif self._count > self._max:
                self.conclude("Fail", mark)

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Conclude: the maximum holds; too few is a Fail unless the run was cut short."""
        if cut:
            self.conclude("Inconclusive")
        elif max(self._count, len(self._first)) < self._min:
            self.conclude("Fail", whole_stream(end_ns))
        else:
            self.conclude("Pass")

    def _keep(self, mark: Mark) -> None:
        """Keep the first `max + 1` marks in file order; with that many, the last of them is the evidence."""
        assert self._max is not None
        insort(self._first, mark)
        del self._first[self._max + 1 :]
        if len(self._first) > self._max:
            if self.outcome is None:
                self.conclude("Fail", self._first[-1])
            else:
                self.evidence = (self._first[-1],)


class EventRateFold(Fold):
    """Fails at the event that makes `max_per_window + 1` within less than `window_ns`; back-dated kinds are judged at the end."""

    def __init__(self, assertion: EventRate, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        del setting
        self._kind, self._window_ns, self._max = assertion.event_kind, assertion.window_ns, assertion.max_per_window
        self._recent: deque[Mark] = deque(maxlen=None if self._kind == _BACK_DATED else self._max + 1)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want the events of the kind."""
        return (Subscription(self._kind, "", "", self.on_event),)

    def on_event(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare with the event `max_per_window` places before."""
        del host, event
        self._recent.append(Mark(at_ns, "", key))
        if self._kind != _BACK_DATED and self.outcome is None and len(self._recent) > self._max:
            self._judge(self._recent[0], self._recent[-1])

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Judge what could not be judged before; nothing found is a Pass unless the run was cut short."""
        del end_ns
        if self._kind == _BACK_DATED:
            marks = sorted(self._recent)
            for first, last in zip(marks, islice(marks, self._max, None), strict=False):
                if self.outcome is None:
                    self._judge(first, last)
        if self.outcome is None:
            self.conclude("Inconclusive" if cut else "Pass")

    def _judge(self, first: Mark, last: Mark) -> None:
        if last.at_ns - first.at_ns < self._window_ns:
            self.conclude("Fail", *dict.fromkeys((first, last)))
