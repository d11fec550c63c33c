"""The relay vertex: shared ingress, one egress per destination, a bounded queue (§5A)."""

from typing import Final, NamedTuple

from simharness.contracts.links import RelayDecl
from simharness.contracts.mutations import RelayCapacityChange
from simharness.core.units import transmission_ns
from simharness.network.queues import Occupancy, Tail

_FEW: Final = 64
_FOR_GOOD: Final = 1 << 64
"""Later than every virtual time."""


class Slot(NamedTuple):
    """The times that a relay gives one message. `cold_start_ns` is part of the span from ingress end to egress end."""

    ingress_end_ns: int
    egress_end_ns: int
    cold_start_ns: int


class Relay:
    """One relay. It draws no randomness, and its whole schedule of a message is fixed when the message is sent (ruling R1)."""

    __slots__ = (
        "_cold_start_ns",
        "_conn_down",
        "_depth_bytes",
        "_egress_bps",
        "_egress_tails",
        "_ingress_bps",
        "_ingress_tail",
        "_occupancy",
        "_pending",
        "_pending_limit",
        "booting",
        "id",
        "up",
    )

    def __init__(self, decl: RelayDecl) -> None:
        self.id = decl.id
        self._ingress_bps = decl.ingress_capacity_bps
        self._egress_bps = decl.egress_capacity_bps_per_link
        self._depth_bytes = decl.queue_depth_bytes
        self._cold_start_ns = decl.cold_start_penalty_ns
        self.up = True
        self.booting = False  # a run starts with booted relays (ruling R3)
        self._conn_down: dict[tuple[str, str], int] = {}
        self._empty()

    def _empty(self) -> None:
        self._ingress_tail = Tail()
        self._egress_tails: dict[str, Tail] = {}
        self._occupancy = Occupancy()
        self._pending: list[tuple[int, int]] = []  # (until when its relay notices are pending, message id)
        self._pending_limit = _FEW

    def admit(self, target: str, byte_len: int, arrival_ns: int, now_ns: int) -> Slot | None:
        """Give a message that arrives at `arrival_ns` its slots, or None if the queue cannot hold it (§5A.3).

        A slot waits only for messages that arrive no later (ruling R1). The queue must have room at the arrival and at every
        later arrival that was admitted before, while this message is held (ruling R2).
        """
        ingress_end = max(arrival_ns, self._ingress_tail.seen_from(arrival_ns))
        ingress_end += transmission_ns(byte_len, self._ingress_bps)
        tail = self._egress_tails.get(target)
        egress_start = ingress_end if tail is None else max(ingress_end, tail.seen_from(arrival_ns))
        cold_start = self._cold_start_ns if self.booting else 0
        egress_end = egress_start + cold_start + transmission_ns(byte_len, self._egress_bps)
        if self._occupancy.peak(arrival_ns, egress_end) + byte_len > self._depth_bytes:
            return None
        self.booting = False
        self._ingress_tail.give(arrival_ns, ingress_end, now_ns)
        if tail is None:
            tail = self._egress_tails[target] = Tail()
        tail.give(arrival_ns, egress_end, now_ns)
        self._occupancy.add(arrival_ns, egress_end, byte_len, now_ns)
        return Slot(ingress_end, egress_end, cold_start)

    def expect(self, until_ns: int, message_id: int, now_ns: int) -> None:
        """Note that the message has relay notices that come to pass at or after a moment before `until_ns`."""
        pending = self._pending
        pending.append((until_ns, message_id))
        if len(pending) > self._pending_limit:
            pending[:] = [entry for entry in pending if entry[0] > now_ns]
            self._pending_limit = max(_FEW, 2 * len(pending))

    def kill(self, at_ns: int) -> tuple[int, ...]:
        """Stop and empty the relay; return the ids of the messages whose relay notices are still pending (ruling R6)."""
        killed = tuple(message_id for until_ns, message_id in self._pending if until_ns > at_ns)
        self.up = False
        self._empty()
        return killed

    def boot(self) -> None:
        """Return to service; on a running relay this only arms the cold start again (ruling R8)."""
        self.up = self.booting = True

    def change(self, mutation: RelayCapacityChange) -> None:
        """Replace the given capacities for sends from now on (ruling R9)."""
        if mutation.ingress_capacity_bps is not None:
            self._ingress_bps = mutation.ingress_capacity_bps
        if mutation.egress_capacity_bps_per_link is not None:
            self._egress_bps = mutation.egress_capacity_bps_per_link
        if mutation.queue_depth_bytes is not None:
            self._depth_bytes = mutation.queue_depth_bytes

    def take_down(self, source: str, target: str, at_ns: int, duration_ns: int) -> None:
        """Refuse one ordered pair for `duration_ns`, 0 meaning for good; overlapping times are their union."""
        end_ns = at_ns + duration_ns if duration_ns else _FOR_GOOD
        pair = (source, target)
        self._conn_down[pair] = max(end_ns, self._conn_down.get(pair, 0))

    def is_down_for(self, source: str, target: str, now_ns: int) -> bool:
        """Tell whether this ordered pair is refused at `now_ns`."""
        return bool(self._conn_down) and now_ns < self._conn_down.get((source, target), 0)
