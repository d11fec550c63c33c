"""What a process of a run and its coordinator tell each other, over the process's standard input and output.

A value is `u32 big-endian length | MessagePack`. The coordinator says `Setup`, then `Go`, then nothing: when its end of the pipe
closes, however that comes about, the process ends.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from simharness.contracts.scenario import Scenario

_LENGTH_BYTES: Final = 4


class Setup(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a process is to be."""

    scenario: Scenario
    subject: str
    """The peer or relay that it is."""
    instance: int
    """0 for the first life of a peer, one more for each later one."""
    address: str
    """The loopback address that every socket of the run is bound to."""
    ports: dict[str, int]
    """By peer or relay."""
    socket_fd: int
    """The inherited socket of the subject, bound already."""
    tap: bool
    """Whether to report every input of the host and every frame."""


class Go(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The run begins, or this life of the subject does. Times but the first count from the start."""

    start_ns: int
    """The common start, on the monotonic clock of the machine."""
    born_ns: int = 0
    deaf_until_ns: int = 0
    """What was sent before is lost: it went to an earlier life."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The process is built and waits for `Go`."""


class Event(msgspec.Struct, frozen=True, tag=True):
    """One event line of the bundle."""

    at_ns: int
    host_id: str | None
    kind_tag: str
    event: dict[str, Any]


class Snapshot(msgspec.Struct, frozen=True, tag=True):
    """One snapshot of the subject."""

    at_ns: int
    kind_tag: str
    snapshot: bytes


class Seen(msgspec.Struct, frozen=True, tag=True):
    """One input of a host, or one frame that it sent, for who listens in.

    `what` is `tick`, `timer`, `slow`, `received`, `failed`, or `sent`; `other` is the peer at the far end
    of a frame or of a failed send.
    """

    at_ns: int
    host_id: str
    what: str
    other: str = ""
    frame: bytes = b""
    """The bytes behind the shaper's header; or the reason of a failed send, the token of a timer, the factor of a slowness."""


class Halted(msgspec.Struct, frozen=True, tag=True):
    """The subject has halted; the process goes on."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The process cannot go on."""

    rule: str
    detail: str
    at_ns: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """The run is over, and everything is said."""

    late_ns: int
    """How late the latest tick was; what a loaded machine does to a run."""


Report = Ready | Event | Snapshot | Seen | Halted | Failed | Done
"""What a process tells its coordinator."""


def packed(value: msgspec.Struct) -> bytes:
    """Return a value as it travels."""
    body = msgspec.msgpack.encode(value)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def write(fd: int, data: bytes) -> None:
    """Write everything, at once: what is written is not lost when this process is killed.

    Raises:
        BrokenPipeError: If the other end is gone.
    """
    while data:
        data = data[os.write(fd, data) :]


class Order:
    """Reads what the coordinator says; blocks, which a process does only before its part of the run begins."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def setup(self) -> Setup:
        """Read the first word.

        Raises:
            EOFError: If the coordinator is gone.
        """
        return msgspec.msgpack.decode(self._body(), type=Setup)

    def go(self) -> Go:
        """Read the second word.

        Raises:
            EOFError: If the coordinator is gone, or has no use for this process.
        """
        return msgspec.msgpack.decode(self._body(), type=Go)

    def _body(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(_LENGTH_BYTES), "big"))

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            block = os.read(self._fd, count - len(data))
            if not block:
                raise EOFError
            data += block
        return data


class Reports:
    """Takes reports out of the bytes of a pipe, in whatever pieces they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._decode = msgspec.msgpack.Decoder(Report).decode

    def feed(self, data: bytes) -> Iterator[Report]:
        """Yield every report that is complete now; what a killed process left unfinished stays behind."""
        data = self._rest + data
        start = 0
        while len(data) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            end = body + int.from_bytes(data[start:body], "big")
            if end > len(data):
                break
            yield self._decode(data[body:end])
            start = end
        self._rest = data[start:]
