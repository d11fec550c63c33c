"""The echo kind: a ping on every tick, a pong for every ping. The smallest host with traffic (§12 phase 3)."""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final

import msgspec

from simharness.contracts.host import (
    Action,
    App,
    Complaint,
    Host,
    HostContext,
    HostMessage,
    PeerFacts,
    RecordEvent,
    Send,
    SendFailed,
    Validated,
    Wire,
)
from simharness.core import canonical_json
from simharness.hosts.config import ConfigReader

_TAGS: Final = {"echo::Ping": False, "echo::Pong": True}
_HEADER: Final = Struct(">QB")
_MAX_PAYLOAD: Final = 1 << 20


class Echo(msgspec.Struct, frozen=True, gc=False):
    """A ping or its pong. `sender` is carried as on a real wire; `size` is the payload length in bytes."""

    sender: str
    number: int
    size: int
    pong: bool = False


class EchoCodec:
    """Number (8 bytes, big-endian), length of the sender (1 byte), sender, zero padding up to `size`."""

    def encode(self, message: Echo) -> Wire:
        """Encode; a size too small for the content is raised to fit it."""
        sender = message.sender.encode()
        head = _HEADER.pack(message.number, len(sender)) + sender
        return Wire("echo::Pong" if message.pong else "echo::Ping", head.ljust(message.size, b"\0"))

    def decode(self, wire: Wire) -> Echo:
        """Decode by tag.

        Raises:
            ValueError: If the tag is unknown or the payload is cut short.
        """
        tag, payload = wire
        pong = _TAGS.get(tag)
        size = len(payload)
        if pong is None or size < _HEADER.size:
            raise ValueError(f"not an echo message: {tag}")
        number, length = _HEADER.unpack_from(payload)
        end = _HEADER.size + length
        if size < end:
            raise ValueError(f"not an echo message: {tag}")
        return Echo(payload[_HEADER.size : end].decode(), number, size, pong)

    def frame_overhead(self, tag: str) -> int:
        """Return 0: the echo transport adds nothing (ruling N19)."""
        del tag
        return 0


class EchoHost:
    """Pings every target on every tick and answers every ping."""

    kind_tag = "echo"

    def __init__(self, context: HostContext) -> None:
        self.id = context.host_id
        self._targets: Sequence[str] = context.config["targets"]
        self._size: int = context.config["payload_bytes"]
        self._answers: bool = context.config["answers"]
        self._records: bool = context.config["records"]
        self._ticks = 0
        self._pings = self._pongs = self._failures = 0

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Ping every target."""
        del now_ns
        self._ticks += 1
        ping = Echo(self.id, self._ticks, self._size)
        return [Send(target, ping) for target in self._targets]

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Answer a ping; record what came."""
        del now_ns
        if isinstance(message, SendFailed):
            self._failures += 1
            return (RecordEvent({"kind": "EchoFailed", "to": message.to, "reason": message.reason}),)
        if not isinstance(message, App):
            return ()
        echo: Echo = message.message
        actions: list[Action] = []
        if self._records:
            actions.append(RecordEvent({"kind": "EchoReceived", "from": echo.sender, "number": echo.number}))
        if echo.pong:
            self._pongs += 1
        else:
            self._pings += 1
            if self._answers:
                actions.append(Send(echo.sender, Echo(self.id, echo.number, self._size, pong=True)))
        return actions

    def snapshot(self) -> bytes:
        """Return the counters."""
        counters = {"ticks": self._ticks, "pings": self._pings, "pongs": self._pongs, "failures": self._failures}
        return canonical_json.compact(counters)


class EchoKind:
    """`kind_config`: targets (default: all other peers), payload_bytes (64), answers (true), records (true)."""

    kind_tag = "echo"
    codec = EchoCodec()
    accepts_worker_exit = False
    event_kinds = ("EchoFailed", "EchoReceived")

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        """Check and resolve a `kind_config`."""
        others = tuple(peer for peer in facts.peer_ids if peer != facts.id)
        reader = ConfigReader(config, known=("targets", "payload_bytes", "answers", "records"))
        targets = reader.peers("targets", others, facts.peer_ids)
        if facts.id in targets:
            reader.complain("targets", "a host may not send to itself")
        size = reader.integer("payload_bytes", 64, low=0, high=_MAX_PAYLOAD)
        answers, records = reader.boolean("answers", default=True), reader.boolean("records", default=True)
        if facts.initial_state != "ready":
            reader.complaints.append(Complaint("initial_state", 'an echo peer starts "ready"'))
        resolved = {"targets": list(targets), "payload_bytes": size, "answers": answers, "records": records}
        return Validated(resolved, tuple(reader.complaints))

    def new(self, context: HostContext) -> Host:
        """Build one instance."""
        return EchoHost(context)


KIND: Final = EchoKind()
