"""Sizes of messages on the wire, without encoding them: what fits is decided before it is written."""

from typing import Final

from simharness.systems.swim.ids import id_json
from simharness.systems.swim.messages import Ack, IndirectAck, Message, Ping, PingReq
from simharness.systems.swim.wire import NACK_WANTED, encode

ARRAY_BASE: Final = 4
"""Bytes that a non-empty piggyback costs on top of the costs of its updates."""

_SMALL: Final = bytes(range(10))
_BELOW_100: Final = bytes(range(100))


def nested_bytes(blob: bytes) -> int:
    """Return the size of `blob` as a JSON array of decimal bytes."""
    if not blob:
        return 2
    over_99, under_10 = len(blob.translate(None, _BELOW_100)), len(blob) - len(blob.translate(None, _SMALL))
    return 3 * len(blob) + over_99 - under_10 + 1


def nested_cost(text: bytes) -> int:
    """Return what one update adds to a message: a list item inside a byte array, with its separator."""
    return nested_bytes(text) + 2


_PROBE_FIXED: Final = len(b'{"from":,"sequence":,"piggyback":}')
_PING_REQ_FIXED: Final = len(b'{"from":,"target":,"sequence":,"piggyback":}')
_INDIRECT_FIXED: Final = len(b'{"target":,"sequence":,"piggyback":}')


def payload_size(message: Message) -> int:
    """Return the payload length of `message`, the `size` of its diagnostics."""
    if isinstance(message, (Ping, Ack)):
        size = _PROBE_FIXED + len(id_json(message.sender))
    elif isinstance(message, PingReq):
        size = _PING_REQ_FIXED + len(id_json(message.sender)) + len(id_json(message.target))
        size += len(NACK_WANTED) if message.nack else 0
    elif isinstance(message, IndirectAck):
        size = _INDIRECT_FIXED + len(id_json(message.target))
    else:
        return len(encode(message))
    return size + len(str(message.sequence)) + nested_bytes(message.piggyback)
