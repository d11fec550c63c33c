"""`eval`, `replay` and `diff`: what they find in bundles that are whole, changed or damaged."""

import hashlib

import orjson
import pytest

from tests.cli.support import BREAKS, HOLDS, Terminal


def _tamper(simharness: Terminal, bundle: str) -> None:
    """Change one event and the manifest's hash with it, so that only a replay can tell."""
    root = simharness.directory.joinpath(bundle)
    events = root.joinpath("events.ndjson")
    changed = events.read_bytes().replace(b'"number":2', b'"number":7', 1)
    assert changed != events.read_bytes()
    events.write_bytes(changed)
    manifest = orjson.loads(root.joinpath("manifest.json").read_bytes())
    manifest["events_ndjson_sha256"] = hashlib.sha256(changed).hexdigest()
    root.joinpath("manifest.json").write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))


def test_replay_gives_the_same_digest(simharness: Terminal) -> None:
    """A bundle replays alone, from its own scenario, with nothing left behind."""
    bundle = simharness.bundle("x", HOLDS, loss_ppm=100_000)
    simharness.directory.joinpath("x.toml").unlink()
    before = simharness.tree()
    said = simharness("replay", bundle)
    assert said.code == 0
    assert said.out.startswith("replayed to the same digest ")
    assert simharness.tree() == before


def test_replay_detects_a_changed_bundle(simharness: Terminal) -> None:
    """A forged event exits with 1 and is shown beside what the scenario really gives."""
    bundle = simharness.bundle("x", HOLDS)
    _tamper(simharness, bundle)
    said = simharness("replay", bundle)
    assert said.code == 1
    assert said.out.startswith("first difference at events.ndjson:")
    assert any(line.startswith("- ") and '"number":7' in line for line in said.out.splitlines())
    assert any(line.startswith("+ ") and '"number":2' in line for line in said.out.splitlines())


@pytest.mark.parametrize("name", ["events.ndjson", "scenario.toml"])
@pytest.mark.parametrize("command", ["eval", "replay"])
def test_a_damaged_file_is_refused(simharness: Terminal, command: str, name: str) -> None:
    """A file that does not agree with its hash is bad input, named, and the bundle is left as it is."""
    bundle = simharness.bundle("x", HOLDS)
    file = simharness.directory.joinpath(bundle, name)
    file.write_bytes(file.read_bytes() + b"\n")
    before = simharness.tree()
    said = simharness(command, bundle)
    assert said.code == 2
    assert f"x/{name}\n" in said.err
    assert "hash" in said.err
    assert simharness.tree() == before


def test_diff_shows_the_first_divergence_with_context(simharness: Terminal) -> None:
    """Exit code 1, the line's number, what both have before it, what each has from there; 0 for equal bundles."""
    one, two = simharness.bundle("one"), simharness.bundle("two")
    assert simharness("diff", one, two) == (0, "events, snapshots and verdicts are equal\n", "")
    _tamper(simharness, two)
    lines = (simharness.tree()["one/events.ndjson"] or b"").decode().splitlines()
    for context in (1, 3):
        found = simharness("diff", one, two, "--context", str(context), "--json").json["divergence"]
        number = int(found["place"].removeprefix("events.ndjson:"))
        assert '"number":2' in lines[number]
        assert found["before"] == lines[number - context : number]
        assert found["left"] == lines[number : number + 1 + context]
        assert found["right"][0] == lines[number].replace('"number":2', '"number":7')
    assert simharness("diff", one, two).code == 1


def test_diff_finds_a_difference_in_verdicts_alone(simharness: Terminal) -> None:
    """Equal events under other assertions differ in `verdicts.json`."""
    simharness.bundle("one", HOLDS)
    simharness.bundle("two", BREAKS)
    said = simharness("diff", "one", "two")
    assert said.code == 1
    assert said.out.startswith("first difference at verdicts.json:")


def test_eval_says_when_verdicts_change(simharness: Terminal) -> None:
    """`eval` rewrites `verdicts.json` from the events and tells whether that changed it."""
    bundle = simharness.bundle("x", HOLDS)
    file = simharness.directory.joinpath(bundle, "verdicts.json")
    right = file.read_bytes()
    said = simharness("eval", bundle)
    assert "differ" not in said.out
    assert file.read_bytes() == right
    file.write_bytes(right.replace(b'"Pass"', b'"Fail"'))
    said = simharness("eval", bundle)
    assert said.code == 0
    assert "the verdicts differ from those that stood in the bundle" in said.out
    assert file.read_bytes() == right
    file.unlink()
    assert simharness("eval", bundle, "--json").json["changed"] is False
    assert file.read_bytes() == right


@pytest.mark.parametrize("argv", [("eval", "{}"), ("replay", "{}"), ("diff", "{}", "good"), ("diff", "good", "{}")])
@pytest.mark.parametrize("what", ["missing", "file", "empty", "foreign", "torn"])
def test_what_is_no_bundle_is_refused(simharness: Terminal, argv: tuple[str, ...], what: str) -> None:
    """A missing path, a file, an empty or foreign directory, a manifest that is no JSON: exit code 2, nothing touched."""
    simharness.bundle("good", HOLDS)
    place = simharness.directory.joinpath("place")
    if what == "file":
        place.write_text("text")
    elif what != "missing":
        place.mkdir()
    if what == "foreign":
        place.joinpath("notes.txt").write_text("mine")
    elif what == "torn":
        for name in ("events.ndjson", "scenario.toml"):
            place.joinpath(name).write_bytes(simharness.tree()[f"good/{name}"] or b"")
        place.joinpath("manifest.json").write_text("{")
        place.joinpath("snapshots").mkdir()
    before = simharness.tree()
    said = simharness(*(word.format("place") for word in argv))
    if what == "torn" and argv[0] == "diff":
        assert said.code == 1, "diff reads no manifest; the verdicts are missing"
    else:
        assert said.code == 2
        assert said.err.startswith("file: place")
        assert said.out == ""
    assert "Traceback" not in said.err
    assert simharness.tree() == before
