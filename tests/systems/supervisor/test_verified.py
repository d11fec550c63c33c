"""A verified object can never live again (§5.2 of the design), whatever the order of calls, and what that rests on."""

from typing import Final

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import operator, seam
from simharness.systems.supervisor.backend import Adapter, Env, MemoryBackend
from simharness.systems.supervisor.config import NO_DEFECTS, SECOND, Defects, JobSpec, SupervisorDefect
from simharness.systems.supervisor.decide import next_step
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.fold import extend
from simharness.systems.supervisor.obs import Obs
from simharness.systems.supervisor.steps import Commit, Decision, Send, Wait, bounded
from tests.systems.supervisor.histories import OBJ, P1, state
from tests.systems.supervisor.rig import Calm

SPEC: Final = JobSpec(job="job", shape="slurm")


class Verified(RuleBasedStateMachine):
    """The record and a small backend, joined by two supervisors' decisions. Calls land when the rules say so, or never."""

    defects: Defects = NO_DEFECTS

    def __init__(self) -> None:
        super().__init__()
        self.now = 100 * SECOND
        self.record = state(*P1)
        self.backend = MemoryBackend(shape="slurm", nature=Calm())
        self.adapter = Adapter(self.backend, job="job", timing=SPEC.timing, defects=self.defects)
        self.env = Env(self.backend)
        self.obs = [Obs(), Obs()]
        self.out: list[seam.BackendCall] = []
        """Calls that were sent and may still land."""
        self.ready: list[tuple[int, Batch]] = []
        """Commits that were decided and not made: version and batch."""
        for call in (seam.Start(n=1, a=1, version=0), seam.Open(obj=OBJ, version=0)):
            self.adapter.execute(call, self.now)
        self.env.do(self.backend.objects[0], "place", self.now)

    def _commit(self, version: int, batch: Batch) -> None:
        if version == self.record.version:
            self.record = extend(self.record, (batch,), self.defects)

    @initialize(requeue=st.booleans())
    def begin(self, requeue: bool) -> None:
        """A requeue may be in flight from the start: most of what can go wrong goes wrong around one."""
        if requeue:
            deadline = self.now + SPEC.timing.call_window_ns
            call = ev.CallAuthorised(cid="c1", kind="requeue", obj=OBJ, by="sup2.0", deadline=deadline)
            self._commit(self.record.version, (call,))
            self.out.append(bounded(self.record, call))

    @rule(who=st.integers(0, 1), count=st.integers(1, 8))
    def supervise(self, who: int, count: int) -> None:
        """One supervisor does what it should, several times; what it sends lands at once, but for bounded calls."""
        for _ in range(count):
            step = self._decide(who)
            if isinstance(step, Commit):
                self._commit(self.record.version, step.batch)
            elif isinstance(step, Send) and not isinstance(step.call, seam.Find | seam.BoundedCall):
                self.adapter.land(self.out.pop(), self.now)

    @rule(who=st.integers(0, 1))
    def decide(self, who: int) -> None:
        """One supervisor does one thing; a commit is made later, or never, and a call lands later, or never."""
        step = self._decide(who)
        if isinstance(step, Commit):
            self.ready.append((self.record.version, step.batch))

    def _decide(self, who: int) -> Decision:
        step = next_step(self.record, self.obs[who], self.now, f"sup{who}.0", self.defects)
        match step:
            case Send(call=seam.Find() as call):
                self.obs[who].learn(call, self.adapter.execute(call, self.now), self.record, self.now)
            case Send(call=call):
                self.obs[who].sending(call, self.now)
                if self.adapter.admit(call, self.now) is None:
                    self.out.append(call)
            case Wait(until_ns=until):
                self.advance(until - self.now)
        return step

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def commit_late(self, data: st.DataObject) -> None:
        """A decision of some time ago reaches the record; compare-and-append judges it."""
        self._commit(*self.ready.pop(data.draw(st.integers(0, len(self.ready) - 1))))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), steps=st.sampled_from((3, 1, 2)))
    def land(self, data: st.DataObject, steps: int) -> None:
        """A call lands, whole or cut off by a crash of the scheduler; nobody is told."""
        self.adapter.land(self.out.pop(data.draw(st.integers(0, len(self.out) - 1))), self.now, steps=steps)

    @rule(command=st.sampled_from(("requeue", "requeue", "requeue", "hold", "release", "resubmit", "cancel")))
    def person(self, command: operator.Command) -> None:
        """The person asks for something, and is refused or obeyed."""
        batch = operator.command(self.record, command, self.now, self.defects)
        if not isinstance(batch, operator.Refusal):
            self._commit(self.record.version, batch)

    @rule(data=st.data(), act=st.sampled_from(("preempt", "revive", "place", "lose")))
    def environment(self, data: st.DataObject, act: str) -> None:
        """The scheduler does something of its own to an object."""
        o = data.draw(st.sampled_from(self.backend.objects))
        self.env.do(o, act, self.now)  # type: ignore[arg-type]

    @rule(seconds=st.sampled_from((36, 5, 20)))
    def wait(self, seconds: int) -> None:
        """Time passes; bounded calls that have not landed by their bound never do (B3)."""
        self.advance(seconds * SECOND)

    def advance(self, ns: int) -> None:
        """Move the clock."""
        self.now += ns
        self.backend.advance(self.now)
        bound = SPEC.timing.call_bound_ns
        self.out = [
            call
            for call in self.out
            if not (isinstance(call, seam.BoundedCall) and self.now > call.deadline_ns + bound)
        ]

    @invariant()
    def never_again(self) -> None:
        """What the record calls verified has ended, by ground truth."""
        for o in self.record.objs.values():
            if o.verified:
                truth = self.backend.get("job", o.obj)
                assert truth is not None
                assert not truth.alive, f"{o.obj} lives again"


def machine(*defects: SupervisorDefect) -> type[Verified]:
    """Return the machine with these defects on."""
    return type("VerifiedWithDefects", (Verified,), {"defects": frozenset(defects)})


def run(under_test: type[Verified], examples: int, steps: int = 40) -> None:
    """Run it, the same way every time."""
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
    )
    run_state_machine_as_test(under_test, settings=options)  # type: ignore[no-untyped-call]


def test_a_verified_object_never_lives_again() -> None:
    """100 examples in the default lane; all call orders, two supervisors, cut-off requeues."""
    run(machine(), 100, 30)


@pytest.mark.slow
def test_a_verified_object_never_lives_again_in_ten_thousand_examples() -> None:
    """The same, 10,000 examples."""
    run(machine(), 10_000)


@pytest.mark.parametrize("defect", ["IGNORE_REQUEUE_BIT", pytest.param("OPEN_DURING_REQUEUE", marks=pytest.mark.slow)])
def test_the_machine_has_teeth(defect: str) -> None:
    """With the rule switched off that the property rests on, a verified object lives again."""
    with pytest.raises(AssertionError, match="lives again"):
        run(machine(SupervisorDefect[defect]), 2_000, 30)


def test_ended_with_the_bit_set_is_not_verified() -> None:
    """D03: an object that ended with its requeue bit set is never verified: the bit is cleared, and seen clear, first (R22)."""
    s = extend(state(*P1), ((ev.SubmissionEnded(n=1, cause="preempted", at=0),),))
    obs, now = Obs(), 100 * SECOND
    view = seam.View(obj=OBJ, n=1, a=1, alive=False, gated=False, state="ended", cause="preempted", bit=True)
    obs.learn(seam.Find(version=s.version), seam.Found(views=(view,)), s, now)
    step = next_step(s, obs, now, "sup0.0")
    assert step == Send(seam.ClearBit(obj=OBJ, version=s.version))
    assert isinstance(step, Send)
    obs.sending(step.call, now)
    later = next_step(s, obs, now + SECOND, "sup0.0")
    assert not (isinstance(later, Commit) and any(isinstance(event, ev.StopVerified) for event in later.batch))
