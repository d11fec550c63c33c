"""A run that is driven step by step, and the scenario file that says the same from beginning to end."""

import msgspec

from simharness.assertions.streaming import StreamingEvaluator
from simharness.bundle.memory import MemorySink
from simharness.contracts.assertions import Verdict
from simharness.contracts.host import KindRegistry
from simharness.contracts.mutations import Mutation
from simharness.contracts.scenario import Scenario, SnapshotDecl
from simharness.core.errors import InputError
from simharness.core.units import NS_PER_S
from simharness.run import engine_for, kinds_of
from simharness.stateful.coverage import DelayEffects
from simharness.stateful.playing import Played
from simharness.stateful.situation import Situation
from simharness.stateful.templates import Declared, Facts, bound, deadline_ns


class DrivenRun:
    """One engine under way. `now_ns` is the caller's time: everything before it has happened, nothing at it.

    Args:
        base: The scenario without faults; its duration is replaced by what the run turns out to last.
        kinds: Where its host kinds are found.
        declared: The property's assertions.
        delays: Counts effects of faults on deliveries while the run goes on.

    Raises:
        InputError: If the base declares a mutation, or names an unknown kind.
    """

    def __init__(
        self,
        base: Scenario,
        kinds: KindRegistry,
        declared: tuple[Declared, ...],
        delays: DelayEffects | None = None,
    ) -> None:
        if base.mutations:
            raise InputError(file="(strategy)", field="mutations", rule="rules inject faults; the base has none")
        assertions = bound(declared, Facts(scenario=base))
        self._base = msgspec.structs.replace(
            base, assertions=assertions, early_terminate_on_all_assertions_resolved=False
        )
        self._declared, self.delays = declared, delays
        self._sink = MemorySink()
        self._evaluator = StreamingEvaluator(self._base)
        self._engine = engine_for(self._base, kinds, self._sink, evaluator=self._evaluator, observer=delays)
        self.situation = Situation(base, kinds_of(base, kinds))
        self.now_ns = 0
        self.mutations: list[Mutation] = []
        self._snapshots: list[SnapshotDecl] = []
        self._quiet_from_ns: int | None = None

    @property
    def base(self) -> Scenario:
        """The scenario without faults, with the assertions that are watched while the run goes on."""
        return self._base

    def advance(self, to_ns: int) -> None:
        """Let everything before `to_ns` happen.

        Raises:
            EngineAbort: If the run cannot go on; `now_ns` is then `to_ns` all the same, so that the file reaches the abort.
        """
        self.now_ns = to_ns
        self._engine.run_until(to_ns)

    def inject(self, mutation: Mutation) -> None:
        """Add a mutation dated now or later."""
        self._engine.inject(mutation)
        if self.delays is not None:
            self.delays.follow(mutation)
        self.mutations.append(mutation)
        self.situation.apply(mutation)

    def snapshot(self, at_ns: int) -> None:
        """Ask for a snapshot of every live host, now or later."""
        request = SnapshotDecl(at_ns=at_ns)
        self._engine.inject(request)
        self._snapshots.append(request)

    def newly_failed(self) -> Verdict | None:
        """Return an assertion that has failed since the last call, or None. Costs what the new records cost."""
        self._evaluator.all_final(self.now_ns)
        for place in self._evaluator.newly_final():
            verdict = self._evaluator.verdict(place)
            if verdict is not None and verdict.outcome == "Fail":
                return verdict
        return None

    def calm_down(self, quiet_ns: int) -> None:
        """End every fault, wait for the timed ones, then let `quiet_ns` pass with a snapshot a second and one at the end."""
        for mutation in self.situation.undo(self.now_ns):
            self.inject(mutation)
        self.advance(max(self.now_ns, self.situation.busy_until_ns))
        self._quiet_from_ns = self.now_ns
        end_ns = self.now_ns + quiet_ns
        for at_ns in range(self.now_ns + NS_PER_S, end_ns, NS_PER_S):
            self.snapshot(at_ns)
        self.snapshot(end_ns)
        self.advance(end_ns)

    def scenario(self, name: str) -> Scenario:
        """Return the scenario that this run amounts to so far.

        It lasts until now, or as long as its latest deadline; windows without an end of their own end with it.
        """
        facts = self._facts(max(self.now_ns, self._base.default_tick_period_ns))
        end_ns = max(facts.end_ns, *map(deadline_ns, bound(self._declared, facts)), 0)
        declared = (snapshot for snapshot in self._base.snapshots if snapshot.at_ns <= end_ns)
        return msgspec.structs.replace(
            self._base,
            name=name,
            duration_ns=end_ns,
            mutations=tuple(self.mutations),
            snapshots=(*declared, *self._snapshots),
            assertions=bound(self._declared, self._facts(end_ns)),
        )

    def _facts(self, end_ns: int) -> Facts:
        return Facts(
            scenario=self._base, end_ns=end_ns, quiet_from_ns=self._quiet_from_ns, mutations=tuple(self.mutations)
        )

    def finish(self, name: str) -> Played:
        """End the run and return it with its scenario.

        Raises:
            EngineAbort: If the run cannot go on.
        """
        scenario = self.scenario(name)
        return Played(scenario, self._sink, self._engine.finish(scenario.duration_ns))
