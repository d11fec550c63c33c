"""The machine: it finds a planted bug, shrinks it, says how to replay it, and holds nothing outside its instance."""

import msgspec
import pytest

from simharness.contracts.assertions import EventCount
from simharness.contracts.host import Halt, RecordEvent, ScheduleTimer
from simharness.contracts.mutations import LossBurst
from simharness.core.units import NS_PER_MS
from simharness.scenario.emit import emit
from simharness.scenario.loader import loads
from simharness.stateful import (
    LATENCY_SPIKE,
    LOSS_BURST,
    PARTITION,
    PEER_KILL,
    PEER_RESURRECT,
    ConvergenceAfter,
    NoFlapWhileProbesOk,
    SelfIncarnationBounded,
    SimulationMachine,
    ints,
    meshes,
    swarm,
    swim_meshes,
)
from simharness.stateful.failures import describe, folder_name, replay_lines
from simharness.stateful.machine import machine_settings
from simharness.stateful.playing import play
from simharness.stateful.profiles import CI, FIX, NIGHTLY
from simharness.stateful.session import KINDS, Options, Session
from tests.stateful.running import explore
from tests.stateful.toy import StreamHost, StreamKind


class NoGap(SimulationMachine):
    scenarios = meshes(kind=StreamKind(), peers=ints(2, 4))
    faults = swarm(LOSS_BURST, LATENCY_SPIKE)
    assertions = (EventCount(event_kind="Gap", max=0),)
    max_duration_ms = 3_000
    max_steps = 8
    budget = 60


@pytest.fixture(scope="module")
def found():
    """What the search for the planted bug has found: the ledger and the error."""
    ledger, error = explore(NoGap)
    assert error is not None
    return ledger, error


class HealthyStream(SimulationMachine):
    scenarios = NoGap.scenarios
    faults = swarm(LATENCY_SPIKE)
    assertions = NoGap.assertions
    max_duration_ms = 3_000
    max_steps = 12
    budget = 20


def test_the_planted_bug_is_found_and_shrunk(found):
    """A lost message is never sent again: one burst on one link, two peers, seed 0, and the file fails when it is run."""
    ledger, error = found
    failure = error.failure
    scenario = failure.scenario
    assert failure.kind == "event_count"
    assert (len(scenario.peers), scenario.seed) == (2, 0)
    (burst,) = scenario.mutations
    assert isinstance(burst, LossBurst)
    assert len(burst.links) == 1
    played = play(loads(failure.toml(), KINDS), KINDS)
    assert [verdict.outcome for verdict in played.verdicts()] == ["Fail"]
    assert played.digest() == failure.digest
    assert ledger.failures["event_count"].toml() == failure.toml()


def test_a_healthy_space_passes_within_its_budget():
    """Without loss the stream has no gap: the budget is used up, every verdict is counted, one run at least was repeated."""
    ledger, error = explore(HealthyStream)
    assert error is None
    assert ledger.examples == 20
    assert dict(ledger.outcomes) == {"Pass": 20}
    assert len(ledger.rows) == 20
    assert 1 <= ledger.reruns < 20
    assert ledger.counters["latency_spike"] > 0


def test_every_example_runs_twice_if_asked():
    """Law 3: `--sim-twice` runs all of them again, from the emitted text, and finds one digest each."""
    ledger, error = explore(HealthyStream, twice=True)
    assert error is None
    assert ledger.reruns == ledger.examples


def test_the_text_of_a_failure_is_enough_to_replay_it(found):
    """The text holds the verdict, its evidence, the file's path, both commands, and the scenario itself."""
    _, error = found
    session = Session(Options(seed=0, swim_defects=("REFUTE_STALE_CLAIM",)))
    failure = error.failure
    text = describe(failure, session)
    assert "event_count(event_kind=Gap, max=0) is Fail at" in text
    assert '"event":{"kind":"Gap","number":' in text
    assert f"scenario: .simharness/failures/{folder_name(failure)}/scenario.toml" in text
    assert f"replay:   simharness run .simharness/failures/{folder_name(failure)}/scenario.toml" in text
    assert "scenario.toml  # once stream is an entry point of simharness.kinds" in text
    assert text.endswith(emit(failure.scenario))
    named = msgspec.structs.replace(failure, test_id="properties/test_x.py::TestNoGap::runTest")
    assert replay_lines(named, session)[1] == (
        "pytest properties/test_x.py::TestNoGap::runTest --hypothesis-seed=0 --sim-profile=dev"
        " --swim-defect=REFUTE_STALE_CLAIM"
    )


def test_tests_never_share_a_folder(found):
    """Ids that differ in a character that no file name may hold get folders of their own."""
    _, error = found

    ids = ("a/b.py::T::r", "a-b.py::T::r", "a/b.py::T::r[1/2]", "a/b.py::T::r[1-2]", "x" * 300, "x" * 301)
    names = [folder_name(msgspec.structs.replace(error.failure, test_id=test)) for test in ids]
    assert len(set(names)) == len(ids)
    assert all(len(name) < 100 and "/" not in name for name in names)


class SwimHeals(SimulationMachine):
    scenarios = swim_meshes(peers=ints(3, 4), latency_ms=ints(5, 60))
    faults = swarm(PARTITION, PEER_KILL, PEER_RESURRECT)
    assertions = (ConvergenceAfter.in_quiet_phase(within_ms=30_000), SelfIncarnationBounded.each_peer(max_value=1_000))
    max_duration_ms = 8_000
    max_steps = 15
    quiet_ms = 30_000
    budget = 20


def test_the_quiet_phase_lets_a_cluster_converge():
    """Whatever was cut or killed, after the faults have ended the cluster agrees; heals and kills had an effect."""
    ledger, error = explore(SwimHeals)
    assert error is None
    assert ledger.outcomes["Inconclusive"] == 0
    for counter in ("heal", "partition", "peer_kill", "peer_resurrect", "precondition:convergence_after"):
        assert ledger.counters[counter] > 0


class Flap(SimulationMachine):
    scenarios = swim_meshes(
        peers=ints(4, 6),
        latency_ms=ints(120, 150),
        jitter_ms=ints(15, 40),
        loss_ppm=ints(5_000, 30_000),
        probe_timeout_ms=200,
    )
    assertions = (NoFlapWhileProbesOk.each_peer(), SelfIncarnationBounded.each_peer(max_value=35))
    budget = 3


def test_the_deployed_profile_fails_at_once():
    """K1: the session's profile is all it takes; the failure shrinks to at most four peers and no mutation."""
    _, error = explore(Flap, swim_profile="deployed", profile=FIX)
    assert error is not None
    assert error.failure.kind in ("no_flap_while_probes_ok", "self_incarnation_bounded")
    assert "--swim-profile=deployed" not in replay_lines(error.failure, Session(Options()))[0]
    assert error.failure.scenario.mutations == ()


class Fragile(StreamHost):
    """Raises on its fifth number."""

    def recv(self, message, now_ns):
        if getattr(message, "message", 0) == 5:
            raise RuntimeError("fifth")
        return super().recv(message, now_ns)


class FragileKind(StreamKind):
    kind_tag = "fragile"

    def new(self, context):
        return Fragile(context)


class Aborts(SimulationMachine):
    scenarios = meshes(kind=FragileKind(), peers=ints(2, 4))
    assertions = (EventCount(event_kind="Gap", max=0),)
    max_duration_ms = 3_000
    max_steps = 12
    budget = 10


def test_an_abort_is_a_failure_with_a_file():
    """A host that raises ends the run with a structured error; the emitted scenario reaches it again."""
    from simharness.core.errors import EngineAbort

    _, error = explore(Aborts)
    assert error.failure.kind == "engine_abort"
    assert "host-raised" in error.failure.headline
    assert "RuntimeError: fifth" in error.failure.headline
    with pytest.raises(EngineAbort, match="fifth"):
        play(loads(error.failure.toml(), KINDS), KINDS)


class Counting(StreamHost):
    """Tells how many of its kind this process has built: the kind of leak that two runs in one process show."""

    built = 0

    def __init__(self, context):
        super().__init__(context)
        type(self).built += 1
        self._serial = self.built

    def tick(self, now_ns):
        return [*super().tick(now_ns), RecordEvent({"kind": "Serial", "number": self._serial})]


class CountingKind(StreamKind):
    kind_tag = "counting"

    def new(self, context):
        return Counting(context)


class Leaks(SimulationMachine):
    scenarios = meshes(kind=CountingKind(), peers=ints(2, 3))
    assertions = (EventCount(event_kind="Gap", max=0),)
    max_duration_ms = 2_000
    max_steps = 8
    budget = 10


def test_nondeterminism_is_found_and_shown():
    """Law 3: the first example of a property runs twice; a difference names the first divergent record."""
    ledger, error = explore(Leaks)
    assert error.failure.kind == "nondeterminism"
    assert ledger.diverged
    assert any('first run:  {"virtual_time_ns":' in line for line in error.failure.evidence)
    assert any('"kind":"Serial"' in line for line in error.failure.evidence)


def test_unordered_members_are_caught_by_running_twice():
    """Defect UNORDERED_MEMBERS: member order from a per-process counter is lost determinism (design table)."""

    class Unordered(SimulationMachine):
        scenarios = swim_meshes(peers=ints(4, 5), latency_ms=20, loss_ppm=50_000)
        assertions = (SelfIncarnationBounded.each_peer(max_value=1_000),)
        max_duration_ms = 6_000
        max_steps = 10
        budget = 10

    _, error = explore(Unordered, twice=True, swim_defects=("UNORDERED_MEMBERS",))
    assert error is not None
    assert error.failure.kind == "nondeterminism"
    assert explore(Unordered, twice=True)[1] is None


class Quits(StreamHost):
    """Halts on its first timer; asks for one on its first tick."""

    def tick(self, now_ns):
        return [ScheduleTimer(now_ns + 30 * NS_PER_MS, 1), *super().tick(now_ns)]

    def recv(self, message, now_ns):
        return [Halt()] if type(message).__name__ == "TimerFired" else super().recv(message, now_ns)


class QuitsKind(StreamKind):
    kind_tag = "quits"

    def new(self, context):
        return Quits(context)


def test_two_machines_at_once_do_not_meet():
    """State lives in the instance: interleaved steps of two machines give what each gives alone."""

    class Quitters(SimulationMachine):
        scenarios = meshes(kind=QuitsKind(), peers=3)
        faults = swarm(PEER_KILL)
        assertions = (EventCount(event_kind="Gap", max=0),)

    from hypothesis import find

    from simharness.contracts.mutations import PeerKill
    from simharness.stateful import session
    from simharness.stateful.machine import Base

    bases = [Base(find(meshes(kind=QuitsKind(), peers=count), lambda _: True)) for count in (3, 4)]

    def steps(machine, base):
        yield lambda: machine.begin(base=base, enabled=("peer_kill",), again=False)
        yield lambda: machine.advance(ms=500)
        yield lambda: machine.peer_kill(fault=PeerKill(at_ns=500 * NS_PER_MS, peer="b"))
        yield lambda: machine.advance(ms=1_000)

    def run(*interleaved):
        machines = [Quitters() for _ in interleaved]
        for step in zip(*map(steps, machines, interleaved), strict=True):
            for act in step:
                act()
        return [machine.run.finish("x").digest() for machine in machines]

    with session.using(Options()):
        together, alone = run(*bases), [*run(bases[0]), *run(bases[1])]
    assert together == alone
    assert together[0] != together[1]


def test_profiles_scale_the_budget():
    """`fix` tries 25 examples at most and does not shrink; nothing has a deadline or a health check of speed."""
    from hypothesis import HealthCheck, Phase

    from simharness.stateful import session

    counts = {}
    for profile in (FIX, CI, NIGHTLY):
        with session.using(Options(profile=profile, seed=1)):
            chosen = machine_settings(NoGap)
        counts[profile.name] = chosen.max_examples
        assert chosen.deadline is None
        assert HealthCheck.too_slow in chosen.suppress_health_check
        assert chosen.database is None
        assert (Phase.shrink in chosen.phases) is (profile is not FIX)
    assert counts == {"fix": 25, "ci": 120, "nightly": 1_200}


def test_steps_of_a_failing_example_are_short():
    """The printed base says what it is in one line, not in a hundred."""
    from simharness.stateful.machine import Base

    assert repr(Base(play_base())) == "<2 stream peers, seed 0>"


def play_base():
    from hypothesis import find

    return find(NoGap.scenarios, lambda _: True)
