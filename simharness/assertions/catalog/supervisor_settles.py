"""`supervisor_settles_within`: that the job comes to its end, for safety is easy for a system that does nothing (section 13)."""

from simharness.assertions.catalog.supervisor_invariants import world_of
from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription, integer
from simharness.assertions.setting import Setting
from simharness.assertions.supervisor_history import word
from simharness.contracts.assertions import SupervisorSettlesWithin


class SupervisorSettlesWithinFold(Fold):
    """Passes at the end of the quiet phase if that took `steps` steps or fewer, else fails; any violation fails it too."""

    def __init__(self, assertion: SupervisorSettlesWithin, setting: Setting, board: Board, number: int) -> None:
        super().__init__(board, number)
        self._most = assertion.steps
        self._world = world_of(setting)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want the last record of a world."""
        if self._world is None:
            return ()
        return (
            Subscription("SupervisorSettled", "host_id", self._world, self.on_settled),
            Subscription("SupervisorViolation", "host_id", self._world, self.on_violation),
        )

    def on_settled(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare the length of the quiet phase."""
        del host
        if self.outcome is None:
            steps = integer(event, "steps")
            self.note = f"{steps} quiet steps"
            self.conclude("Pass" if steps <= self._most else "Fail", Mark(at_ns, "", key))

    def on_violation(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Fail: the run has ended at a violation."""
        del host
        if self.outcome is None:
            self.note = f"invariant {word(event, 'invariant')} broke first"
            self.conclude("Fail", Mark(at_ns, "", key))

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Conclude without an end of the quiet phase."""
        del end_ns, cut
        self.note = "no world of a job" if self._world is None else "the run ends before its quiet phase is over"
        self.conclude("Inconclusive")
