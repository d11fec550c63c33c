"""A shrink only makes things gentler (ruling K11): nobody is harmed at a time at which the scenario did not harm him."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from simharness.contracts.assertions import (
    AllAliveAt,
    Assertion,
    ConvergenceAfter,
    EventCount,
    MessageSizeBounded,
    NameResolvesWithin,
    PeerDetectedDeadWithin,
    RelayQueueDepthBounded,
    TrainProgress,
)
from simharness.contracts.links import LinkOverrides, LinkRef, RelayDecl
from simharness.contracts.mutations import (
    MUTATION_TYPES,
    ClockDrift,
    ClockOffset,
    DuplicateBurst,
    Heal,
    LatencySpike,
    LossBurst,
    Mutation,
    Partition,
    PeerKill,
    PeerPause,
    PeerResurrect,
    PeerSlow,
    RelayBoot,
    RelayBuffer,
    RelayCapacityChange,
    RelayKill,
    RelayPeerConnDown,
    WorkerExit,
)
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario, SnapshotDecl
from simharness.contracts.topology import Direct, Topology
from simharness.core.units import PPM
from simharness.stateful import session, smaller
from simharness.stateful.gentler import Gentler
from simharness.stateful.playing import play
from simharness.stateful.reach import Reach
from simharness.stateful.registry import space_named
from simharness.stateful.session import KINDS, Options
from simharness.stateful.shrink import Shrinker
from simharness.systems.swim.members import MemberList
from tests.engine.scripted import POLICY

PEERS = "abcde"
AB = (LinkRef(source="a", target="b"),)
LEGS = (*AB, LinkRef(source="b", target="c"), LinkRef(source="d", target="e"))
RELAY = RelayDecl(
    id="R",
    ingress_capacity_bps=1_000,
    egress_capacity_bps_per_link=1_000,
    queue_depth_bytes=500,
    cold_start_penalty_ns=7,
)


def scenario(*mutations: Mutation, **more: Any) -> Scenario:
    """Four peers and a stage: a, b and c in a mesh, d and e joined by a relay, c and d by links."""
    peers = tuple(
        PeerDecl(id=i, kind="stage" if i == "b" else "echo", initial_state="ready", kind_config={}) for i in PEERS
    )
    links = [LinkDecl(source=one, target=two, via="R") for one, two in ("de", "ed")]
    links += [LinkDecl(source=one, target=two) for one, two in ("cd", "dc")]
    fields: dict[str, Any] = {
        "name": "x",
        "seed": 1,
        "duration_ns": 50,
        "default_tick_period_ns": 10,
        "default_link": replace(POLICY, loss_prob_ppm=50_000, latency_ns=20),
        "peers": peers,
        "relays": (RELAY,),
        "meshes": (MeshDecl(peers=("a", "b", "c")),),
        "links": tuple(links),
        "mutations": mutations,
    }
    return Scenario(**(fields | more))


# --- the law --------------------------------------------------------------------------------------------------------

AT = st.integers(0, 60)
LENGTH = st.integers(1, 30)
PEER = st.sampled_from(PEERS)
SOME_LEGS = st.lists(st.sampled_from(LEGS), min_size=1, max_size=2, unique=True).map(tuple)
CAPACITY = st.sampled_from((None, 10, 1_000, 5_000))
MADE = {
    Partition: {"peers_a": st.sampled_from(("a", "ab")), "peers_b": st.sampled_from(("c", "cde"))},
    Heal: {},
    LatencySpike: {"links": SOME_LEGS, "factor_x100": st.sampled_from((50, 200, 300)), "duration_ns": LENGTH},
    LossBurst: {"links": SOME_LEGS, "prob_ppm": st.sampled_from((0, 9_000, PPM)), "duration_ns": LENGTH},
    RelayBuffer: {"links": SOME_LEGS, "floor_ns": st.integers(1, 9), "duration_ns": LENGTH},
    PeerKill: {"peer": PEER},
    PeerResurrect: {"peer": PEER},
    WorkerExit: {"peer": st.just("b"), "reason": st.just("crash")},
    RelayKill: {"relay": st.just("R")},
    RelayBoot: {"relay": st.just("R")},
    RelayCapacityChange: {
        "relay": st.just("R"),
        "ingress_capacity_bps": CAPACITY,
        "egress_capacity_bps_per_link": CAPACITY,
        "queue_depth_bytes": CAPACITY,
    },
    RelayPeerConnDown: {
        "relay": st.just("R"),
        "source": st.just("d"),
        "target": st.just("e"),
        "duration_ns": st.integers(0, 30),
    },
    PeerPause: {"peer": PEER, "duration_ns": LENGTH},
    PeerSlow: {"peer": PEER, "factor_x100": st.sampled_from((50, 200, 300)), "duration_ns": LENGTH},
    ClockOffset: {"peer": PEER, "offset_ns": st.integers(-5, 5)},
    ClockDrift: {"peer": PEER, "drift_ppm": st.sampled_from((-PPM // 2, 0, PPM // 2))},
    DuplicateBurst: {"links": SOME_LEGS, "prob_ppm": st.sampled_from((9_000, PPM)), "duration_ns": LENGTH},
}
MUTATION = st.one_of([st.builds(of, at_ns=AT, **fields) for of, fields in MADE.items()])  # type: ignore[arg-type]


def in_force(of: Scenario, at_ns: int) -> dict[tuple[str, ...], int]:
    """Return every harm that is done at an instant, the slow way: by going through all that has happened until then."""
    harms: dict[tuple[str, ...], int] = {}
    topology = Topology(of)
    errors, drifts = dict.fromkeys(PEERS, 0), dict.fromkeys(PEERS, 0)
    paused: dict[str, int] = {}
    waiting: set[str] = set()  # stages whose worker exits when their pause is over
    past = sorted((one for one in of.mutations if one.at_ns <= at_ns), key=lambda one: one.at_ns)
    spans = [one for one in past if one.at_ns + getattr(one, "duration_ns", 0) > at_ns]
    for now_ns in range(at_ns + 1):
        for peer in [peer for peer in waiting if paused[peer] <= now_ns]:
            waiting.discard(peer)
            harms["exited", peer] = 1
        for peer in PEERS:
            errors[peer] += drifts[peer] if now_ns else 0
        for one in [one for one in past if one.at_ns == now_ns]:
            match one:
                case Partition():
                    harms |= {("cut", *sorted((x, y))): 1 for x in one.peers_a for y in one.peers_b}
                case Heal():
                    harms = {key: degree for key, degree in harms.items() if key[0] != "cut"}
                case PeerKill():
                    if ("dead", one.peer) not in harms:
                        paused.pop(one.peer, None)
                        waiting.discard(one.peer)
                    harms["dead", one.peer] = 1
                case PeerResurrect():
                    harms.pop(("dead", one.peer), None)
                    harms.pop(("exited", one.peer), None)
                case WorkerExit():
                    if ("dead", one.peer) not in harms and ("exited", one.peer) not in harms:
                        if paused.get(one.peer, 0) > now_ns:
                            waiting.add(one.peer)
                        else:
                            harms["exited", one.peer] = 1
                case PeerPause():
                    if ("dead", one.peer) not in harms and ("exited", one.peer) not in harms:
                        paused[one.peer] = max(paused.get(one.peer, 0), now_ns + one.duration_ns)
                case RelayKill():
                    harms["relay", one.relay] = 2
                case RelayBoot():
                    cold = next(relay.cold_start_penalty_ns for relay in of.relays if relay.id == one.relay)
                    harms["relay", one.relay] = 1 if cold else 0
                case RelayCapacityChange():
                    given = [one.ingress_capacity_bps, one.egress_capacity_bps_per_link, one.queue_depth_bytes]
                    for name, value, declared in zip("ied", given, (1_000, 1_000, 500), strict=True):
                        if value is not None:
                            harms[name, one.relay] = declared - value
                case RelayPeerConnDown():
                    if not one.duration_ns or one in spans:
                        harms["refused", one.source, one.target] = 1
                case ClockOffset():
                    errors[one.peer] = one.offset_ns * PPM
                case ClockDrift():
                    drifts[one.peer] = one.drift_ppm
    for one in spans:
        match one:
            case PeerSlow():
                harms["slow", one.peer] = one.factor_x100 - 100
            case LatencySpike() | LossBurst() | RelayBuffer() | DuplicateBurst():
                for leg in [leg for ref in one.links for leg in topology.legs_named(ref)]:
                    policy = topology.leg(*leg)
                    assert policy is not None
                    match one:
                        case LatencySpike():
                            harms["spike", *leg] = one.factor_x100 - 100
                        case LossBurst():
                            harms["loss", *leg] = one.prob_ppm - policy.loss_prob_ppm
                        case RelayBuffer():
                            harms["floor", *leg] = max(one.floor_ns, harms.get(("floor", *leg), 0))
                        case DuplicateBurst():
                            harms["copies", *leg] = one.prob_ppm
    harms |= {("paused", peer): 1 for peer, until_ns in paused.items() if until_ns > at_ns}
    harms |= {("fast", peer): error for peer, error in errors.items() if error > 0}
    return harms | {("behind", peer): -error for peer, error in errors.items() if error < 0}


def candidates(of: Scenario) -> Iterator[Scenario]:
    """Yield what every pass proposes, and the run ended at every instant."""
    for attempt in smaller.PASSES:
        yield from attempt(of)
    for end_ns in range(1, of.duration_ns, 6):
        yield from smaller.cut_at(of, end_ns)


def check_no_new_harm(candidate: Scenario, original: Scenario) -> None:
    """Compare at every instant at which anything changes, and long after."""
    here = {relay.id for relay in candidate.relays} | {peer.id for peer in candidate.peers}
    times = {0, 200}
    for one in (*original.mutations, *candidate.mutations):
        times |= {one.at_ns, one.at_ns + getattr(one, "duration_ns", 0)}
    for at_ns in sorted(times):
        mine, before = in_force(candidate, at_ns), in_force(original, at_ns)
        for key in mine.keys() | before.keys():
            if key[0] == "loss" and here.issuperset(key[1:]):  # of a burst that is gone, the link's own loss is left
                continue
            if here.issuperset(key[1:]):
                assert mine.get(key, 0) <= before.get(key, 0), (at_ns, key)


@settings(max_examples=40, deadline=None)
@given(mutations=st.lists(MUTATION, max_size=6), data=st.data())
def test_no_candidate_harms_more(mutations: list[Mutation], data: st.DataObject) -> None:
    """For drawn faults, whatever any pass proposes and the rule lets through does no harm that was not done before."""
    original = scenario(*mutations)
    allowed = list(filter(Gentler(original, KINDS, by_mutations=True).allows, candidates(original)))
    assert original.default_link.latency_ns == 0 or any(one.default_link != original.default_link for one in allowed)
    for candidate in data.draw(st.lists(st.sampled_from(allowed), min_size=1, max_size=12, unique_by=id)):
        check_no_new_harm(candidate, original)
        check_routes(candidate, original)
        nested = [one for one in candidates(candidate) if Gentler(original, KINDS, by_mutations=True).allows(one)][
            :40:8
        ]
        for smaller_one in nested:
            check_no_new_harm(smaller_one, original)


def check_routes(candidate: Scenario, original: Scenario) -> None:
    """Whoever stays has every route that he had, no slower and no lossier."""
    mine, before = Topology(candidate), Topology(original)
    ids = [peer.id for peer in candidate.peers]
    for one, two in [(one, two) for one in ids for two in ids if one != two]:
        old, new = before.route(one, two), mine.route(one, two)
        if isinstance(old, Direct):
            assert isinstance(new, Direct)
            assert new.policy.loss_prob_ppm <= old.policy.loss_prob_ppm
            assert new.policy.latency_ns <= old.policy.latency_ns
        assert old is None or new is not None


# --- every kind of mutation -------------------------------------------------------------------------------------------

ENDED = {
    Partition: (Partition(at_ns=5, peers_a=("a",), peers_b=("b",)), Heal(at_ns=9)),
    PeerKill: (PeerKill(at_ns=5, peer="a"), PeerResurrect(at_ns=9, peer="a")),
    RelayKill: (RelayKill(at_ns=5, relay="R"), RelayBoot(at_ns=9, relay="R")),
    RelayCapacityChange: (
        RelayCapacityChange(at_ns=5, relay="R", ingress_capacity_bps=1),
        RelayCapacityChange(at_ns=9, relay="R", ingress_capacity_bps=1_000),
    ),
    ClockOffset: (ClockOffset(at_ns=5, peer="a", offset_ns=3), ClockOffset(at_ns=9, peer="a", offset_ns=0)),
    ClockDrift: (ClockDrift(at_ns=5, peer="a", drift_ppm=3), ClockDrift(at_ns=9, peer="a", drift_ppm=0)),
    LatencySpike: (
        LatencySpike(at_ns=5, links=AB, factor_x100=900, duration_ns=30),
        LatencySpike(at_ns=9, links=AB, factor_x100=100, duration_ns=40),
    ),
    LossBurst: (
        LossBurst(at_ns=5, links=AB, prob_ppm=PPM, duration_ns=30),
        LossBurst(at_ns=9, links=AB, prob_ppm=0, duration_ns=40),
    ),
    DuplicateBurst: (
        DuplicateBurst(at_ns=5, links=AB, prob_ppm=PPM, duration_ns=30),
        DuplicateBurst(at_ns=9, links=AB, prob_ppm=0, duration_ns=40),
    ),
    PeerSlow: (
        PeerSlow(at_ns=5, peer="a", factor_x100=900, duration_ns=30),
        PeerSlow(at_ns=9, peer="a", factor_x100=100, duration_ns=40),
    ),
}
"""A harm, and what ends it."""

BY_ITSELF = {
    RelayBuffer: RelayBuffer(at_ns=5, links=AB, floor_ns=3, duration_ns=4),
    RelayPeerConnDown: RelayPeerConnDown(at_ns=5, relay="R", source="d", target="e", duration_ns=4),
    PeerPause: PeerPause(at_ns=5, peer="a", duration_ns=4),
    WorkerExit: WorkerExit(at_ns=5, peer="b", reason="crash"),
    RelayBoot: RelayBoot(at_ns=5, relay="R"),
}
"""A harm that nothing but its own time ends, or a resurrection that is not taken away."""


def allows(original: Scenario, *mutations: Mutation, **more: Any) -> bool:
    """Tell whether a scenario may become the same with these mutations."""
    return Gentler(original, KINDS, by_mutations=True).allows(replace(original, mutations=mutations, **more))


def test_each_kind_is_judged() -> None:
    """The two tables hold every kind of mutation; `heal` and `peer_resurrect` only end harm."""
    assert {*ENDED, *BY_ITSELF, Heal, PeerResurrect} == {*MUTATION_TYPES}


@pytest.mark.parametrize("of", ENDED)
def test_a_harm_goes_alone_or_with_its_end(of: type[Mutation]) -> None:
    """The harm, or both, may go; its end alone may not, nor be moved later or behind the end of the run; earlier it may."""
    harm, end = ENDED[of]
    original = scenario(harm, end)
    assert allows(original, end)
    assert allows(original) or of is LossBurst  # without both, the link's own loss is back, which the second had ended
    assert not allows(original, harm)
    assert not allows(original, harm, replace(end, at_ns=10))
    assert not allows(original, harm, duration_ns=8)
    longer = {"duration_ns": end.duration_ns + 1} if hasattr(end, "duration_ns") else {}
    assert allows(original, harm, replace(end, at_ns=8, **longer), duration_ns=8)
    assert not allows(original, replace(harm, at_ns=4), end)


@pytest.mark.parametrize("of", BY_ITSELF)
def test_a_harm_that_ends_by_itself(of: type[Mutation]) -> None:
    """It may go or become shorter, and neither longer nor earlier."""
    harm = BY_ITSELF[of]
    original = scenario(harm)
    assert allows(original)
    assert not allows(original, replace(harm, at_ns=4))
    if hasattr(harm, "duration_ns"):
        assert allows(original, replace(harm, duration_ns=3))
        assert not allows(original, replace(harm, duration_ns=5))
        assert not allows(original, replace(harm, duration_ns=0)) or of is not RelayPeerConnDown


def test_ends_that_are_shared() -> None:
    """One heal ends two cuts, one resurrection two kills: they stay until the last of what they end is gone."""
    first, second = (Partition(at_ns=at_ns, peers_a=("a",), peers_b=(peer,)) for at_ns, peer in ((1, "b"), (2, "c")))
    heal, late = Heal(at_ns=9), Heal(at_ns=12)
    original = scenario(first, second, heal, late)
    assert allows(original, first, heal)
    assert allows(original, second, heal)
    assert allows(original, heal)
    assert not allows(original, second)
    assert not allows(original, first, second, late)
    kills = (PeerKill(at_ns=1, peer="a"), PeerKill(at_ns=3, peer="a"))
    back, again = (PeerResurrect(at_ns=at_ns, peer="a") for at_ns in (2, 9))
    twice = scenario(*kills, again)
    assert allows(twice, kills[1], again)
    assert not allows(twice, *kills)
    between = scenario(kills[0], back, kills[1], again)
    assert not allows(between, kills[0], again)  # down between the two, where it was up
    assert allows(between, kills[0], back)
    assert allows(between, kills[1], again)


def test_a_harm_that_hid_another() -> None:
    """A pause of a dead peer harms nobody; without the kill it would."""
    kill, pause = PeerKill(at_ns=1, peer="a"), PeerPause(at_ns=5, peer="a", duration_ns=4)
    assert not allows(scenario(kill, pause), pause)
    assert allows(scenario(kill, pause), kill)


def test_a_stage_may_have_halted_by_itself() -> None:
    """A stage's worker may exit as its script says, which only a resurrection ends: of a stage none may go."""
    kill, back = PeerKill(at_ns=5, peer="b"), PeerResurrect(at_ns=9, peer="b")
    assert not allows(scenario(kill, back))
    assert allows(scenario(kill, back), back)


# --- who reaches whom -------------------------------------------------------------------------------------------------


def network(original: Scenario, **more: Any) -> bool:
    """Tell whether a scenario may have another network."""
    return Gentler(original, KINDS, by_mutations=True).allows(replace(original, **more))


def test_who_stays_keeps_his_routes() -> None:
    """A mesh, a link, a relay may go only if nobody who stays needs it; a peer only if the others reach each other without it."""
    original = scenario()
    assert not network(original, meshes=())
    assert not network(original, links=original.links[1:])
    assert not network(original, relays=(), links=original.links[2:])
    without_e = tuple(peer for peer in original.peers if peer.id != "e")
    assert network(original, peers=without_e, relays=(), links=original.links[2:])
    without_c = tuple(peer for peer in original.peers if peer.id != "c")
    mesh = (MeshDecl(peers=("a", "b")),)
    assert not network(original, peers=without_c, meshes=mesh, links=original.links[:2])  # a and d met over c
    twice = replace(
        original, meshes=(*original.meshes, MeshDecl(peers=("a", "b"), overrides=LinkOverrides(latency_ns=90)))
    )
    assert network(twice, meshes=original.meshes)
    assert not network(original, meshes=twice.meshes)  # slower


def test_who_stays_knows_somebody() -> None:
    """The only seed of a peer stays, and so does who makes two groups known to each other."""

    def knowing(**seeds: str) -> Scenario:
        peers = tuple(
            PeerDecl(id=i, kind="echo", initial_state="ready", kind_config={"seeds": list(of)})
            for i, of in seeds.items()
        )
        return scenario(peers=peers, meshes=(MeshDecl(),), links=(), relays=())

    def gone(original: Scenario) -> str:
        shrinks = [
            one for one in smaller.without_peers(original) if Gentler(original, KINDS, by_mutations=True).allows(one)
        ]
        left = [{peer.id for peer in one.peers} for one in shrinks]
        return "".join(peer.id for peer in original.peers if any(peer.id not in ids for ids in left))

    assert gone(knowing(a="", b="a", c="a")) == "bc"
    assert gone(knowing(a="bx", b="ax", c="dx", d="cx", x="ac")) == "abcd"
    assert gone(knowing(a="bc", b="ac", c="ab")) == "abc"


# --- what assertions need ---------------------------------------------------------------------------------------------


def needing(assertion: Assertion, *mutations: Mutation) -> Scenario:
    """Return a scenario with one assertion and three snapshots."""
    return scenario(*mutations, assertions=(assertion,), snapshots=tuple(SnapshotDecl(at_ns=n) for n in (5, 15, 25)))


@pytest.mark.parametrize(
    ("assertion", "free"),
    [
        (ConvergenceAfter(after_ns=10, within_ns=10, peers=("a", "b")), (0, 2)),
        (PeerDetectedDeadWithin(peer="a", after_ns=15, within_ns=10), (0, 1)),
        (NameResolvesWithin(name="n", observers=("a",), from_ns=15, within_ns=5), (0, 2)),
        (AllAliveAt(at_ns=30, peers=("a", "b")), ()),
        (MessageSizeBounded(message_kind="Ping", max_bytes=9), (0, 1, 2)),
    ],
)
def test_snapshots_that_are_looked_at_stay(assertion: Assertion, free: tuple[int, ...]) -> None:
    """Who waits for a snapshot that shows something fails without it."""
    original = needing(assertion)
    for place in range(3):
        fewer = original.snapshots[:place] + original.snapshots[place + 1 :]
        assert network(original, snapshots=fewer) == (place in free)


def test_what_must_be_noticed_must_happen() -> None:
    """A death that everybody has to notice stays, whole; others may go. A peer that must be found dead is dead for as long."""
    kill, other, back = PeerKill(at_ns=5, peer="a"), PeerKill(at_ns=5, peer="c"), PeerResurrect(at_ns=45, peer="a")
    original = needing(PeerDetectedDeadWithin(peer="a", after_ns=6, within_ns=30), kill, other, back)
    assert allows(original, kill, back)
    assert not allows(original, other, back)
    assert not allows(original, replace(kill, at_ns=6), other, back)
    assert not allows(original, kill, other, replace(back, at_ns=30))


def test_too_few_events_need_time_and_peers() -> None:
    """A count that is too low does not come from a shorter run, fewer peers or, unless they are to blame, fewer mutations."""
    kill = PeerKill(at_ns=5, peer="a")
    original = needing(EventCount(event_kind="EchoReceived", min=5), kill)
    assert allows(original)
    assert not Gentler(original, KINDS, by_mutations=False).allows(replace(original, mutations=()))
    assert not network(original, duration_ns=40)
    assert not network(original, default_link=replace(original.default_link, latency_ns=0))
    assert network(original, snapshots=())
    fewer = next(one for one in smaller.without_peers(needing(TrainProgress(after_ns=1, within_ns=9, min_steps=1))))
    assert not Gentler(needing(fewer.assertions[0]), KINDS, by_mutations=True).allows(fewer)


def test_more_room_is_harsher_to_a_bound_on_it() -> None:
    """Less room in a relay is a fault; where the queue is bounded more room is one too."""
    change = RelayCapacityChange(at_ns=5, relay="R", queue_depth_bytes=100)
    assert allows(scenario(change))
    assert not allows(needing(RelayQueueDepthBounded(relay="R", max_bytes=200), change))


# --- defects ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("defect", "space", "seed"),
    [
        ("ONE_STEP_REFUTE", "restart_rejoin", 1),
        ("FALSE_DEATH_ERASES_NAMES", "names_survive", 0),
        ("COMBINED_PIGGYBACK", "message_size", 0),
        ("COMBINED_PIGGYBACK", "relay_hol", 0),
        pytest.param("HEARSAY_OVER_EVIDENCE", "gossip_flap", 1, marks=pytest.mark.slow),
        pytest.param("REFUTE_STALE_CLAIM", "gossip_flap", 0, marks=pytest.mark.slow),
        pytest.param("REFUTE_STALE_CLAIM", "gossip_flap_healthy", 2, marks=pytest.mark.slow),
    ],
)
def test_what_is_left_of_a_defect_passes_without_it(defect: str, space: str, seed: int) -> None:
    """Every defect that an assertion catches, on a seed of each space that shows it: the shrunk file fails with it alone."""
    with session.using(Options(seed=0, swim_defects=(defect,))):
        found = space_named(space).scenario(seed)
    small = Shrinker(found, KINDS).run().scenario
    healthy = tuple(replace(peer, kind_config={**peer.kind_config, "defects": []}) for peer in small.peers)
    assert [verdict.outcome for verdict in play(small, KINDS).verdicts()] == ["Fail"]
    assert [verdict.outcome for verdict in play(replace(small, peers=healthy), KINDS).verdicts()] != ["Fail"]
    assert len(small.mutations) <= 2


@pytest.mark.parametrize(
    ("space", "kinds"),
    [("partition_heal", [Partition, Heal]), ("restart_rejoin", [PeerKill, PeerResurrect])],
)
def test_a_missing_end_is_no_bug(monkeypatch: pytest.MonkeyPatch, space: str, kinds: list[type[Mutation]]) -> None:
    """A node that refutes without outbidding the claim never comes back; the fault that shows it keeps its end."""
    found = space_named(space).scenario(0)

    def refute(members: MemberList, claim: int) -> bool:
        members.self_incarnation = max(members.self_incarnation, claim)
        return True

    with monkeypatch.context() as planted:
        planted.setattr(MemberList, "refute", refute)
        small = Shrinker(found, KINDS).run().scenario
        assert "Fail" in [verdict.outcome for verdict in play(small, KINDS).verdicts()]
    assert [type(mutation) for mutation in small.mutations] == kinds
    assert len(small.peers) == 2
    assert [verdict.outcome for verdict in play(small, KINDS).verdicts()] == ["Pass"]


def test_a_thousand_peers_are_not_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one mesh of all, peers go and policies become milder as ever; what would take every pair to see is left alone."""
    monkeypatch.setattr(Reach, "ways", None)
    peers = tuple(PeerDecl(id=f"p{n}", kind="echo", initial_state="ready", kind_config={}) for n in range(1_000))
    big = scenario(peers=peers, meshes=(MeshDecl(),), links=(), relays=())
    assert network(big, peers=peers[1:])
    assert network(big, peers=peers[1:], default_link=replace(big.default_link, loss_prob_ppm=0))
    assert not network(big, default_link=replace(big.default_link, loss_prob_ppm=50_001))
    assert not network(big, meshes=())
    star = replace(big, meshes=(MeshDecl(shape="star", overrides=LinkOverrides(latency_ns=9)),))
    assert network(star, meshes=(MeshDecl(shape="star", overrides=LinkOverrides(latency_ns=8)),))
    assert not network(star, meshes=(MeshDecl(shape="star", overrides=LinkOverrides(latency_ns=10)),))
    assert not network(star, peers=peers[1:])
    halves = Partition(at_ns=5, peers_a=tuple(big.peers[n].id for n in range(500)), peers_b=("p998", "p999") * 250)
    cut = replace(big, mutations=(halves, Heal(at_ns=9)))
    assert allows(cut)
    assert allows(cut, halves, Heal(at_ns=8))
    assert not allows(cut, halves)
    assert not allows(cut, replace(halves, peers_a=("p0",)), Heal(at_ns=8))  # what it cuts is not looked at closely
