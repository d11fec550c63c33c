"""`train_progress`: that steps go on, for safety is easy for a system that does nothing (training design, 14)."""

from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription, integer, whole_stream
from simharness.assertions.setting import Setting
from simharness.contracts.assertions import TrainProgress


class TrainProgressFold(Fold):
    """Passes at the commit that makes `min_steps` in (after, after + within], or at the job's last step; fails after the window."""

    def __init__(self, assertion: TrainProgress, setting: Setting, board: Board, number: int) -> None:
        super().__init__(board, number)
        self._after_ns, self._end_ns = assertion.after_ns, assertion.after_ns + assertion.within_ns
        self._missing = assertion.min_steps
        facts = setting.training
        self._steps: int = 0 if facts is None else facts.config.get("steps", 0)
        self.wake(self._end_ns)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want commits."""
        return (Subscription("TrainCommit", "", "", self.on_commit),)

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Count a commit."""
        del host
        if self.outcome is not None or at_ns > self._end_ns:
            return
        if at_ns > self._after_ns:
            self._missing -= 1
        if self._missing <= 0 or integer(event, "step") + 1 == self._steps:
            self.conclude("Pass", Mark(at_ns, "", key))

    def on_passed(self, at_ns: int) -> None:
        """Fail: too few steps by the end of the window."""
        self.note = f"{self._missing} steps short"
        self.conclude("Fail", whole_stream(at_ns))
