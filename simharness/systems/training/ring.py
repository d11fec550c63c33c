"""The ring worker: reduce-scatter and all-gather with sums and counts, prepared by all, applied after the hub's commit (T1, T2).

Members in order of their indices form the ring; position i sends to i + 1. In round r of the scatter, position i sends chunk
i - r and adds its own part to chunk i - 1 - r; after N - 1 rounds it has the whole of chunk i + 1. In the gather it passes
whole chunks on.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from simharness.systems.training.config import TrainingDefect, runs
from simharness.systems.training.events import Effect, Send, TrainingAbort
from simharness.systems.training.job import Job, over
from simharness.systems.training.kernel import BYTES, add, zeros
from simharness.systems.training.phases import TABLE, Act, Input, Phase
from simharness.systems.training.plan import Member, StepPlan
from simharness.systems.training.replica import Replica, union
from simharness.systems.training.state import TrainState, digest, from_bytes
from simharness.systems.training.storage import CHECKPOINT, Disk, get
from simharness.systems.training.wire import (
    FRESH,
    Chunk,
    ChunkRequest,
    Commit,
    Contribution,
    Heartbeat,
    Holding,
    Message,
    Ready,
    State,
    StateRequest,
    Suspect,
    View,
    contributions_bytes,
    contributions_of,
    round_flags,
)
from simharness.systems.training.worker import NOTHING, Worker

_INPUTS: Final[Mapping[type[Message], Input]] = {
    ChunkRequest: Input.CHUNK_REQUEST,
    State: Input.STATE,
    StateRequest: Input.STATE_REQUEST,
}


class Prepared(NamedTuple):
    """A reduction that waits for its commit."""

    generation: int
    view: int
    step: int
    plan: StepPlan
    members: tuple[Member, ...]
    base: bytes
    sums: bytes
    contributions: tuple[Contribution, ...]
    digest: bytes


class RingWorker(Worker):
    """One worker. Before a commit it changes nothing but buffers, so an aborted step is never half applied."""

    def __init__(self, job: Job, name: str, disk: Disk) -> None:
        super().__init__(job, name, disk)
        self.phase, self.round = Phase.IDLE, 0
        self.replica = Replica(job, disk)
        saved = get(disk, CHECKPOINT)
        self._saved = None if saved is None else from_bytes(saved)
        self._on_disk = _holding(self._saved)
        self.members: tuple[Member, ...] = ()
        self._position = self._donor = 0
        self._prepared: Prepared | None = None
        self._applied: Prepared | None = None
        self._waiting_ns = self._heard_ns = 0
        self._asked = 0
        acts = {
            Act.ENTER_VIEW: self._enter_view,
            Act.FETCH: self._fetch,
            Act.TAKE_STATE: self._take_state,
            Act.GIVE_STATE: self._give_state,
            Act.REDUCE: self._reduce,
            Act.TAKE_CHUNK: self._take_chunk,
            Act.KEEP_CHUNK: self._keep_chunk,
            Act.RESEND_CHUNK: self._resend_chunk,
            Act.SAY_READY: self._say_ready,
            Act.REQUEST_CHUNK: self._request_chunk,
            Act.GO_ON: self._go_on,
        }
        self._rows = {pair: (following, acts[act]) for pair, (following, act) in TABLE.items()}
        self._drop_round()

    # --- inputs -----------------------------------------------------------------------------------------------------

    def _message(self, message: Message, now_ns: int, out: list[Effect]) -> None:
        if isinstance(message, View):
            self._heard_ns = now_ns
            if message.head[:2] > (self.generation, self.view):
                self._input(Input.VIEW, message, now_ns, out)
        elif isinstance(message, Commit):
            self._heard_ns = now_ns
            self._on_commit(message, now_ns, out)
        elif message.head[:3] == (self.generation, self.view, self.step):
            what = self._place(message) if type(message) is Chunk else _INPUTS.get(type(message))
            if what is not None:
                self._input(what, message, now_ns, out)
        elif isinstance(message, Chunk) and TrainingDefect.STALE_CHUNK in self._defects:  # only phase and round count
            self._input(self._place(message), message, now_ns, out)
        elif isinstance(message, Chunk | State):
            self._refuse(message.head, out)

    def _input(self, what: Input, message: Message | None, now_ns: int, out: list[Effect]) -> None:
        """Do what the table says about this input in this phase."""
        row = self._rows.get((self.phase, what))
        if row is not None:
            following, act = row
            act(message, now_ns, out)
            assert self.phase in following, (what, self.phase)

    def _place(self, chunk: Chunk) -> Input:
        here, there = (self.phase, self.round), (chunk.phase, chunk.round)
        return Input.CHUNK if there == here else Input.EARLY_CHUNK if there > here else Input.LATE_CHUNK

    def _computed(self, now_ns: int, out: list[Effect]) -> None:
        self._input(Input.DUE, None, now_ns, out)

    def _ask_again(self, now_ns: int, out: list[Effect]) -> None:
        alone = TrainingDefect.MINORITY_TRAINS in self._defects and self.phase > Phase.COMPUTE
        if alone and over(
            now_ns, self._heard_ns, 2 * self._config.lease_ns
        ):  # nobody is heard: it goes on without them
            self._go_on_alone(now_ns, out)
        elif over(now_ns, self._waiting_ns, self._config.retry_ns):
            self._wait(now_ns)
            self._input(Input.RETRY, None, now_ns, out)

    # --- effects of the table ---------------------------------------------------------------------------------------

    def _enter_view(self, message: Any, now_ns: int, out: list[Effect]) -> None:
        """Take a newer view: apply what it says was committed, then see whether the state of its step is here."""
        view: View = message
        self._drop_round()
        ready, self._prepared = self._prepared, None
        fresh = view.head.flags & FRESH
        if ready is not None and not fresh and ready[:3] == (view.head.generation, view.last_view, view.last_step):
            self._agree(ready.digest, view.digest)
            self._apply(ready, out)
        self.generation, self.view, self.step = view.head.generation, view.head.view, view.head.step
        self.members, self._donor = view.members, view.donor
        self._asked = 0
        if not self._is_me(view.members):
            self._rest()
            return
        self._position = [member.worker for member in view.members].index(self.index)
        if (fresh and self._carry_over(view.digest, out)) or self._holds():
            self._begin(now_ns, out)
        elif (
            TrainingDefect.REJOIN_OLD_WEIGHTS in self._defects and self._saved is not None
        ):  # taken for the present state
            self._install(_renamed(self._saved, self.generation, self.step), self.name, out)
            self._begin(now_ns, out)
        else:
            self.phase = Phase.NEED_STATE
            self._fetch(None, now_ns, out)

    def _carry_over(self, base: bytes, out: list[Effect]) -> bool:
        """Take the state of this step into the view's generation, if it is here, live or on disk."""
        live = self.replica.state
        if live.generation == self.generation and live.step > self.step:
            return False  # within a generation nobody goes back: such a hub has forgotten what it committed
        for state in (live, self._saved, self._job.start):
            if state is not None and state.step == self.step and state.digests().whole == base:
                if state is not live or state.generation != self.generation:
                    self._install(state.in_generation(self.generation), self.name, out)
                return True
        return False

    def _holds(self) -> bool:
        state = self.replica.state
        return (state.generation, state.step) == (self.generation, self.step)

    def _fetch(self, _: Any, now_ns: int, out: list[Effect]) -> None:
        """Ask the donor for the state; tell the hub when it does not answer."""
        self._wait(now_ns)
        if self._donor != self.index:  # a hub that has forgotten commits may name whoever is past them
            out.append(Send(self._job.name(self._donor), StateRequest(self._head())))
            self._complain(self._donor, out)

    def _take_state(self, message: Any, now_ns: int, out: list[Effect]) -> None:
        state: State = message
        if state.samples != self._config.samples or len(state.weights) != BYTES * self._config.entries:
            return
        found = TrainState(
            step=self.step,
            generation=self.generation,
            epoch=state.epoch,
            consumed=state.consumed,
            samples=state.samples,
            weights=state.weights,
            momentum=state.momentum,
        )
        self._install(found, self._job.name(state.head.sender), out)
        self._begin(now_ns, out)

    def _give_state(self, message: Any, _: int, out: list[Effect]) -> None:
        if not self._holds():
            return
        state = self.replica.state
        momentum = state.momentum
        if TrainingDefect.MOMENTUM_NOT_SENT in self._defects:  # weights alone are thought to be the state
            momentum = zeros(self._config.entries)
        reply = State(self._head(), state.epoch, state.samples, state.consumed, state.weights, momentum)
        out.append(Send(self._job.name(message.head.sender), reply))

    def _reduce(self, _: Any, now_ns: int, out: list[Effect]) -> None:
        """The gradient is there: cut it and send the first chunk."""
        mine, sums = self._gradient(
            self.replica.digest, self.replica.state.weights, self._plan.batches[self._position], out
        )
        entries, count = self._config.entries, len(self.members)
        sizes = runs(entries, count)
        if TrainingDefect.CHUNK_TAIL_LOST in self._defects:  # chunks of the size rounded down; nobody reduces the rest
            sizes = [entries // count] * count
        own, at = contributions_bytes((mine,)), 0
        for size in sizes:
            self._parts.append((own, sums[at : at + BYTES * size]))
            at += BYTES * size
        self.phase, self.round = Phase.SCATTER, 0
        self._asked = 0
        self._wait(now_ns)
        if count > 1:
            self._send_chunk(self._position, out)
        self._run(now_ns, out)

    def _take_chunk(self, message: Any, now_ns: int, out: list[Effect]) -> None:
        self._early[message.phase, message.round] = message
        self._run(now_ns, out)

    def _keep_chunk(self, message: Any, _: int, __: list[Effect]) -> None:
        self._early[message.phase, message.round] = message

    def _run(self, now_ns: int, out: list[Effect]) -> None:
        """Take chunks as long as the awaited one is here; at the end the reduction is prepared."""
        rounds = len(self.members) - 1
        while self.phase < Phase.READY:
            if self.round == rounds:
                self.round = 0
                if self.phase is Phase.GATHER:
                    self._prepare(now_ns, out)
                    return
                self.phase = Phase.GATHER
                if rounds:
                    self._send_chunk(self._position + 1, out)
                continue
            chunk = self._early.pop((self.phase, self.round), None)
            if chunk is None or not self._fold(chunk):
                return
            self._asked = 0
            self._wait(now_ns)
            self.round += 1
            if self.round < rounds:
                self._send_chunk(chunk.index, out)

    def _fold(self, chunk: Chunk) -> bool:
        """Add (scatter) or store (gather) the awaited chunk. One that does not fit is as good as lost."""
        count = len(self.members)
        back = 1 if self.phase is Phase.SCATTER else 0
        index = (self._position - back - self.round) % count
        contributions, sums = self._parts[index]
        if chunk.index != index or len(chunk.payload) != len(sums):
            return False
        if self.phase is Phase.SCATTER:
            self._parts[index] = chunk.contributions + contributions, add(chunk.payload, sums)
        else:
            self._parts[index] = chunk.contributions, chunk.payload
        return True

    def _send_chunk(self, index: int, out: list[Effect]) -> None:
        index %= len(self.members)
        contributions, payload = self._parts[index]
        chunk = Chunk(
            self._head(round_flags(self.phase, self.round)), self.phase, self.round, index, contributions, payload
        )
        self._sent[self.phase, self.round] = chunk
        out.append(Send(self._neighbour(1), chunk))

    def _resend_chunk(self, message: Any, _: int, out: list[Effect]) -> None:
        chunk = self._sent.get((message.phase, message.round))
        if chunk is not None and self._job.name(message.head.sender) == self._neighbour(1):
            out.append(Send(self._neighbour(1), chunk))

    def _prepare(self, now_ns: int, out: list[Effect]) -> None:
        """All chunks are whole: check them, name the reduction, and tell the hub."""
        contributors = [sorted(contributions_of(contributions)) for contributions, _ in self._parts]
        sums = b"".join([payload for _, payload in self._parts])
        whole = BYTES * self._config.entries
        if self._config.guards and any(each != contributors[0] for each in contributors):
            raise TrainingAbort("contributors", f"the chunks of step {self.step} hold different contributions")
        if self._config.guards and len(sums) != whole:
            raise TrainingAbort("hole", f"the ring of step {self.step} ended with {len(sums)} of {whole} bytes")
        sums += bytes(whole - len(sums))
        contributions = tuple(contributors[0])
        name = digest(contributions_bytes(contributions), sums)
        self._prepared = Prepared(
            self.generation,
            self.view,
            self.step,
            self._plan,
            self.members,
            self.replica.digest,
            sums,
            contributions,
            name,
        )
        self.phase = Phase.READY
        self._say_ready(None, now_ns, out)
        if TrainingDefect.EARLY_APPLY in self._defects:  # without waiting for the commit
            self._apply(self._prepared, out)

    def _say_ready(self, _: Any, now_ns: int, out: list[Effect]) -> None:
        ready = self._prepared
        assert ready is not None
        self._wait(now_ns)
        head = self._head(ready.plan.epoch & 0xFFFF)
        self._to_hub(Ready(head, ready.digest, ready.base, ready.contributions), out)

    def _request_chunk(self, _: Any, __: int, out: list[Effect]) -> None:
        """Ask the predecessor for the awaited chunk; tell the hub when it does not answer."""
        out.append(Send(self._neighbour(-1), ChunkRequest(self._head(), self.phase, self.round)))
        self._complain(self.members[self._position - 1].worker, out)

    def _on_commit(self, commit: Commit, now_ns: int, out: list[Effect]) -> None:
        ready, done = self._prepared, self._applied
        if ready is not None and commit.head[:3] == ready[:3]:
            self._agree(ready.digest, commit.reduction)
            self._input(Input.COMMIT, commit, now_ns, out)
        elif TrainingDefect.DOUBLE_APPLY in self._defects and done is not None and commit.head[:3] == done[:3]:
            self._apply(done, out)  # a commit said twice counts twice

    def _go_on(self, _: Any, now_ns: int, out: list[Effect]) -> None:
        """The step is committed: apply it and begin the next."""
        ready, self._prepared = self._prepared, None
        assert ready is not None
        if self.replica.state.step == ready.step:  # always, unless EARLY_APPLY has done it
            self._apply(ready, out)
        self._drop_round()
        self.step = ready.step + 1
        self._begin(now_ns, out)

    # --- state ------------------------------------------------------------------------------------------------------

    def _install(self, state: TrainState, source: str, out: list[Effect]) -> None:
        self.replica.install(state, incarnation=self.incarnation, source=source, out=out)

    def _begin(self, now_ns: int, out: list[Effect]) -> None:
        """Plan the step and compute this worker's part of it."""
        if self._job.finished(self.step):
            self._rest()
            return
        self.phase = Phase.COMPUTE
        self._plan = self._job.planner.plan_step(self.replica.state, self.members)
        self._compute(self.replica.digest, self._plan.batches[self._position], now_ns, out)

    def _apply(self, ready: Prepared, out: list[Effect]) -> None:
        """Make the update of a reduction, and a checkpoint if one is due."""
        divisor, stats_divisor = self._weighting.divisors(ready.contributions, ready.members)
        odd = (
            TrainingDefect.RECIPROCAL in self._defects and self.index % 2 == 1
        )  # every second worker multiplies by 1/n
        mean = self._job.kernel.mean(
            ready.sums, scale=self._scale, divisor=divisor, stats_divisor=stats_divisor, reciprocal=odd
        )
        self.replica.apply(
            mean,
            generation=ready.generation,
            view=ready.view,
            step=ready.step,
            epoch=ready.plan.epoch,
            consumed=ready.plan.consumed | union(ready.plan.batches),
            incarnation=self.incarnation,
            out=out,
        )
        self._applied = ready
        if self.replica.save(out):
            self._saved = self.replica.state
            self._on_disk = Holding(self._saved.generation, self._saved.step, self.replica.digest)

    def _go_on_alone(self, now_ns: int, out: list[Effect]) -> None:
        """MINORITY_TRAINS: apply the own part as if it were all."""
        me = Member(self.index, self.incarnation)
        batch = self._plan.batches[self._position]
        there = contributions_of(self._parts[self._position][0])
        own = tuple([each for each in there if each.worker == self.index])
        sums = self._job.kernel.gradient_sum(self.replica.state.weights, batch, scale=self._scale)
        plan = StepPlan(self._plan.epoch, self._plan.consumed, (batch,))
        self._drop_round()
        self.members, self._position, self._prepared = (me,), 0, None
        if plan.planned:
            self._apply(Prepared(self.generation, self.view, self.step, plan, (me,), b"", sums, own, b""), out)
            self.step += 1
        self._begin(now_ns, out)

    # --- small things -----------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        self.phase, self.round = Phase.IDLE, 0
        self._computing = False

    def _drop_round(self) -> None:
        self._early: dict[tuple[int, int], Chunk] = {}
        self._sent: dict[tuple[int, int], Chunk] = {}
        self._parts: list[tuple[bytes, bytes]] = []
        self.round = 0
        self._computing = False

    def _wait(self, now_ns: int) -> None:
        self._waiting_ns = now_ns

    def _complain(self, peer: int, out: list[Effect]) -> None:
        """Count a question; every `suspect_after` of them name the peer that does not answer to the hub."""
        self._asked += 1
        if self._asked % (self._config.suspect_after + 1) == 0:
            self._to_hub(Suspect(self._head(), peer), out)

    def _agree(self, mine: bytes, theirs: bytes) -> None:
        if self._config.guards and mine != theirs:
            raise TrainingAbort("reduction", f"committed is {theirs.hex()}, prepared is {mine.hex()}")

    def _neighbour(self, way: int) -> str:
        return self._job.name(self.members[(self._position + way) % len(self.members)].worker)

    def _heartbeat(self) -> Heartbeat:
        state = self.replica.state
        live = Holding(state.generation, state.step, self.replica.digest)
        return Heartbeat(self._head(), live, self._on_disk, self.phase, self.round)

    def snapshot(self) -> dict[str, Any]:
        """Return phase, place in the job, and state by digests."""
        return {
            "phase": self.phase.name,
            "round": self.round,
            "incarnation": self.incarnation,
            "generation": self.generation,
            "view": self.view,
            "step": self.step,
            "members": self._job.members_record(self.members),
            "state": self.replica.snapshot(),
        }


def _holding(state: TrainState | None) -> Holding:
    return NOTHING if state is None else Holding(state.generation, state.step, state.digests().whole)


def _renamed(state: TrainState, generation: int, step: int) -> TrainState:
    return msgspec.structs.replace(state, generation=generation, step=step)
