"""The codec of training behind the Codec Protocol (§3.3)."""

from typing import Any

from simharness.contracts.host import Wire
from simharness.systems.training import wire as training_wire


class TrainCodec:
    """Payloads of `systems.training.wire`."""

    def encode(self, message: Any) -> Wire:
        """Encode a message of training."""
        return Wire(training_wire.TAGS[type(message)], training_wire.encode(message))

    def decode(self, wire: Wire) -> Any:
        """Decode by tag.

        Raises:
            ValueError: If the tag is unknown or the bytes are no such message.
        """
        return training_wire.decode(wire.tag, wire.payload)

    def frame_overhead(self, tag: str) -> int:
        """Return 0: the lengths of the design are whole messages."""
        del tag
        return 0
