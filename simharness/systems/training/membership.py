"""The hub under both strategies: who is alive, who is in the view, what is journaled (design, section 7).

Safety never depends on time: leases, waits and clocks only decide when another view is tried (T10).
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final

import msgspec

from simharness.systems.training.events import Effect, Send, TrainCommit, TrainEvict, TrainPause, TrainReject, TrainView
from simharness.systems.training.job import Job, over
from simharness.systems.training.journal import Journal
from simharness.systems.training.plan import Member
from simharness.systems.training.storage import Disk, next_incarnation
from simharness.systems.training.wire import HUB, Contribution, Header, Heartbeat, Holding, Message
from simharness.systems.training.worker import older

LISTEN_TICKS: Final = 2
"""How long a hub listens after a start, so that its first view is not of the first worker heard."""

DEAF_LEASES: Final = 4
"""A member that is heard but has not followed the hub for so many leases is put out: what is said to it does not arrive."""


class HubPhase(Enum):
    """LISTEN -> (PAUSED | RECOVER | OPEN)."""

    LISTEN = auto()
    PAUSED = auto()
    """Fewer than `min_workers` candidates: no view."""
    RECOVER = auto()
    """Nobody who is heard has the state of the step: no view."""
    OPEN = auto()


class Heard(msgspec.Struct, gc=False):
    """A worker as its newest heartbeat shows it."""

    incarnation: int
    heard_ns: int
    live: Holding
    disk: Holding
    head: Header
    phase: int
    round: int
    told_ns: int
    """When it was last told where to be."""
    behind_ns: int | None = None
    """Since when it has not followed."""


class Hub:
    """The base of both hubs. Inputs are ticks and messages; what comes back is to be done in order."""

    def __init__(self, job: Job, disk: Disk) -> None:
        self._job, self._config = job, job.config
        self._defects = job.config.defects
        self.incarnation = next_incarnation(disk)
        self.journal = Journal(disk, defects=job.config.defects, guards=job.config.guards, start=job.start_digest)
        self.phase = HubPhase.LISTEN
        self.members: tuple[Member, ...] = ()
        self._listen = LISTEN_TICKS
        self._heard: dict[int, Heard] = {}
        self._put_out: dict[int, int] = {}
        self._joiners: dict[int, int] = {}
        self._now_ns = 0
        self._told: tuple[int, int, int] = (0, 0, 0)
        """Generation, view and step that the members were last sent to."""

    # --- inputs -----------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> list[Effect]:
        """Look at the clock and at everybody."""
        out: list[Effect] = []
        self._look_at_clock(now_ns)
        if self._listen:
            self._listen -= 1
            if not self._listen:
                self._started(out)
                self._form(now_ns, "start", out)
        elif self.phase is HubPhase.OPEN:
            self._review(now_ns, out)
        else:
            self._form(now_ns, "resumed", out)
        if self.phase is HubPhase.OPEN:
            self._advance(now_ns, out)
        return out

    def receive(self, message: Message, now_ns: int) -> list[Effect]:
        """Take a message."""
        out: list[Effect] = []
        if isinstance(message, Heartbeat):
            self._on_heartbeat(message, now_ns, out)
        else:
            self._message(message, now_ns, out)
        return out

    def snapshot(self) -> dict[str, Any]:
        """Return phase, view, step and who was heard."""
        return {
            "phase": self.phase.name,
            "incarnation": self.incarnation,
            "generation": self.journal.generation,
            "view": self.journal.view,
            "step": self.step,
            "members": self._job.members_record(self.members),
            "heard": self._job.members_record(
                [Member(w, heard.incarnation) for w, heard in sorted(self._heard.items())]
            ),
        }

    @property
    def step(self) -> int:
        """The step that is not committed yet."""
        return self.journal.step

    # --- what a strategy adds ---------------------------------------------------------------------------------------

    def _message(self, message: Message, now_ns: int, out: list[Effect]) -> None:
        raise NotImplementedError

    def _started(self, out: list[Effect]) -> None:
        """The time of listening is over."""

    def _can_open(self, candidates: Sequence[int], now_ns: int, out: list[Effect]) -> bool:
        """Tell whether the state of the step is to be had from these workers."""
        raise NotImplementedError

    def _opened(self, now_ns: int, out: list[Effect]) -> None:
        """A view is there."""
        raise NotImplementedError

    def _advance(self, now_ns: int, out: list[Effect]) -> None:
        """Do what the clock allows now."""
        raise NotImplementedError

    def _remind(self, worker: int, now_ns: int, out: list[Effect]) -> None:
        """Tell a worker that is behind where to be."""
        raise NotImplementedError

    # --- who is there -----------------------------------------------------------------------------------------------

    def _on_heartbeat(self, message: Heartbeat, now_ns: int, out: list[Effect]) -> None:
        head = message.head
        worker, heard = head.sender, self._heard.get(head.sender)
        if heard is None or head.incarnation > heard.incarnation:
            long_ago = now_ns - self._config.retry_ns
            heard = Heard(head.incarnation, now_ns, message.live, message.disk, head, 0, 0, long_ago)
            self._heard[worker] = heard
        elif head.incarnation < heard.incarnation:
            self._reject(head, "old_incarnation", out)
            return
        heard.heard_ns, heard.live, heard.disk = now_ns, message.live, message.disk
        heard.head, heard.phase, heard.round = head, message.phase, message.round
        if self.phase is not HubPhase.OPEN:
            return
        member = self._member(worker)
        if member is not None and not self._job.is_process(member, head.incarnation):
            self._form(now_ns, "new_incarnation", out)
        elif head[:3] >= self._told:
            heard.behind_ns = None
        else:
            if heard.behind_ns is None:
                heard.behind_ns = now_ns
            if over(now_ns, heard.told_ns, self._config.retry_ns):
                self._remind(worker, now_ns, out)

    def _look_at_clock(self, now_ns: int) -> None:
        """A clock that went back makes every wait begin anew."""
        if now_ns < self._now_ns:
            for heard in self._heard.values():
                heard.heard_ns = now_ns
                heard.behind_ns = None if heard.behind_ns is None else now_ns
            self._put_out = dict.fromkeys(self._put_out, now_ns)
            self._joiners = dict.fromkeys(self._joiners, now_ns)
        self._now_ns = now_ns

    def _alive(self, now_ns: int) -> list[int]:
        return [w for w, heard in sorted(self._heard.items()) if now_ns - heard.heard_ns <= self._config.lease_ns]

    def _candidates(self, now_ns: int) -> list[int]:
        """Return who may be in a view: alive, and not put out a short while ago."""
        wait = self._config.hold_off_ns
        self._put_out = {w: since for w, since in self._put_out.items() if now_ns - since < wait}
        return [worker for worker in self._alive(now_ns) if worker not in self._put_out]

    def _member(self, worker: int) -> Member | None:
        for member in self.members:
            if member.worker == worker:
                return member
        return None

    def _is_member(self, head: Header) -> bool:
        member = self._member(head.sender)
        return member is not None and self._job.is_process(member, head.incarnation)

    def _review(self, now_ns: int, out: list[Effect]) -> None:
        """Put out who is gone, has become another process or does not follow; let in who waits long enough."""
        candidates, gone = self._candidates(now_ns), ""
        for member in self.members:
            heard = self._heard[member.worker]
            if member.worker not in candidates:
                gone = gone or "member_lost"
            elif not self._job.is_process(member, heard.incarnation):
                gone = gone or "new_incarnation"
            elif heard.behind_ns is not None and over(now_ns, heard.behind_ns, DEAF_LEASES * self._config.lease_ns):
                self._evict(member.worker, "deaf", now_ns, out)
                gone = gone or "evicted"
        since = self._joiners
        self._joiners = {w: since.get(w, now_ns) for w in candidates if self._member(w) is None}
        if gone:
            self._form(now_ns, gone, out)
        elif any(over(now_ns, at, self._config.join_max_wait_ns) for at in self._joiners.values()):
            self._form(now_ns, "joined", out)

    def _evict(self, worker: int, why: str, now_ns: int, out: list[Effect]) -> None:
        self._put_out[worker] = now_ns
        self._heard[worker].behind_ns = None
        out.append(TrainEvict(self.step, self._job.name(worker), why))

    # --- views and commits ------------------------------------------------------------------------------------------

    def _form(self, now_ns: int, reason: str, out: list[Effect]) -> None:
        """Issue a view of all candidates, unless they are too few or have no state to go on from."""
        candidates = self._candidates(now_ns)
        if len(candidates) < self._config.min_workers:
            self._close(HubPhase.PAUSED, "min_workers", out)
            return
        if not self._can_open(candidates, now_ns, out):
            self._close(HubPhase.RECOVER, "no_state", out)
            return
        self.members = tuple([Member(worker, self._heard[worker].incarnation) for worker in candidates])
        self.journal.issue(self.members)
        self.phase = HubPhase.OPEN
        self._joiners = {}
        for heard in self._heard.values():
            heard.behind_ns = None
        out.append(
            TrainView(
                self.journal.generation,
                self.journal.view,
                self.step,
                self._job.members_record(self.members),
                reason,
            )
        )
        self._opened(now_ns, out)

    def _close(self, phase: HubPhase, why: str, out: list[Effect]) -> None:
        if self.phase is not phase:
            self.phase, self.members = phase, ()
            out.append(TrainPause(self.step, None, why))

    def _commit(
        self,
        reduction: bytes,
        base: bytes,
        epoch: int,
        contributions: Sequence[Contribution],
        out: list[Effect],
        *,
        count: int,
    ) -> None:
        """Decide the step: into the journal first, then on record; messages come after."""
        generation, view, step = self.journal.generation, self.journal.view, self.step
        self.journal.commit(reduction, base, self.members)
        shown = self._job.contributions_record(contributions)
        out.append(TrainCommit(generation, view, step, epoch, base.hex(), shown, count))

    # --- talking ----------------------------------------------------------------------------------------------------

    def _head(self, flags: int = 0) -> Header:
        return Header(self.journal.generation, self.journal.view, self.step, self.incarnation, HUB, flags)

    def _send(self, worker: int, message: Message, out: list[Effect]) -> None:
        out.append(Send(self._job.name(worker), message))

    def _reject(self, head: Header, why: str, out: list[Effect]) -> None:
        out.append(TrainReject(self.step, self._job.name(head.sender), why))

    def _why_not(self, head: Header) -> str | None:
        """Return why a message about the present step does not count, or None if it does."""
        if head[:3] != (self.journal.generation, self.journal.view, self.step):
            return older(head, self._head())
        if not self._is_member(head):
            return "not_member" if self._member(head.sender) is None else "old_incarnation"
        return None
