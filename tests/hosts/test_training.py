"""The training kinds: conformance, the table and its rules, translation (§6.2, §6.4)."""

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

from simharness.contracts.host import App, HostContext, PeerFacts, RecordEvent, ScheduleTimer, Send, Slow, TimerFired
from simharness.contracts.scenario import PeerDecl
from simharness.core.errors import EngineAbort, ScenarioError
from simharness.core.streams import Root
from simharness.disk.crash import CrashDisk
from simharness.hosts.kinds import Kinds
from simharness.hosts.training.adapter import TrainHost
from simharness.hosts.training.kind import HUB, KIND_HUB, KIND_WORKER, WORKER
from simharness.run import run_to_bundle
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from simharness.stateful.conformance import HostKindConformance
from simharness.systems.training.config import STRATEGY_OF, TrainingDefect
from simharness.systems.training.plan import Member
from simharness.systems.training.wire import (
    Chunk,
    ChunkRequest,
    Commit,
    Contribution,
    Header,
    Heartbeat,
    Holding,
    Params,
    Push,
    Ready,
    State,
    StateRequest,
    Suspect,
    View,
    contributions_bytes,
)
from simharness.training.knobs import TRAINING
from tests.tidy.check import ROOT

TICK = 10_000_000
SMALL = st.integers(0, 3)
WORKERS = st.integers(0, 1)
DIGEST = st.sampled_from([bytes(16), b"d" * 16])
HEAD = st.builds(Header, st.integers(0, 1), SMALL, SMALL, st.just(1), WORKERS, st.integers(0, 1))
FROM_HUB = st.builds(Header, st.integers(0, 1), SMALL, SMALL, st.just(1), st.just(0xFFFF), st.integers(0, 1))
CONTRIBUTIONS = st.lists(st.builds(Contribution, WORKERS, SMALL, SMALL, SMALL), max_size=2).map(tuple)
VECTOR = st.sampled_from([b"", bytes(8 * 5)])
MEMBERS = st.sampled_from([(), (Member(0, 1),), (Member(0, 1), Member(1, 1)), (Member(1, 1),)])
HOLDING = st.builds(Holding, SMALL, SMALL, DIGEST)
IDS = st.lists(st.integers(0, 20), max_size=3, unique=True).map(tuple)


def build(kind_tag: str, host_id: str, seed: int, resolved: dict[str, Any]) -> TrainHost:
    """Build a host of a job of a (worker 0), b (worker 1) and hub."""
    kinds = {"a": WORKER, "b": WORKER, "hub": HUB}
    peers = [PeerDecl(id=name, kind=kinds[name], initial_state="alive", kind_config=resolved) for name in kinds]
    return TrainHost(
        HostContext(
            host_id=host_id,
            config=resolved,
            initial_state="alive",
            tick_period_ns=TICK,
            rng=Root(seed).host_rng(host_id),
            peers=tuple(peers),
            disk=CrashDisk(),
        ),
        kind_tag,
    )


class _Job(HostKindConformance):
    initial_state = "alive"
    tick_period_ns = TICK

    def build(self, seed: int = 0) -> TrainHost:
        """Build the host among peers of both kinds."""
        validated = self.kind.validate(self.kind_config, self._facts(self.peer_ids[0]))
        assert not validated.complaints
        return build(self.kind.kind_tag, self.peer_ids[0], seed, validated.config)


class TestRingWorker(_Job):
    kind = KIND_WORKER
    kind_config: ClassVar[dict[str, Any]] = {"strategy": "ring", "guards": False}
    peer_ids = ("a", "b", "hub")

    def messages(self) -> st.SearchStrategy[Any]:
        state = st.builds(State, HEAD, SMALL, st.just(24), SMALL, st.just(bytes(40)), st.just(bytes(40)))
        travelling = CONTRIBUTIONS.map(contributions_bytes)
        chunk = st.builds(Chunk, HEAD, st.integers(3, 4), st.integers(0, 1), WORKERS, travelling, VECTOR)
        return st.one_of(
            st.builds(View, FROM_HUB, SMALL, SMALL, DIGEST, st.just(1), MEMBERS),
            st.builds(Commit, FROM_HUB, DIGEST),
            st.builds(ChunkRequest, HEAD.map(lambda head: head._replace(sender=1)), st.integers(3, 4), WORKERS),
            st.builds(StateRequest, HEAD.map(lambda head: head._replace(sender=1))),
            state,
            chunk,
        )


class TestServedWorker(_Job):
    kind = KIND_WORKER
    kind_config: ClassVar[dict[str, Any]] = {"strategy": "ps"}
    peer_ids = ("a", "b", "hub")

    def messages(self) -> st.SearchStrategy[Any]:
        return st.builds(Params, FROM_HUB, SMALL, DIGEST, IDS, VECTOR)


class TestRingHub(_Job):
    kind = KIND_HUB
    kind_config: ClassVar[dict[str, Any]] = {"strategy": "ring", "guards": False, "min_workers": 1}
    peer_ids = ("hub", "a", "b")

    def messages(self) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.builds(Heartbeat, HEAD, HOLDING, HOLDING, st.integers(0, 5), SMALL),
            st.builds(Ready, HEAD, DIGEST, DIGEST, CONTRIBUTIONS),
            st.builds(Suspect, HEAD, WORKERS),
        )


class TestServerHub(_Job):
    kind = KIND_HUB
    kind_config: ClassVar[dict[str, Any]] = {"strategy": "ps", "min_workers": 1}
    peer_ids = ("hub", "a", "b")

    def messages(self) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.builds(Heartbeat, HEAD, HOLDING, HOLDING, st.integers(0, 5), SMALL),
            st.builds(Push, HEAD, SMALL, DIGEST, SMALL, IDS, st.just(bytes(40))),
        )


FILE = """
name = "t"
seed = 1
duration_ns = 500_000_000
[default_tick]
period_ns = 10_000_000
[default_link]
latency_ns = 500_000
jitter_stddev_ns = 0
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 100_000_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 30_000_000_000
[training]
strategy = "ring"
{table}
[[meshes]]
shape = "full"
{peers}
"""


def file_with(
    table: str = "", peers: tuple[tuple[str, str], ...] = (("hub", HUB), ("w0", WORKER), ("w1", WORKER))
) -> str:
    """Return a scenario of these peers with these further lines in `[training]`."""
    entries = [f'[[peers]]\nid = "{name}"\nkind = "{kind}"\ninitial_state = "alive"\n' for name, kind in peers]
    return FILE.format(table=table, peers="".join(entries))


BAD = [
    ("shard_sizes = [4, 5]\nsamples = 10", "training.shard_sizes", "must sum to samples (9 is not 10)"),
    ("shard_sizes = [4, 5, 6]", "training.shard_sizes", "3 sizes for 2 workers"),
    ("shard_sizes = [4, 4]", "training.shard_sizes", "no step gives two workers different counts"),
    ("shard_sizes = [4, 0]", "training.shard_sizes", "integers from 1"),
    ("learning_rate = 0.1", "training.learning_rate", "[numerator, denominator]"),
    ("learning_rate = [-1, 2]", "training.learning_rate", "not negative"),
    ("momentum = [1, 3]", "training.momentum", "power of two"),
    ("momentum = [1.0, 2]", "training.momentum", "integers"),
    ("lease_ns = 29_999_999", "training.lease_ns", "at least 3 ticks"),
    ('strategy = "ps"\nbackup_workers = 2', "training.backup_workers", "less than the number of workers (2 of 2)"),
    ("backup_workers = 1", "training.backup_workers", 'needs strategy = "ps"'),
    ("min_workers = 3", "training.min_workers", "at most the number of workers (2)"),
    ("features = 17", "training.features", "must be an integer from 1 to 16"),
    ("features = 0", "training.features", "must be an integer from 1 to 16"),
    ("learning_rate = [1152921504606846976, 1]", "training.learning_rate", "both at most 2**53"),
    ("backup_grace_ns = 7", "training.backup_grace_ns", 'needs strategy = "ps"'),
    ("hidden = 5", "training.hidden", 'needs model = "mlp"; linear has no hidden units'),
    (
        'defects = ["STALE_PUSH"]',
        "training.defects[0]",
        'is a defect of strategy = "ps"; a ring job has no code for it',
    ),
    ('strategy = "ps"\ndefects = ["RECIPROCAL"]', "training.defects[0]", 'is a defect of strategy = "ring"'),
    ('defects = ["RECIPROCAL", "RECIPROCAL"]', "training.defects[1]", "RECIPROCAL is there twice"),
    ('defects = ["STATS_MEAN_OF_MEANS"]', "training.defects[0]", "needs track_stats = true"),
    ("batch_size = 1", "training.batch_size", "larger or uneven batch sizes cure that"),
    ('data_policy = "reshard"\nsamples = 16', "training.samples", "with samples = 19 one does (there are 16)"),
    ('data_policy = "reshard"\nbatch_size = 1\nshard_sizes = [1, 3]', "training.batch_size", "uneven batch sizes"),
    ("shard_sizes = [5, 5]", "training.shard_sizes", "allow_even = true only switches this check off"),
    ('model = "mlp"\nfeatures = 16\nhidden = 16', "training.hidden", "at most 256"),
    ('model = "payload"', "training.model", "record_state"),
    ("samples = 5000", "training.samples", "from 1 to 4096"),
    ("samples = 1", "training.samples", "too few for 2 workers"),
    ("batch_size = [1, 2, 3]", "training.batch_size", "3 sizes for 2 workers"),
    ("batch_size = 0", "training.batch_size", "from 1 to 4096"),
    ("loss_scale = 3", "training.loss_scale", "power of two"),
    ('defects = ["NONE"]', "training.defects[0]", "UNWEIGHTED_MEAN"),
    ('init = "ones"', "training.init", "zeros, grid"),
    ("initial_weights = [1]", "training.initial_weights", "1 numbers for 5 parameters"),
    (
        "data = { features = [[1], [2], [3]], targets = [1, 2] }\nfeatures = 1",
        "training.data.targets",
        "2 targets for 3 rows",
    ),
    (
        "data = { features = [[1, 2], [3]], targets = [1, 5] }\nfeatures = 1",
        "training.data.features[0]",
        "2 numbers for 1",
    ),
    ("pace = 1", "training.pace", "unknown field"),
    ("guards = 1", "training.guards", "true or false"),
    ("retry_ns = 0", "training.retry_ns", "from 1"),
]


@pytest.mark.parametrize(("table", "field", "rule"), BAD, ids=[table.replace("\n", " ") for table, *_ in BAD])
def test_bad_tables(table: str, field: str, rule: str) -> None:
    """Each is refused at load, once, with the field of the table and the rule."""
    text = file_with(table).replace('strategy = "ring"\nstrategy = "ps"', 'strategy = "ps"')
    with pytest.raises(ScenarioError) as caught:
        loads(text, Kinds())
    (problem,) = caught.value.problems
    assert problem.field == field
    assert rule in problem.rule


def test_a_strategy_is_required() -> None:
    """What is missing is said to be missing."""
    with pytest.raises(ScenarioError) as caught:
        loads(file_with().replace('strategy = "ring"', ""), Kinds())
    (problem,) = caught.value.problems
    assert (problem.field, problem.rule) == ("training.strategy", "is required: one of ring, ps")


def test_a_job_of_three_that_says_nothing_of_its_shards() -> None:
    """Resharding the default of 45 samples never gives two workers different counts; one sample more does."""
    peers = (("hub", HUB), ("w0", WORKER), ("w1", WORKER), ("w2", WORKER))
    with pytest.raises(ScenarioError) as caught:
        loads(file_with('data_policy = "reshard"', peers), Kinds())
    (problem,) = caught.value.problems
    assert problem.field == "training.samples"
    assert "with samples = 46 one does (there are 45)" in problem.rule
    loads(file_with('data_policy = "reshard"\nsamples = 46', peers), Kinds())


def test_every_defect_has_its_strategies() -> None:
    """A defect that only one strategy has is refused in a job of the other; the kill table has each where it is taken."""
    for defect in TrainingDefect:
        hunted = {knob.strategy for knob in TRAINING if knob.defect == defect}
        only = STRATEGY_OF.get(defect)
        assert hunted == {only} if only else defect == "NO_SYNC" or hunted == {"ring", "ps"}


@pytest.mark.parametrize(
    ("peers", "rule"),
    [
        ((("hub", HUB), ("other", HUB), ("w0", WORKER)), "'hub' is one already"),
        ((("w0", WORKER), ("w1", WORKER)), "needs a peer of kind train_hub"),
        ((("hub", HUB),), "needs at least one peer of kind train_worker"),
    ],
)
def test_bad_groups(peers: tuple[tuple[str, str], ...], rule: str) -> None:
    """A job has one hub and at least one worker."""
    with pytest.raises(ScenarioError) as caught:
        loads(file_with("shard_sizes = [7, 2]", peers), Kinds())
    assert any(rule in problem.rule and problem.field.endswith("kind") for problem in caught.value.problems)


def test_peers_of_a_job_agree() -> None:
    """A field that a peer writes otherwise is refused at that peer."""
    text = file_with() + "[peers.kind_config]\nbatch_size = 3\n"
    with pytest.raises(ScenarioError) as caught:
        loads(text, Kinds())
    assert [problem.field for problem in caught.value.problems] == ["peers[2].kind_config.batch_size"]


def test_emission_is_the_same_scenario() -> None:
    """§8.4: a table and its resolved emission load to the same value."""
    data = "data = { features = [[1], [2], [3]], targets = [1, 2, 3] }\nfeatures = 1\nshard_sizes = [1, 2]"
    for table in ("", data, "batch_size = [2, 3]\ntrack_stats = true\ninitial_weights = [1, 2, 3, 4, 5]"):
        scenario = loads(file_with(table), Kinds())
        assert loads(emit(scenario), Kinds()) == scenario


def host(kind_tag: str, name: str, **fields: Any) -> TrainHost:
    """Build a host by its table."""
    facts = PeerFacts(id=name, initial_state="alive", tick_period_ns=TICK, peer_ids=("a", "b", "hub"))
    validated = KIND_WORKER.validate({"strategy": "ps", **fields}, facts)
    assert not validated.complaints
    return build(kind_tag, name, 1, validated.config)


def test_slow_scales_computing_only() -> None:
    """Ruling K2: `Slow` stretches what is computed from now on."""
    worker = host(WORKER, "a")
    params = Params(Header(0, 1, 0, 1, 0xFFFF), 0, bytes(16), (1, 2, 3), bytes(40))
    assert worker.recv(Slow(250), 5) == ()
    actions = worker.recv(App(params), 1_000)
    assert [action for action in actions if isinstance(action, ScheduleTimer)] == [ScheduleTimer(1_000 + 7_500_000, 1)]
    assert [action.event["kind"] for action in actions if isinstance(action, RecordEvent)] == ["TrainAdopt"]


def test_a_lost_timer_is_made_up_for_by_a_tick() -> None:
    """A preserved restart loses timers (E8); the deadline is state, so the first tick after it acts as the timer."""
    worker = host(WORKER, "a")
    worker.recv(App(Params(Header(0, 1, 0, 1, 0xFFFF), 0, bytes(16), (1, 2, 3), bytes(40))), 0)
    assert [type(action) for action in worker.tick(2_999_999)] == [Send]
    assert [action.message.__class__ for action in worker.tick(3_000_000) if isinstance(action, Send)] == [
        Push,
        Heartbeat,
    ]
    assert worker.recv(TimerFired(1), 3_000_001) == [], "it is done"


def test_guards_end_the_run() -> None:
    """Ruling G8: what cannot be stops the process: an abort that names the guard, the host and the time."""
    worker = host(WORKER, "a", strategy="ring")
    members = (Member(0, 1),)
    start = worker.process.replica.digest  # type: ignore[union-attr]
    view = View(Header(0, 1, 0, 1, 0xFFFF, 1), 0, 0, start, 0, members)
    worker.recv(App(view), 0)
    worker.tick(10**9)
    with pytest.raises(EngineAbort, match="training-guard-reduction") as caught:
        worker.recv(App(Commit(Header(0, 1, 0, 1, 0xFFFF), b"x" * 16)), 10**9 + 5)
    assert (caught.value.host_id, caught.value.at_ns) == ("a", 10**9 + 5)


def test_swim_needs_no_numpy(tmp_path: Path) -> None:
    """Ruling K4, architecture 1: neither checking nor running a SWIM scenario imports numpy or the training system."""
    code = (
        "import sys\nfrom simharness.cli.main import main\n"
        f"main(['check', {str(ROOT / 'scenarios/smoke/mesh3.toml')!r}])\n"
        f"main(['run', {str(ROOT / 'scenarios/parity/own_form.toml')!r}, '--out', {str(tmp_path / 'out')!r}])\n"
        "print([name for name in sys.modules if name.startswith(('simharness.systems.training', 'numpy'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout
    assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize("name", ["clean_own", "clean_own_ps", "clean_reshard", "clean_reshard_ps"])
def test_runs_are_deterministic(name: str, tmp_path: Path) -> None:
    """Two runs of a file have one digest; the server's twin differs from it in strategy alone."""
    path = ROOT / "scenarios" / "training" / f"{name}.toml"
    digests = [run_to_bundle(load(path, Kinds()), tmp_path / str(at), Kinds()).digest for at in range(2)]
    assert digests[0] == digests[1]
    ring, served = (
        load(path.with_name(f"{name.removesuffix('_ps')}{end}.toml"), Kinds()).scenario for end in ("", "_ps")
    )
    for one, other in zip(ring.peers, served.peers, strict=True):
        assert one.kind_config | {"strategy": "ps"} == other.kind_config
