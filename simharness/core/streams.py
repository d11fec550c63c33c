"""Keyed random streams: every draw of a run has one documented address (§7.2).

A stream's address is a tagged tuple under the scenario seed. SipHash-2-4 of the address, with the key fixed below, gives
the four state words of a xoshiro256** generator (Blackman and Vigna 2018); nothing else in the simulator is random.
"""

from typing import Final

from siphash24 import siphash24

from simharness.core.units import U64_MAX

_KEY: Final = (0x0123456789ABCDEF).to_bytes(8, "little") + (0xFEDCBA9876543210).to_bytes(8, "little")


def siphash(message: bytes, key: bytes = _KEY) -> int:
    """Return SipHash-2-4 of `message` as an unsigned 64-bit integer (Aumasson and Bernstein 2012)."""
    signed: int = siphash24(message, key=key).intdigest()
    return signed & U64_MAX


class Stream:
    """One xoshiro256** stream. Integers only; never seeded from anything but its address."""

    __slots__ = ("_a", "_b", "_c", "_d")

    def __init__(self, address: bytes) -> None:
        self._a = siphash(address)
        self._b = siphash(address + b"\x01")
        self._c = siphash(address + b"\x02")
        self._d = siphash(address + b"\x03")
        if not (self._a | self._b | self._c | self._d):
            self._a = 1  # the all-zero state is a fixed point of the generator

    @property
    def state(self) -> tuple[int, int, int, int]:
        """The four state words, for tests."""
        return self._a, self._b, self._c, self._d

    def u64(self) -> int:
        """Draw 64 bits."""
        b = self._b
        x = (b * 5) & U64_MAX
        result = (((x << 7) | (x >> 57)) * 9) & U64_MAX
        c = self._c ^ self._a
        d = self._d ^ b
        self._b = b ^ c
        self._a ^= d
        self._c = c ^ ((b << 17) & U64_MAX)
        self._d = ((d << 45) | (d >> 19)) & U64_MAX
        return result

    def words(self, count: int) -> list[int]:
        """Draw 64 bits `count` times, for who draws at every step: the calls cost as much as the words."""
        a, b, c, d = self._a, self._b, self._c, self._d
        found: list[int] = []
        for _ in range(count):
            x = (b * 5) & U64_MAX
            found.append((((x << 7) | (x >> 57)) * 9) & U64_MAX)
            c ^= a
            d ^= b
            t, b, a = b << 17, b ^ c, a ^ d
            c, d = c ^ (t & U64_MAX), ((d << 45) | (d >> 19)) & U64_MAX
        self._a, self._b, self._c, self._d = a, b, c, d
        return found

    def triple(self) -> tuple[int, int, int]:
        """Draw three times 64 bits: what one send on a link takes, in one call because every send pays for it."""
        a, b, c, d = self._a, self._b, self._c, self._d
        x = (b * 5) & U64_MAX
        one = (((x << 7) | (x >> 57)) * 9) & U64_MAX
        c ^= a
        d ^= b
        t, b, a = b << 17, b ^ c, a ^ d
        c, d = c ^ (t & U64_MAX), ((d << 45) | (d >> 19)) & U64_MAX
        x = (b * 5) & U64_MAX
        two = (((x << 7) | (x >> 57)) * 9) & U64_MAX
        c ^= a
        d ^= b
        t, b, a = b << 17, b ^ c, a ^ d
        c, d = c ^ (t & U64_MAX), ((d << 45) | (d >> 19)) & U64_MAX
        x = (b * 5) & U64_MAX
        three = (((x << 7) | (x >> 57)) * 9) & U64_MAX
        c ^= a
        d ^= b
        self._b, self._a = b ^ c, a ^ d
        self._c, self._d = c ^ ((b << 17) & U64_MAX), ((d << 45) | (d >> 19)) & U64_MAX
        return one, two, three

    def u32(self) -> int:
        """Draw the upper 32 of 64 bits."""
        return self.u64() >> 32

    def below(self, bound: int) -> int:
        """Draw an unbiased integer in [0, bound), 1 <= bound <= 2**32 (Lemire 2019: multiply, reject the short tail)."""
        assert 1 <= bound <= 1 << 32
        product = (self.u64() >> 32) * bound
        low = product & 0xFFFFFFFF
        if low < bound:
            threshold = (1 << 32) % bound
            while low < threshold:
                product = (self.u64() >> 32) * bound
                low = product & 0xFFFFFFFF
        return product >> 32


class HostRng:
    """The random numbers of one host: its own stream, named substreams, and streams shared by a whole system.

    The host's own stream has the address ("host", id, "kind"); it is made on the first draw.
    """

    __slots__ = ("_host_id", "_root", "_stream")

    def __init__(self, root: "Root", host_id: str) -> None:
        self._root, self._host_id = root, host_id
        self._stream: Stream | None = None

    def _own(self) -> Stream:
        if self._stream is None:
            self._stream = self._root.host(self._host_id, "kind")
        return self._stream

    def u64(self) -> int:
        """Draw 64 bits."""
        return self._own().u64()

    def u32(self) -> int:
        """Draw 32 bits."""
        return self._own().u32()

    def below(self, bound: int) -> int:
        """Draw an unbiased integer in [0, bound)."""
        return self._own().below(bound)

    def substream(self, label: str) -> Stream:
        """Return a new stream ("host", id, label)."""
        return self._root.host(self._host_id, label)

    def shared(self, name: str, label: str) -> Stream:
        """Return a new stream ("system", name, label): the same for every host of the run."""
        return self._root.system(name, label)


class Root:
    """The root of the randomness tree of one run, seeded by the scenario's `seed` (u64)."""

    __slots__ = ("_seed",)

    def __init__(self, seed: int) -> None:
        self._seed = seed.to_bytes(8, "little")

    def _stream(self, tag: bytes, *parts: str) -> Stream:
        # Ids hold no NUL (ruling L9), so the tuple encoding is injective.
        return Stream(self._seed + b"\0".join((tag, *(part.encode() for part in parts))))

    def link(self, source: str, target: str) -> Stream:
        """Return the stream of the directed leg `source` to `target` (§5.6)."""
        return self._stream(b"link", source, target)

    def duplicates(self, source: str, target: str) -> Stream:
        """Return the stream of the copies of messages from host `source` to host `target` (ruling N24)."""
        return self._stream(b"link", source, target, "dup")

    def host(self, host_id: str, label: str) -> Stream:
        """Return the stream `label` of one host."""
        return self._stream(b"host", host_id, label)

    def system(self, name: str, label: str) -> Stream:
        """Return a stream that all hosts of the system `name` share."""
        return self._stream(b"system", name, label)

    def mutation(self, index: int) -> Stream:
        """Return the stream of the mutation with this index (§7.2)."""
        return Stream(self._seed + b"mutation\0" + index.to_bytes(8, "little"))

    def host_rng(self, host_id: str) -> HostRng:
        """Return the generator handed to a host at construction (§6.1)."""
        return HostRng(self, host_id)
