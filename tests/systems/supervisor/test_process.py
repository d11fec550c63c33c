"""The loop: incarnations against a backend, with the faults that each rule is about; the reported failures D01, D03 and D05."""

import pytest

from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import operator, seam
from simharness.systems.supervisor.backend import BackendObject
from simharness.systems.supervisor.checkpoint import publish
from simharness.systems.supervisor.config import SECOND, Defects, JobSpec, Policy, SupervisorDefect
from simharness.systems.supervisor.events import kind_of
from simharness.systems.supervisor.process import Ending
from simharness.systems.supervisor.store.codec import record_name
from tests.systems.supervisor.rig import Rig, Seat

SLURM, KUBEFLOW = JobSpec(job="job", shape="slurm"), JobSpec(job="job", shape="kubeflow")
OBJ = "1/1/1"


def rig(spec: JobSpec = SLURM, *, files: bool = False, defects: Defects = frozenset()) -> Rig:
    """A job and one supervisor."""
    made = Rig(spec, files=files, defects=defects)
    made.spawn()
    return made


def until_opened(made: Rig, obj: str = OBJ) -> None:
    """Run until an object was opened, and place it."""
    made.run(lambda: any(o.obj == obj and o.opened for o in made.backend.objects))
    made.env.do(made.truth(obj), "place", made.now)


def person(made: Rig, command: operator.Command) -> None:
    """Commit a command, which must be legal."""
    batch = operator.command(made.state(), command, made.now, made.defects)
    assert not isinstance(batch, operator.Refusal)
    made.commit(batch)


def kinds(made: Rig) -> list[str]:
    """Return the kinds of all events, in order."""
    return [kind_of(event) for batch in made.batches() for event in batch]


def settled(made: Rig) -> bool:
    return made.seats[0].ending is not None


@pytest.mark.parametrize("spec", [SLURM, KUBEFLOW])
@pytest.mark.parametrize("files", [False, True])
def test_a_job_that_completes(spec: JobSpec, files: bool) -> None:
    """Undisturbed: one submission, one attempt, one Start, one Open, the outcome, the end verified, the record closed."""
    made = rig(spec, files=files)
    until_opened(made)
    made.env.do(made.truth(OBJ), "complete", made.now)
    made.run(lambda: settled(made))
    assert made.seats[0].ending is Ending.DONE
    assert kinds(made) == [
        *(
            "job_declared",
            "submission_authorised",
            "attempt_authorised",
            "object_seen",
            "object_chosen",
            "open_authorised",
        ),
        *("submission_ended", "outcome_decided", "stop_verified", "settled"),
    ]
    assert made.kinds() == ["Start", "Open"]


@pytest.mark.parametrize("spec", [SLURM, KUBEFLOW])
def test_d01_a_start_that_was_accepted_and_looked_lost(spec: JobSpec) -> None:
    """D01: the reply is lost, Finds omit the object for 24 s, another supervisor takes over: one object, one Start, one Open."""
    made = rig(spec)
    made.nature.lag_ns = 24 * SECOND
    first = made.seats[0]
    while not isinstance(first.parked, seam.Start):
        made.step(first)
    made.step(first)  # the Start takes effect; its reply dies with its sender
    first.process.close()
    first.ending = Ending.DRAINED
    made.spawn("sup1.0")
    until_opened(made)
    made.env.do(made.truth(OBJ), "complete", made.now)
    made.run(lambda: made.seats[-1].ending is not None)
    assert made.kinds().count("Start") == 1
    assert [o.obj for o in made.backend.objects] == [OBJ]
    state = made.state()
    assert state.settled
    assert len(state.sub(1).attempts) == 1


def test_d03a_nobody_saw_the_end() -> None:
    """D03 (a): preempted and running again under the same id between two polls: the same object completes."""
    made = rig()
    until_opened(made)
    o = made.truth(OBJ)
    o.bit = True
    made.env.do(o, "preempt", made.now)
    made.env.do(o, "revive", made.now)
    made.env.do(o, "place", made.now)
    o.bit = False
    made.run(lambda: made.now > 30 * SECOND)
    made.env.do(o, "complete", made.now)
    made.run(lambda: settled(made))
    assert [o.obj for o in made.backend.objects] == [OBJ]
    assert "Stop" not in made.kinds()
    assert kinds(made).count("outcome_decided") == 1


def test_d03b_a_poll_saw_the_end() -> None:
    """D03 (b): the submission ends, its revival is stopped, the next is opened only after that; one outcome, completed."""
    made = rig()
    until_opened(made)
    o = made.truth(OBJ)
    o.bit = True
    made.env.do(o, "preempt", made.now)
    made.run(lambda: made.state().subs[0].ended is not None)
    made.env.do(o, "revive", made.now)
    made.env.do(o, "place", made.now)
    overlap = []

    def watch(changed: BackendObject, field: str, _old: object, _new: object) -> None:
        if field == "opened" or (field == "state" and changed.alive):
            overlap.append([other.obj for other in made.backend.objects if other.opened and other.alive])

    made.backend.watch = watch
    until_opened(made, "2/1/2")
    assert not made.truth(OBJ).alive
    assert made.state().objs[OBJ].verified
    made.env.do(made.truth("2/1/2"), "complete", made.now)
    made.run(lambda: settled(made))
    state = made.state()
    assert state.outcome is not None
    assert (state.outcome.state, state.sub(1).canon, state.sub(2).canon) == ("completed", OBJ, "2/1/2")
    assert all(len(opened) <= 1 for opened in overlap)
    assert kinds(made).count("outcome_decided") == 1


def test_d03c_a_requeue_after_the_outcome() -> None:
    """D03 (c): it leaves the outcome alone; what it revived is stopped, and settled only past the call's fence."""
    made = rig()
    until_opened(made)
    held_back: list[seam.BoundedCall] = []

    def late(call: seam.SeamCall) -> "seam.Reply | None":
        if isinstance(call, seam.BoundedCall):
            held_back.append(call)
            return seam.Unknown()
        return None

    made.fault = late
    person(made, "requeue")
    made.run(lambda: bool(held_back))
    made.env.do(made.truth(OBJ), "complete", made.now)
    made.run(lambda: made.state().outcome is not None)
    made.adapter.land(held_back[0], made.now)
    made.env.do(made.truth(OBJ), "place", made.now)
    assert made.truth(OBJ).alive
    made.run(lambda: settled(made))
    state = made.state()
    assert state.outcome is not None
    assert state.outcome.state == "completed"
    assert not made.truth(OBJ).alive
    assert made.now > held_back[0].deadline_ns + SLURM.timing.call_bound_ns
    assert state.calls["c1"].closed == "fenced"


@pytest.mark.parametrize("spec", [SLURM, KUBEFLOW])
@pytest.mark.parametrize("job", ["other", "job"])
def test_d05_a_reused_id(spec: JobSpec, job: str) -> None:
    """D05: yesterday's ended object has today's id: it is not ours, no outcome comes of it, nor a checkpoint."""
    made = Rig(spec)
    made.nature.lag_ns = 24 * SECOND
    made.nature.ids[1, 1] = 42
    made.backend.plant(
        BackendObject(
            job=job, n=9, a=1, id=42, created_at=0, visible_at=0, state="ended", cause="completed", ended_at=0
        )
    )
    made.spawn()
    made.run(lambda: made.now > 20 * SECOND)
    state = made.state()
    assert (state.outcome, list(state.objs)) == (None, ["1/1/42"])  # known from the Start's own reply
    until_opened(made, "1/1/42")
    made.env.do(made.truth("1/1/42"), "fail", made.now)
    made.run(lambda: settled(made))
    outcome = made.state().outcome
    assert outcome is not None
    assert (outcome.state, outcome.cause) == ("failed", "failed")


def test_a_lost_commit_is_repeated_under_its_id() -> None:
    """A commit whose reply was lost is in the record once, whatever the store did with it."""
    made = rig()
    seen: list[seam.MemCommit] = []

    def lost(call: seam.SeamCall) -> "seam.Reply | None":
        if not isinstance(call, seam.MemCommit):
            return None
        seen.append(call)
        if len(seen) == 2:
            made.answer(call)  # in the record, and nobody is told
        return seam.Unknown() if len(seen) < 3 else None

    made.fault = lost
    until_opened(made)
    assert len({call.mutation_id for call in seen[:3]}) == 1
    assert kinds(made)[:3] == ["job_declared", "submission_authorised", "attempt_authorised"]


def test_a_store_that_is_down_is_asked_again() -> None:
    """`down` is waited out, a Find that fails is repeated after a second."""
    made = rig()
    fails = [0, 0]

    def down(call: seam.SeamCall) -> "seam.Reply | None":
        if isinstance(call, seam.MemRead) and fails[0] < 3:
            fails[0] += 1
            return seam.Down()
        if isinstance(call, seam.Find) and fails[1] < 3:
            fails[1] += 1
            return seam.Unknown()
        return None

    made.fault = down
    until_opened(made)
    assert fails == [3, 3]
    assert made.now >= 6 * SECOND


def test_drain_keeps_what_was_learnt() -> None:
    """A draining supervisor first commits the facts that it has (§18, 17), then leaves."""
    made = rig()
    made.run(lambda: bool(made.sent))
    assert "object_seen" not in kinds(made)
    made.seats[0].draining = True
    made.run(lambda: settled(made))
    assert made.seats[0].ending is Ending.DRAINED
    assert kinds(made)[-1] == "object_seen"


def test_without_the_lock_nothing_is_done() -> None:
    """It asks for the lock every three seconds and neither reads nor calls before it has it."""
    made = rig()
    seat: Seat = made.seats[0]
    seat.lock = False
    made.fault = lambda call: seam.Refused() if isinstance(call, seam.AcquireLock) else None
    made.step(seat)  # the read that it was parked at
    version = len(made.batches())
    made.run(lambda: made.now > 30 * SECOND)
    assert len(made.batches()) == version + 1  # what it had decided on that read
    assert isinstance(seat.parked, seam.AcquireLock | seam.Sleep)
    seat.lock = True
    until_opened(made)


@pytest.mark.parametrize("files", [True])
def test_a_tampered_record_is_refused(files: bool) -> None:
    """It ends, without a further call."""
    made = rig(files=files)
    until_opened(made)
    disk = made.disks["record"]
    disk.write(record_name(2), disk.read(record_name(2)).replace(b'"why":"first"', b'"why":"later"'))
    before = len(made.sent)
    made.step(made.seats[0])
    while made.seats[0].ending is None:
        made.step(made.seats[0])
    assert made.seats[0].ending is Ending.REFUSED
    assert len(made.sent) - before <= 1  # the one it was parked at


def test_a_lost_node_is_fenced_before_it_is_stopped() -> None:
    """R13 (kubeflow): fence in the record, then the Stop, then the end is seen; the next submission waits for that."""
    made = rig(KUBEFLOW)
    until_opened(made)
    made.nature.lost_ns = 60 * SECOND
    made.env.do(made.truth(OBJ), "lose", made.now)
    made.run(lambda: "Stop" in made.kinds())
    assert made.state().sub(1).fenced
    made.run(lambda: any(o.obj == "2/1/2" for o in made.backend.objects))
    assert made.now >= 60 * SECOND
    state = made.state()
    assert (state.sub(1).ended, state.objs[OBJ].verified) == ("node_lost", True)


def test_what_a_cancel_waits_for() -> None:
    """After a cancel: stop, verify, two clean Finds SETTLE_GAP apart, then `cleanup_completed`, then `settled`."""
    made = rig()
    until_opened(made)
    person(made, "cancel")
    made.run(lambda: made.state().objs[OBJ].verified)
    since = made.now
    made.run(lambda: settled(made))
    assert made.now - since >= SLURM.timing.settle_gap_ns
    assert kinds(made)[-5:] == ["cancel_requested", "outcome_decided", "stop_verified", "cleanup_completed", "settled"]


def test_single_sweep_is_quicker() -> None:
    """SINGLE_CANCEL_SWEEP does not wait for the second Find."""
    made = rig(defects=frozenset({SupervisorDefect.SINGLE_CANCEL_SWEEP}))
    until_opened(made)
    person(made, "cancel")
    made.run(lambda: made.state().objs[OBJ].verified)
    since = made.now
    made.run(lambda: settled(made))
    assert made.now - since < SLURM.timing.settle_gap_ns


def test_holds_and_releases_reach_the_object() -> None:
    """A hold before the placement is put on the object, a release takes it off; each with its deadline in the record first."""
    made = rig()
    made.run(lambda: any(o.opened for o in made.backend.objects))
    person(made, "hold")
    made.run(lambda: made.truth(OBJ).held)
    made.run(lambda: not made.state().open_calls())
    person(made, "release")
    made.run(lambda: not made.truth(OBJ).held)
    calls = [call for _, call in made.sent if isinstance(call, seam.BoundedCall)]
    assert [call.kind for call in calls] == ["hold", "release"]
    for call in calls:
        assert made.state().calls[call.cid].deadline == call.deadline_ns


def test_deadline_after_send() -> None:
    """DEADLINE_AFTER_SEND: the call is out before the record knows of it (R1)."""
    made = rig(defects=frozenset({SupervisorDefect.DEADLINE_AFTER_SEND}))
    until_opened(made)
    person(made, "requeue")
    made.run(lambda: "BoundedCall" in made.kinds())
    assert not made.state().calls
    made.run(lambda: bool(made.state().calls))


def test_shared_checkpoints_wait_for_the_old_run() -> None:
    """R20: a lost run of a shared job is held until its processes are gone; then it resumes from the greatest checkpoint."""
    made = rig(JobSpec(job="job", shape="slurm", shared=True))
    until_opened(made)
    assert made.drive(publish(17, "1.1.1.0"))
    made.nature.processes = True
    made.env.do(made.truth(OBJ), "preempt", made.now)
    made.run(lambda: made.state().hold is not None)
    made.run(lambda: made.now > 60 * SECOND)
    assert made.state().hold is not None
    assert not made.state().escalations
    made.nature.processes = False
    made.run(lambda: len(made.state().subs) == 2)
    assert made.state().sub(2).resume == 17
    assert [event.by for batch in made.batches() for event in batch if isinstance(event, ev.Release)] == ["cessation"]


def test_a_policy_hold_asks_at_once() -> None:
    """R21: a hold that no cessation answer can end raises its question in the same commit."""
    made = rig(JobSpec(job="job", shape="slurm", policy=Policy(node_lost="hold")))
    until_opened(made)
    made.env.do(made.truth(OBJ), "lose", made.now)
    made.run(lambda: made.state().hold is not None)
    assert [kind_of(event) for event in made.batches()[-1]] == ["hold", "escalation_raised"]


def test_an_object_that_vanished_is_asked_about() -> None:
    """R7, R21: absence ends nothing; after ESC_AGE the person is asked, and `confirmed_gone` ends the job as lost."""
    made = rig()
    until_opened(made)
    made.nature.purge_ns = 1
    made.env.do(made.truth(OBJ), "complete", made.now)
    made.advance(made.now + 1)
    made.run(lambda: bool(made.state().escalations))
    assert made.now >= SLURM.timing.esc_age_ns
    question = next(iter(made.state().escalations.values()))
    assert (question.kind, question.subject, made.state().outcome) == ("object_missing", OBJ, None)
    batch = operator.answer(made.state(), question.id, "confirmed_gone", made.now)
    assert not isinstance(batch, operator.Refusal)
    made.commit(batch)
    made.run(lambda: settled(made))
    outcome = made.state().outcome
    assert outcome is not None
    assert (outcome.state, outcome.cause) == ("failed", "lost")


def test_the_record_is_tombstoned_under_a_supervisor() -> None:
    """A supervisor that finds the tombstone ends."""
    made = rig()
    until_opened(made)
    made.fault = lambda call: seam.Tombstoned() if isinstance(call, seam.MemRead) else None
    made.run(lambda: settled(made))
    assert made.seats[0].ending is Ending.TOMBSTONED
