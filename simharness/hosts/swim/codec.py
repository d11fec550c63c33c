"""SWIM's codec behind the Codec Protocol: production's bytes, production's tags (§3.3)."""

from typing import Any

import msgspec

from simharness.contracts.host import Wire
from simharness.systems.swim import wire as swim_wire


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A payload that is not what its known tag says. A node drops it and tells (ruling S3)."""

    tag: str
    payload: bytes
    detail: str


class SwimCodec:
    """Payloads of `systems.swim.wire`. An unknown tag is an error, a bad payload under a known tag is a `Malformed`."""

    def encode(self, message: Any) -> Wire:
        """Encode a SWIM message, or give back the bytes of a malformed one."""
        if type(message) is Malformed:
            return Wire(message.tag, message.payload)
        return Wire(swim_wire.TAGS[type(message)], swim_wire.encode(message))

    def decode(self, wire: Wire) -> Any:
        """Decode by tag.

        Raises:
            ValueError: If the tag is unknown.
        """
        tag, payload = wire
        try:
            return swim_wire.decode(tag, payload)
        except swim_wire.WireError as error:
            if tag not in swim_wire.TAGS.values():
                raise
            return Malformed(tag, payload, error.detail)

    def frame_overhead(self, tag: str) -> int:
        """Return the length word and the tag (ruling N19)."""
        return swim_wire.frame_overhead(tag)
