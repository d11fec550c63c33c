"""`train_replicas_identical`, invariant 2: one state for one generation and step, byte for byte (training design, 13)."""

from typing import NamedTuple

from simharness.assertions.catalog.training import TrainingFold
from simharness.assertions.fold import Board, Handler, Mark, Payload, integer
from simharness.assertions.setting import Setting
from simharness.assertions.training_oracle.problem import problem_of
from simharness.assertions.training_oracle.reference import Oracle
from simharness.assertions.training_reading import (
    Lineage,
    Parts,
    Place,
    cursor_digest,
    data_of,
    digest,
    parts,
    place,
    word,
)
from simharness.contracts.assertions import TrainReplicasIdentical


class _Known(NamedTuple):
    """A state as it was first reported."""

    parts: Parts
    by: str
    mark: Mark | None
    """None for state 0, which the scenario states."""


class TrainReplicasIdenticalFold(TrainingFold):
    """Compares applies, installs and adopts (weights only), and the state that a rollback lands on with the lineage's.

    Keyed by generation: who has not heard of a rollback yet is compared with the branch that it is on. Vectors on record must have
    the digests that they are recorded with, and state 0 is the scenario's.
    """

    def __init__(self, assertion: TrainReplicasIdentical, setting: Setting, board: Board, number: int) -> None:
        super().__init__(setting, board, number)
        del assertion
        self._lineage = Lineage()
        self._known: dict[Place, _Known] = {}
        self._epochs: dict[Place, int] = {}
        self._reported = self._compared = 0
        facts = self._facts
        if facts is not None and facts.checked:
            weights, momentum = Oracle(problem_of(facts.config | {"samples": facts.samples}, facts.seed)).start()
            cursor = cursor_digest(0, 0, bytes((facts.samples + 7) // 8))
            self._known[0, 0] = _Known(Parts(digest(weights), digest(momentum), cursor), "the scenario", None)

    def handlers(self) -> dict[str, Handler]:
        """Want whatever names a state."""
        return {
            "TrainCommit": self.on_commit,
            "TrainApply": self.on_apply,
            "TrainInstall": self.on_install,
            "TrainAdopt": self.on_adopt,
            "TrainRollback": self.on_rollback,
        }

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow the lineage."""
        del at_ns, host, key
        self._commits += 1
        self._lineage.commit(place(event))
        self._epochs[place(event)] = integer(event, "epoch")

    def on_apply(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare a state that was computed, its vectors included."""
        mark, made = Mark(at_ns, "", key), parts(event, "post")
        generation, step = place(event)
        if made is None:
            self.broken(f"step {step}, {host}: an apply without three digests", mark)
            return
        weights, momentum, consumed = (data_of(event, field) for field in ("weights", "momentum", "consumed"))
        epoch = self._epochs.get((generation, step - 1))
        own = Parts(
            made.weights if weights is None else digest(weights),
            made.momentum if momentum is None else digest(momentum),
            made.cursor if consumed is None or epoch is None else cursor_digest(step, epoch, consumed),
        )
        if own != made:
            self.broken(f"step {step}, {host}: {made.other_than(own)} on record has another digest than recorded", mark)
        self._compare(host, (generation, step), made, mark)

    def on_install(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare a state that was fetched or read from disk."""
        mark, made = Mark(at_ns, "", key), parts(event, "digests")
        if made is None:
            self.broken(f"step {place(event)[1]}, {host}: an install without three digests", mark)
        else:
            self._compare(host, place(event), made, mark)

    def on_adopt(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare the weights that a worker of a server was sent."""
        known, got = self._known.get(place(event)), event.get("digests")
        if known is None:
            return  # parameters of a state that nobody reported: a matter of order
        self._compared += 1
        if type(got) is not list or got[:1] != [known.parts.weights]:
            self._differ(host, place(event), "weights", known, Mark(at_ns, "", key))

    def on_rollback(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare the state that a generation begins with."""
        mark, to = Mark(at_ns, "", key), place(event)
        made_at = self._lineage.rollback(to)
        known = None if made_at is None else self._known.get(made_at)
        if known is None:
            return  # beyond the lineage: that is a matter of order
        if word(event, "digest") != known.parts.whole:
            self._differ(host, to, "what is rolled back to", known, mark)
        self._known[to] = known

    def summary(self) -> tuple[bool, str]:
        """Ask whether any state was reported; with a single replica there is nothing to compare it with."""
        note = f"{len(self._known)} states, {self._compared} reports compared with an earlier one"
        return self._reported > 0, note if self._compared else f"{note}: single replica"

    def _compare(self, host: str | None, at: Place, made: Parts, mark: Mark) -> None:
        self._reported += 1
        known = self._known.get(at)
        if known is None:
            self._known[at] = _Known(made, str(host), mark)
            return
        self._compared += 1
        if made != known.parts:
            self._differ(host, at, made.other_than(known.parts), known, mark)

    def _differ(self, host: str | None, at: Place, what: str, known: _Known, mark: Mark) -> None:
        generation, step = at
        note = f"state {step} of generation {generation}: {host} differs from {known.by} in {what}"
        self.broken(note, *([mark] if known.mark is None else [known.mark, mark]))
