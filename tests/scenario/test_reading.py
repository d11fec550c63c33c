"""One file to one table: numbers, encodings and sizes (cases L01, L03, L07, A15; rulings L6, L12, L18)."""

import os
from pathlib import Path

import pytest

from simharness.core.errors import Problem, ScenarioError
from simharness.core.units import U64_MAX
from simharness.scenario import build, reading
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from tests.scenario.support import BASE, KINDS, TOP, broken, link, mutation, peer

U64 = "must be an integer from 0 to 18446744073709551615"


def refused(path: Path) -> list[tuple[str, str]]:
    """Return (field, rule) of the problems of a file; the file named is always the one asked for."""
    with pytest.raises(ScenarioError) as caught:
        load(path, KINDS)
    assert {problem.file for problem in caught.value.problems} == {str(path)}
    return [(problem.field, problem.rule) for problem in caught.value.problems]


def written(folder: Path, raw: bytes) -> Path:
    """Write a scenario file."""
    path = folder / "x.toml"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("seed", ["18446744073709551615", "0xFFFF_FFFF_FFFF_FFFF"])
def test_largest_seed(seed: str) -> None:
    """L01: seeds up to 2**64-1 are accepted and emitted exactly (ruling L5)."""
    scenario = loads(BASE.replace("seed = 7", f"seed = {seed}"), KINDS)
    assert scenario.seed == U64_MAX
    assert "seed = 18446744073709551615\n" in emit(scenario)


@pytest.mark.parametrize("seed", ["18446744073709551616", "-1", f"0x{'f' * 5000}"])
def test_seed_out_of_range(seed: str) -> None:
    """L01: a seed outside u64 names its field and the range, a gigantic hexadecimal one too."""
    assert broken(BASE.replace("seed = 7", f"seed = {seed}")) == [("seed", U64)]


def test_gigantic_decimal_seed() -> None:
    """L01: 5,000 decimal digits make the reader itself give up; still a structured error that states the range."""
    ((field, rule),) = broken(BASE.replace("seed = 7", f"seed = {'9' * 5000}"))
    assert field == "(root)"
    assert "2**64-1 (u64)" in rule


@pytest.mark.parametrize(("spelling", "value"), [("-0", 0), ("+5", 5), ("1_000", 1000), ("0b1010", 10)])
def test_integer_spellings(spelling: str, value: int) -> None:
    """L03: every integer spelling of TOML is read."""
    text = BASE.replace("latency_ns = 20", f"latency_ns = {spelling}")
    assert loads(text, KINDS).default_link.latency_ns == value


@pytest.mark.parametrize(
    ("spelling", "rule"),
    [
        ("1e6", "must be an integer, not a float"),
        ("5.0", "must be an integer, not a float"),
        ("-0.0", "must be an integer, not a float"),
        ("nan", "must be an integer, not a float"),
        ("inf", "must be an integer, not a float"),
        ("1979-05-27", "must be an integer, not a date or time"),
        ("07:32:00", "must be an integer, not a date or time"),
        ('"5"', "must be an integer, not a string"),
        ("[5]", "must be an integer, not an array"),
    ],
)
def test_not_an_integer(spelling: str, rule: str) -> None:
    """L03: floats, even whole ones, dates and strings are refused by type."""
    text = BASE.replace("latency_ns = 20", f"latency_ns = {spelling}")
    assert broken(text) == [("default_link.latency_ns", rule)]


@pytest.mark.parametrize("line", ["latency_ns = 007", "latency_ns", "latency_ns = 1\nlatency_ns = 2"])
def test_not_toml(line: str) -> None:
    """L03: what TOML does not allow is one `(root)` error of one line."""
    ((field, rule),) = broken(BASE.replace("latency_ns = 20", line))
    assert field == "(root)"
    assert rule.startswith("not TOML: ")
    assert rule.isprintable()


def test_table_forms_are_one() -> None:
    """L05: inline, dotted and header forms load to the same scenario."""
    inline = TOP.replace(
        "seed = 7", 'seed = 7\npeers = [{ id = "a", kind = "plain", initial_state = "up", kind_config = { rate = 1 } }]'
    )
    dotted = TOP + peer("a", rest="kind_config.rate = 1")
    header = TOP + peer("a") + "[peers.kind_config]\nrate = 1\n"
    assert loads(inline, KINDS) == loads(dotted, KINDS) == loads(header, KINDS)
    for mixed in (inline + peer("b"), inline.replace("kind_config = {", "kind_config = {\n")):
        assert [field for field, _ in broken(mixed)] == ["(root)"]


def test_byte_order_mark(tmp_path: Path) -> None:
    """L07: a UTF-8 BOM is named, in a file and in text."""
    ((field, rule),) = refused(written(tmp_path, b"\xef\xbb\xbf" + BASE.encode()))
    assert field == "(root)"
    assert "BOM" in rule
    assert broken("\ufeff" + BASE) == [(field, rule)]


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (BASE.encode("utf-16"), "is UTF-16 text (byte order mark); save the file as UTF-8"),
        (BASE.encode() + b"# \xff", f"is not UTF-8 text: byte 0xff at offset {len(BASE.encode()) + 2}"),
        (b"", "holds no key; a scenario needs at least name, seed, duration_ns and peers"),
        (b"# nothing\n", "holds no key; a scenario needs at least name, seed, duration_ns and peers"),
    ],
)
def test_not_text(tmp_path: Path, raw: bytes, rule: str) -> None:
    """L07: other encodings, stray bytes and files without a key are structured errors."""
    assert refused(written(tmp_path, raw)) == [("(root)", rule)]


@pytest.mark.parametrize("raw", [BASE.replace("\n", "\r").encode(), BASE.encode("utf-16-le"), b"\0", b"seed = \x01"])
def test_control_characters(tmp_path: Path, raw: bytes) -> None:
    """L07: a lone CR or a NUL is a one-line `(root)` error."""
    ((field, rule),) = refused(written(tmp_path, raw))
    assert field == "(root)"
    assert rule.isprintable()


def test_crlf_is_the_same_scenario(tmp_path: Path) -> None:
    """L07: CRLF gives an equal scenario and equal emission; only the source hash differs (ruling B5)."""
    one = load(written(tmp_path, BASE.encode()), KINDS)
    other = load(written(tmp_path, BASE.replace("\n", "\r\n").encode()), KINDS)
    assert one.scenario == other.scenario
    assert emit(one.scenario) == emit(other.scenario)
    assert one.sources[0].sha256 != other.sources[0].sha256


def test_deep_nesting() -> None:
    """Nesting beyond what can be walked is one structured error, whoever meets it: the TOML reader or the merge."""
    refusal = [("(root)", "nested too deeply")]
    assert broken("x = " + "[" * 9_000 + "]" * 9_000) == refusal
    assert broken(BASE.replace("latency_ns = 20", ".".join("a" * 3_000) + " = 1")) == refusal


def test_missing_and_irregular_files(tmp_path: Path) -> None:
    """L12: what cannot be read is an `(io)` error; a FIFO is refused without being opened."""
    assert refused(tmp_path / "nope.toml") == [("(io)", "cannot be read: No such file or directory")]
    assert refused(tmp_path) == [("(io)", "not a regular file")]
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == [("(io)", "not a regular file")]


def test_file_too_large(tmp_path: Path) -> None:
    """L18: a file over 64 MiB is refused by its size; not a byte of it is read (this one is a hole on disk)."""
    path = tmp_path / "x.toml"
    with path.open("wb") as file:
        file.truncate(reading.MAX_FILE_BYTES + 1)
    assert refused(path) == [("(io)", "67108865 bytes; a scenario file has at most 67108864")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BASE + peer("d") + peer("e"), ("peers[4]", "a scenario has at most 4 peers; this one has 5")),
        (BASE + link("a", "b") * 7, ("links[6]", "a scenario has at most 6 links; this one has 7")),
        (BASE + mutation("heal") * 4, ("mutations[3]", "a scenario has at most 3 mutations; this one has 4")),
        (
            BASE + link("a", "b") + "[[meshes]]\n",
            ("meshes[0]", "a scenario has at most 6 links, those of meshes included"),
        ),
        (
            BASE + "[[meshes]]\n" + '[[meshes]]\nshape = "chain"\npeers = ["a", "b"]',
            ("meshes[1]", "a scenario has at most 6 links, those of meshes included"),
        ),
    ],
)
def test_size_limits(monkeypatch: pytest.MonkeyPatch, text: str, problem: tuple[str, str]) -> None:
    """L18: peers, links (those of meshes counted) and mutations are limited, before anything else is looked at."""
    monkeypatch.setattr(build, "_LIMITS", {"peers": 4, "links": 6, "mutations": 3})
    assert broken(text) == [problem]


def test_stated_limits() -> None:
    """L18: the limits are those of the ruling, and a full mesh of 1,001 peers is over them without being expanded."""
    assert build._LIMITS == {"peers": 10_000, "links": 1_000_000, "mutations": 1_000_000}
    peers = "".join(peer(f"p{index}") for index in range(1001))
    assert [field for field, _ in broken(TOP + peers + "[[meshes]]\n")] == ["meshes[0]"]


@pytest.mark.parametrize("name", ["x" * 2_000, "\U0001f600" * 600])
def test_overlong_id(name: str) -> None:
    """A15: an id over 64 characters is refused at load, naming the field; 64 are fine (ruling L9)."""
    two = TOP + peer("a") + peer("b")
    assert [field for field, _ in broken(two + peer(name))] == ["peers[2].id"]
    assert broken(two + peer("x" * 64)) == []


@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\x85", "\\u007F", '\\"', "\\\\", "\U0001f600"])
def test_odd_characters(text: str) -> None:
    """L13: odd characters are refused in ids, and kept exactly in free text."""
    assert [field for field, _ in broken(BASE + peer(f"d{text}"))] == ["peers[3].id"]
    exit_of = mutation("worker_exit", f'peer = "c"\nreason = "{text}"')
    scenario = loads(BASE + exit_of + peer("d", rest=f'kind_config.free = "{text}"'), KINDS)
    assert loads(emit(scenario), KINDS) == scenario


def test_lone_surrogate() -> None:
    """L13: the TOML reader refuses a lone surrogate escape."""
    assert [field for field, _ in broken(BASE.replace('"base"', '"\\uD800"'))] == ["(root)"]


def test_unreadable_name_is_shown_on_one_line(tmp_path: Path) -> None:
    """L12: a path with a line break is shown escaped."""
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / "a\nb.toml", KINDS)
    (problem,) = caught.value.problems
    assert isinstance(problem, Problem)
    assert problem.file.endswith(r"a\nb.toml")
