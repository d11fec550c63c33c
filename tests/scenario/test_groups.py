"""The table that the peers of one system share, and the rules across them (`HostKind.table`, `HostKind.validate_group`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.host import Complaint, GroupComplaint, HostKind, PeerFacts, Validated
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.core.errors import ScenarioError
from simharness.scenario.emit import emit
from simharness.scenario.loader import load, loads
from tests.scenario.support import TOP, FakeKind, link, peer


class Job(FakeKind):
    """Reads `[job]`; knows numbers under any name but `bad`, and tables of them."""

    table = "job"

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        assert facts.peer_ids
        wrong = [Complaint(f"kind_config.{path}", f"{path} is bad") for path in bad_paths(config)]
        return Validated({"size": 1, **config}, tuple(wrong))

    def validate_group(self, peers: tuple[PeerDecl, ...]) -> list[GroupComplaint]:
        hubs = [one for one in peers if one.kind == "hub"]
        wrong = [GroupComplaint(one.id, "kind", "a job has one hub") for one in hubs[1:]]
        if not hubs:
            wrong.append(GroupComplaint(peers[0].id, "kind", "a job needs a hub"))
        wrong += [
            GroupComplaint(one.id, "kind_config.size", "all of a job agree on size")
            for one in peers
            if one.kind_config["size"] != peers[0].kind_config["size"]
        ]
        return wrong


def bad_paths(config: Mapping[str, Any], above: str = "") -> list[str]:
    """Return the path of everything that is called `bad`, and of each negative entry of a list."""
    found = []
    for key, value in config.items():
        if key == "bad":
            found.append(f"{above}{key}")
        elif isinstance(value, dict):
            found += bad_paths(value, f"{above}{key}.")
        elif isinstance(value, list):
            found += [f"{above}{key}[{place}]" for place, item in enumerate(value) if item < 0]
    return found


class JobKinds:
    """Two kinds of one group, and one that stands alone; `lonely` reads no table."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._kinds: dict[str, HostKind] = {
            "hub": Job("hub", accepts_worker_exit=False),
            "hand": Job("hand", accepts_worker_exit=False),
            "lonely": FakeKind("lonely", accepts_worker_exit=False),
        }

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._kinds))

    def get(self, name: str) -> HostKind | None:
        self.asked.append(name)
        return self._kinds.get(name)


JOB = TOP + peer("h", "hub") + peer("w", "hand") + peer("x", "lonely")


def loaded(text: str, **more: Any) -> Scenario:
    return loads(text, JobKinds(), name="x.toml", **more)


def configs(scenario: Scenario) -> dict[str, dict[str, Any]]:
    return {one.id: one.kind_config for one in scenario.peers}


def refused(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ScenarioError) as refusal:
        loaded(text)
    return [(problem.field, problem.rule) for problem in refusal.value.problems]


LEAVES = st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2)
TREES = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        LEAVES, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3), max_leaves=5
    ),
    max_size=3,
)


def leaves(tree: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return every leaf by its path; a list is a leaf."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {where: leaf for key, value in tree.items() for where, leaf in leaves(value, (*path, key)).items()}


@given(table=TREES, own=TREES)
def test_own_leaves_win(table: dict[str, Any], own: dict[str, Any]) -> None:
    """The table is merged under a `kind_config`: each leaf is the peer's own, or the table's where the peer says nothing."""
    head = tomli_w.dumps({"job": table})
    text = (
        TOP + peer("x", "hub", tomli_w.dumps({"kind_config": own}).replace("[kind_config", "[peers.kind_config")) + head
    )
    merged = loaded(text)
    ours, theirs = leaves(own), leaves(table)

    def overruled(path: tuple[str, ...]) -> bool:
        return any(path[: len(other)] == other or other[: len(path)] == path for other in ours)

    expected = {path: leaf for path, leaf in theirs.items() if not overruled(path)} | ours
    assert leaves(configs(merged)["x"]) == {("size",): 1} | expected
    assert loaded(emit(merged)) == merged


def test_a_table_is_merged_under_its_peers_alone() -> None:
    """Both kinds of the group get it, another kind does not; resolved, it stands in each `kind_config` (B5)."""
    text = JOB + "[job]\nsize = 4\n[job.data]\nrows = [1, 2]\n"
    scenario = loaded(text)
    shared = {"size": 4, "data": {"rows": [1, 2]}}
    assert configs(scenario) == {"h": shared, "w": shared, "x": {"rate": 7}}
    assert "[job" not in emit(scenario)
    assert loaded(emit(scenario)) == scenario


@pytest.mark.parametrize("table", ["[job]\nsize = 1\n", "[jobs]\nsize = 1\n"])
def test_a_table_that_no_peer_reads_is_an_unknown_key(table: str) -> None:
    """Only the tables of kinds that a scenario names are known, and a slip is guessed at as ever."""
    (unread,) = refused(TOP + peer("x", "lonely") + table)
    assert unread[0] in ("job", "jobs")
    assert unread[1].startswith("unknown field; known: name, ")
    if table.startswith("[jobs"):
        assert refused(JOB + table) == [("jobs", "unknown field; write job")]


def test_no_kind_is_looked_at_that_no_peer_names() -> None:
    """Loading a scenario asks the registry for its own kinds only: the others may be slow to import."""
    kinds = JobKinds()
    loads(TOP + peer("x", "lonely"), kinds)
    assert dict.fromkeys(kinds.asked) == {"lonely": None}


def test_a_table_must_be_a_table_and_is_not_missed_then() -> None:
    """L25: the peers of a table that cannot be read are not judged without it."""
    assert refused("job = 3\n" + JOB.replace('id = "w"', 'id = "w"\nkind_config.bad = 1')) == [
        ("job", "must be a table, not an integer")
    ]


def test_a_mistake_in_the_table_is_one_mistake() -> None:
    """L17: reported once and at the table, however many peers it is merged under; a peer's own mistake is reported at the peer."""
    table = "[job]\nbad = 1\nrows = [1, -1]\n[job.data]\nbad = 2\n"
    assert refused(JOB + table) == [
        ("job.bad", "bad is bad"),
        ("job.rows[1]", "rows[1] is bad"),
        ("job.data.bad", "data.bad is bad"),
    ]
    own = TOP + peer("h", "hub", "kind_config.rows = [-4]\nkind_config.data.bad = 3") + peer("w", "hand")
    assert refused(own + "[job]\nrows = [1]\n[job.data]\nother = 2\n") == [
        ("peers[0].kind_config.rows[0]", "rows[0] is bad"),
        ("peers[0].kind_config.data.bad", "data.bad is bad"),
    ]


def test_tables_of_a_chain_merge_like_any_other(tmp_path: Path) -> None:
    """§8.4: the child's leaf wins, lists append; a mistake is named in the file that makes it, with its place there."""
    tmp_path.joinpath("base.toml").write_text(JOB + "[job]\nsize = 4\nrows = [1, -2]\nkept = 9\n", "utf-8")
    child = tmp_path.joinpath("child.toml")
    child.write_text('base.extends = "base.toml"\n[job]\nsize = 5\n', "utf-8")
    tmp_path.joinpath("worse.toml").write_text(
        'base.extends = "base.toml"\n[job]\nrows = [3, 4, -5]\nbad = 1\n', "utf-8"
    )
    with pytest.raises(ScenarioError) as refusal:
        load(tmp_path.joinpath("worse.toml"), JobKinds())
    found = [(Path(problem.file).name, problem.field) for problem in refusal.value.problems]
    assert sorted(found) == [("base.toml", "job.rows[1]"), ("worse.toml", "job.bad"), ("worse.toml", "job.rows[2]")]
    tmp_path.joinpath("base.toml").write_text(JOB + "[job]\nsize = 4\nrows = [1]\nkept = 9\n", "utf-8")
    assert configs(load(child, JobKinds()).scenario)["w"] == {"size": 5, "rows": [1], "kept": 9}


def test_an_option_wins_over_the_table() -> None:
    """`reconfigure` sees what a peer would run with, and has the last word."""
    seen: list[dict[str, Any]] = []

    def option(kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        seen.append({"of": kind, **raw})
        return raw if kind == "lonely" else {**raw, "size": 8}

    scenario = loaded(JOB + "[job]\nsize = 4\nother = 1\n", reconfigure=option)
    assert seen[:2] == [{"of": "hub", "size": 4, "other": 1}, {"of": "hand", "size": 4, "other": 1}]
    assert configs(scenario)["h"] == {"size": 8, "other": 1}


def test_rules_across_peers_are_mistakes_like_any_other() -> None:
    """File, field and rule: at a peer, or at the table where the peer does not say it itself; together with other mistakes."""
    assert refused(TOP + peer("x", "lonely") + peer("w", "hand")) == [("peers[1].kind", "a job needs a hub")]
    own = JOB.replace('id = "w"', 'id = "w"\nkind_config.size = 3')
    both = own + peer("g", "hub") + "[job]\nsize = 4\n" + link("w", "nobody")
    assert refused(both) == [
        ("peers[3].kind", "a job has one hub"),
        ("peers[1].kind_config.size", "all of a job agree on size"),
        ("links[0].to", "undeclared peer or relay 'nobody'"),
    ]


def test_rules_across_peers_wait_for_sound_peers() -> None:
    """L17: what follows from a mistake in one peer is not reported as a mistake of the group."""
    text = TOP + peer("h", "hub").replace('initial_state = "up"', "initial_state = 5") + peer("w", "hand")
    assert refused(text) == [("peers[0].initial_state", "must be a string, not an integer")]
