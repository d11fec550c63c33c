"""What the mutations of a scenario do to whom, and when: the measure by which a shrink may only make things gentler (ruling K11).

Each thing that can be harmed has a degree, higher is harsher, as a course over time. The courses go on after the end of the run:
a fault that nothing ends is in force for ever, so a run that is cut short hides nothing. What each kind of mutation does:

* `partition` cuts pairs of hosts; `heal` ends all partitions;
* `latency_spike`, `loss_burst`, `relay_buffer`, `duplicate_burst` harm legs, and end by themselves; of those in force the last
  wins, or the largest floor, so one of them may also end the harm of another;
* `peer_kill` takes a peer down, `worker_exit` a stage; `peer_resurrect` ends either;
* `relay_kill` takes a relay down; `relay_boot` ends that, and makes the relay cold, which is a milder harm;
* `relay_capacity_change` harms as far as it takes capacity away, and ends harm as far as it gives some back;
* `relay_peer_conn_down`, `peer_pause` and `peer_slow` harm a pair or a peer and end by themselves (a duration of 0: never);
* `clock_offset` and `clock_drift` set a clock wrong, and right again.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from simharness.contracts.assertions import RelayQueueDepthBounded
from simharness.contracts.mutations import (
    AimedMutation,
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
from simharness.contracts.scenario import Scenario
from simharness.contracts.topology import Topology
from simharness.core.units import PPM

NEVER: Final = 1 << 80
"""Later than every virtual time."""

Key = tuple[str, ...]
"""What is harmed: the harm, then the ids of the peers or relays that it is about."""

_COLD, _DOWN = 1, 2
_FULL: Final = 100
_GROUPS: Final = "groups"
_MOST_CUTS: Final = 100_000
"""A partition of more pairs is one thing: it stays with its groups as they are, or goes."""
_RESTARTS: Final = "not restarted"
_LEG_HARMS: Final[dict[type[Mutation], tuple[str, str]]] = {
    LatencySpike: ("spike", "factor_x100"),
    LossBurst: ("loss", "prob_ppm"),
    RelayBuffer: ("floor", "floor_ns"),
    DuplicateBurst: ("copies", "prob_ppm"),
}
_CAPACITIES: Final = {
    "ingress": "ingress_capacity_bps",
    "egress": "egress_capacity_bps_per_link",
    "depth": "queue_depth_bytes",
}


class Window(NamedTuple):
    """A degree in [start, end)."""

    start_ns: int
    end_ns: int
    degree: int


class ClockState(NamedTuple):
    """A clock from an instant on: its error in ns * 1,000,000, and its drift."""

    from_ns: int
    error: int
    drift_ppm: int


class Harm:
    """The harm that a scenario does.

    Args:
        scenario: The scenario.
        halting: The peers that may halt by themselves, which only a resurrection ends; none of theirs counts as idle.
    """

    def __init__(self, scenario: Scenario, halting: Iterable[str] = ()) -> None:
        self._topology = Topology(scenario)
        self._relays = {relay.id: relay for relay in scenario.relays}
        self._ids = {*self._relays, *[peer.id for peer in scenario.peers]}
        self._halting = frozenset(halting)
        self._bounded = {one.relay for one in scenario.assertions if isinstance(one, RelayQueueDepthBounded)}
        self._steps: dict[Key, list[tuple[int, int]]] = {}
        self._windows: dict[Key, list[Window]] = {}
        self.clocks: dict[str, list[ClockState]] = {}
        aimed: dict[str, list[Mutation]] = {}
        for mutation in sorted(scenario.mutations, key=lambda mutation: mutation.at_ns):
            if isinstance(mutation, AimedMutation):
                aimed.setdefault(mutation.peer, []).append(mutation)
            else:
                self._take(mutation)
        for peer, mutations in aimed.items():
            self._live(peer, mutations)
            self._set_clock(peer, mutations)
        for key, windows in self._windows.items():
            self._steps[key] = self._course(key, windows)

    @property
    def keys(self) -> Iterable[Key]:
        """Everything that some mutation touches."""
        return self._steps.keys()

    def steps(self, key: Key) -> Sequence[tuple[int, int]] | None:
        """Return the degree of a harm from each instant on, the first being 0; None if what is harmed is not there."""
        found = self._steps.get(key)
        if found is not None or key[0] == _GROUPS:
            return found or [(0, 0)]
        base = self._base(key) if self._ids.issuperset(key[1:]) else None
        return None if base is None else [(0, base)]

    def _base(self, key: Key) -> int | None:
        """Return the degree of a harm that no mutation does; None if what it is about is not there."""
        match key:
            case ("loss", source, target):
                leg = self._topology.leg(source, target)
                return None if leg is None else leg.loss_prob_ppm
            case (("ingress" | "egress" | "depth") as what, relay):
                capacity: int = getattr(self._relays[relay], _CAPACITIES[what])
                return -capacity
            case ("room", relay):
                return self._relays[relay].queue_depth_bytes
            case (("spike" | "slow"), *_):
                return _FULL
        return 0

    def _step(self, key: Key, at_ns: int, degree: int) -> None:
        if key not in self._steps:
            base = self._base(key)
            assert base is not None, "a mutation names what is there"
            self._steps[key] = [(0, base)]
        self._steps[key].append((at_ns, degree))

    def _course(self, key: Key, windows: Sequence[Window]) -> list[tuple[int, int]]:
        """Return the course of windows: of those in force the last applied wins, or of floors the largest (ruling N16)."""
        base = self._base(key)
        assert base is not None, "a mutation names what is there"
        course = [(0, base)]
        for at_ns in sorted({bound for window in windows for bound in (window.start_ns, window.end_ns)}):
            degrees = [window.degree for window in windows if window.start_ns <= at_ns < window.end_ns]
            degree = base if not degrees else max(degrees) if key[0] == "floor" else degrees[-1]
            course.append((at_ns, degree))
        return course

    # --- links and relays --------------------------------------------------------------------------------------------

    def _take(self, mutation: Mutation) -> None:
        at_ns = mutation.at_ns
        match mutation:
            case Partition(peers_a=peers_a, peers_b=peers_b):
                for key in _cuts(peers_a, peers_b):
                    self._step(key, at_ns, 1)
            case Heal():
                for key in [key for key in self._steps if key[0] in ("cut", _GROUPS)]:
                    self._step(key, at_ns, 0)
            case LatencySpike() | LossBurst() | RelayBuffer() | DuplicateBurst():
                harm, field = _LEG_HARMS[type(mutation)]
                window = Window(at_ns, at_ns + mutation.duration_ns, getattr(mutation, field))
                for leg in [leg for ref in mutation.links for leg in self._topology.legs_named(ref)]:
                    self._windows.setdefault((harm, *leg), []).append(window)
            case _:
                self._take_at_relay(mutation)

    def _take_at_relay(self, mutation: Mutation) -> None:
        at_ns = mutation.at_ns
        match mutation:
            case RelayKill(relay=relay):
                self._step(("relay", relay), at_ns, _DOWN)
            case RelayBoot(relay=relay):
                cold = _COLD if self._relays[relay].cold_start_penalty_ns else 0
                self._step(("relay", relay), at_ns, cold)
            case RelayCapacityChange(relay=relay):
                self._change(relay, mutation)
            case RelayPeerConnDown(relay=relay, source=source, target=target, duration_ns=duration_ns):
                window = Window(at_ns, at_ns + duration_ns if duration_ns else NEVER, 1)
                self._windows.setdefault(("refused", relay, source, target), []).append(window)

    def _change(self, relay: str, mutation: RelayCapacityChange) -> None:
        """Less capacity is harsher, and less room too; but more room is what a bound on the queue is about."""
        for what, field in _CAPACITIES.items():
            capacity = getattr(mutation, field)
            if capacity is not None:
                self._step((what, relay), mutation.at_ns, -capacity)
                if what == "depth" and relay in self._bounded:
                    self._step(("room", relay), mutation.at_ns, capacity)

    # --- peers -------------------------------------------------------------------------------------------------------

    def _live(self, peer: str, mutations: Iterable[Mutation]) -> None:
        life = _Life()
        for mutation in mutations:
            life.take(mutation)
        life.let_exit(NEVER)
        for harm, steps in life.steps.items():
            if harm != _RESTARTS or peer in self._halting:
                self._steps[harm, peer] = [(0, 0), *steps]
        for harm, windows in (("paused", life.pauses), ("slow", life.slowings)):
            if windows:
                self._windows[harm, peer] = windows

    def _set_clock(self, peer: str, mutations: Iterable[Mutation]) -> None:
        states = [ClockState(0, 0, 0)]
        for mutation in mutations:
            last = states[-1]
            match mutation:
                case ClockOffset(at_ns=at_ns, offset_ns=offset_ns):
                    states.append(ClockState(at_ns, offset_ns * PPM, last.drift_ppm))
                case ClockDrift(at_ns=at_ns, drift_ppm=drift_ppm):
                    states.append(ClockState(at_ns, clock_at(states, at_ns).error, drift_ppm))
        if len(states) > 1:
            self.clocks[peer] = states


def _cuts(peers_a: Sequence[str], peers_b: Sequence[str]) -> list[Key]:
    if len(peers_a) * len(peers_b) > _MOST_CUTS:
        return [(_GROUPS, *peers_a, "", *peers_b)]
    return [("cut", min(a, b), max(a, b)) for a in peers_a for b in peers_b]


class _Life:
    """What becomes of one peer, as the engine has it: a dead one hears nothing, a paused one hears it when the pause is over."""

    def __init__(self) -> None:
        self.dead = self.exited = self._exits_later = False
        self._paused_until_ns = self._restarts = 0
        self.steps: dict[str, list[tuple[int, int]]] = {}
        self.pauses: list[Window] = []
        self.slowings: list[Window] = []

    def _step(self, harm: str, at_ns: int, degree: int) -> None:
        self.steps.setdefault(harm, []).append((at_ns, degree))

    def let_exit(self, now_ns: int) -> None:
        """Let the worker exit whose exit was held by a pause that is over."""
        if self._exits_later and self._paused_until_ns <= now_ns:
            self.exited, self._exits_later = True, False
            self._step("exited", self._paused_until_ns, 1)

    def take(self, mutation: Mutation) -> None:
        """Take a mutation, in the order of time."""
        at_ns = mutation.at_ns
        self.let_exit(at_ns)
        match mutation:
            case PeerKill() if not self.dead:
                self._kill(at_ns)
            case PeerResurrect():
                self._resurrect(at_ns)
            case WorkerExit() if not (self.dead or self.exited):
                self._exits_later = True
                self._paused_until_ns = max(at_ns, self._paused_until_ns)
                self.let_exit(at_ns)
            case PeerPause(duration_ns=duration_ns) if not (self.dead or self.exited):
                self.pauses.append(Window(at_ns, at_ns + duration_ns, 1))
                self._paused_until_ns = max(self._paused_until_ns, at_ns + duration_ns)
            case PeerSlow(factor_x100=factor_x100, duration_ns=duration_ns):
                self.slowings.append(Window(at_ns, at_ns + duration_ns, factor_x100))

    def _kill(self, at_ns: int) -> None:
        self.dead, self._exits_later, self._paused_until_ns = True, False, 0
        self.pauses = [window._replace(end_ns=min(at_ns, window.end_ns)) for window in self.pauses]
        self._step("dead", at_ns, 1)

    def _resurrect(self, at_ns: int) -> None:
        """Restart; how often that was done counts where a peer may have halted by itself."""
        self._restarts += 1
        self._step(_RESTARTS, at_ns, -self._restarts)
        self.dead = self.exited = False
        self._step("dead", at_ns, 0)
        self._step("exited", at_ns, 0)


def no_harsher(new: Harm, old: Harm) -> bool:
    """Tell whether a harm is at no time, and for nobody, of a higher degree than another."""
    if not all(_clock_no_worse(states, old.clocks.get(peer, _TRUE)) for peer, states in new.clocks.items()):
        return False
    for peer, states in old.clocks.items():
        if peer not in new.clocks and not _clock_no_worse(_TRUE, states):
            return False
    for key in dict.fromkeys((*new.keys, *old.keys)):
        mine, before = new.steps(key), old.steps(key)
        if mine is None or before is None:
            continue  # who is gone is not harmed
        times = sorted({at_ns for at_ns, _ in (*mine, *before)})
        if any(degree_at(mine, at_ns) > degree_at(before, at_ns) for at_ns in times):
            return False
    return True


def degree_at(steps: Sequence[tuple[int, int]], at_ns: int) -> int:
    """Return the degree that is in force at an instant; of several changes of one instant the last."""
    return next(degree for from_ns, degree in reversed(steps) if from_ns <= at_ns)


_TRUE: Final = [ClockState(0, 0, 0)]


def clock_at(states: Sequence[ClockState], at_ns: int) -> ClockState:
    """Return what a clock is at an instant."""
    last = next(state for state in reversed(states) if state.from_ns <= at_ns)
    return ClockState(at_ns, last.error + (at_ns - last.from_ns) * last.drift_ppm, last.drift_ppm)


def _clock_no_worse(new: Sequence[ClockState], old: Sequence[ClockState]) -> bool:
    """Tell whether a clock is never further off than another, nor to its other side.

    Between two changes both run straight, so it is enough that error and drift are no worse at each change, if the drift leads away
    from the right time; where it leads back, the two must be the same.
    """
    for at_ns in sorted({state.from_ns for state in (*new, *old)}):
        mine, before = clock_at(new, at_ns), clock_at(old, at_ns)
        if mine == before or not (mine.error or mine.drift_ppm):
            continue
        leads_back = before.error * before.drift_ppm < 0
        if leads_back or not (_between(mine.error, before.error) and _between(mine.drift_ppm, before.drift_ppm)):
            return False
    return True


def _between(value: int, bound: int) -> bool:
    return min(0, bound) <= value <= max(0, bound)
