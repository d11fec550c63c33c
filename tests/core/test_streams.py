"""The randomness tree (§7.2): worked values, an independent second version, and the addresses' injectivity (B13)."""

from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.core import streams
from simharness.core.streams import HostRng, Root, Stream, siphash

MASK: Final = 2**64 - 1
PARITY_SEED: Final = 0xDEADBEEFCAFEB0
IDS: Final = st.text("ABCXYZabcxyz019._-", min_size=1, max_size=8).filter(lambda name: not name.startswith("."))
SEEDS: Final = st.integers(0, MASK)


def plain_siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 written from the paper, word by word (Aumasson and Bernstein 2012, section 2)."""

    def rotate(word: int, by: int) -> int:
        return ((word << by) | (word >> (64 - by))) & MASK

    def rounds(v: list[int], times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & MASK
            v[2] = (v[2] + v[3]) & MASK
            v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[1]) & MASK
            v[0] = (v[0] + v[3]) & MASK
            v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    tail = len(message) % 8
    padded = message + bytes(7 - tail) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def plain_xoshiro(words: Iterable[int]) -> Iterable[int]:
    """xoshiro256** in the order of statements of its authors' description (Blackman and Vigna 2018)."""
    s = list(words)
    while True:
        times_five = s[1] * 5 & MASK
        yield (((times_five << 7) | (times_five >> 57)) & MASK) * 9 & MASK
        shifted = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = ((s[3] << 45) | (s[3] >> 19)) & MASK


def test_siphash_gives_the_published_vector() -> None:
    """Key 00..0f, message 00..0e: the vector of the paper's appendix."""
    assert siphash(bytes(range(15)), bytes(range(16))) == 0xA129CA6149BE45E5


@given(message=st.binary(max_size=40), key=st.binary(min_size=16, max_size=16))
def test_siphash_agrees_with_the_paper(message: bytes, key: bytes) -> None:
    """The library's hash is the paper's, at every message length and key."""
    assert siphash(message, key) == plain_siphash(key, message)


@given(message=st.binary(max_size=40))
def test_the_key_is_fixed(message: bytes) -> None:
    """The simulator's key halves, written once more (§7.2)."""
    key = (0x0123456789ABCDEF).to_bytes(8, "little") + (0xFEDCBA9876543210).to_bytes(8, "little")
    assert siphash(message) == plain_siphash(key, message)


@pytest.mark.parametrize(
    ("host_id", "state", "first", "offset"),
    [
        (
            "alpha",
            "ba43c7a0aefe6dd7 7bcd277d56ae3844 7a6c1cc8b1d82b01 6393c9824105b116",
            9797726255069658077,
            1_658_077,
        ),
        (
            "bravo",
            "afc808c5d453a1e1 2077febbc2dbaa6c 2b477414e5733d34 7952d7bd7a472622",
            10080041816985075929,
            1_075_929,
        ),
        (
            "charlie",
            "8ee4540a2bbaeeb0 b0ec248ec0c70cf7 84aa82e237d23c21 ec33095f82c6d964",
            13922469167390504842,
            504_842,
        ),
    ],
)
def test_tick_offsets_of_the_parity_scenario(host_id: str, state: str, first: int, offset: int) -> None:
    """State words and first draw of ("host", id, "tick_offset"); the published digests depend on these three."""
    stream = Root(PARITY_SEED).host(host_id, "tick_offset")
    assert " ".join(f"{word:016x}" for word in stream.state) == state
    drawn = stream.u64()
    assert (drawn, drawn % 2_000_000) == (first, offset)


def test_a_link_stream_of_the_parity_scenario() -> None:
    """State words and two draws of ("link", alpha, bravo)."""
    stream = Root(PARITY_SEED).link("alpha", "bravo")
    words = "ee0cdb250652e0b5 f165b16ac6efcb53 13b0d07cb5507037 1ac96f0c344e3cfc"
    assert " ".join(f"{word:016x}" for word in stream.state) == words
    assert [stream.u64() for _ in range(2)] == [8077173479241076403, 2512311352929935264]


@pytest.mark.parametrize(
    ("seed", "source", "target", "state", "u32s", "indices"),
    [
        (
            1,
            "a",
            "b",
            "07108dc712fde43e 52759e2a71642f71 1d9723fb9d68b18f d2f254679e1871a4",
            [1449573111, 1228539240, 2218309237],
            [86, 73, 132, 112],
        ),
        (
            42,
            "orchestrator",
            "worker_a",
            "1082f97576e2cb0e a99812c58a1ca16d b1b9d1511dc2845b 63a2b212f7addb09",
            [3718667427, 1487723083],
            [221, 88, 15, 213],
        ),
    ],
)
def test_draws_of_two_links(
    seed: int, source: str, target: str, state: str, u32s: list[int], indices: list[int]
) -> None:
    """State words, 32-bit draws, and the same draws read as indices of the jitter table."""
    stream = Root(seed).link(source, target)
    assert " ".join(f"{word:016x}" for word in stream.state) == state
    assert [stream.u32() for _ in u32s] == u32s
    again = Root(seed).link(source, target)
    assert [again.below(256) for _ in indices] == indices


@pytest.mark.parametrize(
    ("index", "first"), [(0, "556417cd298b3b71"), (1, "866a681c84b01ed1"), (2, "d815e69a96669ee7")]
)
def test_mutation_streams(index: int, first: str) -> None:
    """First draw of ("mutation", index) under seed 7."""
    assert f"{Root(7).mutation(index).u64():016x}" == first


def test_property_sample_seeds() -> None:
    """Samples 0 to 3 of a library property under root seed 0xc0ffee, masked to 63 bits."""
    drawn = [Root(0xC0FFEE).mutation(index).u64() % 2**63 for index in range(4)]
    assert drawn == [5604420141398664854, 8684868482450401914, 8037436703699158007, 4974108473612270177]


@given(seed=SEEDS, source=IDS, target=IDS)
def test_streams_agree_with_the_plain_generator(seed: int, source: str, target: str) -> None:
    """Address, state words and thirty draws, recomputed by the second version."""
    address = seed.to_bytes(8, "little") + b"link\x00" + source.encode() + b"\x00" + target.encode()
    stream = Root(seed).link(source, target)
    key = (0x0123456789ABCDEF).to_bytes(8, "little") + (0xFEDCBA9876543210).to_bytes(8, "little")
    words = tuple(plain_siphash(key, address + suffix) for suffix in (b"", b"\x01", b"\x02", b"\x03"))
    assert stream.state == words
    assert all(stream.u64() == expected for expected, _ in zip(plain_xoshiro(words), range(30), strict=False))


@given(before=st.integers(0, 5), times=st.integers(1, 4))
def test_a_triple_is_three_draws(before: int, times: int) -> None:
    """Drawing three at once gives the values, and leaves the state, of drawing one by one."""
    at_once, singly = Root(2).link("a", "b"), Root(2).link("a", "b")
    for _ in range(before):
        assert at_once.u64() == singly.u64()
    for _ in range(times):
        assert at_once.triple() == (singly.u64(), singly.u64(), singly.u64())
    assert at_once.state == singly.state


@given(counts=st.lists(st.integers(0, 5), max_size=4))
def test_words_are_draws(counts: list[int]) -> None:
    """Drawing several at once gives the values, and leaves the state, of drawing one by one."""
    at_once, singly = Root(2).link("a", "b"), Root(2).link("a", "b")
    for count in counts:
        assert at_once.words(count) == [singly.u64() for _ in range(count)]
        assert at_once.state == singly.state


def test_an_all_zero_state_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator never leaves the state 0, 0, 0, 0, so that state starts at 1, 0, 0, 0."""
    monkeypatch.setattr(streams, "siphash", lambda _message: 0)
    stream = Stream(b"any")
    assert stream.state == (1, 0, 0, 0)
    assert any(stream.u64() for _ in range(8))


class Scripted(Stream):
    """A stream whose draws are given by their upper halves."""

    def __init__(self, draws: list[int]) -> None:
        super().__init__(b"")
        self.draws = list(draws)

    def u64(self) -> int:
        """Return the next given draw."""
        return self.draws.pop(0) << 32


def plain_below(draws: list[int], bound: int) -> tuple[int, int]:
    """Return the bounded value and how many draws it takes, by counting.

    Each result r owns the draws whose product with `bound` lies in [r * 2**32, (r + 1) * 2**32). The result with the fewest
    owns floor(2**32 / bound); whoever owns one more gives up its first.
    """
    share = 2**32 // bound
    for taken, draw in enumerate(draws, 1):
        result = draw * bound // 2**32
        first = -(-result * 2**32 // bound)
        end = -(-(result + 1) * 2**32 // bound)
        if draw >= first + (end - first - share):
            return result, taken
    raise AssertionError


BOUNDS: Final = st.one_of(
    st.sampled_from([1, 2, 3, 255, 256, 257, 10**6, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32]),
    st.integers(1, 2**32),
)


@given(bound=BOUNDS, draws=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4), data=st.data())
def test_below_agrees_with_counting(bound: int, draws: list[int], data: st.DataObject) -> None:
    """Every draw gives the value, and is rejected, as counting says; draws beside a boundary are tried on purpose."""
    edge = -(-data.draw(st.integers(0, bound - 1)) * 2**32 // bound)
    draws = [edge, *draws, *range(2**31 - 1, 2**30, -(2**24 + 1))]  # at least one of these is accepted
    stream = Scripted(draws)
    value, taken = plain_below(draws, bound)
    assert (stream.below(bound), len(draws) - len(stream.draws)) == (value, taken)
    assert 0 <= value < bound


@pytest.mark.parametrize(
    ("bound", "draws", "value", "taken"),
    [
        (3, [0], 0, 2),  # 2**32 = 3 * 1431655765 + 1: one draw in all is rejected, the very first
        (3, [1], 0, 1),
        (3, [1431655766], 1, 1),
        (10**6, [0], 0, 2),
        (10**6, [4294967295], 999_999, 1),
        (2**31 + 1, [0], 0, 2),
        (256, [0], 0, 1),  # powers of two never reject
        (2**32, [7], 7, 1),
        (1, [2**32 - 1], 0, 1),
    ],
)
def test_below_rejects_the_short_tail(bound: int, draws: list[int], value: int, taken: int) -> None:
    """Hand-computed cases on both sides of the rejection threshold; a second draw of 2**31 - 1 is always accepted."""
    stream = Scripted([*draws, 2**31 - 1])
    got = stream.below(bound)
    used = len(draws) + 1 - len(stream.draws)
    assert used == taken
    assert got == (value if taken == 1 else (2**31 - 1) * bound // 2**32)


@pytest.mark.parametrize("bound", [0, -1, 2**32 + 1])
def test_below_asserts_its_bound(bound: int) -> None:
    """A bound outside 1 to 2**32 is a bug of ours."""
    with pytest.raises(AssertionError):
        Stream(b"").below(bound)


Address = tuple[str, ...]
ADDRESSES: Final = st.one_of(
    st.tuples(st.just("link"), IDS, IDS),
    st.tuples(st.just("host"), IDS, IDS),
    st.tuples(st.just("system"), IDS, IDS),
    st.tuples(st.just("mutation"), st.integers(0, 300).map(str)),
)


def stream_at(root: Root, address: Address) -> Stream:
    """Return the stream with this address."""
    match address:
        case ("link", source, target):
            return root.link(source, target)
        case ("host", host_id, label):
            return root.host(host_id, label)
        case ("system", name, label):
            return root.system(name, label)
    return root.mutation(int(address[1]))


@given(addresses=st.lists(st.tuples(SEEDS, ADDRESSES), min_size=2, max_size=6, unique=True))
def test_distinct_addresses_have_distinct_streams(addresses: list[tuple[int, Address]]) -> None:
    """Case B13: no two (seed, tuple) pairs share a stream."""
    states = {stream_at(Root(seed), address).state for seed, address in addresses}
    assert len(states) == len(addresses)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("link", "ab", "c"), ("link", "a", "bc")),
        (("link", "a", "b"), ("link", "b", "a")),
        (("host", "a", "b"), ("link", "a", "b")),
        (("host", "a", "b"), ("system", "a", "b")),
        (("host", "link", "a"), ("link", "host", "a")),
    ],
)
def test_near_addresses_are_told_apart(one: Address, other: Address) -> None:
    """Case B13: moving a boundary, an order or a tag gives another stream."""
    assert stream_at(Root(1), one).state != stream_at(Root(1), other).state


def test_a_host_draws_from_its_own_stream() -> None:
    """A `HostRng` is the stream ("host", id, "kind"); substreams and shared streams are beside it."""
    root = Root(9)
    rng, own = root.host_rng("a"), root.host("a", "kind")
    assert [rng.u64(), rng.u32(), rng.below(10)] == [own.u64(), own.u32(), own.below(10)]
    assert rng.substream("x").state == root.host("a", "x").state
    assert rng.shared("training", "order").state == root.system("training", "order").state
    assert HostRng(root, "b").shared("training", "order").state == root.system("training", "order").state


@given(label=IDS.filter(lambda label: label != "kind"), times=st.integers(1, 20))
def test_drawing_from_a_substream_moves_no_other(label: str, times: int) -> None:
    """Substreams are independent: what one draws, another never sees (§7.2)."""
    rng, untouched = Root(3).host_rng("a"), Root(3).host_rng("a")
    side = rng.substream(label)
    for _ in range(times):
        side.u64()
    assert rng.u64() == untouched.u64()
    assert rng.substream(label).state == untouched.substream(label).state
