"""Records of a training job, made by hand: legal unless told otherwise. The arithmetic is the float64 trainer's of `floats`."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from simharness.assertions.training_oracle.problem import Problem, problem_of, shards
from simharness.contracts.assertions import (
    Assertion,
    TrainProvenance,
    TrainReplicasIdentical,
    TrainSampleAccounting,
    TrainStepOrder,
    TrainUpdateMatchesReference,
    TrainWeights,
)
from simharness.contracts.links import LinkPolicy
from simharness.contracts.records import Termination
from simharness.contracts.scenario import MeshDecl, PeerDecl, Scenario
from simharness.scenario.emit import emit
from tests.assertions.floats import Numbers, batch_sum, hexed
from tests.assertions.support import InMemory, Judgement, Run, cited

MS: Final = 1_000_000
TICK: Final = 10 * MS
HUB: Final = "hub"
SIX: Final[tuple[Assertion, ...]] = (
    TrainUpdateMatchesReference(),
    TrainReplicasIdentical(),
    TrainSampleAccounting(),
    TrainStepOrder(),
    TrainWeights(),
    TrainProvenance(),
)
_LINK: Final = LinkPolicy(
    latency_ns=MS,
    jitter_stddev_ns=0,
    loss_prob_ppm=0,
    reorder_prob_ppm=0,
    bandwidth_bps=10**9,
    cold_dial_penalty_ns=0,
    cache_warm_after_ns=0,
    cache_invalidate_after_idle_ns=10**12,
)


def config(**more: Any) -> dict[str, Any]:
    return {
        "strategy": "ring",
        "model": "linear",
        "features": 2,
        "hidden": 2,
        "learning_rate": [1, 16],
        "momentum": [29, 32],
        "shard_sizes": [5, 9, 7],
        "batch_size": 3,
        "data_policy": "own",
    } | more


def scenario(job: Mapping[str, Any], workers: Sequence[str], assertions: Iterable[Assertion] = SIX) -> Scenario:
    peers = [PeerDecl(id=HUB, kind="train_hub", initial_state="ready", kind_config=dict(job))]
    peers += [PeerDecl(id=name, kind="train_worker", initial_state="ready", kind_config=dict(job)) for name in workers]
    return Scenario(
        name="job",
        seed=11,
        duration_ns=10**12,
        default_tick_period_ns=TICK,
        default_link=_LINK,
        peers=tuple(peers),
        meshes=(MeshDecl(),),
        assertions=tuple(assertions),
    )


class Bundle(InMemory):
    """The bundle of a job, whose scenario is emitted in full."""

    def __init__(self, made: Scenario, run: Run) -> None:
        super().__init__(made, run.records, Termination(reason="duration", at_ns=made.duration_ns))
        self._text = emit(made)


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


class State(NamedTuple):
    """What a replica holds."""

    step: int
    epoch: int
    consumed: int
    weights: Numbers
    momentum: Numbers
    samples: int

    @property
    def bitmap(self) -> bytes:
        return self.consumed.to_bytes((self.samples + 7) // 8, "little")

    @property
    def digests(self) -> list[str]:
        cursor = struct.pack("<II", self.step, self.epoch) + self.bitmap
        vectors = (bytes.fromhex(hexed(self.weights)), bytes.fromhex(hexed(self.momentum)))
        return [digest(vectors[0]), digest(vectors[1]), digest(cursor)]

    @property
    def whole(self) -> str:
        return digest(b"".join(map(bytes.fromhex, self.digests)))


class Part(NamedTuple):
    """A contribution as it goes into a commit."""

    worker: str
    incarnation: int
    seq: int
    count: int
    ids: tuple[int, ...]


Update = Callable[[State, Sequence[Part]], tuple[Numbers, Numbers]]


class Job:
    """A hub and its workers, driven step by step. Time goes on by itself."""

    def __init__(self, workers: int = 3, **more: Any) -> None:
        sizes = [5, 9, 7, 4, 6][:workers]
        self.config = config(**({"shard_sizes": sizes} | more))
        self.names = [f"w{place}" for place in range(1, workers + 1)]
        self.ring = self.config["strategy"] == "ring"
        self.problem: Problem = problem_of(self.config | {"samples": sum(self.config["shard_sizes"])}, 11)
        self.shards = dict(zip(self.names, shards(self.config["shard_sizes"]), strict=True))
        self.samples = len(self.problem.rows)
        start = [value / 65536 for value in self.problem.start]
        self.zero = State(0, 0, 0, start, [0.0] * len(start), self.samples)
        self.lineage = {0: self.zero}
        self.run = Run()
        self.now_ns = 0
        self.generation = self.view_number = 0
        self.incarnations = dict.fromkeys(self.names, 1)
        self.hub_incarnation = 1
        self.seqs = dict.fromkeys(self.names, 0)
        self.up = dict.fromkeys(self.names, True)
        self.held: dict[str, State | None] = dict.fromkeys(self.names, self.zero)
        self.disk: dict[str, State] = {}
        self.members: list[str] = []
        self.view()

    # --- the state of the job ---------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.lineage[max(self.lineage)]

    def emit(self, host: str | None, kind: str, tag: str = "train_worker", **fields: Any) -> None:
        if kind == "TrainCommit" or host == HUB:
            tag = "train_hub"
        self.run.event(self.now_ns, host, kind, tag, **fields)

    def wait(self, ms: int = 1) -> "Job":
        self.now_ns += ms * MS
        return self

    # --- what happens -----------------------------------------------------------------------------------------------

    def view(self, members: Sequence[str] | None = None) -> "Job":
        """A view of whoever is up; ring members who do not hold the state fetch it."""
        self.wait()
        self.view_number += 1
        self.members = [name for name in members or self.names if self.up[name]]
        listed = [[name, self.incarnations[name]] for name in self.members]
        place = {"generation": self.generation, "view": self.view_number, "step": self.state.step}
        self.emit(HUB, "TrainView", **place, members=listed, reason="join")
        for name in self.members if self.ring else ():
            held = self.held[name]
            if held is None or held.whole != self.state.whole:
                self.install(name, self.state)
        return self

    def install(self, name: str, state: State, source: str = "w1") -> None:
        self.emit(
            name,
            "TrainInstall",
            incarnation=self.incarnations[name],
            generation=self.generation,
            step=state.step,
            from_=source,
            digests=state.digests,
        )
        self.held[name] = state

    def plan(self) -> tuple[int, int, dict[str, tuple[int, ...]]]:
        """Epoch, consumed, and the samples of each member."""
        state = self.state
        for epoch, consumed in ((state.epoch, state.consumed), (state.epoch + 1, 0)):
            batches = self._batches(consumed)
            if any(batches.values()):
                return epoch, consumed, batches
        raise AssertionError

    def _batches(self, consumed: int) -> dict[str, tuple[int, ...]]:
        size = self.config["batch_size"]
        left = [i for i in range(self.samples) if not consumed >> i & 1]
        if self.config["data_policy"] == "own":
            return {name: tuple([i for i in left if i in self.shards[name]][:size]) for name in self.members}
        found, at = {}, 0
        for place, name in enumerate(self.members):
            run = len(left) // len(self.members) + (place < len(left) % len(self.members))
            found[name] = tuple(left[at : at + run][:size])
            at += run
        return found

    def gradient(self, name: str, ids: Sequence[int], **more: Any) -> Part:
        """A worker computes, and tells the hub."""
        self.seqs[name] += 1
        place = {"generation": self.generation, "view": self.view_number, "step": self.state.step}
        fields = {
            "incarnation": self.incarnations[name],
            "seq": self.seqs[name],
            **place,
            "base": self.state.whole,
            "ids": list(ids),
            "count": len(ids),
        } | more
        self.emit(name, "TrainGradient", **fields)
        return Part(name, self.incarnations[name], self.seqs[name], len(ids), tuple(ids))

    def deliver(self, name: str, *, view: int | None = None) -> None:
        head = struct.pack(
            "<IIIIHH",
            self.generation,
            self.view_number if view is None else view,
            self.state.step,
            self.incarnations[name],
            self.names.index(name),
            0,
        )
        tag = "READY" if self.ring else "PUSH"
        fields = {"from_": name, "to": HUB, "type_tag": tag, "byte_len": 60, "sent_at_ns": 0, "head": head.hex()}
        self.run.event(self.now_ns, HUB, "Delivered", "engine", **fields)

    def step(
        self,
        *,
        drop: Sequence[str] = (),
        late: Sequence[str] = (),
        batches: Mapping[str, Sequence[int]] | None = None,
        update: Update | None = None,
        twist: Callable[[str, State], State] | None = None,
        consumed: int = 0,
        epoch: int | None = None,
        parts: Callable[[list[Part]], list[Part]] | None = None,
        count: int = 0,
    ) -> "Job":
        """One committed step.

        Args:
            drop: Backup workers whose push comes too late.
            late: Ring members who do not apply it.
            batches: Other samples than planned.
            update: Another update than the right one.
            twist: What a replica makes of the new state.
            consumed: Samples that count as used besides.
            epoch: Another epoch than planned.
            parts: What becomes of the contributions in the commit.
            count: How much the commit's count is off.
        """
        self.wait()
        before = self.state
        planned_epoch, used, plan = self.plan()
        plan |= batches or {}
        made = [self.gradient(name, ids) for name, ids in plan.items()]
        self.wait()
        kept = [part for part in made if part.worker not in drop and (self.ring or part.ids)]
        for part in kept:
            self.deliver(part.worker)
        kept = parts(kept) if parts else kept
        epoch = planned_epoch if epoch is None else epoch
        for part in kept:
            for sample in part.ids:
                used |= 1 << sample
        self.commit(kept, epoch, count)
        weights, momentum = (update or self.update)(before, kept)
        after = State(before.step + 1, epoch, used | consumed, weights, momentum, self.samples)
        self.lineage[after.step] = after
        if self.ring:
            for name in self.members:
                if name not in late and self.up[name]:
                    self.apply(name, twist(name, after) if twist else after)
        else:
            self.held[HUB] = before
            self.apply(HUB, twist(HUB, after) if twist else after)
            self.lineage[after.step] = self.held[HUB] or after
            for name in self.members:
                self.adopt(name)
        return self

    def commit(self, kept: Sequence[Part], epoch: int, off: int = 0) -> None:
        self.emit(
            HUB,
            "TrainCommit",
            generation=self.generation,
            view=self.view_number,
            step=self.state.step,
            epoch=epoch,
            base=self.state.whole,
            contributions=[list(part[:4]) for part in kept],
            count=sum(part.count for part in kept) + off,
        )

    def apply(self, name: str, after: State, **more: Any) -> None:
        before = self.held[name] or self.lineage[after.step - 1]
        fields = {
            "incarnation": self.hub_incarnation if name == HUB else self.incarnations[name],
            "generation": self.generation,
            "view": self.view_number,
            "step": after.step,
            "pre": before.digests,
            "post": after.digests,
            "weights": hexed(after.weights),
            "momentum": hexed(after.momentum),
            "consumed": after.bitmap.hex(),
        } | more
        self.emit(name, "TrainApply", **fields)
        self.held[name] = after

    def adopt(self, name: str) -> None:
        fields = {"incarnation": self.incarnations[name], "generation": self.generation, "step": self.state.step}
        self.emit(name, "TrainAdopt", **fields, from_=HUB, digests=self.state.digests[:1])

    def update(self, before: State, parts: Sequence[Part]) -> tuple[Numbers, Numbers]:
        """The right update."""
        return self.updated(before, parts, sum(len(part.ids) for part in parts))

    def updated(
        self, before: State, parts: Sequence[Part], divisor: int, at: State | None = None
    ) -> tuple[Numbers, Numbers]:
        """The update with a divisor, and gradients taken at another state if one is named."""
        total = [0.0] * len(before.weights)
        for part in parts:
            own = batch_sum(self.problem, (at or before).weights, part.ids)
            total = [a + b for a, b in zip(total, own, strict=True)]
        momentum = [29 / 32 * v + g / divisor for v, g in zip(before.momentum, total, strict=True)]
        return [w - 1 / 16 * v for w, v in zip(before.weights, momentum, strict=True)], momentum

    def checkpoint(self, *names: str) -> "Job":
        """Checkpoints of ring workers, or of the hub."""
        for name in names or (HUB,):
            self.disk[name] = self.state
            fields = {"generation": self.generation, "step": self.state.step, "digest": self.state.whole}
            self.emit(name, "TrainCheckpoint", **fields)
        return self

    def kill(self, name: str) -> "Job":
        self.wait()
        self.run.kill(self.now_ns, name)
        self.up[name] = False
        self.held[name] = None
        return self

    def revive(self, name: str) -> "Job":
        """A fresh process."""
        self.wait()
        self.run.resurrect(self.now_ns, name)
        self.up[name] = True
        if name == HUB:
            self.hub_incarnation += 1
        else:
            self.incarnations[name] += 1
            self.seqs[name] = 0
        return self

    def roll_back(self, step: int, *, whole: str | None = None, wait_ms: int = 400) -> "Job":
        """A new generation from a state of the lineage on."""
        self.wait(wait_ms)
        self.generation += 1
        self.lineage = {at: state for at, state in self.lineage.items() if at <= step}
        digested = whole or self.state.whole
        self.emit(HUB, "TrainRollback", generation=self.generation, step=step, digest=digested, candidates=[])
        return self.view()

    def total_loss(self) -> "Job":
        """All workers die and come back."""
        for name in self.names:
            self.kill(name)
        for name in self.names:
            self.revive(name)
        return self


def verdicts(job: Job, assertions: Sequence[Assertion] = SIX) -> dict[str, tuple[Judgement, str]]:
    """Judge after the fact and while running; both must say the same. By kind: the judgement and its note."""
    from simharness.assertions import post_run
    from simharness.assertions.streaming import StreamingEvaluator

    made = scenario(job.config, job.names, assertions)
    evaluator = StreamingEvaluator(made)
    for record in job.run.records:
        evaluator.observe(record)
    live = evaluator.close(made.duration_ns)
    after = post_run.evaluate(Bundle(made, job.run))
    found = {}
    for early, late in zip(live, after, strict=True):
        assert (cited(early, job.run.records), early.note) == (cited(late, job.run.records), late.note)
        found[late.kind] = cited(late, job.run.records), str(late.note)
    return found


def failed(job: Job) -> dict[str, str]:
    """The invariants that fail, with their notes."""
    return {kind: note for kind, (judged, note) in verdicts(job).items() if judged.outcome == "Fail"}
