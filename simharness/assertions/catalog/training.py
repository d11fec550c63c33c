"""What the six invariants of training and their fold of progress have in common (training design, section 13).

They speak about a whole run: a Fail is final with the record that shows it, a Pass only at the end. A run in which nothing was
committed, or that was cut short, shows nothing (rulings V3, J7).
"""

from simharness.assertions.fold import Board, Fold, Handler, Mark, Payload, Subscription, integer
from simharness.assertions.setting import Setting
from simharness.assertions.training_oracle.problem import shards
from simharness.assertions.training_reading import Gradients, Place, mask, members


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


class SamplesFold(TrainingFold):
    """An invariant about samples: it knows who is in which view, what each gradient is of, and, in `own`, whose each sample is."""

    def __init__(self, setting: Setting, board: Board, place: int) -> None:
        super().__init__(setting, board, place)
        facts = self._facts
        self._views: dict[Place, dict[str, int]] = {}
        self._gradients = Gradients(0 if facts is None else facts.samples)
        self._every = 0 if facts is None else (1 << facts.samples) - 1
        self._shards: dict[str, int] = {}
        if facts is not None and facts.config.get("data_policy") != "reshard":
            self._shards = dict(zip(facts.workers, map(mask, shards(facts.shard_sizes)), strict=True))

    def handlers(self) -> dict[str, Handler]:
        """Want views, gradients, commits, applies and rollbacks."""
        return {
            "TrainView": self.on_view,
            "TrainGradient": self.on_gradient,
            "TrainCommit": self.on_commit,
            "TrainApply": self.on_apply,
            "TrainRollback": self.on_rollback,
        }

    def on_view(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note who is in a view."""
        del at_ns, host, key
        self._views[integer(event, "generation"), integer(event, "view")] = members(event)

    def on_gradient(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note which samples a gradient is of."""
        self._gradients.add(host, event, Mark(at_ns, "", key))

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Take a committed step."""
        raise NotImplementedError

    def on_apply(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Take a state that was made."""
        raise NotImplementedError

    def on_rollback(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Take the beginning of a generation."""
        raise NotImplementedError

    def _members(self, event: Payload) -> dict[str, int]:
        """Return who is in the view of a commit."""
        return self._views.get((integer(event, "generation"), integer(event, "view")), {})
