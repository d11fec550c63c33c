"""The parameter server: the hub that owns the state (design, section 9)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from simharness.systems.training.config import TrainingDefect
from simharness.systems.training.events import Effect, TrainRollback
from simharness.systems.training.job import Job, over
from simharness.systems.training.kernel import add, zeros
from simharness.systems.training.membership import Hub, HubPhase
from simharness.systems.training.plan import StepPlan
from simharness.systems.training.replica import Replica, union
from simharness.systems.training.state import TrainState, digest, from_bytes, mask, to_bytes
from simharness.systems.training.storage import CHECKPOINT, Disk, get
from simharness.systems.training.weighting import Weighting
from simharness.systems.training.wire import Contribution, Header, Message, Params, Push, contributions_bytes


class Part(NamedTuple):
    """An accepted push."""

    contribution: Contribution
    ids: tuple[int, ...]
    sums: bytes


class ServerHub(Hub):
    """Opens a step by sending parameters, closes it when enough have pushed."""

    def __init__(self, job: Job, disk: Disk) -> None:
        super().__init__(job, disk)
        self.replica = Replica(job, disk)
        self._weighting = Weighting(job.config)
        self._plan = StepPlan(0, 0, ())
        self._parts: dict[int, list[Part]] = {}
        self._open = False
        self._enough_ns: int | None = None
        self._before: tuple[Header, bytes, tuple[int, ...]] | None = None
        self._late: dict[int, Part] = {}
        self._held_back = to_bytes(job.start)
        self._restore = self.journal.found
        saved = get(disk, CHECKPOINT)
        if saved is not None:
            restored = from_bytes(saved)
            assert restored is not None, "a checkpoint is put whole or not at all"
            self.replica.hold(self._spoilt(restored))

    # --- start ------------------------------------------------------------------------------------------------------

    def _started(self, out: list[Effect]) -> None:
        """After a crash: go on from the newest checkpoint, in a new generation."""
        if not self._restore:
            return
        self.journal.roll_back(self.replica.state.step, self.replica.digest)
        self.replica.hold(self.replica.state.in_generation(self.journal.generation))
        out.append(TrainRollback(self.journal.generation, self.step, self.replica.digest.hex(), []))

    def _spoilt(self, state: TrainState) -> TrainState:
        """Return what a restored checkpoint has become by the defects of restoring."""
        if TrainingDefect.CHECKPOINT_NO_MOMENTUM in self._defects:  # the optimiser starts anew
            state = msgspec.structs.replace(state, momentum=zeros(self._config.entries))
        if TrainingDefect.CHECKPOINT_NO_CURSOR in self._defects:  # the epoch starts anew
            state = msgspec.structs.replace(state, consumed=0)
        if TrainingDefect.CURSOR_AHEAD in self._defects:  # what the loader had fetched ahead counts as used
            batch = self._config.batch_sizes[0]
            rest = [sample for sample in range(state.samples) if not state.consumed >> sample & 1]
            state = msgspec.structs.replace(state, consumed=state.consumed | mask(tuple(rest[:batch])))
        return state

    # --- opening ----------------------------------------------------------------------------------------------------

    def _can_open(self, candidates: Sequence[int], now_ns: int, out: list[Effect]) -> bool:
        del candidates, now_ns, out
        return True  # the state is here

    def _opened(self, now_ns: int, out: list[Effect]) -> None:
        self._open = False
        self._before = None
        self._advance(now_ns, out)

    def _advance(self, now_ns: int, out: list[Effect]) -> None:
        """Open the step when its time has come; close it when it may be closed."""
        if not self._open and now_ns >= self.step * self._config.pace_ns and not self._job.finished(self.step):
            self._open_step(now_ns, out)
        if self._open:
            self._try_to_close(now_ns, out)

    def _open_step(self, now_ns: int, out: list[Effect]) -> None:
        self._plan = self._job.planner.plan_step(self.replica.state, self.members)
        self._parts, self._enough_ns, self._open = {}, None, True
        self._told = (self.journal.generation, self.journal.view, self.step)
        for member in self.members:
            self._tell(member.worker, now_ns, out)

    def _tell(self, worker: int, now_ns: int, out: list[Effect]) -> None:
        """Send a member the parameters of the open step."""
        place = [member.worker for member in self.members].index(worker)
        self._heard[worker].told_ns = now_ns
        ids, state = self._plan.batches[place], self.replica.state
        params = Params(self._head(), self._plan.epoch, self.replica.digest, ids, state.weights)
        self._send(worker, params, out)

    def _remind(self, worker: int, now_ns: int, out: list[Effect]) -> None:
        if self._open and self._member(worker) is not None:
            self._tell(worker, now_ns, out)

    # --- pushes -----------------------------------------------------------------------------------------------------

    def _message(self, message: Message, now_ns: int, out: list[Effect]) -> None:
        if not isinstance(message, Push):
            return
        head = message.head
        if not self._open and self._is_member(head):
            return  # asked again while the next step waits for its time
        why = self._refusal(message)
        part = Part(
            Contribution(head.sender, head.incarnation, message.seq, message.count), message.ids, message.payload
        )
        if why is None:
            self._parts.setdefault(head.sender, []).append(part)
            self._try_to_close(now_ns, out)
            return
        if TrainingDefect.LATE_CARRY in self._defects and self._of_step_before(
            message, dropped=True
        ):  # for the next step
            self._late[head.sender] = part
        if not self._counted_before(message):
            self._reject(head, why, out)
        answered = self._open and self._is_member(head) and why != "duplicate"
        if answered and over(now_ns, self._heard[head.sender].told_ns, self._config.retry_ns):
            self._tell(head.sender, now_ns, out)

    def _refusal(self, push: Push) -> str | None:
        """Return why a push does not count, or None if it does."""
        head, why = push.head, self._why_not(push.head)
        if why == "old_step" and TrainingDefect.STALE_PUSH in self._defects and self._of_step_before(push):
            why = None  # the step before is near enough
        elif why == "old_view" and TrainingDefect.OLD_VIEW_PUSH in self._defects and self._fits(push):
            why = None  # it would be the same sum
        elif why is None and push.base != self.replica.digest:
            why = "base"
        if why is not None:
            return why
        if head.sender in self._parts and TrainingDefect.DUP_PUSH not in self._defects:  # DUP_PUSH: it counts twice
            return "duplicate"
        return None

    def _of_step_before(self, push: Push, *, dropped: bool = False) -> bool:
        """Tell whether a member's push is of the step before, in this view, and (`dropped`) was not part of it."""
        if self._before is None or not self._is_member(push.head):
            return False
        place, base, workers = self._before
        return push.head[:3] == place[:3] and push.base == base and not (dropped and push.head.sender in workers)

    def _counted_before(self, push: Push) -> bool:
        """Tell whether a push is part of the step before: its worker asks again because it has not heard of the next."""
        return self._of_step_before(push) and not self._of_step_before(push, dropped=True)

    def _fits(self, push: Push) -> bool:
        """Tell whether a push of an older view is of this generation, step, base and batch."""
        head, member = push.head, self._member(push.head.sender)
        if member is None or not self._is_member(head):
            return False
        ids = self._plan.batches[self.members.index(member)]
        here = (self.journal.generation, self.step, self.replica.digest, ids)
        return (head.generation, head.step, push.base, push.ids) == here

    # --- closing ----------------------------------------------------------------------------------------------------

    def _try_to_close(self, now_ns: int, out: list[Effect]) -> None:
        """Close when everybody who has samples has pushed; with backup workers, a grace after enough of them have.

        Enough is at least one, so a step never closes empty: when one slow worker holds the last samples, it is waited for.
        """
        planned = sum(1 for batch in self._plan.batches if batch)
        there = len(self._parts)
        if there < planned:
            if not self._config.backup_workers or there < max(1, planned - self._config.backup_workers):
                return
            if self._enough_ns is None:
                self._enough_ns = now_ns
            if not over(now_ns, self._enough_ns, self._config.backup_grace_ns):
                return
        self._close_step(now_ns, out)

    def _close_step(self, now_ns: int, out: list[Effect]) -> None:
        """Add in the order of workers, divide, apply, commit."""
        parts = [part for _, pushed in sorted(self._parts.items()) for part in pushed]
        if TrainingDefect.LATE_CARRY in self._defects:  # what came late for the step before is added to this one
            parts += [part for _, part in sorted(self._late.items())]
        self._late = {}
        sums = parts[0].sums
        for part in parts[1:]:
            sums = add(sums, part.sums)
        contributions = tuple([part.contribution for part in parts])
        count = sum([each.samples for each in contributions])
        if TrainingDefect.REPORT_PLANNED in self._defects:  # divided rightly, told wrongly
            count = self._plan.planned
        place, base, epoch, step = self._head(), self.replica.digest, self._plan.epoch, self.step
        self._commit(digest(contributions_bytes(contributions), sums), base, epoch, contributions, out, count=count)
        divisor, stats_divisor = self._weighting.divisors(contributions, self.members)
        scale = self._config.loss_scale
        mean = self._job.kernel.mean(sums, scale=scale, divisor=divisor, stats_divisor=stats_divisor)
        self.replica.apply(
            mean,
            generation=place.generation,
            view=place.view,
            step=step,
            epoch=epoch,
            consumed=self._plan.consumed | self._used(parts),
            incarnation=self.incarnation,
            out=out,
        )
        self._save(out)
        self._open, self._before = False, (place, base, tuple(self._parts))
        if self._joiners:
            self._form(now_ns, "joined", out)
        else:
            self._advance(now_ns, out)

    def _used(self, parts: Sequence[Part]) -> int:
        """Return the samples that the step has consumed: those that contributed. Dropped ones come round again."""
        if TrainingDefect.MARK_ALL_CONSUMED in self._defects:  # whatever was planned
            return union(self._plan.batches)
        return union(tuple([part.ids for part in parts]))

    def _save(self, out: list[Effect]) -> None:
        if TrainingDefect.OLD_CHECKPOINT not in self._defects:
            self.replica.save(out)
        elif self.replica.save(out, form=self._held_back):  # the last but one is what a restart finds
            self._held_back = to_bytes(self.replica.state)

    def snapshot(self) -> dict[str, Any]:
        """Return the hub's state, with the replica and who has pushed."""
        pushed = [self._job.name(worker) for worker in sorted(self._parts)]
        opened = self._open and self.phase is HubPhase.OPEN
        return super().snapshot() | {"open": opened, "pushed": pushed, "state": self.replica.snapshot()}
