"""Chains of files: merge, provenance, containment (§8.4, cases L09 and L11, rulings L3, L16)."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from simharness.core.errors import Problem, ScenarioError
from simharness.scenario.loader import Loaded, load, loads
from tests.scenario.support import BASE, HEAD, KINDS, LINK, TICK, TOP, broken, link, mutation, peer


def base(name: str) -> str:
    return f'[base]\nextends = "{name}"\n'


def tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write files under a directory called `scenarios`; return it."""
    folder = root / "scenarios"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def opened(root: Path, files: Mapping[str, str]) -> Loaded:
    """Load `x.toml` of a tree."""
    return load(tree(root, files) / "x.toml", KINDS)


def refused(root: Path, files: Mapping[str, str]) -> list[Problem]:
    """Return why `x.toml` of a tree is refused, with files named relative to the tree."""
    folder = tree(root, files)
    with pytest.raises(ScenarioError) as caught:
        load(folder / "x.toml", KINDS)
    return [
        Problem(os.path.relpath(one.file, folder), one.field, one.rule.replace(f"{folder}{os.sep}", ""))
        for one in caught.value.problems
    ]


THREE = (
    HEAD.replace("seed = 7", "seed = 1")
    + TICK
    + LINK.replace("latency_ns = 20", "latency_ns = 5")
    + "".join(peer(name) for name in "abc")
)


@pytest.mark.spec("§8.4", "Merge is leaves-override, lists-append")
def test_worked_merge(tmp_path: Path) -> None:
    """L11: lists append base first, leaves of the child win, the other leaves stay, and nothing else changes."""
    child = "seed = 2\n" + base("base.toml") + "[default_link]\nloss_prob_ppm = 9\n"
    child += peer("d") + peer("e") + mutation("heal", at_ns=4)
    merged = opened(tmp_path, {"base.toml": THREE + mutation("heal"), "x.toml": child}).scenario
    flat = THREE.replace("seed = 1", "seed = 2").replace("loss_prob_ppm = 0", "loss_prob_ppm = 9")
    flat += mutation("heal") + peer("d") + peer("e") + mutation("heal", at_ns=4)
    assert merged == loads(flat, KINDS)
    assert [one.id for one in merged.peers] == ["a", "b", "c", "d", "e"]
    assert [one.at_ns for one in merged.mutations] == [5, 4]
    assert (merged.seed, merged.default_link.latency_ns, merged.default_link.loss_prob_ppm) == (2, 5, 9)


@pytest.mark.spec("§8.4", "Merge is leaves-override, lists-append")
def test_empty_list_removes_nothing(tmp_path: Path) -> None:
    """L11: a child's empty list appends nothing."""
    merged = opened(tmp_path, {"base.toml": THREE, "x.toml": "peers = []\n" + base("base.toml")}).scenario
    assert len(merged.peers) == 3


def test_grandparent_first(tmp_path: Path) -> None:
    """L11, L09: a base may extend; each level is resolved against its own file, and entries come oldest first."""
    files = {
        "x.toml": base("one/mid.toml") + peer("c"),
        "one/mid.toml": 'name = "mid"\n' + base("../two/old.toml") + peer("b"),
        "two/old.toml": THREE.replace(peer("b") + peer("c"), ""),
    }
    loaded = opened(tmp_path, files)
    assert [one.id for one in loaded.scenario.peers] == ["a", "b", "c"]
    assert loaded.scenario.name == "mid"
    assert [source.path for source in loaded.sources] == ["x.toml", "one/mid.toml", "two/old.toml"]
    assert loaded.scenario_path == "x.toml"


def test_current_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L09: `extends` resolves against the file that contains it, never against the working directory."""
    folder = tree(tmp_path, {"sub/x.toml": base("../base.toml"), "base.toml": THREE})
    tree(tmp_path / "decoy", {"base.toml": "seed = -1\n"})
    expected = load(folder / "sub" / "x.toml", KINDS)
    for place, name in (
        (folder / "sub", "x.toml"),
        (folder, "sub/x.toml"),
        (tmp_path / "decoy", "../scenarios/sub/x.toml"),
    ):
        monkeypatch.chdir(place)
        assert load(name, KINDS) == expected
    assert [source.path for source in expected.sources] == ["sub/x.toml", "base.toml"]


def test_duplicate_id_names_both_files(tmp_path: Path) -> None:
    """L11: a re-declared peer is a duplicate; the message names both files, each entry by its place in its own file."""
    (problem,) = refused(tmp_path, {"base.toml": THREE, "x.toml": base("base.toml") + peer("d") + peer("b")})
    assert problem == Problem("x.toml", "peers[1].id", "duplicate id 'b'; first declared at peers[1] of base.toml")


def test_mistakes_are_found_in_their_files(tmp_path: Path) -> None:
    """L17: a merged value is reported where it was written: leaf by leaf, entry by entry, unknown keys too."""
    parent = THREE.replace("loss_prob_ppm = 0", "loss_prob_ppm = -1") + link("a", "zed") + mutation("heal")
    child = "colour = 3\n" + base("base.toml") + "[default_link]\nlatency_ns = 1.5\n"
    child += link("a", "b") + link("a", "b") + mutation("heal", at_ns=60_001)
    found = refused(tmp_path, {"base.toml": parent.replace("seed", "sede"), "x.toml": child})
    assert [(one.file, one.field) for one in found] == [
        ("base.toml", "sede"),
        ("x.toml", "colour"),
        ("x.toml", "default_link.latency_ns"),
        ("base.toml", "default_link.loss_prob_ppm"),
        ("base.toml", "links[0].to"),
        ("x.toml", "links[1].from"),
        ("x.toml", "mutations[0].at_ns"),
    ]


def test_missing_field_is_the_entry_files(tmp_path: Path) -> None:
    """A field that no file of the chain gives is missing from the file that was asked for."""
    (problem,) = refused(tmp_path, {"base.toml": THREE.replace("seed = 1", ""), "x.toml": base("base.toml")})
    assert problem == Problem("x.toml", "seed", "missing; this field is required")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[default_link]", "[peers]", Problem("x.toml", "peers", "must be an array of tables, not a table")),
        ("[default_link]", "[[default_link]]", Problem("x.toml", "default_link", "must be a table, not an array")),
        (
            "loss_prob_ppm = 9",
            "loss_prob_ppm.x = 9",
            Problem("x.toml", "default_link.loss_prob_ppm", "is a table here and an integer in base.toml"),
        ),
    ],
)
def test_type_clash(tmp_path: Path, old: str, new: str, problem: Problem) -> None:
    """L11: a table over a scalar, or a list over a table, is one structured error."""
    child = (base("base.toml") + "[default_link]\nloss_prob_ppm = 9\n").replace(old, new)
    assert refused(tmp_path, {"base.toml": THREE, "x.toml": child}) == [problem]


def test_cycle(tmp_path: Path) -> None:
    """L16: a cycle is found by resolved path, and the message shows it from its start."""
    files = {"x.toml": base("a/../b.toml"), "b.toml": base("./c.toml"), "c.toml": base("b.toml")}
    tree(tmp_path, {"a/unused.toml": ""})
    assert refused(tmp_path, files) == [
        Problem("c.toml", "base.extends", "extends itself: b.toml -> c.toml -> b.toml"),
    ]


def test_base_that_leaves_the_tree(tmp_path: Path) -> None:
    """L16: a base outside the scenario tree is refused, there or not: absolute, by dots, or through a link."""
    folder = tree(tmp_path, {"x.toml": ""})
    (tmp_path / "outside.toml").write_text(THREE, "utf-8")
    (folder / "link.toml").symlink_to(tmp_path / "outside.toml")
    names = ["../outside.toml", "../../../../etc/hostname", "/etc/hostname", "../nothing.toml", "link.toml"]
    for name in names:
        (problem,) = refused(tmp_path, {"x.toml": base(name)})
        assert problem == Problem("x.toml", "base.extends", f"'{name}' leaves the scenario tree {folder}")


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("nope.toml", "'nope.toml' cannot be read: No such file or directory"),
        ("sub", "'sub' is not a regular file"),
        ("pipe", "'pipe' is not a regular file"),
        ("loop.toml", "'loop.toml' cannot be read: Too many levels of symbolic links"),
        ("https://example.org/x.toml", "'https://example.org/x.toml' is not the path of a file"),
        ("", "'' is not the path of a file"),
        (r"x\u0000y", r"'x\x00y' is not the path of a file"),
    ],
)
def test_base_that_is_no_file(tmp_path: Path, name: str, rule: str) -> None:
    """L09: directories, FIFOs, missing files, loops of links and URLs; the FIFO is never opened."""
    folder = tree(tmp_path, {"sub/y.toml": THREE})
    os.mkfifo(folder / "pipe")
    (folder / "loop.toml").symlink_to("loop.toml")
    assert refused(tmp_path, {"x.toml": base(name)}) == [Problem("x.toml", "base.extends", rule)]


@pytest.mark.parametrize("text", ["not toml", "", "\ufeff" + BASE])
def test_base_that_is_no_scenario(tmp_path: Path, text: str) -> None:
    """L09: a base that cannot be parsed is reported at the base, and the file that extends it is named."""
    (problem,) = refused(tmp_path, {"base.toml": text, "x.toml": base("base.toml")})
    assert (problem.file, problem.field) == ("base.toml", "(root)")
    assert problem.rule.endswith(" (extended by x.toml)")


def test_tree_is_the_nearest_scenarios_directory(tmp_path: Path) -> None:
    """L16: without an ancestor called `scenarios` the tree is the file's own directory."""
    inner = tree(tmp_path / "scenarios" / "deep", {"x.toml": base("../base.toml")})
    (inner.parent / "base.toml").write_text(THREE, "utf-8")
    with pytest.raises(ScenarioError, match="leaves the scenario tree"):
        load(inner / "x.toml", KINDS)
    inner.rename(inner.parent / "other")
    loaded = load(inner.parent / "other" / "x.toml", KINDS)
    assert [source.path for source in loaded.sources] == ["deep/other/x.toml", "deep/base.toml"]
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "x.toml").write_text(BASE, "utf-8")
    assert load(bare / "x.toml", KINDS).scenario_path == "x.toml"


def test_absolute_base_inside_the_tree(tmp_path: Path) -> None:
    """L16: containment is by place, so an absolute path into the tree is allowed."""
    folder = tmp_path / "scenarios"
    loaded = opened(tmp_path, {"base.toml": THREE, "x.toml": base(str(folder / "base.toml"))})
    assert [source.path for source in loaded.sources] == ["x.toml", "base.toml"]


def test_text_cannot_extend() -> None:
    """A scenario that is not a file has no place that `extends` could be resolved against."""
    assert broken(TOP + base("base.toml")) == [("base.extends", "a scenario that is not a file cannot extend one")]
    assert broken(BASE + "[base]\n") == []
