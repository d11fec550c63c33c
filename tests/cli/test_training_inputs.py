"""What a report on training is given: everything is judged before anything is run, and nothing is left where it is refused."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simharness.cli import training_command
from simharness.cli.sweep_rows import sealed
from simharness.cli.training_rows import kill_table, sweep_rows
from simharness.core import canonical_json
from simharness.core.errors import InputError
from simharness.training import report as reports
from tests.cli.support import Terminal
from tests.documents import ROOT
from tests.training.reports import small

OWN = str(ROOT / "scenarios" / "training" / "clean_own.toml")
SERVER = str(ROOT / "scenarios" / "training" / "clean_own_ps.toml")
ROWS = [msgspec.to_builtins(row) for row in small().sweep]
KILL: dict[str, Any] = {
    "system": "training",
    "defect": "DUP_PUSH",
    "strategy": "ps",
    "guards": False,
    "killed": True,
    "exempt": False,
    "by": "train_weights",
    "tries": 1,
    "size": 0,
    "seconds": 1,
}


def lines(rows: Sequence[dict[str, Any]]) -> list[bytes]:
    """The lines of a row file, each with its check."""
    found, last = [], b""
    for row in rows:
        line, last = sealed(row, last)
        found.append(line + b"\n")
    return found


def test_the_rows_of_a_sweep(tmp_path: Path) -> None:
    """What a sweep has written is read as it was written."""
    file = tmp_path / "rows.ndjson"
    file.write_bytes(b"".join(lines(ROWS)))
    assert sweep_rows(str(file)) == small().sweep


def changed(place: int, **fields: Any) -> list[dict[str, Any]]:
    """The rows, one of them with other values."""
    return [*ROWS[:place], ROWS[place] | fields, *ROWS[place + 1 :]]


def without(place: int, name: str) -> list[dict[str, Any]]:
    """The rows, one of them without a field."""
    return [*ROWS[:place], {key: value for key, value in ROWS[place].items() if key != name}, *ROWS[place + 1 :]]


WHOLE = lines(ROWS)
WRONG: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "(rows)", "it holds no row"),
    "junk": (b"junk\n", "line 1", "it has no checksum"),
    "no check": (b"".join(canonical_json.compact(row) + b"\n" for row in ROWS), "line 1", "it has no checksum"),
    "array": (canonical_json.compact(ROWS), "line 1", "it is cut off"),
    "junk behind": (b"".join([*WHOLE, b"junk\n"]), "line 11", "it has no checksum"),
    "blank": (b"".join([*WHOLE, b"\n"]), "line 11", "it has no checksum"),
    "edited": (b"".join(WHOLE).replace(b'"steps":100', b'"steps":999', 3), "line 1", "its checksum does not fit"),
    "twice": (b"".join([*WHOLE, WHOLE[-1]]), "line 11", "its checksum does not fit"),
    "taken out": (b"".join([*WHOLE[:3], *WHOLE[4:]]), "line 4", "its checksum does not fit"),
    "cut": (b"".join(WHOLE)[:-10], "line 10", "it is cut off"),
    "sealed twice": (b"".join(lines([*ROWS, ROWS[2]])), "line 11", "seed 400, ring, own stands in a line before"),
    "no steps": (b"".join(lines(without(2, "steps"))), "line 3", "missing required field `steps`"),
    "no counters": (b"".join(lines(without(4, "counters"))), "line 5", "missing required field `counters`"),
    "a word": (b"".join(lines(changed(1, steps="7"))), "line 2", "Expected `int`, got `str` - at `$.steps`"),
    "negative": (b"".join(lines(changed(1, steps=-1))), "line 2", "Expected `int` >= 0 - at `$.steps`"),
    "beyond": (b"".join(lines(changed(1, steps=2**63))), "line 2", "Expected `int` <= 9223372036854775807"),
    "strategy": (b"".join(lines(changed(9, strategy="star"))), "line 10", "Invalid enum value 'star'"),
    "of SWIM": (lines([{"space": "gossip_flap", "seed": 0}])[0], "line 1", "missing required field `workers`"),
}


@pytest.mark.parametrize("what", WRONG)
def test_rows_that_no_sweep_has_written(simharness: Terminal, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Refused by line and rule, with code 2, before anything is run; nothing is left."""
    data, field, rule = WRONG[what]
    monkeypatch.setattr(training_command, "run_pairs", None)
    simharness.directory.joinpath("rows.ndjson").write_bytes(data)
    before = simharness.tree()
    said = simharness("training", "report", OWN, SERVER, "--sweep", "rows.ndjson", "--out", "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"file: rows.ndjson\nfield: {field}\nrule: "), said.err
    assert rule in said.err
    assert simharness.tree() == before


def test_a_number_of_70_bits_is_refused(tmp_path: Path) -> None:
    """Such a row cannot be made by ours, but its check can be computed."""
    line, last = sealed(ROWS[0] | {"steps": 123_456_789}, b"")
    body = line[: -len(b',"check":"0123456789abcdef"}')].replace(b"123456789", str(2**70).encode())
    check = blake2b(body + b"}", digest_size=8).hexdigest().encode()
    assert last != check
    file = tmp_path / "rows.ndjson"
    file.write_bytes(body + b',"check":"' + check + b'"}\n')
    with pytest.raises(
        InputError, match=r"field: line 1\nrule: Expected `int` <= 9223372036854775807 - at `\$\.steps`"
    ):
        sweep_rows(str(file))


def test_a_kill_table(tmp_path: Path) -> None:
    """An array as `knobs --json` prints it, or a row a line; the table of another system may have a defect of the same name."""
    file = tmp_path / "kills.json"
    rows = [
        KILL,
        KILL | {"guards": True},
        KILL | {"strategy": "ring", "killed": False, "by": None},
        KILL | {"system": "x"},
    ]
    file.write_bytes(canonical_json.pretty(rows))
    found = kill_table(str(file))
    assert [(kill.strategy, kill.guards, kill.killed) for kill in found] == [
        ("ps", False, True),
        ("ps", True, True),
        ("ring", False, False),
        ("ps", False, True),
    ]
    file.write_bytes(b"".join(canonical_json.compact(row) + b"\n" for row in rows))
    assert kill_table(str(file)) == found


@pytest.mark.parametrize(
    ("data", "field", "rule"),
    [
        (b"", "(rows)", "it holds no row"),
        (b"[]", "(rows)", "it holds no row"),
        (b"[", "(rows)", "truncated"),
        (b"junk", "line 1", "malformed"),
        (b"\xff", "line 1", "malformed"),
        (b'{"system":"x"}', "line 1", "missing required field `defect`"),
        (canonical_json.compact(KILL) + b"\njunk\n", "line 2", "malformed"),
        (canonical_json.compact([KILL, 5]), "row 2", "Expected `object`, got `int`"),
        (canonical_json.compact([KILL, KILL]), "row 2", "the hunt of DUP_PUSH stands in a row before"),
        (canonical_json.compact([KILL | {"by": None}]), "row 1", "`by` is given if, and only if, `killed` is true"),
        (canonical_json.compact([KILL | {"tries": -1}]), "row 1", "Expected `int` >= 0 - at `$.tries`"),
        (
            canonical_json.compact([KILL]).replace(b":1,", b":%d," % 2**70),
            "row 1",
            "Expected `int` <= 9223372036854775807",
        ),
        (
            canonical_json.compact([{name: value for name, value in KILL.items() if name != "killed"}]),
            "row 1",
            "`killed`",
        ),
    ],
)
def test_kill_tables_that_say_nothing(
    simharness: Terminal, monkeypatch: pytest.MonkeyPatch, data: bytes, field: str, rule: str
) -> None:
    """The same for the kill table."""
    monkeypatch.setattr(training_command, "run_pairs", None)
    simharness.directory.joinpath("kills.json").write_bytes(data)
    before = simharness.tree()
    said = simharness("training", "report", OWN, SERVER, "--knobs", "kills.json", "--out", "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"file: kills.json\nfield: {field}\nrule: "), said.err
    assert rule in said.err
    assert simharness.tree() == before


@pytest.mark.parametrize("what", ["scenarios", "report"])
def test_scenarios_are_all_read_before_one_is_run(
    simharness: Terminal, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The mistakes of all files are said together, and no run has begun."""
    for name in ("run_pairs", "run_file"):
        monkeypatch.setattr(training_command, name, None)
    simharness.directory.joinpath("bad.toml").write_text("name = 3\n")
    mesh = str(ROOT / "scenarios" / "smoke" / "mesh3.toml")
    said = simharness("training", what, OWN, SERVER, "bad.toml", mesh, "nowhere.toml")
    assert (said.code, said.out) == (2, "")
    files = [line for line in said.err.splitlines() if line.startswith("file: ")]
    assert list(dict.fromkeys(files)) == ["file: bad.toml", f"file: {mesh}", "file: nowhere.toml"]


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 100_000, b'{"version":"' + b"\xff"])
def test_a_report_that_is_none_leaves_nothing(simharness: Terminal, data: bytes) -> None:
    """One structured error, and no directory."""
    simharness.directory.joinpath("r.json").write_bytes(data)
    before = simharness.tree()
    said = simharness("training", "report", "--from", "r.json", "--out", "out")
    assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 3)
    assert simharness.tree() == before


def test_a_huge_number_in_a_report_leaves_nothing(simharness: Terminal) -> None:
    """Wherever it stands it is found before anything is written (where that can be: tests/training/test_hostile_reports.py)."""
    data = reports.encode(small())
    simharness.directory.joinpath("r.json").write_bytes(data.replace(b'"seed": 400,', b'"seed": %d,' % 2**70))
    before = simharness.tree()
    said = simharness("training", "report", "--from", "r.json", "--out", "out")
    assert (said.code, said.out) == (2, "")
    assert said.err == ("file: r.json\nfield: (root)\nrule: a seed is at most 18446744073709551615 - at `$.sweep[2]`\n")
    assert simharness.tree() == before


def test_what_cannot_be_rendered_is_not_half_written(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is made before the first of the two files is written."""

    def refusing(_: object) -> str:
        raise InputError(file="(page)", field="x", rule="cannot be drawn")

    monkeypatch.setattr(training_command.page, "page", refusing)
    simharness.directory.joinpath("r.json").write_bytes(reports.encode(small()))
    before = simharness.tree()
    assert simharness("training", "report", "--from", "r.json", "--out", "out").code == 2
    assert simharness.tree() == before


def test_words_of_a_report_stay_words_on_a_terminal(simharness: Terminal) -> None:
    """What a report says cannot move the cursor or colour anything: the summary escapes it."""
    (first, *pairs) = small().pairs
    made = msgspec.structs.replace(small(), pairs=(msgspec.structs.replace(first, name="\x1b[31mred"), *pairs))
    simharness.directory.joinpath("r.json").write_bytes(reports.encode(made))
    said = simharness("training", "report", "--from", "r.json", "--out", "out", "--no-html")
    assert (said.code, "\\x1b[31mred" in said.out, "\x1b" in said.out) == (1, True, False)
