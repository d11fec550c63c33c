"""Lines in any order, in bounded memory."""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given
from hypothesis import strategies as st

from simharness.bundle.ordering import LineFile

KEYS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2**40)), unique=True, max_size=60)


def line_of(key: tuple[int, int]) -> bytes:
    """A line that tells its key; its length varies."""
    return b"%d-%d%b\n" % (*key, b"." * (key[1] % 7))


class Watched(LineFile):
    """Counts the lines in memory after every addition."""

    most = 0
    spills = 0

    def add(self, at_ns: int, sequence: int, line: bytes) -> None:
        super().add(at_ns, sequence, line)
        self.most = max(self.most, len(self._pending) + len(self._late))
        self.spills = len(self._runs)


@given(keys=KEYS, limit=st.integers(2, 40))
@example(keys=[(6, 0), (5, 0), (4, 0), (3, 0), (2, 0), (1, 0), (0, 0)], limit=2)
def test_any_order_gives_the_sorted_file(keys: list[tuple[int, int]], limit: int) -> None:
    """The file is the sorted lines, the digest is the file's, and the memory never holds more than the limit."""
    with TemporaryDirectory() as place:
        file = Watched(Path(place, "lines"), Path(place), limit)
        for key in keys:
            file.add(*key, line_of(key))
        digest = file.finish()
        data = Path(place, "lines").read_bytes()
    assert data == b"".join(map(line_of, sorted(keys)))
    assert digest == hashlib.sha256(data).hexdigest()
    assert file.most <= limit


def test_spills_and_merges(tmp_path: Path) -> None:
    """A reversed stream through a tiny memory goes through many runs."""
    file = Watched(tmp_path / "lines", tmp_path, 8)
    for at_ns in reversed(range(200)):
        file.add(at_ns, 0, b"%d\n" % at_ns)
    assert file.latest_ns == 199
    digest = file.finish()
    assert file.spills > 10
    assert (tmp_path / "lines").read_bytes() == b"".join(b"%d\n" % at_ns for at_ns in range(200))
    assert digest == hashlib.sha256((tmp_path / "lines").read_bytes()).hexdigest()


def test_what_comes_in_order_is_written_once(tmp_path: Path) -> None:
    """Without a late line, and with lines late by less than half the memory, there is no second pass."""
    file = Watched(tmp_path / "lines", tmp_path, 16)
    for at_ns in range(100):
        file.add(at_ns, at_ns, b"x\n")
        if at_ns % 10 == 9:
            file.add(at_ns - 2, 1000 + at_ns, b"late\n")
    file.finish()
    assert not (tmp_path / "merged").exists()
    assert file._runs == file._late == []
    lines = (tmp_path / "lines").read_bytes().splitlines()
    assert lines[8:11] == [b"late", b"x", b"x"]
    assert lines.count(b"late") == 10
