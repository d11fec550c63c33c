"""The header that the shaper puts before a frame: the way of a message through links that only exist on paper.

The frame behind it is production's, to the byte.
"""

import struct
from typing import Final, NamedTuple

from simharness.contracts.network import DropReason

_HEADER: Final = struct.Struct(">BHHQQ")

REFUSALS: Final[tuple[DropReason, ...]] = ("relay_queue_full", "lossy")
"""What a relay may tell a sender about its message."""

_FRAME: Final = len(REFUSALS)

HEADER_BYTES: Final = _HEADER.size


class Envelope(NamedTuple):
    """Where a message comes from, where it goes to, when it was sent and when it arrives at the next vertex.

    Source and target are places in the scenario's list of peers.
    """

    source: int
    target: int
    sent_ns: int
    due_ns: int
    refusal: DropReason | None = None
    """Why a relay refused the message: then the frame is empty, and the way leads back to the source."""

    def before(self, frame: bytes) -> bytes:
        """Return the datagram of a frame."""
        kind = _FRAME if self.refusal is None else REFUSALS.index(self.refusal)
        return _HEADER.pack(kind, *self[:4]) + frame


def opened(datagram: bytes) -> tuple[Envelope, bytes]:
    """Return the header and the frame of a datagram."""
    kind, source, target, sent_ns, due_ns = _HEADER.unpack_from(datagram)
    refusal = None if kind == _FRAME else REFUSALS[kind]
    return Envelope(source, target, sent_ns, due_ns, refusal), datagram[HEADER_BYTES:]
