"""The echo mesh without simharness: a bare heap loop, and SimPy. Both do the engine's link arithmetic and its three draws."""

from collections.abc import Generator
from heapq import heappop, heappush
from itertools import count, permutations
from typing import Any

from simharness.core.streams import Root, Stream
from simharness.network.jitter import TABLE

LATENCY_NS, STDDEV_NS, LOSS_PPM, BANDWIDTH = 5_000_000, 500_000, 100, 100_000_000
PERIOD_NS, PAYLOAD = 10_000_000, 64


class Link:
    """The arithmetic of §5.4 for one directed link, nothing else."""

    __slots__ = ("last_arrive", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream, self.last_arrive = stream, 0

    def arrival(self, now: int) -> int | None:
        """Return the arrival time of a message sent now, or None if it is lost."""
        loss, jitter, _reorder = self.stream.triple()
        if (loss >> 32) % 1_000_000 < LOSS_PPM:
            return None
        entry = TABLE[jitter >> 56]
        sample = (abs(entry) * STDDEV_NS + 512) >> 10
        start = max(now, self.last_arrive)
        end = start + PAYLOAD * 1_000_000_000 // BANDWIDTH
        self.last_arrive = end + max(0, LATENCY_NS + (sample if entry > 0 else -sample))
        return self.last_arrive


def links(names: list[str]) -> dict[tuple[str, str], Link]:
    """Return a link for every ordered pair."""
    root = Root(1)
    return {(a, b): Link(root.link(a, b)) for a, b in permutations(names, 2)}


def heap_loop(names: list[str], duration_ns: int) -> int:
    """Run the mesh as tuples on one heap; return the number of events (ticks and deliveries)."""
    mesh, heap, serial, events = links(names), [], count(), 0
    others = {a: [b for b in names if b != a] for a in names}
    for place, name in enumerate(names):
        heappush(heap, (place * 1_000, next(serial), name, None))
    while heap:
        now, _, name, sender = heappop(heap)
        if now >= duration_ns:
            break
        events += 1
        if sender is None:
            for other in others[name]:
                at = mesh[name, other].arrival(now)
                if at is not None:
                    heappush(heap, (at, next(serial), other, name))
            heappush(heap, (now + PERIOD_NS, next(serial), name, None))
        elif sender[0] != "<":
            at = mesh[name, sender].arrival(now)
            if at is not None:
                heappush(heap, (at, next(serial), sender, "<" + name))
    return events


def simpy_mesh(names: list[str], duration_ns: int) -> int:
    """Run the mesh in SimPy, one process per message and a Store as inbox; return the number of events."""
    import simpy

    env, mesh, events = simpy.Environment(), links(names), [0]
    inbox = {name: simpy.Store(env) for name in names}

    def carry(source: str, target: str, pong: bool) -> Generator[Any, Any, None]:
        at = mesh[source, target].arrival(env.now)
        if at is not None:
            yield env.timeout(at - env.now)
            inbox[target].put((source, pong))

    def ticker(name: str, offset: int) -> Generator[Any, Any, None]:
        yield env.timeout(offset)
        while True:
            events[0] += 1
            for other in names:
                if other != name:
                    env.process(carry(name, other, False))
            yield env.timeout(PERIOD_NS)

    def receiver(name: str) -> Generator[Any, Any, None]:
        while True:
            sender, pong = yield inbox[name].get()
            events[0] += 1
            if not pong:
                env.process(carry(name, sender, True))

    for place, name in enumerate(names):
        env.process(ticker(name, place * 1_000))
        env.process(receiver(name))
    env.run(until=duration_ns)
    return events[0]
