"""`supervisor_invariants_hold`: the invariants of the job supervisor, in their paranoid form (supervisor design, section 12).

The world checks each invariant where it can break. Here the trace records are folded anew, and after each of them everything
that must hold at any time is asked of everything. 3, 8, 9 and L are the world's to see: of those the fold takes its word.
"""

from collections.abc import Iterator
from typing import Final

from simharness.assertions.fold import Board, Fold, Handler, Mark, Payload, Subscription, integer
from simharness.assertions.setting import Setting
from simharness.assertions.supervisor_history import (
    EVENT,
    History,
    Object,
    events_of,
    flag,
    integers,
    outcome_of,
    word,
)
from simharness.contracts.assertions import SupervisorInvariantsHold

_Broken = tuple[str, str]
"""Invariant, and what is wrong."""

_LAUNCHES: Final = (
    *("submission_authorised", "attempt_authorised", "open_authorised", "call_authorised"),
    *("object_chosen", "fence_authorised", "resubmit_requested"),
)
"""What no cancelled job's record may go on to say."""
_AUTHORISATIONS: Final = ("submission_authorised", "attempt_authorised", "open_authorised")
"""What no held job's record may go on to say (R11)."""


def world_of(setting: Setting) -> str | None:
    """Return the peer that is a job's world."""
    return next((member.id for member in setting.members if member.kind == "supervisor"), None)


class SupervisorInvariantsHoldFold(Fold):
    """Fails at the first record that shows a violation, naming every invariant that it breaks; passes when the job has settled."""

    def __init__(self, assertion: SupervisorInvariantsHold, setting: Setting, board: Board, number: int) -> None:
        super().__init__(board, number)
        del assertion
        self._world = world_of(setting)
        self._history = History()
        self._before: list[Payload] = []
        """The acknowledged batch before the one that is judged."""
        self._broken: list[_Broken] = []

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want every trace record that says something about record, truth or calls."""
        if self._world is None:
            return ()
        handlers: dict[str, Handler] = {
            "Proposed": self.on_proposed,
            "Acknowledged": self.on_acknowledged,
            "Created": self.on_created,
            "Changed": self.on_changed,
            "Trainer": self.on_trainer,
            "CheckpointsDurable": self.on_durable,
            "CheckpointsSurvived": self.on_survived,
            "StopLanded": self.on_stop,
            "CallIssued": self.on_call,
            "Found": self.on_found,
            "Resolves": self.on_resolves,
            "SupervisorViolation": self.on_violation,
            "SupervisorSettled": self.on_settled,
        }
        return tuple([Subscription(kind, "host_id", self._world, handler) for kind, handler in handlers.items()])

    # --- the record --------------------------------------------------------------------------------------------------

    def on_found(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a Find."""
        del at_ns, host, key
        self._history.find(event)

    def on_resolves(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a resolve."""
        del at_ns, host, key
        self._history.resolve(event)

    def on_proposed(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a proposal."""
        del at_ns, host, key
        self._history.propose(event)

    def on_acknowledged(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a batch that is in the record from now on; one that says a version anew is the world's to judge (3)."""
        del host
        said, version = self._history.said, integer(event, "version")
        if version != said.versions + 1:
            return
        said.versions = version
        batch = events_of(event)
        for one in batch:
            self._judge(one, version, batch)
            said.take(one, version)
        self._before = batch
        self._look(Mark(at_ns, "", key))

    def _judge(self, event: Payload, version: int, batch: list[Payload]) -> None:
        """Judge an event by the record before it."""
        history, said, kind = self._history, self._history.said, word(event, EVENT)
        self._judge_launch(kind, version)
        obj, n = word(event, "obj"), integer(event, "n")
        match kind:
            case "outcome_decided" | "give_up" if said.outcome is not None:
                first, at = said.outcome
                self._add("1", f"outcome {outcome_of(event)} at version {version}, but version {at} says {first}")
            case "submission_authorised" if n > 1:
                self._judge_resume(n, integer(event, "resume"), version, batch)
            case "object_chosen" if said.canonical.get(n, obj) != obj:
                self._add("12", f"submission {n} chose {said.canonical[n]}, and now {obj}")
            case "stop_verified" if obj in history.objects and history.objects[obj].bit:
                self._add("X1", f"{obj} is verified while its requeue bit is set")
            case "release" if word(event, "by") == "cessation" and history.trainers:
                self._add("X2", f"cessation, but {', '.join(history.trainers)} trains")
            case "cleanup_completed":
                listed = [name for basis in history.bases(version, batch) for name in basis.listed]
                for name in dict.fromkeys([*said.known, *listed]):
                    found = history.objects.get(name)
                    if found is not None and found.alive:
                        self._add("16", f"clean-up is said to be complete, and {name} is alive")

    def _judge_launch(self, kind: str, version: int) -> None:
        said = self._history.said
        if said.cancelled is not None and kind in _LAUNCHES:
            self._add("2", f"{kind} at version {version}, after the cancel at {said.cancelled}")
        if said.held and kind in _AUTHORISATIONS:
            self._add("X3", f"{kind} at version {version}, while the record says held")

    def _judge_resume(self, n: int, resume: int, version: int, batch: list[Payload]) -> None:
        bases = self._history.bases(version, batch)
        if bases and resume < min([basis.durable for basis in bases]):
            self._add("10", f"submission {n} resumes at {resume}, though more was durable when it looked")
        before = self._history.bases(version - 1, self._before)
        if before and resume < min([basis.newest for basis in before]):
            self._add(
                "10", f"submission {n} resumes at {resume}, though more was durable before the version it rests on"
            )
        if resume not in self._history.durable:
            self._add("10", f"submission {n} resumes at {resume}, which never was durable")

    # --- ground truth ------------------------------------------------------------------------------------------------

    def on_created(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow the creation of an object."""
        del host
        name = word(event, "obj")
        self._history.objects[name] = Object(name, gated=flag(event, "gated"))
        self._look(Mark(at_ns, "", key))

    def on_changed(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a transition of an object."""
        del host
        found, said = self._history.objects.get(word(event, "obj")), self._history.said
        if found is None:
            return
        match word(event, "field"):
            case "state":
                before, found.state = found.state, word(event, "new")
                again = before == "ended" or found.state == "running"
                if again and found.submission in said.ceased:
                    self._add("X2", f"{found.name} is {found.state} again after its cessation")
            case "held":
                undone = found.held and not flag(event, "new")
                found.held = flag(event, "new")
                open_job = said.cancelled is None and said.outcome is None
                if undone and found.alive and said.held and open_job:
                    self._add("15", f"{found.name} is held no more, while the record holds the job")
            case "gated":
                found.gated = flag(event, "new")
            case "opened":
                found.opened = flag(event, "new")
            case "revived":
                found.revived = flag(event, "new")
            case "bit":
                found.bit = flag(event, "new")
        self._look(Mark(at_ns, "", key))

    def on_trainer(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow a trainer's start or exit."""
        del at_ns, host
        if flag(event, "alive"):
            self._history.trainers[word(event, "key")] = key
        else:
            self._history.trainers.pop(word(event, "key"), None)

    def on_durable(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Follow what cannot be lost any more."""
        del at_ns, host, key
        self._history.durable.update(dict.fromkeys(integers(event, "steps")))

    def on_survived(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Look at what a power cut has left of the checkpoints."""
        del host
        newest = self._history.newest
        if newest and newest not in integers(event, "steps"):
            self._add("10", f"checkpoint {newest} was durable, and is lost")
        self._look(Mark(at_ns, "", key))

    def on_stop(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Look at what a Stop lands on."""
        del host
        found = self._history.objects.get(word(event, "obj"))
        if found is not None and found.alive and self._history.said.running_canonical() == found.name:
            self._add("5", f"a Stop lands on {found.name}, the canonical of the running submission")
        self._look(Mark(at_ns, "", key))

    def on_call(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Look at a call on its way out."""
        del host
        history, said, subject = self._history, self._history.said, word(event, "subject")
        history.calls += 1
        match word(event, "call"):
            case "Open":
                history.opens[subject] = key
                if said.cancelled is not None and said.cancelled <= integer(event, "version"):
                    self._add("13", f"an Open of {subject} by who has read the cancel at version {said.cancelled}")
            case "Start":
                self._judge_start(subject)
                history.starts[subject] = key
        self._look(Mark(at_ns, "", key))

    def _judge_start(self, subject: str) -> None:
        said, (n, _, a) = self._history.said, subject.partition("/")
        attempt = (int(n), int(a)) if n.isdecimal() and a.isdecimal() else (0, 0)
        if subject in self._history.starts:
            self._add("14", f"attempt {subject} is started twice")
        if attempt not in said.attempts:
            self._add("14", f"attempt {subject} is started, and the record does not know it")
        if attempt[1] > said.retry_bound:
            self._add("14", f"attempt {subject} is beyond the bound of {said.retry_bound}")

    # --- conclusions -------------------------------------------------------------------------------------------------

    def on_violation(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Take the world's word for what it has found."""
        del host
        if self.outcome is None:
            self.note = f"found by the world: {word(event, 'message')} (invariant {word(event, 'invariant')})"
            self.conclude("Fail", Mark(at_ns, "", key))

    def on_settled(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Pass: the quiet phase is over."""
        del host
        if self.outcome is None:
            history = self._history
            tampered = "; the record was tampered with, and refused" if flag(event, "tampered") else ""
            self.note = (
                f"{history.said.versions} versions, {len(history.objects)} objects, {history.calls} calls{tampered}"
            )
            self.conclude("Pass", Mark(at_ns, "", key))

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Conclude without an end of the quiet phase."""
        del end_ns, cut
        self.note = "no world of a job" if self._world is None else "the run ends before its quiet phase is over"
        self.conclude("Inconclusive")

    def _add(self, invariant: str, message: str) -> None:
        self._broken.append((invariant, message))

    def _look(self, mark: Mark) -> None:
        """Ask everything of everything; fail if anything is wrong."""
        if self.outcome is None:
            broken = dict.fromkeys([*self._broken, *self._standing()])
            if broken:
                self.note = "; ".join([f"invariant {invariant}: {message}" for invariant, message in broken])
                self.conclude("Fail", mark)

    def _standing(self) -> Iterator[_Broken]:
        """Give what is wrong with the state of things."""
        said = self._history.said
        loose = []
        for found in self._history.objects.values():
            yield from self._standing_of(found)
            if found.loose:
                loose.append(found.name)
        if len(loose) > 1:
            yield "11", f"{' and '.join(loose)} may run at once"
        if loose and said.settled is not None:
            yield "7", f"{loose[0]} may run after settlement"
        if loose and said.cleaned is not None:
            yield "16", f"{loose[0]} may run after clean-up"

    def _standing_of(self, found: Object) -> Iterator[_Broken]:
        said, name = self._history.said, found.name
        if found.opened:
            if name not in self._history.opens and not found.revived:
                yield "4", f"{name} is open, and nobody has opened it"
            if name in said.retired:
                yield "6", f"{name} is open, and version {said.retired[name]} retires it"
        if found.alive:
            if name in said.verified:
                yield "X1", f"{name} is alive, and version {said.verified[name]} says it is stopped"
            if said.settled is not None and said.manual and not said.abandoned:
                yield "7", f"{name} is alive after settlement, and no Start was given up"
