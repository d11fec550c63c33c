"""The state machine: rules inject faults and let time pass, invariants judge, a failing example becomes a scenario file.

Rules act at the machine's own time; only `advance` moves it. The run is driven step by step and gives the records that the
emitted file gives when it is run from beginning to end.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simharness.assertions.absence import bounded_kind, recordable
from simharness.contracts.mutations import Mutation
from simharness.contracts.scenario import Scenario
from simharness.core.errors import EngineAbort
from simharness.core.units import NS_PER_MS
from simharness.stateful import session
from simharness.stateful.aims import draws
from simharness.stateful.concluding import Conclusion, aborted, conclude, enter
from simharness.stateful.coverage import DelayEffects, needs_observer
from simharness.stateful.declaring import slip_in
from simharness.stateful.driven import DrivenRun
from simharness.stateful.failures import Failure, raised
from simharness.stateful.faults import FAULTS, Swarm, swarm
from simharness.stateful.laws import Law
from simharness.stateful.profiles import DEFAULT_BUDGET
from simharness.stateful.templates import Declared

_FAULTS_AT_ONCE: Final = 2
"""Faults between two steps of time: enough to make them overlap, few enough that time goes on."""

ONE_IN_TWENTY: Final = st.sampled_from((False,) * 19 + (True,))


class _EveryRule:
    """Stands in for Hypothesis' feature flags, whose own draw module constants could steer; the swarm does their work."""

    def is_enabled(self, name: str) -> bool:
        """Leave every rule to its precondition."""
        del name
        return True


class Base:
    """A base scenario with a repr short enough for a step of a failing example."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def __repr__(self) -> str:
        """Say how large it is."""
        kinds = "/".join(dict.fromkeys(peer.kind for peer in self.scenario.peers))
        return f"<{len(self.scenario.peers)} {kinds} peers, seed {self.scenario.seed}>"


@st.composite
def bases(draw: st.DrawFn, scenarios: st.SearchStrategy[Scenario]) -> Base:
    """Base scenarios of a machine."""
    return Base(draw(scenarios))


def _own(get: "Callable[[SimulationMachine], st.SearchStrategy[Any]]") -> st.SearchStrategy[Any]:
    """Return the strategy that the running machine gives."""
    return st.runner().flatmap(get)


def _fault(kind: str) -> Any:
    """Return the rule that injects faults of one kind."""

    def inject(self: "SimulationMachine", fault: Mutation) -> None:
        self.inject(fault)

    inject.__name__, inject.__doc__ = kind, f"Inject a `{kind}` now (§5.5)."
    drawn = _own(lambda machine: draws(kind, machine.faults, machine.run.situation, machine.run.now_ns))
    return precondition(lambda self: self.may(kind))(rule(fault=drawn)(inject))


class SimulationMachine(RuleBasedStateMachine):
    """A property: a space of scenarios, the faults that may happen in it, the assertions that must hold, a budget.

    Subclass it, fill in the class attributes, and let pytest collect `TestX = X.TestCase`.
    """

    scenarios: ClassVar[st.SearchStrategy[Scenario]]
    """The base scenarios, without mutations."""
    faults: ClassVar[Swarm] = swarm()
    """What may be injected; see `swarm`. Each example uses a subset."""
    assertions: ClassVar[tuple[Declared, ...]] = ()
    """What must hold: templates, or assertions as they stand in a scenario."""
    laws: ClassVar[tuple[Law, ...]] = ()
    """Further checks over the records of a whole run; see `laws`."""
    max_duration_ms: ClassVar[int] = 20_000
    """When rules stop; the quiet phase comes on top."""
    step_ms: ClassVar[st.SearchStrategy[int]] = st.sampled_from((50, 100, 200, 500, 1_000, 2_000, 5_000))
    """How far one `advance` goes."""
    quiet_ms: ClassVar[int] = 0
    """Length of the quiet phase at the end of an example that has not failed: faults are ended, time passes. 0 for none."""
    budget: ClassVar[int] = DEFAULT_BUDGET
    """Examples, before the profile scales them."""
    max_steps: ClassVar[int] = 40
    """Rules in one example."""
    requires: ClassVar[tuple[str, ...] | None] = None
    """Counters that `--sim-coverage` wants to be non-zero; the kinds of `faults` if None."""
    name: ClassVar[str] = ""
    """The property's name in reports; made from the class name if empty."""

    run: DrivenRun

    def __init_subclass__(cls) -> None:
        """Give the class its name, its settings, and only those fault rules that it can use.

        Raises:
            TypeError: If what it declares is misspelt or of another form (`declaring`).
        """
        super().__init_subclass__()
        slip = slip_in(cls, SimulationMachine)
        if slip is not None:
            raise TypeError(f"{cls.__module__}.{cls.__qualname__}: {slip}")
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        for kind in FAULTS:
            if getattr(cls, kind) in (None, _RULES[kind]):
                setattr(cls, kind, _RULES[kind] if kind in cls.faults.kinds else None)
        cls.TestCase.machine = cls  # type: ignore[attr-defined]  # the plugin knows a machine's test by it
        cls.TestCase.settings = property(lambda _: machine_settings(cls))  # type: ignore[assignment]  # read when the test runs

    def __init__(self) -> None:
        super().__init__()
        self._rules_strategy.enabled_rules_strategy = st.just(_EveryRule())  # type: ignore[arg-type]  # duck-typed
        self._session = session.current()
        self._ledger = self._session.ledger(self.name)
        self._delays = DelayEffects()
        self._enabled: tuple[str, ...] = ()
        self._faults_now = 0
        self._snapped_at_ns = -1
        self._again = self._concluded = False
        self._outer_error = sys.exc_info()[1]

    # --- rules -----------------------------------------------------------------------------------------------------

    @initialize(
        base=_own(lambda machine: bases(machine.scenarios)),
        enabled=_own(lambda machine: machine.faults.subsets()),
        again=ONE_IN_TWENTY,
    )
    def begin(self, base: Base, enabled: tuple[str, ...], again: bool) -> None:  # noqa: FBT001  # a rule's argument
        """Start a run of a drawn scenario with a drawn subset of the faults."""
        ledger = self._ledger
        self._again = again or self._session.options.twice or ledger.diverged or ledger.examples == 0
        self._enabled = enabled
        delays = self._delays if needs_observer(enabled) or self.quiet_ms else None
        self.run = DrivenRun(base.scenario, self._session.kinds, self.assertions, delays)

    @precondition(lambda self: self.now_ns < self._last_ns)
    @rule(ms=_own(lambda machine: machine.step_ms))
    def advance(self, ms: int) -> None:
        """Let time pass."""
        self._faults_now = 0
        self._guarded(lambda: self.run.advance(min(self.now_ns + ms * NS_PER_MS, self._last_ns)))

    @precondition(lambda self: self._snapped_at_ns < self.now_ns < self._last_ns)
    @rule()
    def snapshot(self) -> None:
        """Take a snapshot of every live host now."""
        self._snapped_at_ns = self.now_ns
        self.run.snapshot(self.now_ns)

    @precondition(lambda self: self.now_ns >= self._last_ns)
    @rule()
    def idle(self) -> None:
        """Do nothing: the time is up, and Hypothesis wants its steps."""

    partition = _fault("partition")
    heal = _fault("heal")
    latency_spike = _fault("latency_spike")
    loss_burst = _fault("loss_burst")
    relay_buffer = _fault("relay_buffer")
    peer_kill = _fault("peer_kill")
    peer_resurrect = _fault("peer_resurrect")
    worker_exit = _fault("worker_exit")
    relay_kill = _fault("relay_kill")
    relay_boot = _fault("relay_boot")
    relay_capacity_change = _fault("relay_capacity_change")
    relay_peer_conn_down = _fault("relay_peer_conn_down")
    peer_pause = _fault("peer_pause")
    peer_slow = _fault("peer_slow")
    clock_offset = _fault("clock_offset")
    clock_drift = _fault("clock_drift")
    duplicate_burst = _fault("duplicate_burst")

    # --- what rules and subclasses use -----------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """The machine's time."""
        return self.run.now_ns

    @property
    def _last_ns(self) -> int:
        return self.max_duration_ms * NS_PER_MS

    def may(self, kind: str) -> bool:
        """Tell whether this example uses a fault kind and a fault of it would mean something now."""
        if kind not in self._enabled or self._faults_now >= _FAULTS_AT_ONCE or self.now_ns >= self._last_ns:
            return False
        return self.run.situation.allows(kind)

    def inject(self, fault: Mutation) -> None:
        """Inject a mutation dated now."""
        self._faults_now += 1
        self._ledger.rules += 1
        self.run.inject(fault)

    # --- judging ---------------------------------------------------------------------------------------------------

    @invariant()
    def assertions_hold(self) -> None:
        """Fail as soon as an assertion has failed on the records so far."""
        if self.run.newly_failed() is not None:
            self._conclude(in_time=False)

    def teardown(self) -> None:
        """Bring the example to its end, unless it has failed already or Hypothesis has given it up."""
        if not self._concluded and sys.exc_info()[1] is self._outer_error and hasattr(self, "run"):
            if self.quiet_ms:
                self._guarded(lambda: self.run.calm_down(self.quiet_ms * NS_PER_MS))
            self._conclude(in_time=True)

    def _guarded(self, step: Callable[[], object]) -> None:
        """Do something to the run; an abort of the engine is a failure like any other."""
        __tracebackhide__ = True
        try:
            step()
        except EngineAbort as abort:
            failure = aborted(abort, self.run.scenario(self.name), test_id=self._session.test_id)
            self._report(Conclusion((), Counter(), failure))

    def _conclude(self, *, in_time: bool) -> None:
        __tracebackhide__ = True
        self._guarded(lambda: self._judge(in_time=in_time))

    def _judge(self, *, in_time: bool) -> None:
        """End the run and judge it."""
        __tracebackhide__ = True
        again = self._again or not in_time
        played = self.run.finish(self.name)
        self._ledger.reruns += again
        conclusion = conclude(
            played,
            self._session.kinds,
            again=again,
            delays=self._delays,
            test_id=self._session.test_id,
            laws=self.laws,
        )
        assert in_time or conclusion.failure is not None, "what failed on a prefix has failed"
        self._report(conclusion)

    def _report(self, conclusion: Conclusion) -> None:
        """Enter the run into the ledger; raise its failure."""
        __tracebackhide__ = True
        self._concluded = True
        self._ledger.examples += 1
        enter(self._ledger, self.run.base.seed, conclusion)
        self._note_bounds(conclusion)
        for counter in conclusion.counters:
            if counter in FAULTS:
                event(f"{counter} had an effect")
        failure: Failure | None = conclusion.failure
        if failure is not None:
            raise raised(failure, self._session)

    def _note_bounds(self, conclusion: Conclusion) -> None:
        """Note of which kinds of events a Pass has said that there are not too many, and what the hosts may record (C10)."""
        named = [kind for verdict in conclusion.verdicts if (kind := bounded_kind(verdict)) is not None]
        if named:
            tags = dict.fromkeys(peer.kind for peer in self.run.base.peers)
            known, complete = recordable(self._session.kinds.get(tag) for tag in tags)
            bounded = self._ledger.bounded
            for kind in named:
                before, all_known = bounded.get(kind, ((), True))
                bounded[kind] = tuple(dict.fromkeys((*before, *known))), all_known and complete


_RULES: Final = {kind: SimulationMachine.__dict__[kind] for kind in FAULTS}
"""The fault rules as the base class defines them; a subclass may override any."""


def machine_settings(machine: type[SimulationMachine]) -> settings:
    """Return the Hypothesis settings of a machine under the session's profile."""
    options = session.current().options
    chosen = options.profile.options(machine.budget)
    seeded = {} if options.seed is None else {"database": None, "print_blob": False, "report_multiple_bugs": False}
    return settings(**{**chosen, **seeded, "stateful_step_count": machine.max_steps})
