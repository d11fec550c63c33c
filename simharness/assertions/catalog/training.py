"""What the six invariants of training and their fold of progress have in common (training design, section 13).

They speak about a whole run: a Fail is final with the record that shows it, a Pass only at the end. A run in which nothing was
committed, or that was cut short, shows nothing (rulings V3, J7).
"""

from simharness.assertions.fold import Board, Fold, Handler, Mark, Subscription
from simharness.assertions.setting import Setting


class TrainingFold(Fold):
    """An invariant over the records of the one training job of a scenario."""

    def __init__(self, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        self._facts = setting.training
        self._commits = 0

    def handlers(self) -> dict[str, Handler]:
        """Return what takes which kind of record."""
        raise NotImplementedError

    def summary(self) -> tuple[bool, str]:
        """Return, nothing being wrong, whether enough was seen for a Pass, and what was seen in words."""
        return True, f"{self._commits} steps"

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want the records of the job, if there is one."""
        if self._facts is None:
            return ()
        return tuple([Subscription(kind, "", "", handler) for kind, handler in self.handlers().items()])

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Conclude."""
        del end_ns
        if self._facts is None:
            self._settle(enough=False, note="no training job: it has one train_hub and at least one train_worker")
        elif not self._commits:
            self._settle(enough=False, note="no step was committed")
        else:
            enough, note = self.summary()
            self._settle(enough=enough and not cut, note=note)

    def broken(self, note: str, *evidence: Mark) -> None:
        """Fail, unless it has failed before."""
        if self.outcome is None:
            self.note = note
            self.conclude("Fail", *evidence)

    def _settle(self, *, enough: bool, note: str) -> None:
        self.note = note
        self.conclude("Pass" if enough else "Inconclusive")
