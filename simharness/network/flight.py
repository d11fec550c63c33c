"""What is on its way: needed only by mutations, so a send pays one append and now and then a sweep."""

from collections.abc import Callable
from typing import Final, NamedTuple

_FEW: Final = 64


class InFlight(NamedTuple):
    """A delivery that a send promised."""

    at_ns: int
    message_id: int
    source: str
    target: str
    sent_at_ns: int
    relay: str | None
    relay_until_ns: int
    """The end of its egress at the relay; until then the relay's death is its own. 0 on a direct route."""


class Inbox:
    """The deliveries in flight to one host: those that arrive now or later (ruling E1)."""

    __slots__ = ("_flights", "_limit")

    def __init__(self) -> None:
        self._flights: list[InFlight] = []
        self._limit = _FEW

    def add(self, flight: InFlight, now_ns: int) -> None:
        """Note a delivery; sweep out what has arrived before `now_ns` whenever the list has doubled."""
        flights = self._flights
        flights.append(flight)
        if len(flights) > self._limit:
            flights[:] = [kept for kept in flights if kept.at_ns >= now_ns]
            self._limit = max(_FEW, 2 * len(flights))

    def take(self, at_ns: int, wanted: Callable[[InFlight], bool]) -> list[InFlight]:
        """Remove and return every delivery that is wanted and in flight at `at_ns`."""
        flights = [flight for flight in self._flights if flight.at_ns >= at_ns]
        taken = [flight for flight in flights if wanted(flight)]
        if taken:
            gone = {flight.message_id for flight in taken}
            flights = [flight for flight in flights if flight.message_id not in gone]
        self._flights = flights
        return taken


class Cuts:
    """The active partitions (§5.5): each peer has a bit for every partition that has it on the one side or on the other."""

    __slots__ = ("_bit", "_left", "_right")

    def __init__(self) -> None:
        self.heal()

    def heal(self) -> None:
        """Clear every partition (ruling N13)."""
        self._bit = 1
        self._left: dict[str, int] = {}
        self._right: dict[str, int] = {}

    def cut(self, peers_a: tuple[str, ...], peers_b: tuple[str, ...]) -> None:
        """Add a partition between two disjoint groups, both ways; earlier ones stay (ruling N13)."""
        for side, peers in ((self._left, peers_a), (self._right, peers_b)):
            for peer in peers:
                side[peer] = side.get(peer, 0) | self._bit
        self._bit <<= 1

    def active(self) -> bool:
        """Tell whether any partition is active."""
        return self._bit > 1

    def severs(self, source: str, target: str) -> bool:
        """Tell whether a partition is active between the two."""
        left, right = self._left.get, self._right.get
        return bool(left(source, 0) & right(target, 0) or right(source, 0) & left(target, 0))
