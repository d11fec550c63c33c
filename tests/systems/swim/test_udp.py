"""Nodes on real sockets, without simulator and without shaper."""

import asyncio
import socket
from collections.abc import Callable

from simharness.systems.swim.config import config_from, resolve
from simharness.systems.swim.diagnostics import Event, ProbeAcked, Transition
from simharness.systems.swim.ids import Directory, NodeId, node_id
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.udp import Address, UdpNode

HOSTS = ("a", "b", "c")
TICK_NS = 10_000_000
PATIENCE_S = 30


def cluster(observe: Callable[[str, Event], object]) -> tuple[dict[str, UdpNode], list[socket.socket]]:
    """Return three nodes that know each other, each bound to a port of its own."""
    table = {"probe_interval_ns": 50_000_000, "suspicion_timeout_ns": 300_000_000, "names": []}
    sockets = {host: socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for host in HOSTS}
    for bound in sockets.values():
        bound.bind(("127.0.0.1", 0))
    addresses: dict[NodeId, Address] = {node_id(host): bound.getsockname() for host, bound in sockets.items()}
    nodes = {}
    for host in HOSTS:
        resolved, complaints = resolve(
            table, tick_period_ns=TICK_NS, peer_ids=HOSTS, initial_state="alive", own_id=host
        )
        assert resolved is not None, complaints
        node = SwimNode(
            directory=Directory(HOSTS),
            self_id=node_id(host),
            config=config_from(resolved, TICK_NS),
            members=[(node_id(other), 0) for other in HOSTS],
        )
        nodes[host] = UdpNode(
            node,
            sockets[host],
            addresses,
            tick_period_ns=TICK_NS,
            observe=lambda event, host=host: observe(host, event),
        )
    return nodes, [*sockets.values()]


async def until(reached: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    async with asyncio.timeout(PATIENCE_S):
        while not reached():  # noqa: ASYNC110  # what is awaited is seen, not signalled
            await asyncio.sleep(0.01)


def test_nodes_probe_each_other_and_notice_a_death() -> None:
    """One task owns each node: it probes and answers; cancelled, it is gone, and the others tell so."""
    seen: list[tuple[str, Event]] = []

    async def play() -> None:
        nodes, sockets = cluster(lambda host, event: seen.append((host, event)))
        tasks = {host: asyncio.create_task(node.run()) for host, node in nodes.items()}
        await until(lambda: {host for host, event in seen if isinstance(event, ProbeAcked)} == set(HOSTS))
        stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for garbage in (b"", b"\0\0\0\1x", b"\xff" * 9, b"\0\0\0\2\xff\xff{}"):
            stranger.sendto(garbage, sockets[0].getsockname())
        stranger.close()
        tasks["c"].cancel()
        dead = [("a", "Dead"), ("b", "Dead")]
        await until(
            lambda: all(
                any(isinstance(event, Transition) and (host, event.after) == wanted for host, event in seen)
                for wanted in dead
            )
        )
        assert not tasks["a"].done()
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    asyncio.run(play())
    gone = {event.peer for _, event in seen if isinstance(event, Transition) and event.after == "Dead"}
    assert node_id("c") in gone
