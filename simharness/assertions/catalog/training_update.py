"""`train_update_matches_reference`, invariant 1: the update is what one process would have computed (training design, 12 and 13).

The numbers of gradients are neither recorded nor trusted. What a worker says it used is; whoever lies about that is caught here.
"""

from typing import Final, NamedTuple

from simharness.assertions.catalog.training import TrainingFold
from simharness.assertions.fold import Board, Handler, Mark, Payload, integer
from simharness.assertions.setting import Setting
from simharness.assertions.training_oracle.ieee import decode
from simharness.assertions.training_oracle.problem import problem_of
from simharness.assertions.training_oracle.reference import Oracle, State, Worst
from simharness.assertions.training_reading import Gradients, Place, contributions, data_of, digest, parts, place
from simharness.contracts.assertions import TrainUpdateMatchesReference

_SEVERAL: Final = 2
_OUT_OF_RANGE: Final = 500
"""Bits before the point from which on a square, with what it is multiplied by, may not fit into a float64 (ruling G15)."""


class JudgedStep(NamedTuple):
    """What came of one committed step, for whoever draws it."""

    at_ns: int
    generation: int
    view: int
    step: int
    epoch: int
    counts: tuple[int, ...]
    worst: Worst
    discriminates: bool


class _Committed(NamedTuple):
    view: int
    epoch: int
    batches: tuple[tuple[int, ...], ...] | None
    """The samples of each contribution; None if one of them resolves to none."""


class TrainUpdateMatchesReferenceFold(TrainingFold):
    """Judges the first apply of each (generation, step) whose state before is on record, over the union of the contributions.

    A sample that was used twice counts twice: that it should not is for others to say. An apply whose state before nobody reported
    is not judged; neither is a run Passed that has a step which nobody's apply could be judged of.
    """

    def __init__(self, assertion: TrainUpdateMatchesReference, setting: Setting, board: Board, number: int) -> None:
        super().__init__(setting, board, number)
        self._wanted = assertion.min_discriminating or 0
        self._gradients = Gradients(0)
        self._oracle: Oracle | None = None
        self._states: dict[tuple[str, str], State] = {}
        self._waiting: dict[Place, _Committed] = {}
        self._unjudged: dict[Place, bool] = {}
        self._several = self._discriminating = 0
        self._worst = Worst("weights", 0, 0, 1)
        self._diverged = ""
        self.steps: list[JudgedStep] = []
        facts = self._facts
        if facts is not None and facts.checked:
            self._oracle = Oracle(problem_of(facts.config | {"samples": facts.samples}, facts.seed))
            self._gradients = Gradients(facts.samples)
            self._keep(*self._oracle.start())

    def handlers(self) -> dict[str, Handler]:
        """Want gradients, commits and applies."""
        if self._oracle is None:
            return {"TrainCommit": self.on_commit}
        return {"TrainGradient": self.on_gradient, "TrainCommit": self.on_commit, "TrainApply": self.on_apply}

    def on_gradient(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note which samples a gradient is of."""
        self._gradients.add(host, event, Mark(at_ns, "", key))

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note what a committed step is made of."""
        del at_ns, host, key
        self._commits += 1
        found = [self._gradients.samples_of(each) for each in contributions(event)]
        batches = tuple([ids for ids in found if ids is not None])
        whole = len(batches) == len(found) and any(batches)
        if sum(map(bool, batches)) >= _SEVERAL:
            self._several += 1
        self._waiting[place(event)] = _Committed(
            integer(event, "view"), integer(event, "epoch"), batches if whole else None
        )

    def on_apply(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge the first apply of a step."""
        generation, step = at = place(event)
        weights, momentum = data_of(event, "weights"), data_of(event, "momentum")
        if weights is None or momentum is None:
            return
        after = self._keep(weights, momentum)
        committed = self._waiting.get((generation, step - 1))
        if committed is None:
            return
        before = self._before(event)
        assert self._oracle is not None
        if before is None or committed.batches is None:
            self._unjudged[at] = True
            return
        del self._waiting[generation, step - 1]
        self._unjudged.pop(at, None)
        if after is None:
            reach = self._oracle.reach(before, committed.batches)
            self._judge_no_state(step - 1, host, (weights, momentum), reach, Mark(at_ns, "", key))
            return
        self._judge(at_ns, host, at, before, after, committed, key)

    def summary(self) -> tuple[bool, str]:
        """Ask whether a wrong weighting would have been seen."""
        judged = len(self.steps)
        if self._oracle is None:
            return False, "this model has no reference"
        note = f"{judged} steps judged, worst at {self._worst.shown} of the tolerance, "
        note += f"{self._discriminating} discriminating" if self._several else "single contributor"
        if self._diverged:
            return False, f"{self._diverged}; until then {note}"
        if not judged:
            return False, "no step could be judged: no apply on record shows its state"
        if self._unjudged:
            return False, f"{note}; {len(self._unjudged)} steps could not be judged"
        if self._discriminating < self._wanted:
            return False, f"{note}, {self._wanted} wanted"
        return not self._several or self._discriminating > 0, note

    def _judge(
        self, at_ns: int, host: str | None, at: Place, before: State, after: State, committed: _Committed, key: int
    ) -> None:
        assert self._oracle is not None
        assert committed.batches is not None
        worst, discriminates = self._oracle.judge(before, after, committed.batches)
        generation, step = at
        counts = tuple(map(len, committed.batches))
        self.steps.append(
            JudgedStep(at_ns, generation, committed.view, step - 1, committed.epoch, counts, worst, discriminates)
        )
        self._discriminating += discriminates
        if worst.deviation * self._worst.tolerance > self._worst.deviation * worst.tolerance:
            self._worst = worst
        if not worst.within:
            where = f"step {step - 1} of generation {generation}, {host}: {worst.vector}[{worst.coordinate}]"
            self.broken(f"{where} is {worst.shown} tolerances off", Mark(at_ns, "", key))

    def _judge_no_state(
        self, step: int, host: str | None, vectors: tuple[bytes, bytes], reach: int, mark: Mark
    ) -> None:
        """Tell a job that left the range of float64 from vectors that are wrong (ruling G15)."""
        assert self._oracle is not None
        where = f"step {step}, {host}: the vectors are"
        if any(len(vector) != 8 * self._oracle.length for vector in vectors):
            self.broken(f"{where} no {self._oracle.length} numbers each", mark)
        elif reach < _OUT_OF_RANGE:
            self.broken(f"{where} not finite, and the exact update is far from the end of float64", mark)
        else:
            self._diverged = self._diverged or f"{where} not finite: the job diverged"

    def _keep(self, weights: bytes, momentum: bytes) -> State | None:
        """Keep a state under the digests of its vectors; None if they are none of this problem."""
        name = digest(weights), digest(momentum)
        known = self._states.get(name)
        if known is not None:
            return known
        one, two = decode(weights.hex()), decode(momentum.hex())
        if one is None or two is None or self._oracle is None:
            return None
        state = State(one, two)
        if not self._oracle.fits(state):
            return None
        self._states[name] = state
        return state

    def _before(self, event: Payload) -> State | None:
        before = parts(event, "pre")
        return None if before is None else self._states.get((before.weights, before.momentum))
