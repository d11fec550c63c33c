"""The hub of a ring: it holds membership and the commit log, and no vector (T3)."""

from collections.abc import Sequence
from typing import Any

from simharness.systems.training.config import TrainingDefect
from simharness.systems.training.events import Effect, TrainingAbort, TrainRollback
from simharness.systems.training.job import Job, over
from simharness.systems.training.membership import Heard, Hub, HubPhase
from simharness.systems.training.phases import Phase
from simharness.systems.training.plan import Member
from simharness.systems.training.storage import Disk
from simharness.systems.training.wire import FRESH, Commit, Header, Holding, Message, Ready, Suspect, View


class RingHub(Hub):
    """Commits a step when every member of the view has the same reduction of it ready."""

    def __init__(self, job: Job, disk: Disk) -> None:
        super().__init__(job, disk)
        self._ready: dict[int, Ready] = {}
        self._donor = 0
        self._recover_ns = 0

    def _message(self, message: Message, now_ns: int, out: list[Effect]) -> None:
        if isinstance(message, Ready):
            self._on_ready(message, now_ns, out)
        elif isinstance(message, Suspect):
            self._on_suspect(message, now_ns, out)

    # --- commits ----------------------------------------------------------------------------------------------------

    def _on_ready(self, ready: Ready, now_ns: int, out: list[Effect]) -> None:
        head, last = ready.head, self.journal.last
        why = self._why_not(head)
        if why is None:
            self._ready[head.sender] = ready
            self._advance(now_ns, out)
        elif last is not None and head[:3] == last[:3] and self._was_in(head, last.members):
            self._send(head.sender, self._commit_message(head, last.reduction), out)  # it missed the commit
        else:
            self._reject(head, why, out)
            if self.phase is HubPhase.OPEN and head.sender in self._heard:
                self._tell(head.sender, now_ns, out)

    def _was_in(self, head: Header, members: Sequence[Member]) -> bool:
        return any(m.worker == head.sender and self._job.is_process(m, head.incarnation) for m in members)

    def _commit_message(self, place: Header, reduction: bytes) -> Commit:
        """Return the commit of the step that `place` names."""
        return Commit(self._head()._replace(generation=place.generation, view=place.view, step=place.step), reduction)

    def _advance(self, now_ns: int, out: list[Effect]) -> None:
        """Commit if everybody is ready; a commit opens the next step, so it waits for the pace."""
        if len(self._ready) < len(self.members) or now_ns < (self.step + 1) * self._config.pace_ns:
            return
        first = self._ready[self.members[0].worker]
        others = {(ready.reduction, ready.base, ready.contributions) for ready in self._ready.values()}
        if self._config.guards and len(others) > 1:
            raise TrainingAbort("ready", f"the members prepared {len(others)} different reductions of step {self.step}")
        message = self._commit_message(self._head(), first.reduction)
        count = sum([each.samples for each in first.contributions])
        self._commit(first.reduction, first.base, first.head.flags, first.contributions, out, count=count)
        self._ready = {}
        self._told = (self.journal.generation, self.journal.view, self.step)
        for member in self.members:
            self._send(member.worker, message, out)
        if self._joiners:
            self._form(now_ns, "joined", out)

    # --- views ------------------------------------------------------------------------------------------------------

    def _opened(self, now_ns: int, out: list[Effect]) -> None:
        self._ready = {}
        self._told = (self.journal.generation, self.journal.view, self.step)
        for member in self.members:
            self._tell(member.worker, now_ns, out)

    def _remind(self, worker: int, now_ns: int, out: list[Effect]) -> None:
        if self._heard[worker].head[:2] < self._told[:2]:  # who missed a commit alone asks for it
            self._tell(worker, now_ns, out)

    def _tell(self, worker: int, now_ns: int, out: list[Effect]) -> None:
        self._heard[worker].told_ns = now_ns
        fresh, last = self.journal.fresh, self.journal.last
        if fresh is not None:
            view = View(self._head(FRESH), 0, self.step, fresh, self._donor, self.members)
        else:
            assert last is not None, "a state that is not fresh comes from a commit"
            view = View(self._head(), last.view, last.step, last.reduction, self._donor, self.members)
        self._send(worker, view, out)

    def _on_suspect(self, message: Suspect, now_ns: int, out: list[Effect]) -> None:
        """Put out a member that does not answer another though it has gone as far: the way between them is cut."""
        head, peer = message.head, message.peer
        if self.phase is not HubPhase.OPEN or self._why_not(head) is not None or self._member(peer) is None:
            return
        victim = self._to_blame(head.sender, peer)
        if victim is not None:
            self._evict(victim, "suspected", now_ns, out)
            self._form(now_ns, "evicted", out)

    def _to_blame(self, reporter: int, peer: int) -> int | None:
        asks, asked = self._heard[reporter], self._heard[peer]
        if asks.phase == Phase.NEED_STATE:
            if not self._holds(peer):
                return None
            others = [m.worker for m in self.members if m.worker not in (peer, reporter) and self._holds(m.worker)]
            return peer if others else reporter
        if asked.head[:3] == asks.head[:3] and (asked.phase, asked.round) >= (asks.phase, asks.round):
            return peer
        return None

    # --- whose state ------------------------------------------------------------------------------------------------

    def _can_open(self, candidates: Sequence[int], now_ns: int, out: list[Effect]) -> bool:
        """Find a donor, or after a while roll back to the newest state that there is (design, section 10)."""
        holders = self._holders(candidates)
        if TrainingDefect.EAGER_ROLLBACK in self._defects and len(holders) < len(candidates):  # see `_roll_back`
            holders = []
        if not holders:
            if self.phase is not HubPhase.RECOVER:
                self._recover_ns = now_ns
                self._put_out = {}  # a state is worth more than a quiet ring
                return False
            if not over(now_ns, self._recover_ns, self._config.recover_wait_ns) or not self._roll_back(candidates, out):
                return False
            holders = self._holders(candidates)
        assert holders, "whoever offered the state of a rollback has it"
        self._donor = holders[0]
        return True

    def _holders(self, candidates: Sequence[int]) -> list[int]:
        """Return who has the state of the step, or can reach it by the commit that it prepared."""
        return [worker for worker in candidates if self._holds(worker)]

    def _holds(self, worker: int) -> bool:
        heard, fresh, last = self._heard[worker], self.journal.fresh, self.journal.last
        if fresh is not None:
            same = [held for held in (heard.live, heard.disk) if (held.step, held.digest) == (self.step, fresh)]
            return bool(same) or not self.step  # rule 10.3: state 0 is a function of the scenario
        if heard.live[:2] == (self.journal.generation, self.step):
            return True
        return last is not None and Member(worker, heard.incarnation) in last.members

    def _roll_back(self, candidates: Sequence[int], out: list[Effect]) -> bool:
        """Begin a generation with the newest state on the lineage that a candidate has."""
        offers = [(worker, offer) for worker in candidates for offer in self._offers(self._heard[worker])]
        if not offers:
            return False
        _, chosen = max(offers, key=lambda each: each[1].step)
        if TrainingDefect.EAGER_ROLLBACK in self._defects:  # whatever the slowest has, at once whenever they differ
            newest = dict(sorted(offers, key=lambda each: each[1].step))
            chosen = min(newest.values(), key=lambda offer: offer.step)
        self.journal.roll_back(chosen.step, chosen.digest)
        shown: list[list[str | int]] = [
            [self._job.name(worker), self._heard[worker].incarnation, held.generation, held.step, held.digest.hex()]
            for worker, held in offers
        ]
        out.append(TrainRollback(self.journal.generation, chosen.step, chosen.digest.hex(), shown))
        return True

    def _offers(self, heard: Heard) -> list[Holding]:
        """Return what a candidate has and the journal vouches for: by digest, or by name if it is the state of this step."""
        newest, known = (self.journal.generation, self.step), self.journal.known
        offers = [
            held
            for held in (Holding(0, 0, self._job.start_digest), heard.disk, heard.live)
            if known.get(held.step) == held.digest or (held.step and held[:2] == newest)
        ]
        if TrainingDefect.STATE0_LOST in self._defects:  # rule 10.3 off: what everybody can make is offered by nobody
            offers = [held for held in offers if held.step]
        return offers

    def snapshot(self) -> dict[str, Any]:
        """Return the hub's state, with the donor and who is ready."""
        ready = [self._job.name(worker) for worker in sorted(self._ready)]
        return super().snapshot() | {"donor": self._job.name(self._donor), "ready": ready}
