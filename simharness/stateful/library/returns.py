"""Coming back: after a cut, after a restart, after a pause, and what a false death must not destroy."""

from collections.abc import Iterator

from simharness.contracts.assertions import Assertion, ConvergenceAfter
from simharness.contracts.assertions import DeadPeerResurrectsWithin as Resurrects
from simharness.contracts.assertions import NameResolvesWithin as Resolves
from simharness.contracts.mutations import Heal, Partition, PeerKill, PeerResurrect
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS
from simharness.stateful.library.deaths import dead_everywhere_ms
from simharness.stateful.scripted import SpaceMachine
from simharness.stateful.spaces import Numbers, Space, swim_cluster
from simharness.stateful.swim_laws import ANSWERED_IS_NOT_ACCUSED, BACK_IN_TWO_REFUTES, PAUSE_IS_EXCUSED
from simharness.stateful.templates import Facts, Template
from simharness.stateful.topologies import peer_ids

_REPROBE_MS = 2_500
"""Interval of the re-probe of the dead: five probe intervals."""

_CUT_MS = 1_000


def back_everywhere_ms(dead: int) -> int:
    """Return how long it takes until nobody is held Dead any more, at no more than 5 % loss.

    Each observer re-probes its dead in turn, one an interval; every other round trip may be lost.
    """
    return 2 * (dead + 1) * _REPROBE_MS


def _cut(numbers: Numbers, **more: object) -> Scenario:
    """Cut off the last `away` peers until both sides hold each other Dead, then heal."""
    peers = numbers["peers"]
    ids, away = peer_ids(peers), min(numbers["away"], peers - 1)
    heal_ms = _CUT_MS + dead_everywhere_ms(peers)
    duration_ms = heal_ms + back_everywhere_ms(max(away, peers - away))
    cut = Partition(at_ns=_CUT_MS * NS_PER_MS, peers_a=ids[:-away], peers_b=ids[-away:])
    return swim_cluster(
        numbers,
        duration_ms=duration_ms,
        script=(cut, Heal(at_ns=heal_ms * NS_PER_MS)),
        snapshots_ms=(heal_ms, *range(heal_ms + 1_000, duration_ms, 1_000), duration_ms),
        **more,  # type: ignore[arg-type]  # keywords of the cluster
    )


def _after_heal(facts: Facts) -> Iterator[Assertion]:
    """Ask that all agree at some instant, and, where loss makes nobody suspected, that at the last one nobody is held Dead."""
    peers = facts.peers("swim")
    lossless = not facts.scenario.default_link.loss_prob_ppm
    for mutation in facts.mutations:
        if isinstance(mutation, Heal):
            within_ns = facts.end_ns - mutation.at_ns
            yield ConvergenceAfter(after_ns=mutation.at_ns, within_ns=within_ns, peers=peers)
            for peer in peers if lossless else ():
                yield Resurrects(peer=peer, after_ns=mutation.at_ns, within_ns=within_ns)


class PartitionHeal(SpaceMachine):
    """After a cut that was long enough for both sides to bury each other, everybody is Alive to everybody again.

    What brings them together is the re-probe of the dead alone: its Ping carries the claim, its Ack the refutation.
    """

    space = Space(
        name="partition_heal",
        numbers={
            "peers": range(3, 8),
            "latency_ms": range(5, 101, 5),
            "loss_ppm": range(0, 50_001, 10_000),
            "away": range(1, 4),
        },
        build=_cut,
        assertions=(Template(_after_heal),),
    )
    budget = 30


def _cut_with_names(numbers: Numbers) -> Scenario:
    return _cut(numbers, own=lambda peer: {"names": [f"service-{peer}"]})


def _names_resolve(facts: Facts) -> Iterator[Assertion]:
    """Ask that every name resolves everywhere: it does before the heal at the owner only, and in the end at all."""
    peers = facts.peers("swim")
    last_ns = max((snapshot.at_ns for snapshot in facts.scenario.snapshots), default=0)
    for mutation in facts.mutations:
        if isinstance(mutation, Heal) and last_ns <= facts.end_ns:
            for peer in peers:
                yield Resolves(
                    name=f"service-{peer}", observers=peers, from_ns=last_ns, within_ns=facts.end_ns - last_ns
                )


class NamesSurvive(SpaceMachine):
    """A name whose owner was taken for dead resolves again everywhere, once the owner is known to be alive.

    The snapshot at the end decides, so a name must not only come back but stay. Exists for FALSE_DEATH_ERASES_NAMES: the tombstone
    outranked the owner's registration, and nothing made the owner register again.
    """

    space = Space(
        name="names_survive",
        numbers={
            "peers": range(3, 7),
            "latency_ms": range(5, 101, 5),
            "loss_ppm": range(0, 50_001, 10_000),
            "away": range(1, 3),
        },
        build=_cut_with_names,
        assertions=(Template(_names_resolve),),
    )
    budget = 30


_KILL_MS = 1_000


def _restarted(numbers: Numbers) -> Scenario:
    peers = numbers["peers"]
    victim = peer_ids(peers)[numbers["victim"] % peers]
    back_ms = _KILL_MS + dead_everywhere_ms(peers)
    duration_ms = back_ms + back_everywhere_ms(1)
    return swim_cluster(
        numbers,
        duration_ms=duration_ms,
        config={"initial_incarnation": numbers["incarnation"]},
        script=(
            PeerKill(at_ns=_KILL_MS * NS_PER_MS, peer=victim),
            PeerResurrect(at_ns=back_ms * NS_PER_MS, peer=victim),
        ),
        snapshots_ms=(back_ms, duration_ms),
    )


def _after_restart(facts: Facts) -> Iterator[Assertion]:
    for mutation in facts.mutations:
        if isinstance(mutation, PeerResurrect):
            within_ns = facts.end_ns - mutation.at_ns
            yield Resurrects(peer=mutation.peer, after_ns=mutation.at_ns, within_ns=within_ns)


class RestartRejoin(SpaceMachine):
    """A process that died and starts anew, remembering nothing, is Alive everywhere again after at most two refutations.

    Whatever incarnation it had before, up to the highest that can still be refuted. Exists for ONE_STEP_REFUTE: a refutation that
    adds one needs as many rounds as the old incarnation was high.
    """

    space = Space(
        name="restart_rejoin",
        numbers={
            "peers": range(3, 7),
            "latency_ms": range(5, 101, 5),
            "incarnation": (50, 0, 1, 2, 3, 10, 1_000, 2**62, 2**63 - 3),
            "victim": range(6),
        },
        build=_restarted,
        assertions=(Template(_after_restart),),
        laws=(BACK_IN_TWO_REFUTES,),
    )
    budget = 30


def _frozen(numbers: Numbers) -> Scenario:
    """Freeze a peer; if `lost_ms` is not 0, another one has been dead for so long by then."""
    ids, victim = peer_ids(numbers["peers"]), numbers["victim"]
    asleep, lost = ids[victim % len(ids)], ids[(victim + 1) % len(ids)]
    freeze_ms = numbers["freeze_ms"] + numbers["lost_ms"]
    thaw_ms = freeze_ms + numbers["pause_ms"]
    loss = (PeerKill(at_ns=numbers["freeze_ms"] * NS_PER_MS, peer=lost),) if numbers["lost_ms"] else ()
    return swim_cluster(
        numbers,
        duration_ms=thaw_ms + 5_000,
        script=(
            *loss,
            PeerKill(at_ns=freeze_ms * NS_PER_MS, peer=asleep),
            PeerResurrect(at_ns=thaw_ms * NS_PER_MS, peer=asleep, preserve_state=True),
        ),
    )


class PauseExcused(SpaceMachine):
    """A node that was frozen at any phase of a probe and goes on with its memory holds nobody guilty of its own silence.

    The Ack that came while nobody listened is lost; the probe ends without a verdict, and suspicions start anew: in most examples
    one is running when the node is frozen, of a peer that has died, and it must not run out before a whole timeout since.
    Exists for OWN_PAUSE_COUNTED: ticks are counted, so the open probe went on as if nothing had been, and failed; and for
    TIMER_SURVIVES_PAUSE.
    """

    space = Space(
        name="pause_excused",
        numbers={
            "peers": range(2, 6),
            "latency_ms": range(20, 201, 10),
            "freeze_ms": range(500, 2_001, 10),
            "pause_ms": range(300, 5_001, 100),
            "victim": range(5),
            "lost_ms": (0, *range(1_400, 3_401, 100)),
        },
        build=_frozen,
        laws=(PAUSE_IS_EXCUSED,),
    )
    budget = 40


def _whispering(numbers: Numbers) -> Scenario:
    """Cut off the last of the peers until it suspects the others, let it say so for a moment, and cut it off again."""
    ids = peer_ids(numbers["peers"])
    heal_ms = _CUT_MS + numbers["cut_ms"]
    again_ms = heal_ms + numbers["open_ms"]
    cuts = [Partition(at_ns=at_ms * NS_PER_MS, peers_a=ids[:-1], peers_b=ids[-1:]) for at_ms in (_CUT_MS, again_ms)]
    return swim_cluster(
        numbers,
        duration_ms=again_ms + 2_000,
        timeout_ms=400,
        suspicion_ms=6_000,
        script=(cuts[0], Heal(at_ns=heal_ms * NS_PER_MS), cuts[1]),
    )


class RumoursSettled(SpaceMachine):
    """What is said of a peer is settled by its answer: whoever has had that accuses it of it no more.

    The third of three peers suspects the others behind a cut that is too short to bury anybody, and whispers to one of them while
    that one's probe of the other is under way. Exists for CLAIM_SURVIVES_ACK: a claim that the Ack did not settle accuses the peer
    with the next Ping, and is believed if that one is late.
    """

    space = Space(
        name="rumours_settled",
        numbers={
            "peers": (3,),
            "latency_ms": range(100, 191, 10),
            "cut_ms": range(2_000, 4_001, 20),
            "open_ms": range(450, 901, 25),
        },
        build=_whispering,
        laws=(ANSWERED_IS_NOT_ACCUSED,),
    )
    budget = 60
