"""A node's side of the probes that others ask it for: whose they are, what was answered, and what is owed meanwhile."""

from collections import deque
from typing import Final, NamedTuple

from simharness.systems.swim.ids import NodeId

MAX_PENDING: Final = 16


def nack_after(probe_timeout: int) -> int:
    """Return after how many ticks without an answer a nack is due: four fifths of the timeout, so that it comes in time."""
    return max(1, probe_timeout * 4 // 5)


class Relayed(NamedTuple):
    """A relayed probe: who asked for it, and the sequence numbers on both sides."""

    requester: NodeId
    target: NodeId
    asked: int
    sent: int


class Relays:
    """The relayed probes that are open, the latest sixteen, and the nacks (Lifeguard) that are owed for them."""

    __slots__ = ("_nacks", "_pending")

    def __init__(self) -> None:
        self._pending: deque[Relayed] = deque(maxlen=MAX_PENDING)
        self._nacks: dict[Relayed, int] = {}

    def add(self, probe: Relayed, nack_at: int | None) -> None:
        """Note a probe that was passed on; a 17th drops the oldest. `nack_at` is the tick of its nack, if one is wanted."""
        self._pending.append(probe)
        if nack_at is not None:
            self._nacks[probe] = nack_at

    def answered(self, target: NodeId, sent: int) -> Relayed | None:
        """Return the probe that an ack of `target` answers, which is closed by it, or None."""
        for probe in self._pending:
            if probe.sent == sent and probe.target == target:
                self._pending.remove(probe)
                self._nacks.pop(probe, None)
                return probe
        return None

    def unanswered(self, tick: int) -> list[Relayed]:
        """Return the probes whose nack is due, each once. An ack that comes later is passed on all the same."""
        late = [probe for probe, nack_at in self._nacks.items() if nack_at <= tick]
        for probe in late:
            del self._nacks[probe]
        return late

    def due(self) -> int | None:
        """Return the tick of the next nack, or None."""
        return min(self._nacks.values(), default=None)
