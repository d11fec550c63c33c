"""Who could have told the hub what it holds: ground truth from mutations, never a host's word (training design, I4 (d))."""

from typing import Any, Final, NamedTuple

from simharness.assertions.fold import Payload, integer
from simharness.assertions.training_facts import TrainingFacts

STEADY_TICKS: Final = 4
"""Two ticks of the hub to hear a heartbeat in, and the two that a hub listens for after its start."""
_DEVIATIONS: Final = 3
"""Jitter reaches 2.886 deviations (§5.4)."""
_FULL: Final = 100


class _Delayed(NamedTuple):
    """A timed effect on the delay of a link."""

    until_ns: int
    factor_x100: int
    floor_ns: int


class Reach:
    """Since when each worker has been up, awake and connected to the hub, the hub itself being up and awake.

    A worker counts as unconnected while its link to the hub loses messages, even now and then, and for good if the link is declared
    to, or if it is no direct one. A hub whose clock was set starts anew: its leases and waits may have run out in that instant.
    """

    def __init__(self, facts: TrainingFacts) -> None:
        self._hub, self._facts = facts.hub, facts
        self._since = {worker: 0 for worker, link in facts.links.items() if not link.loss_prob_ppm}
        self._dead: dict[str, bool] = {}
        self._cut: dict[str, bool] = {}
        self._delayed: dict[str, list[_Delayed]] = {}

    def follow(self, at_ns: int, mutation: Payload) -> str | None:
        """Take a mutation; return the worker that loses its memory by it, if one does."""
        peer = str(mutation.get("peer"))
        match mutation.get("kind"):
            case "partition":
                self._part(_names(mutation.get("peers_a")), _names(mutation.get("peers_b")))
            case "heal":
                for worker in self._cut:
                    self._begin(worker, at_ns)
                self._cut.clear()
            case "peer_kill":
                self._dead[peer] = True
            case "peer_resurrect" if self._dead.pop(peer, False):
                self._begin(peer, at_ns)
                return None if mutation.get("preserve_state") is True else peer
            case "clock_offset" if peer == self._hub:
                self._begin(peer, at_ns)
            case "peer_pause" | "loss_burst" | "latency_spike" | "relay_buffer":
                self._disturb(at_ns + integer(mutation, "duration_ns"), mutation)
        return None

    def _disturb(self, until_ns: int, mutation: Payload) -> None:
        """Take a fault that ends by itself."""
        match mutation.get("kind"):
            case "peer_pause":
                self._begin(str(mutation.get("peer")), until_ns)
            case "loss_burst" if integer(mutation, "prob_ppm"):
                for worker in self._towards_hub(mutation):
                    self._begin(worker, until_ns)
            case "latency_spike" | "relay_buffer":
                effect = _Delayed(until_ns, max(_FULL, integer(mutation, "factor_x100")), integer(mutation, "floor_ns"))
                for worker in self._towards_hub(mutation):
                    self._delayed.setdefault(worker, []).append(effect)

    def steady(self, worker: str, now_ns: int) -> int | None:
        """Return the time before which something must have been so for the hub to know of it; None if it need not know.

        That is four ticks and the longest way that a message may take, before now; None if the worker was not up, awake and
        connected all that time.
        """
        since = self._since.get(worker)
        if since is None or worker in self._cut or worker in self._dead or self._hub in self._dead:
            return None
        tick_ns = max(self._facts.ticks_ns[self._hub], self._facts.ticks_ns[worker])
        heard_ns = STEADY_TICKS * tick_ns
        before_ns = now_ns - heard_ns - self._latency_ns(worker, now_ns - heard_ns)
        return before_ns if since <= before_ns else None

    def _latency_ns(self, worker: str, since_ns: int) -> int:
        """Return the longest way from a worker to the hub of whatever arrives after `since_ns`."""
        link = self._facts.links[worker]
        slow_ns = link.latency_ns + _DEVIATIONS * link.jitter_stddev_ns
        if link.reorder_prob_ppm:
            slow_ns *= 2
        worst_ns = slow_ns
        for effect in self._delayed.get(worker, ()):
            delay_ns = max(slow_ns * effect.factor_x100 // _FULL, effect.floor_ns)
            if effect.until_ns + delay_ns > since_ns:
                worst_ns = max(worst_ns, delay_ns)
        return worst_ns + link.cold_dial_penalty_ns

    def _part(self, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        for here, there in ((one, other), (other, one)):
            if self._hub in here:
                self._cut |= {worker: True for worker in there if worker in self._since}

    def _begin(self, peer: str, at_ns: int) -> None:
        """Let a worker, or all of them with the hub, start anew."""
        for worker in self._since if peer == self._hub else (peer,):
            if worker in self._since:
                self._since[worker] = max(self._since[worker], at_ns)

    def _towards_hub(self, mutation: Payload) -> list[str]:
        """Return the workers whose link to the hub a mutation names."""
        links = mutation.get("links")
        named = [link for link in links if isinstance(link, dict)] if isinstance(links, list | tuple) else []
        return [str(link.get("from")) for link in named if link.get("to") == self._hub]


def _names(value: Any) -> tuple[str, ...]:
    return tuple([str(item) for item in value]) if isinstance(value, list | tuple) else ()
