"""`worker_alive_throughout` and `name_resolves_within`: stages and their names."""

from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription, mutation_of
from simharness.assertions.setting import Setting
from simharness.assertions.shown import Shown
from simharness.contracts.assertions import NameResolvesWithin, WorkerAliveThroughout


class WorkerAliveThroughoutFold(Fold):
    """Fails at once on a halt or a kill in the window, both ends included, or if the window begins after one.

    A killed process cannot say that it halts, so its `peer_kill` counts as the halt (ruling E14). The time before the stage first
    runs is no violation; that it runs by the end of the window is the precondition.
    """

    def __init__(self, assertion: WorkerAliveThroughout, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        del setting
        self._peer = assertion.peer
        self._start_ns, self._end_ns = assertion.window_start_ns, assertion.window_end_ns
        self._ran = False
        self._dead = False
        self._down: Mark | None = None
        """The halt or kill since which the stage, having run, has not run again."""
        self.wake(self._start_ns)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want the stage's lifecycle, kills and resurrections."""
        return (
            Subscription("stage_lifecycle", "host_id", self._peer, self.on_lifecycle),
            Subscription("Mutation", "", "", self.on_mutation),
        )

    def on_lifecycle(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow the lifecycle."""
        del host
        if event.get("to") == "Running":
            self._ran, self._down = True, None
        elif event.get("to") == "Halted":
            self._halt(Mark(at_ns, "", key))

    def on_mutation(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow kills; a second kill of the dead changes nothing (ruling E8)."""
        del host
        mutation = mutation_of(event)
        if mutation.get("peer") != self._peer:
            return
        if mutation.get("kind") == "peer_kill" and not self._dead:
            self._dead = True
            self._halt(Mark(at_ns, "", key))
        elif mutation.get("kind") == "peer_resurrect":
            self._dead = False

    def on_passed(self, at_ns: int) -> None:
        """Judge what the window begins with; conclude when it is over."""
        if at_ns == self._start_ns:
            if self._down is not None:
                self.conclude("Fail", self._down)
            elif self._start_ns < self._end_ns:
                self.wake(self._end_ns)
        if at_ns == self._end_ns and self.outcome is None:
            self.conclude("Pass" if self._ran else "Inconclusive")

    def _halt(self, mark: Mark) -> None:
        if self._start_ns <= mark.at_ns <= self._end_ns:
            self.violated(mark)
        elif self._ran and self._down is None:
            self._down = mark


class NameResolvesWithinFold(Fold):
    """Passes when every observer has shown the name in a snapshot of the window; else final when the window is over.

    Any instance of an observer counts (ruling V5). An observer without a snapshot has not resolved the name; only if no observer
    was asked at all is the outcome inconclusive.
    """

    def __init__(self, assertion: NameResolvesWithin, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        del setting
        self._name, self._observers = assertion.name, assertion.observers
        self._from_ns, self._deadline_ns = assertion.from_ns, assertion.from_ns + assertion.within_ns
        self._resolved: dict[str, Mark] = {}
        self._asked: dict[str, Mark] = {}
        self.wake(self._deadline_ns)

    def snapshot_hosts(self) -> tuple[str, ...]:
        """Want the observers' snapshots."""
        return self._observers

    def on_snapshot(self, at_ns: int, host: str, shown: Shown, key: int) -> None:
        """Look for the name."""
        if not self._from_ns <= at_ns <= self._deadline_ns or self.outcome is not None:
            return
        mark = self._asked[host] = Mark(at_ns, host, key)
        if host not in self._resolved and shown.names(self._name):
            self._resolved[host] = mark
            if len(self._resolved) == len(self._observers):
                self.conclude("Pass", *sorted(self._resolved.values()))

    def on_passed(self, at_ns: int) -> None:
        """Conclude: somebody did not resolve the name, or nobody was asked."""
        del at_ns
        missing = [observer for observer in self._observers if observer not in self._resolved]
        asked = [self._asked[observer] for observer in missing if observer in self._asked]
        if not self._asked:
            self.conclude("Inconclusive")
        else:
            # Somebody who was never asked leaves no record; then those who were asked show when that was.
            self.conclude("Fail", min(asked or self._asked.values()))
