"""SWIM over UDP: one message a datagram, framed by its tag; one task owns one node.

A frame is `u32 big-endian tag length | tag | payload`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from socket import socket
from typing import Final

from simharness.systems.swim.diagnostics import Event
from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.outbox import Outgoing, Output
from simharness.systems.swim.wire import TAGS, WireError, decode, encode

Address = tuple[str, int]
"""IP address and port."""

MAX_DATAGRAM: Final = 65_507
"""What UDP over IPv4 carries at most, in bytes."""

_LENGTH_BYTES: Final = 4


def frame(tag: str, payload: bytes) -> bytes:
    """Return the datagram of a message."""
    name = tag.encode()
    return b"%b%b%b" % (len(name).to_bytes(_LENGTH_BYTES, "big"), name, payload)


def unframe(datagram: bytes) -> tuple[str, bytes]:
    """Return tag and payload of a datagram.

    Raises:
        WireError: If it is no frame.
    """
    start = _LENGTH_BYTES + int.from_bytes(datagram[:_LENGTH_BYTES], "big")
    if len(datagram) < max(start, _LENGTH_BYTES):
        raise WireError("(frame)", f"{len(datagram)} bytes are no frame")
    try:
        return datagram[_LENGTH_BYTES:start].decode(), datagram[start:]
    except UnicodeDecodeError:
        raise WireError("(frame)", "the tag is not UTF-8") from None


class Endpoint(asyncio.DatagramProtocol):
    """A bound UDP socket on the running loop; what arrives goes to `received`."""

    def __init__(self, received: Callable[[bytes], object]) -> None:
        self._received = received
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def open(cls, bound: socket, received: Callable[[bytes], object]) -> "Endpoint":
        """Take over a bound socket."""
        endpoint = cls(received)
        loop = asyncio.get_running_loop()
        endpoint._transport, _ = await loop.create_datagram_endpoint(lambda: endpoint, sock=bound)
        return endpoint

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002  # a message names its sender itself
        """Hand a datagram on."""
        self._received(data)

    def error_received(self, exc: Exception) -> None:
        """Ignore that nobody listened: to the sender the datagram is lost like any other."""

    def send(self, datagram: bytes, address: Address) -> None:
        """Send a datagram, which may be lost."""
        assert self._transport is not None
        self._transport.sendto(datagram, address)

    def close(self) -> None:
        """Close the socket."""
        assert self._transport is not None
        self._transport.close()


class UdpNode:
    """A node on a socket of its own.

    Args:
        node: The node; from now on nobody else calls it.
        bound: A bound UDP socket.
        addresses: Where the others are. What is sent to anybody else is a failed send.
        tick_period_ns: Time between two ticks; one that is missed is left out.
        observe: Takes the diagnostics.
    """

    def __init__(
        self,
        node: SwimNode,
        bound: socket,
        addresses: Mapping[NodeId, Address],
        *,
        tick_period_ns: int,
        observe: Callable[[Event], object] = lambda _: None,
    ) -> None:
        self._node, self._bound, self._addresses = node, bound, addresses
        self._period_s = tick_period_ns / 1e9
        self._observe = observe

    async def run(self) -> None:
        """Tick the node on time, hand it what arrives, send what it says; ends by being cancelled."""
        loop, inbox = asyncio.get_running_loop(), asyncio.Queue[bytes]()
        endpoint = await Endpoint.open(self._bound, inbox.put_nowait)
        try:
            due = loop.time()
            while True:
                try:
                    async with asyncio.timeout_at(due):
                        datagram = await inbox.get()
                except TimeoutError:
                    self._perform(endpoint, self._node.tick(time.monotonic_ns()))
                    missed = (loop.time() - due) // self._period_s
                    due += (missed + 1) * self._period_s
                else:
                    self._receive(endpoint, datagram)
        finally:
            endpoint.close()

    def _receive(self, endpoint: Endpoint, datagram: bytes) -> None:
        """Hand a message to the node; bytes that are none are dropped, as anybody may send them."""
        try:
            message = decode(*unframe(datagram))
        except WireError:
            return
        self._perform(endpoint, self._node.handle(message, time.monotonic_ns()))

    def _perform(self, endpoint: Endpoint, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if not isinstance(output, Outgoing):
                self._observe(output)
                continue
            address = self._addresses.get(output.to)
            datagram = frame(TAGS[type(output.message)], encode(output.message))
            if address is None or len(datagram) > MAX_DATAGRAM:
                self._perform(endpoint, self._node.report_send_failure(output.to, time.monotonic_ns()))
            else:
                endpoint.send(datagram, address)
