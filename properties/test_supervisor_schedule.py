"""Schedules of the job supervisor's world, written by rules: every invariant holds, and every example replays as written.

The seed batch is the authority for deep interleavings; this property gives fast feedback and counterexamples that can be read.
"""

from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from simharness.stateful import session
from simharness.stateful.profiles import ANY_SPEED
from simharness.supervisor.checks import Violation
from simharness.supervisor.direct import run
from simharness.supervisor.machine import ScheduleMachine
from simharness.supervisor.schedule import parse
from simharness.systems.supervisor.config import SupervisorDefect

BUDGET = 100
STEPS = 40


class Replayed(ScheduleMachine):
    """A machine whose every clean example is run again from its written schedule."""

    def teardown(self) -> None:
        """Finish the example, then replay it."""
        super().teardown()
        if self.world is not None and self.world.checks.violated is None:
            fields, schedule = self.example()
            again = run(0, fields["shape"], given=fields, schedule=[parse(line) for line in schedule])
            assert again.trace_hash == self.world.trace_hash()


def test_schedules_keep_the_invariants_and_replay() -> None:
    """No rule sequence breaks an invariant or the liveness of the quiet phase; a written schedule gives the machine's own hash."""
    chosen = session.current().options.profile.options(BUDGET)
    run_state_machine_as_test(Replayed, settings=settings(**chosen, stateful_step_count=STEPS))


@pytest.mark.parametrize(
    ("defect", "invariants", "budget"),
    [
        ("BLIND_APPEND", ("2", "9", "12", "14"), 200),
        ("RESEND_START", ("14",), 200),
        pytest.param("OPEN_IGNORES_CANCEL", ("13",), 2_000, marks=pytest.mark.knobs),
        pytest.param("FENCE_WITHOUT_VERIFY", ("11", "X1", "L"), 5_000, marks=pytest.mark.knobs),
    ],
)
def test_the_rules_find_a_known_bug(defect: str, invariants: tuple[str, ...], budget: int) -> None:
    """With one rule of the protocol switched off, a derandomised machine finds a violation of an invariant that guards it."""

    class Broken(ScheduleMachine):
        defects: ClassVar[Any] = frozenset({SupervisorDefect(defect)})

    only_search: dict[str, Any] = {"phases": (Phase.generate,), "derandomize": True, "database": None}
    options = settings(**{**ANY_SPEED, **only_search}, max_examples=budget, stateful_step_count=STEPS)
    with pytest.raises(Violation) as caught:
        run_state_machine_as_test(Broken, settings=options)
    assert caught.value.invariant in invariants
