"""Random runs and random assertions about them: few names, short times, so that things meet."""

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from simharness.contracts import assertions as kinds
from simharness.contracts.assertions import Assertion
from simharness.contracts.scenario import PeerDecl
from tests.assertions.support import Run, stage, swim

HOSTS: Final = ("a", "b", "c", "s")
CASTS: Final[tuple[tuple[PeerDecl, ...], ...]] = (
    (swim("a"), swim("b"), swim("c"), stage("s")),
    (swim("a"), swim("b", initial_incarnation=2), stage("c", node=True), stage("s", node=True)),
)
LAST_NS: Final = 30

_STATES: Final = st.sampled_from(("Alive", "Alive", "Suspect", "Dead"))
_SUBJECTS: Final = ("b", "b", "a", "c")
_TIMES: Final = st.integers(0, LAST_NS)
_KINDS: Final = (
    "turn", "turn", "turn", "turn", "ack", "ack", "ack", "ack", "timeout", "bump", "sent", "enqueue", "dequeue", "drop", "life",
    "life", "cache", "cache", "other", "commit",
)  # fmt: skip
_PROBING: Final = ("suspect", "suspect", "alive", "alive", "dead", "both", "both", "both", "both", "ack", "timeout")


@st.composite
def runs(draw: st.DrawFn, max_instants: int = 12) -> Run:
    """A run in the order of the engine: in an instant first ticks, mutations, snapshots, the rest. The dead do nothing.

    Half of the runs are about `a` and `b` probing each other, so that flaps among good probes do occur.

    `CacheStateChange` alone is stamped before now (ruling V6).
    """
    run = Run()
    dead: dict[str, bool] = {}
    kinds, hosts, subjects = draw(st.sampled_from(((_KINDS, HOSTS, _SUBJECTS), (_PROBING, ("a", "a", "b"), ("b",)))))

    def some_event(at_ns: int) -> None:
        alive = _alive(hosts, dead)
        if alive:
            kind, host, subject = (
                draw(st.sampled_from(kinds)),
                draw(st.sampled_from(alive)),
                draw(st.sampled_from(subjects)),
            )
            _event(draw, run, at_ns, kind, host, subject)

    for at_ns in draw(st.lists(_TIMES, min_size=1, max_size=max_instants, unique=True).map(sorted)):
        for _ in range(draw(st.sampled_from((0, 0, 0, 1)))):
            some_event(at_ns)
        if draw(st.integers(0, 5)) == 0:
            _mutation(draw, run, at_ns, dead)
        if draw(st.integers(0, 2)) == 0:
            for host in _alive(draw(st.permutations(HOSTS)) if draw(st.booleans()) else HOSTS, dead):
                if draw(st.integers(0, 7)):
                    _snapshot(draw, run, at_ns, host)
        for _ in range(draw(st.integers(0, 4))):
            some_event(at_ns)
    return run


def _alive(hosts: Sequence[str], dead: dict[str, bool]) -> list[str]:
    return [host for host in hosts if host not in dead]


def _mutation(draw: st.DrawFn, run: Run, at_ns: int, dead: dict[str, bool]) -> None:
    peer = draw(st.sampled_from(HOSTS))
    match draw(st.integers(0, 4)):
        case 0:
            run.relay_kill(at_ns, draw(st.sampled_from(("R", "R", "Q"))))
        case 1 | 2:
            run.kill(at_ns, peer)
            dead[peer] = True
        case _:
            run.resurrect(at_ns, draw(st.sampled_from([*dead] or [peer])), preserve=draw(st.booleans()))
            dead.pop(run.records[-1].mutation.peer, None)  # type: ignore[union-attr]


def _snapshot(draw: st.DrawFn, run: Run, at_ns: int, host: str) -> None:
    usual = draw(st.sampled_from(("Alive", "Alive", "Dead")))
    states = dict.fromkeys(("a", "c", "s"), "Alive") | {"b": usual}
    if draw(st.integers(0, 3)) == 0:
        states[draw(st.sampled_from(_SUBJECTS))] = draw(_STATES)
    if draw(st.integers(0, 5)) == 0:
        states.pop(draw(st.sampled_from(_SUBJECTS)), None)
    states.pop(host, None)
    names = draw(st.sampled_from(((), ("x",), ("x", "y"))))
    run.snap(at_ns, host, states, names=names, incarnation=draw(st.sampled_from((0, 0, 0, 1, 3))))


def _event(draw: st.DrawFn, run: Run, at_ns: int, kind: str, host: str, subject: str) -> None:
    match kind:
        case "turn":
            if host != subject:
                run.turn(at_ns, host, subject, draw(_STATES), draw(_STATES))
        case "suspect" | "alive" | "dead":
            run.turn(at_ns, "a", subject, "Alive", kind.capitalize())
        case "both":
            run.acked(at_ns, "a", subject).acked(at_ns, subject, "a")
        case "ack":
            if host != subject:
                run.acked(at_ns, host, subject)
        case "timeout":
            if host != subject:
                run.timed_out(at_ns, host, subject, draw(st.sampled_from(("direct", "indirect"))))
        case "bump":
            own = draw(st.integers(0, 3))
            run.event(at_ns, host, "SwimIncarnationBumped", from_=own, to=own + 1, claimed_by="a")
        case "sent":
            run.sent(at_ns, host, draw(st.sampled_from(("swim::Ping", "swim::Ack"))), draw(st.integers(0, 5)))
        case "enqueue":
            run.relay(at_ns, "RelayEnqueue", draw(st.integers(1, 4)), draw(st.sampled_from(("R", "R", "R", "Q"))))
        case "dequeue":
            run.relay(at_ns, "RelayDequeue", draw(st.integers(1, 4)))
        case "drop":
            run.relay(at_ns, "RelayDrop", 9)
        case "life":
            if host == "s":
                run.lifecycle(at_ns, "s", "Registering", draw(st.sampled_from(("Running", "Running", "Halted"))))
        case "cache":
            late = max(0, at_ns - draw(st.integers(0, 9)))
            run.event(late, host, "CacheStateChange", "engine", from_=host, to="b", transition="warmed")
        case "commit":
            run.event(at_ns, host, "TrainCommit", "train_hub", generation=0, step=draw(st.integers(0, 3)))
        case _:
            run.event(at_ns, host, "tick", draw(st.sampled_from(("swim", "stage", "engine"))))


_PEERS: Final = st.sampled_from((("a", "b"), ("a", "b", "c"), ("b", "a"), ("a", "b", "c", "s")))
_PEER: Final = st.sampled_from(("b", "b", "a", "s"))
_SMALL: Final = st.integers(0, 4)
_WIDTH: Final = st.integers(0, 20)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, int]:
    """A window, both ends included."""
    start_ns = draw(st.just(0) | st.integers(0, 12))
    return {"window_start_ns": start_ns, "window_end_ns": start_ns + draw(_WIDTH)}


def _windowed(kind: type[Assertion], *, peers: bool = False) -> st.SearchStrategy[Assertion]:
    names = {"peers": _PEERS} if peers else {"peer": st.sampled_from(("b", "b", "b", "b", "a", "s"))}
    return st.builds(lambda window, **more: kind(**window, **more), windows(), **names)


_COUNTED: Final = st.sampled_from(
    ("SwimTransition", "CacheStateChange", "CacheStateChange", "Mutation", "SwimProbeAcked")
)

OF_KIND: Final[dict[type[Assertion], st.SearchStrategy[Assertion]]] = {
    kinds.AllAliveAt: st.builds(kinds.AllAliveAt, at_ns=_TIMES, peers=_PEERS),
    kinds.AllAliveThroughout: _windowed(kinds.AllAliveThroughout, peers=True),
    kinds.ConvergenceAfter: st.builds(
        kinds.ConvergenceAfter, after_ns=st.integers(0, 12), within_ns=_WIDTH, peers=_PEERS
    ),
    kinds.NoFlapWhileProbesOk: _windowed(kinds.NoFlapWhileProbesOk),
    kinds.NoDeadWhenProbesOk: _windowed(kinds.NoDeadWhenProbesOk),
    kinds.SelfIncarnationBounded: st.builds(kinds.SelfIncarnationBounded, peer=_PEER, max_value=_SMALL),
    kinds.MessageSizeBounded: st.builds(
        kinds.MessageSizeBounded, message_kind=st.sampled_from(("swim::Ping", "Ping", "Ack")), max_bytes=_SMALL
    ),
    kinds.DeadPeerResurrectsWithin: st.builds(
        kinds.DeadPeerResurrectsWithin, peer=_PEER, after_ns=st.integers(0, 12), within_ns=_WIDTH
    ),
    kinds.EventCount: st.one_of(
        st.builds(kinds.EventCount, event_kind=_COUNTED, max=_SMALL, peer=st.none() | _PEER),
        st.builds(kinds.EventCount, event_kind=_COUNTED, min=_SMALL, peer=st.none() | _PEER),
        st.builds(kinds.EventCount, event_kind=_COUNTED, min=st.integers(0, 2), max=st.integers(2, 5)),
    ),
    kinds.EventRate: st.builds(
        kinds.EventRate, event_kind=_COUNTED, window_ns=st.integers(1, 6), max_per_window=_SMALL
    ),
    kinds.RelayQueueDepthBounded: st.one_of(
        st.builds(kinds.RelayQueueDepthBounded, relay=st.just("R"), max_bytes=st.integers(0, 9)),
        st.builds(
            lambda window, max_bytes: kinds.RelayQueueDepthBounded(relay="R", max_bytes=max_bytes, **window),
            windows(),
            st.integers(0, 9),
        ),
    ),
    kinds.WorkerAliveThroughout: st.builds(lambda window: kinds.WorkerAliveThroughout(peer="s", **window), windows()),
    kinds.NameResolvesWithin: st.builds(
        kinds.NameResolvesWithin,
        name=st.sampled_from(("x", "y")),
        observers=st.sampled_from((("a",), ("a", "b"), ("c", "b", "a"))),
        within_ns=_WIDTH,
        from_ns=st.integers(0, 12),
    ),
    kinds.PeerDetectedDeadWithin: st.builds(
        kinds.PeerDetectedDeadWithin,
        peer=st.sampled_from(("b", "b", "s")),
        after_ns=st.integers(0, 12),
        within_ns=_WIDTH,
    ),
    kinds.TrainProgress: st.builds(
        kinds.TrainProgress, after_ns=st.integers(0, 12), within_ns=_WIDTH, min_steps=st.integers(1, 2)
    ),
}
ASSERTIONS: Final = st.one_of(*OF_KIND.values())
CAST: Final = st.sampled_from(CASTS)
