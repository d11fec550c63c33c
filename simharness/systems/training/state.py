"""The state of training: what a step reads and replaces, its digests, and its form on disk."""

import hashlib
import struct
from typing import Final, NamedTuple

import msgspec

from simharness.systems.training.kernel import BYTES

DIGEST_BYTES: Final = 16
NO_DIGEST: Final = bytes(DIGEST_BYTES)
_FORM: Final = struct.Struct("<IIIII")


def digest(*parts: bytes) -> bytes:
    """Return BLAKE2b with 128 bits of the parts, one after another."""
    return hashlib.blake2b(b"".join(parts), digest_size=DIGEST_BYTES).digest()


class StateDigests(NamedTuple):
    """One digest a part, so that a divergence says which part diverged. The generation is in none of them."""

    weights: bytes
    momentum: bytes
    cursor: bytes

    @property
    def whole(self) -> bytes:
        """The digest that names a state on the wire and in records (`base`): of the three digests in order."""
        return digest(*self)

    def hex(self) -> list[str]:
        """Return the three as hex."""
        return [self.weights.hex(), self.momentum.hex(), self.cursor.hex()]


class TrainState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """State number `step`: what `step` updates have made of state 0. Vectors are little-endian float64."""

    step: int
    generation: int
    epoch: int
    consumed: int
    """Bit i is set: sample i has contributed in `epoch`."""
    samples: int
    weights: bytes
    momentum: bytes

    def bitmap(self) -> bytes:
        """Return `consumed` as bytes: bit i % 8 of byte i // 8, least significant first."""
        return bitmap(self.consumed, self.samples)

    def digests(self) -> StateDigests:
        """Return the digests of the three parts; that of the cursor is of step, epoch (u32 each) and bitmap."""
        cursor = struct.pack("<II", self.step, self.epoch) + self.bitmap()
        return StateDigests(digest(self.weights), digest(self.momentum), digest(cursor))

    def in_generation(self, generation: int) -> "TrainState":
        """Return the same state, carried into another generation."""
        return self if self.generation == generation else msgspec.structs.replace(self, generation=generation)


def bitmap(consumed: int, samples: int) -> bytes:
    """Return a set of samples as bytes, bit i % 8 of byte i // 8."""
    return consumed.to_bytes((samples + 7) // 8, "little")


def mask(ids: tuple[int, ...]) -> int:
    """Return a set of samples as an integer with their bits set."""
    found = 0
    for sample in ids:
        found |= 1 << sample
    return found


def to_bytes(state: TrainState) -> bytes:
    """Return the checkpoint form: numbers, bitmap, weights, momentum, and a digest of all of it at the end."""
    body = b"".join(
        (
            _FORM.pack(state.step, state.generation, state.epoch, state.samples, len(state.weights) // BYTES),
            state.bitmap(),
            state.weights,
            state.momentum,
        )
    )
    return body + digest(body)


def from_bytes(data: bytes) -> TrainState | None:
    """Read a checkpoint; None if it is torn or is none."""
    body, check = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    if len(body) < _FORM.size or digest(body) != check:
        return None
    step, generation, epoch, samples, entries = _FORM.unpack_from(body)
    at = _FORM.size + (samples + 7) // 8
    return TrainState(
        step=step,
        generation=generation,
        epoch=epoch,
        consumed=int.from_bytes(body[_FORM.size : at], "little"),
        samples=samples,
        weights=body[at : at + BYTES * entries],
        momentum=body[at + BYTES * entries :],
    )
