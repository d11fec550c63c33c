"""`train_step_order`, invariant 4: one step after the other, and back only where there is no other way (training design, 13)."""

from bisect import bisect_right
from typing import NamedTuple

from simharness.assertions.catalog.training import TrainingFold
from simharness.assertions.fold import Board, Handler, Mark, Payload, integer, mutation_of
from simharness.assertions.setting import Setting
from simharness.assertions.training_oracle.problem import problem_of
from simharness.assertions.training_oracle.reference import Oracle
from simharness.assertions.training_reach import Reach
from simharness.assertions.training_reading import (
    Lineage,
    Parts,
    Place,
    cursor_digest,
    digest,
    parts,
    place,
    word,
)
from simharness.contracts.assertions import TrainStepOrder


class _Held(NamedTuple):
    """A state that somebody holds, by its digest."""

    generation: int
    step: int
    whole: str
    mark: Mark


class TrainStepOrderFold(TrainingFold):
    """(a) Commits of a generation are consecutive, one a step, and each names a state that the commit before has left.

    (b) Each incarnation of a replica applies exactly the step after the state that it holds; installs may jump, to states of the
    generation. (c) Nothing is applied without its commit. (d) A rollback lands on the lineage and is justified: ring, no worker
    that was up, awake and connected to the hub for the last `steady` (see `Reach`) held or had on disk, all that time, a later
    state of the lineage; server, the target is the newest checkpoint. Which of several states of a step is right is not asked here.
    """

    def __init__(self, assertion: TrainStepOrder, setting: Setting, board: Board, number: int) -> None:
        super().__init__(setting, board, number)
        del assertion
        self._lineage = Lineage()
        self._ends: dict[int, int] = {0: 0}
        """The newest state of each generation."""
        self._committed: dict[Place, Mark] = {}
        self._states: dict[Place, tuple[str, ...]] = {}
        self._replicas: dict[tuple[str, int], _Held] = {}
        self._live: dict[str, list[_Held]] = {}
        self._disk: dict[str, list[_Held]] = {}
        self._rollbacks = self._applies = 0
        facts = self._facts
        self._reach = None if facts is None else Reach(facts)
        if facts is not None and facts.checked:
            weights, momentum = Oracle(problem_of(facts.config | {"samples": facts.samples}, facts.seed)).start()
            cursor = cursor_digest(0, 0, bytes((facts.samples + 7) // 8))
            self._states[0, 0] = (Parts(digest(weights), digest(momentum), cursor).whole,)

    def handlers(self) -> dict[str, Handler]:
        """Want commits, whatever changes a state, and mutations."""
        return {
            "TrainCommit": self.on_commit,
            "TrainApply": self.on_apply,
            "TrainInstall": self.on_install,
            "TrainAdopt": self.on_adopt,
            "TrainCheckpoint": self.on_checkpoint,
            "TrainRollback": self.on_rollback,
            "Mutation": self.on_mutation,
        }

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge (a)."""
        del host
        self._commits += 1
        mark, (generation, step), lineage = Mark(at_ns, "", key), place(event), self._lineage
        if generation != lineage.generation:
            self.broken(f"step {step} is committed in generation {generation}, not in {lineage.generation}", mark)
        elif step != lineage.end:
            self.broken(f"step {step} is committed where step {lineage.end} is due", mark)
        else:
            made = lineage.place_of(step)
            known = None if made is None else self._states.get(made)
            base = word(event, "base")
            if known is None and step:
                self.broken(f"step {step} is committed on a state that nobody holds", mark)
            elif known is not None and base not in known:
                self.broken(f"step {step} is committed on another state than the step before has left", mark)
            elif known is None:
                self._states[0, 0] = (base,)
        lineage.commit((generation, step))
        self._ends[generation] = step + 1
        self._committed[generation, step] = mark

    def on_apply(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge (b) and (c)."""
        self._applies += 1
        mark, (generation, step) = Mark(at_ns, "", key), place(event)
        before, after = parts(event, "pre"), parts(event, "post")
        who = str(host), integer(event, "incarnation")
        held, called = self._replicas.get(who), f"step {step - 1} of generation {generation}, {host}"
        committed = self._committed.get((generation, step - 1))
        if before is None or after is None:
            self.broken(f"{called}: an apply without digests", mark)
            return
        if committed is None:
            self.broken(f"{called}: applied without a commit", mark)
        elif held is not None and held.step != step - 1:
            self.broken(f"{called}: applied to state {held.step}", held.mark, mark)
        elif held is not None and held.whole != before.whole:
            self.broken(f"{called}: applied to another state {held.step} than it holds", held.mark, mark)
        elif held is None and before.whole not in self._states.get((generation, step - 1), (before.whole,)):
            self.broken(f"{called}: applied to another state {step - 1} than anybody holds", mark)
        self._hold(who, (generation, step), after.whole, mark)

    def on_install(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge where an install jumps to."""
        mark, (generation, step), made = Mark(at_ns, "", key), place(event), parts(event, "digests")
        if not self._is_state(generation, step) or made is None:
            self.broken(f"{host} installs state {step} of generation {generation}, which was never committed", mark)
            return
        self._hold((str(host), integer(event, "incarnation")), (generation, step), made.whole, mark)

    def on_adopt(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge where a worker of a server goes to."""
        generation, step = place(event)
        if not self._is_state(generation, step):
            note = f"{host} adopts state {step} of generation {generation}, which was never committed"
            self.broken(note, Mark(at_ns, "", key))

    def on_checkpoint(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note what is on whose disk."""
        saved = _Held(*place(event), word(event, "digest"), Mark(at_ns, "", key))
        self._disk.setdefault(str(host), []).append(saved)

    def on_rollback(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge (d)."""
        self._rollbacks += 1
        mark, (generation, step), lineage = Mark(at_ns, "", key), place(event), self._lineage
        if generation <= lineage.generation:
            self.broken(f"generation {generation} begins after generation {lineage.generation}", mark)
        elif lineage.place_of(step) is None:
            self.broken(f"generation {generation} begins with state {step}, past the end of the lineage", mark)
        elif self._facts is not None and self._facts.ring:
            self._need(at_ns, step, mark)
        else:
            newest = self._disk[str(host)][-1] if str(host) in self._disk else None
            due = 0 if newest is None else newest.step
            if step != due:
                note = f"generation {generation} begins with state {step}; the newest checkpoint is of state {due}"
                self.broken(note, *([mark] if newest is None else [newest.mark, mark]))
        made = lineage.rollback((generation, step))
        self._ends[generation] = step
        known = self._states.get(made, ()) if made is not None else ()
        whole = word(event, "digest")
        self._states[generation, step] = known if whole in known else (*known, whole)

    def on_mutation(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow who is up and connected."""
        del host, key
        if self._reach is not None:
            forgetful = self._reach.follow(at_ns, mutation_of(event))
            if forgetful is not None:
                self._live.pop(forgetful, None)

    def summary(self) -> tuple[bool, str]:
        """Say what was seen."""
        return True, f"{self._commits} commits, {self._applies} applies, {self._rollbacks} rollbacks"

    def _need(self, at_ns: int, step: int, mark: Mark) -> None:
        """Judge whether a ring had to go back to `step`."""
        assert self._reach is not None
        assert self._facts is not None
        for worker in self._facts.workers:
            before_ns = self._reach.steady(worker, at_ns)
            if before_ns is None:
                continue
            for where, held in (("holds", self._live.get(worker)), ("has on disk", self._disk.get(worker))):
                # It had a later state throughout: the one it had then, and the one it has now.
                then = bisect_right(held, before_ns, key=lambda state: state.mark.at_ns) if held else 0
                if held and then and self._is_offer(held[then - 1], step) and self._is_offer(held[-1], step):
                    note = f"rolled back to state {step}, though {worker} {where} state {held[-1].step} and was heard"
                    self.broken(note, held[-1].mark, mark)

    def _is_offer(self, held: _Held, step: int) -> bool:
        """Tell whether a state is later than `step`, and one that the hub could have gone on from."""
        if held.step == self._lineage.end and held.generation != self._lineage.generation:
            return (
                False  # what the newest commit has made, the hub knows by name alone, its digest from the next commit
            )
        made = self._lineage.place_of(held.step)
        return held.step > step and made is not None and held.whole in self._states.get(made, ())

    def _hold(self, who: tuple[str, int], at: Place, whole: str, mark: Mark) -> None:
        held = _Held(*at, whole, mark)
        self._replicas[who] = held
        self._live.setdefault(who[0], []).append(held)
        known = self._states.get(at, ())
        if whole not in known:
            self._states[at] = (*known, whole)

    def _is_state(self, generation: int, step: int) -> bool:
        return step <= self._ends.get(generation, -1)
