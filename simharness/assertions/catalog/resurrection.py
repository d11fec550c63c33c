"""`dead_peer_resurrects_within`: whoever took the peer for dead takes it for alive in the end (ruling V5)."""

from simharness.assertions.fold import Board, Fold, Payload, Subscription
from simharness.assertions.setting import Setting
from simharness.assertions.shown import ALIVE, DEAD, Shown
from simharness.assertions.views import Views
from simharness.contracts.assertions import DeadPeerResurrectsWithin


class DeadPeerResurrectsWithinFold(Fold):
    """Final once `after + within` is over.

    Asked are the observers that are up then and have held the peer Dead at any time up to then. A rebuilt observer remembers
    nothing, so it counts only if it held the peer Dead in its new life. With nobody to ask the outcome is inconclusive.
    """

    def __init__(self, assertion: DeadPeerResurrectsWithin, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        self._peer = assertion.peer
        self._observers = tuple(member.id for member in setting.members if member.id != assertion.peer)
        self._views = Views((assertion.peer,), setting)
        self._mourners: dict[str, bool] = {}
        self.wake(assertion.after_ns + assertion.within_ns)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want transitions of the peer, kills and resurrections."""
        return (
            Subscription("SwimTransition", "peer", self._peer, self.on_transition),
            *self._views.lives.subscriptions(self.on_life),
        )

    def snapshot_hosts(self) -> tuple[str, ...]:
        """Want everybody else's snapshots."""
        return self._observers

    def on_life(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Let a rebuilt observer forget."""
        del at_ns, key
        change = self._views.on_life(host, event)
        if change is not None and change[1] == "rebuilt":
            self._mourners.pop(change[0], None)

    def on_transition(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a transition of the peer."""
        if host is not None and host != self._peer:
            self._views.on_transition(at_ns, host, event, key)
            if DEAD in (event.get("from"), event.get("to")):
                self._mourners[host] = True

    def on_snapshot(self, at_ns: int, host: str, shown: Shown, key: int) -> None:
        """Follow a snapshot."""
        self._views.on_snapshot(at_ns, host, shown, key)
        if shown.state(self._peer) == DEAD:
            self._mourners[host] = True

    def on_passed(self, at_ns: int) -> None:
        """Ask those who held the peer Dead."""
        del at_ns
        views = [self._views.of(observer, self._peer) for observer in self._mourners]
        known = [view for view in views if view is not None]
        still = [view.shown for view in known if view.state != ALIVE]
        if still:
            self.conclude("Fail", min(still))
        else:
            self.conclude("Pass" if known else "Inconclusive")
