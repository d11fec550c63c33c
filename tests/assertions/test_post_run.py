"""The authoritative verdicts (§10.2): from a bundle on disk."""

from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.assertions.post_run import evaluate, write_verdicts
from simharness.bundle.digest import bundle_digest
from simharness.bundle.reader import Bundle
from simharness.contracts import assertions as kinds
from simharness.contracts.assertions import Assertion
from simharness.contracts.mutations import kind_of
from simharness.contracts.records import Termination
from simharness.contracts.scenario import PeerDecl
from simharness.core.errors import InputError
from tests.assertions.strategies import ASSERTIONS, CAST, runs
from tests.assertions.support import PEERS, Run, afterwards, bundle, cited, scenario, toml

END = Termination(reason="duration", at_ns=60)
SOME = (
    kinds.AllAliveAt(at_ns=10, peers=("a", "b")),
    kinds.EventCount(event_kind="tick", min=1),
    kinds.EventCount(event_kind="tick", max=1),
    kinds.SelfIncarnationBounded(peer="c", max_value=3),
)
RUN = Run().event(1, "a", "tick").snaps(2, "a", "b", b="Suspect").event(3, "a", "tick")


@pytest.mark.spec("§10.5", "Verdict shape")
@settings(max_examples=30)
@given(run=runs(), assertions=st.lists(ASSERTIONS, min_size=1, max_size=4), peers=CAST)
def test_verdict_shape(run: Run, assertions: list[Assertion], peers: tuple[PeerDecl, ...]) -> None:
    """Every verdict has the five keys of §10.2 and perhaps a note (J8); a Fail's evidence names a line or a file with that time."""
    with TemporaryDirectory() as place:
        made = bundle(Path(place, "out"), scenario(assertions, peers), run.records, END)
        lines = [orjson.loads(line) for line in made.lines()]
        verdicts = made.verdicts
        assert verdicts is not None
        for number, (verdict, assertion) in enumerate(zip(verdicts, assertions, strict=True)):
            assert [key for key in verdict if key != "note"] == ["name", "kind", "parameters", "outcome", "evidence"]
            assert "note" not in verdict or list(verdict)[-1] == "note"
            assert verdict["name"] == f"a{number}"
            assert verdict["kind"] == verdict["parameters"]["kind"] == kind_of(assertion)
            assert verdict["outcome"] in ("Pass", "Fail", "Inconclusive")
            assert verdict["evidence"] or verdict["outcome"] != "Fail"
            for item in verdict["evidence"]:
                path, _, line = item["event_or_snapshot_ref"].partition(":")
                if line:
                    assert lines[int(line)]["virtual_time_ns"] == item["virtual_time_ns"]
                elif path != "events.ndjson":
                    data = orjson.loads(made.root.joinpath(path).read_bytes())
                    assert data["virtual_time_ns"] == item["virtual_time_ns"]
        judged = tuple(cited(verdict, run.records) for verdict in evaluate(made))
        assert judged == afterwards(scenario(assertions, peers), run.records, END)


def test_the_file(tmp_path: Path) -> None:
    """Indented JSON without a final newline; the references count lines and snapshot numbers from 0."""
    made = bundle(tmp_path / "out", scenario(SOME), RUN.records, END)
    text = (made.root / "verdicts.json").read_text()
    assert text.startswith('[\n  {\n    "name": "a0",\n    "kind": "all_alive_at",\n    "parameters": {')
    assert text.endswith("]")
    verdicts = made.verdicts
    assert verdicts is not None
    assert [verdict["outcome"] for verdict in verdicts] == ["Fail", "Pass", "Fail", "Inconclusive"]
    assert verdicts[0]["evidence"] == [{"virtual_time_ns": 2, "event_or_snapshot_ref": "snapshots/a/0.json"}]
    assert verdicts[2]["evidence"] == [{"virtual_time_ns": 3, "event_or_snapshot_ref": "events.ndjson:1"}]
    assert verdicts[2]["parameters"] == {"kind": "event_count", "event_kind": "tick", "max": 1}


@pytest.mark.spec("§10.5", "Verdict order is scenario-declared")
@given(order=st.permutations(range(len(SOME))))
def test_verdict_order(order: list[int]) -> None:
    """The verdicts stand in the order of the assertions, whenever each became final."""
    judged = afterwards(scenario(SOME), RUN.records, END)
    shuffled = afterwards(scenario(SOME[place] for place in order), RUN.records, END)
    assert shuffled == tuple(judged[place] for place in order)


def test_evaluating_again_changes_nothing(tmp_path: Path) -> None:
    """The verdicts come from the bundle alone, so a second evaluation writes the same bytes."""
    made = bundle(tmp_path / "out", scenario(SOME), RUN.records, END)
    before, digest = (made.root / "verdicts.json").read_bytes(), bundle_digest(made.root)
    (made.root / "verdicts.json").unlink()
    write_verdicts(made)
    assert (made.root / "verdicts.json").read_bytes() == before
    assert bundle_digest(made.root) == digest
    assert made.verify() == ()


def test_no_host_kind_is_asked(tmp_path: Path) -> None:
    """Ruling B8: a bundle of a kind that is not installed is judged all the same."""
    strange = (PeerDecl(id="a", kind="never-heard-of", initial_state="odd", kind_config={"x": [1]}),)
    run = Run().event(1, "a", "tick", "never-heard-of")
    made = bundle(
        tmp_path / "out", scenario((kinds.SelfIncarnationBounded(peer="a", max_value=0),), strange), run.records, END
    )
    assert [verdict.outcome for verdict in evaluate(made)] == ["Pass"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("x = ", "Invalid value"),
        ("", "missing required field `default_tick`"),
        ("x = " + "[" * 3000, "nested too deeply"),
        (toml(scenario(())) + '[[assertions]]\nkind = "no_such"\n', "Invalid value 'no_such'"),
        (
            toml(scenario(())) + '[[assertions]]\nkind = "all_alive_at"\nat_ns = 1.5\npeers = []\n',
            "Expected `int`, got `float`",
        ),
    ],
)
def test_a_malformed_scenario_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    """One line says what is wrong with the bundle's scenario.toml."""
    made = bundle(tmp_path / "out", scenario(()), [], END)
    text = text.replace("assertions = []\n", "")
    (made.root / "scenario.toml").write_text(text)
    with pytest.raises(InputError) as refusal:
        evaluate(Bundle(made.root))
    assert rule in refusal.value.problem.rule
    assert "\n" not in refusal.value.problem.rule


def test_a_malformed_termination_is_refused(tmp_path: Path) -> None:
    """Without its end a run cannot be judged."""
    made = bundle(tmp_path / "out", scenario(()), [], END)
    manifest = made.root / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"at_ns": 60', b'"at_ns": "60"'))
    with pytest.raises(InputError, match=r"termination\.at_ns"):
        evaluate(Bundle(made.root))


def test_foreign_payloads_do_not_crash(tmp_path: Path) -> None:
    """A host kind may use a known event kind with other fields; then there is nothing to see."""
    run = (
        Run()
        .event(1, "a", "SwimTransition", peer=["b"])
        .event(1, "a", "SwimTransition", peer="b")
        .event(2, "a", "MessageSent")
    )
    run.event(2, "a", "SwimIncarnationBumped").event(3, "a", "Mutation", mutation=3).event(
        4, "a", "RelayEnqueue", relay="R"
    )
    run.event(5, "a", "SwimProbeAcked").event(6, "s", "stage_lifecycle").event(7, "a", "x", kind_tag="y")
    window = {"window_start_ns": 0, "window_end_ns": 9}
    assertions = (
        kinds.AllAliveThroughout(peers=("a", "b"), **window),
        kinds.NoFlapWhileProbesOk(peer="b", **window),
        kinds.MessageSizeBounded(message_kind="None", max_bytes=0),
        kinds.RelayQueueDepthBounded(relay="R", max_bytes=0),
        kinds.WorkerAliveThroughout(peer="s", **window),
        kinds.DeadPeerResurrectsWithin(peer="b", after_ns=0, within_ns=9),
    )
    assert len(evaluate(bundle(tmp_path / "out", scenario(assertions, PEERS), run.records, END))) == 6
