"""Integer units: nanoseconds, bytes a second, parts per million (§4.9, §5.2, §7.4)."""

from typing import Final

U32_MAX: Final = 2**32 - 1
U63_MAX: Final = 2**63 - 1
U64_MAX: Final = 2**64 - 1

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
PPM: Final = 1_000_000
"""The denominator of every probability."""


def transmission_ns(byte_len: int, bandwidth_bps: int) -> int:
    """Return how long a message occupies a link or a relay, in whole nanoseconds, rounded down (§5.4 step 4).

    Args:
        byte_len: Size on the wire, in bytes.
        bandwidth_bps: Capacity in bytes (not bits) a second.

    Raises:
        ZeroDivisionError: If `bandwidth_bps` is 0.
    """
    return byte_len * NS_PER_S // bandwidth_bps
