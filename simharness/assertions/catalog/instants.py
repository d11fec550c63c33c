"""`convergence_after` and `peer_detected_dead_within`: what the snapshots of one instant say together.

Counted are snapshots in (after, after + within] alone. An instant is judged when it is over, by the peers that are up then; a
rebuilt peer counts from its first own snapshot in the window on, a dead or halted one not at all.
"""

from collections.abc import Iterable

from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription
from simharness.assertions.lives import Lives
from simharness.assertions.setting import Setting
from simharness.assertions.shown import ALIVE, DEAD, MISSING, Shown
from simharness.contracts.assertions import ConvergenceAfter, PeerDetectedDeadWithin


class _Instants(Fold):
    """Passes at the first instant in the window that `agrees`; at the deadline it is Fail if any was judged."""

    def __init__(
        self, after_ns: int, within_ns: int, observers: Iterable[str], setting: Setting, board: Board, place: int
    ) -> None:
        super().__init__(board, place)
        self._after_ns, self._deadline_ns = after_ns, after_ns + within_ns
        self._observers = tuple(observers)
        self._lives = Lives(setting)
        self._latest: dict[str, tuple[dict[str, str], Mark]] = {}
        self._pending = False
        self._disagreement: tuple[Mark, ...] = ()
        self.wake(self._deadline_ns)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want kills and resurrections."""
        return self._lives.subscriptions(self.on_life)

    def snapshot_hosts(self) -> tuple[str, ...]:
        """Want the observers' snapshots."""
        return self._observers

    def on_life(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Forget what a rebuilt peer showed in its former life."""
        del at_ns, key
        change = self._lives.follow(host, event)
        if change is not None and change[1] == "rebuilt":
            self._latest.pop(change[0], None)

    def on_snapshot(self, at_ns: int, host: str, shown: Shown, key: int) -> None:
        """Keep a snapshot in the window, and judge when its instant is over."""
        if self._after_ns < at_ns <= self._deadline_ns:
            self._latest[host] = shown.states | {host: ALIVE}, Mark(at_ns, host, key)
            if not self._pending:
                self._pending = True
                self.wake(at_ns)

    def on_passed(self, at_ns: int) -> None:
        """Judge an instant with snapshots; conclude at the deadline."""
        if self._pending:
            self._pending = False
            self._judge()
        if at_ns == self._deadline_ns and self.outcome is None:
            if self._disagreement:
                self.conclude("Fail", *self._disagreement)
            else:
                self.conclude("Inconclusive")

    def _judge(self) -> None:
        """Pass if the live observers agree; else keep what speaks against it, if all of them were asked."""
        live = [observer for observer in self._observers if self._lives.alive(observer)]
        if not live or not all(observer in self._latest for observer in live):
            return
        views = [self._latest[observer] for observer in live]
        against = self.against(views)
        if against:
            self._disagreement = against
        else:
            self.conclude("Pass", *(mark for _, mark in views))

    def against(self, views: list[tuple[dict[str, str], Mark]]) -> tuple[Mark, ...]:
        """Return the snapshots that speak against the condition; none if it holds."""
        raise NotImplementedError


class ConvergenceAfterFold(_Instants):
    """The live named peers agree on the state of every declared peer of their membership (ruling V5).

    A live observer holds itself Alive; a missing entry is a state like any other.
    """

    def __init__(self, assertion: ConvergenceAfter, setting: Setting, board: Board, place: int) -> None:
        super().__init__(assertion.after_ns, assertion.within_ns, assertion.peers, setting, board, place)
        memberships = [member.membership for member in setting.members if member.id in assertion.peers]
        self._subjects = [member.id for member in setting.members if member.membership in memberships]

    def against(self, views: list[tuple[dict[str, str], Mark]]) -> tuple[Mark, ...]:
        """Return the first observer's snapshot and the first one that differs from it."""
        (first, shown), *rest = views
        for view, mark in rest:
            if any(view.get(subject, MISSING) != first.get(subject, MISSING) for subject in self._subjects):
                return shown, mark
        return ()


class PeerDetectedDeadWithinFold(_Instants):
    """Every other live peer of the same membership shows `peer` Dead."""

    def __init__(self, assertion: PeerDetectedDeadWithin, setting: Setting, board: Board, place: int) -> None:
        self._peer = assertion.peer
        subject = setting.member(assertion.peer)
        observers = (
            member.id
            for member in setting.members
            if member.id != assertion.peer and subject is not None and member.membership == subject.membership
        )
        super().__init__(assertion.after_ns, assertion.within_ns, observers, setting, board, place)

    def against(self, views: list[tuple[dict[str, str], Mark]]) -> tuple[Mark, ...]:
        """Return the first snapshot that does not show the peer Dead."""
        return next(((mark,) for view, mark in views if view.get(self._peer, MISSING) != DEAD), ())
