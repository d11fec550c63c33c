"""One suite for every disk behind the port (ruling K3): in memory, through a handle, and on the real file system."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.disk import Disk, NameTakenError, NoSuchNameError, append, put
from simharness.disk.crash import CrashDisk
from simharness.disk.handle import Handle
from simharness.disk.real import RealDisk
from tests.disk.oracle import BAD_NAMES, NAMES, Call, Oracle, files_of

BACKENDS: dict[str, Callable[[Path], Disk]] = {
    "crash": lambda _: CrashDisk(),
    "handle": lambda _: Handle(CrashDisk()),
    "real": lambda directory: RealDisk(directory.joinpath("files")),
}

names = st.sampled_from(NAMES)
calls = st.one_of(
    st.builds(
        Call, st.just("write"), st.tuples(names, st.sampled_from((b"", b"1", b"22", b"\0\n\xff"))), append=st.booleans()
    ),
    st.builds(Call, st.sampled_from(("read", "sync", "unlink")), st.tuples(names), append=st.just(False)),
    st.builds(Call, st.sampled_from(("link", "rename")), st.tuples(names, names), append=st.just(False)),
    st.sampled_from((Call("list"), Call("sync_dir"))),
)


@pytest.fixture(params=BACKENDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """An empty disk of every kind."""
    return BACKENDS[request.param](tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
@given(script=st.lists(calls, max_size=30))
def test_every_answer_is_the_models(backend: str, script: list[Call]) -> None:
    """K3: while the power holds, each call answers or is refused as the plain model says, and the same files are there."""
    oracle = Oracle()
    with TemporaryDirectory() as directory:
        disk = BACKENDS[backend](Path(directory))
        for call in script:
            assert call.on(disk) == oracle.answer(call), call
        assert files_of(disk) == oracle.files()
        assert disk.list() == tuple(sorted(oracle.files()))
        assert disk.epoch == 0


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_everywhere(disk: Disk, name: str) -> None:
    """K3: the directory is flat: no operation takes a name that could lead out of it, and none is done by half."""
    disk.write("a", b"1")
    one: tuple[Call, ...] = (Call("read", (name,)), Call("write", (name, b"")), Call("sync", (name,)))
    two = (
        Call("link", ("a", name)),
        Call("link", (name, "b")),
        Call("rename", ("a", name)),
        Call("rename", (name, "b")),
    )
    for call in (*one, *two, Call("unlink", (name,))):
        assert call.on(disk) == ("ValueError", None), call
    assert files_of(disk) == {"a": b"1"}


def test_names_of_one_file_share_its_content(disk: Disk) -> None:
    """K3: a link is a second name of one file; the file goes with its last name."""
    disk.write("a", b"old")
    disk.link("a", "b")
    disk.write("b", b"new")
    disk.unlink("b")
    assert files_of(disk) == {"a": b"new"}


def test_a_link_is_exclusive(disk: Disk) -> None:
    """K3: of two that link to one name the second fails and changes nothing; that is the record's compare-and-append."""
    disk.write("mine", b"1")
    disk.write("yours", b"2")
    disk.link("mine", "r000001")
    with pytest.raises(NameTakenError):
        disk.link("yours", "r000001")
    assert disk.read("r000001") == b"1"


def test_errors_are_also_the_builtin_ones(disk: Disk) -> None:
    """A system that imports nothing of the simulator can tell the answers of the port apart."""
    with pytest.raises(FileNotFoundError) as missing:
        disk.read("a")
    disk.write("a", b"")
    with pytest.raises(FileExistsError) as taken:
        disk.link("a", "a")
    assert (type(missing.value), type(taken.value)) == (NoSuchNameError, NameTakenError)


def test_put_and_append(disk: Disk) -> None:
    """K3: the helpers leave the file and nothing else."""
    for content in (b"one", b"two"):
        put(disk, "state", content)
        append(disk, "journal", content)
    disk.sync("journal")
    assert files_of(disk) == {"state": b"two", "journal": b"onetwo"}


def test_put_never_writes_into_what_was_left_behind(disk: Disk) -> None:
    """K3: a temporary file of an earlier life may be a link to the file itself; it is replaced, not overwritten."""
    disk.write("state.tmp", b"old")
    disk.link("state.tmp", "state")
    put(disk, "state", b"new")
    assert files_of(disk) == {"state": b"new"}
