"""`all_alive_at` and `all_alive_throughout`: what the named peers hold about each other.

Both judge views that are exact at the end of an instant (`views`). A named peer that is dead or halted has no view, and a
rebuilt one has none until its first snapshot: if nothing else is violated, the outcome is then inconclusive.
"""

from collections.abc import Iterator

from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription
from simharness.assertions.setting import Setting
from simharness.assertions.shown import ALIVE, Shown
from simharness.assertions.views import Views
from simharness.contracts.assertions import AllAliveAt, AllAliveThroughout


class _MutualViews(Fold):
    """Follows the views of `peers` on each other."""

    def __init__(self, peers: tuple[str, ...], setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        self.peers = peers
        self.views = Views(peers, setting)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want transitions of the named observers, kills and resurrections."""
        transitions = (Subscription("SwimTransition", "host_id", peer, self.on_transition) for peer in self.peers)
        return (*transitions, *self.views.lives.subscriptions(self.on_life))

    def snapshot_hosts(self) -> tuple[str, ...]:
        """Want the snapshots of the named peers."""
        return self.peers

    def on_life(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a kill or a resurrection."""
        del at_ns, key
        self.views.on_life(host, event)

    def on_transition(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a transition."""
        if host is not None and event.get("peer") in self.peers:
            self.views.on_transition(at_ns, host, event, key)

    def on_snapshot(self, at_ns: int, host: str, shown: Shown, key: int) -> None:
        """Follow a snapshot."""
        self.views.on_snapshot(at_ns, host, shown, key)

    def others(self, observer: str) -> Iterator[str]:
        """Yield the other named peers."""
        return (peer for peer in self.peers if peer != observer)

    def not_alive(self) -> list[Mark]:
        """Return the records that show a named peer in another state than Alive just now."""
        held = (self.views.of(observer, subject) for observer in self.peers for subject in self.others(observer))
        return [view.shown for view in held if view is not None and view.state != ALIVE]


class AllAliveAtFold(_MutualViews):
    """Final once `at_ns` is over: Fail on any state but Alive, a missing entry included; Pass if every view is known."""

    def __init__(self, assertion: AllAliveAt, setting: Setting, board: Board, place: int) -> None:
        super().__init__(assertion.peers, setting, board, place)
        self.wake(assertion.at_ns)

    def on_passed(self, at_ns: int) -> None:
        """Judge the views at the end of the instant."""
        del at_ns
        bad = self.not_alive()
        if bad:
            self.conclude("Fail", min(bad))
        else:
            known = all(self.views.complete(peer) for peer in self.peers)
            self.conclude("Pass" if known else "Inconclusive")


class AllAliveThroughoutFold(_MutualViews):
    """Fails at once on a snapshot or a transition in the window, or on what the window begins with.

    A transition *from* another state tells of the time before it. Pass needs a snapshot of every named peer in the window, and
    every one of them up all through it.
    """

    def __init__(self, assertion: AllAliveThroughout, setting: Setting, board: Board, place: int) -> None:
        super().__init__(assertion.peers, setting, board, place)
        self._start_ns, self._end_ns = assertion.window_start_ns, assertion.window_end_ns
        self._seen: dict[str, bool] = {}
        self._gap = False
        self.wake(self._start_ns)

    def on_life(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note a named peer that goes down in the window."""
        del key
        change = self.views.on_life(host, event)
        if change is None or change[0] not in self.peers or not self._within(at_ns):
            return
        if change[1] in ("killed", "halted"):
            self._gap = True

    def on_transition(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Fail on a transition to, and inside the window on one from, another state."""
        super().on_transition(at_ns, host, event, key)
        if event.get("peer") not in self.peers or not self._within(at_ns):
            return
        left_other = at_ns > self._start_ns and event.get("from") != ALIVE
        if left_other or event.get("to") != ALIVE:
            self.violated(Mark(at_ns, "", key))

    def on_snapshot(self, at_ns: int, host: str, shown: Shown, key: int) -> None:
        """Fail on a snapshot in the window that lacks a named peer or shows it otherwise."""
        super().on_snapshot(at_ns, host, shown, key)
        if not self._within(at_ns):
            return
        self._seen[host] = True
        if any(shown.state(peer) != ALIVE for peer in self.others(host)):
            self.violated(Mark(at_ns, host, key))

    def on_passed(self, at_ns: int) -> None:
        """Judge what the window begins with; conclude when it is over."""
        if at_ns == self._start_ns:
            self._gap |= not all(self.views.alive(peer) for peer in self.peers)
            bad = self.not_alive()
            if bad:
                self.conclude("Fail", min(bad))
            elif self._start_ns < self._end_ns:
                self.wake(self._end_ns)
                return
        if self.outcome is None:
            shown = all(peer in self._seen for peer in self.peers)
            self.conclude("Pass" if shown and not self._gap else "Inconclusive")

    def _within(self, at_ns: int) -> bool:
        return self._start_ns <= at_ns <= self._end_ns
