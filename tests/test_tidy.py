"""The determinism checker: each rule finds what is planted and nothing else, and the package is clean (§7, ruling K6)."""

import pytest

from tests.tidy.check import HERE, Table, findings, load_exemptions, load_table, package_files, row_of
from tests.tidy.rules import RULES
from tests.tidy.sets import declarations
from tests.tidy.source import Finding, Source

MARK = "# <- flagged"
TABLE = load_table()
HOLDS = [(rule, room) for rule, rooms in TABLE.rules.items() for room in rooms]


def planted(rule: str) -> str:
    """Return the fixture of a rule: marked lines break it, all others are near misses."""
    return HERE.joinpath("planted", f"{rule}.txt").read_text("utf-8")


def file_in(room: str) -> str:
    """Return the path of a module in `room`."""
    names = {"main": "simharness/__main__.py", "front": "simharness/__init__.py"}
    return names.get(room, f"simharness/{room}/planted.py")


def only(rule: str, room: str) -> Table:
    """Return a table in which `rule` holds in `room` and no other rule holds anywhere."""
    return Table((room,), {rule: (room,)})


def lines_found(rule: str, text: str) -> list[int]:
    """Return the lines that `rule` flags in `text`, each once."""
    found = findings({file_in("core"): text}, only(rule, "core"))
    return sorted({finding.line for finding in found})


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_exactly_what_is_planted(rule: str) -> None:
    """Every marked line of the fixture is flagged, and no near miss is."""
    text = planted(rule)
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]
    assert marked
    assert lines_found(rule, text) == marked


@pytest.mark.parametrize("rule", RULES)
def test_a_fixture_holds_near_misses(rule: str) -> None:
    """A rule that flags every statement would not pass its fixture."""
    statements = [line for line in planted(rule).splitlines() if line.strip() and not line.endswith(MARK)]
    assert len(statements) > 3


@pytest.mark.parametrize(("rule", "room"), HOLDS)
def test_a_rule_is_at_work_in_each_of_its_rooms(rule: str, room: str) -> None:
    """What is planted in a room that the table names is found there under the rule's own name."""
    found = findings({file_in(room): planted(rule)}, TABLE)
    assert rule in {finding.rule for finding in found}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_sleeps_where_the_table_does_not_name_it(rule: str) -> None:
    """The table alone says where a rule holds."""
    for room in TABLE.rooms:
        found = findings({file_in(room): planted(rule)}, TABLE)
        assert (rule in {finding.rule for finding in found}) == (room in TABLE.rules[rule])


def test_a_finding_names_file_line_rule_and_symbol() -> None:
    """Imports go by module, everything else by the definition around it: what an exemption has to name."""
    text = "import time\n\nclass Queue:\n    def key(self, peer):\n        return id(peer)\n"
    found = findings({"simharness/engine/queue.py": text}, TABLE)
    assert [finding[:4] for finding in found] == [
        ("simharness/engine/queue.py", 1, "banned-import", "time"),
        ("simharness/engine/queue.py", 5, "identity", "Queue.key"),
    ]


def test_a_set_field_of_another_module_is_known() -> None:
    """A field is a set wherever it is read, as long as every declaration of that name in the tree agrees."""
    declared = "class Config:\n    defects: frozenset[str]\n"
    reader = "def show(config):\n    return list(config.defects)\n"
    both = {"simharness/core/a.py": declared, "simharness/engine/b.py": reader}
    rule = Table(("core", "engine"), {"set-order": ("core", "engine")})
    assert [(finding.file, finding.line) for finding in findings(both, rule)] == [("simharness/engine/b.py", 2)]
    disagreeing = {**both, "simharness/core/c.py": "class Report:\n    defects: tuple[str, ...]\n"}
    assert findings(disagreeing, rule) == []


def test_the_strings_of_a_literal_are_values_not_annotations() -> None:
    """Neither a word of the language nor the name of a set makes a field one."""
    source = Source("a.py", 'class Row:\n    outcome: Literal["pass", "fail"]\n    kind: Literal["set"]\n')
    assert dict(declarations(source)) == {"outcome": None, "kind": None}


def test_the_table_names_every_rule_and_only_known_rooms() -> None:
    """A rule without a row would silently hold nowhere."""
    assert sorted(TABLE.rules) == sorted(RULES)
    for rule, rooms in TABLE.rules.items():
        assert rooms, rule
        assert set(rooms) <= set(TABLE.rooms), rule


def test_a_package_within_a_room_has_a_row_of_its_own() -> None:
    """Rules of the supervisor's processes hold in its package and in no other system (ruling O9)."""
    text = planted("generator-cleanup")
    assert row_of("simharness/systems/supervisor/store/files.py") == "systems/supervisor"
    assert row_of("simharness/systems/swim/node.py") == "systems"
    assert findings({"simharness/systems/supervisor/x.py": text}, only("generator-cleanup", "systems/supervisor"))
    assert not findings({"simharness/systems/swim/x.py": text}, only("generator-cleanup", "systems/supervisor"))


def test_every_room_of_the_package_is_in_the_table() -> None:
    """A new room cannot be born outside the rules."""
    assert sorted({row_of(file) for file in package_files()} - set(TABLE.rooms)) == []


def test_the_package_keeps_the_rules() -> None:
    """No finding in the package but those the exemptions file names; and that file names nothing else."""
    found = findings(package_files(), TABLE)
    exemptions = load_exemptions()
    left = [str(finding) for finding in found if not any(one.covers(finding) for one in exemptions)]
    assert left == []
    stale = [one for one in exemptions if not any(one.covers(finding) for finding in found)]
    assert stale == []


def test_an_exemption_has_a_reason_and_stands_once() -> None:
    """An exemption is an argument, not a switch."""
    exemptions = load_exemptions()
    keys = [(one.file, one.rule, one.symbol) for one in exemptions]
    assert len(keys) == len(set(keys))
    assert [one for one in exemptions if len(one.reason.split()) < 10] == []


def test_an_exemption_covers_its_own_place_only() -> None:
    """File, rule and symbol must all match."""
    exemption = load_exemptions()[0]
    exact = Finding(exemption.file, 1, exemption.rule, exemption.symbol, "")
    assert exemption.covers(exact)
    for changed in (exact._replace(file="x"), exact._replace(rule="x"), exact._replace(symbol="x")):
        assert not exemption.covers(changed)
