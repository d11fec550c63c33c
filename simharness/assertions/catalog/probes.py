"""`no_flap_while_probes_ok` and `no_dead_when_probes_ok` (rulings V4, V7).

Both are judged observer by observer. A probe completes by `SwimProbeAcked`, or in failure by `SwimProbeTimedOut` of the indirect
phase; a direct time-out completes nothing. Between two records the probes of a pair are ok when at least one completed each way,
none in failure, and the observer's last one of the peer is younger than its suspicion timeout less one tick.

A rebuilt observer starts without memory: nothing of its former life is held against it. A resumed one goes on.
"""

from typing import Final

from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription
from simharness.assertions.lives import Lives
from simharness.assertions.setting import Setting
from simharness.assertions.shown import ALIVE, DEAD, SUSPECT
from simharness.contracts.assertions import NoDeadWhenProbesOk, NoFlapWhileProbesOk

_NEVER: Final = -1


class _Pair:
    """One observer and the peer: when probes last completed. `order` numbers count the fold's records."""

    __slots__ = (
        "acked_back",
        "acked_back_ns",
        "acked_out",
        "acked_out_ns",
        "failed",
        "failed_ns",
        "fresh_ns",
        "states",
        "timeout_ns",
    )

    def __init__(self, timeout_ns: int, tick_period_ns: int) -> None:
        self.timeout_ns = timeout_ns
        self.fresh_ns = timeout_ns - tick_period_ns
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.acked_out = self.acked_back = self.failed = _NEVER
        self.acked_out_ns = self.acked_back_ns = self.failed_ns = _NEVER
        self.states: list[tuple[str, int, Mark]] = []

    def ok_since(self, order: int, now_ns: int) -> bool:
        """Tell whether the probes of the pair were ok after the record number `order` and up to now."""
        both_ways = self.acked_out > order and self.acked_back > order
        return both_ways and self.failed <= order and now_ns - self.acked_out_ns < self.fresh_ns


class _Probes(Fold):
    """Follows transitions and probes between one peer and each of its observers."""

    def __init__(
        self, assertion: NoFlapWhileProbesOk | NoDeadWhenProbesOk, setting: Setting, board: Board, place: int
    ) -> None:
        super().__init__(board, place)
        self._peer = assertion.peer
        self._start_ns, self._end_ns = assertion.window_start_ns, assertion.window_end_ns
        self._lives = Lives(setting)
        self._pairs = {
            member.id: _Pair(member.suspicion_timeout_ns, member.tick_period_ns)
            for member in setting.members
            if member.suspicion_timeout_ns is not None and member.id != assertion.peer
        }
        self._order = 0
        self._probed = False
        self.wake(self._end_ns)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want transitions of the peer, probes to and from it, kills and resurrections."""
        peer = self._peer
        return (
            Subscription("SwimTransition", "peer", peer, self.on_transition),
            Subscription("SwimProbeAcked", "target", peer, self.on_probe_out),
            Subscription("SwimProbeAcked", "host_id", peer, self.on_probe_back),
            Subscription("SwimProbeTimedOut", "target", peer, self.on_probe_out),
            Subscription("SwimProbeTimedOut", "host_id", peer, self.on_probe_back),
            *self._lives.subscriptions(self.on_life),
        )

    def on_life(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Reset a rebuilt observer."""
        del at_ns, key
        change = self._lives.follow(host, event)
        if change is not None and change[1] == "rebuilt" and change[0] in self._pairs:
            self._pairs[change[0]].reset()

    def on_probe_out(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note the end of an observer's probe of the peer."""
        del key
        pair = self._pairs.get(host or "")
        if pair is not None and self._completed(at_ns, pair, event):
            pair.acked_out, pair.acked_out_ns = self._order, at_ns

    def on_probe_back(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note the end of the peer's probe of an observer."""
        del host, key
        pair = self._pairs.get(str(event.get("target")))
        if pair is not None and self._completed(at_ns, pair, event):
            pair.acked_back, pair.acked_back_ns = self._order, at_ns

    def on_transition(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge a transition of the peer in an observer's view."""
        pair = self._pairs.get(host or "")
        if pair is not None and self._start_ns <= at_ns <= self._end_ns and self.outcome is None:
            self._order += 1
            self.judge(pair, str(event.get("to")), Mark(at_ns, "", key))

    def on_passed(self, at_ns: int) -> None:
        """Conclude when the window is over: with no completed probe in it there was nothing to judge."""
        del at_ns
        self.conclude("Pass" if self._probed else "Inconclusive")

    def judge(self, pair: _Pair, state: str, mark: Mark) -> None:
        """Judge a transition in the window."""
        raise NotImplementedError

    def _completed(self, at_ns: int, pair: _Pair, event: Payload) -> bool:
        """Count a probe's end; return whether it was acknowledged."""
        acked = event.get("kind") == "SwimProbeAcked"
        if not acked and event.get("probe_kind") != "indirect":
            return False
        self._order += 1
        if self._start_ns <= at_ns <= self._end_ns:
            self._probed = True
        if not acked:
            pair.failed, pair.failed_ns = self._order, at_ns
        return acked


class NoFlapWhileProbesOkFold(_Probes):
    """Fails at the second Suspect of a Suspect, Alive, Suspect (equal states in a row are one) with the probes ok in between."""

    def judge(self, pair: _Pair, state: str, mark: Mark) -> None:
        """Keep the last three states."""
        states = pair.states
        if states and states[-1][0] == state:
            return
        states.append((state, self._order, mark))
        del states[:-3]
        if [name for name, _, _ in states] == [SUSPECT, ALIVE, SUSPECT] and pair.ok_since(states[0][1], mark.at_ns):
            self.conclude("Fail", *(shown for _, _, shown in states))


class NoDeadWhenProbesOkFold(_Probes):
    """Fails at a Dead whose last suspicion timeout, its first nanosecond excluded, saw the probes ok."""

    def judge(self, pair: _Pair, state: str, mark: Mark) -> None:
        """Look back one suspicion timeout."""
        since_ns = mark.at_ns - pair.timeout_ns
        both_ways = min(pair.acked_out_ns, pair.acked_back_ns) > max(since_ns, _NEVER)
        failed = pair.failed_ns > max(since_ns, _NEVER)
        fresh = mark.at_ns - pair.acked_out_ns < pair.fresh_ns
        if state == DEAD and both_ways and not failed and fresh:
            self.conclude("Fail", mark)
