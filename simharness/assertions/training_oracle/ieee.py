"""IEEE 754 binary64 by integer shifts: what a recorded vector of little-endian bytes says, exactly.

A vector is read as integers over one power of two, so that everything after it is integer arithmetic.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

_BYTES: Final = 8
_FRACTION_BITS: Final = 52
_IMPLICIT: Final = 1 << _FRACTION_BITS
_BIAS: Final = 1075
"""The unit of the last place of a number with exponent field e is 2 ** (e - _BIAS)."""
_NO_NUMBER: Final = 0x7FF


class Vector(NamedTuple):
    """The numbers `values[j] / 2**bits`."""

    values: tuple[int, ...]
    bits: int

    def over(self, bits: int) -> list[int]:
        """Return the numerators over `2**bits`, which is at least as fine."""
        shift = bits - self.bits
        assert shift >= 0
        return [value << shift for value in self.values]


def decode(text: str) -> Vector | None:
    """Decode the hex of float64 numbers; None if it is no such hex, or if a number is infinite or none at all."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return None
    if len(data) % _BYTES:
        return None
    signed: list[tuple[int, int]] = []
    bits = 0
    for at in range(0, len(data), _BYTES):
        word = int.from_bytes(data[at : at + _BYTES], "little")
        exponent = word >> _FRACTION_BITS & _NO_NUMBER
        if exponent == _NO_NUMBER:
            return None
        mantissa = word & (_IMPLICIT - 1)
        if exponent:
            mantissa |= _IMPLICIT
        if not mantissa:
            signed.append((0, 0))
            continue
        zeros = (mantissa & -mantissa).bit_length() - 1
        down = _BIAS - (exponent or 1) - zeros  # the number is the odd part of the mantissa over 2**down
        mantissa >>= zeros
        if down < 0:
            mantissa, down = mantissa << -down, 0
        bits = max(bits, down)
        signed.append((-mantissa if word >> 63 else mantissa, down))
    return Vector(tuple(value << bits - down for value, down in signed), bits)


def encode(values: Sequence[int], bits: int) -> bytes:
    """Encode the numbers `values[j] / 2**bits`, each of at most 53 significant bits and in the range of normal numbers."""
    return b"".join(_word(value, bits).to_bytes(_BYTES, "little") for value in values)


def _word(value: int, bits: int) -> int:
    if not value:
        return 0
    mantissa = abs(value)
    length = mantissa.bit_length()
    assert length - ((mantissa & -mantissa).bit_length() - 1) <= _FRACTION_BITS + 1, "not a float64"
    up = _FRACTION_BITS + 1 - length
    mantissa = mantissa << up if up >= 0 else mantissa >> -up
    exponent = _BIAS - bits - up
    assert 0 < exponent < _NO_NUMBER, "out of the range of normal numbers"
    return (value < 0) << 63 | exponent << _FRACTION_BITS | mantissa & (_IMPLICIT - 1)
