"""`eval`, `replay` and `diff`: what they find in bundles that are whole, changed or damaged."""

import hashlib
import shutil

import orjson
import pytest

from simharness.hosts.echo import EchoKind
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


@pytest.mark.parametrize("broken", [b"[1", b"", b"{}", b"\xff", None])
def test_eval_needs_no_old_verdicts(simharness: Terminal, broken: bytes | None) -> None:
    """`eval` writes a malformed or absent `verdicts.json` anew; to `replay` and `diff` it is a difference."""
    bundle = simharness.bundle("x", HOLDS)
    shutil.copytree(simharness.directory.joinpath(bundle), simharness.directory.joinpath("whole"))
    file = simharness.directory.joinpath(bundle, "verdicts.json")
    good = file.read_bytes()
    file.unlink()
    if broken is not None:
        file.write_bytes(broken)
    assert [simharness(*argv).code for argv in (("replay", bundle), ("diff", bundle, "whole"))] == [1, 1]
    said = simharness("eval", bundle)
    assert said.code == 0
    assert file.read_bytes() == good
    assert ("could not be read" in said.out) is (broken is not None)
    assert simharness("eval", bundle, "--json").json["changed"] is False
    if broken is not None:
        file.write_bytes(broken)
        assert simharness("eval", bundle, "--json").json["changed"] is True
    assert [simharness(*argv).code for argv in (("replay", bundle), ("diff", bundle, "whole"))] == [0, 0]


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
    assert said.code == 2
    assert said.err.startswith("file: place")
    assert said.out == ""
    assert "Traceback" not in said.err
    assert simharness.tree() == before


def test_replay_refuses_a_partial_bundle(simharness: Terminal) -> None:
    """Its cut is no part of the scenario: said so, instead of a difference (ruling C11)."""
    simharness.write("x.toml", HOLDS)
    assert simharness("run", "x.toml", "--out", "x", "--max-dispatches", "20", "--keep-partial").code == 4
    said = simharness("replay", "x")
    assert (said.code, "this bundle is partial" in said.err) == (2, True)


@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")])
@pytest.mark.parametrize("damage", ["manifest.json", "scenario.toml", "no manifest"])
def test_diff_refuses_a_bundle_that_does_not_know_itself(
    simharness: Terminal, order: tuple[str, str], damage: str
) -> None:
    """Equal events are no equal bundles where the manifest is gone, is no JSON, or is another scenario's (ruling C11)."""
    simharness.bundle("good", HOLDS)
    simharness.bundle("bad", HOLDS)
    file = simharness.directory.joinpath("bad", damage.replace("no manifest", "manifest.json"))
    if damage == "no manifest":
        file.unlink()
    else:
        file.write_text("x = 1" + file.read_text())
    said = simharness("diff", *order)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"file: bad/{file.name}\n")


def test_a_missing_snapshot_is_named(simharness: Terminal) -> None:
    """The first number that is missing, and not only how files are named."""
    simharness.bundle("x", "[[snapshots]]\nat_ns = 1\n", "[[snapshots]]\nat_ns = 2\n")
    simharness.directory.joinpath("x/snapshots/a/0.json").unlink()
    said = simharness("eval", "x")
    assert (said.code, said.err.splitlines()[0]) == (2, "file: x/snapshots/a")
    assert "0.json is missing" in said.err


@pytest.mark.parametrize(
    ("kind", "remark"),
    [
        ("EchoRecieved", ": was EchoReceived meant?"),
        ("DropOnSent", ": was DropOnSend meant?"),
        ("Spread", ", and no host of this scenario records such a thing"),
        ("EchoReceived", None),
        ("EchoFailed", None),
        ("DropOnDelivery", None),
    ],
)
def test_a_pass_by_absence_says_so(simharness: Terminal, kind: str, remark: str | None) -> None:
    """A bound on a kind that nobody is known to record is a Pass with a remark; on one that could have been, without (C10)."""
    bound = f'[[assertions]]\nkind = "event_count"\nevent_kind = "{kind}"\nmax = 5_000\n'
    said = simharness("run", simharness.write("x.toml", bound), "--out", "x")
    assert said.code == 0
    for text in (said.out, simharness("eval", "x").out):
        remarks = [line.strip() for line in text.splitlines() if "occurred at all" in line]
        assert remarks == ([] if remark is None else [f"no {kind} occurred at all{remark}"])


def test_a_kind_that_lists_no_events_leaves_it_open(simharness: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but a host knows which kinds it may write: where it does not say, the remark asks (ruling C10)."""
    monkeypatch.delattr(EchoKind, "event_kinds")
    bound = '[[assertions]]\nkind = "event_count"\nevent_kind = "Spread"\nmax = 0\n'
    said = simharness("run", simharness.write("x.toml", bound), "--out", "x")
    assert (said.code, "no Spread occurred at all: is that how it is spelt?" in said.out) == (0, True)


@pytest.mark.parametrize("kind", ["all_alive_at", "all_alive_throughout", "convergence_after"])
def test_one_peer_alone_is_judged_by_nothing(simharness: Terminal, kind: str) -> None:
    """What peers hold of each other needs two of them (ruling L23)."""
    times = {"all_alive_at": "at_ns = 5", "convergence_after": "after_ns = 0\nwithin_ns = 5"}
    rule = times.get(kind, "window_start_ns = 0\nwindow_end_ns = 5")
    text = f'[[assertions]]\nkind = "{kind}"\n{rule}\npeers = ["a"]\n'
    said = simharness("check", simharness.write("x.toml", text))
    assert (said.code, said.err.splitlines()[1]) == (2, "field: assertions[0].peers")
    assert simharness("check", simharness.write("y.toml", text.replace('"a"', '"a", "b"'))).code == 0


def test_shrink_overwrites_nothing_of_others(simharness: Terminal) -> None:
    """An existing file stays, unless an earlier shrink wrote it (ruling C11); a file that passes is named by its path."""
    file = simharness.write("x.toml", BREAKS)
    mine = simharness.directory.joinpath("mine.toml")
    mine.write_text("mine")
    said = simharness("shrink", file, "--out", "mine.toml", "--most-runs", "2")
    assert (said.code, mine.read_text()) == (2, "mine")
    assert "was not written by shrink" in said.err
    assert simharness("shrink", file, "--out", file).code == 2
    assert simharness("shrink", file, "--out", "mine.toml/x").code == 2
    for _ in range(2):
        assert simharness("shrink", file, "--out", "new.toml", "--most-runs", "2").code in (0, 3)
    said = simharness("shrink", simharness.write("good.toml", HOLDS), "--out", "other.toml")
    assert said.err.startswith("file: good.toml\nfield: assertions\n")
