"""One directed leg: policy, state, draws and the send algorithm of §5.4."""

from typing import Final, NamedTuple

from simharness.contracts.links import LinkPolicy
from simharness.contracts.network import Delay, Notice
from simharness.core.streams import Root, Stream
from simharness.core.units import NS_PER_S, PPM
from simharness.network.jitter import sample_ns
from simharness.network.notices import cache_change, dial_outcome, dial_start
from simharness.network.windows import Windows

_COLD: Final = 0
_WARMING: Final = 1
_WARM: Final = 2

_DRAWS: Final = 3
"""Draws a send owes on each leg of its route: loss, jitter index, reorder (ruling N8)."""

_UNSPIKED: Final = 100
_CALM: Final = (0, _UNSPIKED, 0, False)
"""No jitter, no spike, no floor, no reorder."""


class Crossing(NamedTuple):
    """One message over one leg: when it arrives, why then, and what is to be recorded."""

    at_ns: int
    delay: Delay
    notices: tuple[Notice, ...]


class _Lent(Stream):
    """The draws of one send that were made from another stream."""

    __slots__ = ("_draws",)

    def __init__(self, draws: tuple[int, int, int]) -> None:
        self._draws = draws

    def triple(self) -> tuple[int, int, int]:
        """Return them."""
        return self._draws


class Leg:
    """A directed edge between two vertices, made when it first carries or is named.

    Draws are owed rather than made: a leg whose policy needs none only counts them, and catches up when a value is first
    needed. The values are the same as if every send had drawn at once.
    """

    __slots__ = (
        "_host_id",
        "_last_arrive_ns",
        "_last_send_ns",
        "_noisy",
        "_owed",
        "_policy",
        "_root",
        "_set_aside",
        "_since_ns",
        "_state",
        "_stream",
        "_turns",
        "_windows",
        "_wire",
        "_wire_free_ns",
        "source",
        "target",
    )

    def __init__(self, source: str, target: str, policy: LinkPolicy, root: Root, *, from_host: bool) -> None:
        self.source, self.target = source, target
        self._host_id = source if from_host else None  # a relay is no host: its records name none (ruling R11)
        self._policy, self._root = policy, root
        self._noisy = bool(policy.loss_prob_ppm or policy.jitter_stddev_ns or policy.reorder_prob_ppm)
        self._wire = policy.occupancy == "wire"
        self._stream: Stream | None = None
        self._owed = 0
        self._set_aside: tuple[Stream | None, int] = (None, 0)
        self._windows: Windows | None = None
        self._last_send_ns = self._last_arrive_ns = self._wire_free_ns = 0
        self._state = _COLD
        self._since_ns = 0  # when it was last dialled
        # A relay's outbound leg is sent over ahead of the clock. It keeps the turns of its cache that lie ahead, behind the
        # last one that has come, because a mutation may undo them.
        self._turns: list[tuple[int, int]] | None = None if from_host else [(0, _COLD)]

    @property
    def state(self) -> tuple[int, int, int, int, int]:
        """What a refused send must leave alone (ruling N7): last send, last arrival, free wire, cache and its age."""
        return self._last_send_ns, self._last_arrive_ns, self._wire_free_ns, self._state, self._since_ns

    def windows(self, now_ns: int) -> Windows:
        """Return the timed effects of this leg, to add one; those that have ended by `now_ns` are gone."""
        if self._windows is None or not self._windows.forget(now_ns):
            self._windows = Windows()
        return self._windows

    def owe(self) -> None:
        """Count the draws of a send that is over before it reaches this leg."""
        self._owed += _DRAWS

    def lend(self, draws: tuple[int, int, int]) -> None:
        """Let the next send use these draws, until `take_back`: it is a copy, which moves no draw of the leg's own."""
        self._set_aside = self._stream, self._owed
        self._stream, self._owed = _Lent(draws), 0

    def take_back(self) -> None:
        """Go on drawing from the leg's own stream."""
        self._stream, self._owed = self._set_aside

    def duplicate_ppm(self, when_ns: int) -> int | None:
        """Return the probability of a copy that is in force at `when_ns`, None if there is no burst."""
        return None if self._windows is None else self._windows.duplicate_ppm.at(when_ns)

    def cross(  # noqa: C901  # the steps of §5.4 in their order, on the hot path
        self, byte_len: int, sent_ns: int, now_ns: int
    ) -> Crossing | None:
        """Send over this leg (§5.4, steps 3 to 11). None if the message is lost, which changes nothing but the draws.

        Args:
            byte_len: Bytes on the wire.
            sent_ns: When the message enters the leg; on a relay's outbound leg that is ahead of the clock.
            now_ns: The clock; never before that of the last call.
        """
        if self._noisy or self._windows is not None:
            weather = self._weather(sent_ns, now_ns)
            if weather is None:
                return None
        else:
            self._owed += _DRAWS
            weather = _CALM
        jitter, spike_x100, floor, swapped = weather
        policy = self._policy
        latency = policy.latency_ns

        # Step 4. Under `wire` the link is free when the last byte has left, not when it has arrived (ruling N1).
        last_arrive = self._last_arrive_ns
        busy = self._wire_free_ns if self._wire else last_arrive
        queued = busy > sent_ns
        start = busy if queued else sent_ns
        transmission = byte_len * NS_PER_S // policy.bandwidth_bps
        end = start + transmission

        # Steps 5 to 7. Jitter never takes an arrival before the end of serialisation (ruling N2).
        travel = latency + jitter
        clamp = spike = lift = dial = wait = swap = 0
        if travel < 0:
            travel, clamp = 0, -travel
        if spike_x100 != _UNSPIKED:
            spike = travel * spike_x100 // _UNSPIKED - travel
        arrival = end + travel + spike
        if floor and sent_ns + floor > arrival:
            lift = sent_ns + floor - arrival
            arrival += lift

        # Step 8. The idle rule is judged here, after every reason to refuse (rulings N5, N6).
        quiet = sent_ns - self._last_send_ns
        idle = quiet > policy.cache_invalidate_after_idle_ns
        dialled = idle or self._state == _COLD
        if dialled:
            dial = policy.cold_dial_penalty_ns
            arrival += dial

        if self._wire:
            if last_arrive + transmission > arrival:
                wait = last_arrive + transmission - arrival
                arrival += wait
            self._wire_free_ns = end
        self._last_arrive_ns = arrival  # the undelayed arrival, so that the next message can overtake (ruling N4)
        if swapped:
            reach = (latency + 3 * policy.jitter_stddev_ns) * spike_x100 // _UNSPIKED
            swap = transmission + reach + 1
            arrival += swap

        terms = (latency, start - sent_ns, transmission, jitter, clamp, spike, lift, dial, wait, swap, 0, 0, 0)
        notices = () if self._state == _WARM and not idle else self._cache_follows(sent_ns, arrival, now_ns, idle=idle)
        if quiet > 0:
            self._last_send_ns = sent_ns
        return tuple.__new__(Crossing, (arrival, tuple.__new__(Delay, terms), notices))

    def invalidate(self, at_ns: int) -> Notice | None:
        """Make the leg cold because one of its ends died; return the transition's notice, if there was one (ruling E13)."""
        idle_limit = self._last_send_ns + self._policy.cache_invalidate_after_idle_ns
        state, turns = self._state, self._turns
        while turns and turns[-1][0] > at_ns:
            turns.pop()  # a dial that lay ahead: its message is lost
        was_cold = state == _COLD or bool(turns and turns[-1][1] == _COLD)
        self._turn(at_ns, _COLD, at_ns)
        if state != _COLD and at_ns > idle_limit:  # the idle rule comes first (rulings N9, N10)
            return self._change(idle_limit, "idle_cooled")
        return None if was_cold else self._change(at_ns, "invalidated")

    def _weather(self, sent_ns: int, now_ns: int) -> tuple[int, int, int, bool] | None:
        """Make this send's draws; return its jitter, spike factor, floor and whether it is reordered, or None if lost."""
        policy = self._policy
        loss_ppm, spike_x100, floor = policy.loss_prob_ppm, _UNSPIKED, 0
        windows = self._windows
        if windows is not None:
            if not windows.forget(now_ns):
                self._windows = windows = None
            else:
                burst_ppm, factor = windows.burst_ppm.at(sent_ns), windows.spike_x100.at(sent_ns)
                floor = windows.floor_ns.at(sent_ns)
                loss_ppm = loss_ppm if burst_ppm is None else burst_ppm
                spike_x100 = _UNSPIKED if factor is None else factor
        if not (self._noisy or loss_ppm):
            self._owed += _DRAWS
            return 0, spike_x100, floor, False
        loss_draw, jitter_draw, reorder_draw = self._caught_up().triple()
        if (loss_draw >> 32) % PPM < loss_ppm:
            return None
        stddev = policy.jitter_stddev_ns
        jitter = sample_ns(jitter_draw >> 56, stddev) if stddev else 0
        return jitter, spike_x100, floor, (reorder_draw >> 32) % PPM < policy.reorder_prob_ppm

    def _caught_up(self) -> Stream:
        """Return the leg's stream with every owed draw made."""
        stream = self._stream
        if stream is None:
            stream = self._stream = self._root.link(self.source, self.target)
        if self._owed:
            for _ in range(self._owed):
                stream.u64()
            self._owed = 0
        return stream

    def _cache_follows(self, sent_ns: int, arrival_ns: int, now_ns: int, *, idle: bool) -> tuple[Notice, ...]:
        """Apply an accepted send to the cache state; return what is to be recorded (§5.4 steps 8 and 10)."""
        notices: list[Notice] = []
        policy, host_id, source, target = self._policy, self._host_id, self.source, self.target
        if idle and self._state != _COLD:
            cooled_ns = self._last_send_ns + policy.cache_invalidate_after_idle_ns
            self._turn(cooled_ns, _COLD, now_ns)
            notices.append(self._change(cooled_ns, "idle_cooled"))
        if self._state == _COLD:
            self._since_ns = sent_ns
            self._turn(sent_ns, _WARMING, now_ns)
            notices.append(dial_start(sent_ns, host_id, source, target))
            notices.append(dial_outcome(arrival_ns, host_id, source, target))
        if self._state == _WARMING and sent_ns - self._since_ns >= policy.cache_warm_after_ns:
            self._state = _WARM
            notices.append(self._change(self._since_ns + policy.cache_warm_after_ns, "warmed"))
        return tuple(notices)

    def _turn(self, at_ns: int, state: int, now_ns: int) -> None:
        """Become cold or be dialled at `at_ns`."""
        self._state = state
        turns = self._turns
        if turns is not None:
            while len(turns) > 1 and turns[1][0] <= now_ns:
                turns.pop(0)
            turns.append((at_ns, state))

    def _change(self, at_ns: int, transition: str) -> Notice:
        return cache_change(at_ns, self._host_id, self.source, self.target, transition)
