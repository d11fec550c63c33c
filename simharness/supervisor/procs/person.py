"""The person: commands at random moments, and answers to what the supervisors ask."""

from typing import TYPE_CHECKING, Final, cast

from simharness.core.streams import Stream
from simharness.core.units import NS_PER_S
from simharness.supervisor.chooser import JOB, happens, pick, span_ns, weighted
from simharness.supervisor.faults import CLASSES
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.operator import COMMANDS, Command, Refusal, answer, command
from simharness.systems.supervisor.state import Escalation, State, condemned_at
from simharness.systems.supervisor.store.codec import RecordCorrupt

if TYPE_CHECKING:
    from simharness.supervisor.record import WatchedStore
    from simharness.supervisor.seats import Body, Seat
    from simharness.supervisor.world import World

_NOTHING: Final = ("none", 120)
_RESUBMIT: Final = 30
_RELEASE_WHILE_CEASING: Final = 4
_ANSWER_PPM: Final = 700_000


class Person:
    """Reads the record and commits requests; on a conflict it just tries again later."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._class = CLASSES[world.profile.seed_class]
        self._judged: State | None = None
        self._possible: list[Command] = []
        """The commands that the record takes as it was judged last."""

    def live(self, seat: "Seat") -> "Body":
        """Act every 5 to 60 s, every 2 to 15 s in the storms; in the quiet phase answer within seconds and do nothing else."""
        world, stream = self._world, seat.stream
        store = world.store_of(seat)
        quiet = world.quiet
        low, high = (2, 15) if self._class.storm else (5, 60)
        if self._class.short_waits and not self._class.storm:
            wait_ns = span_ns(stream, 2 * NS_PER_S, 90 * NS_PER_S)
        else:
            wait_ns = span_ns(stream, low * NS_PER_S, high * NS_PER_S)
        number = have = 0
        while True:
            yield seam.Sleep(until_ns=world.now + (span_ns(stream, NS_PER_S, 4 * NS_PER_S) if quiet else wait_ns))
            wait_ns = span_ns(stream, low * NS_PER_S, high * NS_PER_S)
            state = yield from self._look(store, have)
            if state is None:
                return
            have = state.version
            batch = self._wish(state, stream, quiet=quiet)
            if batch:
                number += 1
                try:
                    yield from store.commit(state.version, batch, f"{seat.name}#{number}")
                except RecordCorrupt:
                    return

    def at_once(self, seat: "Seat", what: str, escalation: str) -> "Body":
        """Read, then commit one command, or the answer to one question: what an entry of a schedule asks for."""
        store = self._world.store_of(seat)
        state = yield from self._look(store, 0)
        if state is None or state.settled:
            return False
        if what == "answer":
            question = state.escalations.get(escalation)
            if question is None or question.answered_at is not None:
                return False
            batch = self._answer(state, question, resubmit=True)
        else:
            wish = command(state, cast("Command", what), self._world.now, self._world.defects)
            batch = () if isinstance(wish, Refusal) else wish
        if not batch:
            return False
        reply = yield from store.commit(state.version, batch, f"{seat.name}#1")
        return isinstance(reply, seam.Committed)

    def _look(self, store: "WatchedStore", have: int) -> "seam.Process[State | None]":
        """Read the record; None if it cannot be read any more."""
        ledger = self._world.ledger
        while True:
            try:
                reply = yield from store.read(have)
            except RecordCorrupt:
                return None
            if isinstance(reply, seam.Batches):
                return None if ledger.tampered else ledger.at(reply.version)
            if isinstance(reply, seam.Tombstoned):
                return None
            yield seam.Sleep(until_ns=self._world.now + NS_PER_S)

    def _wish(self, state: State, stream: Stream, *, quiet: bool) -> ev.Batch:
        """Return what the person commits now; empty for nothing."""
        if state.settled:
            return ()
        question = next((one for one in state.escalations.values() if one.answered_at is None), None)
        if question is not None and (quiet or happens(stream, _ANSWER_PPM)):
            return self._answer(state, question, resubmit=pick(stream, (False, True)))
        if quiet:
            return ()
        weights = dict(self._class.weights) | {"resubmit": _RESUBMIT, "give_up": self._class.give_up}
        if state.hold is not None and state.hold.why == "shared" and self._world.profile.shape == "slurm":
            weights["release"] = _RELEASE_WHILE_CEASING
        possible = self._commands(state)
        chosen = weighted(stream, [_NOTHING, *[(name, weights[name]) for name in possible]])
        wish = command(state, chosen, self._world.now, self._world.defects) if chosen in possible else ()
        return () if isinstance(wish, Refusal) else wish

    def _commands(self, state: State) -> list[Command]:
        """Return the commands that are legal; the same record is not judged twice, for no rule of theirs asks the time."""
        if state is not self._judged:
            now, defects = self._world.now, self._world.defects
            self._possible = [name for name in COMMANDS if not isinstance(command(state, name, now, defects), Refusal)]
            self._judged = state
        return self._possible

    def _answer(self, state: State, question: Escalation, *, resubmit: bool) -> ev.Batch:
        """Answer a question as a person would who looks at what it is about."""
        world, subject = self._world, question.subject
        wanted: ev.Answer
        match question.kind:
            case "start_unresolved":
                wanted = "abandon"
            case "held":
                wanted = "release" if state.hold is not None and str(state.hold.at) == subject else "moot"
            case "launch_exhausted":
                last = len(state.subs) >= state.declared.timing.max_submissions
                wanted = "resubmit" if resubmit and not last else "give_up"
            case "stop_stuck":
                wanted = "node_confirmed_dead" if world.truth.act(subject, "power_off") else "checked"
            case "object_missing":
                gone = world.truth.backend.get(JOB, subject) is None
                wanted = "moot" if state.objs[subject].verified else "confirmed_gone" if gone else "checked"
        choices: tuple[ev.Answer, ...] = (wanted, "moot")
        for attempt in choices:
            given = answer(state, question.id, attempt, world.now, world.defects)
            if not isinstance(given, Refusal):
                return given
            if wanted == "confirmed_gone":
                return ()  # a requeue call is still open: the question is answered once it is closed
        return ()

    def sense(self, state: State, question: ev.EscalationRaised) -> None:
        """Judge the cause of a question by the record that holds it: it must be one the person can act on.

        Raises:
            Violation: If the cause is not true.
        """
        if not self._true(state, question):
            self._world.checks.fail("L", f"escalation {question.id} is raised, but its cause is not true")

    def _true(self, state: State, question: ev.EscalationRaised) -> bool:
        age, at, subject = state.declared.timing.esc_age_ns, question.at, question.subject
        match question.kind:
            case "start_unresolved":
                n, a = map(int, subject.split("/"))
                attempt = state.sub(n).attempts[a - 1]
                manual = state.declared.abandon == "manual"
                return manual and attempt.status == "authorised" and at - attempt.deadline >= age
            case "held":
                hold = state.hold
                return hold is not None and str(hold.at) == subject and (hold.by == "policy" or at - hold.at >= age)
            case "launch_exhausted":
                current = state.current
                return current is not None and str(current.n) == subject and current.exhausted_at is not None
            case "stop_stuck":
                o = state.objs[subject]
                since = condemned_at(state, o)
                return not o.verified and since is not None and at - since >= age
            case "object_missing":
                missing = subject in state.objs and not state.objs[subject].verified
                return missing and self._world.truth.backend.get(JOB, subject) is None
