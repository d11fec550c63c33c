"""Production under the invariants, without an engine: the world of its own tests, with deliveries and faults on record."""

from typing import Any

from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts.assertions import Assertion, Verdict
from simharness.contracts.links import LinkPolicy
from simharness.contracts.mutations import Heal, Mutation, Partition, PeerKill, PeerPause, PeerResurrect
from simharness.contracts.scenario import MeshDecl, PeerDecl, Scenario
from simharness.systems.training.table import config_from, group_rules, resolve
from simharness.systems.training.wire import Message
from tests.assertions.support import Run
from tests.assertions.training_history import SIX
from tests.systems.training.jobs import TICK_NS
from tests.systems.training.world import LATENCY_NS, World

MS = 1_000_000


class Watched(World):
    """A world whose records are those of a run. `fields` are those of the `[training]` table."""

    def __init__(self, workers: int, seed: int = 0, *, loss: int = 0, double: int = 0, late: int = 0, **fields: Any):
        self.table, wrong = resolve({"strategy": "ring", **fields}, tick_period_ns=TICK_NS, workers=workers)
        assert not wrong
        assert not group_rules(self.table, workers)
        names = [f"w{index:02}" for index in range(workers)]
        config = config_from(self.table, workers=names, hub="hub", tick_period_ns=TICK_NS)
        self.record = Run()
        self._cut_pairs: dict[tuple[str, str], bool] = {}
        super().__init__(config, seed, loss=loss, double=double, late=late)
        self.cut = self._is_cut

    def _is_cut(self, source: str, target: str, message: Message) -> bool:
        del message
        return (source, target) in self._cut_pairs

    def _note(self) -> None:
        for at_ns, host, event in self.records:
            tag = "train_hub" if host == self.config.hub else "train_worker"
            fields = {("from_" if name == "from" else name): value for name, value in event.items()}
            self.record.event(at_ns, host, fields.pop("kind"), tag, **fields)
        self.records.clear()

    def _do(self, name: str, effects: list[Any]) -> None:
        super()._do(name, effects)
        self._note()

    def _deliver(self, name: str, tag: str, data: bytes) -> None:
        if tag in ("READY", "PUSH", "CHUNK") and name in self.processes and name not in self.paused:
            sender = int.from_bytes(data[16:18], "little")
            fields = {
                "from_": self.job.name(sender),
                "to": name,
                "type_tag": tag,
                "byte_len": len(data),
                "sent_at_ns": 0,
            }
            self.record.event(self.now_ns, name, "Delivered", "engine", **fields, head=data[:20].hex())
        super()._deliver(name, tag, data)

    # --- faults -----------------------------------------------------------------------------------------------------

    def fault(self, mutation: Mutation) -> None:
        """Do what a mutation says, and put it on record."""
        self.record.mutate(mutation)
        match mutation:
            case PeerKill(peer=peer):
                self.kill(peer)
            case PeerResurrect(peer=peer) if peer not in self.processes:
                self.start(peer)
            case PeerPause(peer=peer, duration_ns=duration_ns, at_ns=at_ns) if peer not in self.paused:
                self.paused.append(peer)
                self.at(at_ns + duration_ns, self.paused.remove, peer)
            case Partition(peers_a=one, peers_b=other):
                self._cut_pairs |= {pair: True for a in one for b in other for pair in ((a, b), (b, a))}
            case Heal():
                self._cut_pairs.clear()

    def plan(self, *mutations: Mutation) -> None:
        """Let mutations happen when they are due."""
        for mutation in mutations:
            self.at(mutation.at_ns, self.fault, mutation)

    # --- verdicts ---------------------------------------------------------------------------------------------------

    def scenario(self, assertions: tuple[Assertion, ...] = SIX) -> Scenario:
        worst_ns = LATENCY_NS * (120 if self.late else 1)
        link = LinkPolicy(
            latency_ns=worst_ns,
            jitter_stddev_ns=0,
            loss_prob_ppm=1000 * self.loss,
            reorder_prob_ppm=0,
            bandwidth_bps=10**9,
            cold_dial_penalty_ns=0,
            cache_warm_after_ns=0,
            cache_invalidate_after_idle_ns=10**12,
        )
        kinds = {name: "train_hub" if name == self.config.hub else "train_worker" for name in self.names}
        peers = [PeerDecl(id=n, kind=kind, initial_state="ready", kind_config=self.table) for n, kind in kinds.items()]
        return Scenario(
            name="watched",
            seed=self.seed,
            duration_ns=10**12,
            default_tick_period_ns=TICK_NS,
            default_link=link,
            peers=tuple(peers),
            meshes=(MeshDecl(),),
            assertions=assertions,
        )

    def verdicts(self, assertions: tuple[Assertion, ...] = SIX) -> dict[str, Verdict]:
        """The verdicts on the run so far."""
        evaluator = StreamingEvaluator(self.scenario(assertions))
        for record in self.record.records:
            evaluator.observe(record)
        return {verdict.kind: verdict for verdict in evaluator.close(self.now_ns)}

    def failed(self) -> dict[str, str]:
        """The invariants that fail, with their notes."""
        return {kind: str(v.note) for kind, v in self.verdicts().items() if v.outcome == "Fail"}
