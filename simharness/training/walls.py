"""What the simulator itself costs on this machine, in processor time: the one place of the room that reads a clock (`measured`)."""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from simharness.assertions.streaming import StreamingEvaluator
from simharness.assertions.training_oracle.ieee import decode
from simharness.assertions.training_oracle.problem import problem_of
from simharness.assertions.training_oracle.reference import Oracle, State
from simharness.contracts.assertions import TRAINING_INVARIANTS
from simharness.contracts.host import KindRegistry
from simharness.contracts.ports import LiveEvaluator
from simharness.contracts.records import EventRecord, Record
from simharness.contracts.scenario import Scenario
from simharness.core.streams import Root
from simharness.core.units import NS_PER_S
from simharness.run import engine_for
from simharness.scenario.loader import loads
from simharness.systems.training.job import Job
from simharness.systems.training.plan import Member
from simharness.systems.training.state import TrainState, mask
from simharness.systems.training.table import config_from, resolve

STRATEGIES: Final = ("ring", "ps")
MODELS: Final = ("linear", "sqhinge", "mlp")
BATCHES: Final = 8
"""Of four samples each, in the step that the reference judges."""
_TICK_NS: Final = 10_000_000
_REPEATS: Final = 50


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of one size, a second of processor time."""

    strategy: str
    workers: int
    plain: float
    """Steps of one process that does the same plan, gradient and update on the union."""
    bare: float
    """Steps of the simulated job, nothing recorded."""
    judged: float
    """Steps with the six invariants on the running events, no bundle."""
    events: float
    """Dispatches of the bare run."""
    echo: float
    """Dispatches of a mesh of eight echo peers that record nothing."""


def pace_of(strategy: str, workers: int, kinds: KindRegistry, *, virtual_ns: int, rounds: int) -> Pace:
    """Measure one size: every round runs all four, the fastest of each counts."""
    bare = job_of(strategy, workers, kinds, virtual_ns, judged=False)
    judged = job_of(strategy, workers, kinds, virtual_ns, judged=True)
    echo = echo_mesh(kinds, virtual_ns=virtual_ns)
    spent: dict[str, list[float]] = {"plain": [], "bare": [], "judged": [], "events": [], "echo": []}
    for _ in range(rounds):
        _, echoed, echo_s = run(echo, kinds, None)
        spent["echo"].append(echoed / echo_s)
        steps, dispatches, seconds = run(bare, kinds, None)
        spent["bare"].append(steps / seconds)
        spent["events"].append(dispatches / seconds)
        judged_steps, _, judged_s = run(judged, kinds, StreamingEvaluator(judged))
        spent["judged"].append(judged_steps / judged_s)
        spent["plain"].append(steps / timed(lambda: plain_loop(bare, steps)))  # noqa: B023  # called at once
    return Pace(strategy=strategy, workers=workers, **{name: max(rates) for name, rates in spent.items()})


def timed(work: Callable[[], object]) -> float:
    """Return the processor seconds that something takes."""
    started = time.process_time_ns()
    work()
    return max(1, time.process_time_ns() - started) / NS_PER_S


def plain_loop(scenario: Scenario, steps: int) -> TrainState:
    """Train on the union of all batches in one process, without network, hub or records; return the last state."""
    job = _job(scenario)
    members = tuple([Member(index, 1) for index in range(len(job.config.workers))])
    state = job.start
    for _ in range(steps):
        plan = job.planner.plan_step(state, members)
        ids = tuple([sample for batch in plan.batches for sample in batch])
        sums = job.kernel.gradient_sum(state.weights, ids, scale=1)
        mean = job.kernel.mean(sums, scale=1, divisor=len(ids), stats_divisor=len(ids))
        weights, momentum = job.kernel.update(state.weights, state.momentum, mean)
        state = TrainState(
            step=state.step + 1,
            generation=0,
            epoch=plan.epoch,
            consumed=plan.consumed | mask(ids),
            samples=state.samples,
            weights=weights,
            momentum=momentum,
        )
    return state


def _job(scenario: Scenario) -> Job:
    (hub,) = [peer for peer in scenario.peers if peer.kind == "train_hub"]
    workers = [peer.id for peer in scenario.peers if peer.kind == "train_worker"]
    config = config_from(hub.kind_config, workers=workers, hub=hub.id, tick_period_ns=scenario.default_tick_period_ns)
    root = Root(scenario.seed)
    return Job(config, lambda label: root.system("training", label))


class OracleCost(NamedTuple):
    """What judging one step of 32 samples costs."""

    model: str
    parameters: int
    milliseconds: float
    over_production: float
    """Times the production gradient of the same batch."""


def oracle_cost(model: str, *, rounds: int) -> OracleCost:
    """Measure the reference route on one step of eight workers, four samples each, at the first parameters."""
    table, wrong = resolve(
        {"strategy": "ring", "model": model, "init": "grid"}, tick_period_ns=_TICK_NS, workers=BATCHES
    )
    assert not wrong, wrong
    names = [f"w{index}" for index in range(BATCHES)]
    root = Root(1)
    job = Job(
        config_from(table, workers=names, hub="hub", tick_period_ns=_TICK_NS),
        lambda label: root.system("training", label),
    )
    oracle = Oracle(problem_of(table, 1))
    batches = [tuple(range(4 * at, 4 * at + 4)) for at in range(BATCHES)]
    ids = tuple([sample for batch in batches for sample in batch])
    weights = decode(job.start.weights.hex())
    still = decode(job.start.momentum.hex())
    assert weights is not None
    assert still is not None
    state = State(weights, still)
    judged = min(timed(lambda: oracle.judge(state, state, batches)) for _ in range(rounds))
    made = min(
        timed(lambda: [job.kernel.gradient_sum(job.start.weights, ids, scale=1) for _ in range(_REPEATS)])
        for _ in range(rounds)
    )
    return OracleCost(model, oracle.length, judged * 1000, judged / (made / _REPEATS))


class _Commits:
    """A `RecordSink` that counts steps."""

    def __init__(self) -> None:
        self.steps = 0

    def write_record(self, record: Record) -> None:
        """Count a commit."""
        if isinstance(record, EventRecord) and record.event["kind"] == "TrainCommit":
            self.steps += 1


def run(scenario: Scenario, kinds: KindRegistry, evaluator: LiveEvaluator | None) -> tuple[int, int, float]:
    """Return steps, dispatches and seconds of a run."""
    sink = _Commits()
    engine = engine_for(scenario, kinds, sink, evaluator=evaluator)
    seconds = timed(engine.run)
    return sink.steps, engine.dispatches, seconds


def echo_mesh(kinds: KindRegistry, *, virtual_ns: int) -> Scenario:
    """Return a mesh of eight echo peers that record nothing: what the engine does if its hosts do next to nothing."""
    names = [f"p{index}" for index in range(8)]
    text = _HEAD.format(duration=virtual_ns, training="")
    for name in names:
        others = ", ".join(f'"{other}"' for other in names if other != name)
        text += f'[[peers]]\nid = "{name}"\nkind = "echo"\ninitial_state = "ready"\n'
        text += f"kind_config = {{ targets = [{others}], payload_bytes = 200, records = false }}\n"
    return loads(text + _MESH, kinds, name="echo")


def job_of(strategy: str, workers: int, kinds: KindRegistry, virtual_ns: int, *, judged: bool) -> Scenario:
    """Return the job that is timed: no fault, no loss; `judged`: with its states on record and the six invariants."""
    lines = [f'strategy = "{strategy}"', 'model = "linear"', f'record_state = "{"all" if judged else "none"}"']
    text = _HEAD.format(
        duration=virtual_ns,
        training="\n".join(["[training]", *lines, *(["allow_even = true"] if workers == 1 else [])]),
    )
    peers: Sequence[tuple[str, str]] = [
        ("hub", "train_hub"),
        *((f"w{index}", "train_worker") for index in range(workers)),
    ]
    for name, kind in peers:
        text += f'[[peers]]\nid = "{name}"\nkind = "{kind}"\ninitial_state = "alive"\nkind_config = {{}}\n'
    text += _MESH
    if judged:
        text += "".join(f'[[assertions]]\nkind = "{kind.__struct_config__.tag}"\n' for kind in TRAINING_INVARIANTS)
    return loads(text, kinds, name=f"wall-{strategy}-{workers}")


_HEAD: Final = """\
name = "wall"
seed = 1
duration_ns = {duration}
[default_tick]
period_ns = 10_000_000
[default_link]
latency_ns = 100_000
jitter_stddev_ns = 0
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 1_250_000_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 30_000_000_000
occupancy = "wire"
{training}
"""
_MESH: Final = '[[meshes]]\nshape = "full"\n'
