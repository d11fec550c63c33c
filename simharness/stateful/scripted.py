"""Properties over a `Space`: each example plays one complete scenario of the space, its script of faults included."""

from typing import ClassVar, Final

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from simharness.core.units import NS_PER_S
from simharness.stateful.machine import ONE_IN_TWENTY, Base, SimulationMachine, bases
from simharness.stateful.spaces import Space, drawn

_STEP_NS: Final = NS_PER_S
"""How often a run is asked whether something has failed already; a failing example ends there."""


class SpaceMachine(SimulationMachine):
    """A property whose examples are the scenarios of a space. Nothing is left to rules: everything shrinks with the numbers."""

    space: ClassVar[Space]
    max_duration_ms = 0
    max_steps = 1

    def __init_subclass__(cls) -> None:
        """Take name, scenarios, assertions and laws from the space."""
        cls.name, cls.scenarios = cls.space.name, drawn(cls.space)
        cls.assertions, cls.laws = cls.space.assertions, cls.space.laws
        super().__init_subclass__()

    @initialize(base=st.runner().flatmap(lambda machine: bases(machine.scenarios)), again=ONE_IN_TWENTY)
    def begin(self, base: Base, again: bool) -> None:  # noqa: FBT001  # a rule's argument
        """Play a scenario to its end, or until an assertion has failed."""
        scenario = base.scenario
        bare = msgspec.structs.replace(scenario, mutations=())
        super().begin(Base(bare), (), again)
        for mutation in scenario.mutations:
            self._play_until(mutation.at_ns)
            self.inject(mutation)
        self._play_until(scenario.duration_ns)

    def _play_until(self, at_ns: int) -> None:
        while self.now_ns < at_ns:
            self._guarded(lambda: self.run.advance(min(self.now_ns + _STEP_NS, at_ns)))
            self.assertions_hold()
